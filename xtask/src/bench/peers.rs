//! What other programs reached in the isolation scenario, measured earlier.
//!
//! Source: measured earlier by this project on machines of two cores: medians of 3 runs of the same
//! three clients (one paced at 50 IOPS, one sending 32 requests at once about every second, one keeping
//! 64 outstanding) on a device of about 450 to 475 IOPS. Another run than the one they are printed
//! beside: compare the shape, not the last digit. Ceph ran on a device of its own of about 5 000 IOPS.

/// One peer's row, as text: some cells hold ranges or what was seen alone as well.
pub(crate) struct Peer {
    /// The program and its setting.
    pub(crate) name: &'static str,
    /// The paced victim's IOPS beside the aggressor; it asks for 50.
    pub(crate) paced_iops: &'static str,
    /// The paced victim's 99th percentile beside the aggressor, ms.
    pub(crate) paced_p99_ms: &'static str,
    /// The bursting victim's 99th percentile beside the aggressor, ms.
    pub(crate) burst_p99_ms: &'static str,
    /// How much of the device was used.
    pub(crate) device: &'static str,
}

const fn peer(
    name: &'static str,
    paced_iops: &'static str,
    paced_p99_ms: &'static str,
    burst_p99_ms: &'static str,
    device: &'static str,
) -> Peer {
    Peer { name, paced_iops, paced_p99_ms, burst_p99_ms, device }
}

/// How the figures were come by, for print.
pub(crate) const SOURCE: &str =
    "peers: measured earlier, medians of 3, another run; alone, victims see p99 of about 2.4 ms and 70 ms";

/// The peers.
pub(crate) const PEERS: &[Peer] = &[
    peer("qemu storage daemon, no limits", "7", "342", "558", "all"),
    peer("nbdkit, no limits", "7", "142", "346", "all"),
    peer("qemu: aggressor capped at 240", "50", "6", "132", "38 % idle"),
    peer("qemu: cap 240 with burst allowance", "44-50", "292", "667", "all"),
    peer("qemu: shared throttle group", "50", "92", "717", "all"),
    peer("qemu: victim 60, aggressor 400", "50", "13", "522", "all"),
    peer("qemu: victim 60 (burst 500), aggr. 400", "50", "36", "275", "all"),
    peer("nbdkit rate filter, per server", "4", "359", "768", "40 % idle"),
    peer("nbdkit rate filter, per connection", "50", "137", "333", "30 % idle"),
    peer("Linux none, mq-deadline, kyber on loop", "33", "67-77", "179-190", "all"),
    peer("Linux BFQ, equal weights", "35", "175", "359", "25 % idle"),
    peer("Linux BFQ, weights 10:1", "41", "140", "392", "25 % idle"),
    peer("Linux BFQ, weights 10:1, strict", "50", "121", "169", "all"),
    peer("Linux blk-throttle, aggressor at 240", "50", "41-52", "121-140", "38 % idle"),
    peer("Linux io.cost, latency target, 1000:100", "50", "44", "83", "10-12 % idle"),
    peer("Linux io.cost, fixed rate, 1000:100", "31", "142", "188", "all"),
    peer("Ceph 16.2, three OSDs, wpq", "48", "99", "-", "all"),
    peer("Ceph 16.2, three OSDs, mclock", "35", "257", "-", "all"),
];
