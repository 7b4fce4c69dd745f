//! Arunagiri, Kwok, Teller, Portillo, Seelam: FAIRIO, an algorithm for differentiated I/O performance, 2011.

use crate::Experiment;

mod controller;
mod run;
mod shares;

/// In the order of the paper.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        id: "fairio-fig3",
        title: "Errors of throughput shares, six benchmarks, weights 3:4:5:6",
        source: "FAIRIO, figure 3",
        quick: false,
        run: shares::figure_3,
    },
    Experiment {
        id: "fairio-fig4",
        title: "Aggregate throughput with and without FAIRIO",
        source: "FAIRIO, figure 4",
        quick: false,
        run: shares::figure_4,
    },
    Experiment {
        id: "fairio-weights",
        title: "varmail with weights 1:4:8:16",
        source: "FAIRIO, section IV-A",
        quick: false,
        run: shares::wide_weights,
    },
];
