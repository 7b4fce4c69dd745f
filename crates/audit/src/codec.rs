//! Events as bytes. Only differences to what is known already are written.
//!
//! ```text
//!  record    tag │ flow │ completion │ service │ wait │ promise │ [length] │ [cost]
//!             │            │              │         └ dispatch − arrival
//!             │            │              └ completion − dispatch
//!             │            └ − the completion before it in the block, zigzag
//!             ├ bits 0–2 operation (5: not a record, a byte of kind follows)
//!             ├ bits 3–4 outcome
//!             ├ bit 5    promised what its class says: only the class follows; else δ + 1 and class + 1, or 0
//!             ├ bit 6    costs one request
//!             └ bit 7    as long as the flow's request before it
//! ```
//!
//! A record of a busy store takes 10 to 13 bytes. Both sides keep the same small state: for each flow the
//! latencies of its classes and the length of its last request.

use evenkeel_core::{
    Cost, Envelope, FlowId, Limit, Membership, Operation, Outcome, Rate, Record, Request, RequestId, Slo,
    Span, Time, Weight,
};

use crate::error::Malformed;
use crate::event::{Change, Event, Terms};
use crate::wire::{Cursor, put_text, put_varint, unzigzag, zigzag};

const OPERATIONS: [Operation; 5] =
    [Operation::Read, Operation::Write, Operation::Flush, Operation::Trim, Operation::WriteZeroes];
const OUTCOMES: [Outcome; 3] = [Outcome::Done, Outcome::Failed, Outcome::Cancelled];

const CONTROL: u8 = 5;
const BY_CLASS: u8 = 1 << 5;
const COST_ONE: u8 = 1 << 6;
const SAME_LENGTH: u8 = 1 << 7;

const CONFIGURE: u8 = 0;
const STANDING: u8 = 1;
const REMOVE: u8 = 2;
const CHANGE: u8 = 3;
const OPEN: u8 = 4;
const GAP: u8 = 5;

/// What both sides know while they write or read a file of the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Codec {
    flows: Vec<FlowCode>,
    completion: u64,
}

#[derive(Clone, Debug, Default)]
struct FlowCode {
    /// δ of each class, in nanoseconds.
    latencies: Box<[u64]>,
    length: u32,
}

impl Codec {
    /// To be called where a block begins: a block can be read without the times of the one before.
    pub(crate) fn begin_block(&mut self) {
        self.completion = 0;
    }

    pub(crate) fn put_record(&mut self, out: &mut Vec<u8>, record: &Record) {
        let Record { request, arrival, dispatch, completion, promise, class, outcome } = record;
        let known = self.flows.get_mut(request.flow.0 as usize);
        let (same_length, by_class) = match known {
            Some(known) => {
                let same = known.length == request.length;
                known.length = request.length;
                (same, class_promises(&known.latencies, *class, *promise))
            }
            None => (false, None),
        };
        let mut tag = operation_code(request.operation) | outcome_code(*outcome) << 3;
        tag |= if by_class.is_some() { BY_CLASS } else { 0 };
        tag |= if request.cost == Cost::ONE { COST_ONE } else { 0 };
        tag |= if same_length { SAME_LENGTH } else { 0 };
        out.push(tag);
        put_varint(out, u64::from(request.flow.0));
        put_varint(out, zigzag(completion.as_nanos().wrapping_sub(self.completion)));
        self.completion = completion.as_nanos();
        put_varint(out, completion.as_nanos().wrapping_sub(dispatch.as_nanos()));
        put_varint(out, dispatch.as_nanos().wrapping_sub(arrival.as_nanos()));
        match (by_class, promise) {
            (Some(class), _) => out.push(class),
            (None, None) if class.is_none() => out.push(0),
            (None, _) => {
                // One more than δ, and one for none at all beside a class.
                put_varint(out, promise.map_or(1, |span| span.as_nanos().saturating_add(2)));
                put_varint(out, class.map_or(0, |class| u64::from(class) + 1));
            }
        }
        if !same_length {
            put_varint(out, u64::from(request.length));
        }
        if request.cost != Cost::ONE {
            put_varint(out, request.cost.as_millis());
        }
    }

