//! The command line, and which module does what it asks.

use clap::{Parser, Subcommand};

mod audit;
mod audit_trace;
mod calibrate;
mod check;
mod config;
mod device;
mod hybrid;
mod plan;
mod play;
mod replay;
mod reproduce;
mod schedulers;
mod trace;

/// Shares block stores among volumes, each held to its burst, rate and latency, over NBD.
#[derive(Debug, Parser)]
#[command(name = "evenkeel", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check a configuration, and whether its promises fit what the stores can do
    Check(check::CheckArgs),
    /// Show what a configuration file looks like
    Config(config::ConfigArgs),
    /// List the schedulers that a store can use
    Schedulers(schedulers::SchedulersArgs),
    /// Look at block traces, convert, cut, scale, merge and generate them
    Trace(Box<trace::TraceArgs>),
    /// Find promises for traces, and whether promises fit
    Plan(plan::PlanArgs),
    /// Who kept the agreement, whose doing each miss was, and is the log as it was written
    Audit(audit::AuditArgs),
    /// Say in sentences what happened to a volume: throttled or slow, whose doing, what to change
    Explain(audit::ExplainArgs),
    /// List and show models of storage devices
    Device(device::DeviceArgs),
    /// Make, check, show, resize and drain a store of a fast and a slow device
    Hybrid(hybrid::HybridArgs),
    /// Measure what a device gives, and write it down as a profile
    Calibrate(Box<calibrate::CalibrateArgs>),
    /// Tell an engine again what a recorded one was told, and compare what it does
    Replay(replay::ReplayArgs),
    /// Run the gateway until it is told to stop
    Serve(crate::serve::ServeArgs),
    /// Simulate a scenario: devices, flows and what changes over time
    Simulate(crate::simulate::SimulateArgs),
    /// Simulate a scenario under several schedulers, side by side
    Compare(crate::simulate::CompareArgs),
    /// Run the papers' experiments again, and check what must hold of each
    Reproduce(reproduce::ReproduceArgs),
    /// Play a trace against an NBD server, each request at its instant
    Play(play::PlayArgs),
    /// Show three tenants on one store, without and with scheduling
    Demo(crate::demo::DemoArgs),
}

/// Does what the command line asks; the process's exit code. Wrong usage ends the process with 2.
pub(crate) fn run() -> u8 {
    match Arguments::parse().command {
        Command::Check(args) => check::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Schedulers(args) => schedulers::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Audit(args) => audit::run(&args),
        Command::Explain(args) => audit::run_explain(&args),
        Command::Device(args) => device::run(&args),
        Command::Hybrid(args) => hybrid::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Serve(args) => crate::serve::run(&args),
        Command::Simulate(args) => crate::simulate::simulate(&args),
        Command::Compare(args) => crate::simulate::compare(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Play(args) => play::run(&args),
        Command::Demo(args) => crate::demo::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
