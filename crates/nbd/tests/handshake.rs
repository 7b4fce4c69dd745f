//! The server's handshake, byte for byte, option by option.

mod common;

use common::{Outcome, catalogue, hex, option, query, replies, run, whole};
use evenkeel_nbd::wire::{
    NBD_INFO_BLOCK_SIZE, NBD_INFO_DESCRIPTION, NBD_INFO_EXPORT, NBD_INFO_NAME, NBD_OPT_ABORT,
    NBD_OPT_EXPORT_NAME, NBD_OPT_GO, NBD_OPT_INFO, NBD_OPT_LIST, NBD_OPT_STARTTLS, NBD_OPT_STRUCTURED_REPLY,
    NBD_REP_ACK, NBD_REP_ERR_INVALID, NBD_REP_ERR_TOO_BIG, NBD_REP_ERR_UNKNOWN, NBD_REP_ERR_UNSUP,
    NBD_REP_INFO,
};
use evenkeel_nbd::{Exports, Handshake, HandshakeError, Progress};

const FIXED: &[u8] = &[0, 0, 0, 1];
const FIXED_NO_ZEROES: &[u8] = &[0, 0, 0, 3];

fn transmission(name: &str) -> Result<Progress, HandshakeError> {
    let export = catalogue().find(name).unwrap();
    Ok(Progress::Transmission { name: name.to_owned(), export })
}

/// The types of the replies to a fixed newstyle client that sends these options.
fn kinds(options: &[Vec<u8>]) -> Vec<u32> {
    let outcome = whole(&[FIXED, &options.concat()].concat());
    assert!(outcome.result.is_ok(), "{outcome:?}");
    replies(&outcome.output).iter().map(|reply| reply.kind).collect()
}

#[test]
fn the_greeting() {
    let expected = hex("4e42 444d 4147 4943 4948 4156 454f 5054 0003");
    assert_eq!(Handshake::new().greeting()[..], expected);
}

#[test]
fn export_name_with_and_without_zeroes() {
    let input = [FIXED_NO_ZEROES, &option(NBD_OPT_EXPORT_NAME, b"gold"), b"next"].concat();
    let outcome = whole(&input);
    assert_eq!(outcome.output, hex("00000001 00000000 016d"));
    assert_eq!(outcome.consumed, Some(input.len() - 4));
    assert_eq!(outcome.result, transmission("gold"));

    let outcome = whole(&[FIXED, &option(NBD_OPT_EXPORT_NAME, b"gold")].concat());
    assert_eq!(outcome.output, [hex("00000001 00000000 016d"), vec![0; 124]].concat());
}

#[test]
fn a_client_of_the_plain_newstyle_has_only_export_name() {
    let outcome = whole(&[&[0; 4], &option(NBD_OPT_EXPORT_NAME, b"plain")[..]].concat());
    assert_eq!(outcome.output.len(), 134);
    assert_eq!(outcome.result, transmission("plain"));
    for number in [NBD_OPT_LIST, NBD_OPT_GO, NBD_OPT_ABORT, 77] {
        let outcome = whole(&[&[0; 4], &option(number, b"")[..]].concat());
        assert_eq!(outcome.result, Err(HandshakeError::NotFixedNewstyle { option: number }));
        assert_eq!(outcome.output, []);
    }
}

#[test]
fn export_name_that_cannot_be_served_closes() {
    let result = |name: &[u8]| {
        let outcome = whole(&[FIXED, &option(NBD_OPT_EXPORT_NAME, name)].concat());
        assert_eq!(outcome.output, []);
        outcome.result
    };
    assert_eq!(result(b"lead"), Err(HandshakeError::UnknownExport { name: "lead".to_owned() }));
    assert_eq!(result(&[0xff]), Err(HandshakeError::InvalidExportName));
    assert_eq!(result(b"go\0ld"), Err(HandshakeError::InvalidExportName));
    assert_eq!(result(&[b'a'; 4097]), Err(HandshakeError::InvalidExportName));
    assert!(matches!(result(&[b'a'; 4096]), Err(HandshakeError::UnknownExport { .. })));
}

