//! `cargo xtask test`: everything that must pass, step by step.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};
use std::{fs, io};

use clap::Args;

use crate::{Outcome, install, workspace};

/// Choices of `cargo xtask test`.
#[derive(Args)]
pub(crate) struct Options {
    /// Only format, clippy and the tests without end-to-end runs: no docs, no fuzzing.
    #[arg(long)]
    quick: bool,
    /// Never install packages; missing programs skip their tests.
    #[arg(long)]
    no_install: bool,
    /// Seconds for each fuzz target.
    #[arg(long, default_value_t = 10, value_name = "N")]
    fuzz_seconds: u32,
}

/// One command that must succeed.
struct Step {
    name: String,
    folder: PathBuf,
    /// Folders that must be there, within `folder`.
    subfolders: Vec<String>,
    environment: Vec<(&'static str, String)>,
    /// A fuzz target: its folder's cargo configuration has flags of its own, so `RUSTFLAGS` is left out
    /// of the environment; its chatter is shown only if it fails.
    fuzz: bool,
    /// What to run; the first word is the program.
    words: Vec<String>,
}

/// Runs the steps, all of them even if one fails; `Ok(false)` if one failed.
pub(crate) fn run(options: &Options) -> Outcome<bool> {
    if !options.quick {
        install::ensure(!options.no_install)?;
    }
    let steps = steps(options);
    let mut failed = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        println!("\n[{}/{}] {}: {}", number + 1, steps.len(), step.name, step.command_line());
        let start = Instant::now();
        let passed = step.run();
        println!("{} {} ({})", if passed { "ok:" } else { "FAILED:" }, step.name, seconds(start.elapsed()));
        if !passed {
            failed.push(step);
        }
    }
    println!();
    for step in &failed {
        println!("failed: {}; run it alone: {}", step.name, step.command_line());
    }
    println!("{} passed, {} failed", steps.len() - failed.len(), failed.len());
    Ok(failed.is_empty())
}

fn steps(options: &Options) -> Vec<Step> {
    let mut steps = vec![
        Step::cargo("format", "fmt --all --check"),
        Step::cargo("clippy", "clippy --workspace --all-targets --quiet -- -D warnings"),
    ];
    if !options.quick {
        let mut docs = Step::cargo("docs", "doc --workspace --no-deps --quiet");
        docs.environment.push(("RUSTDOCFLAGS", "-D warnings".into()));
        steps.push(docs);
    }
    // Always --workspace with a choice of targets: the same features, hence one build for all.
    steps.push(Step::cargo("unit and property tests", "test --workspace --lib --bins --quiet"));
    if options.quick {
        steps.push(Step::cargo("house rules", "test --package xtask --tests --quiet"));
        return steps;
    }
    steps.push(Step::cargo("examples in the docs", "test --workspace --doc --quiet"));
    // Each file of tests by itself, one after another: the timed ones want the machine for themselves.
    steps.push(Step::cargo("end-to-end tests and house rules", "test --workspace --test * --no-fail-fast"));
    steps.extend(fuzz_steps(options.fuzz_seconds));
    steps
}

/// One step for each target in `fuzz/`: `fuzz_targets/NAME.rs` is a program NAME of that package.
fn fuzz_steps(seconds: u32) -> Vec<Step> {
    let folder = workspace::root().join("fuzz");
    let Ok(entries) = folder.join("fuzz_targets").read_dir() else { return Vec::new() };
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.path().file_stem()?.to_str().map(str::to_owned)).collect();
    names.sort();
    names.into_iter().map(|name| Step::fuzz(&name, &folder, seconds)).collect()
}

impl Step {
    fn cargo(name: &str, arguments: &str) -> Self {
        Self {
            name: name.into(),
            folder: workspace::root(),
            subfolders: Vec::new(),
            environment: Vec::new(),
            fuzz: false,
            words: std::iter::once("cargo").chain(arguments.split(' ')).map(str::to_owned).collect(),
        }
    }

    /// The command of `fuzz/README.md`, for a bounded time.
    fn fuzz(target: &str, folder: &Path, seconds: u32) -> Self {
        let arguments = format!(
            "run --release --locked --quiet --bin {target} -- -max_total_time={seconds} -max_len=4096 -timeout=5 \
             -rss_limit_mb=512 -verbosity=0 -print_final_stats=1 -artifact_prefix=artifacts/{target}- \
             corpus/{target} seeds/{target}"
        );
        let mut step = Self::cargo(&format!("fuzz {target} for {seconds} s"), &arguments);
        step.folder = folder.into();
        step.subfolders = vec![format!("corpus/{target}"), "artifacts".into()];
        step.fuzz = true;
        step
    }

    /// The command as one would type it in the workspace's folder.
    fn command_line(&self) -> String {
        let mut text = String::new();
        if let Ok(folder) = self.folder.strip_prefix(workspace::root())
            && folder != Path::new("")
        {
            text += &format!("cd {} && ", folder.display());
        }
        if !self.subfolders.is_empty() {
            text += &format!("mkdir -p {} && ", self.subfolders.join(" "));
        }
        for (key, value) in &self.environment {
            text += &format!("{key}='{value}' ");
        }
        let words: Vec<_> = self.words.iter().map(|word| quoted(word)).collect();
        text + &words.join(" ")
    }

    fn run(&self) -> bool {
        let program = if self.words[0] == "cargo" { workspace::cargo() } else { (&self.words[0]).into() };
        for folder in &self.subfolders {
            if let Err(error) = fs::create_dir_all(self.folder.join(folder)) {
                println!("{folder}: {error}");
                return false;
            }
        }
        let mut command = Command::new(program);
        command.args(&self.words[1..]).current_dir(&self.folder);
        command.envs(self.environment.iter().map(|(key, value)| (key, value)));
        let status = if self.fuzz { run_quietly(&mut command) } else { command.status() };
        match status {
            Ok(status) => status.success(),
            Err(error) => {
                println!("{} did not start: {error}", self.words[0]);
                false
            }
        }
    }
}

/// Shows what the command said only if it failed; of libFuzzer's statistics one line otherwise.
fn run_quietly(command: &mut Command) -> io::Result<ExitStatus> {
    let output = command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS").output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        text.lines().filter(|line| line.contains("executed_units")).for_each(|line| println!("{line}"));
    } else {
        println!("{text}");
    }
    Ok(output.status)
}

fn quoted(word: &str) -> String {
    if word.contains(['*', ' ', '\'']) { format!("'{word}'") } else { word.into() }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
