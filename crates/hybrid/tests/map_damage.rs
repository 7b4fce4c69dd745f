//! A map file that was damaged from outside: it is refused or read, and nothing panics. What is read may be
//! wrong only in ways that loading it into a store finds out, or not at all: checksums are the database's.

use std::fs;

use evenkeel_hybrid::{About, MapFile};
use evenkeel_tiering::{Blocks, Change, Entry};

fn about() -> About {
    About {
        identity: [7; 16],
        cluster_bytes: 65536,
        block_bytes: 4096,
        store_bytes: 1 << 30,
        fast_bytes: 1 << 24,
    }
}

#[test]
fn flipped_bits_and_cuts_never_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let (sound, damaged) = (folder.path().join("sound"), folder.path().join("damaged"));
    let map = MapFile::create(&sound, &about()).expect("created");
    let entry = |slot| Some(Entry { slot, on_fast: Blocks::range(0, 9) });
    let changes: Vec<Change> =
        (0..200).map(|number| Change { cluster: number * 3, entry: entry(number as u32) }).collect();
    map.commit(&changes).expect("committed");
    map.commit(&changes[..50]).expect("committed");
    drop(map);
    let bytes = fs::read(&sound).expect("readable");
    let mut state = 1_u64;
    let mut random = |end: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % end
    };
    let mut refused = 0;
    for round in 0..150 {
        let mut copy = bytes.clone();
        match round % 3 {
            // In the header, which the database looks at first.
            0 => copy[random(512)] ^= 1 << random(8),
            1 => (0..1 + random(40)).for_each(|_| copy[random(bytes.len())] ^= 1 << random(8)),
            _ => copy.truncate(random(bytes.len())),
        }
        fs::write(&damaged, &copy).expect("written");
        match MapFile::open(&damaged).and_then(|map| map.load().map(drop)) {
            Ok(()) => {}
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("damaged"), "it names the file: {error}");
            }
        }
    }
    assert!(refused > 20, "only {refused} of 150 were refused");
}
