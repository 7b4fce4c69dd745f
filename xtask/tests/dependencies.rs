//! The crates use each other only as the table in ARCHITECTURE.md allows.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use common::root;
use serde_json::Value;

/// Crates of the workspace, by the short names of the table (`core` for `evenkeel-core`).
type Uses = BTreeMap<String, BTreeSet<String>>;

/// One row of the table.
#[derive(Debug, PartialEq)]
enum Allowed {
    /// These, by name.
    Only(BTreeSet<String>),
    /// Every crate of the workspace.
    All,
}

#[test]
fn every_crate_uses_only_what_the_table_allows() {
    let path = root().join("ARCHITECTURE.md");
    let text = fs::read_to_string(&path).expect("ARCHITECTURE.md stands at the root");
    let table = parse_table(&text);
    assert!(!table.is_empty(), "ARCHITECTURE.md has no table with a column `may use`");
    let problems = violations(&table, &workspace_uses());
    assert!(problems.is_empty(), "ARCHITECTURE.md and the manifests disagree:\n{}", problems.join("\n"));
}

/// What breaks the table: a member without a row, or a use that its row does not allow.
fn violations(table: &BTreeMap<String, Allowed>, uses: &Uses) -> Vec<String> {
    let mut problems = Vec::new();
    for (member, used) in uses {
        match table.get(member) {
            None => problems.push(format!("`{member}` has no row in the table")),
            Some(Allowed::All) => {}
            Some(Allowed::Only(allowed)) => problems.extend(
                used.difference(allowed)
                    .map(|other| format!("`{member}` depends on `{other}`, which its row does not allow")),
            ),
        }
    }
    problems
}

/// Reads the table whose last column is `may use`: rows like ``| `core` | holds | may use |``.
fn parse_table(text: &str) -> BTreeMap<String, Allowed> {
    let rows = text.lines().map(cells).skip_while(|cells| cells.last().is_none_or(|last| last != "may use"));
    // Past the heading and the line of dashes, to the end of the table.
    rows.skip(2).take_while(|cells| cells.len() >= 3).filter_map(|cells| row(&cells)).collect()
}

/// The cells of a line of a table; none for any other line.
fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().strip_prefix('|').and_then(|line| line.strip_suffix('|'));
    inner.map_or_else(Vec::new, |inner| inner.split('|').map(|cell| cell.trim().to_owned()).collect())
}

fn row(cells: &[String]) -> Option<(String, Allowed)> {
    let name = cells.first()?.trim_matches('`').to_owned();
    let words =
        cells.last()?.split([' ', ',']).map(|word| word.trim_matches('`')).filter(|word| !word.is_empty());
    let words: BTreeSet<String> = words.map(str::to_owned).collect();
    let allowed = match words.first().map(String::as_str) {
        Some("all") => Allowed::All,
        // Nothing, or a dash: no crate of the workspace.
        Some("nothing" | "–" | "-" | "—") | None => Allowed::Only(BTreeSet::new()),
        Some(_) => Allowed::Only(words),
    };
    Some((name, allowed))
}

/// What `cargo metadata` says: each member's normal and build dependencies within the workspace.
/// Dev-dependencies are not counted: tests may reach further than the product.
fn workspace_uses() -> Uses {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo metadata starts");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let packages = metadata["packages"].as_array().expect("packages is a list");
    let name = |package: &Value| package["name"].as_str().unwrap_or_default().to_owned();
    let members: BTreeSet<String> = packages.iter().map(name).collect();
    let counts = |dependency: &&Value| {
        dependency["kind"] != "dev" && dependency["name"].as_str().is_some_and(|name| members.contains(name))
    };
    let used = |package: &Value| {
        let dependencies = package["dependencies"].as_array().expect("dependencies is a list");
        dependencies.iter().filter(counts).map(|dependency| short(&name(dependency))).collect()
    };
    packages.iter().map(|package| (short(&name(package)), used(package))).collect()
}

/// `evenkeel-core` is `core` in the table; the binary's package `evenkeel` is `cli`.
fn short(package: &str) -> String {
    if package == "evenkeel" { "cli".into() } else { package.trim_start_matches("evenkeel-").into() }
}

const SAMPLE: &str = "\
Some text.

| crate (`crates/…`) | holds | may use |
|---|---|---|
| `core` | units; (σ, ρ, δ) | nothing |
| `ledger` | events | core |
| `gateway` | sessions | core ledger, `nbd` |
| `cli` | the binary | all |
| `xtask` | set-up | – |

| other | table |
";

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn the_table_is_read() {
    let table = parse_table(SAMPLE);
    assert_eq!(table.len(), 5);
    assert_eq!(table["core"], Allowed::Only(set(&[])));
    assert_eq!(table["gateway"], Allowed::Only(set(&["core", "ledger", "nbd"])));
    assert_eq!(table["cli"], Allowed::All);
    assert_eq!(table["xtask"], Allowed::Only(set(&[])));
}

#[test]
fn violations_are_named() {
    let table = parse_table(SAMPLE);
    let uses = |name: &str, used: &[&str]| Uses::from([(name.to_owned(), set(used))]);
    assert!(violations(&table, &uses("gateway", &["core", "nbd"])).is_empty());
    assert!(violations(&table, &uses("cli", &["core", "gateway"])).is_empty());
    let forbidden = violations(&table, &uses("ledger", &["core", "gateway"]));
    assert_eq!(forbidden, ["`ledger` depends on `gateway`, which its row does not allow"]);
    assert_eq!(violations(&table, &uses("stray", &[])), ["`stray` has no row in the table"]);
}
