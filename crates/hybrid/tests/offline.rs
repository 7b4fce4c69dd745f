//! A hybrid store on real files: content against a plain copy, maintenance, and what is refused.

use std::fs::File;
use std::os::unix::fs::FileExt;

use evenkeel_hybrid::{About, Label, MapFile, Offline, OfflineError, Paths};
use evenkeel_tiering::policy::{DiskOnly, Lru};
use evenkeel_tiering::{Blocks, Change, Entry, Geometry};

const STORE: u64 = 1 << 20;
const FAST: u64 = 4096 * 17;

struct Place {
    paths: Paths,
    _folder: tempfile::TempDir,
}

fn place() -> Place {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let paths = Paths { slow: path("slow"), fast: path("fast"), map: path("map") };
    File::create(&paths.slow).and_then(|file| file.set_len(STORE)).expect("slow");
    File::create(&paths.fast).and_then(|file| file.set_len(FAST)).expect("fast");
    Place { paths, _folder: folder }
}

fn created() -> Place {
    let place = place();
    Offline::create(&place.paths, Geometry::new(4096, 1024).expect("valid")).expect("created");
    place
}

fn open(place: &Place) -> Offline {
    Offline::open(&place.paths, Box::<Lru>::default()).expect("opened")
}

/// Writes and reads at random places, the same to a plain copy; returns the copy.
fn exercise(store: &mut Offline, copy: &mut Vec<u8>, seed: u64) {
    let mut state = seed;
    let mut next = |end: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    copy.resize(STORE as usize, 0);
    for step in 0..250 {
        let length = 1 + next(9000);
        let offset = next(STORE - length);
        let range = offset as usize..(offset + length) as usize;
        match next(5) {
            0..2 => {
                let data: Vec<u8> = (0..length).map(|i| (i + step) as u8 | 1).collect();
                store.write(offset, &data).expect("written");
                copy[range].copy_from_slice(&data);
            }
            2..4 => {
                let read = store.read(offset, length as u32).expect("read");
                assert!(read == copy[range], "seed {seed}, step {step}");
            }
            _ => store.flush().expect("flushed"),
        }
    }
}

#[test]
fn content_survives_placement_reopening_and_draining() {
    let place = created();
    let mut copy = Vec::new();
    for seed in 0..3 {
        let mut store = open(&place);
        exercise(&mut store, &mut copy, seed);
        store.flush().expect("flushed");
        assert!(!store.entries().is_empty(), "something lies on the fast device");
    }
    assert_eq!(Offline::check(&place.paths, false, &mut |_, _| {}).expect("checked"), []);
    open(&place).dissolve(&mut |_, _| {}).expect("dissolved");
    assert!(std::fs::read(&place.paths.slow).expect("slow") == copy, "the slow device is complete by itself");
    assert!(!place.paths.map.exists());
    let fast = File::open(&place.paths.fast).expect("fast");
    assert!(Label::read(&fast).is_err(), "the fast device is nobody's again");
}

#[test]
fn a_smaller_fast_device_keeps_the_content() {
    let place = created();
    let mut copy = Vec::new();
    let mut store = open(&place);
    exercise(&mut store, &mut copy, 9);
    store.resize(Some(4096 * 5), &mut |_, _| {}).expect("made smaller");
    let mut store = open(&place);
    assert_eq!(store.about().fast_bytes, 4096 * 4);
    exercise(&mut store, &mut copy, 10);
    assert!(store.entries().iter().all(|(_, entry)| entry.slot < 4));
    assert!(matches!(store.resize(Some(4096 * 18), &mut |_, _| {}), Err(OfflineError::Shrunk { .. })));
}

#[test]
fn a_slow_device_that_has_grown_is_taken_in() {
    let place = created();
    let before = *open(&place).about();
    let slow = File::options().write(true).open(&place.paths.slow).expect("slow");
    slow.set_len(before.store_bytes + 8192).expect("larger");
    let about = open(&place).resize(None, &mut |_, _| {}).expect("taken in");
    assert_eq!(about, About { store_bytes: before.store_bytes + 8192, ..before });
    assert_eq!(*open(&place).about(), about);
}

