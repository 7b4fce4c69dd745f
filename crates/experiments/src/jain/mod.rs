//! Jain: QoS benefits of flash in a storage system, MS thesis, Penn State 2008.

use crate::Experiment;

mod fairness;
mod run;

/// In the order of the thesis.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        id: "jain-table1-2",
        title: "RBFQ on disk and on flash at eleven weight ratios",
        source: "Jain, tables 1 and 2, figures 3 and 5",
        quick: true,
        run: fairness::tables_1_and_2,
    },
    Experiment {
        id: "jain-fig4",
        title: "Response times of a sequential and a random stream on a disk",
        source: "Jain, figure 4",
        quick: true,
        run: fairness::figure_4,
    },
    Experiment {
        id: "jain-table3",
        title: "The hybrid store, offline, reads of two 2 GB streams, 256 MB of flash",
        source: "Jain, table 3 and figure 7",
        quick: false,
        run: fairness::table_3,
    },
];