    fn record(&mut self, tag: u8, cursor: &mut Cursor<'_>) -> Result<Record, Malformed> {
        let (operation, outcome) = (operation(tag & 7)?, outcome(tag >> 3 & 3)?);
        let flow = flow(cursor)?;
        let completion = self.completion.wrapping_add(unzigzag(cursor.varint()?));
        self.completion = completion;
        let dispatch = completion.wrapping_sub(cursor.varint()?);
        let arrival = dispatch.wrapping_sub(cursor.varint()?);
        let mut known = self.flows.get_mut(flow.0 as usize);
        let (promise, class) = if tag & BY_CLASS != 0 {
            let class = cursor.byte()?;
            let latencies = known.as_ref().map(|known| &known.latencies);
            let nanos = latencies.and_then(|it| it.get(usize::from(class))).ok_or(Malformed::Range)?;
            (Some(Span::from_nanos(*nanos)), Some(class))
        } else {
            match cursor.varint()? {
                0 => (None, None),
                code => {
                    let class = cursor.varint()?.checked_sub(1).map(u8::try_from).transpose();
                    let promise = code.checked_sub(2).map(Span::from_nanos);
                    (promise, class.map_err(|_| Malformed::Range)?)
                }
            }
        };
        let length = match (tag & SAME_LENGTH != 0, &known) {
            (true, Some(known)) => known.length,
            (true, None) => return Err(Malformed::Range),
            (false, _) => cursor.small()?,
        };
        if let Some(known) = &mut known {
            known.length = length;
        }
        let cost = if tag & COST_ONE != 0 { Cost::ONE } else { Cost::from_millis(cursor.varint()?) };
        let request = Request { id: RequestId(0), flow, operation, offset: 0, length, cost };
        let [arrival, dispatch, completion] = [arrival, dispatch, completion].map(Time::from_nanos);
        Ok(Record { request, arrival, dispatch, completion, promise, class, outcome })
    }

    pub(crate) fn put(&mut self, out: &mut Vec<u8>, event: &Event) {
        match event {
            Event::Record(record) => self.put_record(out, record),
            Event::Configure(terms) => self.put_terms(out, CONFIGURE, terms),
            Event::Standing(terms) => self.put_terms(out, STANDING, terms),
            Event::Remove { at, flow } => {
                out.extend([CONTROL, REMOVE]);
                put_varint(out, at.as_nanos());
                put_varint(out, u64::from(flow.0));
                self.learn(*flow, &[]);
            }
            Event::Change { at, change } => {
                out.extend([CONTROL, CHANGE]);
                put_varint(out, at.as_nanos());
                match change {
                    Change::Scheduler(name) => {
                        out.push(0);
                        put_text(out, name);
                    }
                    Change::Depth(depth) => {
                        out.push(1);
                        put_varint(out, u64::from(*depth));
                    }
                    Change::Capacity(rate) => {
                        out.push(2);
                        put_varint(out, rate.map_or(0, Rate::as_millis));
                    }
                    Change::Adapted(flow) => {
                        out.push(3);
                        put_varint(out, u64::from(flow.0));
                    }
                }
            }
            Event::Gap { at, notes, records } => {
                out.extend([CONTROL, GAP]);
                for value in [at.as_nanos(), *notes, *records] {
                    put_varint(out, value);
                }
            }
            Event::Open { at, flow, requests, bytes } => {
                out.extend([CONTROL, OPEN]);
                for value in [at.as_nanos(), u64::from(flow.0), *requests, *bytes] {
                    put_varint(out, value);
                }
            }
        }
    }