#[test]
fn a_fast_device_that_is_gone_can_be_given_up_and_one_that_is_there_cannot() {
    let place = created();
    let mut copy = Vec::new();
    let mut store = open(&place);
    exercise(&mut store, &mut copy, 4);
    store.flush().expect("flushed");
    let entries = store.entries();
    drop(store);
    assert!(matches!(Offline::abandon(&place.paths), Err(OfflineError::NotGone(_))));
    assert!(place.paths.map.exists(), "nothing has happened");
    std::fs::remove_file(&place.paths.fast).expect("gone");
    let given_up = Offline::abandon(&place.paths).expect("given up");
    assert!(!given_up.is_empty() && given_up.iter().all(|entry| entries.contains(entry)));
    assert!(!place.paths.map.exists() && place.paths.map.with_extension("abandoned").exists());
}

#[test]
fn the_wrong_fast_device_is_refused() {
    let (mine, other) = (created(), created());
    let mixed = Paths { fast: other.paths.fast.clone(), ..mine.paths.clone() };
    assert!(matches!(
        Offline::open(&mixed, Box::new(DiskOnly)).map(|_| ()),
        Err(OfflineError::Strangers { .. })
    ));
}

#[test]
fn a_store_in_use_is_refused() {
    let place = created();
    let _user = open(&place);
    assert!(Offline::open(&place.paths, Box::new(DiskOnly)).is_err());
    assert!(Offline::check(&place.paths, true, &mut |_, _| {}).is_err());
}

#[test]
fn a_device_with_content_is_not_taken() {
    let place = place();
    let fast = File::options().write(true).open(&place.paths.fast).expect("fast");
    fast.write_all_at(b"somebody's file system", 0).expect("written");
    let result = Offline::create(&place.paths, Geometry::new(4096, 1024).expect("valid"));
    assert!(matches!(result, Err(OfflineError::Label { .. })));
    assert!(!place.paths.map.exists(), "nothing was created");
}

#[test]
fn check_names_what_is_damaged_and_repair_gives_it_up() {
    let place = created();
    let mut store = open(&place);
    let mut copy = Vec::new();
    exercise(&mut store, &mut copy, 3);
    store.flush().expect("flushed");
    let entries = store.entries();
    drop(store);
    // A second cluster claims a slot, as after a stray write into the map.
    let (victim, entry) = entries[0];
    let thief = (0..).find(|cluster| entries.iter().all(|(other, _)| other != cluster)).expect("one is free");
    let map = MapFile::open(&place.paths.map).expect("opened");
    map.commit(&[Change { cluster: thief, entry: Some(entry) }]).expect("committed");
    drop(map);
    assert!(Offline::open(&place.paths, Box::new(DiskOnly)).is_err(), "a damaged map is not used");
    let found = Offline::check(&place.paths, false, &mut |_, _| {}).expect("checked");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].cluster, Some(victim.max(thief)));
    Offline::check(&place.paths, true, &mut |_, _| {}).expect("repaired");
    assert_eq!(Offline::check(&place.paths, false, &mut |_, _| {}).expect("checked"), []);
}

/// Such an entry would have a drain write beyond the end of the slow device.
#[test]
fn a_block_beyond_the_end_of_the_store_is_no_entry() {
    let place = place();
    File::options()
        .write(true)
        .open(&place.paths.slow)
        .and_then(|slow| slow.set_len(STORE - 2048))
        .expect("shorter");
    Offline::create(&place.paths, Geometry::new(4096, 1024).expect("valid")).expect("created");
    let (last, map) = (STORE / 4096 - 1, MapFile::open(&place.paths.map).expect("opened"));
    let entry = |end| Some(Entry { slot: 3, on_fast: Blocks::range(0, end) });
    map.commit(&[Change { cluster: last, entry: entry(2) }]).expect("committed");
    drop(map);
    assert_eq!(Offline::check(&place.paths, false, &mut |_, _| {}).expect("checked"), []);
    let map = MapFile::open(&place.paths.map).expect("opened");
    map.commit(&[Change { cluster: last, entry: entry(3) }]).expect("committed");
    drop(map);
    let said = Offline::open(&place.paths, Box::new(DiskOnly)).map(|_| ()).expect_err("damaged").to_string();
    assert!(said.contains("cluster 255 names a block beyond its 2"), "{said}");
    assert_eq!(Offline::check(&place.paths, true, &mut |_, _| {}).expect("repaired").len(), 1);
    assert_eq!(Offline::check(&place.paths, false, &mut |_, _| {}).expect("checked"), []);
}
