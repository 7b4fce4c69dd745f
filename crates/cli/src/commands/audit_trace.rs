//! A trace through the store of a configuration, audited as its log would be.

use std::path::Path;

use evenkeel_audit::{Audit, Auditor, Change, Event, Terms};
use evenkeel_core::{FlowId, Membership, Time};
use evenkeel_gateway::config::{self, Config, MemberConfig, VolumeConfig};
use evenkeel_plan::{Agreements, FileSource, Flow, Priced, Source, replay_under};

/// Audits the trace in `trace` against the agreement in the configuration `sla`: volume 0 of the trace is
/// the first volume of its only store, and so on.
pub(super) fn audit_of_trace(trace: &Path, sla: &Path) -> Result<Audit, String> {
    let config = config::load(sla).map_err(|error| error.to_string())?;
    let (store, volumes) = only_store(&config, sla)?;
    let capacity = store.capacity.ok_or_else(|| {
        format!("{}: store {} states no capacity; a replay needs one", sla.display(), store.name)
    })?;
    let sources: Vec<FileSource> =
        (0..).zip(&volumes).map(|(number, _)| FileSource::new(trace, Some(number))).collect();
    let priced: Vec<Priced<'_>> = (volumes.iter().zip(&sources))
        .map(|(volume, source)| Priced { source, cost: volume.cost.clone() })
        .collect();
    let flow = |(volume, source)| -> Flow<'_> {
        let volume: &VolumeConfig = volume;
        Flow { name: volume.name.clone(), source, classes: volume.slo.classes().to_vec() }
    };
    let sent = priced.iter().map(|it| it as &dyn Source);
    let flows: Vec<Flow<'_>> = volumes.iter().copied().zip(sent).map(flow).collect();
    let mut auditor = Auditor::new();
    let scheduler = store.scheduler.name();
    for change in [Change::Scheduler(scheduler.into()), Change::Depth(1), Change::Capacity(Some(capacity))] {
        auditor.on_event(&Event::Change { at: Time::ZERO, change });
    }
    // Groups are flows behind the volumes.
    let mut agreements = Agreements::default();
    let place = |group: usize| volumes.len() + group;
    let names = volumes.iter().map(|volume| volume.name.as_str());
    let names = names.chain(config.groups.iter().map(|group| group.name.as_str()));
    let slos = volumes.iter().map(|volume| &volume.slo).chain(config.groups.iter().map(|group| &group.slo));
    agreements.slos = slos.cloned().collect();
    for (number, volume) in volumes.iter().enumerate() {
        if let Some(MemberConfig { group, weight, limit }) = volume.member {
            let group = FlowId(place(group) as u32);
            agreements.members.push((number, Membership { group, weight, limit }));
        }
    }
    let mut configured: Vec<Terms> = (names.zip(&agreements.slos).zip(0..))
        .map(|((name, slo), number)| Terms {
            flow: FlowId(number),
            at: Time::ZERO,
            name: name.into(),
            slo: slo.clone(),
            member: None,
        })
        .collect();
    for (member, membership) in &agreements.members {
        configured[*member].member = Some(*membership);
    }
    // A group comes before its members.
    configured.sort_by_key(|terms| terms.member.is_some());
    for terms in configured {
        auditor.on_event(&Event::Configure(terms));
    }
    let known = volumes.len() as u32;
    check_volumes(trace, known)?;
    let built = store.scheduler.build(store.spare, &store.tuning);
    let mut visit = |record: &evenkeel_core::Record| auditor.on_event(&Event::Record(*record));
    replay_under(&flows, &agreements, built, capacity, &mut visit).map_err(|error| error.to_string())?;
    Ok(auditor.finish(None))
}

fn only_store<'c>(
    config: &'c Config,
    sla: &Path,
) -> Result<(&'c config::StoreConfig, Vec<&'c VolumeConfig>), String> {
    let [store] = &config.stores[..] else {
        let count = config.stores.len();
        return Err(format!(
            "{}: a trace is replayed through one store, and these are {count}",
            sla.display()
        ));
    };
    Ok((store, config.volumes_of(0).collect()))
}

/// Every volume of the trace must be one of the agreement.
fn check_volumes(trace: &Path, known: u32) -> Result<(), String> {
    let source = FileSource::new(trace, None);
    let mut any = false;
    for request in source.sorted().map_err(|error| error.to_string())? {
        let request = request.map_err(|error| error.to_string())?;
        any = true;
        if request.volume >= known {
            return Err(format!(
                "{}: the trace has a volume {}, and the agreement only {known}; add a volume to the configuration",
                trace.display(),
                request.volume
            ));
        }
    }
    if any { Ok(()) } else { Err(format!("{}: the trace holds no request", trace.display())) }
}
