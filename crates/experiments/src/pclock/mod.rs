//! Gulati, Merchant, Varman: pClock, SIGMETRICS 2007.

use crate::Experiment;

mod examples;

/// In the order of the paper.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        id: "pclock-case1",
        title: "A burst within its envelope is answered in time, and harms nobody",
        source: "pClock, section 2, case 1",
        quick: true,
        run: examples::case_1,
    },
    Experiment {
        id: "pclock-case2",
        title: "Whoever used spare capacity is not punished for it later",
        source: "pClock, section 2, case 2 and figure 2",
        quick: true,
        run: examples::case_2,
    },
    Experiment {
        id: "pclock-capacity",
        title: "The capacity that two flows need together",
        source: "pClock, section 3.1",
        quick: true,
        run: examples::capacity,
    },
];
