//! The programs that the end-to-end tests and fuzzing need, and how to get them.

use std::env;
use std::process::Command;

use crate::{Outcome, workspace};

/// A program that tests need.
struct Need {
    /// What to look for in PATH; `python: nbd` stands for libnbd's Python module.
    program: &'static str,
    /// The Debian or Ubuntu package that holds it.
    package: &'static str,
    /// What cannot run without it.
    tests: &'static str,
}

const PYTHON_NBD: &str = "python: nbd";

const NEEDS: &[Need] = &[
    Need { program: "nbdinfo", package: "libnbd-bin", tests: "listing of exports" },
    Need { program: "nbdcopy", package: "libnbd-bin", tests: "nbdcopy round trip" },
    Need { program: "nbdfuse", package: "libnbd-bin", tests: "file system over the export" },
    Need { program: "nbdkit", package: "nbdkit", tests: "devices that are slow or fail" },
    Need { program: PYTHON_NBD, package: "python3-libnbd", tests: "hostile requests from libnbd" },
    Need { program: "qemu-img", package: "qemu-utils", tests: "qemu-img convert and compare" },
    Need { program: "qemu-io", package: "qemu-utils", tests: "qemu-io patterns, zero, discard, flush" },
    Need { program: "fio", package: "fio", tests: "fio with verification" },
    Need { program: "mkfs.ext4", package: "e2fsprogs", tests: "file system over the export; power cut" },
    Need { program: "e2fsck", package: "e2fsprogs", tests: "file system over the export" },
    Need { program: "blkparse", package: "blktrace", tests: "binary events of blktrace against blkparse" },
    Need { program: "c++", package: "g++", tests: "fuzzing (libFuzzer is built from source)" },
    Need { program: "losetup", package: "mount", tests: "file system over the export; power cut" },
];

/// Installs what is missing, where it may; says what will be skipped, where it may not.
///
/// # Errors
/// If CI=true and a program is still missing.
pub(crate) fn ensure(may_install: bool) -> Outcome<()> {
    let mut missing = missing();
    if missing.is_empty() {
        println!("programs for the end-to-end tests and fuzzing: all present");
        return Ok(());
    }
    if let Some(reason) = why_not(may_install) {
        println!("not installing packages: {reason}");
    } else {
        install(&packages(&missing));
        missing = self::missing();
    }
    if missing.is_empty() {
        return Ok(());
    }
    for need in &missing {
        println!("{} not found (package {}): skipped: {}", need.program, need.package, need.tests);
    }
    let command = format!("apt-get install {}", packages(&missing).join(" "));
    if env::var("CI").is_ok_and(|ci| ci == "true") {
        return Err(format!("CI=true and programs are missing; `{command}` provides them"));
    }
    println!("`{command}` as root provides them (Debian 12, Ubuntu 24.04 or later)");
    Ok(())
}

fn missing() -> Vec<&'static Need> {
    let absent = |need: &&Need| match need.program {
        PYTHON_NBD => workspace::python_with_nbd().is_none(),
        program => workspace::find_program(program).is_none(),
    };
    NEEDS.iter().filter(absent).collect()
}

fn packages(needs: &[&'static Need]) -> Vec<&'static str> {
    let mut packages: Vec<_> = needs.iter().map(|need| need.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn why_not(may_install: bool) -> Option<&'static str> {
    if !may_install {
        Some("--no-install")
    } else if !workspace::is_root() {
        Some("not root")
    } else if workspace::find_program("apt-get").is_none() {
        Some("this system has no apt-get")
    } else {
        None
    }
}

/// Tries with the package lists at hand, then once more with fresh ones.
fn install(packages: &[&str]) {
    println!("installing {}", packages.join(" "));
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(packages);
    if apt_get(&arguments) {
        return;
    }
    if !(apt_get(&["update"]) && apt_get(&arguments)) {
        println!("apt-get did not succeed");
    }
}

fn apt_get(arguments: &[&str]) -> bool {
    Command::new("apt-get")
        .args(["--quiet", "--option", "Dpkg::Use-Pty=0"])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .status()
        .is_ok_and(|status| status.success())
}
