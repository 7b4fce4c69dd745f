//! Every reader on a small sample, and everything that can be wrong with a trace.

use std::io::{Cursor, Write};
use std::path::Path;

use evenkeel_core::Operation::{self, Flush, Read, Trim, Write as Writes, WriteZeroes};
use evenkeel_core::Span;
use evenkeel_trace::{
    Compression, Confidence, ErrorKind, Event, Format, Options, Place, Reader, TraceError, TraceRequest,
};

type Row = (u64, u32, Operation, u64, u32);

fn rows(bytes: &[u8], options: &Options) -> Result<(Vec<Row>, Reader), TraceError> {
    let mut reader = Reader::from_bytes(Path::new("sample"), Cursor::new(bytes.to_vec()), options)?;
    let row = |request: TraceRequest| {
        (request.at.as_nanos(), request.volume, request.operation, request.offset, request.length)
    };
    let rows: Result<Vec<Row>, _> = reader.by_ref().map(|request| request.map(row)).collect();
    Ok((rows?, reader))
}

fn named(format: Format) -> Options {
    Options { format: Some(format), ..Options::default() }
}

fn recognised(bytes: &[u8], format: Format, volumes: &[&str]) -> Vec<Row> {
    let (rows, reader) = rows(bytes, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(reader.report().format, format);
    assert_ne!(reader.report().confidence, Confidence::Named);
    assert_eq!(reader.volumes(), volumes);
    rows
}

fn error_of(bytes: &[u8], options: &Options) -> TraceError {
    rows(bytes, options).map(|(rows, _)| rows).expect_err("an error")
}

#[test]
fn comma_separated_formats_are_recognised() {
    let spc = b"0,303567,3584,w,0.000000\n1,55590,3072,R,0.026214,extra\n";
    assert_eq!(
        recognised(spc, Format::Spc, &["0", "1"]),
        [(0, 0, Writes, 303_567 * 512, 3584), (26_214_000, 1, Read, 55_590 * 512, 3072)]
    );
    let msr = b"128166372003061629,hm,0,Read,383496192,32768,413\r\n\
        128166372016382155,hm,1,Write,310983680,12288,1245\r\n";
    assert_eq!(
        recognised(msr, Format::Msr, &["hm.0", "hm.1"]),
        [(0, 0, Read, 383_496_192, 32_768), (1_332_052_600, 1, Writes, 310_983_680, 12_288)]
    );
    let systor = b"Timestamp,Response,IOType,LUN,Offset,Size\n1455592001.000000001,0.000273,R,2,3456,4096\n\
        1455592001.5,,,2,0,0\n1455592002.000000001,0.1,W,4,8192,512\n";
    assert_eq!(
        recognised(systor, Format::Systor17, &["2", "4"]),
        [(0, 0, Read, 3456, 4096), (1_000_000_000, 1, Writes, 8192, 512)]
    );
    let alibaba = b"419,W,8792731648,16384,1577808000000034\n419,R,4096,8192,1577808000000035\n";
    assert_eq!(
        recognised(alibaba, Format::Alibaba, &["419"]),
        [(0, 0, Writes, 8_792_731_648, 16_384), (1_000, 0, Read, 4096, 8192)]
    );
    let tencent = b"1538323200,12910952,128,0,1063\n1538323201,6338688,8,1,1627\n";
    assert_eq!(
        recognised(tencent, Format::Tencent, &["1063", "1627"]),
        [(0, 0, Read, 12_910_952 * 512, 65_536), (1_000_000_000, 1, Writes, 6_338_688 * 512, 4096)]
    );
}

#[test]
fn simulators_differ_only_where_their_formats_do() {
    let disksim = b"13.191135\t30\t0\t5\t1\n17.829285\t20\t576560\t6\t0\n";
    assert_eq!(
        recognised(disksim, Format::DiskSim, &["30", "20"]),
        [(0, 0, Read, 0, 2560), (4_638_150, 1, Writes, 576_560 * 512, 3072)]
    );
    let whole = b"100 0 657728 16 1\n200 1 8 64 0\n";
    let error = error_of(whole, &Options::default());
    let ErrorKind::Ambiguous(candidates) = error.kind() else { panic!("{error}") };
    assert_eq!(candidates, &[Format::DiskSim, Format::MqSim, Format::SsdSim, Format::SsdSimZeroReads]);
    assert!(error.remedy().contains("--format ssdsim-0-reads (nanoseconds"), "{}", error.remedy());
    let read = |format| rows(whole, &named(format)).unwrap().0[0].2;
    assert_eq!(
        [read(Format::MqSim), read(Format::SsdSim), read(Format::SsdSimZeroReads)],
        [Read, Read, Writes]
    );
    assert_eq!(rows(whole, &named(Format::DiskSim)).unwrap().0[1].0, 100_000_000);
}

const BLKPARSE: &[u8] =
    b"  8,16   5        1     0.000000000 18615  A   R 1444645666 + 256 <- (8,17) 1444645632
  8,16   5        2     0.000001850 18615  Q   R 1444645666 + 256 [java]
  8,16   5        4     0.000008750 18615  P   N [java]
  8,16   5        5     0.000009980 18615  D   R 1444645666 + 256 [java]
  8,0    1        6     0.500000000     0  Q FWS [kworker/0:1]
  8,0    1        6     0.500000001     0  Q WS 8 + 8 [sync]
  8,0    1        7     0.600000000     0  Q  DS 1024 + 2048 [fstrim]
  8,16   5        9     0.700000000     0  C   R 1444645666 + 256 [0]
CPU0 (8,16):
 Reads Queued:           1,      128KiB
Total (8,16):
";

#[test]
fn linux_text_is_read_up_to_its_summary() {
    assert_eq!(
        recognised(BLKPARSE, Format::Blkparse, &["8,16", "8,0"]),
        [
            (0, 0, Read, 1_444_645_666 * 512, 131_072),
            (499_998_150, 1, Flush, 0, 0),
            (499_998_151, 1, Writes, 4096, 4096),
            (599_998_150, 1, Trim, 524_288, 1_048_576),
        ]
    );
    let completed = Options { event: Event::Completed, ..Options::default() };
    assert_eq!(rows(BLKPARSE, &completed).unwrap().0.len(), 1);
}

#[test]
fn logs_of_fio_keep_their_clocks() {
    let second = b"fio version 2 iolog\n/dev/sdb add\n/dev/sdb open\n/dev/sdb read 0 4096\n\
        /dev/sdb wait 1500 0\n/dev/sdb write 4096 512\n/dev/sdb sync 0 0\n/dev/sdb close\n";
    assert_eq!(
        recognised(second, Format::FioV2, &["/dev/sdb"]),
        [(0, 0, Read, 0, 4096), (1_500_000, 0, Writes, 4096, 512), (1_500_000, 0, Flush, 0, 0)]
    );
    let third = b"fio version 3 iolog\n17 f add\n116 f open\n119 f read 0 4096\n344 f trim 45056 4096\n\
        30154 f sync 32768 0\n70305 f close\n";
    assert_eq!(
        recognised(third, Format::FioV3, &["f"]),
        [(0, 0, Read, 0, 4096), (225_000, 0, Trim, 45_056, 4096), (30_035_000, 0, Flush, 0, 0)]
    );
}

fn vscsi(version: u16, command: u16, length: u32, block: u64, micros: u64) -> Vec<u8> {
    let (cmd, ver) = (command.to_le_bytes(), (version << 8 | 7).to_le_bytes());
    let numbers: Vec<u8> = [1_u32, length, 1].iter().flat_map(|number| number.to_le_bytes()).collect();
    let times: Vec<u8> = [block, micros].iter().flat_map(|number| number.to_le_bytes()).collect();
    if version == 1 {
        [&numbers[..], &cmd, &ver, &times].concat()
    } else {
        [&cmd[..], &ver, &numbers, &times, &9_u64.to_le_bytes()].concat()
    }
}

#[test]
fn both_versions_of_vscsi_are_told_apart() {
    for (version, format) in [(1, Format::VscsiV1), (2, Format::VscsiV2)] {
        let bytes = [
            vscsi(version, 0x2a, 4096, 8, 1_000_000),
            vscsi(version, 0x12, 36, 0, 1_000_001),
            vscsi(version, 0x88, 512, 1 << 33, 1_000_002),
            vscsi(version, 0x35, 0, 0, 1_000_003),
        ]
        .concat();
        assert_eq!(
            recognised(&bytes, format, &["0"]),
            [(0, 0, Writes, 4096, 4096), (2_000, 0, Read, 1 << 42, 512), (3_000, 0, Flush, 0, 0)]
        );
        let error = error_of(&bytes[..bytes.len() - 3], &named(format));
        assert!(matches!(error.kind(), ErrorKind::Truncated), "{error}");
        assert_eq!(error.place(), Some(Place::Record(4)));
    }
}

fn event(nanos: u64, sector: u64, bytes: u32, action: u32, payload: &[u8]) -> Vec<u8> {
    let mut event = Vec::new();
    event.extend(0x6561_7407_u32.to_le_bytes());
    event.extend(1_u32.to_le_bytes());
    event.extend(nanos.to_le_bytes());
    event.extend(sector.to_le_bytes());
    for number in [bytes, action, 77, 8 << 20 | 16, 0] {
        event.extend(number.to_le_bytes());
    }
    event.extend(0_u16.to_le_bytes());
    event.extend((payload.len() as u16).to_le_bytes());
    event.extend(payload);
    event
}

#[test]
fn binary_events_are_read_with_their_payloads() {
    let bytes = [
        event(0, 0, 0, 1 << 26, b"java\0"),
        event(5, 64, 4096, 1 << 20 | 1 << 16 | 1, b""),
        event(9, 64, 4096, 1 << 22 | 1 << 16 | 7, b"xyz"),
        event(11, 8, 512, 1 << 20 | 1 << 17 | 1, b""),
        event(12, 8, 512, 1 << 29 | 1 << 17 | 1, b""),
        event(13, 0, 0, 1 << 18 | 1 << 17 | 1, b""),
    ]
    .concat();
    assert_eq!(
        recognised(&bytes, Format::Blktrace, &["8,16"]),
        [(0, 0, Read, 32_768, 4096), (6, 0, Writes, 4096, 512), (7, 0, Trim, 4096, 512), (8, 0, Flush, 0, 0)]
    );
    let swapped: Vec<u8> = {
        // The same first request, as a big-endian machine writes it.
        let mut event = event(5, 64, 4096, 1 << 20 | 1 << 16 | 1, b"");
        for (from, width) in [(0, 4), (4, 4), (8, 8), (16, 8), (24, 4), (28, 4), (32, 4), (36, 4), (40, 4)] {
            event[from..from + width].reverse();
        }
        event
    };
    assert_eq!(recognised(&swapped, Format::Blktrace, &["8,16"]), [(0, 0, Read, 32_768, 4096)]);
    let mut lost = bytes;
    lost[53] ^= 1;
    assert!(matches!(error_of(&lost, &Options::default()).kind(), ErrorKind::Lost(_)));
}

fn packet(magic: u32, kind: u32, offset: u64, length: u32) -> Vec<u8> {
    [&magic.to_be_bytes()[..], &kind.to_be_bytes(), &[7; 8], &offset.to_be_bytes(), &length.to_be_bytes()]
        .concat()
}

#[test]
fn the_log_of_nbd_server_needs_an_interval() {
    let reply = [&0x6744_6698_u32.to_be_bytes()[..], &[0; 12]].concat();
    let bytes = [
        packet(0x2560_9514, 1, 0x4a93_ba39_a54f_31b6, 1),
        packet(0x2560_9513, 1 << 16 | 1, 4096, 3),
        b"abc".to_vec(),
        reply.clone(),
        packet(0x2560_9513, 0, 8192, 512),
        reply,
        packet(0x2560_9513, 6, 0, 1024),
        packet(0x2560_9513, 3, 0, 0),
        packet(0x2560_9513, 2, 0, 0),
    ]
    .concat();
    assert!(matches!(error_of(&bytes, &Options::default()).kind(), ErrorKind::NoTimes(Format::NbdLog)));
    let options = Options { interval: Some(Span::from_micros(10)), ..Options::default() };
    let (rows, reader) = rows(&bytes, &options).unwrap();
    assert_eq!(reader.report().confidence, Confidence::Certain);
    assert_eq!(
        rows,
        [
            (0, 0, Writes, 4096, 3),
            (10_000, 0, Read, 8192, 512),
            (20_000, 0, WriteZeroes, 0, 1024),
            (30_000, 0, Flush, 0, 0)
        ]
    );
}

#[test]
fn columns_are_mapped_by_number_and_by_name() {
    let data = b"# comment to skip\nwhen;dev;kind;block;count\n1.5;a;\"0\";8;1\n2.5;b;1;16;2\n";
    for mapping in [
        "separator=semicolon,skip=1,time=when*ms,volume=dev,operation=kind,offset=block*512,length=count*4096,read=0,write=1",
        "separator=semicolon,skip=2,time=1*ms,volume=2,operation=3,offset=4*512,length=5*4096,read=0,write=1",
    ] {
        let csv = Some(mapping.parse().unwrap_or_else(|error| panic!("{error}")));
        let options = Options { format: Some(Format::Csv), csv, ..Options::default() };
        let (rows, reader) = rows(data, &options).unwrap();
        assert_eq!(rows, [(0, 0, Read, 4096, 4096), (1_000_000, 1, Writes, 8192, 8192)], "{mapping}");
        assert_eq!(reader.volumes(), ["a", "b"]);
    }
    assert!(matches!(error_of(data, &named(Format::Csv)).kind(), ErrorKind::NoMapping));
    let csv = Some("time=x*ms,offset=2,length=3".parse().unwrap());
    let options = Options { format: Some(Format::Csv), csv, ..Options::default() };
    assert!(matches!(error_of(data, &options).kind(), ErrorKind::Mapping(_)));
    for wrong in [
        "",
        "time=1",
        "time=1*h,offset=2,length=3",
        "time=0*s,offset=2,length=3",
        "time=1*s,offset=2",
        "time=1*s,time=1*s",
        "colour=3",
        "time=1*s,offset=2*0,length=3",
    ] {
        wrong.parse::<evenkeel_trace::CsvMapping>().expect_err(wrong);
    }
}

#[test]
fn malformed_lines_are_counted_and_refused_beyond_the_limit() {
    let mut text = String::new();
    for number in 0..30 {
        text += if number % 10 == 3 { "0,x,512,R,1\n" } else { "0,8,512,R,1.0\n" };
    }
    let (rows, reader) = rows(text.as_bytes(), &named(Format::Spc)).unwrap();
    let report = reader.report();
    assert_eq!((rows.len(), report.malformed, report.lines), (27, 3, 30));
    assert_eq!(report.malformed_lines[1].place, Place::Line(14));
    assert_eq!(report.malformed_lines[1].to_string(), "line 14: the LBA is no whole number (0,x,512,R,1)");
    let strict = Options { malformed_max: 2, ..named(Format::Spc) };
    let error = error_of(text.as_bytes(), &strict);
    assert!(matches!(error.kind(), ErrorKind::Malformed { limit: 2, .. }));
    assert_eq!(error.place(), Some(Place::Line(24)));
    assert!(
        error.to_string().starts_with("sample: line 24: more than 2 malformed lines for format spc: line 4:")
    );
}

#[test]
fn what_cannot_be_believed_names_line_and_remedy() {
    let backwards = b"0,8,512,R,2.0\n0,8,512,R,1.5\n0,8,512,R,3.0\n";
    let error = error_of(backwards, &Options::default());
    assert!(matches!(error.kind(), ErrorKind::Backwards { by_ns: 500_000_000 }), "{error}");
    assert_eq!(error.place(), Some(Place::Line(2)));
    assert!(error.remedy().contains("--reorder"));
    let window = Options { reorder: 1, ..Options::default() };
    let times: Vec<u64> = rows(backwards, &window).unwrap().0.iter().map(|row| row.0).collect();
    assert_eq!(times, [0, 500_000_000, 1_500_000_000]);

    let capacity = Options { capacity: Some(4607), ..Options::default() };
    let error = error_of(b"0,8,512,R,2.0\n", &capacity);
    assert!(matches!(error.kind(), ErrorKind::BeyondDevice { end: 4608, capacity: 4607 }), "{error}");

    let error = error_of(b"0,8,512,R,2.0\n0,8,512,R,3.0\n0,8,5", &Options::default());
    assert!(matches!(error.kind(), ErrorKind::Truncated), "{error}");
    assert_eq!(error.place(), Some(Place::Line(3)));

    for empty in [&b""[..], b"\n\n", b"# nothing\n"] {
        assert!(matches!(error_of(empty, &Options::default()).kind(), ErrorKind::Empty { .. }));
        assert!(matches!(error_of(empty, &named(Format::Spc)).kind(), ErrorKind::Empty { .. }));
    }
    for strange in [&b"hello\nworld\n"[..], b"\x7fELF\0\0\0\0\0\0\0\0", b"1,2,3\n4,5,6\n"] {
        assert!(matches!(error_of(strange, &Options::default()).kind(), ErrorKind::Unrecognised));
    }
    let long = [b"0,8,512,R,2.0\n".to_vec(), vec![b'9'; 700_000], b"\n0,8,512,R,3.0\n".to_vec()].concat();
    let (rows, reader) = rows(&long, &named(Format::Spc)).unwrap();
    assert_eq!((rows.len(), reader.report().malformed_lines[0].place), (2, Place::Line(2)));
}

#[test]
fn compression_is_told_by_content() {
    let lines: String = (0..5000).map(|number| format!("0,{number},512,R,{number}.5\n")).collect();
    let halves = lines.split_at(lines.len() / 2);
    let gzip = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |text: &str| {
        ruzstd::encoding::compress_to_vec(text.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest)
    };
    let skippable = [&0x184d_2a50_u32.to_le_bytes()[..], &3_u32.to_le_bytes(), b"abc"].concat();
    let two_gzip = [gzip(halves.0), gzip(halves.1)].concat();
    let two_zstd = [zstd(halves.0), skippable, zstd(halves.1)].concat();
    for (bytes, compression) in [(two_gzip, Compression::Gzip), (two_zstd, Compression::Zstd)] {
        let (found, reader) = rows(&bytes, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((found.len(), reader.report().compression), (5000, compression));
        let error = error_of(&bytes[..bytes.len() - 20], &Options::default());
        assert!(matches!(error.kind(), ErrorKind::Truncated | ErrorKind::Damaged(_)), "{error}");
    }
}
