//! `evenkeel reproduce live`: experiments that run through the gateway, over NBD, with real clients.
//!
//! ```text
//!                  ┌─ twin: the simulator ───────────────────────────────┐
//!  scenario file ──┤                                                     ├─ within 10 % of each other?
//!                  └─ rig: Server, emulated disk, real time ─ NBD ─ fio, ┘
//!                                                                  player
//! ```
//! They take a minute of real time, need fio, and do not repeat to the byte: `all` leaves them out unless
//! `--live` is given. The experiments' crate may not know the gateway, so they are here.

use evenkeel_experiments::Experiment;

mod files;
mod fio;
mod nested;
mod pclock;
pub(crate) mod player;
mod rig;

/// Every live experiment, in the order of the papers.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        id: "pclock-fig13",
        title: "Live: a paced client keeps its rate and latency, its neighbour takes the spare",
        source: "pClock, section 5.2 and figure 13",
        quick: false,
        run: pclock::figure_13,
    },
    Experiment {
        id: "pclock-table3",
        title: "Live: web servers 1:2, mail servers 1:2, a database beside a web server",
        source: "pClock, section 5.2 and table 3",
        quick: false,
        run: pclock::table_3,
    },
    Experiment {
        id: "nested-fig4.10-4.14",
        title: "Live: two server traces under graduated classes and under pClock",
        source: "Nested QoS, section 4.5 and figures 4.10 to 4.14",
        quick: false,
        run: nested::run,
    },
];

/// Whether `experiment` is one of them.
pub(crate) fn is_live(experiment: &Experiment) -> bool {
    EXPERIMENTS.iter().any(|live| live.id == experiment.id)
}