    /// The next event of a block.
    pub(crate) fn next(&mut self, cursor: &mut Cursor<'_>) -> Result<Event, Malformed> {
        let tag = cursor.byte()?;
        if tag != CONTROL {
            return self.record(tag, cursor).map(Event::Record);
        }
        match cursor.byte()? {
            CONFIGURE => self.terms(cursor).map(Event::Configure),
            STANDING => self.terms(cursor).map(Event::Standing),
            REMOVE => {
                let at = time(cursor)?;
                let flow = flow(cursor)?;
                self.learn(flow, &[]);
                Ok(Event::Remove { at, flow })
            }
            CHANGE => {
                let at = time(cursor)?;
                let change = match cursor.byte()? {
                    0 => Change::Scheduler(cursor.text()?.into()),
                    1 => Change::Depth(cursor.small()?),
                    2 => Change::Capacity(some_rate(cursor)?),
                    3 => Change::Adapted(flow(cursor)?),
                    other => return Err(Malformed::Kind(other)),
                };
                Ok(Event::Change { at, change })
            }
            OPEN => {
                let (at, flow) = (time(cursor)?, flow(cursor)?);
                Ok(Event::Open { at, flow, requests: cursor.varint()?, bytes: cursor.varint()? })
            }
            GAP => Ok(Event::Gap { at: time(cursor)?, notes: cursor.varint()?, records: cursor.varint()? }),
            other => Err(Malformed::Kind(other)),
        }
    }

    fn put_terms(&mut self, out: &mut Vec<u8>, kind: u8, terms: &Terms) {
        out.extend([CONTROL, kind]);
        put_varint(out, u64::from(terms.flow.0));
        put_varint(out, terms.at.as_nanos());
        put_text(out, &terms.name);
        put_slo(out, &terms.slo);
        put_member(out, terms.member);
        self.learn(terms.flow, terms.slo.classes());
    }

    fn terms(&mut self, cursor: &mut Cursor<'_>) -> Result<Terms, Malformed> {
        let (flow, at) = (flow(cursor)?, time(cursor)?);
        let name = cursor.text()?.into();
        let slo = slo(cursor)?;
        let member = member(cursor)?;
        self.learn(flow, slo.classes());
        Ok(Terms { flow, at, name, slo, member })
    }

    fn learn(&mut self, flow: FlowId, classes: &[Envelope]) {
        let index = flow.0 as usize;
        if self.flows.len() <= index {
            self.flows.resize_with(index + 1, FlowCode::default);
        }
        self.flows[index].latencies = classes.iter().map(|class| class.latency().as_nanos()).collect();
    }
}

/// Whether an event that begins with `tag` is a record.
pub(crate) const fn is_record(tag: u8) -> bool {
    tag != CONTROL
}

/// The class, if it promises just this.
fn class_promises(latencies: &[u64], class: Option<u8>, promise: Option<Span>) -> Option<u8> {
    let class = class?;
    let promised = latencies.get(usize::from(class))?;
    (promise? == Span::from_nanos(*promised)).then_some(class)
}

pub(crate) const fn operation_code(operation: Operation) -> u8 {
    match operation {
        Operation::Read => 0,
        Operation::Write => 1,
        Operation::Flush => 2,
        Operation::Trim => 3,
        Operation::WriteZeroes => 4,
    }
}

pub(crate) const fn outcome_code(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Done => 0,
        Outcome::Failed => 1,
        Outcome::Cancelled => 2,
    }
}

pub(crate) fn operation(code: u8) -> Result<Operation, Malformed> {
    OPERATIONS.get(usize::from(code)).copied().ok_or(Malformed::Kind(code))
}

pub(crate) fn outcome(code: u8) -> Result<Outcome, Malformed> {
    OUTCOMES.get(usize::from(code)).copied().ok_or(Malformed::Kind(code))
}

pub(crate) fn put_slo(out: &mut Vec<u8>, slo: &Slo) {
    put_varint(out, slo.classes().len() as u64);
    for class in slo.classes() {
        for value in [class.burst().as_millis(), class.rate().as_millis(), class.latency().as_nanos()] {
            put_varint(out, value);
        }
    }
    put_varint(out, u64::from(slo.weight().as_u32()));
    put_varint(out, slo.reservation().map_or(0, Rate::as_millis));
    put_varint(out, slo.limit().map_or(0, Rate::as_millis));
    out.push(u8::from(slo.is_interactive()));
}

