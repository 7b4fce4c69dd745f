//! Every table and figure of the papers, and what must hold of each.
//!
//! ```text
//!  catalogue: Experiment { id, where in the paper, quick?, run }
//!       │ run: scenarios through the simulator (run, study)
//!       v
//!  Study { tables: the paper's numbers beside ours, checks, figures, notes }
//!       │ write
//!       v
//!  ID.md  ID.svg  ID.json        reproduction.md (the book), reproduction.html
//! ```
//! A check is code: it says what must hold, whether it does, and by how much. One that does not hold stays
//! in the results with its reason, and makes the run fail. Two runs give the same bytes.
#![forbid(unsafe_code)]

use std::num::NonZeroUsize;

mod catalogue;
mod fairio;
mod jain;
mod matrix;
mod nested;
mod pclock;
pub mod study;
mod work;
pub mod write;

pub use catalogue::{all, find};
pub use study::{Check, Figure, Study, Table};
pub use work::{Context, ExperimentError};

/// One table or figure, or a group of them that the same runs show.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// Its name on the command line and of its files.
    pub id: &'static str,
    /// What it shows, in a line.
    pub title: &'static str,
    /// Where it is in the paper.
    pub source: &'static str,
    /// Whether it takes part in `--quick`: at most a few seconds.
    pub quick: bool,
    /// Runs it.
    pub run: fn(&Context) -> Result<Study, ExperimentError>,
}

impl std::fmt::Debug for Experiment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Experiment").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Runs `experiments` on up to `threads` threads; results are in their order. `progress` is told of each
/// one that is over, from any thread.
///
/// # Panics
/// If an experiment panics.
pub fn run_all(
    experiments: &[&'static Experiment],
    context: &Context,
    threads: NonZeroUsize,
    progress: &(dyn Fn(&'static Experiment) + Sync),
) -> Vec<(&'static Experiment, Result<Study, ExperimentError>)> {
    work::in_parallel(experiments, threads, |experiment| {
        let result = (experiment.run)(context);
        progress(experiment);
        (*experiment, result)
    })
}
