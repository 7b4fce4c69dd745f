//! Hostile and broken clients. After each the server still serves others, has not panicked (checked
//! when it is dropped), and has not grown.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::client::{
    Client, DISC, EINVAL, FLUSH, FUA, READ, REP_ERR_UNSUP, Request, TRIM, WRITE, WRITE_ZEROES, option_header,
};
use crate::common::{MIB, Server, python_with_nbd, store, succeed, tool, volume, wait_until};

/// Resident memory that no misbehaviour may push the server above, in KiB.
const MEMORY_KIB_MAX: u64 = 384 * 1024;

fn server() -> Server {
    server_with("")
}

fn server_with(gateway: &str) -> Server {
    Server::start_with(
        gateway,
        128 * MIB,
        &(store().to_owned() + &volume("db", 0, 96) + &volume("log", 96, 32)),
    )
}

/// Another client writes and reads; the server's memory is within its bound.
#[track_caller]
fn still_serves(server: &Server) {
    let mut client = Client::open(&server.socket(), "log").expect("another client is served");
    assert_eq!(client.write(FUA, 8192, &[0x77; 4096]).expect("a reply"), 0);
    assert_eq!(client.read(8192, 4096).expect("a reply"), Ok(vec![0x77; 4096]));
    assert!(server.memory_kib() < MEMORY_KIB_MAX, "the server has grown to {} KiB", server.memory_kib());
}

const LIBNBD: &str = r#"
import nbd, sys
h = nbd.NBD()
h.set_strict_mode(0)
h.connect_uri(sys.argv[1])
size = h.get_size()
refused = ("EINVAL", "ENOSPC", "EOVERFLOW", "ENOTSUP", "ERANGE", "ENOMEM")

def bad(what, call):
    try:
        call()
    except nbd.Error as error:
        assert error.errno in refused, "%s: %s (%s)" % (what, error.string, error.errno)
        assert not h.aio_is_dead(), "%s: the connection is dead" % what
    else:
        raise SystemExit(what + " was accepted")

def any(what, call):
    try:
        call()
    except nbd.Error as error:
        assert not h.aio_is_dead(), "%s: %s" % (what, error.string)

bad("read behind the end", lambda: h.pread(4096, size))
bad("read across the end", lambda: h.pread(8192, size - 4096))
bad("read where offset + length wraps", lambda: h.pread(4096, 2**64 - 2048))
bad("read at 2^63", lambda: h.pread(4096, 2**63))
bad("write behind the end", lambda: h.pwrite(b"x" * 4096, size))
bad("write across the end", lambda: h.pwrite(b"x" * 8192, size - 4096))
bad("trim across the end", lambda: h.trim(2**31, 0))
bad("zero behind the end", lambda: h.zero(4096, size))
bad("unknown flag on a read", lambda: h.pread(4096, 0, 0x80))
bad("unknown flag on a write", lambda: h.pwrite(b"x" * 4096, 0, 0x40))
bad("block status without a context", lambda: h.block_status(4096, 0, lambda *a: 0))
any("zero length read", lambda: h.pread(0, 0))
any("zero length write", lambda: h.pwrite(b"", 0))
any("zero length trim", lambda: h.trim(0, 0))
any("unaligned read", lambda: h.pread(13, 7))
any("unaligned write", lambda: h.pwrite(b"x" * 13, 7))
any("read of 64 MiB", lambda: h.pread(64 << 20, 0))
any("cache", lambda: h.cache(4096, 0))
h.pwrite(b"y" * 4096, 0)
assert h.pread(4096, 0) == b"y" * 4096
h.shutdown()
print("survived")
"#;

#[test]
fn libnbd_without_its_strict_mode() {
    let Some(python) = python_with_nbd() else { return };
    let server = server();
    let text = succeed(tool(python).args(["-c", LIBNBD]).arg(server.uri("db")));
    assert!(text.contains("survived"), "{text}");
    still_serves(&server);
    server.stop();
}

