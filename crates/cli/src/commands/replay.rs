//! `evenkeel replay`: runs in the simulator what the gateway's engine was told, and holds the answers against
//! those that were given live.
//!
//! ```text
//!  FILE ──> configuration ──> sim::Replay ──┬─> events (--events), byte for byte those of `serve --events`
//!    └────> calls, in order ──────────^     ├─> hash of the answers == the hash in the recording?
//!                                           └─> ledger ──> accounts and verdicts
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal, Write};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use clap::Args;
use evenkeel_audit::{Answers, Call, EndReason, Recording, RecordingEnd, RecordingError};
use evenkeel_core::{FlowId, Record, Request, Slo, Time};
use evenkeel_gateway::config::{self, Config, SchedulerKind, SpareTo, StoreConfig};
use evenkeel_gateway::engine_of;
use evenkeel_ledger::Ledger;
use evenkeel_sim::replay::{self, Replay};
use evenkeel_sim::{Change, Observer};
use indicatif::ProgressBar;
use serde_json::json;

use crate::report::print;

const SAME: u8 = 0;
const DIFFERENT: u8 = 1;
const BAD_INPUT: u8 = 2;

/// Options of `evenkeel replay`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes:
  0  the engine did the same again
  1  it did something else, or the recording was cut before its end
  2  the recording cannot be read or is of another version, or the command line is wrong")]
pub(crate) struct ReplayArgs {
    /// A recording of `evenkeel serve --record`
    file: PathBuf,
    /// Write what the engine answers to this file, a line each; it must not exist
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Replays; the process's exit code.
pub(crate) fn run(args: &ReplayArgs) -> u8 {
    match replay(args) {
        Ok(replayed) => {
            print(&if args.json { replayed.json() } else { replayed.text() });
            if replayed.is_same() { SAME } else { DIFFERENT }
        }
        Err(message) => {
            let message = format!("{}: {message}", args.file.display());
            if args.json {
                print(&format!("{}\n", json!({ "ok": false, "message": message })));
            }
            eprintln!("evenkeel: {message}");
            BAD_INPUT
        }
    }
}

/// What came of it.
struct Replayed {
    store: String,
    names: Vec<String>,
    ledger: Ledger,
    now: Time,
    calls: u64,
    got: RecordingEnd,
    /// `None` if the recording was cut.
    recorded: Option<RecordingEnd>,
}

fn replay(args: &ReplayArgs) -> Result<Replayed, String> {
    let file = File::open(&args.file).map_err(|error| format!("{error}; check its name and permissions"))?;
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let bar = if io::stderr().is_terminal() { ProgressBar::new(length) } else { ProgressBar::hidden() };
    let input = BufReader::with_capacity(1 << 16, bar.wrap_read(file));
    let mut recording = Recording::open(input).map_err(|error: RecordingError| error.to_string())?;
    let config = config::parse(recording.configuration(), &args.file)
        .map_err(|error| format!("the configuration in it is refused: {error}"))?;
    let store = config.stores.iter().position(|store| store.name == recording.store());
    let store = store.ok_or_else(|| format!("its configuration has no store {:?}", recording.store()))?;
    let events = args.events.as_deref().map(create).transpose()?;
    let mut player = Player::new(&config, store, events);
    let mut recorded = None;
    while let Some(call) = recording.next_call().map_err(|error| error.to_string())? {
        match call {
            Call::End(end) => recorded = Some(end),
            call => player.play(call)?,
        }
    }
    bar.finish_and_clear();
    player.finish(recorded)
}

fn create(path: &Path) -> Result<BufWriter<File>, String> {
    let file = File::create_new(path);
    file.map(BufWriter::new).map_err(|error| format!("{}: {error}; name a new file", path.display()))
}

/// The run, made again in the simulator.
struct Player<'c> {
    store: &'c StoreConfig,
    names: Vec<String>,
    replay: Replay<Accounts>,
    answers: Answers,
    events: Option<BufWriter<File>>,
}

/// The ledger, told of members and of their groups.
#[derive(Default)]
struct Accounts {
    ledger: Ledger,
    /// Members, with the flow of their group.
    groups: BTreeMap<FlowId, FlowId>,
    now: Time,
}

impl Observer for Accounts {
    fn on_arrival(&mut self, now: Time, request: &Request) {
        self.now = self.now.max(now);
        self.ledger.on_arrival(now, request);
        if let Some(group) = self.groups.get(&request.flow) {
            self.ledger.on_arrival(now, &Request { flow: *group, ..*request });
        }
    }

    fn on_reply(&mut self, record: &Record, _: u32) {
        self.now = self.now.max(record.completion);
        self.ledger.record(record);
        if let Some(group) = self.groups.get(&record.request.flow) {
            let request = Request { flow: *group, ..record.request };
            self.ledger.record(&Record { request, ..*record });
        }
    }

