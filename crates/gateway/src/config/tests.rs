//! The configuration, from whole files to single keys.

use std::path::Path;

use evenkeel_core::{Cost, Envelope, Rate, Span, Weight};
use proptest::prelude::*;

use evenkeel_core::sched::fairio::{Accounting, FairioConfig};

use super::*;

const FILE: &str = "/etc/evenkeel/evenkeel.toml";

/// A small valid file to which a test adds what it is about.
const BASE: &str = r#"
[gateway]
listen = ["tcp://127.0.0.1:10809"]
[store.pool]
path = "pool.img"
"#;

/// The file with every key of the format.
const FULL: &str = r#"
[gateway]
listen = ["tcp://[::1]:0", "tcp://[::1]:0", "unix:///run/evenkeel.sock", "unix:nbd.sock"]
connections_max = 5
handshake_timeout = "1.5 s"
drain_timeout = "0 s"

[store.pool]
path = "../pool.img"
capacity = "900 IOPS"
admission = "warn"
scheduler = "fcfs"
spare = "flows"
depth = 0x10
direct = true
cpu = 0
emulate = { rate = "1000/s", servers = 4 }

[volume."orders / db"]
offset = "4 KiB"
size = "1 GiB"
sla = { burst = 2.5, rate = "62.5 IOPS", latency = "100 ms" }
weight = 7
read_only = true
in_flight_max = "64 KiB"
description = "orders database"

[volume.log]
store = "pool"
path = "log.img"
"#;