#[test]
fn unknown_commands_and_flags_are_refused_and_the_connection_goes_on() {
    let server = server();
    let mut client = Client::open(&server.socket(), "db").expect("open");
    for kind in [5, 7, 8, 77, 0xffff] {
        let error = client.call(Request::new(kind, 0, 4096), &[]).expect("a reply");
        assert_ne!(error, 0, "command {kind} was accepted");
    }
    for kind in [READ, FLUSH, TRIM, WRITE_ZEROES] {
        let request = Request { flags: 0x8000, ..Request::new(kind, 0, 4096) };
        assert_eq!(
            client.call(request, &[]).expect("a reply"),
            EINVAL,
            "command {kind} with an unknown flag"
        );
    }
    // A refused write's payload must not be taken for requests.
    let write = Request { flags: 0x8000, ..Request::new(WRITE, 0, 4096) };
    assert_eq!(client.call(write, &[0x25; 4096]).expect("a reply"), EINVAL);
    let past = Request::new(WRITE, client.size, 4096);
    assert_ne!(client.call(past, &[0x25; 4096]).expect("a reply"), 0);
    assert_eq!(client.read(0, 4096).expect("a reply"), Ok(vec![0; 4096]));
    still_serves(&server);
    server.stop();
}

#[test]
fn a_bad_magic_of_a_request_ends_the_connection() {
    let server = server();
    let mut client = Client::open(&server.socket(), "db").expect("open");
    client.stream.write_all(&[0x99; 28]).expect("sent");
    assert!(client.is_closed_by_server());
    still_serves(&server);
    server.stop();
}

#[test]
fn a_huge_write_is_refused_or_ends_the_connection() {
    let server = server();
    let mut client = Client::open(&server.socket(), "db").expect("open");
    client.send(Request::new(WRITE, 0, u32::MAX), &[]).expect("sent");
    // The payload that was announced: either it is skipped, or the connection is closed.
    let junk = vec![0x25; 1 << 20];
    for _ in 0..256 {
        if client.stream.write_all(&junk).is_err() {
            break;
        }
    }
    still_serves(&server);
    drop(client);
    let mut client = Client::open(&server.socket(), "db").expect("open");
    let error = client.call(Request::new(READ, 0, u32::MAX), &[]);
    assert!(error.is_err() || error.is_ok_and(|error| error != 0), "a read of 4 GiB was accepted");
    still_serves(&server);
    server.stop();
}

#[test]
fn garbage_instead_of_a_handshake_ends_the_connection() {
    let server = server();
    let mut junk = Client::greet(&server.socket()).expect("the greeting");
    let _ = junk.stream.write_all(&[0xa5; 65536]);
    assert!(junk.is_closed_by_server());
    let mut http = Client::greet(&server.socket()).expect("the greeting");
    let _ = http.stream.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n");
    assert!(http.is_closed_by_server());
    let mut flags = Client::greet(&server.socket()).expect("the greeting");
    let _ = flags.send_client_flags(u32::MAX);
    assert!(flags.is_closed_by_server());
    still_serves(&server);
    server.stop();
}

#[test]
fn garbage_inside_the_handshake_ends_the_connection() {
    let server = server();
    let mut client = Client::greet(&server.socket()).expect("the greeting");
    client.send_client_flags(3).expect("sent");
    let _ = client.stream.write_all(&[0x5a; 4096]);
    assert!(client.is_closed_by_server());
    still_serves(&server);
    server.stop();
}

#[test]
fn unknown_options_are_answered_and_negotiation_goes_on() {
    let server = server();
    let mut client = Client::greet(&server.socket()).expect("the greeting");
    client.send_client_flags(3).expect("sent");
    for option in [99, 0x7fff_ffff, 0xffff_fff0] {
        client.send_option(option, b"some data").expect("sent");
        let (reply, _) = client.option_reply().expect("a reply");
        assert_eq!(reply, REP_ERR_UNSUP, "option {option}");
    }
    client.go("nothing").expect_err("an export that does not exist");
    client.go("db").expect("negotiation goes on");
    assert_eq!(client.size, 96 * MIB);
    assert_eq!(client.read(0, 4096).expect("a reply"), Ok(vec![0; 4096]));
    server.stop();
}

#[test]
fn malformed_names_in_options_do_no_harm() {
    let server = server();
    // GO whose inner length of the name lies; an empty GO; a name of 4096 bytes; bytes that are not UTF-8.
    let lying = [u32::MAX.to_be_bytes().as_slice(), b"db", &[0, 0]].concat();
    let long = [4096_u32.to_be_bytes().as_slice(), &[b'x'; 4096], &[0, 0]].concat();
    let binary = [4_u32.to_be_bytes().as_slice(), &[0xff, 0xfe, 0, 0x80], &[0, 0]].concat();
    for data in [lying, Vec::new(), long, binary] {
        let mut client = Client::greet(&server.socket()).expect("the greeting");
        client.send_client_flags(3).expect("sent");
        client.send_option(7, &data).expect("sent");
        if let Ok((reply, _)) = client.option_reply() {
            assert!(reply & 0x8000_0000 != 0, "a malformed GO was answered {reply:#x}");
        }
        still_serves(&server);
    }
    server.stop();
}

