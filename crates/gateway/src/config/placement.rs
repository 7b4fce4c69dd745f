//! `placement`: the clusters that the offline policy keeps on the fast device.
//!
//! ```text
//!  evenkeel hybrid choose ──> cluster_bytes = 1048576     ──> policy = "offline", placement = "pool.placement"
//!                             clusters = [3, 17, 18]
//! ```
//! Source of the scheme: Jain 2008, sections 3.3.1 and 4.2.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_strict::{ConfigError, Item, Problem, Report, Table, document};
use evenkeel_tiering::Cluster;

use super::sections::read_path;

/// The largest placement that is read: some seven million clusters.
const PLACEMENT_BYTES_MAX: u64 = 64 << 20;
const REMEDY: &str = "write it anew with `evenkeel hybrid choose`";

/// What the offline policy keeps on the fast device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Its file.
    pub path: PathBuf,
    /// Bytes of a cluster, as the store's map must have them.
    pub cluster_bytes: u32,
    /// The clusters, rising.
    pub clusters: Arc<[Cluster]>,
}

impl Placement {
    /// As it is written in its file.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = format!(
            "# The clusters that policy = \"offline\" keeps on the fast device: `evenkeel hybrid choose`\n\
             cluster_bytes = {}\nclusters = [",
            self.cluster_bytes
        );
        for (place, cluster) in self.clusters.iter().enumerate() {
            let gap = if place % 16 == 0 { "\n    " } else { " " };
            let _ = write!(text, "{gap}{cluster},");
        }
        text + "\n]\n"
    }

    /// Reads `text` as the content of the file at `path`, which need not exist.
    ///
    /// # Errors
    /// Every problem of the text, each with its place and remedy.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        parsed(text, path).map_err(|problems| ConfigError::new(path.to_owned(), text.to_owned(), problems))
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// If it cannot be read, is larger than 64 MiB, or has problems.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = evenkeel_strict::file::read_up_to(path, PLACEMENT_BYTES_MAX, REMEDY)?;
        Self::parse(&text, path)
    }
}

fn parsed(text: &str, path: &Path) -> Result<Placement, Vec<Problem>> {
    let root = document(text)?;
    let mut report = Report::default();
    let mut root = Table::new(String::new(), 0..0, root.get_ref());
    let bytes = root.require(&mut report, "cluster_bytes", REMEDY);
    let bytes = bytes.and_then(|item| item.whole(&mut report, 512..=u32::MAX));
    let items = root.require(&mut report, "clusters", REMEDY);
    let items = items.and_then(|item| item.list(&mut report, REMEDY)).unwrap_or_default();
    root.finish(&mut report);
    let mut clusters: Vec<Cluster> = Vec::with_capacity(items.len());
    for item in &items {
        let Some(cluster) = item.whole(&mut report, 0..=u32::MAX).map(Cluster::from) else { continue };
        if clusters.last().is_some_and(|last| *last >= cluster) {
            item.refuse(&mut report, "clusters stand in rising order, each once", REMEDY);
        }
        clusters.push(cluster);
    }
    match bytes {
        Some(cluster_bytes) if report.problems.is_empty() => {
            Ok(Placement { path: path.to_owned(), cluster_bytes, clusters: clusters.into() })
        }
        _ => Err(report.problems),
    }
}

/// The placement that `item` names; its problems are told at the item, with their place in the other file.
pub(super) fn read_placement(report: &mut Report, item: &Item<'_>, folder: &Path) -> Option<Placement> {
    let path = read_path(report, item, folder)?;
    match Placement::load(&path) {
        Ok(placement) => Some(placement),
        Err(error) => {
            item.refuse_other(report, &error);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(clusters: &[Cluster]) -> Placement {
        Placement { path: "p".into(), cluster_bytes: 1 << 20, clusters: clusters.into() }
    }

    #[test]
    fn what_is_written_is_read() {
        let many: Vec<Cluster> = (0..100).map(|n| n * n).collect();
        for clusters in [&[][..], &[7], &many] {
            let written = placement(clusters);
            assert_eq!(Placement::parse(&written.to_toml(), Path::new("p")).expect("sound"), written);
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let cases = [
            ("clusters = []", "cluster_bytes: the key is missing"),
            ("cluster_bytes = 65536", "clusters: the key is missing"),
            ("cluster_bytes = 65536\nclusters = [1, 1]", "p:2:16: clusters: clusters stand in rising order"),
            ("cluster_bytes = 65536\nclusters = [1, -1]", "p:2:16: clusters: "),
            ("cluster_bytes = 65536\nclusters = []\nslots = 3", "p:3:1: slots: "),
            ("cluster_bytes = 65536\nclusters = [", "p:2:"),
        ];
        for (text, expected) in cases {
            let said = Placement::parse(text, Path::new("p")).expect_err("refused").to_string();
            assert!(said.contains(expected), "{text:?}: {said}");
        }
    }
}