pub(crate) fn slo(cursor: &mut Cursor<'_>) -> Result<Slo, Malformed> {
    let count = usize::try_from(cursor.varint()?).map_err(|_| Malformed::Promise)?;
    if count > Slo::CLASSES_MAX {
        return Err(Malformed::Promise);
    }
    let mut classes = Vec::with_capacity(count);
    for _ in 0..count {
        let burst = Cost::from_millis(cursor.varint()?);
        let rate = Rate::from_millis(cursor.varint()?);
        let latency = Span::from_nanos(cursor.varint()?);
        classes.push(Envelope::new(burst, rate, latency).map_err(|_| Malformed::Promise)?);
    }
    let mut slo = match classes.len() {
        0 => Slo::background(),
        _ => Slo::nested(&classes).map_err(|_| Malformed::Promise)?,
    };
    slo = slo.with_weight(Weight::new(cursor.small()?).ok_or(Malformed::Promise)?);
    if let Some(rate) = some_rate(cursor)? {
        slo = slo.with_reservation(rate).map_err(|_| Malformed::Promise)?;
    }
    if let Some(rate) = some_rate(cursor)? {
        slo = slo.with_limit(rate).map_err(|_| Malformed::Promise)?;
    }
    match cursor.byte()? {
        0 => Ok(slo),
        1 => Ok(slo.with_interactive()),
        _ => Err(Malformed::Range),
    }
}

/// No group: 0. Otherwise its flow + 1, the weight, and σ and ρ of the limit, both 0 if there is none.
fn put_member(out: &mut Vec<u8>, member: Option<Membership>) {
    let Some(member) = member else { return put_varint(out, 0) };
    put_membership(out, member);
}

pub(crate) fn put_membership(out: &mut Vec<u8>, Membership { group, weight, limit }: Membership) {
    let (burst, rate) = limit.map_or((0, 0), |limit| (limit.burst().as_millis(), limit.rate().as_millis()));
    for value in [u64::from(group.0) + 1, u64::from(weight.as_u32()), burst, rate] {
        put_varint(out, value);
    }
}

pub(crate) fn member(cursor: &mut Cursor<'_>) -> Result<Option<Membership>, Malformed> {
    let Some(group) = cursor.varint()?.checked_sub(1) else { return Ok(None) };
    let group = u32::try_from(group).ok().map(FlowId).filter(|group| *group <= FlowId::MAX);
    let group = group.ok_or(Malformed::Range)?;
    let weight = Weight::new(cursor.small()?).ok_or(Malformed::Promise)?;
    let limit = match (cursor.varint()?, cursor.varint()?) {
        (0, 0) => None,
        (burst, rate) => Some(
            Limit::new(Cost::from_millis(burst), Rate::from_millis(rate)).map_err(|_| Malformed::Promise)?,
        ),
    };
    Ok(Some(Membership { group, weight, limit }))
}

fn some_rate(cursor: &mut Cursor<'_>) -> Result<Option<Rate>, Malformed> {
    Ok(Some(Rate::from_millis(cursor.varint()?)).filter(|rate| rate.as_millis() > 0))
}

pub(crate) fn time(cursor: &mut Cursor<'_>) -> Result<Time, Malformed> {
    cursor.varint().map(Time::from_nanos)
}

