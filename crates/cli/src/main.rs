//! `evenkeel`: the one binary.
//!
//! ```text
//!  arguments ──> commands ──┬─ check   does the file make sense, do the promises fit?
//!                           ├─ config  what does a file look like?
//!                           ├─ schedulers  which are there?
//!                           ├─ device  which drives are there, what is one like?
//!                           ├─ serve   run the gateway
//!                           └─ demo    see what scheduling does
//! ```

use std::process::ExitCode;

mod client;
mod commands;
mod demo;
mod report;
mod serve;
mod text_table;

fn main() -> ExitCode {
    ExitCode::from(commands::run())
}
