//! `evenkeel check` and `evenkeel config` as users run them.

mod common;

use common::cli::{Run, run_in};
use serde_json::Value;
use tempfile::TempDir;

/// pClock, section 3.1: two flows that need 300 IOPS.
const PROMISES: &str = r#"
[gateway]
listen = ["unix:nbd.sock"]

[store.pool]
path = "pool.img"
capacity = "350 IOPS"

[volume.db]
offset = "0 B"
size = "1 GiB"
sla = { burst = 50, rate = "50 IOPS", latency = "200 ms" }

[volume.web]
offset = "1 GiB"
size = "1536 MiB"
weight = 10
sla = { burst = 110, rate = "100 IOPS", latency = "600 ms" }

[volume.backup]
path = "backup.img"
read_only = true
"#;

/// Runs `evenkeel` in a folder of its own that holds `text` as `evenkeel.toml`.
fn run(text: &str, arguments: &[&str]) -> Run {
    let folder = TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("evenkeel.toml"), text).expect("writable");
    run_in(folder.path(), arguments)
}

fn check(text: &str) -> Run {
    run(text, &["check", "evenkeel.toml"])
}

fn check_json(text: &str) -> Run {
    run(text, &["check", "evenkeel.toml", "--json"])
}

#[test]
fn promises_that_fit() {
    let run = check(PROMISES);
    assert_eq!(
        run.stdout,
        "evenkeel.toml: 1 store, 3 volumes\n\
         \n\
         store pool: pclock, depth 32\n\
         \x20 volume  promise ⟨burst, rate, latency⟩  weight  needs by its deadline  place\n\
         \x20 db      ⟨50, 50 IOPS, 200 ms⟩                1               250 IOPS  0 B to 1 GiB\n\
         \x20 web     ⟨110, 100 IOPS, 600 ms⟩             10               300 IOPS  1 GiB to 2560 MiB\n\
         \x20 backup  background                           1                      -  backup.img, all of it, read-only\n\
         \x20 needs 300 IOPS (binding: the 600 ms deadline of web); stated capacity 350 IOPS: fits, 50 IOPS to spare\n\
         \x20 note: requests already at the device are not interrupted; with depth 32 that can add 91.429 ms to a deadline\n"
    );
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
}

#[test]
fn promises_that_do_not_fit() {
    let run = check(&PROMISES.replace("350 IOPS", "299.999 IOPS"));
    assert_eq!(run.code, 1);
    assert!(
        run.stdout.ends_with(
            "  needs 300 IOPS (binding: the 600 ms deadline of web); stated capacity 299.999 IOPS: \
             does not fit, 0.001 IOPS are lacking (the gateway would refuse to start)\n\
             \x20 they fit with latency 600003 us instead of 600 ms for web, or burst 109 instead of 110 for web, \
             or rate 49.998 IOPS instead of 50 IOPS for db\n"
        ),
        "{}",
        run.stdout
    );
}

#[test]
fn who_would_be_served_as_best_effort_is_named() {
    let text =
        PROMISES.replace("capacity = \"350 IOPS\"", "capacity = \"275 IOPS\"\nadmission = \"best-effort\"");
    let run = check(&text);
    assert_eq!(run.code, 1);
    assert!(run.stdout.contains("(the gateway would promise nothing to web)"), "{}", run.stdout);
}

#[test]
fn a_store_that_only_warns_does_not_fit_either() {
    let text = PROMISES.replace("capacity = \"350 IOPS\"", "capacity = \"250 IOPS\"\nadmission = \"warn\"");
    let run = check(&text);
    assert_eq!(run.code, 1);
    assert!(
        run.stdout.contains("50 IOPS are lacking (the gateway would start with a warning)"),
        "{}",
        run.stdout
    );
}

#[test]
fn nothing_to_hold_promises_against() {
    let run = check(&PROMISES.replace("capacity = \"350 IOPS\"", ""));
    assert_eq!(run.code, 0);
    assert!(run.stdout.contains("no capacity stated, so nothing to hold it against"), "{}", run.stdout);
}

#[test]
fn no_promises_at_all() {
    let run = check("[gateway]\nlisten = [\"unix:a\"]\n[store.a]\n[volume.b]\npath = \"b\"\n");
    assert_eq!(run.code, 0);
    assert!(run.stdout.contains("  promises nothing and needs nothing\n"), "{}", run.stdout);
}

