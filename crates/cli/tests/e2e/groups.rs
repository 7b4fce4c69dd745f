//! A group under fio: two volumes share its promise, whatever their queue depths.

use serde_json::Value;

use crate::common::{MIB, Server, have, succeed, tool, volume};

const SECTIONS: &str = "[store.pool]\npath = \"pool.img\"\nemulate = { rate = \"600 IOPS\" }\n\
    [group.tenant]\nsla = { burst = 2, rate = \"200 IOPS\", latency = \"100 ms\" }\n";

#[test]
fn fio_gets_the_same_on_both_volumes_of_a_group() {
    if !have(&["fio"]) {
        return;
    }
    let member = |name, start| volume(name, start, 16) + "group = \"tenant\"\n";
    let server = Server::start(32 * MIB, &(SECTIONS.to_owned() + &member("a", 0) + &member("b", 16)));
    let job = |name: &str, depth: u32| {
        [format!("--name={name}"), format!("--iodepth={depth}"), format!("--uri={}", server.uri(name))]
    };
    let text = succeed(
        tool("fio")
            .current_dir(server.folder())
            .args(["--ioengine=nbd", "--thread", "--rw=randread", "--bs=4k", "--size=16M"])
            .args(["--time_based", "--runtime=2", "--output-format=json"])
            .args(job("a", 32))
            .args(job("b", 8)),
    );
    let start = text.find('{').expect("fio's JSON");
    let report: Value = serde_json::from_str(&text[start..]).expect("fio's JSON");
    let done = |job: usize| report["jobs"][job]["read"]["total_ios"].as_f64().expect("a number");
    let (a, b) = (done(0), done(1));
    assert!(a + b > 600.0, "the device was busy: {a} and {b}");
    assert!((a / b - 1.0).abs() < 0.2, "{a} and {b}");
    server.stop();
}
