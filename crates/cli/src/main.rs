//! `evenkeel`: the one binary.
//!
//! ```text
//!  arguments ──> commands ──┬─ check   does the file make sense, do the promises fit?
//!                           ├─ config  what does a file look like?
//!                           ├─ schedulers  which are there?
//!                           ├─ trace   look at traces, change and make them
//!                           ├─ plan    what to promise, what it needs, what to relax
//!                           ├─ audit, explain  who kept the agreement, and whose doing was it
//!                           ├─ device  which drives are there, what is one like?
//!                           ├─ hybrid  a store of a fast and a slow device: make it, look after it
//!                           ├─ calibrate  what does a device give?
//!                           ├─ replay  does the engine do the same again?
//!                           ├─ serve   run the gateway
//!                           ├─ simulate  what would happen?
//!                           ├─ compare  what would happen under each scheduler?
//!                           ├─ reproduce  the papers' experiments; live ones through the gateway
//!                           ├─ play    a trace against an NBD server
//!                           └─ demo    see what scheduling does
//! ```

use std::process::ExitCode;

mod admission;
mod client;
mod commands;
mod demo;
mod live;
mod report;
mod serve;
mod simulate;
mod text_table;

fn main() -> ExitCode {
    ExitCode::from(commands::run())
}