#[test]
fn the_empty_name_is_the_default_export() {
    let outcome = whole(&[FIXED_NO_ZEROES, &option(NBD_OPT_EXPORT_NAME, b"")].concat());
    assert_eq!(outcome.output, hex("00000001 00000000 016d"));
    assert_eq!(outcome.result, transmission(""));
    let none = common::Catalogue(Vec::new());
    let outcome = run(&[FIXED, &option(NBD_OPT_GO, &query(b"", &[]))].concat(), &none, &[]);
    let [reply] = &replies(&outcome.output)[..] else { panic!("{outcome:?}") };
    assert_eq!(reply.kind, NBD_REP_ERR_UNKNOWN);
    assert_eq!(reply.data, b"there is no default export; ask for one by its name");
}

#[test]
fn abort_is_acknowledged_and_its_data_ignored() {
    for data in [&b""[..], b"farewell"] {
        let input = [FIXED, &option(NBD_OPT_ABORT, data), b"rest"].concat();
        let outcome = whole(&input);
        assert_eq!(outcome.output, hex("0003e889045565a9 00000002 00000001 00000000"));
        assert_eq!(outcome.result, Ok(Progress::Aborted));
        assert_eq!(outcome.consumed, Some(input.len() - 4));
    }
}

#[test]
fn list() {
    let outcome = whole(&[FIXED, &option(NBD_OPT_LIST, b"")].concat());
    let expected = [
        hex("0003e889045565a9 00000003 00000002 00000013 00000004"),
        b"goldfirst class".to_vec(),
        hex("0003e889045565a9 00000003 00000002 00000009 00000005"),
        b"plain".to_vec(),
        hex("0003e889045565a9 00000003 00000001 00000000"),
    ];
    assert_eq!(outcome.output, expected.concat());
    assert_eq!(outcome.result, Ok(Progress::Incomplete));
    assert_eq!(
        kinds(&[option(NBD_OPT_LIST, b"x"), option(NBD_OPT_ABORT, b"")]),
        [NBD_REP_ERR_INVALID, NBD_REP_ACK]
    );
}

#[test]
fn a_listing_is_bounded() {
    let many = common::Catalogue(
        (0..3000)
            .map(|at| (format!("{at:04}{}", "n".repeat(4092)), common::export(512, &"d".repeat(9000))))
            .collect(),
    );
    let outcome = run(&[FIXED, &option(NBD_OPT_LIST, b"")].concat(), &many, &[]);
    let answers = replies(&outcome.output);
    assert_eq!(answers.last().unwrap().kind, NBD_REP_ERR_TOO_BIG);
    assert!(outcome.output.len() < (16 << 20) + 200, "{}", outcome.output.len());
    assert!(answers.iter().all(|reply| reply.data.len() <= 4 + 4096 + 4096));

    // Names that cannot be asked for are left out.
    let odd = common::Catalogue(
        ["a".repeat(4097), "\0".to_owned(), "fine".to_owned()]
            .map(|name| (name, common::export(512, "")))
            .into(),
    );
    let outcome = run(&[FIXED, &option(NBD_OPT_LIST, b"")].concat(), &odd, &[]);
    assert_eq!(replies(&outcome.output).len(), 2);
}

#[test]
fn go_answers_and_leaves_the_rest_alone() {
    let infos =
        [NBD_INFO_NAME, NBD_INFO_DESCRIPTION, NBD_INFO_BLOCK_SIZE, NBD_INFO_EXPORT, 99, NBD_INFO_NAME];
    let input = [FIXED, &option(NBD_OPT_GO, &query(b"gold", &infos)), b"\x25\x60\x95\x13"].concat();
    let outcome = whole(&input);
    let expected = [
        hex("0003e889045565a9 00000007 00000003 0000000c 0000 0000000100000000 016d"),
        hex("0003e889045565a9 00000007 00000003 00000006 0001"),
        b"gold".to_vec(),
        hex("0003e889045565a9 00000007 00000003 0000000d 0002"),
        b"first class".to_vec(),
        hex("0003e889045565a9 00000007 00000003 0000000e 0003 00000200 00001000 02000000"),
        hex("0003e889045565a9 00000007 00000001 00000000"),
    ];
    assert_eq!(outcome.output, expected.concat());
    assert_eq!(outcome.consumed, Some(input.len() - 4));
    assert_eq!(outcome.result, transmission("gold"));
}

