//! Online parameters: proposals for volumes that are watched, and their application.
//!
//! ```text
//!  arrival ──> ParameterControl ── once a window ──> proposal (σ, ρ)
//!                                                       │ apply = true, and all promises fit with it?
//!                              engine, ledger, watch <──┴──> only told
//! ```

use evenkeel_core::admission::Binding;
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
        let graduated = self.engine.scheduler_name() == "nested" || all.iter().any(|it| it.len() > 1);
        let need = if graduated {
            admission::nested_capacity(&all)
        } else {
            let envelopes: Vec<Envelope> = all.iter().filter_map(|it| it.first().copied()).collect();
            admission::required_capacity(&envelopes)
        };
        debug_assert!(need.binding != Binding::None);
        let needed = need.capacity;
        let no_more = needed <= self.capacity.needed();
        let is_short = self.capacity.verdict() == CapacityVerdict::Short;
        let fits = self.capacity.stated().is_some_and(|stated| needed <= stated);
        (needed, no_more || (fits && !is_short))
    }
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
