//! `backend` and `hybrid`: what is read, and what is refused where.

use std::path::Path;

use evenkeel_tiering::policy::OnlineParameters;

use super::{Config, PolicyConfig, parse};

fn file(store: &str, volume: &str) -> String {
    format!(
        "[gateway]\nlisten = [\"unix:a\"]\n[store.s]\n{store}\n\
         [volume.v]\noffset = \"0 B\"\nsize = \"1 GiB\"\n{volume}\n"
    )
}

#[track_caller]
fn accepted(store: &str) -> Config {
    parse(&file(store, ""), Path::new("/etc/e.toml")).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn refused(store: &str, volume: &str) -> String {
    parse(&file(store, volume), Path::new("e.toml")).expect_err("this file must be refused").to_string()
}

const SLOW: &str = "path = \"slow.img\"\nbackend = \"hybrid\"\n";

#[test]
fn a_hybrid_store_has_two_devices_a_map_and_a_policy() {
    let config = accepted(&format!("{SLOW}hybrid = {{ fast = \"fast.img\", map = \"s.map\" }}"));
    let store = &config.stores[0];
    let hybrid = store.hybrid.as_ref().expect("it is hybrid");
    assert_eq!(hybrid.fast, Path::new("/etc/fast.img"));
    assert_eq!(hybrid.map, Path::new("/etc/s.map"));
    assert_eq!(hybrid.policy, PolicyConfig::Online(OnlineParameters::default()));
    assert_eq!((hybrid.fast_depth.get(), hybrid.slow_depth.get(), hybrid.migrations), (32, 32, 1));
    assert!(!hybrid.without_fast);
    assert_eq!(store.depth.get(), 64);
    assert_eq!(accepted("path = \"slow.img\"\nbackend = \"file\"").stores[0].hybrid, None);
}

#[test]
fn everything_can_be_chosen() {
    let options = "policy = \"online\", fast_depth = 48, slow_depth = 8, migrations = 0, random_excess_min = 2, \
                   ratio_percent_min = 40, victims_percent = 20, victims_from_full_percent = 80, \
                   clusters_max = 1000, promote_fit = false, migrate_victims = false, without_fast = true";
    let config = accepted(&format!("{SLOW}hybrid = {{ fast = \"f\", map = \"m\", {options} }}"));
    let hybrid = config.stores[0].hybrid.as_ref().expect("it is hybrid");
    let parameters = OnlineParameters {
        random_excess_min: 2,
        ratio_percent_min: 40,
        victims_percent: 20,
        victims_from_full_percent: 80,
        promote_fit: false,
        migrate_victims: false,
        clusters_max: 1000,
    };
    assert!(hybrid.without_fast);
    assert_eq!(hybrid.policy, PolicyConfig::Online(parameters));
    assert_eq!((config.stores[0].depth.get(), hybrid.migrations), (56, 0));
    for (name, policy) in
        [("lru", PolicyConfig::Lru), ("arc", PolicyConfig::Arc), ("none", PolicyConfig::None)]
    {
        let options = format!("fast = \"f\", map = \"m\", policy = \"{name}\"");
        let config = accepted(&format!("{SLOW}hybrid = {{ {options} }}"));
        assert_eq!(config.stores[0].hybrid.as_ref().map(|hybrid| &hybrid.policy), Some(&policy));
        assert_eq!(policy.name(), name);
    }
}

#[test]
fn what_does_not_fit_together_is_refused_with_a_remedy() {
    let hybrid = "hybrid = { fast = \"f\", map = \"m\" }";
    let both = format!("{SLOW}{hybrid}");
    let cases = [
        (SLOW.to_owned(), "", "store.s.hybrid: the key is missing; write hybrid = {"),
        (
            format!("path = \"slow.img\"\n{hybrid}"),
            "",
            "store.s.hybrid: only a hybrid store has a fast device; write backend",
        ),
        (
            format!("backend = \"hybrid\"\n{hybrid}"),
            "",
            "store.s.path: the key is missing: a hybrid store has one slow device",
        ),
        (
            both.replace("hybrid\"", "hybird\""),
            "",
            "store.s.backend: \"hybird\" is not known here; write \"file\" or \"hybrid\"",
        ),
        (
            format!("{both}\ndepth = 32"),
            "",
            "store.s.depth: a hybrid store has a depth for each of its devices",
        ),
        (
            format!("{both}\nemulate = {{ rate = \"100 IOPS\" }}"),
            "",
            "store.s.emulate: a hybrid store works on real devices",
        ),
        (both.replace("map = \"m\"", "map = \"m\", sloww_depth = 4"), "", "did you mean"),
        (both.replace("map = \"m\"", "fats = \"m\""), "", "store.s.hybrid.map: the key is missing"),
        (
            both.replace("map = \"m\"", "map = \"./f\""),
            "",
            "store.s.hybrid.map: ./f is used by store \"s\" too",
        ),
        (
            both.replace("fast = \"f\"", "fast = \"slow.img\""),
            "",
            "store.s.hybrid.fast: slow.img is used by store \"s\" too",
        ),
        (
            both.clone(),
            "path = \"own.img\"",
            "volume.v.path: store \"s\" is hybrid, and all of its volumes are slices of it",
        ),
    ];
    refuses(&cases);
}

#[test]
fn each_policy_takes_its_own_keys() {
    let both = format!("{SLOW}hybrid = {{ fast = \"f\", map = \"m\" }}");
    let cases = [
        (
            both.replace("map = \"m\"", "map = \"m\", policy = \"lru\", victims_percent = 5"),
            "",
            "store.s.hybrid.victims_percent: lru has no such parameter; remove it",
        ),
        (
            both.replace("map = \"m\"", "map = \"m\", policy = \"offline\""),
            "",
            "store.s.hybrid.placement: the key is missing; write placement = \"pool.placement\"",
        ),
        (
            both.replace(
                "map = \"m\"",
                "map = \"m\", policy = \"offline\", placement = \"missing.placement\"",
            ),
            "",
            "store.s.hybrid.placement: missing.placement:1:1: cannot read the file: No such file",
        ),
        (
            both.replace("map = \"m\"", "map = \"m\", policy = \"arc\", placement = \"p\""),
            "",
            "store.s.hybrid.placement: arc chooses by itself; remove it, or write policy = \"offline\"",
        ),
        (
            both.replace("map = \"m\"", "map = \"m\", victims_percent = 101"),
            "",
            "victims_percent: 101 is out of range",
        ),
    ];
    refuses(&cases);
}

#[track_caller]
fn refuses(cases: &[(String, &str, &str)]) {
    for (store, volume, expected) in cases {
        let said = refused(store, volume);
        assert!(said.contains(expected), "{said}\n does not say\n{expected}");
        assert!(said.starts_with("e.toml:"), "{said}");
    }
}