#[test]
fn several_stores_are_checked_each_by_itself() {
    let text = format!(
        "{}\n[store.fast]\nscheduler = \"fcfs\"\nemulate = {{ rate = \"90 IOPS\", servers = 4 }}\n\
         [volume.log]\nstore = \"fast\"\npath = \"log.img\"\nsize = \"1 MiB\"\n\
         sla = {{ burst = 1, rate = \"80 IOPS\", latency = \"1 s\" }}\n",
        PROMISES
            .replace("offset", "store = \"pool\"\noffset")
            .replace("path = \"backup.img\"", "store = \"pool\"\npath = \"backup.img\"")
    );
    let run = check(&text);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert!(
        run.stdout.contains("store fast: fcfs, depth 4, emulating 90 IOPS with 4 servers\n"),
        "{}",
        run.stdout
    );
    assert!(
        run.stdout.ends_with(
            "  needs 80 IOPS (binding: the sum of the rates); stated capacity 90 IOPS: fits, 10 IOPS to spare\n\
             \x20 note: scheduler \"fcfs\" holds nobody to these promises; \"pclock\" does\n"
        ),
        "{}",
        run.stdout
    );
}

#[test]
fn an_emulated_drive_is_named_and_refused_if_it_is_too_small() {
    let with = |emulate: &str| {
        check(&format!(
            "[gateway]\nlisten = [\"unix:a\"]\n[store.s]\npath = \"s.img\"\nemulate = {emulate}\n\
             [volume.v]\noffset = \"0 B\"\nsize = \"2 GiB\"\n"
        ))
    };
    let run = with("\"microsoft-ssd\"");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let expected = "store s: pclock, depth 8, emulating Microsoft SSD extension: 32 GiB of SLC flash";
    assert!(run.stdout.contains(expected), "{}", run.stdout);
    let run = with("{ kind = \"raid\", level = 1, members = { device = \"flashsim-2009\", count = 2 } }");
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("on an emulated device of 1 GiB"), "{}", run.stderr);
}

#[test]
fn problems_are_shown_with_their_lines() {
    let text = PROMISES.replace("\"200 ms\"", "200").replace("weight = 10", "wieght = 10");
    let run = check(&text);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    let lines: Vec<&str> = run.stderr.lines().map(str::trim_end).collect();
    assert_eq!(
        lines,
        [
            "  × volume.db.sla.latency: 200 has no unit",
            "    ╭─[evenkeel.toml:12:49]",
            " 11 │ size = \"1 GiB\"",
            " 12 │ sla = { burst = 50, rate = \"50 IOPS\", latency = 200 }",
            "    ·                                                 ─┬─",
            "    ·                                                  ╰── here",
            " 13 │",
            "    ╰────",
            "  help: write a time with its unit and in quotes, as \"100 ms\": ns, us, ms, s or min",
            "",
            "  × volume.web.wieght: unknown key",
            "    ╭─[evenkeel.toml:17:1]",
            " 16 │ size = \"1536 MiB\"",
            " 17 │ wieght = 10",
            "    · ───┬──",
            "    ·    ╰── here",
            " 18 │ sla = { burst = 110, rate = \"100 IOPS\", latency = \"600 ms\" }",
            "    ╰────",
            "  help: did you mean `weight`?",
            "",
            "evenkeel.toml: 2 problems",
        ]
    );
}

