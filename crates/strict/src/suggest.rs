//! What a user may have meant by a key that is not known.

use crate::values::Fault;

/// Says that `name` is unknown and points to what was probably meant, given the `known` keys of
/// the same table.
pub fn about_unknown_key(name: &str, known: &[&'static str]) -> Fault {
    let message = "unknown key";
    if let Some(remedy) = about_foreign_name(name, known) {
        return Fault::new(message, remedy);
    }
    if let Some(close) = closest(name, known) {
        return Fault::new(message, format!("did you mean `{close}`?"));
    }
    if known.is_empty() {
        return Fault::new(message, "remove it");
    }
    Fault::new(message, format!("remove it; known here: {}", known.join(", ")))
}

/// The word of `known` that is nearest to `word`, if it is near enough to be what was meant.
pub fn closest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let folded: Vec<char> = fold(word).chars().collect();
    // A long key does not become a match by brute length, nor does it deserve a slow comparison.
    if folded.len() > 40 {
        return None;
    }
    let tolerated = (folded.len() / 3).clamp(1, 3);
    known
        .iter()
        .map(|candidate| (distance(&folded, &fold(candidate).chars().collect::<Vec<_>>()), *candidate))
        .filter(|(distance, _)| *distance <= tolerated)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Names that other systems use, and the key here that comes nearest, in tables that have it.
const SYNONYMS: &[(&str, &str)] = &[
    ("address", "listen"),
    ("bind", "listen"),
    ("port", "listen"),
    ("socket", "listen"),
    ("max_connections", "connections_max"),
    ("timeout", "handshake_timeout"),
    ("file", "path"),
    ("filename", "path"),
    ("device", "path"),
    ("backing", "path"),
    ("queue_depth", "depth"),
    ("iodepth", "depth"),
    ("qd", "depth"),
    ("o_direct", "direct"),
    ("direct_io", "direct"),
    ("algorithm", "scheduler"),
    ("policy", "scheduler"),
    ("core", "cpu"),
    ("length", "size"),
    ("len", "size"),
    ("start", "offset"),
    ("ro", "read_only"),
    ("priority", "weight"),
    ("share", "weight"),
    ("shares", "weight"),
    ("pool", "store"),
    ("backend", "store"),
    ("qos", "sla"),
    ("slo", "sla"),
    ("limits", "sla"),
    ("guarantee", "sla"),
    ("comment", "description"),
    ("sigma", "burst"),
    ("rho", "rate"),
    ("delta", "latency"),
    ("deadline", "latency"),
    ("max_latency", "latency"),
    ("latency_target", "latency"),
    ("p99", "latency"),
    ("export", "volume"),
    ("exports", "volume"),
    ("disk", "volume"),
    ("pools", "store"),
    ("server", "gateway"),
    ("nbd", "gateway"),
];

/// Names of rates in other systems. Most of them are ceilings there, so taking one for a promise
/// would turn its meaning round; hence no alias, but an explanation.
const RATE_NAMES: &[&str] = &[
    "iops",
    "total_iops_sec",
    "iops_total",
    "iops_limit",
    "limit_iops",
    "min_iops",
    "iops_min",
    "reservation",
];

/// Names of ceilings and of burst rates in other systems.
const CEILING_NAMES: &[&str] = &[
    "max_iops",
    "iops_max",
    "limit",
    "burst_iops",
    "iops_burst",
    "total_iops_sec_max",
    "total_iops_sec_max_length",
    "iops_total_max",
    "iops_total_max_length",
    "burst_length",
];

/// Names of limits on bytes or on one direction only.
const UNKNOWN_KINDS: &[&str] = &[
    "bps",
    "total_bytes_sec",
    "read_bytes_sec",
    "write_bytes_sec",
    "read_iops_sec",
    "write_iops_sec",
    "iops_per_gb",
    "bandwidth",
    "throughput",
];

fn about_foreign_name(name: &str, known: &[&'static str]) -> Option<String> {
    let folded = fold(name);
    let is_one_of = |names: &[&str]| names.contains(&folded.as_str());
    let has = |key: &str| known.contains(&key);
    let (in_sla, in_volume) = (has("burst") && has("latency"), has("sla"));
    if in_volume && ["burst", "rate", "latency"].contains(&folded.as_str()) {
        return Some(format!(
            "`{folded}` is part of the promise: sla = {{ burst = .., rate = .., latency = .. }}"
        ));
    }
    if in_sla || in_volume {
        let place = if in_sla { "" } else { "sla." };
        if is_one_of(RATE_NAMES) {
            return Some(format!(
                "elsewhere this is often a limit; a promised rate is `{place}rate`, as \"200 IOPS\""
            ));
        }
        if is_one_of(CEILING_NAMES) {
            return Some(format!(
                "there is no ceiling to set, spare capacity is always used; how many requests may come at once \
                 is `{place}burst`"
            ));
        }
        if is_one_of(UNKNOWN_KINDS) {
            return Some(format!(
                "a promise counts requests of both directions alike; write it as `{place}rate`, in IOPS"
            ));
        }
    }
    let (_, meant) = SYNONYMS.iter().find(|(foreign, meant)| *foreign == folded && has(meant))?;
    Some(format!("did you mean `{meant}`?"))
}

/// Lower case, with the separators of other systems as underscores.
fn fold(name: &str) -> String {
    name.to_lowercase().replace(['-', '.', ' '], "_")
}

/// How many letters to insert, drop, replace or swap with a neighbour to get from `a` to `b`.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLA: &[&str] = &["burst", "rate", "latency"];
    const VOLUME: &[&str] = &[
        "store",
        "path",
        "offset",
        "size",
        "sla",
        "weight",
        "reservation",
        "limit",
        "read_only",
        "in_flight_max",
        "description",
    ];

    #[test]
    fn misspellings_are_recognised() {
        let meant = |name, known| about_unknown_key(name, known).remedy;
        assert_eq!(meant("latancy", SLA), "did you mean `latency`?");
        assert_eq!(meant("brust", SLA), "did you mean `burst`?");
        assert_eq!(meant("read-only", VOLUME), "did you mean `read_only`?");
        assert_eq!(meant("Size", VOLUME), "did you mean `size`?");
        assert_eq!(meant("colour", SLA), "remove it; known here: burst, rate, latency");
    }

    #[test]
    fn names_of_other_systems_are_explained() {
        let meant = |name, known| about_unknown_key(name, known).remedy;
        assert_eq!(
            meant("total_iops_sec", SLA),
            "elsewhere this is often a limit; a promised rate is `rate`, as \"200 IOPS\""
        );
        assert!(meant("total-iops-sec", VOLUME).contains("`sla.rate`"));
        assert!(meant("burst_iops", SLA).contains("`burst`"));
        assert!(meant("rate", VOLUME).contains("sla = {"));
        assert!(meant("iops_per_gb", SLA).contains("counts requests"));
        assert_eq!(meant("qos", VOLUME), "did you mean `sla`?");
    }

    #[test]
    fn distances() {
        let of = |a: &str, b: &str| distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        assert_eq!((of("", ""), of("abc", ""), of("", "ab")), (0, 3, 2));
        assert_eq!((of("rate", "rtae"), of("rate", "rat"), of("rate", "gate")), (1, 1, 1));
        assert_eq!(of("burst", "latency"), 7);
    }
}
