//! The offline scheme: clusters chosen from a trace, kept on the fast device by a real gateway.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::server::binary;
use crate::common::{MIB, Server, have, run, succeed, tool, volume, wait_until};
use crate::hybrid::{created, hybrid, hybrid_json, store};

const CLUSTER: u64 = 16 << 10;
const TIMES: [&str; 4] = ["--slow-read=5ms", "--slow-write=6ms", "--fast-read=100us", "--fast-write=8ms"];

/// Two volumes of 4 MiB behind each other. Volume 0 reads at random in its first four clusters, and all of
/// its second MiB in sequence; volume 1 writes its first cluster and reads its tenth, to and fro with its twentieth.
fn write_trace(folder: &Path) {
    let mut text = "at_ns,volume,operation,offset_bytes,length_bytes\n".to_owned();
    let mut at = 0;
    let mut add = |volume: u32, operation: &str, offset: u64| {
        at += 1_000_000;
        let _ = writeln!(text, "{at},{volume},{operation},{offset},4096");
    };
    for round in 0..40 {
        add(0, "read", [0, 3, 1, 2][round % 4] * 5 * CLUSTER + 4096 * (round as u64 % 3));
        add(1, "write", 0);
        add(1, "read", (10 + 10 * (round as u64 % 2)) * CLUSTER);
    }
    for block in 0..256 {
        add(0, "read", MIB + block * 4096);
    }
    fs::write(folder.join("trace.csv"), text).expect("trace.csv");
}

fn choose(folder: &Path, more: &[&str]) -> (i32, serde_json::Value) {
    hybrid_json(folder, "choose", &[&["trace.csv", "--out=pool.placement"], &TIMES[..], more].concat())
}

/// Clusters of 16 KiB that `evenkeel hybrid show` finds for each volume.
fn clusters_by_volume(folder: &Path) -> Vec<u64> {
    let (code, shown) = hybrid_json(folder, "show", &[]);
    assert_eq!(code, 0, "{shown}");
    let volumes = shown["volumes"].as_array().expect("volumes");
    volumes.iter().map(|volume| volume["clusters"].as_u64().expect("a count")).collect()
}

#[test]
fn what_a_trace_reads_at_random_moves_to_the_fast_device_and_nothing_else_does() {
    if !have(&["fio"]) {
        return;
    }
    let volumes = volume("a", 0, 4) + &volume("b", 4, 4);
    let folder = created(8 * MIB, 16, &(store("policy = \"none\"") + &volumes));
    let folder = folder.path();
    write_trace(folder);
    let (code, said) = choose(folder, &[]);
    // Clusters 0, 5, 10 and 15 of the first volume, 10 and 20 of the second, which begins at cluster 256.
    assert_eq!((code, said["chosen"].as_u64(), said["slots"].as_u64()), (0, Some(6), Some(16)), "{said}");
    assert_eq!((said["reads"].as_u64(), said["reads_all"].as_u64()), (Some(80), Some(336)), "{said}");
    assert_eq!((said["writes"].as_u64(), said["writes_all"].as_u64()), (Some(0), Some(40)), "{said}");
    let placement = fs::read_to_string(folder.join("pool.placement")).expect("it was written");
    assert!(placement.contains("0, 5, 10, 15, 266, 276,"), "{placement}");

    use_placement(folder);
    // Copies go on in the background, and what is there is seen once the gateway has ended: a cluster whose turn
    // had not come by then moves when it is read again.
    let settled = wait_until(Duration::from_secs(60), || {
        let server = Server::start_in(folder);
        for name in ["a", "b"] {
            let mut fio = tool("fio");
            fio.args(["--name=read", "--ioengine=nbd", "--rw=read", "--bs=4k", "--size=4M", "--iodepth=1"]);
            succeed(fio.arg(format!("--uri={}", server.uri(name))));
        }
        server.stop();
        clusters_by_volume(folder) == [4, 2]
    });
    assert!(settled, "{:?}", clusters_by_volume(folder));
}

/// The store goes by the placement from its next start on.
fn use_placement(folder: &Path) {
    let file = folder.join("evenkeel.toml");
    let text = fs::read_to_string(&file).expect("evenkeel.toml");
    let offline = "policy = \"offline\", placement = \"pool.placement\"";
    fs::write(&file, text.replace("policy = \"none\"", offline)).expect("evenkeel.toml");
}

#[test]
fn what_cannot_be_used_is_refused_and_nothing_is_overwritten() {
    let volumes = volume("a", 0, 4) + &volume("b", 4, 4);
    let folder = created(8 * MIB, 16, &(store("policy = \"none\"") + &volumes));
    let folder = folder.path();
    write_trace(folder);
    assert_eq!(choose(folder, &[]).0, 0);
    let (code, said) = choose(folder, &[]);
    assert_eq!(code, 2);
    assert!(
        said["message"].as_str().is_some_and(|it| it.contains("pool.placement: the file exists")),
        "{said}"
    );

    let message = |rows: &str| {
        fs::write(
            folder.join("other.csv"),
            format!("at_ns,volume,operation,offset_bytes,length_bytes\n{rows}"),
        )
        .expect("other.csv");
        let output = hybrid(folder, "choose", &[&["other.csv", "--out=other"], &TIMES[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(!folder.join("other").exists());
        String::from_utf8(output.stderr).expect("text")
    };
    let third = message("0,0,read,0,4096\n1,1,read,0,4096\n2,2,read,0,4096\n");
    assert!(third.contains("other.csv: request 3 goes to volume 2, and the store has 2 volumes"), "{third}");
    let beyond = message("0,0,read,4194304,4096\n");
    assert!(beyond.contains("request 1 ends at byte 4198400, and volume a at 4194304"), "{beyond}");

    // A placement for clusters of another size.
    use_placement(folder);
    let placement = folder.join("pool.placement");
    let text = fs::read_to_string(&placement).expect("placement");
    fs::write(&placement, text.replace("cluster_bytes = 16384", "cluster_bytes = 65536")).expect("placement");
    let output = run(Command::new(binary()).current_dir(folder).args(["serve", "evenkeel.toml"]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("store.pool.hybrid.placement: ")
            && said.contains("clusters of 64 KiB, and the store has clusters of 16 KiB"),
        "{said}"
    );
}
