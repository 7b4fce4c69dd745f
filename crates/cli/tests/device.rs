//! `evenkeel device` as users run it.

mod common;

use common::cli::{Run, run_in};
use tempfile::TempDir;

/// Runs `evenkeel device` in `folder`.
fn device(folder: &TempDir, arguments: &[&str]) -> Run {
    run_in(folder.path(), &[&["device"], arguments].concat())
}

#[test]
fn the_list_has_every_drive_with_its_capacity() {
    let folder = TempDir::new().expect("a folder");
    let run = device(&folder, &["list"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    for name in evenkeel_device::Spec::names() {
        assert!(run.stdout.lines().any(|line| line.split_whitespace().next() == Some(name)), "{name}");
    }
    let listed = device(&folder, &["list", "--json"]).json();
    let disk =
        listed["devices"].as_array().and_then(|all| all.iter().find(|drive| drive["name"] == "cheetah9lp"));
    assert_eq!(disk.expect("it is listed")["capacity_bytes"], 17_783_240_u64 * 512);
}

#[test]
fn a_disk_is_shown_with_its_zones_and_seek_times() {
    let folder = TempDir::new().expect("a folder");
    let run = device(&folder, &["show", "cheetah9lp"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(run.stdout.starts_with("cheetah9lp: Seagate Cheetah 9LP"), "{}", run.stdout);
    for shown in ["10045 rpm, 5.97312 ms a turn", "12 on 6962 cylinders", "0–846 ", "0.831"] {
        assert!(run.stdout.contains(shown), "{shown} is missing in {}", run.stdout);
    }
    let shown = device(&folder, &["show", "cheetah9lp", "--json"]).json();
    assert_eq!(shown["parameters"]["zone"].as_array().map(Vec::len), Some(11));
    assert_eq!(shown["parameters"]["seek_ns"][0][1], 831_000);
    assert_eq!(shown["revolution_ns"], 5_973_120);
}

#[test]
fn a_file_is_shown_and_drawn() {
    let folder = TempDir::new().expect("a folder");
    let text = evenkeel_device::Spec::text_of("barracuda").expect("it is known");
    std::fs::write(folder.path().join("mine.toml"), text.replace("ST32171W", "of mine")).expect("writable");
    let run = device(&folder, &["show", "mine.toml", "--svg", "mine.svg"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let drawn = std::fs::read_to_string(folder.path().join("mine.svg")).expect("it was drawn");
    assert!(drawn.starts_with("<svg") && drawn.contains("of mine") && drawn.contains("polyline"));
    // One rectangle for each of the eleven zones, besides the frame's.
    assert!(drawn.matches("<rect").count() > 11);
}

#[test]
fn what_cannot_be_shown_ends_with_2_and_says_why() {
    let folder = TempDir::new().expect("a folder");
    let text = evenkeel_device::Spec::text_of("barracuda").expect("it is known");
    std::fs::write(folder.path().join("bad.toml"), text.replace("\nheads = ", "\nhaeds = "))
        .expect("writable");
    let bad = device(&folder, &["show", "bad.toml"]);
    assert!(
        bad.code == 2 && bad.stderr.contains("haeds") && bad.stderr.contains("bad.toml:"),
        "{}",
        bad.stderr
    );
    let as_json = device(&folder, &["show", "bad.toml", "--json"]);
    assert!(as_json.code == 2 && as_json.json()["problems"][0]["line"].as_u64().is_some_and(|line| line > 1));
    let unknown = device(&folder, &["show", "cheetah"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("cheetah9lp"), "{}", unknown.stderr);
    let flash = device(&folder, &["show", "flashsim-2009", "--svg", "x.svg"]);
    assert!(flash.code == 2 && flash.stderr.contains("--svg draws disks"), "{}", flash.stderr);
    let nowhere = device(&folder, &["show", "barracuda", "--svg", "no/such/folder.svg"]);
    assert!(nowhere.code == 2 && nowhere.stderr.contains("no/such/folder.svg"), "{}", nowhere.stderr);
}

#[test]
fn a_drive_of_disksim_is_imported_and_shown() {
    let folder = TempDir::new().expect("a folder");
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../device/tests/data/import");
    let spec = data.join("small.diskspecs");
    let imported = device(&folder, &["import", spec.to_str().expect("UTF-8")]);
    assert_eq!((imported.code, imported.stderr.as_str()), (0, ""));
    std::fs::write(folder.path().join("small.toml"), imported.stdout).expect("writable");
    let shown = device(&folder, &["show", "small.toml", "--json"]).json();
    assert_eq!(shown["parameters"]["zone"][1]["track_skew_sectors"], 2.5);
    std::fs::copy(&spec, folder.path().join("alone.diskspecs")).expect("writable");
    let alone = device(&folder, &["import", "alone.diskspecs"]);
    assert!(alone.code == 2 && alone.stderr.contains("small.model"), "{}", alone.stderr);
}
