use std::path::Path;

use evenkeel_core::Span;

use super::parse;

fn with(store: &str, sla: &str, adapt: &str) -> String {
    format!(
        "[gateway]\nlisten = [\"unix:s\"]\n[store.s]\npath = \"p\"\n{store}\n[volume.v]\noffset = \"0 B\"\n\
         size = \"1 MiB\"\n{sla}\nadapt = {adapt}\n"
    )
}

const SLA: &str = "sla = { burst = 10, rate = \"100 IOPS\", latency = \"100 ms\" }";

#[test]
fn limits_are_read_with_their_defaults() {
    let text = with("", SLA, "{ rate = [\"50 IOPS\", \"400 IOPS\"], burst = [2, 40] }");
    let adapt = parse(&text, Path::new("f")).expect("right").volumes[0].adapt.expect("there");
    assert_eq!((adapt.apply, adapt.window), (false, Span::from_millis(10_000)));
}

#[test]
fn mistakes_are_told_at_their_place() {
    let refused = |store: &str, sla: &str, adapt: &str, words: &str| {
        let error = parse(&with(store, sla, adapt), Path::new("f")).expect_err(words).to_string();
        assert!(error.contains("volume.v.adapt") && error.contains(words), "{words}: {error}");
    };
    let fine = "rate = [\"50 IOPS\", \"400 IOPS\"], burst = [2, 40]";
    refused("", "", &format!("{{ {fine} }}"), "only a promise of one class");
    refused("", SLA, &format!("{{ {fine}, apply = true }}"), "states no capacity");
    refused("", SLA, &format!("{{ {fine}, window = \"1 ms\" }}"), "too short");
    refused("", SLA, &format!("{{ {fine}, speed = 1 }}"), "unknown key");
    refused("", SLA, "{ rate = [\"200 IOPS\", \"400 IOPS\"], burst = [2, 40] }", "outside of these limits");
    refused("", SLA, "{ rate = [\"50 IOPS\", \"400 IOPS\"], burst = [2] }", "two values are needed");
    refused("", SLA, "{ rate = [\"500 IOPS\", \"400 IOPS\"], burst = [2, 40] }", "the smallest rate");
    refused("cost = { write = 5 }", SLA, &format!("{{ {fine} }}"), "a burst of 2 never holds");
}
