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

use super::files::{DataSet, Mounted};
use super::{fio, player};

/// Left out at both ends where requests are counted at the block layer.
const SETTLING: Duration = Duration::from_secs(3);

/// What a flow is driven by. The simulated twin has the scenario's workload, or the same trace.
pub(super) enum Client {
    /// A fio job file.
    Fio(&'static str),
    /// A fio job file on the files of an ext2 file system on the volume.
    Files(&'static str, DataSet),
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
    /// When each request was sent, from the start; empty where the client does not tell.
    pub(crate) sent_us: Vec<u64>,
}

/// One flow, live and simulated.
pub(super) struct Pair {
    pub(super) name: String,
    pub(super) live: Measured,
    pub(super) twin: FlowSummary,
    /// Requests per second at the block layer, for a client on files, whose own figures are of operations on these.
    pub(super) block_iops: Option<f64>,
    /// A twin of what was really sent, at the instants at which it was; only where all clients tell these.
    pub(super) resent: Option<FlowSummary>,
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
    let (live, block) = live(&scenario, device_rate(text).map_err(failed)?, clients).map_err(failed)?;
    let resent = resent(clients, &live).map(|sent| self::twin(context, &scenario, &sent)).transpose()?;
    let of = |summary: &Summary, flow: &str| {
        let found = summary.flows.iter().find(|summary| summary.name == flow).cloned();
        found.ok_or_else(|| ExperimentError::Other(format!("{name} has no flow {flow}")))
    };
    let pairs = clients.iter().zip(live).map(|((flow, _), live)| {
        let resent = resent.as_ref().map(|summary| of(summary, flow)).transpose()?;
        let block_iops = block.get(*flow).copied();
        Ok(Pair { name: (*flow).to_owned(), live, twin: of(&twin, flow)?, block_iops, resent })
    });
    pairs.collect()
}

/// The clients with each request at the instant at which it was sent; `None` if one of them does not tell.
fn resent<'c>(clients: &[(&'c str, Client)], live: &[Measured]) -> Option<Vec<(&'c str, Client)>> {
    let one = |((name, client), live): (&(&'c str, Client), &Measured)| {
        let (Client::Play(requests) | Client::Trace(requests)) = client else { return None };
        let sent = requests.iter().zip(&live.sent_us);
        let sent = sent.map(|(request, us)| TraceRequest { at: Time::from_nanos(us * 1_000), ..*request });
        Some((*name, Client::Trace(sent.collect())))
    };
    clients.iter().zip(live).map(one).collect()
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
    for pair in pairs {
        let reason = format!("{} {}", disturbance(pairs), as_sent(pair));
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
    if pairs.iter().all(|pair| pair.live.sent_us.is_empty()) {
        return "Its clients are closed loops of fio, which does not tell when it sent what; a flush takes what this \
                machine takes to sync the store's file, which the emulated disk knows nothing of."
            .to_owned();
    }
    format!("In this run the machine let a sender wait for up to {} ms beyond its instant.", number(late_ms))
}

/// What a twin of what was really sent makes of it: how much of a difference is the clients', not the gateway's.
fn as_sent(pair: &Pair) -> String {
    let Some(resent) = &pair.resent else { return String::new() };
    let mean_ms = resent.latency.latency_mean_us / 1e3;
    let off = |live: f64, twin: f64| number(100.0 * (live - twin) / twin);
    format!(
        "A twin of what was sent, at the instants at which it was, has {} IOPS at {} ms: live is {} and {} % off that",
        number(resent.served_iops),
        number(mean_ms),
        off(pair.live.iops, resent.served_iops),
        off(pair.live.mean_ms, mean_ms)
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
            Client::Fio(_) | Client::Files(..) | Client::Play(_) => None,
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
    if clients.iter().all(|(_, client)| !matches!(client, Client::Fio(_) | Client::Files(..))) {
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

/// What each client measured, and of clients on files the requests per second at the block layer, by volume.
fn live(
    scenario: &Scenario,
    rate: &str,
    clients: &[(&str, Client)],
) -> io::Result<(Vec<Measured>, HashMap<String, f64>)> {
    let temporary = tempfile::Builder::new().prefix("evenkeel-live").tempdir()?;
    let folder = temporary.path();
    std::fs::File::create(folder.join("store.img"))?.set_len((32 << 20) * scenario.flows.len() as u64)?;
    for (name, client) in clients {
        if let Client::Files(_, data) = client {
            data.write(&folder.join(format!("{name}.img")))?;
        }
    }
    let text = configuration(scenario, rate, clients);
    let config = config::parse(&text, &folder.join("live.toml")).map_err(io::Error::other)?;
    let server = Server::start(&config).map_err(io::Error::other)?;
    let socket = folder.join("nbd.sock");
    let measured = drive(&server, folder, &socket, scenario.duration.as_nanos(), clients);
    let ended = server.shutdown();
    if let Some((store, error)) = ended.failures.into_iter().next() {
        return Err(io::Error::other(format!("store {store}: {error}")));
    }
    measured
}

/// Lets all clients loose at the same time, for `nanos`.
fn drive(
    server: &Server,
    folder: &Path,
    socket: &Path,
    nanos: u64,
    clients: &[(&str, Client)],
) -> io::Result<(Vec<Measured>, HashMap<String, f64>)> {
    let duration = Duration::from_nanos(nanos);
    let mut mounts = HashMap::new();
    for (name, client) in clients {
        if matches!(client, Client::Files(..)) {
            mounts.insert(*name, Mounted::new(folder, socket, name)?);
        }
    }
    let served = || -> HashMap<String, u64> {
        server.accounts().into_iter().map(|it| (it.volume, it.account.served)).collect()
    };
    // Everybody has connected by then, so what is to come together comes together.
    let start = Instant::now() + Duration::from_millis(300);
    std::thread::scope(|scope| {
        let threads: Vec<_> = clients
            .iter()
            .map(|(name, client)| {
                let data = mounts.get(name).map(Mounted::path);
                scope.spawn(move || match (client, data) {
                    (Client::Fio(job), _) => fio::run(folder, socket, name, job, duration.as_secs()),
                    (Client::Files(job, _), Some(data)) => {
                        fio::run_on_files(folder, data, name, job, duration.as_secs())
                    }
                    (Client::Files(..), None) => Err(io::Error::other("its file system is not mounted")),
                    (Client::Play(requests) | Client::Trace(requests), _) => {
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
        let mut block = HashMap::new();
        if !mounts.is_empty() {
            // Without the beginning, when files are opened, and the end, when one client may have gone.
            std::thread::sleep(SETTLING);
            let (before, began) = (served(), Instant::now());
            std::thread::sleep(duration.saturating_sub(2 * SETTLING));
            let (after, seconds) = (served(), began.elapsed().as_secs_f64());
            let of =
                |name: &str| after.get(name).copied().unwrap_or(0) - before.get(name).copied().unwrap_or(0);
            block = mounts.keys().map(|name| ((*name).to_owned(), of(name) as f64 / seconds)).collect();
        }
        Ok((threads.into_iter().map(join).collect::<io::Result<Vec<_>>>()?, block))
    })
}

/// The gateway's configuration: the scenario's device and promises. Table 3 promises more than the disk has.
/// A client on files has an image of its own for a volume.
fn configuration(scenario: &Scenario, rate: &str, clients: &[(&str, Client)]) -> String {
    let mut text = format!(
        "[gateway]\nlisten = [\"unix:nbd.sock\"]\n\n[store.disk]\npath = \"store.img\"\nscheduler = \"{}\"\n\
         admission = \"warn\"\nemulate = {{ rate = \"{rate}\", servers = 1 }}\n",
        scenario.scheduler
    );
    for (index, flow) in scenario.flows.iter().enumerate() {
        let on_files =
            |(name, client): &(&str, Client)| *name == flow.name && matches!(client, Client::Files(..));
        let place = if clients.iter().any(on_files) {
            format!("path = \"{}.img\"", flow.name)
        } else {
            format!("offset = \"{} MiB\"\nsize = \"32 MiB\"", 32 * index)
        };
        let promise = sla(&flow.slo, scenario.scheduler == "nested");
        text.push_str(&format!("\n[volume.{}]\n{place}\n{promise}", flow.name));
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
