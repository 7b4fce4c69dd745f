//! What `docs/devices.md` shows is true, and every key and drive is in it.

use std::path::Path;

use evenkeel_device::Spec;

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/devices.md");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_descriptions_in_the_document_are_accepted() {
    let text = document();
    let blocks: Vec<&str> =
        text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!blocks.is_empty(), "the document shows no description any more");
    for block in blocks {
        Spec::parse(block, "devices.md").unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn every_drive_and_each_of_its_keys_is_explained() {
    let text = document();
    for name in Spec::names() {
        assert!(text.contains(&format!("| `{name}` |")), "{name} is not in the table of drives");
        let described = Spec::text_of(name).expect("it has a name");
        for line in described.lines() {
            let Some((key, _)) = line.split_once(" = ") else { continue };
            let is_key = key.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_');
            assert!(!is_key || text.contains(&format!("`{key}`")), "{name}: `{key}` is not explained");
        }
    }
}

#[test]
fn every_key_that_is_known_is_explained() {
    let text = document();
    for kind in ["constant-rate", "servers", "flash", "linear-flash", "raid", "jbod", "bus"] {
        // An unknown key is answered with all that are known.
        let error = Spec::parse(&format!("kind = {kind:?}\nqqqqqqqqqqqq = 1"), kind).expect_err("refused");
        let remedies = error.problems.iter().map(|problem| problem.remedy.as_str());
        let known = remedies.filter_map(|remedy| remedy.split_once("known here: ")).next().expect("listed").1;
        for key in known.split(", ") {
            assert!(text.contains(&format!("`{key}`")), "{kind}: `{key}` is not explained");
        }
    }
}

#[test]
fn every_key_of_a_disk_is_explained() {
    let text = document();
    // A disk that knows every key tells them all when one is unknown, table by table.
    for table in ["", "[bus]\n", "[overhead_ns]\n", "[cache]\n", "[queue]\n", "[[zone]]\n"] {
        let error =
            Spec::parse(&format!("kind = \"disk\"\n{table}qqqqqqqqqqqq = 1"), "disk").expect_err("refused");
        let known = error.to_string();
        let known = known.split_once("expected ").unwrap_or_else(|| panic!("no keys in {known}")).1;
        let keys: Vec<&str> = known.split('`').skip(1).step_by(2).filter(|key| !key.contains(' ')).collect();
        for key in keys {
            assert!(
                text.contains(&format!("`{key}`")) || text.contains(&format!("[{key}]")),
                "`{key}` is not explained"
            );
        }
    }
}
