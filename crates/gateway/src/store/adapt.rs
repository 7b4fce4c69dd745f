//! Online parameters: proposals for volumes that are watched, and their application.
//!
//! ```text
//!  arrival ──> ParameterControl ── once a window ──> proposal (σ, ρ)
//!                                                       │ apply = true, and all promises fit with it?
//!                engine, ledger, audit log, watch <──┴──> only told
//! ```

use evenkeel_audit::Change;
use evenkeel_core::{Cost, Envelope, FlowId, Input, ParameterControl, Rate, Slo, Time, admission};

use super::{CapacityVerdict, Store, Volume};
use crate::config::AdaptConfig;

/// What became of the promise of a volume that is watched.
#[derive(Clone, Debug, serde::Serialize)]
pub struct AdaptAccount {
    /// The burst that is in force, in requests.
    pub burst_requests: f64,
    /// The rate that is in force.
    pub rate_iops: f64,
    /// How often the promise was changed.
    pub changes: u64,
    /// The last proposal that was not applied, as burst and rate.
    pub proposed: Option<(f64, f64)>,
}

pub(super) struct Adaptation {
    control: ParameterControl,
    apply: bool,
    changes: u64,
    /// The last proposal that was told and not applied.
    proposed: Option<Envelope>,
}

impl Adaptation {
    /// `None` if the volume is promised nothing, which the configuration rules out.
    pub(super) fn new(now: Time, config: &AdaptConfig, slo: &Slo) -> Option<Self> {
        let control = ParameterControl::new(now, config.limits, *slo.envelope()?, config.window).ok()?;
        Some(Self { control, apply: config.apply, changes: 0, proposed: None })
    }

    pub(super) fn account(&self) -> AdaptAccount {
        let present = self.control.present();
        AdaptAccount {
            burst_requests: present.burst().as_f64(),
            rate_iops: present.rate().as_f64(),
            changes: self.changes,
            proposed: self.proposed.map(|it| (it.burst().as_f64(), it.rate().as_f64())),
        }
    }
}

impl Store {
    /// A request of this volume is about to be given to the engine.
    pub(super) fn watch_arrival(&mut self, now: Time, volume: u32, cost: Cost) {
        let Some(adaptation) = &mut self.volumes[volume as usize].adaptation else { return };
        let proposal = adaptation.control.judge(now);
        adaptation.control.on_arrival(now, cost);
        if let Some(proposal) = proposal {
            self.consider(now, volume, proposal);
        }
    }

    fn consider(&mut self, now: Time, volume: u32, proposal: Envelope) {
        let flow = FlowId(volume);
        let (needed, fits) = self.would_fit(flow, proposal);
        let Some(adaptation) = &mut self.volumes[volume as usize].adaptation else { return };
        if !adaptation.apply || !fits {
            // Said once, not once per window.
            if adaptation.proposed.replace(proposal) != Some(proposal) {
                let present = *adaptation.control.present();
                let name = &self.volumes[volume as usize].name;
                tracing::info!(store = %self.name, volume = %name, %present, proposed = %proposal, %needed, fits,
                    "another promise would suit what this volume sends; it stays as it is");
            }
            return;
        }
        let Some(slo) = self.engine.slo(flow).and_then(|slo| with_envelope(slo, proposal)) else { return };
        if let Err(error) = self.engine.handle_input(now, Input::Configure(flow, slo.clone())) {
            tracing::warn!(store = %self.name, ?error, "the scheduler refuses a promise; it stays as it is");
            return;
        }
        let name = self.volumes[volume as usize].name.clone();
        if let Some(audit) = &mut self.audit {
            audit.change(now, Change::Adapted(flow));
        }
        self.open_account(now, flow, &name, &slo, None);
        self.capacity.set_needed(needed);
        let Volume { name, adaptation, .. } = &mut self.volumes[volume as usize];
        let Some(adaptation) = adaptation else { return };
        let before = *adaptation.control.present();
        adaptation.control.applied(proposal);
        adaptation.changes += 1;
        adaptation.proposed = None;
        tracing::info!(store = %self.name, volume = %name, %before, after = %proposal, %needed,
            "operator change: promise adapted to what the volume sends");
    }

