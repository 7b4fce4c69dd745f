//! Beyond the papers: every scheduler on every scenario, arrays, flash, and a device that loses capacity.
//!
//! ```text
//!  scenario ──> Trial { scheduler, speed of the device } ──> Summary, disk time per flow
//!     │                        │
//!     │                        └─ bisection over the speed: the capacity that a scheduler needs
//!     └─ once for each scheduler: the matrix
//! ```

use crate::Experiment;

mod arrays;
mod capacity_drop;
mod flash;
mod synthetic;
mod traces;
mod trial;

/// In the order of the book.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        id: "matrix-papers",
        title: "All schedulers on all scenarios of the papers",
        source: "beyond the papers",
        quick: false,
        run: synthetic::of_papers,
    },
    Experiment {
        id: "matrix-synthetic",
        title: "All schedulers on all scenarios that come with Evenkeel",
        source: "beyond the papers",
        quick: false,
        run: synthetic::run,
    },
    Experiment {
        id: "matrix-traces",
        title: "All schedulers on block traces beside a client that takes all it can get",
        source: "beyond the papers",
        quick: false,
        run: traces::run,
    },
    Experiment {
        id: "capacity-drop",
        title: "What happens to each guarantee when the device loses 30 % of its capacity in mid-run",
        source: "beyond the papers; Jain's thesis, section 2.3, misses this experiment for pClock",
        quick: false,
        run: capacity_drop::run,
    },
    Experiment {
        id: "fairio-raid5-raid10",
        title: "FAIRIO on RAID-5 and RAID-10",
        source: "beyond the papers; FAIRIO was evaluated on RAID-0",
        quick: false,
        run: arrays::run,
    },
    Experiment {
        id: "nested-flash-gc",
        title: "Nested classes on flash with garbage collection",
        source: "beyond the papers; Nested QoS was evaluated on a disk",
        quick: false,
        run: flash::run,
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;

    #[test]
    fn loads_are_scenarios() {
        for (name, text) in [
            ("nested-flash-gc.toml", include_str!("../../../../experiments/nested-flash-gc.toml")),
            ("fairio-raid.toml", include_str!("../../../../experiments/fairio-raid.toml")),
            ("matrix-traces.toml", include_str!("../../../../experiments/matrix-traces.toml")),
        ] {
            let parsed = Context::default().scenario(name, text);
            assert!(
                parsed.is_ok(),
                "{name}: {}",
                parsed.err().map(|error| error.to_string()).unwrap_or_default()
            );
        }
        assert_eq!(EXPERIMENTS.len(), 6);
    }
}
