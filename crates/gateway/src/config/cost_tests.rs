//! `cost` and `request_max`: what is read, and what is refused where.

use std::path::Path;

use evenkeel_core::{Cost, CostModel, Operation};

use super::{Config, parse};

fn file(store: &str, volume: &str) -> String {
    format!(
        "[gateway]\nlisten = [\"unix:a\"]\n[store.s]\npath = \"s.img\"\n{store}\n\
         [volume.v]\noffset = \"0 B\"\nsize = \"1 GiB\"\n{volume}\n"
    )
}

#[track_caller]
fn accepted(store: &str, volume: &str) -> Config {
    parse(&file(store, volume), Path::new("e.toml")).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn refused(store: &str, volume: &str) -> String {
    parse(&file(store, volume), Path::new("e.toml")).expect_err("this file must be refused").to_string()
}

#[test]
fn a_volume_overrides_the_kinds_that_it_names() {
    let config = accepted(
        "cost = { write = 2.5, read = { \"8 KiB\" = 1.6, \"4 KiB\" = 1 } }",
        "cost = { read = 3, trim = { \"1 MiB\" = 1, \"2 MiB\" = 1.5 } }",
    );
    let of = |cost: &CostModel, operation, length| cost.cost(operation, length).as_millis();
    let (store, volume) = (&config.stores[0].cost, &config.volumes[0].cost);
    assert_eq!(of(store, Operation::Read, 6 << 10), 1_300);
    assert_eq!(of(volume, Operation::Read, 6 << 10), 3_000);
    assert_eq!((of(volume, Operation::Write, 1), of(volume, Operation::Flush, 0)), (2_500, 1_000));
    assert_eq!(of(volume, Operation::Trim, 3 << 20), 2_000);
}

#[test]
fn a_section_of_its_own_is_the_same() {
    let inline = accepted("cost = { read = { \"4 KiB\" = 1, \"8 KiB\" = 2 } }", "");
    assert_eq!(accepted("[store.s.cost.read]\n\"4 KiB\" = 1\n\"8 KiB\" = 2", ""), inline);
}

#[test]
fn what_is_no_cost_is_refused_with_its_line() {
    let cases = [
        ("cost = 2", "e.toml:5:8: store.s.cost: a table is needed, not a number; write cost = {"),
        ("cost = { raed = 2 }", "5:10: store.s.cost.raed: unknown key; did you mean `read`?"),
        ("cost = { read = 0 }", "store.s.cost.read: the cost is zero"),
        ("cost = { read = -1 }", "store.s.cost.read: -1 is not a number of requests"),
        ("cost = { read = inf }", "store.s.cost.read: inf is not a number of requests"),
        ("cost = { read = 0.0001 }", "store.s.cost.read: 0.0001 is finer than 0.001 requests"),
        ("cost = { read = 99999999999 }", "store.s.cost.read: a request of 4 GiB would cost more than"),
        ("cost = { read = {} }", "store.s.cost.read: there is no size with its cost"),
        ("cost = { flush = { \"4 KiB\" = 1 } }", "store.s.cost.flush: a flush has no size"),
        ("cost = { read = { 4096 = 1 } }", "5:19: store.s.cost.read.4096: 4096 has no unit"),
        ("cost = { read = { \"4 k\" = 1 } }", "store.s.cost.read.\"4 k\": unknown unit \"k\""),
        ("cost = { read = { \"4 GiB\" = 1 } }", "\"4 GiB\" is more than a request can have"),
        ("cost = { read = { \"4 KiB\" = 1, \"4096 B\" = 2 } }", "\"4096 B\": this size is there twice"),
        ("cost = { read = { \"4 KiB\" = 2, \"8 KiB\" = 1 } }", "\"8 KiB\": the larger request costs less"),
    ];
    for (line, expected) in cases {
        let said = refused(line, "");
        assert!(said.contains(expected), "{line}: {said}");
    }
}

#[test]
fn a_burst_that_never_holds_the_largest_request_is_refused() {
    let curve = "cost = { read = { \"4 KiB\" = 1, \"1 MiB\" = 150 } }";
    let sla = |burst: u32| format!("sla = {{ burst = {burst}, rate = \"100 IOPS\", latency = \"50 ms\" }}");
    let said = refused(curve, &sla(20));
    assert!(
        said.contains("e.toml:9:7: volume.v.sla: a burst of 20 never holds the largest READ, which costs")
    );
    assert!(said.contains("write a burst of at least 4787.114"), "{said}");
    let small = format!("request_max = \"64 KiB\"\n{}", sla(20));
    assert_eq!(accepted(curve, &small).volumes[0].request_max, 64 << 10);
    assert_eq!(accepted(curve, "").volumes[0].slo.envelope(), None, "no promise, no burst");
    let said = refused("cost = { trim = { \"4 KiB\" = 1, \"1 MiB\" = 2 } }", &sla(20));
    assert!(said.contains("a TRIM of the whole volume, which costs 1029."), "{said}");
    let read_only = format!("{}\nread_only = true", sla(20));
    accepted("cost = { trim = { \"4 KiB\" = 1, \"1 MiB\" = 2 } }", &read_only);
    assert!(refused("cost = { flush = 30 }", &sla(20)).contains("a FLUSH, which costs 30"));
    let (inner, outer) = (sla(20).replace("sla = ", ""), sla(40).replace("sla = ", ""));
    let classes = format!("sla = [{inner}, {outer}]");
    accepted("scheduler = \"nested\"\ncost = { flush = 30 }", &classes);
    assert!(refused("scheduler = \"nested\"\ncost = { flush = 50 }", &classes).contains("a burst of 40"));
}

#[test]
fn the_largest_request_has_a_range() {
    for text in ["32 KiB", "64 MiB", "65 KB", "70000 B"] {
        let said = refused("", &format!("request_max = \"{text}\""));
        assert!(said.contains("cannot be the largest request; write a multiple of 4 KiB"), "{said}");
    }
    assert_eq!(accepted("", "request_max = \"1 MiB\"").volumes[0].request_max, 1 << 20);
    assert_eq!(Cost::ONE, accepted("", "").volumes[0].cost.cost(Operation::Write, 32 << 20));
}
