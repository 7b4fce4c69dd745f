//! `cargo xtask`: set-up, tests and benchmarks of the workspace.
//!
//! ```text
//!  test   install ─> steps (format, clippy, docs, tests, fuzzing) ─> N passed, N failed
//!  bench  server (pinned) <── NBD over a Unix socket ── fio (pinned) ─> medians, ratios, bars
//! ```

mod bench;
mod install;
mod test;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What a task gives back: success, or a sentence for the person who ran it.
type Outcome<T> = Result<T, String>;

/// Set-up, tests and benchmarks of the Evenkeel workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_version_flag = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run everything that must pass: format, clippy, docs, unit, property and end-to-end tests, fuzzing.
    ///
    /// First installs the programs that the end-to-end tests use, where it may (root, with apt-get).
    /// Where it may not, it says which tests will be skipped; with CI=true in the environment a missing
    /// program is a failure instead. Ends with a line `N passed, N failed` that counts the steps.
    Test(test::Options),
    /// Measure against other servers. Needs fio; every figure is a ratio of one run on this machine.
    #[command(subcommand)]
    Bench(Bench),
}

#[derive(Subcommand)]
enum Bench {
    /// The data path: I/Os per second, latency and server CPU per I/O, beside qemu-nbd and nbdkit.
    ///
    /// One server at a time, in alternation, pinned to one core with the client on another, all on the
    /// same file in the page cache. Prints medians of the rounds. Exit code 0 if everything ran,
    /// whether or not the bar was met; the bar's verdict is printed.
    Nbd(bench::nbd::Options),
    /// Isolation: a paced and a bursting victim beside an aggressor, on an emulated slow device.
    ///
    /// Under pclock, under fcfs, and beside nbdkit without QoS on a device of the same speed.
    /// Exit code 0 if everything ran, whether or not the bars were met; the verdicts are printed.
    Isolation(bench::isolation::Options),
    /// The hybrid store's map: 4 KiB random reads, all from the fast device, beside the plain file backend.
    ///
    /// Exit code 0 if everything ran, whether or not the bar was met; the verdict is printed.
    Hybrid(bench::hybrid::Options),
    /// The audit log: requests per second with and without it, by turns.
    ///
    /// Exit code 0 if the log costs less than 5 % of the requests per second.
    Audit(bench::audit::Options),
    /// The scheduling core: time, instructions, allocations and memory of every scheduler.
    ///
    /// One process per figure, repeated in rounds and alternated with a peer if one is given; the least
    /// of each is printed, which is what a busy machine spoils least. Exit code 0 if everything ran.
    Core(bench::core::Options),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Test(options) => test::run(&options),
        Task::Bench(Bench::Nbd(options)) => bench::nbd::run(&options).map(|()| true),
        Task::Bench(Bench::Hybrid(options)) => bench::hybrid::run(&options).map(|()| true),
        Task::Bench(Bench::Audit(options)) => bench::audit::run(&options),
        Task::Bench(Bench::Core(options)) => bench::core::run(&options).map(|()| true),
        Task::Bench(Bench::Isolation(options)) => bench::isolation::run(&options).map(|()| true),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