#[test]
fn info_answers_and_goes_on() {
    let input = [FIXED_NO_ZEROES, &option(NBD_OPT_INFO, &query(b"plain", &[NBD_INFO_DESCRIPTION]))].concat();
    let outcome = whole(&input);
    // An empty description is not sent; the block sizes are, asked or not.
    let expected = [
        hex("0003e889045565a9 00000006 00000003 0000000c 0000 0000000000200000 016d"),
        hex("0003e889045565a9 00000006 00000003 0000000e 0003 00000200 00001000 02000000"),
        hex("0003e889045565a9 00000006 00000001 00000000"),
    ];
    assert_eq!(outcome.output, expected.concat());
    assert_eq!(outcome.result, Ok(Progress::Incomplete));

    let default = whole(&[FIXED, &option(NBD_OPT_INFO, &query(b"", &[NBD_INFO_NAME]))].concat());
    assert_eq!(replies(&default.output)[1].data, b"\0\x01gold");
    let go = option(NBD_OPT_GO, &query(b"plain", &[]));
    let after = [NBD_REP_INFO, NBD_REP_INFO, NBD_REP_ACK, NBD_REP_INFO, NBD_REP_INFO, NBD_REP_ACK];
    assert_eq!(kinds(&[option(NBD_OPT_INFO, &query(b"plain", &[])), go]), after);
}

