//! Binary events of blktrace against blkparse, the tool that comes with it: what we read of the binary is what
//! we read of the text that it prints. Skipped where blkparse is not installed.

use std::io::Cursor;
use std::path::Path;
use std::process::Command;

use evenkeel_core::Operation;
use evenkeel_trace::{Event, Format, Options, Reader};

const MAGIC: u32 = 0x6561_7407;
/// Queued, issued, completed; each belongs to a kind of its own (`BLK_TC_QUEUE`, `_ISSUE`, `_COMPLETE`).
const ACTIONS: [(u32, u32); 3] = [(1, 1 << 4), (7, 1 << 6), (8, 1 << 7)];
/// `BLK_TC_READ`, `_WRITE`, `_FLUSH`, `_SYNC`, `_DISCARD`: kinds of requests, with what we make of them.
const KINDS: [(u32, Option<Operation>); 5] = [
    (1, Some(Operation::Read)),
    (1 << 1, Some(Operation::Write)),
    (1 << 1 | 1 << 3, Some(Operation::Write)),
    (1 << 1 | 1 << 13, Some(Operation::Trim)),
    (1 << 1 | 1 << 2, Some(Operation::Write)),
];

/// An event of `struct blk_io_trace`, as the kernel lays it out.
fn event(index: u64, action: u32, kinds: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(48);
    bytes.extend(MAGIC.to_le_bytes());
    bytes.extend((index as u32 + 1).to_le_bytes());
    bytes.extend((index * 1_234_567 + 89).to_le_bytes());
    bytes.extend((index * 7_919 * 8).to_le_bytes());
    bytes.extend((512 * (1 + index as u32 % 64)).to_le_bytes());
    bytes.extend((action | kinds << 16).to_le_bytes());
    bytes.extend(4_321_u32.to_le_bytes());
    bytes.extend((8_u32 << 20 | 16).to_le_bytes());
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend([0; 4]);
    bytes
}

type Row = (u64, Operation, u64, u32);

fn rows(bytes: &[u8], format: Format, event: Event) -> Vec<Row> {
    let options = Options { format: Some(format), event, ..Options::default() };
    let reader = Reader::from_bytes(Path::new("events"), Cursor::new(bytes.to_vec()), &options);
    let mut reader = reader.unwrap_or_else(|error| panic!("{error}"));
    let read: Result<Vec<Row>, _> = reader
        .by_ref()
        .map(|request| request.map(|it| (it.at.as_nanos(), it.operation, it.offset, it.length)))
        .collect();
    assert_eq!(reader.report().malformed_lines, []);
    read.unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn blkparse_prints_what_we_read() {
    let folder = std::env::temp_dir().join(format!("evenkeel-blkparse-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    for index in 0..300_u64 {
        let (action, of) = ACTIONS[index as usize % 3];
        let (kinds, operation) = KINDS[index as usize % 5];
        bytes.extend(event(index, action, kinds | of));
        expected.push((action, operation));
    }
    std::fs::write(folder.join("events.blktrace.0"), &bytes).expect("a file can be written");
    let printed = Command::new("blkparse").args(["-q", "-i", "events"]).current_dir(&folder).output();
    std::fs::remove_dir_all(&folder).expect("it is there");
    let Ok(printed) = printed else {
        eprintln!("skipped: blkparse (package blktrace) is not installed");
        return;
    };
    for (event, action) in [(Event::Queued, 1), (Event::Issued, 7), (Event::Completed, 8)] {
        let binary = rows(&bytes, Format::Blktrace, event);
        let text = rows(&printed.stdout, Format::Blkparse, event);
        assert_eq!(binary, text, "{event:?}");
        let wanted: Vec<Operation> =
            expected.iter().filter(|(of, _)| *of == action).filter_map(|(_, operation)| *operation).collect();
        assert_eq!(binary.iter().map(|row| row.1).collect::<Vec<_>>(), wanted);
    }
}
