//! fio with verification, from two connections at once.

use crate::common::{MIB, Server, have, run, store, succeed, tool, volume};

#[test]
fn fio_verifies_what_two_connections_wrote() {
    if !have(&["fio"]) {
        return;
    }
    let engines = run(tool("fio").arg("--enghelp"));
    assert!(String::from_utf8_lossy(&engines.stdout).contains("nbd"), "this fio has no nbd engine");
    let server =
        Server::start(48 * MIB, &(store().to_owned() + &volume("other", 0, 16) + &volume("db", 16, 32)));
    let text = succeed(
        tool("fio")
            .current_dir(server.folder())
            .args(["--name=verify", "--ioengine=nbd", "--thread", "--rw=randwrite", "--bsrange=4k-64k"])
            .args(["--bs_unaligned=0", "--size=16M", "--numjobs=2", "--offset_increment=16M", "--iodepth=16"])
            .args(["--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--verify_backlog=64"])
            .args(["--fsync=100", "--group_reporting"])
            .arg(format!("--uri={}", server.uri("db"))),
    );
    assert!(text.contains("err= 0"), "{text}");
    server.stop();
}