    fn on_configure(&mut self, now: Time, flow: FlowId, slo: &Slo) {
        self.now = self.now.max(now);
        self.ledger.configure(now, flow, slo);
    }

    fn on_change(&mut self, _: Time, change: &Change) {
        if let Change::Join(flow, membership) = change {
            self.groups.insert(*flow, membership.group);
        }
    }
}

impl<'c> Player<'c> {
    fn new(config: &'c Config, index: usize, events: Option<BufWriter<File>>) -> Self {
        let store = &config.stores[index];
        let volumes = config.volumes_of(index).map(|volume| volume.name.clone());
        let groups = config.groups.iter().filter(|group| group.store == index);
        let groups = groups.map(|group| format!("group {}", group.name));
        Self {
            store,
            names: volumes.chain(groups).collect(),
            replay: Replay::new(engine_of(store), Accounts::default()),
            answers: Answers::default(),
            events,
        }
    }

    fn play(&mut self, call: Call) -> Result<(), String> {
        let call = match call {
            Call::Input(now, input) => replay::Call::Input(now, input),
            Call::Poll(now, count) => replay::Call::Poll(now, count),
            Call::Depth(depth) => replay::Call::Depth(NonZeroU32::new(depth).ok_or("it sets a depth of 0")?),
            Call::Scheduler(now, name, background) => {
                let kind = SchedulerKind::ALL.into_iter().find(|kind| kind.name() == &*name);
                let kind = kind.ok_or_else(|| format!("it names a scheduler {name:?} that there is not"))?;
                let spare = if background { SpareTo::Background } else { SpareTo::Flows };
                replay::Call::Scheduler(now, kind.build(spare, &self.store.tuning))
            }
            Call::End(_) => return Ok(()),
        };
        let Self { replay, answers, events, .. } = self;
        replay.call(call, &mut |now, output, outstanding| {
            let line = answers.take(now, output, outstanding);
            match events {
                Some(events) => events.write_all(line).map_err(|error| unwritten(&error)),
                None => Ok(()),
            }
        })
    }

    fn finish(self, recorded: Option<RecordingEnd>) -> Result<Replayed, String> {
        if let Some(mut events) = self.events {
            events.flush().map_err(|error| unwritten(&error))?;
        }
        let reason = recorded.as_ref().map_or(EndReason::Ended, |end| end.reason);
        let calls = self.replay.calls();
        let Accounts { ledger, now, .. } = self.replay.into_observer();
        Ok(Replayed {
            store: self.store.name.clone(),
            names: self.names,
            ledger,
            now,
            calls,
            got: self.answers.end(reason),
            recorded,
        })
    }
}

fn unwritten(error: &io::Error) -> String {
    format!("the events cannot be written: {error}")
}

impl Replayed {
    fn is_same(&self) -> bool {
        self.recorded.as_ref() == Some(&self.got)
    }

    fn name_of(&self, flow: FlowId) -> String {
        self.names.get(flow.0 as usize).cloned().unwrap_or_else(|| format!("flow {}", flow.0))
    }

    fn verdict(&self) -> String {
        let answers = self.got.answers;
        match &self.recorded {
            None => format!(
                "the recording was cut: its {answers} answers cannot be held against those given live"
            ),
            Some(recorded) if *recorded != self.got => format!(
                "NOT the same: {answers} answers, and live there were {}; it was another version of the engine, or \
                 the recording was altered",
                recorded.answers
            ),
            Some(recorded) => {
                let until = match recorded.reason {
                    EndReason::Ended => "",
                    EndReason::Full => "; the recording had reached its largest size there",
                    EndReason::Behind => "; the disk under the recording could not keep up there",
                };
                format!("the same {answers} answers as live{until}")
            }
        }
    }

    fn text(&self) -> String {
        let mut text = format!("store {}: {} calls, {}\n", self.store, self.calls, self.verdict());
        for account in self.ledger.accounts(self.now) {
            text += &format!("{}: {}\n", self.name_of(account.flow), account.explanation);
        }
        text
    }

    fn json(&self) -> String {
        let accounts: Vec<_> = self
            .ledger
            .accounts(self.now)
            .map(|account| json!({ "volume": self.name_of(account.flow), "account": account }))
            .collect();
        let object = json!({
            "ok": self.is_same(), "store": self.store, "calls": self.calls, "answers": self.got.answers,
            "recorded_answers": self.recorded.as_ref().map(|end| end.answers),
            "ended": self.recorded.as_ref().map(|end| format!("{:?}", end.reason).to_lowercase()),
            "verdict": self.verdict(), "volumes": accounts,
        });
        format!("{object}\n")
    }
}
