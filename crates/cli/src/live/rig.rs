//! A gateway in this process with an emulated disk, its clients, and the simulated twin of both.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use evenkeel_core::{Slo, Time};
use evenkeel_experiments::study::number;
use evenkeel_experiments::{Check, Context, ExperimentError, Study};
use evenkeel_gateway::{Server, config};
use evenkeel_sim::scenario::{self, Scenario};
use evenkeel_sim::source::Load;
use evenkeel_sim::summary::{FlowSummary, Heading};
use evenkeel_sim::{Measure, Simulation, Summary};
use evenkeel_trace::TraceRequest;

use super::{fio, player};

/// What a flow is driven by. The simulated twin has the scenario's workload, or the same trace.
pub(super) enum Client {
    /// A fio job file.
    Fio(&'static str),
    /// Requests at given instants.
    Play(Vec<TraceRequest>),
    /// Requests at given instants, in the twin as well.
    Trace(Vec<TraceRequest>),
}

/// What a client measured at its own end.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) iops: f64,
    pub(crate) mean_ms: f64,
    /// By how much the latest request was sent late, in ms: what the machine did to the measurement. 0 for fio,
    /// which does not tell.
    pub(crate) late_ms: f64,
    /// In order of size; empty where the client does not tell.
    pub(crate) latencies_us: Vec<u64>,
}

/// One flow, live and simulated.
pub(super) struct Pair {
    pub(super) name: String,
    pub(super) live: Measured,
    pub(super) twin: FlowSummary,
}

/// Runs `text` under `scheduler`, live and simulated.
pub(super) fn run(
    context: &Context,
    name: &str,
    text: &str,
    scheduler: &str,
    clients: &[(&str, Client)],
) -> Result<Vec<Pair>, ExperimentError> {
    let path = Path::new("experiments/live").join(name);
    let refused = |error: config::ConfigError| ExperimentError::Scenario(error.to_string());
    let scenario = scenario::parse(text, &path).map_err(refused)?;
    let scenario = scenario
        .with_scheduler(scheduler)
        .ok_or_else(|| ExperimentError::Other(format!("there is no scheduler {scheduler}")))?;
    let twin = twin(context, &scenario, clients)?;
    let failed = |error: io::Error| ExperimentError::Other(format!("{name}: {error}"));
    let live = live(&scenario, device_rate(text).map_err(failed)?, clients).map_err(failed)?;
    let pairs = clients.iter().zip(live).map(|((flow, _), live)| {
        let found = twin.flows.iter().find(|summary| summary.name == *flow).cloned();
        let twin = found.ok_or_else(|| ExperimentError::Other(format!("{name} has no flow {flow}")))?;
        Ok(Pair { name: (*flow).to_owned(), live, twin })
    });
    pairs.collect()
}

/// The twin alone, on a device of another rate: what the device makes of it.
pub(super) fn twin_at(
    context: &Context,
    name: &str,
    text: &str,
    scheduler: &str,
    clients: &[(&str, Client)],
    rate: &str,
) -> Result<Summary, ExperimentError> {
    let failed = |error: io::Error| ExperimentError::Other(format!("{name}: {error}"));
    let own = device_rate(text).map_err(failed)?;
    let text = text.replacen(&format!("rate = \"{own}\""), &format!("rate = \"{rate}\""), 1);
    let refused = |error: config::ConfigError| ExperimentError::Scenario(error.to_string());
    let scenario = scenario::parse(&text, &Path::new("experiments/live").join(name)).map_err(refused)?;
    let scenario = scenario
        .with_scheduler(scheduler)
        .ok_or_else(|| ExperimentError::Other(format!("there is no scheduler {scheduler}")))?;
    twin(context, &scenario, clients)
}

/// The two must agree within 10 % on throughput and mean latency.
pub(super) fn agree(study: &mut Study, run: &str, pairs: &[Pair]) {
    let reason = disturbance(pairs);
    for pair in pairs {
        let what = format!("{run}, {}: live within 10 % of its twin", pair.name);
        let (live, twin) = (&pair.live, &pair.twin);
        let throughput =
            Check::within_percent(format!("{what}, throughput"), live.iops, twin.served_iops, 10.0, "IOPS");
        let twin_ms = twin.latency.latency_mean_us / 1e3;
        let latency =
            Check::within_percent(format!("{what}, mean latency"), live.mean_ms, twin_ms, 10.0, "ms");
        study.check(throughput.because(&reason)).check(latency.because(&reason));
    }
}

/// What the machine did to a run: the reason of a check on real time that does not hold.
pub(super) fn disturbance(pairs: &[Pair]) -> String {
    let late_ms = pairs.iter().map(|pair| pair.live.late_ms).fold(0.0, f64::max);
    format!(
        "In this run the machine let a sender wait for up to {} ms beyond its instant; what is measured in real time \
         on a busy machine is disturbed by as much.",
        number(late_ms)
    )
}

/// A row for each flow: the paper's throughput and latency, live, twin.
pub(super) fn rows(run: &str, pairs: &[Pair], paper: &[[&str; 2]]) -> Vec<Vec<String>> {
    let row = |(pair, paper): (&Pair, &[&str; 2])| {
        vec![
            run.to_owned(),
            pair.name.clone(),
            paper[0].to_owned(),
            number(pair.live.iops),
            number(pair.twin.served_iops),
            paper[1].to_owned(),
            number(pair.live.mean_ms),
            number(pair.twin.latency.latency_mean_us / 1e3),
        ]
    };
    pairs.iter().zip(paper).map(row).collect()
}

