//! A server under measurement: started, awaited, its processor time read, stopped.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Outcome, workspace};

/// A running server; ended when dropped.
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts `words` in `folder`, pinned to `core`, and waits until its Unix socket accepts.
    pub(crate) fn start(
        words: &[String],
        folder: &Path,
        socket: &Path,
        core: Option<usize>,
    ) -> Outcome<Self> {
        let program = &words[0];
        if !Path::new(program).is_absolute() && workspace::find_program(program).is_none() {
            return Err(format!("{program} is not installed"));
        }
        let _ = fs::remove_file(socket);
        let log = folder.join("server.log");
        let output = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let errors = output.try_clone().map_err(|error| format!("{}: {error}", log.display()))?;
        let pin: Vec<String> =
            core.map_or_else(Vec::new, |core| vec!["taskset".into(), "-c".into(), core.to_string()]);
        // taskset becomes the server (exec), so the child's id is the server's.
        let all: Vec<&String> = pin.iter().chain(words).collect();
        let child = Command::new(all[0])
            .args(&all[1..])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|error| format!("{program} did not start: {error}"))?;
        let mut server = Self { child, log };
        server.wait_for(socket).map_err(|problem| format!("{}: {problem}", words.join(" ")))?;
        Ok(server)
    }

    fn wait_for(&mut self, socket: &Path) -> Outcome<()> {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(10) {
            if UnixStream::connect(socket).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("ended with {status}: {}", self.log()));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Err(format!("its socket did not accept within 10 s: {}", self.log()))
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default().trim().to_owned()
    }

    /// Processor time of the server and its descendants so far, user and system, in seconds.
    pub(crate) fn cpu_s(&self) -> f64 {
        let table = processes();
        let mut tree = vec![self.child.id()];
        let mut ticks = 0;
        while let Some(id) = tree.pop() {
            ticks += table.get(&id).map_or(0, |process| process.ticks);
            tree.extend(table.iter().filter(|(_, process)| process.parent == id).map(|(id, _)| *id));
        }
        f64::from(u32::try_from(ticks).unwrap_or(u32::MAX)) / ticks_per_s()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // In order, so that the next server finds the file free; by force if that takes too long.
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(10) {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Process {
    parent: u32,
    /// User and system time, ended threads included.
    ticks: u64,
}

fn processes() -> HashMap<u32, Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return HashMap::new() };
    let row = |entry: fs::DirEntry| {
        let id: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((id, process(&fs::read_to_string(entry.path().join("stat")).ok()?)?))
    };
    entries.filter_map(|entry| row(entry.ok()?)).collect()
}

/// Reads `/proc/ID/stat`. The name, in parentheses, may hold spaces: fields are counted after it.
fn process(stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Process { parent: u32::try_from(number(1)?).ok()?, ticks: number(11)? + number(12)? })
}

fn ticks_per_s() -> f64 {
    let output = Command::new("getconf").arg("CLK_TCK").output().ok();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.and_then(|text| text.parse().ok()).unwrap_or(100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_past_a_name_with_spaces() {
        let stat = "42 (a (b) c) S 7 42 42 0 -1 4194560 1 2 3 4 150 50 5 6 20 0 1 0 1 1 1";
        let process = process(stat).unwrap();
        assert_eq!((process.parent, process.ticks), (7, 200));
    }
}
