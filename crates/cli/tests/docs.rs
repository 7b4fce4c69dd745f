//! What the documents show is true: the README's configuration is accepted, and every key is explained.

use std::path::{Path, PathBuf};

use evenkeel_gateway::config;

fn document(name: &str) -> String {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn the_configuration_in_the_readme_is_accepted() {
    let readme = document("README.md");
    let blocks: Vec<&str> =
        readme.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!blocks.is_empty(), "the README shows no configuration any more");
    for block in blocks {
        if let Err(error) = config::parse(block, Path::new("README.md")) {
            panic!("{error}");
        }
    }
}

#[test]
fn every_key_of_the_example_is_in_the_reference() {
    let reference = document("docs/configuration.md");
    let keys = config::EXAMPLE.lines().filter_map(|line| {
        let (key, _) = line.trim_start_matches("# ").split_once(" = ")?;
        key.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_').then_some(key)
    });
    let missing: Vec<&str> = keys.filter(|key| !reference.contains(&format!("| `{key}` |"))).collect();
    assert!(missing.is_empty(), "docs/configuration.md does not explain {missing:?}");
}
