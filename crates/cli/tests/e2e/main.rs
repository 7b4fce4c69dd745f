//! End-to-end tests: a real `evenkeel serve`, and programs that we did not write as its clients.
//!
//! Tests whose programs are missing print `skipped: …`; with CI=true they fail instead.

#[path = "../common/mod.rs"]
mod common;

mod admitting;
mod backings;
mod calibrating;
mod copying;
mod durability;
mod fio;
mod groups;
mod hostile;
mod hybrid;
mod hybrid_failure;
mod hybrid_offline;
mod listing;
mod mistakes;
mod mounting;
mod qemu;
mod shutdown;
mod writeback;
