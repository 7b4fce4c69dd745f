//! What a completed FLUSH or a FUA write promises, kept through `kill -9` and through a power cut.
//!
//! ```text
//!  writers ─ write(slot, seq) ─> acknowledged: acked[slot] = seq ─┐ snapshot before FLUSH is sent
//!          └ FUA write ────────> durable[slot] = seq              ├> FLUSH completes: durable = snapshot
//!  after the crash every slot holds a seq in durable[slot] ..= sent[slot]
//! ```
//!
//! The FLUSH goes over a connection of its own: multi-conn is advertised, so it covers all of them.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::client::{Client, FUA};
use crate::common::server::prepare;
use crate::common::{MIB, Server, have, may_mount, store, succeed, tool, volume};
use crate::mounting::{Loop, Mount};

const BLOCK: usize = 4096;
const SLOTS_PER_WRITER: usize = 64;
const WRITERS: usize = 3;

/// What is known of one block, as sequence numbers of its writes; 0 is the empty file.
#[derive(Clone, Copy, Default)]
struct Slot {
    sent: u64,
    acked: u64,
    durable: u64,
}

pub(crate) struct Record {
    slots: Mutex<Vec<Slot>>,
    flushes: AtomicU64,
}

impl Record {
    fn new() -> Self {
        Self {
            slots: Mutex::new(vec![Slot::default(); WRITERS * SLOTS_PER_WRITER]),
            flushes: AtomicU64::new(0),
        }
    }

    fn change(&self, slot: usize, change: impl FnOnce(&mut Slot)) {
        change(&mut self.slots.lock().expect("no thread panicked")[slot]);
    }
}

/// A block that names its slot and sequence number in every 16 bytes.
fn block(slot: usize, seq: u64) -> Vec<u8> {
    let cell = [(slot as u64).to_le_bytes(), seq.to_le_bytes()].concat();
    cell.repeat(BLOCK / cell.len())
}

/// Writes its slots over and over until the server dies; every seventh write with FUA.
fn write_on(socket: &Path, writer: usize, record: &Record) {
    let mut client = Client::open(socket, "db").expect("open");
    for seq in 1.. {
        for place in 0..SLOTS_PER_WRITER {
            let slot = writer * SLOTS_PER_WRITER + place;
            let fua = (seq as usize + place).is_multiple_of(7);
            record.change(slot, |slot| slot.sent = seq);
            match client.write(if fua { FUA } else { 0 }, (slot * BLOCK) as u64, &block(slot, seq)) {
                Ok(0) => {}
                // A write that fails is not acknowledged; after a power cut they all fail.
                Ok(_) => continue,
                Err(_) => return,
            }
            record.change(slot, |slot| {
                slot.acked = seq;
                if fua {
                    slot.durable = seq;
                }
            });
        }
    }
}

/// Flushes until the server dies, over a connection that writes nothing.
fn flush_on(socket: &Path, record: &Record) {
    let mut client = Client::open(socket, "db").expect("open");
    loop {
        thread::sleep(Duration::from_millis(20));
        let acked: Vec<u64> = record.slots.lock().expect("no panic").iter().map(|slot| slot.acked).collect();
        match client.flush() {
            Ok(0) => {}
            Ok(_) => continue,
            Err(_) => return,
        }
        let mut slots = record.slots.lock().expect("no panic");
        for (slot, acked) in slots.iter_mut().zip(acked) {
            slot.durable = slot.durable.max(acked);
        }
        record.flushes.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs the writers against the server for a while, then `crash`es it; what was promised by then.
pub(crate) fn load(server: Server, millis: u64, crash: impl FnOnce()) -> Record {
    let record = Record::new();
    let socket = server.socket();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (socket, record) = (&socket, &record);
            scope.spawn(move || write_on(socket, writer, record));
        }
        scope.spawn(|| flush_on(&socket, &record));
        thread::sleep(Duration::from_millis(millis));
        crash();
        // What is acknowledged from here on counts as well: the server may not have noticed yet.
        thread::sleep(Duration::from_millis(50));
        server.kill();
    });
    assert!(record.flushes.load(Ordering::Relaxed) > 0, "no FLUSH completed: this test has shown nothing");
    record
}

/// Every cell of every block lies between what was promised and what was sent.
pub(crate) fn verify(server: &Server, record: &Record) {
    let mut client = Client::open(&server.socket(), "db").expect("open");
    let slots = record.slots.lock().expect("no panic");
    for (number, slot) in slots.iter().enumerate() {
        let data = client.read((number * BLOCK) as u64, BLOCK as u32).expect("a reply").expect("readable");
        for cell in data.chunks_exact(16) {
            let word = |at: usize| u64::from_le_bytes(cell[at..at + 8].try_into().expect("eight bytes"));
            let (owner, seq) = (word(0), word(8));
            assert!(
                (slot.durable..=slot.sent).contains(&seq) && (seq == 0 || owner == number as u64),
                "block {number} holds write {seq} of block {owner}; promised {}, sent {}",
                slot.durable,
                slot.sent
            );
        }
    }
}

fn config() -> String {
    store().to_owned() + &volume("db", 0, 8)
}

#[test]
fn kill_9_loses_nothing_that_was_promised() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for millis in [150, 300, 450] {
        prepare(folder.path(), "", "", 8 * MIB, &config());
        let record = load(Server::start_in(folder.path()), millis, || ());
        let server = Server::start_in(folder.path());
        verify(&server, &record);
        server.stop();
    }
}

/// Cuts the file system off from its device: what was not written through by now is lost.
pub(crate) fn cut_power(mountpoint: &Path) {
    const EXT4_IOC_SHUTDOWN: libc::Ioctl = 0x8004_587d_u32 as libc::Ioctl;
    // EXT4_GOING_FLAGS_NOLOGFLUSH: not even the journal is written out.
    let no_log_flush: u32 = 2;
    let folder = File::open(mountpoint).expect("the mount point");
    // SAFETY: the request reads one u32 through the pointer, which outlives the call.
    let result = unsafe { libc::ioctl(folder.as_raw_fd(), EXT4_IOC_SHUTDOWN, &raw const no_log_flush) };
    assert_eq!(result, 0, "EXT4_IOC_SHUTDOWN: {}", std::io::Error::last_os_error());
}

#[test]
fn a_power_cut_loses_nothing_that_was_promised() {
    if !have(&["losetup", "mkfs.ext4"]) || !may_mount() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let image = folder.path().join("disk.img");
    File::create(&image).and_then(|file| file.set_len(64 * MIB)).expect("disk.img");
    let disk = Loop::new(&image, &[]);
    succeed(tool("mkfs.ext4").args(["-q", "-F", &disk.device]));
    let (home, mountpoint) = (folder.path().join("home"), folder.path().join("mount"));
    for millis in [200, 350, 500] {
        fs::create_dir_all(&home).expect("a folder");
        // The configuration and socket live outside; only the backing is on the disk that loses power.
        let config = config().replace("pool.img", &mountpoint.join("pool.img").display().to_string());
        prepare(&home, "", "", 0, &config);
        let record = {
            let mount = Mount::new(&disk.device, mountpoint.clone(), "rw");
            let pool = File::create(mount.path.join("pool.img")).expect("pool.img");
            pool.set_len(8 * MIB).and_then(|()| pool.sync_all()).expect("room for pool.img");
            load(Server::start_in(&home), millis, || cut_power(&mount.path))
        };
        let _mount = Mount::new(&disk.device, mountpoint.clone(), "rw");
        let server = Server::start_in(&home);
        verify(&server, &record);
        server.stop();
    }
}
