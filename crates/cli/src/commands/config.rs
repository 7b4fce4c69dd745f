//! `evenkeel config --example`: a commented file to start from.

use clap::Args;
use evenkeel_gateway::config::EXAMPLE;

use crate::report::print;

const PRINTED: u8 = 0;

/// Options of `evenkeel config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Print a commented file that shows every key; `evenkeel check` accepts it
    #[arg(long, required = true)]
    example: bool,
}

/// Prints the example; the process's exit code.
pub(crate) fn run(_: &ConfigArgs) -> u8 {
    print(EXAMPLE);
    PRINTED
}