#[track_caller]
fn parsed(text: &str) -> Config {
    parse(text, Path::new(FILE)).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn refused(text: &str) -> ConfigError {
    parse(text, Path::new(FILE)).expect_err("this file must be refused")
}

/// The problems of [`BASE`] with `more` below it: the text that each points at, key, message and remedy.
#[track_caller]
fn problems_of(more: &str) -> Vec<String> {
    let error = refused(&format!("{BASE}{more}"));
    let shown =
        |p: &Problem| format!("[{}] {}: {}; {}", &error.text[p.span.clone()], p.key, p.message, p.remedy);
    error.problems.iter().map(shown).collect()
}

fn constant_rate(rate: Rate, servers: u32) -> EmulateConfig {
    let servers = NonZeroU32::new(servers).expect("not zero");
    let model = evenkeel_device::spec::Model::ConstantRate { rate, servers, capacity: None };
    EmulateConfig { device: evenkeel_device::Spec::new(model).expect("fine") }
}

#[track_caller]
fn assert_refused(more: &str, expected: &str) {
    assert_eq!(problems_of(more), [expected]);
}

#[test]
fn every_key_is_read() {
    let config = parsed(FULL);
    assert_eq!(
        config.gateway,
        GatewayConfig {
            listen: vec![
                Listen::Tcp("[::1]:0".parse().expect("an address")),
                Listen::Tcp("[::1]:0".parse().expect("an address")),
                Listen::Unix("/run/evenkeel.sock".into()),
                Listen::Unix("/etc/evenkeel/nbd.sock".into()),
            ],
            connections_max: 5,
            handshake_timeout: Span::from_millis(1_500),
            drain_timeout: Span::ZERO,
        }
    );
    let nonzero = |number| NonZeroU32::new(number).expect("not zero");
    assert_eq!(
        config.stores,
        [StoreConfig {
            name: "pool".into(),
            path: Some("/etc/evenkeel/../pool.img".into()),
            capacity: Some(Rate::per_second(900)),
            admission: Admission::Warn,
            scheduler: SchedulerKind::Fcfs,
            spare: SpareTo::Flows,
            tuning: Tuning::for_store(16, 4),
            depth: nonzero(16),
            adaptive: None,
            cost: CostModel::PER_REQUEST,
            direct: true,
            cpu: Some(0),
            profile: None,
            emulate: Some(constant_rate(Rate::per_second(1_000), 4)),
            hybrid: None,
            audit: None,
            observe: false,
        }]
    );
    let envelope = Envelope::new(Cost::from_millis(2_500), Rate::from_millis(62_500), Span::from_millis(100));
    let slo = Slo::guaranteed(envelope.expect("valid")).with_weight(Weight::new(7).expect("valid"));
    let orders = VolumeConfig {
        name: "orders / db".into(),
        store: 0,
        path: None,
        offset: 4096,
        size: Some(1 << 30),
        slo,
        member: None,
        adapt: None,
        cost: CostModel::PER_REQUEST,
        request_max: 32 << 20,
        read_only: true,
        in_flight_max: 64 << 10,
        description: "orders database".into(),
    };
    let log = VolumeConfig {
        name: "log".into(),
        path: Some("/etc/evenkeel/log.img".into()),
        offset: 0,
        size: None,
        slo: Slo::background(),
        read_only: false,
        in_flight_max: 64 << 20,
        description: String::new(),
        ..orders.clone()
    };
    assert_eq!(config.volumes, [orders, log]);
    assert_eq!(config.volumes_of(0).count(), 2);
}

#[test]
fn defaults_are_as_documented() {
    let config = parsed(BASE);
    assert_eq!(
        (config.gateway.connections_max, config.gateway.handshake_timeout, config.gateway.drain_timeout),
        (1024, Span::from_millis(10_000), Span::from_millis(30_000))
    );
    let store = &config.stores[0];
    assert_eq!((store.depth.get(), store.capacity, store.direct, store.cpu), (32, None, false, None));
    assert_eq!(
        (store.admission, store.scheduler, store.spare),
        (Admission::Refuse, SchedulerKind::PClock, SpareTo::Flows)
    );
    let emulated = parsed(&format!("{BASE}emulate.rate = \"500 IOPS\"\nemulate.servers = 3\n"));
    assert_eq!(
        (emulated.stores[0].depth.get(), emulated.stores[0].capacity),
        (3, Some(Rate::per_second(500)))
    );
}

#[test]
fn the_example_is_accepted_also_with_every_default_spelt_out() {
    assert_eq!((parsed(EXAMPLE).volumes.len(), parsed(EXAMPLE).groups.len()), (5, 1));
    // Every commented line that looks like a key is uncommented, save those that change a default.
    let all: String = EXAMPLE
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(key) if key.split(' ').nth(1) == Some("=") => format!("{key}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let with_all = all.replace("cpu = 0\n", "").replace("emulate = {", "# emulate = {");
    let with_all = parsed(&with_all.replace("audit = {", "# audit = {"));
    assert_eq!(with_all, parsed(EXAMPLE));
    assert!(parse(&all, Path::new(FILE)).is_ok());
}

#[test]
fn every_problem_is_reported_at_once_in_the_order_of_the_file() {
    let error = refused(
        "[gateway]\nlisten = []\n\n[store.pool]\ncapacity = 1000\ndetph = 3\n\n\
         [volume.db]\nsize = \"1 GiB\"\nsla = { burst = 20, rate = \"200\", latancy = \"1 s\" }\n",
    );
    assert_eq!(
        error.to_string(),
        "/etc/evenkeel/evenkeel.toml:2:10: gateway.listen: there is no address to listen on; \
         write listen = [\"tcp://127.0.0.1:10809\"]\n\
         /etc/evenkeel/evenkeel.toml:5:12: store.pool.capacity: 1000 has no unit; \
         write a rate with its unit and in quotes, as \"200 IOPS\": IOPS or /s\n\
         /etc/evenkeel/evenkeel.toml:6:1: store.pool.detph: unknown key; did you mean `depth`?\n\
         /etc/evenkeel/evenkeel.toml:8:9: volume.db.offset: the key is missing; \
         a slice needs both: offset = \"0 B\", size = \"1 GiB\"\n\
         /etc/evenkeel/evenkeel.toml:8:9: volume.db.path: neither the volume nor its store \"pool\" has a path; \
         give a path to one of them\n\
         /etc/evenkeel/evenkeel.toml:10:1: volume.db.sla.latency: the key is missing; \
         write sla = { burst = 20, rate = \"200 IOPS\", latency = \"100 ms\" }\n\
         /etc/evenkeel/evenkeel.toml:10:28: volume.db.sla.rate: 200 has no unit; \
         write a rate as \"200 IOPS\": IOPS or /s\n\
         /etc/evenkeel/evenkeel.toml:10:35: volume.db.sla.latancy: unknown key; did you mean `latency`?"
    );
}

#[test]
fn the_list_of_problems_is_bounded() {
    let error = refused(&(0..1_000).map(|n| format!("unknown{n} = {n}\n")).collect::<String>());
    assert_eq!(error.problems.len(), PROBLEMS_MAX);
    // 1000 unknown keys and a missing section, of which 199 are listed.
    assert!(error.to_string().ends_with("802 more problems are not listed; correct those above first"));
}

#[test]
fn relative_paths_start_at_the_folder_of_the_file() {
    let text = format!("{BASE}[volume.a]\npath = \"/srv/a.img\"\n");
    let paths = |file| {
        let config = parse(&text, Path::new(file)).expect("valid");
        (config.stores[0].path.clone(), config.volumes[0].path.clone())
    };
    let absolute = Some("/srv/a.img".into());
    assert_eq!(paths("x.toml"), (Some("pool.img".into()), absolute.clone()));
    assert_eq!(paths("conf/x.toml"), (Some("conf/pool.img".into()), absolute));
}

#[test]
fn an_empty_file_says_what_is_needed() {
    assert_eq!(
        refused("").to_string(),
        "/etc/evenkeel/evenkeel.toml:1:1: gateway: the key is missing; \
         add [gateway] with listen = [\"tcp://127.0.0.1:10809\"]"
    );
}

#[test]
fn broken_toml_is_located() {
    let error = refused("[gateway]\nlisten = [\"tcp://127.0.0.1:1\"]\n[store.pool]\ndepth = 3\ndepth = 4\n");
    assert_eq!(
        error.to_string(),
        "/etc/evenkeel/evenkeel.toml:5:1: not valid TOML: duplicate key; keep only one of them"
    );
    let error = refused("[gateway]\nlisten = [\"tcp://127.0.0.1:1\"]\ndrain_timeout = 10 s\n");
    assert!(error.to_string().starts_with("/etc/evenkeel/evenkeel.toml:3:"), "{error}");
    assert!(error.to_string().contains("stand in quotes"), "{error}");
}

#[test]
fn addresses_are_checked() {
    let problems = |listen: &str| {
        let error = refused(&format!("[gateway]\nlisten = [{listen}]\n"));
        error.problems.iter().map(|p| format!("{}; {}", p.message, p.remedy)).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(
        problems("\"tcp://127.0.0.1\""),
        "\"tcp://127.0.0.1\" names no port; add the port; NBD's own is 10809"
    );
    assert!(problems("\"tcp://localhost:10809\"").contains("write an IP address and a port"));
    assert!(problems("\"tcp://1.2.3.4:99999\"").contains("a port from 0 to 65535"));
    assert!(problems("\"unix://run/x\"").contains("write \"unix:run/x\" for a path from the file's folder"));
    assert!(problems("\"unix:\"").contains("names no socket"));
    assert!(problems("\"/run/x.sock\"").contains("write \"tcp://ADDRESS:PORT\""));
    assert!(problems(&format!("\"unix:///{}\"", "x".repeat(107))).contains("at most 107 bytes"));
    assert!(
        problems("\"tcp://127.0.0.1:1\", \"tcp://127.0.0.1:1\"")
            .ends_with("is listed twice; remove one of them")
    );
    assert!(problems("\"unix:a.sock\", \"unix:///etc/evenkeel/./a.sock\"").contains("is listed twice"));
    assert!(problems("10809").contains("a text is needed, not a number"));
}

/// A store with this scheduler and one volume with these lines.
fn with_scheduler(scheduler: &str, lines: &str) -> String {
    format!(
        "[gateway]\nlisten = [\"unix:a\"]\n[store.s]\npath = \"s.img\"\nscheduler = \"{scheduler}\"\n\
         [volume.v]\noffset = \"0 B\"\nsize = \"1 MiB\"\n{lines}\n"
    )
}

#[test]
fn classes_reservations_and_limits_go_to_schedulers_that_know_them() {
    let inner = "{ burst = 5, rate = \"10 IOPS\", latency = \"20 ms\" }";
    let outer = "{ burst = 20, rate = \"15 IOPS\", latency = \"200 ms\" }";
    let classes = format!("sla = [{inner}, {outer}]");
    let config = parsed(&with_scheduler("nested", &classes));
    assert_eq!(config.volumes[0].slo.classes().len(), 2);
    // Lemma 3: 5 within 20 ms; 20 + 1 + 10/s · 180 ms within 200 ms, but no more than its envelope says.
    assert_eq!(config.need_of(0).capacity, Rate::per_second(250));
    let refusal = refused(&with_scheduler("pclock", &classes)).to_string();
    assert!(refusal.contains("pclock knows one class, and these are 2"), "{refusal}");
    let refusal = refused(&with_scheduler("nested", &format!("sla = [{outer}, {inner}]"))).to_string();
    assert!(refusal.contains("list the innermost class first"), "{refusal}");

    let both = "reservation = \"100 IOPS\"\nlimit = \"300 IOPS\"";
    let slo = &parsed(&with_scheduler("mclock", both)).volumes[0].slo;
    assert_eq!((slo.reservation(), slo.limit()), (Some(Rate::per_second(100)), Some(Rate::per_second(300))));
    let refusal = refused(&with_scheduler("rbfq", both)).to_string();
    assert!(refusal.contains("volume.v.limit: rbfq does not use it"), "{refusal}");
    assert!(!refusal.contains("volume.v.reservation"), "{refusal}");
    assert_eq!(refused(&with_scheduler("pclock", both)).problems.len(), 2);
    for key in ["limit", "reservation"] {
        let refusal = refused(&with_scheduler("mclock", &format!("{key} = \"0 IOPS\""))).to_string();
        let remedy = "write a value above 0, or leave it out";
        assert!(refusal.contains(&format!("volume.v.{key}: ")) && refusal.contains(remedy), "{refusal}");
    }
    let refusal = refused(&with_scheduler("mclock", "limit = \"0 IOPS\"")).to_string();
    assert!(refusal.contains("volume.v.limit: the rate is zero"), "{refusal}");
    let reversed = "reservation = \"300 IOPS\"\nlimit = \"100 IOPS\"";
    let refusal = refused(&with_scheduler("mclock", reversed)).to_string();
    assert!(refusal.contains("volume.v.limit: 100 IOPS are less than the reservation"), "{refusal}");
}

#[test]
fn fairio_and_cello_have_parameters() {
    let table = "scheduler = \"fairio\"\ndepth = 8\nfairio = { cycle = \"2.5 s\", disks = 3, window = 10, \
                 class_threshold = 2, load_threshold = 7, first_request = \"800 us\" }";
    let fairio = parsed(&format!("{BASE}{table}")).stores[0].tuning.fairio;
    let expected = FairioConfig {
        window_cycles: 10,
        class_threshold: 2,
        load_threshold: 7,
        first_request: Span::from_micros(800),
        ..FairioConfig::new(Span::from_millis(2_500), 3)
    };
    assert_eq!(fairio, expected);
    let more = "scheduler = \"fairio\"\nemulate = { rate = \"900 IOPS\", servers = 6 }";
    let fairio = parsed(&format!("{BASE}{more}")).stores[0].tuning.fairio;
    assert_eq!(
        (fairio.cycle, fairio.disks, fairio.load_threshold, fairio.window_cycles),
        (Span::from_millis(1_000), 6, 3, 20)
    );
    let queued = format!("{BASE}scheduler = \"fairio\"\nfairio = {{ accounting = \"queued\" }}");
    assert_eq!(parsed(&queued).stores[0].tuning.fairio.accounting, Accounting::Queued);
    assert_refused(
        "scheduler = \"fairio\"\nfairio = { accounting = \"reported\" }",
        "[\"reported\"] store.pool.fairio.accounting: \"reported\" is not known here; \
         write \"shared\" or \"queued\"",
    );
    let table = "scheduler = \"cello\"\ncello = { real_time = 3, throughput = 2, quantum = 2.5 }";
    let cello = parsed(&format!("{BASE}{table}")).stores[0].tuning.cello;
    let weight = |weight| Weight::new(weight).expect("valid");
    assert_eq!((cello.real_time, cello.interactive, cello.throughput), (weight(3), weight(1), weight(2)));
    assert_eq!(cello.quantum, Cost::from_millis(2_500));

    assert_refused(
        "fairio = { disks = 2 }",
        "[{ disks = 2 }] store.pool.fairio: pclock does not use it; \
         remove this line, or write scheduler = \"fairio\"",
    );
    let load =
        "scheduler = \"fairio\"\ndepth = 4\nfairio = { cycle = \"0 s\", load_threshold = 4, disk = 2 }";
    let problems = problems_of(load);
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert_eq!(
        problems[1],
        "[4] store.pool.fairio.load_threshold: a store with at most 4 outstanding would always be under-loaded; \
         write at most 3, or raise depth"
    );
    assert!(
        problems[0].contains("store.pool.fairio.cycle: the cycle must last from 1 us to one hour"),
        "{problems:?}"
    );
    assert!(problems[2].contains("disk"), "{problems:?}");
    assert_refused(
        "scheduler = \"cello\"\ncello = { quantum = 0.5 }",
        "[0.5] store.pool.cello.quantum: the quantum must be from 1 to 1000000 requests; \
         write a number of requests, as 4",
    );
}

#[test]
fn interactive_volumes_go_to_cello() {
    assert!(parsed(&with_scheduler("cello", "interactive = true")).volumes[0].slo.is_interactive());
    assert!(!parsed(&with_scheduler("cello", "interactive = false")).volumes[0].slo.is_interactive());
    let refusal = refused(&with_scheduler("pclock", "interactive = true")).to_string();
    assert!(refusal.contains("volume.v.interactive: pclock makes no difference"), "{refusal}");
    let sla = "sla = { burst = 5, rate = \"10 IOPS\", latency = \"20 ms\" }\ninteractive = true";
    let refusal = refused(&with_scheduler("cello", sla)).to_string();
    assert!(
        refusal.contains("volume.v.interactive: a volume with an sla is in the real-time class"),
        "{refusal}"
    );
}

#[test]
fn stores_are_checked() {
    assert_refused(
        "scheduler = \"fcfs\"\nspare = \"background\"",
        "[\"background\"] store.pool.spare: fcfs knows no spare capacity to give to \
         background flows; remove this line, or write scheduler = \"pclock\"",
    );
    assert_refused(
        "scheduler = \"cfq\"",
        "[\"cfq\"] store.pool.scheduler: \"cfq\" is not known here; write \"pclock\" or \"nested\" or \"avatar\" or \
         \"mclock\" or \"rbfq\" or \"sfqd\" or \"wf2q+\" or \"fairio\" or \"cello\" or \"virtual-clock\" or \"sced\" or \"edf\" or \"fcfs\"",
    );
    assert_refused(
        "depth = 0",
        "[0] store.pool.depth: 0 is out of range; write a whole number from 1 to 32768",
    );
    assert_refused(
        "capacity = \"200 IOPS\"\nemulate = { rate = \"100 IOPS\" }",
        "[\"200 IOPS\"] store.pool.capacity: 200 IOPS are more than the emulated device's 100 IOPS; \
         write at most \"100 IOPS\", or remove this line",
    );
    assert_refused(
        "direct = \"yes\"",
        "[\"yes\"] store.pool.direct: true or false is needed, not a text in quotes; \
         write true or false, without quotes",
    );
    assert_refused(
        "[store.other]\npath = \"./x/../pool.img\"",
        "[\"./x/../pool.img\"] store.other.path: /etc/evenkeel/./x/../pool.img is the path of store \"pool\" too; \
         make the volumes slices of one store: two schedulers on one device keep no promise",
    );
    assert_eq!(problems_of("emulate = { servers = 0 }").len(), 2);
}

#[test]
fn volumes_name_their_store() {
    assert_refused(
        "[volume.a]\nstore = \"pol\"\noffset = \"0 B\"\nsize = \"1 MiB\"",
        "[\"pol\"] volume.a.store: there is no store \"pol\"; did you mean \"pool\"?",
    );
    assert_refused(
        "[store.other]\n[volume.a]\npath = \"a.img\"",
        "[a] volume.a.store: the key is missing, and there are 2 stores; \
         write store = \"pool\" or another of pool, other",
    );
    let error = refused("[gateway]\nlisten = [\"unix:a\"]\n[volume.a]\npath = \"a.img\"");
    assert_eq!(error.problems[0].message, "there is no store");
}

#[test]
fn slices_may_not_overlap() {
    assert_refused(
        "[volume.a]\noffset = \"0 B\"\nsize = \"2 GiB\"\n[volume.b]\noffset = \"1 GiB\"\nsize = \"2 GiB\"",
        "[\"1 GiB\"] volume.b.offset: volume \"b\" (1 GiB to 3 GiB) overlaps volume \"a\" (0 B to 2 GiB); \
         the first byte after \"a\" is \"2 GiB\"",
    );
    // One wide slice hides several small ones: each is named.
    let wide = "[volume.a]\noffset = \"0 B\"\nsize = \"9 GiB\"\n";
    let small = |name, at| format!("[volume.{name}]\noffset = \"{at} GiB\"\nsize = \"1 GiB\"\n");
    assert_eq!(problems_of(&format!("{wide}{}{}", small("b", 2), small("c", 5))).len(), 2);
    let apart = format!("{BASE}{}{}{}", small("b", 2), small("c", 3), small("a", 1));
    assert_eq!(parsed(&apart).volumes.len(), 3);
}

#[test]
fn files_may_not_be_used_twice() {
    assert_refused(
        "[volume.a]\npath = \"pool.img\"",
        "[\"pool.img\"] volume.a.path: /etc/evenkeel/pool.img is the path of store \"pool\"; \
         leave path out to make the volume a slice of the store, or name another file",
    );
    assert_refused(
        "[volume.a]\npath = \"x.img\"\n[volume.b]\npath = \"/etc/evenkeel/x.img\"\noffset = \"1 MiB\"",
        "[\"1 MiB\"] volume.b.offset: volume \"b\" (1 MiB to the end of the file) overlaps volume \"a\" \
         (0 B to the end of the file); state the size of \"a\", or use another file",
    );
    let halves =
        "[volume.a]\npath = \"x.img\"\nsize = \"1 MiB\"\n[volume.b]\npath = \"x.img\"\noffset = \"1 MiB\"";
    assert_eq!(parsed(&format!("{BASE}{halves}")).volumes.len(), 2);
}

#[test]
fn numbers_of_volumes_are_checked() {
    let slice = |more: &str| format!("[volume.a]\n{more}");
    assert_refused(
        &slice("offset = \"0 B\"\nsize = \"1000 B\""),
        "[\"1000 B\"] volume.a.size: 1000 B is not a multiple of 512 B; write \"512 B\" or \"1 KiB\"",
    );
    assert_refused(
        "direct = true\n[volume.a]\noffset = \"512 B\"\nsize = \"4 KiB\"",
        "[\"512 B\"] volume.a.offset: 512 B is not a multiple of 4096 B, as direct = true needs; \
         write \"0 B\" or \"4 KiB\"",
    );
    assert_refused(
        &slice("offset = \"0 B\"\nsize = \"0 B\""),
        "[\"0 B\"] volume.a.size: the volume is empty; write a size above 0",
    );
    assert_refused(
        &slice("offset = \"8388607 TiB\"\nsize = \"1 TiB\""),
        "[\"1 TiB\"] volume.a.size: the volume ends beyond the largest file, 8 EiB; write a smaller offset or size",
    );
    let own = |more: &str| format!("[volume.a]\npath = \"a.img\"\n{more}");
    assert_refused(
        &own("weight = 0"),
        "[0] volume.a.weight: 0 is out of range; write a whole number from 1 to 1000000",
    );
    assert_refused(
        &own("in_flight_max = \"1 KiB\""),
        "[\"1 KiB\"] volume.a.in_flight_max: too little to keep a store busy; write at least \"64 KiB\"",
    );
    assert!(problems_of(&own("description = \"a\\nb\""))[0].contains("cannot be sent to clients"));
}

#[test]
fn promises_are_checked() {
    let sla = |sla: &str| format!("[volume.a]\npath = \"a.img\"\nsla = {{ {sla} }}");
    let good = "rate = \"1 IOPS\", latency = \"1 s\"";
    assert_refused(
        &sla(&format!("burst = 0.5, {good}")),
        "[0.5] volume.a.sla.burst: a burst of 0.5 holds no whole request, so the promise would cover none; \
         write a burst of at least 1",
    );
    assert_refused(
        &sla(&format!("burst = 1.0001, {good}")),
        "[1.0001] volume.a.sla.burst: 1.0001 is finer than 0.001 requests; \
         write a multiple of 0.001 requests; values are never rounded",
    );
    assert_refused(
        &sla(&format!("burst = \"20\", {good}")),
        "[\"20\"] volume.a.sla.burst: a number of requests is needed, not a text in quotes; \
         write a plain number without quotes or unit, as 20",
    );
    for burst in ["-3", "1e3", "inf", "nan"] {
        assert!(
            problems_of(&sla(&format!("burst = {burst}, {good}")))[0].contains("is not a number of requests")
        );
    }
    assert_eq!(
        problems_of(&sla("burst = 2000000000, rate = \"0 IOPS\", latency = \"0 s\"")),
        [
            "[2000000000] volume.a.sla.burst: the burst is above 1000000000 requests; write at most 1000000000",
            "[\"0 IOPS\"] volume.a.sla.rate: the rate is zero: a promise needs at least 0.001 IOPS; \
             write a value above 0; without a promise, leave sla out",
            "[\"0 s\"] volume.a.sla.latency: the latency bound is zero: no store answers in no time; \
             write a value above 0; without a promise, leave sla out",
        ]
    );
    assert_eq!(problems_of(&sla("")).len(), 3);
    assert!(problems_of(&sla(&format!("iops = 3, burst = 1, {good}")))[0].contains("often a limit"));
    assert!(
        problems_of("[volume.a]\npath = \"a.img\"\nrate = \"3 IOPS\"")[0].contains("part of the promise")
    );
}

#[test]
fn a_promise_below_the_time_of_one_access_is_refused() {
    let with = |admission: &str| {
        format!(
            "emulate = {{ rate = \"1000 IOPS\", servers = 100 }}\nadmission = \"{admission}\"\n\
             [volume.a]\npath = \"a.img\"\nsla = {{ burst = 1, rate = \"10 IOPS\", latency = \"99 ms\" }}"
        )
    };
    assert_refused(
        &with("refuse"),
        "[a] volume.a.sla.latency: the emulated device takes 100 ms for one access, longer than the promised \
         99 ms; promise at least \"100 ms\", or emulate fewer servers",
    );
    assert_eq!(parsed(&format!("{BASE}{}", with("warn"))).volumes.len(), 1);
    assert_eq!(parsed(&format!("{BASE}{}", with("refuse").replace("99 ms", "100 ms"))).volumes.len(), 1);
}

#[test]
fn names_are_checked() {
    let named = |name: &str| problems_of(&format!("[volume.{name}]\npath = \"a.img\"")).join("\n");
    assert!(named("\"\"").contains("volume.\"\": the name is empty"));
    assert!(named("\"a\\u0007\"").contains("control character"));
    assert!(named(&"x".repeat(256)).contains("has 256 bytes, more than 255"));
    assert_eq!(parsed(&format!("{BASE}[volume.\"Bücher ☃\"]\npath = \"a\"")).volumes[0].name, "Bücher ☃");
}

#[test]
fn wrong_shapes_are_refused() {
    for text in [
        "gateway = 3",
        "store = []",
        "volume = \"x\"",
        "[[volume]]\n[[store]]\n[[gateway]]",
        "a = 1979-05-27",
    ] {
        let error = refused(text);
        assert!(error.problems.iter().all(|p| !p.message.is_empty() && !p.remedy.is_empty()), "{error}");
    }
    assert!(problems_of("[volume]\na = 3\n")[0].contains("write a section [volume.NAME]"));
}

#[test]
fn columns_count_characters_and_windows_line_ends_are_fine() {
    let error = refused("[gateway]\r\nlisten = [\"unix:ü\", 3]\r\n");
    assert_eq!(error.line_column(&error.problems[0]), (2, 21));
}

#[test]
fn files_that_cannot_be_read_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing.toml");
    let error = load(&missing).expect_err("there is no such file");
    assert!(error.to_string().contains("missing.toml:1:1: cannot read the file: "), "{error}");

    let binary = folder.path().join("binary.toml");
    std::fs::write(&binary, b"# fine\n\xff\xfe").expect("writable");
    let error = load(&binary).expect_err("not UTF-8");
    assert!(error.to_string().contains("line 2 is not UTF-8; save the file as UTF-8"), "{error}");

    assert!(load(Path::new("/dev/zero")).expect_err("endless").to_string().contains("larger than 1 MiB"));
    assert!(load(folder.path()).is_err());

    let good = folder.path().join("good.toml");
    std::fs::write(&good, EXAMPLE).expect("writable");
    let config = load(&good).expect("the example is accepted");
    assert_eq!(config.stores[0].path, Some(folder.path().join("pool.img")));
}

/// Whatever comes out is either a configuration or problems that can be shown.
fn check_total(text: &str) {
    if let Err(error) = parse(text, Path::new("x.toml")) {
        assert!(!error.problems.is_empty());
        assert!(error.problems.is_sorted_by_key(|problem| problem.span.start));
        for problem in &error.problems {
            assert!(text.get(problem.span.clone()).is_some(), "{problem:?} points into the text");
            assert!(!problem.message.contains('\n') && !problem.remedy.is_empty(), "{problem:?}");
        }
        let _ = error.to_string();
    }
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text: String) {
        check_total(&text);
    }

    #[test]
    fn text_that_looks_like_toml_is_parsed_or_refused(
        text in "(\\[(gateway|store\\.a|volume\\.b|group\\.c|store\\.a\\.cost|\"\")\\]\n|(path|size|offset|sla|listen|group|limit|depth|cost|read|x\\.y) = (\"[a-z0-9 :/]*\"|[0-9.e-]{0,8}|\\{[a-z= 1,]*\\}|\\[.{0,4}\\])\n|.{0,3}){0,12}"
    ) {
        check_total(&text);
    }

    #[test]
    fn mutated_files_are_parsed_or_refused(
        full: bool,
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..12, ".{0,4}"), 1..6),
    ) {
        let mut text: Vec<char> = if full { FULL } else { EXAMPLE }.chars().collect();
        for (at, length, insert) in cuts {
            let start = at.index(text.len());
            let end = (start + length).min(text.len());
            text.splice(start..end, insert.chars());
        }
        check_total(&text.into_iter().collect::<String>());
    }

    #[test]
    fn swapped_lines_are_parsed_or_refused(order in Just(FULL.lines().collect::<Vec<_>>()).prop_shuffle()) {
        check_total(&order.join("\n"));
    }
}

