//! Groups and adaptive depth in the file: what is read, and what is refused where.

use std::num::NonZeroU32;
use std::path::Path;

use evenkeel_core::{Cost, Rate, Span, Weight};

use super::{AdaptiveDepth, Config, parse};

fn file(rest: &str) -> String {
    format!("[gateway]\nlisten = [\"unix:a\"]\n[store.s]\npath = \"s.img\"\n{rest}")
}

#[track_caller]
fn accepted(rest: &str) -> Config {
    parse(&file(rest), Path::new("e.toml")).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn refused(rest: &str) -> String {
    parse(&file(rest), Path::new("e.toml")).expect_err("this file must be refused").to_string()
}

fn volume(name: &str, megabytes: u32, lines: &str) -> String {
    format!("[volume.{name}]\noffset = \"{megabytes} MiB\"\nsize = \"1 MiB\"\n{lines}\n")
}

const SLA: &str = "sla = { burst = 10, rate = \"100 IOPS\", latency = \"50 ms\" }";

#[test]
fn members_share_the_promise_of_their_group() {
    let limit = "limit = { burst = 2.5, rate = \"30 IOPS\" }";
    let config = accepted(&format!(
        "[group.g]\n{SLA}\nweight = 3\n{}{}{}",
        volume("a", 0, "group = \"g\"\nweight = 2"),
        volume("b", 1, &format!("group = \"g\"\nstore = \"s\"\n{limit}")),
        volume("c", 2, SLA),
    ));
    let [a, b, c] = [0, 1, 2].map(|index: usize| &config.volumes[index]);
    assert_eq!(config.groups[0].slo.weight(), Weight::new(3).unwrap());
    assert_eq!((&a.slo, &b.slo), (&config.groups[0].slo, &config.groups[0].slo));
    let (first, second) = (a.member.unwrap(), b.member.unwrap());
    assert_eq!((first.group, first.weight.as_u32(), first.limit), (0, 2, None));
    let limit = second.limit.unwrap();
    assert_eq!((limit.burst(), limit.rate()), (Cost::from_millis(2_500), Rate::per_second(30)));
    assert_eq!(c.member, None);
    let agreements: Vec<&str> = config.agreements_of(0).map(|(name, _)| name).collect();
    assert_eq!(agreements, ["c", "g"]);
    // Two promises of 100 IOPS and 10 at once within 50 ms, not three.
    assert_eq!(config.need_of(0).capacity, Rate::per_second(400));
    let paced = accepted(&format!("[group.g]\n{}", volume("a", 0, "group = \"g\"\nlimit = \"5 IOPS\"")));
    assert_eq!(paced.volumes[0].member.unwrap().limit.unwrap().burst(), Cost::ONE);
}

#[test]
fn wrong_groups_are_refused_with_their_line() {
    let with = |group: &str, lines: &str| format!("[group.g]\n{group}\n{}", volume("a", 0, lines));
    let cases = [
        (
            volume("a", 0, "group = \"g\""),
            "e.toml:8:9: volume.a.group: there is no group \"g\"; add a section [group.g]",
        ),
        (with("", "group = \"q\""), "there is no group \"q\"; did you mean \"g\"?"),
        (
            with("", ""),
            "e.toml:5:8: group.g: no volume belongs to this group; write group = \"g\" in a volume",
        ),
        (
            with(SLA, &format!("group = \"g\"\n{SLA}")),
            "e.toml:11:1: volume.a.sla: volumes of group \"g\" share its promise",
        ),
        (with("", "group = \"g\"\nreservation = \"1 IOPS\""), "move it to [group.g]"),
        (with("", "group = \"g\"\nlimit = \"0 IOPS\""), "volume.a.limit: the rate is zero"),
        (
            with("", "group = \"g\"\nlimit = { burst = 0, rate = \"1 IOPS\" }"),
            "volume.a.limit.burst: the burst is zero",
        ),
        (with("", "group = \"g\"\nlimit = { burst = 1 }"), "volume.a.limit.rate: the key is missing"),
        (with("", "group = \"g\"\nlimit = -1"), "volume.a.limit: -1 has no unit"),
        (with("limit = \"5 IOPS\"", "group = \"g\""), "group.g.limit: pclock does not use it"),
        (with("size = 1", "group = \"g\""), "group.g.size: unknown key"),
        (
            with(
                "sla = { burst = 2, rate = \"1 IOPS\", latency = \"1 s\" }",
                "group = \"g\"\ncost = { read = 3 }",
            ),
            "group.g.sla: a burst of 2 never holds the largest READ, which costs 3 (of volume \"a\")",
        ),
        (
            with(SLA, "group = \"g\"\nstore = \"t\"") + "[store.t]\npath = \"t.img\"\n",
            "group.g.store: the key is missing, and there are 2 stores",
        ),
        (
            with("store = \"s\"", "group = \"g\"\nstore = \"t\"") + "[store.t]\npath = \"t.img\"\n",
            "volume.a.store: its group \"g\" is of store \"s\"",
        ),
        (with("", "group = \"g\"") + "[group.g]\n", "not valid TOML: duplicate key"),
        (with("", "group = \"g\"") + "[volume.a]\n", "not valid TOML: duplicate key"),
    ];
    for (text, expected) in cases {
        let said = refused(&text);
        assert!(said.contains(expected), "{text}\n{said}");
    }
}

#[test]
fn a_member_is_in_the_store_of_its_group() {
    let two =
        format!("[store.t]\npath = \"t.img\"\n[group.g]\nstore = \"t\"\n{}", volume("a", 0, "group = \"g\""));
    assert_eq!(accepted(&two).volumes[0].store, 1);
}

#[test]
fn the_depth_is_a_number_or_bounds() {
    let depth = |text: &str| {
        let store = &accepted(&format!("depth = {text}\n")).stores[0];
        (store.depth.get(), store.adaptive)
    };
    let number = |number| NonZeroU32::new(number).unwrap();
    let adaptive = |least, start, millis| {
        Some(AdaptiveDepth { least: number(least), start: number(start), window: Span::from_millis(millis) })
    };
    assert_eq!(depth("7"), (7, None));
    assert_eq!(depth("\"auto\""), (64, adaptive(1, 1, 1_000)));
    assert_eq!(depth("{ min = 2, max = 9 }"), (9, adaptive(2, 2, 1_000)));
    assert_eq!(depth("{ min = 2, max = 9, start = 9, window = \"50 ms\" }"), (9, adaptive(2, 9, 50)));
    let cases = [
        ("0", "e.toml:5:9: store.s.depth: 0 is out of range"),
        ("\"deep\"", "store.s.depth: \"deep\" is not known here; write \"auto\""),
        ("{ min = 2 }", "store.s.depth.max: the key is missing"),
        ("{ min = 9, max = 2 }", "store.s.depth.min: 9 is above the largest depth, 2"),
        ("{ min = 2, max = 9, start = 1 }", "store.s.depth.start: 1 is not between"),
        ("{ min = 1, max = 9, window = \"1 ms\" }", "store.s.depth.window: 1 ms is too short"),
        ("{ min = 1, max = 9, steps = 1 }", "store.s.depth.steps: unknown key"),
        ("{ min = 1, max = 99999 }", "store.s.depth.max: 99999 is out of range"),
    ];
    for (text, expected) in cases {
        let said = refused(&format!("depth = {text}\n"));
        assert!(said.contains(expected), "{said}");
    }
}

/// Negative, infinite, zero, too large, not nested, twice: each with its line and a remedy.
#[test]
fn promises_that_cannot_be_are_refused_with_their_line() {
    let one = |burst: &str, rate: &str, latency: &str| {
        format!("{{ burst = {burst}, rate = \"{rate}\", latency = \"{latency}\" }}")
    };
    let with = |sla: String| refused(&volume("a", 0, &format!("sla = {sla}")));
    let cases = [
        (one("-1", "1 IOPS", "1 s"), "e.toml:8:17: volume.a.sla.burst: -1 is not a number of requests"),
        (one("inf", "1 IOPS", "1 s"), "volume.a.sla.burst: inf is not a number of requests"),
        (one("nan", "1 IOPS", "1 s"), "volume.a.sla.burst: nan is not a number of requests"),
        (one("0", "1 IOPS", "1 s"), "volume.a.sla.burst: a burst of 0 holds no whole request"),
        (one("1e99", "1 IOPS", "1 s"), "volume.a.sla.burst: 1e99 is not a number of requests"),
        (one("9999999999", "1 IOPS", "1 s"), "volume.a.sla.burst: the burst is above 1000000000"),
        (one("1", "-1 IOPS", "1 s"), "volume.a.sla.rate: \"-1 IOPS\" is negative"),
        (one("1", "inf IOPS", "1 s"), "volume.a.sla.rate: \"inf IOPS\" is not a rate"),
        (one("1", "0 IOPS", "1 s"), "volume.a.sla.rate: the rate is zero"),
        (one("1", "1 IOPS", "0 s"), "volume.a.sla.latency: the latency bound is zero"),
        (one("1", "1 IOPS", "-5 ms"), "volume.a.sla.latency: \"-5 ms\" is negative"),
        (one("1", "1 IOPS", "100000 min"), "volume.a.sla.latency: the latency bound is above"),
    ];
    for (sla, expected) in cases {
        let said = with(sla);
        assert!(said.contains(expected), "{said}");
    }
    let inner = one("5", "10 IOPS", "20 ms");
    for (outer, what) in [
        (one("4", "10 IOPS", "20 ms"), "burst"),
        (one("5", "9 IOPS", "20 ms"), "rate"),
        (one("5", "10 IOPS", "19 ms"), "latency bound"),
    ] {
        let text =
            format!("scheduler = \"nested\"\n{}", volume("a", 0, &format!("sla = [{inner}, {outer}]")));
        let said = refused(&text);
        let expected = format!(
            "e.toml:9:7: volume.a.sla: the {what} of class 1 is above that of class 2, which is outside it; list"
        );
        assert!(said.contains(&expected), "{said}");
    }
    assert!(refused(&volume("a", 0, "weight = 0")).contains("volume.a.weight: 0 is out of range"));
    assert!(refused(&volume("a", 0, "weight = -1")).contains("volume.a.weight: -1 is out of range"));
    let twice = volume("a", 0, SLA) + &volume("a", 1, SLA);
    assert!(refused(&twice).contains("e.toml:9:9: not valid TOML: duplicate key; keep only one of them"));
}
