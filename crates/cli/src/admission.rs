//! Why promises do not fit a store, and the smallest change of any one of them that makes them fit.

use std::fmt::Write as _;

use evenkeel_core::{Cost, Envelope, Rate, Slo};
use evenkeel_gateway::config::{Config, SchedulerKind};
use evenkeel_plan::{Parameter, Relaxation, what_if_of_costs};
use serde_json::{Value, json};

/// A change that would do.
pub(crate) struct Change {
    /// The volume or group.
    pub(crate) name: String,
    pub(crate) old: Vec<Envelope>,
    pub(crate) relaxation: Relaxation,
}

/// Every change of one parameter of one promise that makes the promises of a store fit its stated capacity,
/// each as small as it can be. Empty if they fit, no capacity is stated, or no single change does.
pub(crate) fn changes(config: &Config, store: usize) -> Vec<Change> {
    config.stores[store].capacity.map_or_else(Vec::new, |capacity| changes_for(config, store, capacity))
}

/// [`changes`] for another capacity than the stated one.
pub(crate) fn changes_for(config: &Config, store: usize, capacity: Rate) -> Vec<Change> {
    let agreements = config.agreements_of(store).zip(config.largest_costs_of(store));
    let (promised, largest): (Vec<(&str, &Slo)>, Vec<Cost>) =
        agreements.filter(|((_, slo), _)| !slo.is_background()).unzip();
    let classes: Vec<Vec<Envelope>> = promised.iter().map(|(_, slo)| slo.classes().to_vec()).collect();
    let graduated = config.stores[store].scheduler == SchedulerKind::Nested
        || classes.iter().any(|classes| classes.len() > 1);
    let found = what_if_of_costs(&classes, &largest, capacity, graduated);
    let change = |relaxation: Relaxation| {
        let (name, slo) = promised[relaxation.flow];
        Change { name: name.to_owned(), old: slo.classes().to_vec(), relaxation }
    };
    found.into_iter().map(change).collect()
}

/// The changes in a line: of each parameter the one that is the smallest part of what it was.
pub(crate) fn in_words(changes: &[Change]) -> String {
    if changes.is_empty() {
        return "no change of one parameter alone makes them fit".to_owned();
    }
    let mut text = String::new();
    for parameter in [Parameter::Latency, Parameter::Burst, Parameter::Rate] {
        let of_kind = changes.iter().filter(|change| change.relaxation.parameter == parameter);
        if let Some(change) = of_kind.min_by(|a, b| a.size().total_cmp(&b.size())) {
            let before = if text.is_empty() { "they fit with" } else { ", or" };
            let _ = write!(text, "{before} {}", change.words());
        }
    }
    text
}

/// All changes, for programs.
pub(crate) fn as_json(changes: &[Change]) -> Vec<Value> {
    let one = |change: &Change| {
        let class = change.relaxation.class;
        let envelope = change.relaxation.classes[class];
        json!({
            "name": change.name, "class": class, "change": change.words(),
            "sla": {
                "burst_requests": envelope.burst().as_f64(),
                "rate_iops": envelope.rate().as_f64(),
                "latency_us": envelope.latency().as_nanos() as f64 / 1_000.0,
            },
        })
    };
    changes.iter().map(one).collect()
}

impl Change {
    /// How much it changes, as a part of what it was.
    fn size(&self) -> f64 {
        let (old, new) = self.both();
        let part = |old: f64, new: f64| (new - old).abs() / old.max(f64::MIN_POSITIVE);
        match self.relaxation.parameter {
            Parameter::Burst => part(old.burst().as_f64(), new.burst().as_f64()),
            Parameter::Rate => part(old.rate().as_f64(), new.rate().as_f64()),
            Parameter::Latency => part(old.latency().as_nanos() as f64, new.latency().as_nanos() as f64),
        }
    }

    fn both(&self) -> (Envelope, Envelope) {
        let class = self.relaxation.class;
        (self.old[class], self.relaxation.classes[class])
    }

    fn words(&self) -> String {
        let (old, new) = self.both();
        let what = match self.relaxation.parameter {
            Parameter::Burst => format!("burst {} instead of {}", new.burst(), old.burst()),
            Parameter::Rate => format!("rate {} instead of {}", new.rate(), old.rate()),
            Parameter::Latency => format!("latency {} instead of {}", new.latency(), old.latency()),
        };
        let class = if self.old.len() > 1 {
            format!(" (class {})", self.relaxation.class + 1)
        } else {
            String::new()
        };
        format!("{what} for {}{class}", self.name)
    }
}
