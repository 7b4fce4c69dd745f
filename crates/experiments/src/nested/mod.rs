//! Wang: Nested QoS: Providing Flexible SLAs in Shared Storage Systems, Rice University 2012.

use crate::Experiment;

mod capacity;
mod consolidation;
mod examples;
mod isolation;
mod lemmas;
mod loads;

/// In the order of the thesis.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        id: "nested-ex1",
        title: "One client's bursts delay the other under FCFS",
        source: "Nested QoS, section 1.2, example I",
        quick: true,
        run: examples::example_1,
    },
    Experiment {
        id: "nested-ex2",
        title: "Five bad requests spoil four good ones, unless they are put aside",
        source: "Nested QoS, section 1.2, example II",
        quick: true,
        run: examples::example_2,
    },
    Experiment {
        id: "nested-ex3",
        title: "What five bad requests cost in capacity",
        source: "Nested QoS, section 1.2, example III",
        quick: true,
        run: examples::example_3,
    },
    Experiment {
        id: "nested-fig4.2-4.5",
        title: "A client that leaves its envelope harms nobody else",
        source: "Nested QoS, section 4.2, figures 4.2 to 4.5",
        quick: false,
        run: isolation::workloads,
    },
    Experiment {
        id: "nested-fig4.6-4.7",
        title: "And harms itself no longer than it does so",
        source: "Nested QoS, section 4.3, figures 4.6 and 4.7",
        quick: false,
        run: isolation::bad_region,
    },
    Experiment {
        id: "nested-fig4.8",
        title: "Graded promises need a fraction of the capacity",
        source: "Nested QoS, section 4.4, figure 4.8",
        quick: false,
        run: capacity::fig_4_8,
    },
    Experiment {
        id: "nested-fig4.9",
        title: "Sharing one server: what is in time at which capacity",
        source: "Nested QoS, section 4.4, figure 4.9",
        quick: false,
        run: consolidation::fig_4_9,
    },
    Experiment {
        id: "nested-lemmas",
        title: "The capacity bounds against what is really needed",
        source: "Nested QoS, section 3.2.2, lemmas 1 to 3",
        quick: true,
        run: lemmas::lemmas,
    },
];