#[test]
fn a_file_that_is_not_there() {
    let run = run("", &["check", "missing.toml"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("cannot read the file: No such file"), "{}", run.stderr);
    assert!(run.stderr.ends_with("missing.toml: 1 problem\n"), "{}", run.stderr);
}

#[test]
fn problems_as_json() {
    let run = check_json(&PROMISES.replace("\"200 ms\"", "200"));
    assert_eq!((run.code, run.stderr.as_str()), (2, ""));
    assert_eq!(
        run.json(),
        serde_json::json!({
            "ok": false,
            "problems": [{
                "file": "evenkeel.toml",
                "line": 12,
                "column": 49,
                "key": "volume.db.sla.latency",
                "message": "200 has no unit",
                "remedy": "write a time with its unit and in quotes, as \"100 ms\": ns, us, ms, s or min",
            }],
        })
    );
}

#[test]
fn results_as_json() {
    let run = check_json(PROMISES);
    assert_eq!(run.code, 0);
    assert_eq!(run.stdout.lines().count(), 1);
    let json = run.json();
    let store = &json["stores"][0];
    assert_eq!((&json["ok"], &store["fits"]), (&Value::Bool(true), &Value::Bool(true)));
    assert_eq!((&store["needed_iops"], &store["capacity_iops"]), (&300.0.into(), &350.0.into()));
    assert_eq!(store["binding"], serde_json::json!({ "kind": "deadline", "volume": "web" }));
    assert_eq!(store["volumes"][0]["demand_at_deadline_iops"], 250.0);
    assert_eq!(store["volumes"][0]["sla"]["latency_us"], 200_000.0);
    assert_eq!(store["volumes"][2]["sla"], Value::Null);

    let run = check_json(&PROMISES.replace("350 IOPS", "1 IOPS"));
    assert_eq!((run.code, &run.json()["ok"]), (1, &Value::Bool(false)));
    let run = check_json(&PROMISES.replace("capacity = \"350 IOPS\"", ""));
    assert_eq!((run.code, &run.json()["stores"][0]["fits"]), (0, &Value::Null));
}

#[test]
fn groups_are_promised_once_and_shown_with_their_members() {
    let text = "[store.s]\npath = \"s.img\"\ncapacity = \"300 IOPS\"\ndepth = \"auto\"\n\
        cost = { write = { \"4 KiB\" = 1, \"64 KiB\" = 4 } }\n\
        [group.g]\nsla = { burst = 30, rate = \"100 IOPS\", latency = \"150 ms\" }\n\
        [volume.a]\ngroup = \"g\"\nrequest_max = \"64 KiB\"\noffset = \"0 B\"\nsize = \"1 MiB\"\n\
        [volume.b]\ngroup = \"g\"\nrequest_max = \"64 KiB\"\noffset = \"1 MiB\"\nsize = \"1 MiB\"\n\
        limit = { burst = 2, rate = \"50 IOPS\" }\n";
    let text = format!("[gateway]\nlisten = [\"unix:a\"]\n{text}");
    let run = check(&text);
    assert_eq!(run.code, 0, "{}", run.stdout);
    for words in ["depth 1 to 64, adapted", "as group g, at most 2 and 50 IOPS", "group g", "deadline of g"] {
        assert!(run.stdout.contains(words), "{words:?} in {}", run.stdout);
    }
    let store = &check_json(&text).json()["stores"][0];
    assert_eq!(store["needed_iops"], 200.0, "30 within 150 ms, once");
    assert_eq!(store["binding"], serde_json::json!({ "kind": "deadline", "group": "g" }));
    assert_eq!(
        (&store["groups"][0]["name"], &store["groups"][0]["demand_at_deadline_iops"]),
        (&"g".into(), &200.0.into())
    );
    let (a, b) = (&store["volumes"][0], &store["volumes"][1]);
    assert_eq!((&a["group"], &a["limit_iops"], &b["limit_iops"]), (&"g".into(), &Value::Null, &50.0.into()));
    assert_eq!((&store["depth"], &store["depth_least"]), (&64.into(), &1.into()));
    assert_eq!(a["cost"]["read"], 1.0);
    assert_eq!(a["cost"]["write"], serde_json::json!([[4096, 1.0], [65_536, 4.0]]));
}

#[test]
fn the_example_is_accepted() {
    let example = run("", &["config", "--example"]);
    assert_eq!(example.code, 0);
    let checked = check(&example.stdout);
    assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
    assert!(checked.stdout.contains("fits"), "{}", checked.stdout);
}

#[test]
fn the_exit_codes_are_documented() {
    let help = run("", &["check", "--help"]);
    assert_eq!(help.code, 0);
    for code in ["  0  ", "  1  ", "  2  "] {
        assert!(help.stdout.contains(code), "{}", help.stdout);
    }
    assert_eq!(run("", &["check"]).code, 2);
    assert_eq!(run("", &["config"]).code, 2);
}
