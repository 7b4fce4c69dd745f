//! A file system on the export: nbdfuse, a loop device, ext4.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::fuse::Fuse;
use crate::common::{
    MIB, Server, have, may_mount, noise, run, skipped, store, succeed, tool, volume, wait_until,
};

/// A loop device.
pub(crate) struct Loop {
    /// `/dev/loopN`.
    pub(crate) device: String,
}

/// A mounted file system.
pub(crate) struct Mount {
    /// Where.
    pub(crate) path: PathBuf,
}

impl Loop {
    /// Attaches the file.
    pub(crate) fn new(file: &Path, options: &[&str]) -> Self {
        let text = succeed(tool("losetup").args(["--find", "--show"]).args(options).arg(file));
        Self { device: text.trim().to_owned() }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = run(tool("losetup").arg("--detach").arg(&self.device));
    }
}

impl Mount {
    /// Mounts the device.
    pub(crate) fn new(device: &str, path: PathBuf, options: &str) -> Self {
        fs::create_dir_all(&path).expect("a folder");
        succeed(tool("mount").args(["-o", options, device]).arg(&path));
        Self { path }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // A killed server's ring lets go of its files a moment after the process is gone.
        wait_until(Duration::from_secs(5), || run(tool("umount").arg(&self.path)).status.success());
    }
}

/// Folders three deep, files from nothing to a mebibyte, a link.
fn plant(root: &Path) {
    for number in 0..240_u64 {
        let folder = root.join(format!("{}/{}", number % 8, number % 5));
        fs::create_dir_all(&folder).expect("a folder");
        let length = usize::try_from((number * number * 977) % 60_000).expect("small");
        fs::write(folder.join(format!("file {number}")), noise(number, length)).expect("a file");
    }
    fs::write(root.join("large"), noise(999, 1 << 20)).expect("a file");
    std::os::unix::fs::symlink("large", root.join("link")).expect("a link");
}

#[test]
fn a_file_system_on_the_export_survives() {
    if !have(&["nbdfuse", "losetup", "mkfs.ext4", "e2fsck", "tar", "diff"]) || !may_mount() {
        return;
    }
    if !Path::new("/dev/fuse").exists() {
        return skipped("no /dev/fuse here");
    }
    let server =
        Server::start(96 * MIB, &(store().to_owned() + &volume("other", 0, 32) + &volume("db", 32, 64)));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (tree, archive) = (folder.path().join("tree"), folder.path().join("tree.tar"));
    fs::create_dir(&tree).expect("a folder");
    plant(&tree);
    succeed(tool("tar").arg("-C").arg(&tree).arg("-cf").arg(&archive).arg("."));
    {
        let fuse = Fuse::of(&server.uri("db"), folder.path().join("fuse"), false);
        let disk = Loop::new(&fuse.file(), &[]);
        succeed(tool("mkfs.ext4").args(["-q", "-F", &disk.device]));
        {
            let mount = Mount::new(&disk.device, folder.path().join("mount"), "rw");
            succeed(tool("tar").arg("-C").arg(&mount.path).arg("-xf").arg(&archive));
            succeed(tool("sync").arg("-f").arg(&mount.path));
        }
        succeed(tool("e2fsck").args(["-fn", &disk.device]));
    }
    // Another client, later, sees the same.
    let fuse = Fuse::of(&server.uri("db"), folder.path().join("fuse"), true);
    let disk = Loop::new(&fuse.file(), &["--read-only"]);
    let mount = Mount::new(&disk.device, folder.path().join("mount"), "ro,noload");
    succeed(
        tool("diff").args(["-r", "--no-dereference", "--exclude=lost+found"]).arg(&tree).arg(&mount.path),
    );
    drop(mount);
    drop(disk);
    drop(fuse);
    server.stop();
}
