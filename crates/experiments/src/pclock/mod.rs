//! Gulati, Merchant, Varman: pClock, SIGMETRICS 2007.

use crate::Experiment;

mod examples;
mod isolation;
mod machine;
mod rivals;
mod spare;
mod tags;

pub(crate) use examples::flow;
pub(crate) use machine::scenario;

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
        id: "pclock-ex1",
        title: "The finish tags of a paced flow and a bursty one",
        source: "pClock, section 3.2, example I and figure 4",
        quick: true,
        run: tags::example_1,
    },
    Experiment {
        id: "pclock-ex2",
        title: "Tags that ran ahead are shifted back to now",
        source: "pClock, section 3.2, example II and figure 4",
        quick: true,
        run: tags::example_2,
    },
    Experiment {
        id: "pclock-capacity",
        title: "The capacity that two flows need together",
        source: "pClock, section 3.1",
        quick: true,
        run: examples::capacity,
    },
    Experiment {
        id: "pclock-fig5-6",
        title: "SCED starves a flow for having used spare capacity, pClock does not",
        source: "pClock, section 5.1, figures 5 and 6",
        quick: false,
        run: rivals::fig_5_6,
    },
    Experiment {
        id: "pclock-fig7-8",
        title: "Bursts miss their bound under WF2Q+, not under pClock",
        source: "pClock, section 5.1, figures 7 and 8",
        quick: false,
        run: rivals::fig_7_8,
    },
    Experiment {
        id: "pclock-fig9",
        title: "A flow beside flows that send more and more",
        source: "pClock, section 5.2, figure 9",
        quick: false,
        run: isolation::fig_9,
    },
    Experiment {
        id: "pclock-fig10",
        title: "Flows beside one that sends spikes",
        source: "pClock, section 5.2, figure 10",
        quick: false,
        run: isolation::fig_10,
    },
    Experiment {
        id: "pclock-fig11a",
        title: "The burst parameter moves latency from one flow to another",
        source: "pClock, section 5.3, figure 11(a)",
        quick: false,
        run: isolation::fig_11a,
    },
    Experiment {
        id: "pclock-fig11b",
        title: "Spikes of growing size",
        source: "pClock, section 5.3, figure 11(b)",
        quick: false,
        run: isolation::fig_11b,
    },
    Experiment {
        id: "pclock-fig12",
        title: "Spare capacity to the flows or to a background job",
        source: "pClock, section 5.4, figure 12",
        quick: false,
        run: spare::fig_12,
    },
];