#[test]
fn a_flood_of_options_is_bounded() {
    let server = server();
    let mut client = Client::greet(&server.socket()).expect("the greeting");
    client.stream.set_write_timeout(Some(Duration::from_secs(1))).expect("a timeout");
    client.send_client_flags(3).expect("sent");
    // Replies are never read: sooner or later the server must stop reading, or close.
    let chunk: Vec<u8> = (0..256).flat_map(|_| option_header(99, 0)).collect();
    let start = Instant::now();
    while client.stream.write_all(&chunk).is_ok() && start.elapsed() < Duration::from_secs(5) {}
    still_serves(&server);
    server.stop();
}

#[test]
fn an_option_that_announces_gigabytes_is_bounded() {
    let server = server();
    let mut client = Client::greet(&server.socket()).expect("the greeting");
    client.stream.set_write_timeout(Some(Duration::from_secs(2))).expect("a timeout");
    client.send_client_flags(3).expect("sent");
    client.stream.write_all(&option_header(99, u32::MAX)).expect("sent");
    let junk = vec![0; 1 << 20];
    for _ in 0..512 {
        if client.stream.write_all(&junk).is_err() {
            break;
        }
    }
    still_serves(&server);
    server.stop();
}

#[test]
fn clients_that_vanish_mid_request_disturb_nobody() {
    let server = server();
    for _ in 0..20 {
        let mut half = Client::open(&server.socket(), "db").expect("open");
        half.stream.write_all(&Request::new(READ, 0, 4096).encode()[..13]).expect("sent");
        drop(half);
        let mut without_payload = Client::open(&server.socket(), "db").expect("open");
        without_payload.send(Request::new(WRITE, 0, 1 << 20), &[0x25; 1000]).expect("sent");
        drop(without_payload);
        let mut with_reads = Client::open(&server.socket(), "db").expect("open");
        for slot in 0..64 {
            with_reads.send(Request::new(READ, slot * 65536, 65536), &[]).expect("sent");
        }
        drop(with_reads);
        let mut in_the_greeting = UnixStream::connect(server.socket()).expect("connected");
        in_the_greeting.write_all(&[0]).expect("sent");
    }
    // The torn write left nothing behind.
    let mut client = Client::open(&server.socket(), "db").expect("open");
    assert_eq!(client.read(0, 4096).expect("a reply"), Ok(vec![0; 4096]));
    client.send(Request::new(DISC, 0, 0), &[]).expect("sent");
    assert!(client.is_closed_by_server(), "DISC ends the connection");
    still_serves(&server);
    server.stop();
}

#[test]
fn a_client_that_never_reads_its_replies_is_bounded() {
    let server = server();
    let mut greedy = Client::open(&server.socket(), "db").expect("open");
    greedy.stream.set_write_timeout(Some(Duration::from_secs(1))).expect("a timeout");
    // 4096 reads of a mebibyte: 4 GiB of replies, if the server were to take them all.
    for slot in 0..4096 {
        if greedy.send(Request::new(READ, slot % 96 * MIB, 1 << 20), &[]).is_err() {
            break;
        }
    }
    thread::sleep(Duration::from_millis(300));
    still_serves(&server);
    drop(greedy);
    still_serves(&server);
    server.stop();
}

#[test]
fn a_slow_handshake_is_cut_off() {
    let server = server_with("handshake_timeout = \"1 s\"");
    let mut silent = Client::greet(&server.socket()).expect("the greeting");
    let mut slow = Client::greet(&server.socket()).expect("the greeting");
    slow.send_client_flags(3).expect("sent");
    let start = Instant::now();
    // A byte now and then must not extend the time allowed.
    let header = option_header(99, 1000);
    let cut = wait_until(Duration::from_secs(6), || {
        let sent = usize::try_from(start.elapsed().as_millis() / 200).unwrap_or(0);
        thread::sleep(Duration::from_millis(200));
        slow.stream.write_all(&header[sent % header.len()..][..1]).is_err()
    });
    assert!(cut, "a handshake of one byte every 200 ms was still alive after 6 s");
    assert!(silent.is_closed_by_server());
    still_serves(&server);
    server.stop();
}

#[test]
fn idle_handshakes_do_not_keep_others_out() {
    let server = server();
    let idle: Vec<_> = (0..40).map(|_| Client::greet(&server.socket()).expect("the greeting")).collect();
    still_serves(&server);
    drop(idle);
    still_serves(&server);
    server.stop();
}
