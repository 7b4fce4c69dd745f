//! How many records a second are encoded, chained and signed, and how many bytes each takes:
//! `cargo run --release -p evenkeel-audit --example throughput`.
#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::time::Instant;

use evenkeel_audit::{Encoder, Header, SigningKey};
use evenkeel_core::{
    Cost, Envelope, FlowId, Operation, Outcome, Rate, Record, Request, RequestId, Slo, Span, Time,
};

const RECORDS: u64 = 20_000_000;
const FLOWS: u64 = 16;

fn main() {
    let header = Header {
        log: [1; 16],
        segment: 1,
        oldest: 1,
        before: None,
        first_record: 0,
        key: [0; 32],
        epoch_unix_ns: 0,
        store: "pool".into(),
    };
    let mut encoder = Encoder::new(header, SigningKey::from_bytes(&[7; 32]));
    let latency = Span::from_millis(10);
    let envelope = Envelope::new(Cost::requests(64), Rate::per_second(20_000), latency).expect("valid");
    for flow in 0..FLOWS {
        encoder.configure(Time::ZERO, FlowId(flow as u32), "volume", &Slo::guaranteed(envelope));
    }
    let (mut bytes, mut random) = (0, 1_u64);
    let start = Instant::now();
    for number in 0..RECORDS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let request = Request {
            id: RequestId(number),
            flow: FlowId((random % FLOWS) as u32),
            operation: if random & 16 == 0 { Operation::Write } else { Operation::Read },
            offset: 0,
            length: 4096,
            cost: Cost::ONE,
        };
        // 170 000 requests a second, each in some 90 us.
        let completion = 1_000_000 + number * 5_900 + random % 1_000;
        let dispatch = completion - 60_000 - random % 20_000;
        let record = Record {
            request,
            arrival: Time::from_nanos(dispatch - random % 30_000),
            dispatch: Time::from_nanos(dispatch),
            completion: Time::from_nanos(completion),
            promise: (random & 32 == 0).then_some(latency),
            class: (random & 32 == 0).then_some(0),
            outcome: Outcome::Done,
        };
        encoder.on_arrival(&request);
        encoder.record(&record);
        if number % 170_000 == 0 {
            encoder.checkpoint(record.completion);
        }
        if encoder.output().len() >= 64 * 1024 {
            bytes += encoder.output().len();
            encoder.output().clear();
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{:.1} million records/s on one core, {:.2} bytes a record",
        RECORDS as f64 / seconds / 1e6,
        bytes as f64 / RECORDS as f64
    );
}
