//! The fast device of a hybrid store fails under the gateway, for real: it is a file over NBD whose server
//! answers with EIO from a chosen moment on. What lay there fails, precisely; everything else goes on.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::common::client::Client;
use crate::common::fuse::{Fuse, may_fuse};
use crate::common::server::{binary, prepare};
use crate::common::{MIB, Server, have, noise, run, succeed, tool, volume, wait_until};
use crate::hybrid::{hybrid, hybrid_json};

const BLOCK: usize = 4096;
const EIO: u32 = 5;
/// Of volume a, which lies on the fast device.
const A_BYTES: usize = 1 << 20;

/// A hybrid store whose fast device can be made to fail.
struct Rig {
    folder: tempfile::TempDir,
    fast: Option<Fuse>,
    data: Vec<u8>,
}

impl Rig {
    /// Volume `a` of 4 MiB, the first of them on the fast device, and volume `b` of 28 MiB.
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut rig = Self { folder, fast: None, data: noise(7, A_BYTES) };
        let raw = rig.at("fast.raw");
        File::create(raw).and_then(|file| file.set_len(4 * MIB)).expect("fast.raw");
        rig.attach();
        rig.configure("policy = \"lru\"");
        fs::create_dir_all(rig.home()).expect("a folder");
        let output = hybrid(&rig.home(), "create", &["--cluster=64KiB", "--block=4KiB"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let server = rig.serve();
        let mut client = Client::open(&server.socket(), "a").expect("open");
        assert_eq!(client.write(0, 0, &rig.data).expect("a reply"), 0);
        assert_eq!(client.flush().expect("a reply"), 0);
        drop(client);
        server.stop();
        rig
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn home(&self) -> PathBuf {
        self.at("home")
    }

    fn trigger(&self) -> PathBuf {
        self.at("broken")
    }

    /// Makes the fast device be there, sound.
    fn attach(&mut self) {
        let text = |path: PathBuf| path.to_str().expect("UTF-8").to_owned();
        let file = format!("error-file={}", text(self.trigger()));
        let raw = text(self.at("fast.raw"));
        let words = ["--filter=error", "file", &raw, "error=EIO", "error-rate=100%", &file];
        self.fast = Some(Fuse::over_nbdkit(self.at("fast"), &words));
    }

    fn configure(&self, options: &str) {
        fs::create_dir_all(self.home()).expect("a folder");
        let pool = self.home().join("pool.img");
        let content = fs::read(&pool).ok();
        let config = format!(
            "[store.pool]\npath = \"pool.img\"\ncapacity = \"100000 IOPS\"\nbackend = \"hybrid\"\ndirect = true\n\
             hybrid = {{ fast = \"{}\", map = \"pool.map\", {options} }}\n",
            self.at("fast").join("disk").display()
        ) + &volume("a", 0, 4)
            + &volume("b", 4, 28);
        prepare(&self.home(), "", "", 32 * MIB, &config);
        content.into_iter().for_each(|content| fs::write(&pool, content).expect("written"));
    }

    fn serve(&self) -> Server {
        Server::start_in(&self.home())
    }

    /// From now on the fast device answers everything with EIO.
    fn fail(&self) {
        File::create(self.trigger()).expect("the trigger");
    }

    fn heal(&self) {
        fs::remove_file(self.trigger()).expect("the trigger");
    }

    fn block_of_a(&self, number: usize) -> &[u8] {
        &self.data[number * BLOCK..(number + 1) * BLOCK]
    }
}

fn read(client: &mut Client, block: usize) -> Result<Vec<u8>, u32> {
    client.read((block * BLOCK) as u64, BLOCK as u32).expect("a reply")
}

fn write(client: &mut Client, block: usize, data: &[u8]) -> u32 {
    client.write(0, (block * BLOCK) as u64, data).expect("a reply")
}

/// Volume b takes 8 MiB from a program that we did not write, which reads it back and compares.
fn b_goes_on(folder: &Path, server: &Server) {
    let mut fio = tool("fio");
    fio.current_dir(folder)
        .args(["--name=b", "--ioengine=nbd", "--thread", "--rw=randwrite", "--bs=4k", "--size=8M"])
        .args(["--iodepth=16", "--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--fsync=256"])
        .arg(format!("--uri={}", server.uri("b")));
    let text = succeed(&mut fio);
    assert!(text.contains("err= 0"), "{text}");
}

#[test]
fn bad_places_fail_alone_and_are_healed_by_writing_them_anew() {
    if !may_fuse() || !have(&["fio"]) {
        return;
    }
    let rig = Rig::new();
    // Nothing new goes to the fast device, so nothing tells it from one with bad places.
    rig.configure("policy = \"none\"");
    let server = rig.serve();
    let mut a = Client::open(&server.socket(), "a").expect("open");
    assert_eq!(read(&mut a, 3).as_deref(), Ok(rig.block_of_a(3)));
    rig.fail();
    for block in [0, 3, 255] {
        assert_eq!(read(&mut a, block), Err(EIO), "block {block} is nowhere else");
    }
    assert_eq!(read(&mut a, 256), Ok(vec![0; BLOCK]), "the one behind them is at home");
    b_goes_on(&rig.home(), &server);
    let anew = noise(8, BLOCK);
    assert_eq!(write(&mut a, 3, &anew), 0, "whole blocks go to the sound device");
    assert_eq!(a.flush().expect("a reply"), 0);
    assert_eq!(read(&mut a, 3), Ok(anew.clone()));
    assert_eq!(read(&mut a, 4), Err(EIO));
    rig.heal();
    assert_eq!(read(&mut a, 4).as_deref(), Ok(rig.block_of_a(4)));
    assert_eq!(read(&mut a, 3), Ok(anew));
    drop(a);
    let said = server.stderr();
    assert!(said.contains("an access failed") && said.contains("volume=a"), "{said}");
    let of_b = said.lines().find(|line| line.contains("ERROR") && line.contains("volume=b"));
    assert_eq!(of_b, None, "nothing of b failed");
    assert!(!said.contains("is lost"), "{said}");
    server.stop();
    assert_eq!(hybrid_json(&rig.home(), "check", &[]).0, 0);
}

#[test]
fn what_failed_is_counted_in_what_serve_says_at_its_end() {
    if !may_fuse() {
        return;
    }
    let rig = Rig::new();
    rig.configure("policy = \"none\"");
    let mut command = std::process::Command::new(binary());
    let out = File::create(rig.at("end.json")).expect("a file");
    command.current_dir(rig.home()).args(["serve", "evenkeel.toml", "--json"]).stdout(out);
    let mut child = command.spawn().expect("the server starts");
    let socket = rig.home().join("nbd.sock");
    assert!(wait_until(Duration::from_secs(10), || Client::open(&socket, "a").is_ok()), "no server");
    let mut a = Client::open(&socket, "a").expect("open");
    rig.fail();
    (0..3).for_each(|block| assert_eq!(read(&mut a, block), Err(EIO)));
    drop(a);
    rig.heal();
    let id = libc::pid_t::try_from(child.id()).expect("an id");
    // SAFETY: kill has no memory effects; the child has not been waited for.
    assert_eq!(unsafe { libc::kill(id, libc::SIGTERM) }, 0);
    assert_eq!(child.wait().expect("ends").code(), Some(0));
    let said = fs::read_to_string(rig.at("end.json")).expect("readable");
    let ended: Value = serde_json::from_str(said.lines().last().expect("a line")).expect("JSON");
    let hybrid = &ended["stores"][0]["hybrid"];
    assert_eq!(
        (&hybrid["fast_errors"], &hybrid["slow_errors"]),
        (&Value::from(3), &Value::from(0)),
        "{said}"
    );
    assert_eq!(hybrid["fast_lost"], Value::Bool(false));
    let failed = |name: &str| {
        let mut volumes = ended["volumes"].as_array().expect("a list").iter();
        volumes.find(|volume| volume["volume"] == name).expect("listed")["failed"].clone()
    };
    assert_eq!((failed("a"), failed("b")), (Value::from(3), Value::from(0)), "{said}");
}

#[test]
fn a_device_that_refuses_writes_is_lost_and_who_lies_elsewhere_goes_on() {
    if !may_fuse() || !have(&["fio"]) {
        return;
    }
    let mut rig = Rig::new();
    let server = rig.serve();
    let mut a = Client::open(&server.socket(), "a").expect("open");
    rig.fail();
    let anew = noise(9, BLOCK);
    assert_eq!(write(&mut a, 5, &anew), EIO, "in place, there");
    assert_eq!(read(&mut a, 6), Err(EIO));
    assert_eq!(write(&mut a, 600, &anew), 0, "elsewhere: at home");
    assert_eq!(read(&mut a, 600), Ok(anew.clone()));
    b_goes_on(&rig.home(), &server);
    let said = server.stderr();
    assert!(said.contains("the fast device is lost") && said.contains("unreachable_bytes=1048576"), "{said}");
    let named: Vec<_> = said.lines().filter(|line| line.contains("unreachable_bytes")).collect();
    assert!(named.len() == 1 && named[0].contains("volume=a"), "{said}");
    drop(a);
    server.kill();

    // The next start: without the device only if it is told so.
    drop(rig.fast.take());
    rig.heal();
    let home = rig.home();
    let start = || {
        let mut command = std::process::Command::new(binary());
        let output = run(command.current_dir(&home).args(["serve", "evenkeel.toml"]));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = start();
    assert!(said.contains("does not exist") && said.contains("without_fast = true"), "{said}");
    rig.configure("policy = \"lru\", without_fast = true");
    let server = rig.serve();
    let mut a = Client::open(&server.socket(), "a").expect("open");
    assert_eq!(read(&mut a, 6), Err(EIO));
    assert_eq!(write(&mut a, 6, &anew), 0);
    assert_eq!(a.flush().expect("a reply"), 0, "durable, although the fast device is missing");
    assert_eq!(read(&mut a, 6), Ok(anew.clone()));
    b_goes_on(&rig.home(), &server);
    drop(a);
    let said = server.stderr();
    assert!(said.contains("serving without the fast device"), "{said}");
    server.kill();

    // And it comes back: what was written meanwhile is the newest.
    rig.attach();
    let said = start();
    assert!(said.contains("is there; remove this key"), "{said}");
    rig.configure("policy = \"none\"");
    let server = rig.serve();
    let mut a = Client::open(&server.socket(), "a").expect("open");
    assert_eq!(read(&mut a, 6), Ok(anew));
    assert_eq!(read(&mut a, 7).as_deref(), Ok(rig.block_of_a(7)));
    drop(a);
    server.stop();
    assert_eq!(hybrid_json(&rig.home(), "check", &[]).0, 0);
}
