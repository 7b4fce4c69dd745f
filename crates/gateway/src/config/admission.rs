//! Admission as best effort: in the order of the file, whoever still fits is promised what it asks, and who
//! does not is served from what the others leave.
//!
//! ```text
//!  capacity 900:   db needs 400 ─> promised    web: 400 + 300 ─> promised    log: 700 + 450 ─> best effort
//!                                              etl: 700 + 100 ─> promised
//! ```

use evenkeel_core::admission::{self, Need};
use evenkeel_core::{Cost, Envelope, Slo};

use super::{Admission, Config, SchedulerKind};

impl Config {
    /// The capacity that these promises need on a store: by the System Capacity Constraint of pClock, or by
    /// lemma 3 of Nested QoS where classes are graduated. Each comes with the cost of its largest request.
    pub(super) fn need_of_classes(&self, store: usize, promised: &[(&[Envelope], Cost)]) -> Need {
        let graduated = promised.iter().any(|(classes, _)| classes.len() > 1);
        if graduated || self.stores[store].scheduler == SchedulerKind::Nested {
            return admission::nested_capacity_of_costs(promised);
        }
        let envelopes: Vec<Envelope> =
            promised.iter().filter_map(|(classes, _)| classes.first().copied()).collect();
        admission::required_capacity(&envelopes)
    }

    /// Whom `admission = "best-effort"` of a store leaves without a promise: names of volumes and groups, in
    /// the order of [`Config::agreements_of`].
    #[must_use]
    pub fn best_effort_of(&self, store: usize) -> Vec<&str> {
        let config = &self.stores[store];
        let Some(capacity) =
            config.capacity.filter(|_| config.admission == Admission::BestEffort && !config.observe)
        else {
            return Vec::new();
        };
        let mut promised: Vec<(&[Envelope], Cost)> = Vec::new();
        let mut left_out = Vec::new();
        let agreements = self.agreements_of(store).zip(self.largest_costs_of(store));
        for ((name, slo), largest) in agreements.filter(|((_, slo), _)| !slo.is_background()) {
            promised.push((slo.classes(), largest));
            if self.need_of_classes(store, &promised).capacity > capacity {
                promised.pop();
                left_out.push(name);
            }
        }
        left_out
    }

    /// The configuration with those in the background whom [`Config::best_effort_of`] names.
    #[must_use]
    pub fn admitted(&self) -> Self {
        let mut admitted = self.clone();
        for store in 0..self.stores.len() {
            let left_out = self.best_effort_of(store);
            let is_out = |name: &str| left_out.contains(&name);
            for volume in admitted.volumes.iter_mut().filter(|volume| volume.store == store) {
                let name = match volume.member {
                    Some(member) => &self.groups[member.group].name,
                    None => &volume.name,
                };
                if is_out(name) {
                    volume.slo = without_promise(&volume.slo);
                }
            }
            for group in admitted.groups.iter_mut().filter(|group| group.store == store) {
                if is_out(&group.name) {
                    group.slo = without_promise(&group.slo);
                }
            }
        }
        admitted
    }
}

fn without_promise(slo: &Slo) -> Slo {
    let background = Slo::background().with_weight(slo.weight());
    match slo.limit() {
        Some(limit) => background.clone().with_limit(limit).unwrap_or(background),
        None => background,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::parse;

    #[test]
    fn who_fits_in_the_order_of_the_file_is_promised_and_the_rest_is_background() {
        let volume = |name: &str, burst: u32| {
            format!(
                "[volume.{name}]\noffset = \"{name} GiB\"\nsize = \"1 GiB\"\n\
                 sla = {{ burst = {burst}, rate = \"10 IOPS\", latency = \"100 ms\" }}\n"
            )
        };
        let text = "[gateway]\nlisten = [\"unix:s\"]\n[store.pool]\npath = \"p\"\ncapacity = \"900 IOPS\"\n\
                    admission = \"best-effort\"\n"
            .to_owned()
            + &volume("1", 40)
            + &volume("2", 30)
            + &volume("3", 45)
            + &volume("4", 10);
        let config = parse(&text, Path::new("x.toml")).unwrap();
        assert_eq!(config.best_effort_of(0), ["3"]);
        let admitted = config.admitted();
        let promised: Vec<bool> = admitted.volumes.iter().map(|it| !it.slo.is_background()).collect();
        assert_eq!(promised, [true, true, false, true]);
        assert!(admitted.need_of(0).capacity <= config.stores[0].capacity.unwrap());
        assert!(config.need_of(0).capacity > config.stores[0].capacity.unwrap());
    }
}
