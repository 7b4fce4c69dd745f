//! Whatever is done to a log is found.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use common::{Load, key, run, small_files};
use evenkeel_audit::{
    AuditWriter, Expected, Limits, Log, LogError, SigningKey, Statement, What, hex, read_segment,
    signing_key, verify,
};
use evenkeel_core::Time;
use proptest::prelude::*;

/// Bytes of a block besides its payload: kind, length and chain.
const FRAME: usize = 5 + 32;

fn log(requests: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let load: Load = (0..requests).map(|n| (n * 3, n as u32 % 3, (n * 7) as u8)).collect();
    run(folder.path(), &load, 2, 200, small_files(), true);
    folder
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().expect("readable").map(|entry| entry.expect("readable").path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some()).collect();
    files.sort();
    files
}

/// The only file of a log of 2000 requests, made once.
static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = log(2_000);
    fs::read(&files(folder.path())[0]).expect("readable")
});

/// A folder and the name of the only file of a log in it.
fn copy() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("00000001.audit");
    (folder, file)
}

/// Whether something was found, by a finding or by an error.
fn is_found(folder: &Path) -> bool {
    verify(folder, &Expected::default()).map_or(true, |verification| !verification.is_good())
}

/// The blocks of a file as ranges, the preface left out.
fn blocks(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut blocks = Vec::new();
    let mut at = 10;
    while at < bytes.len() {
        let length: [u8; 4] = bytes[at + 1..at + 5].try_into().expect("four");
        let end = at + FRAME + u32::from_le_bytes(length) as usize;
        blocks.push(at..end);
        at = end;
    }
    blocks
}

#[test]
fn every_flipped_byte_and_every_cut_is_found() {
    let folder = log(120);
    let [file] = &files(folder.path())[..] else { panic!("one file") };
    let good = fs::read(file).expect("readable");
    assert!(!is_found(folder.path()));
    let mut nothing = |_| ();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        assert!(read_segment(&bad[..], &mut nothing).is_err(), "byte {at} of {}", good.len());
        assert!(read_segment(&good[..at], &mut nothing).is_err(), "cut at {at} of {}", good.len());
        if at % 64 == 0 {
            fs::write(file, &bad).expect("written");
            assert!(is_found(folder.path()), "byte {at} of {}", good.len());
        }
    }
    let more: Vec<u8> = good.iter().copied().chain([0]).collect();
    fs::write(file, &more).expect("written");
    assert!(is_found(folder.path()), "a byte appended");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn blocks_that_are_dropped_swapped_or_doubled_are_named(which: prop::sample::Index, other: prop::sample::Index) {
        let (folder, file) = copy();
        let good = &*GOOD;
        let blocks = blocks(good);
        // Neither the header nor the last block: those are cuts.
        let which = 1 + which.index(blocks.len() - 2);
        let other = 1 + other.index(blocks.len() - 2);
        let with_order = |order: &[usize]| {
            let mut bytes = good[..10].to_vec();
            order.iter().for_each(|block| bytes.extend_from_slice(&good[blocks[*block].clone()]));
            fs::write(&file, bytes).expect("written");
            verify(folder.path(), &Expected::default()).expect("readable").finding
        };
        let all: Vec<usize> = (0..blocks.len()).collect();
        prop_assert_eq!(with_order(&all), None);
        let mut dropped = all.clone();
        dropped.remove(which);
        let finding = with_order(&dropped).expect("found");
        prop_assert_eq!(finding.block, which as u64, "dropped {}: {}", which, finding);
        let mut doubled = all.clone();
        doubled.insert(which, which);
        let finding = with_order(&doubled).expect("found");
        prop_assert_eq!(finding.block, which as u64 + 1, "doubled {}: {}", which, finding);
        if which != other {
            let mut swapped = all;
            swapped.swap(which, other);
            let finding = with_order(&swapped).expect("found");
            prop_assert_eq!(finding.block, which.min(other) as u64, "swapped {} {}: {}", which, other, finding);
        }
    }
}

#[test]
fn a_log_that_is_rewritten_needs_the_key() {
    let honest = log(300);
    let expected = Expected { key: Some(key().verifying_key().to_bytes()), statement: None };
    let verified = verify(honest.path(), &expected).expect("readable");
    assert!(verified.is_good());
    let statement = verified.statement.expect("a checkpoint");
    // The same folder name, other requests, another key.
    let forged = tempfile::tempdir().expect("a folder");
    let other = SigningKey::from_bytes(&[8; 32]);
    let mut writer = AuditWriter::open(forged.path(), "pool", 1_000, small_files(), other).expect("opens");
    writer.checkpoint(Time::ZERO).expect("written");
    writer.close(Time::ZERO).expect("closed");
    assert!(
        verify(forged.path(), &Expected::default()).expect("readable").is_good(),
        "by itself it is a log"
    );
    let finding = verify(forged.path(), &expected).expect("readable").finding.expect("found");
    assert_eq!(finding.what, What::OtherKey);
    // Even the owner of the key cannot take back what a statement says.
    let with_statement = Expected { key: None, statement: Some(statement) };
    assert!(verify(honest.path(), &with_statement).expect("readable").is_good());
    assert!(!verify(forged.path(), &with_statement).expect("readable").is_good());
    assert_eq!(statement.to_string().parse::<Statement>(), Ok(statement));
    assert!("a:b:c".parse::<Statement>().is_err());
}

