//! Jain: QoS benefits of flash in a storage system, MS thesis, Penn State 2008.

use crate::Experiment;

mod fairness;
mod online;
mod run;
mod tpcc;

/// In the order of the thesis.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        id: "jain-table1-2",
        title: "RBFQ on disk and on flash at eleven weight ratios",
        source: "Jain, tables 1 and 2, figures 3 and 5",
        quick: false,
        run: fairness::tables_1_and_2,
    },
    Experiment {
        id: "jain-fig4",
        title: "Response times of a sequential and a random stream on a disk",
        source: "Jain, figure 4",
        quick: false,
        run: fairness::figure_4,
    },
    Experiment {
        id: "jain-table3",
        title: "The hybrid store, offline, reads of two 2 GB streams, 256 MB of flash",
        source: "Jain, table 3 and figure 7",
        quick: false,
        run: fairness::table_3,
    },
    Experiment {
        id: "jain-table5",
        title: "The hybrid store, offline, reads and writes of two TPC-C volumes",
        source: "Jain, table 5 and figure 8",
        quick: false,
        run: tpcc::table_5,
    },
    Experiment {
        id: "jain-table6",
        title: "Offline, TPC-C, by the size of the flash",
        source: "Jain, table 6",
        quick: false,
        run: tpcc::table_6,
    },
    Experiment {
        id: "jain-table7",
        title: "The hybrid store, online, by the share of reads",
        source: "Jain, table 7, figures 10 and 11",
        quick: false,
        run: online::table_7,
    },
    Experiment {
        id: "jain-table8",
        title: "The hybrid store, online, fairness of two TPC-C volumes",
        source: "Jain, table 8 and figure 9",
        quick: false,
        run: tpcc::table_8,
    },
    Experiment {
        id: "jain-table9",
        title: "Offline against online",
        source: "Jain, table 9",
        quick: false,
        run: online::table_9,
    },
    Experiment {
        id: "jain-fig12-18",
        title: "Read shares and sequentiality over time",
        source: "Jain, figures 12 to 18",
        quick: false,
        run: online::figures_12_to_18,
    },
];
