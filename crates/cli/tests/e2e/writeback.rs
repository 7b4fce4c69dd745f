//! Write-back errors of a real block device: a loop device over a file whose server answers writes with EIO
//! from a chosen moment on. The kernel tells them to one sync of the device; who has data there must all know.

use std::fs::{self, File};

use crate::common::client::Client;
use crate::common::fuse::{Fuse, may_fuse};
use crate::common::server::prepare;
use crate::common::{MIB, Server, have, may_mount, noise, store, volume};
use crate::mounting::Loop;

const EIO: u32 = 5;

/// A block device whose writes can be made to fail.
struct FailingDisk {
    disk: Loop,
    _fuse: Fuse,
    folder: tempfile::TempDir,
}

impl FailingDisk {
    fn new(bytes: u64) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name).display().to_string();
        File::create(at("raw")).and_then(|file| file.set_len(bytes)).expect("room");
        let (raw, trigger) = (at("raw"), format!("error-pwrite-file={}", at("broken")));
        let words = ["--filter=error", "file", &raw, "error-pwrite=EIO", "error-pwrite-rate=100%", &trigger];
        let fuse = Fuse::over_nbdkit(folder.path().join("fuse"), &words);
        let disk = Loop::new(&fuse.file(), &["--direct-io=on"]);
        Self { disk, _fuse: fuse, folder }
    }

    fn serve(&self, volumes: &str) -> Server {
        let home = self.folder.path().join("home");
        fs::create_dir_all(&home).expect("a folder");
        prepare(&home, "", "", 0, &(store().replace("pool.img", &self.disk.device) + volumes));
        Server::start_in(&home)
    }

    fn fail(&self) {
        File::create(self.folder.path().join("broken")).expect("the trigger");
    }

    fn heal(&self) {
        fs::remove_file(self.folder.path().join("broken")).expect("the trigger");
    }
}

#[test]
fn a_write_back_error_is_told_to_every_volume_of_the_device_once() {
    if !have(&["losetup"]) || !may_mount() || !may_fuse() {
        return;
    }
    let disk = FailingDisk::new(16 * MIB);
    let server = disk.serve(&(volume("a", 0, 8) + &volume("b", 8, 8)));
    let mut clients = ["a", "b"].map(|name| Client::open(&server.socket(), name).expect("open"));
    let data = noise(5, 1 << 20);
    for client in &mut clients {
        assert_eq!(client.write(0, 0, &data).expect("a reply"), 0, "into the page cache");
        assert_eq!(client.flush().expect("a reply"), 0);
        assert_eq!(client.write(0, 0, &data).expect("a reply"), 0);
    }
    disk.fail();
    let [a, b] = &mut clients;
    assert_eq!(a.flush().expect("a reply"), EIO);
    disk.heal();
    assert_eq!(a.write(0, 0, &data).expect("a reply"), 0);
    assert_eq!(a.flush().expect("a reply"), 0, "told once, and sound again");
    assert_eq!(b.flush().expect("a reply"), EIO, "the kernel has told its error to another volume's sync");
    assert_eq!(b.flush().expect("a reply"), 0);
    assert!(server.stderr().contains("data could not be made durable"), "{}", server.stderr());
    drop(clients);
    server.stop();
}

/// Volume a is too large for one range of the kernel's sync; its neighbour's data is not its business all the same.
#[test]
fn the_flush_of_a_large_volume_does_not_write_its_neighbours_data() {
    if !have(&["losetup"]) || !may_mount() || !may_fuse() {
        return;
    }
    let disk = FailingDisk::new(6 << 30);
    let server = disk.serve(&(volume("a", 0, 5 << 10) + &volume("b", 5 << 10, 8)));
    let [mut a, mut b] = ["a", "b"].map(|name| Client::open(&server.socket(), name).expect("open"));
    let data = noise(6, 64 << 10);
    assert_eq!(a.flush().expect("a reply"), 0, "the first one covers what an earlier process may have left");
    assert_eq!(b.write(0, 0, &data).expect("a reply"), 0, "into the page cache");
    disk.fail();
    assert_eq!(a.flush().expect("a reply"), 0, "nothing of a is to be written");
    disk.heal();
    assert_eq!(b.flush().expect("a reply"), 0);
    // What is written near its end is, though.
    assert_eq!(a.write(0, (5 << 30) - (64 << 10), &data).expect("a reply"), 0);
    disk.fail();
    assert_eq!(a.flush().expect("a reply"), EIO);
    disk.heal();
    assert_eq!(a.write(0, (5 << 30) - (64 << 10), &data).expect("a reply"), 0);
    assert_eq!(a.flush().expect("a reply"), 0);
    drop((a, b));
    server.stop();
}
