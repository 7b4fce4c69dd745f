//! Files that are not on this machine's disks: an NBD export as a file, through nbdfuse.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{have, run, skipped, tool, wait_until};

/// One file `disk` in a folder of its own; gone when dropped.
pub(crate) struct Fuse {
    child: Child,
    mountpoint: PathBuf,
}

/// Whether files over NBD can be made here.
pub(crate) fn may_fuse() -> bool {
    if !have(&["nbdfuse", "nbdkit"]) {
        return false;
    }
    // SAFETY: geteuid has no preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    if !root || !Path::new("/dev/fuse").exists() {
        skipped(if root { "no /dev/fuse here" } else { "mounting needs root" });
        return false;
    }
    true
}

impl Fuse {
    /// An export.
    pub(crate) fn of(uri: &str, mountpoint: PathBuf, read_only: bool) -> Self {
        let mut words = vec!["--connections=4"];
        words.extend(read_only.then_some("--readonly"));
        Self::start(mountpoint, &words, &[uri])
    }

    /// What nbdkit serves with these words: filters, a plugin, and their parameters.
    pub(crate) fn over_nbdkit(mountpoint: PathBuf, words: &[&str]) -> Self {
        let command = ["--command", "nbdkit", "--single", "--exit-with-parent"];
        Self::start(mountpoint, &[], &[&command, words].concat())
    }

    fn start(mountpoint: PathBuf, options: &[&str], source: &[&str]) -> Self {
        fs::create_dir_all(&mountpoint).expect("a folder");
        let file = mountpoint.join("disk");
        let mut command = Command::new("nbdfuse");
        command.args(options).arg(&file).args(source).stdin(Stdio::null());
        let fuse = Self { child: command.spawn().expect("nbdfuse starts"), mountpoint };
        assert!(wait_until(Duration::from_secs(10), || file.exists()), "nbdfuse shows no file");
        fuse
    }

    /// The file.
    pub(crate) fn file(&self) -> PathBuf {
        self.mountpoint.join("disk")
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        // As root, without fusermount; nbdfuse then ends by itself. A killed server's ring lets go of its files
        // a moment after the process is gone.
        let unmounted = || run(tool("umount").arg(&self.mountpoint)).status.success();
        wait_until(Duration::from_secs(5), unmounted);
        if !wait_until(Duration::from_secs(5), || matches!(self.child.try_wait(), Ok(Some(_)))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
