//! Syncs that fail: who is told, and how often.

mod common;

use common::{FLUSH, Gateway, WRITE_ZEROES, pattern};

const EIO: u32 = 5;
const FUA: u16 = 1;

/// Two volumes in one file.
fn gateway() -> Gateway {
    Gateway::start(
        2 << 20,
        "[store.s]\npath = \"store.img\"\n\
         [volume.a]\noffset = \"0 B\"\nsize = \"1 MiB\"\n\
         [volume.b]\noffset = \"1 MiB\"\nsize = \"1 MiB\"\n",
    )
}

#[test]
fn a_failed_sync_is_told_to_each_volume_of_the_file_once() {
    let gateway = gateway();
    let (mut a, mut b) = (gateway.connect("a"), gateway.connect("b"));
    let mut again = gateway.connect("b");
    b.write(0, 0, &pattern(1, 4096));
    assert_eq!((a.command(FLUSH, 0, 0, 0), b.command(FLUSH, 0, 0, 0)), (0, 0));
    assert!(gateway.server().fail_syncs("s", 1));
    assert_eq!(a.command(FLUSH, 0, 0, 0), EIO);
    assert_eq!(a.command(FLUSH, 0, 0, 0), 0, "told once");
    assert_eq!(b.command(FLUSH, 0, 0, 0), EIO, "it may have been this one's data");
    assert_eq!(
        (b.command(FLUSH, 0, 0, 0), again.command(FLUSH, 0, 0, 0)),
        (0, 0),
        "by volume, not by connection"
    );
    drop((a, b, again));
    gateway.end();
}

#[test]
fn several_faults_are_one_to_who_has_not_asked() {
    let gateway = gateway();
    let (mut a, mut b) = (gateway.connect("a"), gateway.connect("b"));
    gateway.server().fail_syncs("s", 3);
    for _ in 0..3 {
        assert_eq!(a.command(FLUSH, 0, 0, 0), EIO);
    }
    assert_eq!(
        (a.command(FLUSH, 0, 0, 0), b.command(FLUSH, 0, 0, 0), b.command(FLUSH, 0, 0, 0)),
        (0, EIO, 0)
    );
    // A durable zeroing meets the fault: its own error, and then a FLUSH of both.
    gateway.server().fail_syncs("s", 1);
    assert_eq!(b.command(WRITE_ZEROES, FUA, 0, 4096), EIO);
    assert_eq!((a.command(FLUSH, 0, 0, 0), b.command(FLUSH, 0, 0, 0)), (EIO, EIO));
    assert_eq!((a.command(FLUSH, 0, 0, 0), b.command(FLUSH, 0, 0, 0)), (0, 0));
    b.write(FUA, 0, &pattern(2, 4096));
    assert!(!gateway.server().fail_syncs("nowhere", 1));
    drop((a, b));
    gateway.end();
}
