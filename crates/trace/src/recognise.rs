//! Which format a trace has, and how sure that is.
//!
//! ```text
//!  head ──> magic number, heading? ──yes──> Certain
//!             │ no
//!             └──> try every layout ──┬─ one fits ──> Likely (n of m lines)
//!                                     ├─ several  ──> Ambiguous: the user must say
//!                                     └─ none     ──> Unrecognised
//! ```

use crate::binary::vscsi::Version;
use crate::binary::{blktrace, nbdlog};
use crate::csv;
use crate::error::ErrorKind;
use crate::format::{Confidence, Format};
use crate::reader::Options;
use crate::text::{Context, LineFormat, Parsed};
use crate::volumes::Volumes;

/// Lines or records that are looked at.
const EXAMINED_MAX: usize = 200;
/// Of them, one in so many may be malformed.
const MALFORMED_IN: u32 = 10;

/// Layouts of lines that have no mark of their own.
const UNMARKED: [Format; 10] = [
    Format::Spc,
    Format::Msr,
    Format::Systor17,
    Format::Alibaba,
    Format::Tencent,
    Format::Blkparse,
    Format::DiskSim,
    Format::MqSim,
    Format::SsdSim,
    Format::SsdSimZeroReads,
];

/// Recognises the trace that begins with `head`; `whole` if there is nothing behind it.
pub(crate) fn recognise(head: &[u8], whole: bool) -> Result<(Format, Confidence), ErrorKind> {
    if let Some(format) = marked(head) {
        return Ok((format, Confidence::Certain));
    }
    let mut fitting = records(head);
    let mut lines = 0;
    if !head.contains(&0) {
        let found = text(head, whole);
        lines = found.1;
        fitting.extend(found.0);
    }
    match fitting[..] {
        [] if head.is_empty() => Err(ErrorKind::Empty { malformed: 0 }),
        [] if whole && lines == 0 && !head.contains(&0) => Err(ErrorKind::Empty { malformed: 0 }),
        [] => Err(ErrorKind::Unrecognised),
        [(format, confidence)] => Ok((format, confidence)),
        _ => Err(ErrorKind::Ambiguous(fitting.iter().map(|(format, _)| *format).collect())),
    }
}

fn marked(head: &[u8]) -> Option<Format> {
    let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    let begins = |text: &str| first.starts_with(text.as_bytes());
    if head.starts_with(b"PAR1") {
        Some(Format::Parquet)
    } else if blktrace::begins(head) {
        Some(Format::Blktrace)
    } else if nbdlog::begins(head) {
        Some(Format::NbdLog)
    } else if begins("fio version 2 iolog") {
        Some(Format::FioV2)
    } else if begins("fio version 3 iolog") {
        Some(Format::FioV3)
    } else if first == csv::HEADING.as_bytes() {
        Some(Format::Csv)
    } else if first == b"Timestamp,Response,IOType,LUN,Offset,Size" {
        Some(Format::Systor17)
    } else {
        None
    }
}

/// Versions of vscsi whose every record at the front fits.
fn records(head: &[u8]) -> Vec<(Format, Confidence)> {
    let versions = [(Format::VscsiV1, Version::One), (Format::VscsiV2, Version::Two)];
    let fits = |(format, version): (Format, Version)| {
        let records: Vec<&[u8]> = head.chunks_exact(version.size()).take(EXAMINED_MAX).collect();
        let examined = records.len() as u32;
        let all = examined > 0 && records.iter().all(|record| version.fits(record));
        all.then_some((format, Confidence::Likely { fitting: examined, examined }))
    };
    versions.into_iter().filter_map(fits).collect()
}

/// Layouts of lines that fit, and how many lines were looked at.
fn text(head: &[u8], whole: bool) -> (Vec<(Format, Confidence)>, u32) {
    let mut lines: Vec<&[u8]> = head.split(|byte| *byte == b'\n').collect();
    // The last one may be cut off; nothing stands behind the last newline.
    if !whole || lines.len() > 1 {
        lines.pop();
    }
    let data = |line: &&[u8]| !line.is_empty() && line[0] != b'#';
    let lines: Vec<&[u8]> =
        lines.into_iter().map(<[u8]>::trim_ascii_end).filter(data).take(EXAMINED_MAX).collect();
    let examined = lines.len() as u32;
    let fits = |format: Format| {
        let mut parser = LineFormat::new(format, &Options::default())?;
        let (mut volumes, mut rounded) = (Volumes::default(), 0);
        let (mut requests, mut malformed) = (0_u32, 0_u32);
        for line in &lines {
            let mut context = Context { volumes: &mut volumes, rounded: &mut rounded };
            match parser.parse(line, &mut context) {
                Ok(Ok(Parsed::Request(_))) => requests += 1,
                Ok(Ok(Parsed::Nothing)) => {}
                _ => malformed += 1,
            }
        }
        let fits = requests > 0 && malformed <= examined / MALFORMED_IN;
        fits.then_some((format, Confidence::Likely { fitting: examined - malformed, examined }))
    };
    (UNMARKED.into_iter().filter_map(fits).collect(), examined)
}
