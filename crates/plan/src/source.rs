//! Traces that can be read as often as need be.
//!
//! All opening of files is in [`FileSource`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use evenkeel_core::{Cost, CostModel, Envelope, Operation, Slo, Time};
use evenkeel_trace::{Options, TraceError, TraceRequest};

use crate::error::PlanError;

/// How far a file is searched for its first line.
const FIRST_LINE_BYTES: u64 = 64 << 10;

/// The requests of a trace, in the order of time.
pub type Requests<'s> = Box<dyn Iterator<Item = Result<TraceRequest, PlanError>> + 's>;

/// A trace that can be opened again and again, and gives the same requests each time.
pub trait Source: Sync {
    /// Its name in messages.
    fn name(&self) -> String;

    /// Begins a pass.
    ///
    /// # Errors
    /// If it cannot be read. An item is an error if the trace cannot be read on there.
    fn open(&self) -> Result<Requests<'_>, PlanError>;

    /// What one of its requests costs.
    fn cost(&self, request: &TraceRequest) -> Cost {
        let _ = request;
        Cost::ONE
    }

    /// A pass that makes sure of the order of time.
    ///
    /// # Errors
    /// Those of [`Source::open`]; and an item is [`PlanError::Unsorted`] where time goes back.
    fn sorted(&self) -> Result<Requests<'_>, PlanError> {
        let name = self.name();
        let mut before = Time::ZERO;
        let mut number = 0;
        Ok(Box::new(self.open()?.map(move |request| {
            let request = request?;
            number += 1;
            if request.at < before {
                return Err(PlanError::Unsorted { trace: name.clone(), number, at: request.at, before });
            }
            before = request.at;
            Ok(request)
        })))
    }
}

/// A trace in memory.
#[derive(Clone, Debug, Default)]
pub struct MemorySource {
    /// Its requests.
    pub requests: Vec<TraceRequest>,
}

impl MemorySource {
    /// Reads of 4 KiB at these instants.
    #[must_use]
    pub fn at(instants: &[Time]) -> Self {
        let request = |at: &Time| TraceRequest {
            at: *at,
            volume: 0,
            operation: Operation::Read,
            offset: 0,
            length: 4096,
        };
        Self { requests: instants.iter().map(request).collect() }
    }
}

impl Source for MemorySource {
    fn name(&self) -> String {
        "trace".to_owned()
    }

    fn open(&self) -> Result<Requests<'_>, PlanError> {
        Ok(Box::new(self.requests.iter().copied().map(Ok)))
    }
}

/// A trace whose requests cost what a model says.
pub struct Priced<'s> {
    /// The trace.
    pub source: &'s dyn Source,
    /// What its requests cost.
    pub cost: CostModel,
}

impl Source for Priced<'_> {
    fn name(&self) -> String {
        self.source.name()
    }

    fn open(&self) -> Result<Requests<'_>, PlanError> {
        self.source.open()
    }

    fn cost(&self, request: &TraceRequest) -> Cost {
        self.cost.cost(request.operation, request.length)
    }
}

/// The traces of several volumes that share one agreement, in the order of time; of equal times, in the order of
/// the members. The volume of each request is the member's number.
pub struct Together<'s> {
    /// The name of the agreement.
    pub name: String,
    /// What each member sends.
    pub members: Vec<&'s dyn Source>,
}

impl Source for Together<'_> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn open(&self) -> Result<Requests<'_>, PlanError> {
        let mut merged = Merged::of(self.members.iter().copied())?;
        Ok(Box::new(std::iter::from_fn(move || match merged.pop() {
            Ok(next) => next.map(|(member, request)| Ok(TraceRequest { volume: member as u32, ..request })),
            Err(error) => Some(Err(error)),
        })))
    }

    fn cost(&self, request: &TraceRequest) -> Cost {
        self.members.get(request.volume as usize).map_or(Cost::ONE, |member| member.cost(request))
    }
}

/// A trace in a file; each pass reads it anew.
#[derive(Clone, Debug)]
pub struct FileSource {
    path: PathBuf,
    volume: Option<u32>,
}

impl FileSource {
    /// The trace in the file at `path`, or only its volume of this number.
    #[must_use]
    pub fn new(path: &Path, volume: Option<u32>) -> Self {
        Self { path: path.to_owned(), volume }
    }
}

impl Source for FileSource {
    fn name(&self) -> String {
        match self.volume {
            Some(volume) => format!("{} (volume {volume})", self.path.display()),
            None => self.path.display().to_string(),
        }
    }

    fn open(&self) -> Result<Requests<'_>, PlanError> {
        let requests = open_file(&self.path)?;
        let volume = self.volume;
        let wanted = move |request: &Result<TraceRequest, PlanError>| {
            request.as_ref().map_or(true, |request| volume.is_none_or(|volume| volume == request.volume))
        };
        Ok(Box::new(requests.filter(wanted)))
    }
}

/// Opens a trace: any format that is recognised, or plain lines `seconds,R|W,offset,bytes` with, if there are
/// several volumes, `,volume` behind.
fn open_file(path: &Path) -> Result<Requests<'static>, PlanError> {
    if is_plain(path)? {
        return open_plain(path);
    }
    let failed =
        |error: TraceError| PlanError::Trace { path: error.file().to_owned(), message: told(&error) };
    let reader = evenkeel_trace::open(path, &Options::default()).map_err(failed)?;
    Ok(Box::new(reader.map(move |request| request.map_err(failed))))
}

