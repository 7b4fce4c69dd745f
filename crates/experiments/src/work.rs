//! Running: scenarios of an experiment, experiments beside each other.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel_report::figure::FigureError;
use evenkeel_sim::scenario::{self, Scenario};
use evenkeel_sim::{SimError, Summary, run};

/// What all experiments of a run share.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// Real traces, where somebody has them; experiments that can use them say what they used.
    pub traces: Option<PathBuf>,
    /// The program's commit.
    pub commit: Option<String>,
}

/// Why an experiment could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// Its scenario was refused.
    #[error("{0}")]
    Scenario(String),
    /// A run failed.
    #[error(transparent)]
    Simulation(#[from] SimError),
    /// A figure could not be drawn.
    #[error(transparent)]
    Figure(#[from] FigureError),
    /// Something else, in words.
    #[error("{0}")]
    Other(String),
}

impl Context {
    /// Parses a scenario that the program carries; `name` is that of its file in `experiments/`.
    ///
    /// # Errors
    /// What is wrong with it, with file, line and key.
    pub fn scenario(&self, name: &str, text: &str) -> Result<Scenario, ExperimentError> {
        let path = Path::new("experiments").join(name);
        scenario::parse(text, &path).map_err(|error| ExperimentError::Scenario(error.to_string()))
    }

    /// Runs `scenario` once, under `scheduler`.
    ///
    /// # Errors
    /// If there is no such scheduler, or the run fails.
    pub fn run(&self, scenario: &Scenario, scheduler: &str, seed: u64) -> Result<Summary, ExperimentError> {
        let scenario = scenario
            .with_scheduler(scheduler)
            .ok_or_else(|| ExperimentError::Other(format!("there is no scheduler {scheduler}")))?;
        let options = run::Options { seed, commit: self.commit.as_deref() };
        Ok(run::run(&scenario, &options, None, &mut |_| {})?)
    }
}

/// Does `work` for every item on up to `threads` threads; the results are in the order of `items`.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    threads: NonZeroUsize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let run = || {
        while let Some((index, item)) = {
            let index = next.fetch_add(1, Ordering::Relaxed);
            items.get(index).map(|item| (index, item))
        } {
            *results[index].lock().expect("no holder of this lock panics") = Some(work(item));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.get().min(items.len()) {
            scope.spawn(run);
        }
        run();
    });
    results
        .into_iter()
        .map(|result| result.into_inner().expect("no holder panicked").expect("every item was worked on"))
        .collect()
}