#[test]
fn files_that_are_missing_or_cut_are_named() {
    let folder = log(26_000);
    let all = files(folder.path());
    assert!(all.len() >= 4, "{} files", all.len());
    assert!(!is_found(folder.path()));
    for (index, path) in all.iter().enumerate() {
        let good = fs::read(path).expect("readable");
        fs::remove_file(path).expect("removed");
        let finding = verify(folder.path(), &Expected::default()).expect("readable").finding.expect("found");
        assert_eq!((finding.segment, finding.what), (index as u64 + 1, What::Missing), "{finding}");
        let last = blocks(&good).pop().expect("blocks");
        fs::write(path, &good[..last.start]).expect("written");
        let finding = verify(folder.path(), &Expected::default()).expect("readable").finding.expect("found");
        assert_eq!((finding.segment, finding.what), (index as u64 + 1, What::NoEnd), "{finding}");
        fs::write(path, &good).expect("written");
    }
    let (first, second) = (fs::read(&all[1]).expect("readable"), fs::read(&all[2]).expect("readable"));
    fs::write(&all[1], second).expect("written");
    fs::write(&all[2], first).expect("written");
    assert!(is_found(folder.path()), "files swapped");
}

#[test]
fn the_log_stays_within_its_bound_and_says_what_made_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = Limits { file_bytes: Limits::FILE_BYTES_MIN, total_bytes: 3 * Limits::FILE_BYTES_MIN };
    let load: Load = (0..36_000).map(|n| (n, n as u32 % 3, n as u8)).collect();
    run(folder.path(), &load, 1, 200, limits, true);
    let bytes: u64 = files(folder.path()).iter().map(|path| fs::metadata(path).expect("there").len()).sum();
    assert!(bytes <= limits.total_bytes + 300 * 1024, "{bytes}");
    let verified = verify(folder.path(), &Expected::default()).expect("readable");
    assert_eq!(verified.finding, None);
    assert!(verified.first_file > 1 && verified.first_record > 0);
    // One more that is gone did not make room.
    fs::remove_file(&files(folder.path())[0]).expect("removed");
    let finding = verify(folder.path(), &Expected::default()).expect("readable").finding.expect("found");
    assert_eq!((finding.segment, finding.what), (verified.first_file, What::Missing));
}

#[test]
fn a_crash_is_stated_by_the_next_writer() {
    let folder = log(2_000);
    let file = files(folder.path()).remove(0);
    let good = fs::read(&file).expect("readable");
    for cut in [0, 4, 30, good.len() / 2, good.len() - 1] {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("00000001.audit"), &good[..cut]).expect("written");
        let mut writer =
            AuditWriter::open(folder.path(), "pool", 2_000, small_files(), key()).expect("opens");
        writer.checkpoint(Time::ZERO).expect("written");
        writer.close(Time::ZERO).expect("closed");
        let verified = verify(folder.path(), &Expected::default()).expect("readable");
        if cut < 10 + FRAME {
            // Not even a header: nothing is known of the log that it would have been.
            continue;
        }
        assert_eq!(verified.finding, None, "cut at {cut}");
        assert_eq!(verified.torn, [1], "cut at {cut}");
        assert!(Log::open(folder.path()).expect("opens").all(|event| event.is_ok()));
        // What the successor states cannot be changed any more.
        let first = folder.path().join("00000001.audit");
        let range = blocks(&good[..cut - cut.min(1)].iter().copied().chain([0; 8192]).collect::<Vec<_>>());
        let whole = range.iter().rfind(|block| block.end <= cut).expect("a whole block").clone();
        fs::write(&first, &good[..whole.start]).expect("written");
        assert!(is_found(folder.path()), "cut at {cut}, and then before");
    }
}

#[test]
fn another_version_and_foreign_files_are_refused_and_left_alone() {
    let folder = log(50);
    let file = files(folder.path()).remove(0);
    let mut bytes = fs::read(&file).expect("readable");
    bytes[8] = 2;
    fs::write(&file, &bytes).expect("written");
    let open = || AuditWriter::open(folder.path(), "pool", 0, small_files(), key()).map(|_| ());
    assert!(matches!(open(), Err(LogError::Version { found: 2, .. })));
    assert!(matches!(Log::open(folder.path()).map(|_| ()), Err(LogError::Version { found: 2, .. })));
    let error = verify(folder.path(), &Expected::default()).expect_err("refused").to_string();
    assert!(error.contains("has version 2") && error.contains("reads version 3"), "{error}");
    assert_eq!(fs::read(&file).expect("readable"), bytes, "nothing is overwritten");
    fs::write(&file, b"something else").expect("written");
    assert!(matches!(open(), Err(LogError::NotALog { .. })));
    assert_eq!(files(folder.path()).len(), 1);
    let empty = tempfile::tempdir().expect("a folder");
    assert!(matches!(verify(empty.path(), &Expected::default()), Err(LogError::Empty { .. })));
}

#[test]
fn one_writer_at_a_time_and_limits_that_make_sense() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |limits| AuditWriter::open(folder.path(), "pool", 0, limits, key());
    let first = open(small_files()).expect("opens");
    assert!(matches!(open(small_files()).map(|_| ()), Err(LogError::Busy { .. })));
    drop(first);
    assert!(open(small_files()).is_ok());
    for (file_bytes, total_bytes) in [(1_000, 1 << 20), (1 << 20, 1 << 20)] {
        assert!(matches!(open(Limits { file_bytes, total_bytes }).map(|_| ()), Err(LogError::Limits(_))));
    }
}

#[test]
fn keys_are_made_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("audit.key");
    let made = signing_key(&path).expect("made");
    assert_eq!(signing_key(&path).expect("read").to_bytes(), made.to_bytes());
    assert_eq!(fs::read_to_string(&path).expect("text").trim(), hex(&made.to_bytes()));
    fs::write(&path, "no key").expect("written");
    assert!(matches!(signing_key(&path), Err(LogError::BadKey { .. })));
    assert_eq!(fs::read_to_string(&path).expect("text"), "no key");
}