const SMALL_FLASH: &str = "kind = \"flash\"\ncapacity = \"64 KiB\"\npage = \"2 KiB\"\npages_per_block = 4\n\
    blocks_per_die = 8\ndies_per_channel = 2\nread = \"25 us\"\nprogram = \"200 us\"\nerase = \"2 ms\"\n";

#[test]
fn any_device_can_be_emulated() {
    let device = |more: &str| parsed(&format!("{BASE}{more}")).stores[0].clone();
    let named = device("emulate = \"microsoft-ssd\"\n");
    // Eight dies; nothing is known about how many requests a second promises may count on.
    assert_eq!((named.depth.get(), named.capacity), (8, None));
    assert_eq!(named.emulate.map(|it| it.device), evenkeel_device::Spec::named("microsoft-ssd"));
    let inline = device(
        "[store.pool.emulate]\nkind = \"raid\"\nlevel = 1\n\
         members = { device = \"flashsim-2009\", count = 2 }\n",
    );
    let emulate = inline.emulate.expect("an array");
    assert_eq!((emulate.device.model().kind(), emulate.device.capacity()), ("raid", Some(1 << 30)));
    assert_eq!((inline.depth.get(), emulate.rate()), (2, None));
}

#[test]
fn a_device_in_a_file_of_its_own_is_read_with_the_configuration() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("evenkeel.toml");
    let parse_here = |more: &str| parse(&format!("{BASE}{more}"), &file);
    std::fs::write(folder.path().join("drive.toml"), SMALL_FLASH.replace("8", "16")).expect("written");
    let config = parse_here("emulate = { file = \"drive.toml\" }").expect("fine");
    assert_eq!(config.stores[0].depth.get(), 2);
    let said = |more| parse_here(more).expect_err("refused").problems[0].message.clone();
    assert!(
        said("emulate = { file = \"none.toml\" }")
            .contains("none.toml:1:1: cannot read the file: No such file")
    );
    std::fs::write(folder.path().join("drive.toml"), "kind = \"flush\"").expect("written");
    let message = said("emulate = { file = \"drive.toml\" }");
    assert!(message.contains("drive.toml:1:8: kind: \"flush\" is not known here"), "{message}");
}

#[test]
fn emulated_devices_that_cannot_be_are_refused_in_place() {
    assert_refused(
        "emulate = \"microsoft-sdd\"",
        "[\"microsoft-sdd\"] store.pool.emulate: no drive is called \"microsoft-sdd\"; \
         did you mean \"microsoft-ssd\"?",
    );
    let flash = format!("[store.pool.emulate]\n{SMALL_FLASH}");
    let said = problems_of(&flash);
    assert!(said[0].contains("store.pool.emulate.capacity: 65536 B do not leave 5 blocks"), "{said:?}");
    let said = problems_of(&flash.replace("\"25 us\"", "25"));
    assert!(said[0].starts_with("[25] store.pool.emulate.read: 25 has no unit"), "{said:?}");
}

#[test]
fn volumes_must_fit_on_the_emulated_device() {
    let flash = format!("[store.pool.emulate]\n{}", SMALL_FLASH.replace("= 8", "= 16"));
    assert_refused(
        &format!("{flash}[volume.a]\noffset = \"32 KiB\"\nsize = \"64 KiB\"\n"),
        "[\"64 KiB\"] volume.a.size: the volume ends at 96 KiB on an emulated device of 64 KiB; \
         make the volume smaller, or emulate a larger device",
    );
}
