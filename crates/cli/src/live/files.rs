//! A file system on an export: what Filebench's personalities work on (pClock, section 5.2: "each workload is
//! associated with a pseudo device with an ext2 file system").
//!
//! ```text
//!  ext2 image with the personality's files ──> volume ── gateway ── NBD ── nbdfuse: one file ── loop device
//!                                                                                                  └─ ext2 ── fio
//! ```

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a file of nbdfuse may take to appear, and an unmounting to succeed.
const PATIENCE: Duration = Duration::from_secs(20);
/// What the way from a file to an NBD client takes.
const PROGRAMS: [&str; 5] = ["nbdfuse", "losetup", "mount", "umount", "mkfs.ext2"];

/// A personality's files: each thread has its own, as fio 3.33 lets only one of several that share files run. File F of
/// thread T is called `T.F`, both from 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataSet {
    pub(super) threads: u32,
    /// Of each thread.
    pub(super) files: u32,
    /// Bytes of each.
    pub(super) bytes: usize,
}

/// Why no file system can be mounted here, if none can.
pub(super) fn missing() -> Option<String> {
    if !fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0) {
        return Some("mounting needs root".to_owned());
    }
    let absent = |path: &&&str| !Path::new(path).exists();
    if let Some(path) = ["/dev/fuse", "/dev/loop-control"].iter().find(absent) {
        return Some(format!("there is no {path}"));
    }
    let found = |program: &str| {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
    };
    let program = PROGRAMS.into_iter().find(|program| !found(program))?;
    Some(format!("{program} is not installed (packages libnbd-bin, mount, e2fsprogs)"))
}

impl DataSet {
    /// Makes `image` an ext2 file system that holds these files, with room to spare.
    pub(super) fn write(self, image: &Path) -> io::Result<()> {
        let folder = image.with_extension("files");
        fs::create_dir_all(&folder)?;
        for (number, name) in (0..).zip(self.names()) {
            fs::File::create(folder.join(name))?.write_all(&noise(number, self.bytes))?;
        }
        let all = u64::from(self.threads * self.files) * self.bytes as u64;
        let mebibytes = 16 + 5 * all.div_ceil(4 << 20);
        run(Command::new("mkfs.ext2")
            .args(["-q", "-F", "-b", "4096", "-d"])
            .arg(&folder)
            .arg(image)
            .arg(format!("{mebibytes}M")))?;
        fs::remove_dir_all(&folder)
    }

    fn names(self) -> impl Iterator<Item = String> {
        (0..self.threads).flat_map(move |thread| (0..self.files).map(move |file| format!("{thread}.{file}")))
    }
}

/// Bytes without holes, which a file system would not store.
fn noise(seed: u32, bytes: usize) -> Vec<u8> {
    let mut state = u64::from(seed) + 1;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8 | 1
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

/// A mounted file system; unmounted when dropped.
pub(super) struct Mounted {
    fuse: Child,
    shown: PathBuf,
    device: Option<String>,
    mounted: bool,
    path: PathBuf,
}

impl Mounted {
    /// Mounts the file system on `export` below `folder`.
    pub(super) fn new(folder: &Path, socket: &Path, export: &str) -> io::Result<Self> {
        let (shown, path) = (folder.join(format!("{export}.fuse")), folder.join(format!("{export}.mount")));
        fs::create_dir_all(&shown)?;
        fs::create_dir_all(&path)?;
        let file = shown.join("disk");
        let uri = format!("nbd+unix:///{export}?socket={}", socket.display());
        let mut command = Command::new("nbdfuse");
        command.arg("--connections=16").arg(&file).arg(uri).stdin(Stdio::null());
        let mut mount = Self { fuse: command.spawn()?, shown, device: None, mounted: false, path };
        if !wait_until(|| file.exists()) {
            return Err(io::Error::other(format!("nbdfuse shows no {}", file.display())));
        }
        // Without direct I/O the loop device has one request under way at a time, and a cache.
        let attached = run(Command::new("losetup").args(["--find", "--show", "--direct-io=on"]).arg(&file))?;
        let device = attached.trim().to_owned();
        mount.device = Some(device.clone());
        run(Command::new("mount").args(["-t", "ext2", "-o", "noatime", &device]).arg(&mount.path))?;
        mount.mounted = true;
        Ok(mount)
    }

    /// The folder with the files.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.mounted {
            wait_until(|| run(Command::new("umount").arg(&self.path)).is_ok());
        }
        if let Some(device) = &self.device {
            let _ = run(Command::new("losetup").arg("--detach").arg(device));
        }
        // As root, without fusermount; nbdfuse then ends by itself.
        wait_until(|| run(Command::new("umount").arg(&self.shown)).is_ok());
        if !wait_until(|| matches!(self.fuse.try_wait(), Ok(Some(_)))) {
            let _ = self.fuse.kill();
            let _ = self.fuse.wait();
        }
    }
}

/// Tries until it is so, or until [`PATIENCE`] is over.
fn wait_until(mut is_so: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if begin.elapsed() > PATIENCE {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Runs a program that must succeed; what it printed.
fn run(command: &mut Command) -> io::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{name} ended with {}: {}", output.status, said.trim())))
}

#[cfg(test)]
mod tests {
    use evenkeel_gateway::{Server, config};

    use super::*;

    #[test]
    fn noise_has_no_holes_and_differs_from_file_to_file() {
        let (one, two) = (noise(1, 8192), noise(2, 8192));
        assert!(one.len() == 8192 && one.iter().all(|byte| *byte != 0));
        assert_ne!(one, two);
    }

    #[test]
    fn files_of_the_image_are_read_through_the_gateway() {
        if let Some(why) = missing() {
            eprintln!("skipped: {why}");
            return;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data = DataSet { threads: 2, files: 3, bytes: 70_000 };
        data.write(&folder.path().join("mail.img")).expect("an image");
        fs::File::create(folder.path().join("store.img"))
            .and_then(|it| it.set_len(1 << 20))
            .expect("a store");
        let text = "[gateway]\nlisten = [\"unix:nbd.sock\"]\n[store.disk]\npath = \"store.img\"\n\
                    [volume.mail]\npath = \"mail.img\"\n";
        let config = config::parse(text, &folder.path().join("live.toml")).expect("a configuration");
        let server = Server::start(&config).expect("it starts");
        {
            let socket = folder.path().join("nbd.sock");
            let mounted = Mounted::new(folder.path(), &socket, "mail").expect("it mounts");
            for (number, name) in (0..).zip(data.names()) {
                let read = fs::read(mounted.path().join(&name)).expect("a file");
                assert!(read == noise(number, data.bytes), "file {name} differs");
            }
        }
        let served: u64 = server.accounts().iter().map(|it| it.account.served).sum();
        assert!(served > 3, "{served} requests came over NBD");
        assert!(server.shutdown().failures.is_empty());
    }
}