/// What a reader says, without the file's name, which stands in front of it already.
fn told(error: &TraceError) -> String {
    let text = error.to_string();
    let name = format!("{}: ", error.file().display());
    let remedy = error.remedy();
    let where_to = if remedy.contains(" --") { ", in `evenkeel trace convert`" } else { "" };
    format!("{}; {remedy}{where_to}", text.strip_prefix(&name).unwrap_or(&text))
}

/// Whether the first line of the file that says anything is a plain one.
fn is_plain(path: &Path) -> Result<bool, PlanError> {
    let failed = |error: io::Error| PlanError::Trace {
        path: path.to_owned(),
        message: format!("{error}; check its name and permissions"),
    };
    let file = File::open(path).map_err(failed)?;
    let mut reader = BufReader::new(file.take(FIRST_LINE_BYTES));
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).map_err(failed)? > 0 {
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        if !text.is_empty() && !text.starts_with('#') {
            return Ok(parse_line(text).is_some());
        }
        line.clear();
    }
    Ok(true)
}

fn open_plain(path: &Path) -> Result<Requests<'static>, PlanError> {
    let failed = {
        let path = path.to_owned();
        move |message: String| PlanError::Trace { path: path.clone(), message }
    };
    let file =
        File::open(path).map_err(|error| failed(format!("{error}; check its name and permissions")))?;
    let lines = (1_u64..).zip(BufReader::with_capacity(1 << 16, file).lines());
    Ok(Box::new(lines.filter_map(move |(number, line)| {
        let line = match line {
            Ok(line) => line,
            Err(error) => return Some(Err(failed(format!("line {number}: {error}")))),
        };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        Some(parse_line(line).ok_or_else(|| {
            failed(format!("line {number}: {line:?} is not seconds,R|W,offset,bytes[,volume]; correct it"))
        }))
    })))
}

fn parse_line(line: &str) -> Option<TraceRequest> {
    let mut fields = line.split(',').map(str::trim);
    let at = parse_seconds(fields.next()?)?;
    let operation = match fields.next()? {
        "R" | "r" => Operation::Read,
        "W" | "w" => Operation::Write,
        _ => return None,
    };
    let offset = fields.next()?.parse().ok()?;
    let length = fields.next()?.parse().ok()?;
    let volume = fields.next().map_or(Some(0), |text| text.parse().ok())?;
    fields.next().is_none().then_some(TraceRequest { at, volume, operation, offset, length })
}

/// Seconds with up to nine decimals, exactly.
fn parse_seconds(text: &str) -> Option<Time> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    if part.is_empty() || part.len() > 9 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nanos = format!("{part:0<9}").parse::<u64>().ok()?;
    let whole = whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
    whole.checked_add(nanos).map(Time::from_nanos)
}

/// A flow: what it sends and what it is promised.
pub struct Flow<'s> {
    /// Its name.
    pub name: String,
    /// What it sends.
    pub source: &'s dyn Source,
    /// Its classes, the innermost first; none for a background flow.
    pub classes: Vec<Envelope>,
}

impl Flow<'_> {
    /// Its classes as a promise.
    #[must_use]
    pub fn slo(&self) -> Slo {
        Slo::nested(&self.classes).unwrap_or(Slo::background())
    }
}

/// The requests of several flows in the order of time; of equal times, in the order of the flows.
pub(crate) struct Merged<'s> {
    passes: Vec<Requests<'s>>,
    next: BinaryHeap<Reverse<(Time, usize)>>,
    heads: Vec<Option<TraceRequest>>,
}

impl<'s> Merged<'s> {
    pub(crate) fn open(flows: &[Flow<'s>]) -> Result<Self, PlanError> {
        Self::of(flows.iter().map(|flow| flow.source))
    }

    fn of(sources: impl Iterator<Item = &'s dyn Source>) -> Result<Self, PlanError> {
        let mut merged = Self { passes: Vec::new(), next: BinaryHeap::new(), heads: Vec::new() };
        for source in sources {
            merged.passes.push(source.sorted()?);
            merged.heads.push(None);
            merged.advance(merged.passes.len() - 1)?;
        }
        Ok(merged)
    }

    /// When the next request comes.
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.next.peek().map(|Reverse((at, _))| *at)
    }

    /// The next request and the index of its flow.
    pub(crate) fn pop(&mut self) -> Result<Option<(usize, TraceRequest)>, PlanError> {
        let Some(Reverse((_, flow))) = self.next.pop() else { return Ok(None) };
        let request = self.heads[flow].take();
        self.advance(flow)?;
        Ok(request.map(|request| (flow, request)))
    }

    fn advance(&mut self, flow: usize) -> Result<(), PlanError> {
        self.heads[flow] = self.passes[flow].next().transpose()?;
        if let Some(request) = self.heads[flow] {
            self.next.push(Reverse((request.at, flow)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_exactly_or_refused() {
        let request = parse_line("1.000000001, R, 4096, 512, 3").expect("a line");
        assert_eq!((request.at.as_nanos(), request.volume, request.length), (1_000_000_001, 3, 512));
        for bad in ["", "1", "x,R,0,1", "1,Q,0,1", "1,R,0", "1,R,0,1,2,3", "1.0000000001,R,0,1", "-1,R,0,1"] {
            assert_eq!(parse_line(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn time_that_goes_back_is_named() {
        let source = MemorySource::at(&[Time::from_millis(5), Time::from_millis(4)]);
        let error = source.sorted().expect("opens").nth(1).expect("two").expect_err("unsorted");
        assert!(error.to_string().contains("request 2"), "{error}");
    }
}
