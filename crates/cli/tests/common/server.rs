//! One `evenkeel serve` in a temporary folder.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use super::wait_until;

/// A running server; killed when dropped. Its folder holds `evenkeel.toml`, `pool.img`, `nbd.sock`.
pub(crate) struct Server {
    child: Child,
    folder: Folder,
    /// What it printed before and with the line that says it is ready.
    pub(crate) greeting: String,
}

/// Where a server lives; it outlives the server in tests that start it again.
enum Folder {
    Own(TempDir),
    Lent(PathBuf),
}

/// The binary under test. `EVENKEEL_BINARY` puts another in its place, such as an installed one.
pub(crate) fn binary() -> OsString {
    env::var_os("EVENKEEL_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_evenkeel").into())
}

/// A store over `pool.img` without an emulated device; no promise of any test comes near its capacity.
pub(crate) fn store() -> &'static str {
    "[store.pool]\npath = \"pool.img\"\ncapacity = \"100000 IOPS\"\nscheduler = \"pclock\"\ndepth = 32\n"
}

/// A volume without an SLA; offset and size in MiB.
pub(crate) fn volume(name: &str, offset: u64, size: u64) -> String {
    format!("[volume.{name}]\nstore = \"pool\"\noffset = \"{offset} MiB\"\nsize = \"{size} MiB\"\n")
}

impl Server {
    /// Serves `stores_and_volumes` over a `pool.img` of that size, on a Unix socket.
    pub(crate) fn start(pool_bytes: u64, stores_and_volumes: &str) -> Self {
        Self::start_with("", pool_bytes, stores_and_volumes)
    }

    /// The same with more lines in `[gateway]`.
    pub(crate) fn start_with(gateway: &str, pool_bytes: u64, stores_and_volumes: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        prepare(folder.path(), "", gateway, pool_bytes, stores_and_volumes);
        Self::launch(Folder::Own(folder))
    }

    /// Serves on TCP too, at that port of the loopback interface.
    pub(crate) fn start_on_tcp(port: u16, pool_bytes: u64, stores_and_volumes: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let tcp = format!(", \"tcp://127.0.0.1:{port}\"");
        prepare(folder.path(), &tcp, "", pool_bytes, stores_and_volumes);
        Self::launch(Folder::Own(folder))
    }

    /// Serves from a folder of the caller's, which it must have filled with [`prepare`].
    pub(crate) fn start_in(folder: &Path) -> Self {
        Self::launch(Folder::Lent(folder.to_owned()))
    }

    fn launch(folder: Folder) -> Self {
        let path = folder.path();
        let errors = File::create(path.join("stderr.log")).expect("stderr.log");
        let mut child = Command::new(binary())
            .args(["serve", "evenkeel.toml"])
            .current_dir(path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .expect("the server starts");
        let output = BufReader::new(child.stdout.take().expect("its stdout is a pipe"));
        let (sender, receiver) = mpsc::channel();
        // Reads on after the greeting, so that the server never writes into a closed pipe.
        thread::spawn(move || output.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        let mut server = Self { child, folder, greeting: String::new() };
        while !server.greeting.contains("ready") {
            match receiver.recv_timeout(Duration::from_secs(10)) {
                Ok(line) => server.greeting += &(line + "\n"),
                Err(_) => panic!("the server did not say `ready`:\n{}{}", server.greeting, server.stderr()),
            }
        }
        server
    }

    /// The folder with its files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its Unix socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder().join("nbd.sock")
    }

    /// The address of an export.
    pub(crate) fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.socket().display())
    }

    /// What it has written to standard error.
    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(self.folder().join("stderr.log")).unwrap_or_default()
    }

    /// Resident memory, in KiB.
    pub(crate) fn memory_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).expect("VmRSS of a live server")
    }

    /// Sends SIGTERM without waiting.
    pub(crate) fn begin_shutdown(&self) {
        let id = libc::pid_t::try_from(self.child.id()).expect("an id of a process");
        // SAFETY: kill has no memory effects; the child has not been waited for, so the id is its own.
        let result = unsafe { libc::kill(id, libc::SIGTERM) };
        assert_eq!(result, 0, "SIGTERM could not be sent");
    }

    /// Waits for the end; panics if it takes longer than 20 s.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        let ended = wait_until(Duration::from_secs(20), || {
            status = self.child.try_wait().expect("the child can be waited for");
            status.is_some()
        });
        assert!(ended, "the server has not ended 20 s after SIGTERM:\n{}", self.stderr());
        status.expect("ended")
    }

    /// SIGTERM, and exit code 0.
    pub(crate) fn stop(mut self) {
        self.begin_shutdown();
        let status = self.wait();
        assert_eq!(status.code(), Some(0), "after SIGTERM: {status}\n{}", self.stderr());
    }

    /// SIGKILL: no chance to write anything more.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("SIGKILL");
        self.child.wait().expect("the child can be waited for");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let stderr = self.stderr();
        if thread::panicking() {
            eprintln!("--- the server's stderr\n{stderr}");
        } else {
            assert!(!stderr.contains("panicked"), "the server panicked:\n{stderr}");
        }
    }
}

impl Folder {
    fn path(&self) -> &Path {
        match self {
            Self::Own(folder) => folder.path(),
            Self::Lent(path) => path,
        }
    }
}

/// Writes `evenkeel.toml` and an empty `pool.img`. `listen` holds further addresses, each after a comma.
pub(crate) fn prepare(folder: &Path, listen: &str, gateway: &str, pool_bytes: u64, stores_and_volumes: &str) {
    let socket = folder.join("nbd.sock");
    let text = format!(
        "[gateway]\nlisten = [\"unix://{}\"{listen}]\n{gateway}\n{stores_and_volumes}",
        socket.display()
    );
    fs::write(folder.join("evenkeel.toml"), text).expect("evenkeel.toml");
    let pool = File::create(folder.join("pool.img")).expect("pool.img");
    pool.set_len(pool_bytes).expect("room for pool.img");
}
