//! `audit = { folder, key, … }` of a store: where its audit log is written, and how large it may become.

use std::path::{Path, PathBuf};

use evenkeel_audit::Limits;

use super::sections::read_path;
use super::table::{Item, Report};

const FORM: &str = "write audit = { folder = \"audit\", key = \"audit.key\" }";

/// Where a store writes its audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditConfig {
    /// The folder, of this store alone; made if need be.
    pub folder: PathBuf,
    /// The file with the signing key; made if there is none.
    pub key: PathBuf,
    /// How large the log may become.
    pub limits: Limits,
}

impl AuditConfig {
    pub(super) fn read(report: &mut Report, item: &Item<'_>, base: &Path) -> Option<Self> {
        let mut table = item.table(report, FORM)?;
        let folder = table.require(report, "folder", FORM);
        let key = table.require(report, "key", FORM);
        let total = table.take("bytes_max");
        let file = table.take("file_bytes_max");
        table.finish(report);
        let folder = folder.and_then(|item| read_path(report, &item, base));
        let key = key.and_then(|item| read_path(report, &item, base));
        let default = Limits::default();
        let total_bytes = total.as_ref().map_or(Some(default.total_bytes), |item| item.bytes(report));
        let total_bytes = total_bytes.unwrap_or(default.total_bytes);
        if let Some(item) = &total
            && total_bytes < 2 * Limits::FILE_BYTES_MIN
        {
            item.refuse(report, "the log needs room for two files", "write at least \"128 KiB\"");
        }
        let file_bytes = match &file {
            None => default.file_bytes.min(total_bytes / 2),
            Some(item) => {
                let bytes = item.bytes(report).unwrap_or(default.file_bytes);
                if bytes < Limits::FILE_BYTES_MIN {
                    item.refuse(report, "a file of the log is larger", "write at least \"64 KiB\"");
                } else if bytes > total_bytes / 2 {
                    let remedy = "write at most half of bytes_max, or raise bytes_max";
                    item.refuse(report, "the log has no room for two such files", remedy);
                }
                bytes
            }
        };
        Some(Self { folder: folder?, key: key?, limits: Limits { file_bytes, total_bytes } })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, ConfigError, parse};
    use super::*;

    fn read(audit: &str) -> Result<Config, ConfigError> {
        let text = format!("[gateway]\nlisten = [\"unix:s\"]\n[store.pool]\npath = \"p\"\naudit = {audit}\n");
        parse(&text, Path::new("/x/evenkeel.toml"))
    }

    #[test]
    fn paths_start_at_the_file_and_limits_have_defaults() {
        let config = read("{ folder = \"log\", key = \"k\", bytes_max = \"1 MiB\" }").unwrap();
        let audit = config.stores[0].audit.clone().unwrap();
        let limits = Limits { file_bytes: 512 << 10, total_bytes: 1 << 20 };
        assert_eq!(audit, AuditConfig { folder: "/x/log".into(), key: "/x/k".into(), limits });
        let config = read("{ folder = \"log\", key = \"k\" }").unwrap();
        assert_eq!(config.stores[0].audit.clone().unwrap().limits, Limits::default());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (text, key) in [
            ("{ folder = \"log\" }", "key"),
            ("{ key = \"k\" }", "folder"),
            ("{ folder = \"log\", key = \"k\", bytes_max = \"64 KiB\" }", "bytes_max"),
            ("{ folder = \"log\", key = \"k\", file_bytes_max = \"1 KiB\" }", "file_bytes_max"),
            (
                "{ folder = \"log\", key = \"k\", bytes_max = \"1 MiB\", file_bytes_max = \"1 MiB\" }",
                "file_bytes_max",
            ),
            ("{ folder = \"log\", key = \"k\", size = 1 }", "size"),
        ] {
            let error = read(text).expect_err(text);
            assert_eq!(error.problems.len(), 1, "{error:?}");
            assert_eq!(error.problems[0].key, format!("store.pool.audit.{key}"), "{text}");
        }
    }
}