/// The headings of [`rows`].
pub(super) const HEADS: [&str; 8] = [
    "run",
    "flow",
    "paper, IOPS",
    "live, IOPS",
    "twin, IOPS",
    "paper, mean ms",
    "live, mean ms",
    "twin, mean ms",
];

fn twin(
    context: &Context,
    scenario: &Scenario,
    clients: &[(&str, Client)],
) -> Result<Summary, ExperimentError> {
    let mut setup = scenario.setup(scenario.seed)?;
    let names = scenario.flow_names();
    let traces: HashMap<&str, &Vec<TraceRequest>> = clients
        .iter()
        .filter_map(|(name, client)| match client {
            Client::Trace(requests) => Some((*name, requests)),
            Client::Fio(_) | Client::Play(_) => None,
        })
        .collect();
    for source in &mut setup.sources {
        if let Some(requests) = traces.get(names[source.flow.0 as usize].as_str()) {
            let requests = requests.to_vec();
            source.load = Load::Trace(Box::new(requests.into_iter().map(Ok)));
        }
    }
    let measure = Measure::new(Time::ZERO + scenario.warmup, scenario.end(), scenario.window);
    let mut simulation = Simulation::new(setup, measure)?;
    simulation.run_until(Time::from_nanos(scenario.end().as_nanos().saturating_sub(1)))?;
    if clients.iter().all(|(_, client)| !matches!(client, Client::Fio(_))) {
        simulation.drain()?;
    }
    Ok(simulation.into_observer().summary(&Heading {
        scenario: &scenario.name,
        scenario_hash: &scenario.hash,
        commit: context.commit.as_deref(),
        seed: scenario.seed,
        scheduler: &scenario.scheduler,
        flows: &names,
    }))
}

fn live(scenario: &Scenario, rate: &str, clients: &[(&str, Client)]) -> io::Result<Vec<Measured>> {
    let folder = tempfile::Builder::new().prefix("evenkeel-live").tempdir()?;
    std::fs::File::create(folder.path().join("store.img"))?
        .set_len((32 << 20) * scenario.flows.len() as u64)?;
    let text = configuration(scenario, rate);
    let config = config::parse(&text, &folder.path().join("live.toml")).map_err(io::Error::other)?;
    let server = Server::start(&config).map_err(io::Error::other)?;
    let socket = folder.path().join("nbd.sock");
    let duration = Duration::from_nanos(scenario.duration.as_nanos());
    // Everybody has connected by then, so what is to come together comes together.
    let start = Instant::now() + Duration::from_millis(300);
    let measured = std::thread::scope(|scope| {
        let threads: Vec<_> = clients
            .iter()
            .map(|(name, client)| {
                let (folder, socket) = (folder.path(), socket.as_path());
                scope.spawn(move || match client {
                    Client::Fio(job) => fio::run(folder, socket, name, job, duration.as_secs()),
                    Client::Play(requests) | Client::Trace(requests) => {
                        let to = player::Address::Unix(socket.to_owned());
                        player::play(&to, name, start, requests.iter().copied().map(Ok))
                            .map(|played| played.measured(duration))
                    }
                })
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, io::Result<Measured>>| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a client's thread panicked")))
        };
        threads.into_iter().map(join).collect::<io::Result<Vec<_>>>()
    });
    let ended = server.shutdown();
    if let Some((store, error)) = ended.failures.into_iter().next() {
        return Err(io::Error::other(format!("store {store}: {error}")));
    }
    measured
}

/// The gateway's configuration: the scenario's device and promises. Table 3 promises more than the disk has.
fn configuration(scenario: &Scenario, rate: &str) -> String {
    let mut text = format!(
        "[gateway]\nlisten = [\"unix:nbd.sock\"]\n\n[store.disk]\npath = \"store.img\"\nscheduler = \"{}\"\n\
         admission = \"warn\"\nemulate = {{ rate = \"{rate}\", servers = 1 }}\n",
        scenario.scheduler
    );
    for (index, flow) in scenario.flows.iter().enumerate() {
        text.push_str(&format!(
            "\n[volume.{}]\noffset = \"{} MiB\"\nsize = \"32 MiB\"\n{}",
            flow.name,
            32 * index,
            sla(&flow.slo, scenario.scheduler == "nested")
        ));
    }
    text
}

/// The classes, or only the innermost: what the other schedulers go by, in the twin as well.
fn sla(slo: &Slo, all: bool) -> String {
    let class = |envelope: &evenkeel_core::Envelope| {
        format!(
            "{{ burst = {}, rate = \"{}\", latency = \"{}\" }}",
            envelope.burst(),
            envelope.rate(),
            envelope.latency()
        )
    };
    let classes: Vec<String> =
        slo.classes().iter().take(if all { usize::MAX } else { 1 }).map(class).collect();
    match classes.as_slice() {
        [] => String::new(),
        [one] => format!("sla = {one}\n"),
        several => format!("sla = [{}]\n", several.join(", ")),
    }
}

/// The rate of `[device]`, as it is written.
fn device_rate(text: &str) -> io::Result<&str> {
    let found = text.split_once("[device]\nrate = \"").and_then(|(_, rest)| rest.split_once('"'));
    let missing = || io::Error::other("the scenario's device is not written as [device] with a rate first");
    found.map(|(rate, _)| rate).ok_or_else(missing)
}
