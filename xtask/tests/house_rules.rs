//! Rules of the house that a program can check.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::root;

/// Longest source file, in lines.
const LINES_MAX: usize = 800;

/// Crates that never read clocks, wait or spawn: time is an argument there.
const PURE: [&str; 6] = ["core", "device", "ledger", "nbd", "strict", "trace"];

/// What their `clippy.toml` bans.
const BANS: [&str; 4] =
    ["std::time::Instant::now", "std::time::SystemTime::now", "std::thread::sleep", "std::thread::spawn"];

#[test]
fn pure_crates_ban_clocks_and_threads() {
    for name in PURE {
        let path = root().join("crates").join(name).join("clippy.toml");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for ban in BANS {
            assert!(text.contains(&format!("\"{ban}\"")), "crates/{name}/clippy.toml does not ban {ban}");
        }
    }
}

#[test]
fn no_source_file_is_too_long() {
    let mut files = Vec::new();
    for folder in ["crates", "xtask", "fuzz"] {
        rust_files(&root().join(folder), &mut files);
    }
    assert!(!files.is_empty());
    let lines = |file: &Path| fs::read_to_string(file).map_or(0, |text| text.lines().count());
    let long = |file: &PathBuf| {
        let count = lines(file);
        (count > LINES_MAX).then(|| format!("{}: {count} lines", file.display()))
    };
    let long: Vec<String> = files.iter().filter_map(long).collect();
    assert!(long.is_empty(), "longer than {LINES_MAX} lines:\n{}", long.join("\n"));
}

#[test]
fn the_root_has_its_documents() {
    for name in ["README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md"] {
        let path = root().join(name);
        let length = fs::metadata(&path).map_or(0, |meta| meta.len());
        assert!(length > 0, "{name} is missing or empty");
    }
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = folder.read_dir() else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() && !path.ends_with("target") {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