    /// What all promises need with this one in place of the present one of `flow`, and whether that fits the
    /// stated capacity, or at least needs no more than now. While the device gives less than is needed,
    /// nothing that needs more fits.
    fn would_fit(&self, flow: FlowId, proposal: Envelope) -> (Rate, bool) {
        let changed = [proposal];
        let classes =
            |(id, slo): (FlowId, &'_ Slo)| if id == flow { None } else { Some(slo.classes().to_vec()) };
        let others: Vec<Vec<Envelope>> = self.engine.flows().filter_map(classes).collect();
        let all: Vec<&[Envelope]> = others.iter().map(Vec::as_slice).chain([&changed[..]]).collect();
        let needed = need_of(&all, self.engine.scheduler_name() == "nested");
        let is_short = self.capacity.verdict() == CapacityVerdict::Short;
        (needed, is_admitted(needed, self.capacity.needed(), self.capacity.stated(), is_short))
    }
}

fn need_of(all: &[&[Envelope]], nested: bool) -> Rate {
    if nested || all.iter().any(|it| it.len() > 1) {
        return admission::nested_capacity(all).capacity;
    }
    let envelopes: Vec<Envelope> = all.iter().filter_map(|it| it.first().copied()).collect();
    admission::required_capacity(&envelopes).capacity
}

/// Whether promises that need `needed` may take the place of those that need `present`.
fn is_admitted(needed: Rate, present: Rate, stated: Option<Rate>, is_short: bool) -> bool {
    let fits = stated.is_some_and(|stated| needed <= stated);
    needed <= present || (fits && !is_short)
}

/// The same promise with another envelope.
fn with_envelope(slo: &Slo, envelope: Envelope) -> Option<Slo> {
    let mut changed = Slo::guaranteed(envelope).with_weight(slo.weight());
    if let Some(reservation) = slo.reservation() {
        changed = changed.with_reservation(reservation).ok()?;
    }
    if let Some(limit) = slo.limit() {
        changed = changed.with_limit(limit).ok()?;
    }
    Some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::Span;
    use proptest::prelude::*;

    fn any_envelope() -> impl Strategy<Value = Envelope> {
        (1_u64..60, 1_u64..400, 1_u64..200).prop_map(|(burst, rate, millis)| {
            Envelope::new(Cost::requests(burst), Rate::per_second(rate), Span::from_millis(millis))
                .expect("in range")
        })
    }

    proptest! {
        #[test]
        fn what_is_applied_never_breaks_admission(
            start in prop::collection::vec(any_envelope(), 1..6),
            proposals in prop::collection::vec((any::<prop::sample::Index>(), any_envelope(), any::<bool>()), 1..40),
            percent in 50_u64..250,
            nested: bool,
        ) {
            let needs = |promises: &[Envelope]| {
                let all: Vec<&[Envelope]> = promises.iter().map(std::slice::from_ref).collect();
                need_of(&all, nested)
            };
            let mut promises = start;
            let stated = Rate::from_millis(needs(&promises).as_millis() * percent / 100);
            let mut changes = 0;
            for (flow, proposal, is_short) in proposals {
                let mut changed = promises.clone();
                changed[flow.index(promises.len())] = proposal;
                let (present, needed) = (needs(&promises), needs(&changed));
                if is_admitted(needed, present, Some(stated), is_short) {
                    // What fitted goes on to fit; what did not, needs no more than before; and where the device gives
                    // too little, nothing is added.
                    prop_assert!(needed <= stated || needed <= present);
                    prop_assert!(!is_short || needed <= present);
                    promises = changed;
                    changes += 1;
                } else {
                    prop_assert!(needed > present);
                }
                if percent >= 100 {
                    prop_assert!(needs(&promises) <= stated, "after {} changes", changes);
                }
                // Without a stated capacity nothing grows.
                prop_assert!(!is_admitted(needed, present, None, is_short) || needed <= present);
            }
        }
    }
}