pub(crate) fn flow(cursor: &mut Cursor<'_>) -> Result<FlowId, Malformed> {
    let flow = FlowId(cursor.small()?);
    if flow > FlowId::MAX { Err(Malformed::Range) } else { Ok(flow) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_slo() -> impl Strategy<Value = Slo> {
        let class = (0_u64..1_000_000, 1_u64..1_000_000, 1_u64..1_000_000);
        (prop::collection::vec(class, 0..4), 1_u32..1_000, any::<bool>()).prop_map(
            |(mut steps, weight, interactive)| {
                // Running sums are nested.
                for index in 1..steps.len() {
                    let before = steps[index - 1];
                    let step = &mut steps[index];
                    *step = (step.0 + before.0, step.1 + before.1, step.2 + before.2);
                }
                let envelope = |&(burst, rate, latency): &(u64, u64, u64)| {
                    let (burst, rate) = (Cost::from_millis(burst), Rate::from_millis(rate));
                    Envelope::new(burst, rate, Span::from_nanos(latency)).expect("in range")
                };
                let classes: Vec<Envelope> = steps.iter().map(envelope).collect();
                let slo = Slo::nested(&classes).unwrap_or(Slo::background());
                let slo = slo.with_weight(Weight::new(weight).expect("in range"));
                if interactive { slo.with_interactive() } else { slo }
            },
        )
    }

    fn any_record() -> impl Strategy<Value = Record> {
        let promise = prop::option::of(prop_oneof![any::<u32>().prop_map(u64::from), Just(u64::MAX - 2)]);
        let parts = (0_usize..5, 0_usize..3, 0_u32..6, any::<u32>(), prop_oneof![Just(1_000), any::<u64>()]);
        (parts, any::<[u64; 3]>(), promise, prop::option::of(0_u8..4)).prop_map(
            |((operation, outcome, flow, length, cost), times, promise, class)| {
                let [arrival, dispatch, completion] = times.map(Time::from_nanos);
                let request = Request {
                    id: RequestId(0),
                    flow: FlowId(flow),
                    operation: OPERATIONS[operation],
                    offset: 0,
                    length: length % 3 * 4096,
                    cost: Cost::from_millis(cost),
                };
                let promise = promise.map(Span::from_nanos);
                let outcome = OUTCOMES[outcome];
                Record { request, arrival, dispatch, completion, promise, class, outcome }
            },
        )
    }

    fn any_event() -> impl Strategy<Value = Event> {
        let limit = (1_u64..1_000_000, 1_u64..1_000_000).prop_map(|(burst, rate)| {
            Limit::new(Cost::from_millis(burst), Rate::from_millis(rate)).expect("in range")
        });
        let member =
            (0_u32..1 << 20, 1_u32..1_000, prop::option::of(limit)).prop_map(|(group, weight, limit)| {
                Membership { group: FlowId(group), weight: Weight::new(weight).expect("in range"), limit }
            });
        let member = prop::option::of(member);
        let terms = || {
            let parts = (0_u32..6, any::<u64>(), "[a-zé]{0,9}", any_slo(), member.clone());
            parts.prop_map(|(flow, at, name, slo, member)| Terms {
                flow: FlowId(flow),
                at: Time::from_nanos(at),
                name: name.into(),
                slo,
                member,
            })
        };
        let change = prop_oneof![
            "[a-z+]{1,9}".prop_map(|name| Change::Scheduler(name.into())),
            any::<u32>().prop_map(Change::Depth),
            (0_u32..6).prop_map(|flow| Change::Adapted(FlowId(flow))),
            any::<u32>().prop_map(|rate| {
                Change::Capacity(Some(Rate::from_millis(u64::from(rate))).filter(|_| rate > 0))
            }),
        ];
        prop_oneof![
            6 => any_record().prop_map(Event::Record),
            1 => terms().prop_map(Event::Configure),
            1 => terms().prop_map(Event::Standing),
            1 => (any::<u64>(), 0_u32..6)
                .prop_map(|(at, flow)| Event::Remove { at: Time::from_nanos(at), flow: FlowId(flow) }),
            1 => (any::<u64>(), change)
                .prop_map(|(at, change)| Event::Change { at: Time::from_nanos(at), change }),
            1 => any::<[u64; 3]>()
                .prop_map(|[at, notes, records]| Event::Gap { at: Time::from_nanos(at), notes, records }),
            1 => (any::<[u64; 3]>(), 0_u32..6).prop_map(|([at, requests, bytes], flow)| Event::Open {
                at: Time::from_nanos(at),
                flow: FlowId(flow),
                requests,
                bytes,
            }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(events in prop::collection::vec(any_event(), 0..60)) {
            let (mut writer, mut reader) = (Codec::default(), Codec::default());
            let mut bytes = Vec::new();
            writer.begin_block();
            for event in &events {
                writer.put(&mut bytes, event);
            }
            reader.begin_block();
            let mut cursor = Cursor::new(&bytes);
            for event in &events {
                prop_assert_eq!(&reader.next(&mut cursor).expect("whole"), event);
            }
            prop_assert!(cursor.is_empty());
        }
    }
}
