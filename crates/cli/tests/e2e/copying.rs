//! nbdcopy: whole volumes in and out, over several connections.

use std::fs;

use crate::common::{MIB, Server, have, noise, store, succeed, tool, volume};

#[test]
fn nbdcopy_brings_back_what_it_took() {
    if !have(&["nbdcopy"]) {
        return;
    }
    let config =
        store().to_owned() + &volume("before", 0, 4) + &volume("db", 4, 48) + &volume("after", 52, 4);
    let server = Server::start(56 * MIB, &config);
    let (source, back) = (server.folder().join("source.img"), server.folder().join("back.img"));
    let data = noise(1, 48 << 20);
    fs::write(&source, &data).expect("the source");
    let connections = ["--connections=4", "--requests=16", "--request-size=65536"];
    succeed(tool("nbdcopy").args(connections).arg("--flush").arg(&source).arg(server.uri("db")));
    succeed(tool("nbdcopy").args(connections).arg(server.uri("db")).arg(&back));
    assert!(fs::read(&back).expect("the copy") == data, "the copy differs from the source");
    let pool = server.folder().join("pool.img");
    server_file_holds(&fs::read(pool).expect("the backing"), &data);
    server.stop();
}

/// The volume's slice holds the data, and its neighbours are as empty as before.
fn server_file_holds(pool: &[u8], data: &[u8]) {
    let (start, end) = (4 << 20, 52 << 20);
    assert!(pool[start..end] == *data, "the backing differs from the source");
    assert!(pool[..start].iter().all(|byte| *byte == 0), "the volume before was written to");
    assert!(pool[end..].iter().all(|byte| *byte == 0), "the volume behind was written to");
}