#[test]
fn an_unknown_export_is_named_in_the_answer() {
    for number in [NBD_OPT_INFO, NBD_OPT_GO] {
        let outcome = whole(&[FIXED, &option(number, &query("lé\n".as_bytes(), &[]))].concat());
        let [reply] = &replies(&outcome.output)[..] else { panic!("{outcome:?}") };
        assert_eq!((reply.option, reply.kind), (number, NBD_REP_ERR_UNKNOWN));
        assert_eq!(String::from_utf8_lossy(&reply.data), r#"there is no export named "lé\n""#);
        assert_eq!(outcome.result, Ok(Progress::Incomplete));
    }
    // However long the name, the message is a string of the protocol.
    let outcome = whole(&[FIXED, &option(NBD_OPT_GO, &query(&[1; 4096], &[]))].concat());
    assert!(replies(&outcome.output)[0].data.len() <= 4096);
}

#[test]
fn malformed_info_and_go_are_invalid() {
    let good = query(b"gold", &[NBD_INFO_BLOCK_SIZE]);
    let mut long_name = good.clone();
    long_name[..4].copy_from_slice(&u32::MAX.to_be_bytes());
    let mut name_to_the_end = good.clone();
    name_to_the_end[3] = 8;
    let mut too_many = good.clone();
    too_many[9] = 2;
    let mut too_few = good.clone();
    too_few[9] = 0;
    let cases = [
        &good[..good.len() - 1],
        &[],
        &good[..3],
        &good[..5],
        &long_name,
        &name_to_the_end,
        &too_many,
        &too_few,
        &query(b"\xc3", &[]),
        &query(b"a\0", &[]),
    ];
    for number in [NBD_OPT_INFO, NBD_OPT_GO] {
        for case in cases {
            let kinds = kinds(&[option(number, case), option(NBD_OPT_ABORT, b"")]);
            assert_eq!(kinds, [NBD_REP_ERR_INVALID, NBD_REP_ACK], "{case:?}");
        }
        let long = query(&[b'a'; 4097], &[]);
        let kinds =
            kinds(&[option(number, &long), option(number, &vec![0; 65_537]), option(NBD_OPT_ABORT, b"")]);
        assert_eq!(kinds, [NBD_REP_ERR_TOO_BIG, NBD_REP_ERR_TOO_BIG, NBD_REP_ACK]);
    }
}

#[test]
fn options_that_are_not_served_do_not_disturb_the_next() {
    let outcome = whole(&[FIXED, &option(NBD_OPT_STARTTLS, b"")].concat());
    let message = b"NBD_OPT_STARTTLS is not supported";
    assert_eq!(
        outcome.output,
        [hex("0003e889045565a9 00000005 80000001 00000021"), message.to_vec()].concat()
    );

    let unserved = [4, NBD_OPT_STARTTLS, NBD_OPT_STRUCTURED_REPLY, 9, 10, 11, 0, 12, u32::MAX];
    let mut options: Vec<_> =
        unserved.iter().flat_map(|&it| [option(it, b""), option(it, &[7; 999])]).collect();
    options.push(option(u32::MAX - 1, &vec![0; 1 << 20]));
    options.push(option(NBD_OPT_ABORT, b""));
    let mut expected = vec![NBD_REP_ERR_UNSUP; 19];
    expected.push(NBD_REP_ACK);
    assert_eq!(kinds(&options), expected);
}

#[test]
fn what_breaks_the_protocol_closes() {
    let result = |input: &[u8]| whole(input).result;
    assert_eq!(result(&[0, 0, 0, 4]), Err(HandshakeError::UnknownClientFlags(4)));
    assert_eq!(result(b"GET / HTTP/1.1"), Err(HandshakeError::UnknownClientFlags(0x4745_5420)));
    let magic = [FIXED, b"IHAVEOPS\0\0\0\x03\0\0\0\0"].concat();
    assert_eq!(result(&magic), Err(HandshakeError::BadOptionMagic(0x4948_4156_454f_5053)));
    let long = [FIXED, b"IHAVEOPT\0\0\0\x63\x02\0\0\x01"].concat();
    assert_eq!(result(&long), Err(HandshakeError::OptionTooLong { option: 99, length: 0x0200_0001 }));
    let longest = [FIXED, b"IHAVEOPT\0\0\0\x63\x02\0\0\0", &[0; 100]].concat();
    assert_eq!(result(&longest), Ok(Progress::Incomplete));
}

#[test]
fn the_number_of_options_is_bounded() {
    let many = |count| [FIXED, &option(NBD_OPT_LIST, b"x").repeat(count)].concat();
    assert_eq!(whole(&many(1024)).result, Ok(Progress::Incomplete));
    let outcome = whole(&many(1025));
    assert_eq!(outcome.result, Err(HandshakeError::TooManyOptions));
    assert_eq!(replies(&outcome.output).len(), 1024);
}

#[test]
fn the_data_of_all_options_together_is_bounded() {
    let half = option(99, &vec![0; 32 << 20]);
    assert_eq!(kinds(&[half.clone(), half.clone()]), [NBD_REP_ERR_UNSUP; 2]);
    let outcome = whole(&[FIXED, &half, &half, &option(99, b"x")].concat());
    assert_eq!(outcome.result, Err(HandshakeError::TooMuchData));
    assert_eq!(replies(&outcome.output).len(), 2);
}

#[test]
fn one_byte_at_a_time() {
    let input = [
        FIXED,
        &option(NBD_OPT_STRUCTURED_REPLY, b""),
        &option(NBD_OPT_INFO, &query(b"gold", &[NBD_INFO_NAME])),
        &option(NBD_OPT_LIST, b""),
        &option(NBD_OPT_GO, &query(b"lead", &[])),
        &option(NBD_OPT_GO, &query(b"plain", &[NBD_INFO_BLOCK_SIZE])),
        b"requests",
    ]
    .concat();
    let Outcome { output, consumed, result } = run(&input, &catalogue(), &[1; 4096]);
    assert_eq!(consumed, Some(input.len() - 8));
    assert_eq!(result, transmission("plain"));
    assert_eq!(output, whole(&input).output);
}
