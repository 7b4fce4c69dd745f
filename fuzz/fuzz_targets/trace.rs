//! Any bytes as a trace of any format: what is read is in order and within 64 bits, the counts add up, the
//! pieces in which the bytes come do not matter, and what was read survives being written.
#![no_main]

use std::io::{Cursor, Read};
use std::path::Path;

use evenkeel_fuzz::{Written, cuts, pieces};
use evenkeel_trace::write::Writer;
use evenkeel_trace::{Clock, Event, Format, Options, Reader, Report, TraceRequest};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&[format, options], rest)) = data.split_first_chunk::<2>() else { return };
    let Some((cuts, rest)) = cuts(rest) else { return };
    let mut options = reading(format, options);
    let mut input = rest;
    if options.format == Some(Format::Csv) && format & 0x80 != 0 {
        let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
        let text = String::from_utf8_lossy(&rest[..end]);
        let Ok(mapping) = text.parse() else { return };
        options.csv = Some(mapping);
        input = &rest[(end + 1).min(rest.len())..];
    }
    let cut: Vec<Vec<u8>> = pieces(cuts, input).map(<[u8]>::to_vec).collect();
    let whole = read(Cursor::new(input.to_vec()), &options);
    assert_eq!(read(Pieces(cut), &options), whole);
    if let (requests, volumes, Some(_)) = whole
        && !requests.is_empty()
    {
        again(&requests, &volumes);
    }
});

type Outcome = (Vec<TraceRequest>, Vec<String>, Option<Report>);

fn reading(format: u8, bits: u8) -> Options {
    let formats = Format::ALL.len();
    Options {
        format: Format::ALL.get(usize::from(format & 0x7f) % (formats + 1)).copied(),
        malformed_max: if bits & 1 == 0 { 100 } else { 0 },
        capacity: (bits & 2 != 0).then_some(1 << 40),
        // One volume held to it, as where each has a device of its own.
        capacity_of: (bits & 4 != 0).then_some(0),
        clock: if bits & 4 == 0 { Clock::FromFirst } else { Clock::AsWritten },
        reorder: usize::from(bits >> 4),
        event: if bits & 8 == 0 { Event::Queued } else { Event::Completed },
        interval: Some(evenkeel_core::Span::from_micros(1)),
        csv: None,
    }
}

/// What was read, and the report if nothing was wrong.
fn read(bytes: impl Read + Send + 'static, options: &Options) -> Outcome {
    let Ok(mut reader) = Reader::from_bytes(Path::new("x"), bytes, options) else {
        return (Vec::new(), Vec::new(), None);
    };
    let (mut requests, mut sound): (Vec<TraceRequest>, _) = (Vec::new(), true);
    for request in reader.by_ref() {
        match request {
            Ok(request) => {
                assert!(requests.last().is_none_or(|last| last.at <= request.at));
                let end = request.offset.checked_add(u64::from(request.length)).expect("within 64 bits");
                assert!(options.capacity.is_none_or(|capacity| end <= capacity));
                requests.push(request);
            }
            Err(error) => {
                assert!(!error.remedy().is_empty() && !error.to_string().is_empty());
                sound = false;
            }
        }
    }
    assert!(reader.next().is_none());
    let report = reader.report().clone();
    let known = report.requests + report.skipped + report.malformed;
    assert!(if sound { known == report.lines } else { known <= report.lines });
    let volumes = reader.volumes().to_vec();
    assert!(requests.iter().all(|request| (request.volume as usize) < volumes.len()));
    (requests, volumes, sound.then_some(report))
}

/// CSV can say everything but odd names; those go by their numbers.
fn again(requests: &[TraceRequest], volumes: &[String]) {
    let names: Vec<String> = (0..volumes.len()).map(|number| number.to_string()).collect();
    let sink = Written::default();
    let mut writer = Writer::new(Box::new(sink.clone()), Format::Csv, false, false).expect("it is writable");
    for request in requests {
        writer.write(request, &names).expect("CSV can say that");
    }
    writer.finish().expect("a vector takes everything");
    let options = Options { clock: Clock::AsWritten, ..Options::default() };
    let (found, _, report) = read(Cursor::new(sink.bytes()), &options);
    assert!(report.is_some());
    // Numbers of volumes are by appearance in the text, so they may differ where requests were sorted.
    let plain = |request: &TraceRequest| (request.at, request.operation, request.offset, request.length);
    assert!(found.iter().map(plain).eq(requests.iter().map(plain)));
}

/// Bytes that come in pieces; an empty piece is left out, for it would be the end.
struct Pieces(Vec<Vec<u8>>);

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.0.first().is_some_and(Vec::is_empty) {
            self.0.remove(0);
        }
        let Some(piece) = self.0.first_mut() else { return Ok(0) };
        let count = piece.len().min(buffer.len());
        buffer[..count].copy_from_slice(&piece[..count]);
        piece.drain(..count);
        Ok(count)
    }
}
