//! Write-back errors of a real block device: a loop device over a file whose server answers writes with EIO
//! from a chosen moment on. The kernel tells them to one sync of the device; who has data there must all know.

use std::fs::{self, File};

use crate::common::client::Client;
use crate::common::fuse::{Fuse, may_fuse};
use crate::common::server::prepare;
use crate::common::{MIB, Server, have, may_mount, noise, store, volume};
use crate::mounting::Loop;

const EIO: u32 = 5;

#[test]
fn a_write_back_error_is_told_to_every_volume_of_the_device_once() {
    if !have(&["losetup"]) || !may_mount() || !may_fuse() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    File::create(at("raw")).and_then(|file| file.set_len(16 * MIB)).expect("room");
    let (raw, trigger) = (at("raw"), format!("error-pwrite-file={}", at("broken")));
    let words = ["--filter=error", "file", &raw, "error-pwrite=EIO", "error-pwrite-rate=100%", &trigger];
    let fuse = Fuse::over_nbdkit(folder.path().join("fuse"), &words);
    let disk = Loop::new(&fuse.file(), &["--direct-io=on"]);
    let home = folder.path().join("home");
    fs::create_dir(&home).expect("a folder");
    let config = store().replace("pool.img", &disk.device) + &volume("a", 0, 8) + &volume("b", 8, 8);
    prepare(&home, "", "", 0, &config);
    let server = Server::start_in(&home);
    let mut clients = ["a", "b"].map(|name| Client::open(&server.socket(), name).expect("open"));
    let data = noise(5, 1 << 20);
    for client in &mut clients {
        assert_eq!(client.write(0, 0, &data).expect("a reply"), 0, "into the page cache");
        assert_eq!(client.flush().expect("a reply"), 0);
        assert_eq!(client.write(0, 0, &data).expect("a reply"), 0);
    }
    File::create(at("broken")).expect("the trigger");
    let [a, b] = &mut clients;
    assert_eq!(a.flush().expect("a reply"), EIO);
    fs::remove_file(at("broken")).expect("the trigger");
    assert_eq!(a.write(0, 0, &data).expect("a reply"), 0);
    assert_eq!(a.flush().expect("a reply"), 0, "told once, and sound again");
    assert_eq!(b.flush().expect("a reply"), EIO, "the kernel has told its error to another volume's sync");
    assert_eq!(b.flush().expect("a reply"), 0);
    assert!(server.stderr().contains("data could not be made durable"), "{}", server.stderr());
    drop(clients);
    server.stop();
}
