//! The client's negotiation, byte for byte.

mod common;

use common::hex;
use evenkeel_nbd::client::{List, Negotiation, NegotiationError, SimpleReply};
use evenkeel_nbd::wire::{NBD_OPT_GO, NBD_OPT_LIST, NBD_REP_ERR_UNKNOWN};
use evenkeel_nbd::{BlockSizes, TransmissionFlags};

const GREETING: &str = "4e42444d41474943 49484156454f5054 0003";
const ACK: &str = "0003e889045565a9 00000007 00000001 00000000";
const EXPORT: &str = "0003e889045565a9 00000007 00000003 0000000c 0000 0000000000200000 016d";
const SIZES: &str = "0003e889045565a9 00000007 00000003 0000000e 0003 00000200 00001000 02000000";
const ABORT: &str = "49484156454f5054 00000002 00000000";

fn negotiate(parts: &[&str]) -> Result<Option<evenkeel_nbd::client::ExportInfo>, NegotiationError> {
    let input = hex(&parts.concat());
    let mut negotiation = Negotiation::new("gold");
    negotiation.receive(&input, &mut Vec::new()).map(|(_, info)| info)
}

#[test]
fn go_with_block_sizes() {
    let mut negotiation = Negotiation::new("gold");
    let mut output = Vec::new();
    assert_eq!(negotiation.receive(&hex(GREETING), &mut output), Ok((18, None)));
    assert_eq!(output, hex("00000003 49484156454f5054 00000007 0000000c 00000004 676f6c64 0001 0003"));
    output.clear();
    let unknown_info = "0003e889045565a9 00000007 00000003 00000003 0063 ff";
    let input = hex(&[EXPORT, unknown_info, SIZES, ACK, "67446698"].concat());
    let (consumed, info) = negotiation.receive(&input, &mut output).unwrap();
    assert_eq!((consumed, &output[..]), (input.len() - 4, &[][..]));
    let info = info.unwrap();
    assert_eq!((info.size, info.flags), (0x20_0000, TransmissionFlags::writable()));
    assert_eq!(info.block_sizes, Some(BlockSizes { minimum: 512, preferred: 4096, maximum: 1 << 25 }));
    assert_eq!(negotiation.receive(b"x", &mut output), Err(NegotiationError::Over));
}

#[test]
fn a_server_without_no_zeroes_is_not_asked_for_it() {
    let mut output = Vec::new();
    let greeting = hex("4e42444d41474943 49484156454f5054 0001");
    assert_eq!(Negotiation::new("").receive(&greeting, &mut output), Ok((18, None)));
    assert_eq!(output, hex("00000001 49484156454f5054 00000007 00000008 00000000 0001 0003"));
}

#[test]
fn a_refusal_carries_the_servers_words_and_is_followed_by_an_abort() {
    let refusal = "0003e889045565a9 00000007 80000006 00000006 6e6f 206f 6e65";
    let mut negotiation = Negotiation::new("lead");
    let mut output = Vec::new();
    negotiation.receive(&hex(GREETING), &mut output).unwrap();
    output.clear();
    let error = negotiation.receive(&hex(refusal), &mut output).unwrap_err();
    assert_eq!(error.to_string(), "the server refuses: no one (NBD_REP_ERR_UNKNOWN)");
    assert_eq!(error, NegotiationError::Refused { error: NBD_REP_ERR_UNKNOWN, message: "no one".to_owned() });
    assert_eq!(output, hex(ABORT));
    let other = negotiate(&[GREETING, "0003e889045565a9 00000007 800000ff 00000000"]).unwrap_err();
    assert_eq!(other.to_string(), "the server refuses: error 0x800000ff");
}

#[test]
fn servers_that_break_the_protocol() {
    let oldstyle = "4e42444d41474943 00420281861253 0000";
    assert_eq!(negotiate(&[&oldstyle.replacen(" 00", " 0000", 1)]), Err(NegotiationError::Oldstyle));
    assert_eq!(negotiate(&["5353482d322e302d4f70656e53534820 3132"]), Err(NegotiationError::NotNbd));
    assert_eq!(negotiate(&["4e42444d41474943 49484156454f5055 0003"]), Err(NegotiationError::NotNbd));
    let newstyle = "4e42444d41474943 49484156454f5054 0002";
    assert_eq!(negotiate(&[newstyle]), Err(NegotiationError::NotFixedNewstyle));
    assert_eq!(negotiate(&[GREETING, ACK]), Err(NegotiationError::NoExportInfo));
    let magic = "0003e889045565aa 00000007 00000001 00000000";
    assert_eq!(negotiate(&[GREETING, magic]), Err(NegotiationError::BadReplyMagic(0x0003_e889_0455_65aa)));
    let option = "0003e889045565a9 00000003 00000001 00000000";
    assert_eq!(negotiate(&[GREETING, option]), Err(NegotiationError::WrongOption(NBD_OPT_LIST)));
    let server = "0003e889045565a9 00000007 00000002 00000000";
    assert_eq!(negotiate(&[GREETING, server]), Err(NegotiationError::UnexpectedReply(2)));
    let long = "0003e889045565a9 00000007 00000003 00010001";
    assert_eq!(negotiate(&[GREETING, long]), Err(NegotiationError::TooLong));
    let short = "0003e889045565a9 00000007 00000003 0000000b 0000 0000000000200000 01";
    assert_eq!(negotiate(&[GREETING, short]), Err(NegotiationError::Malformed("NBD_INFO_EXPORT")));
    let long = "0003e889045565a9 00000007 00000003 0000000d 0000 0000000000200000 016d 00";
    assert_eq!(negotiate(&[GREETING, long]), Err(NegotiationError::Malformed("NBD_INFO_EXPORT")));
    let long = "0003e889045565a9 00000007 00000003 0000000f 0003 00000200 00001000 02000000 00";
    assert_eq!(negotiate(&[GREETING, long]), Err(NegotiationError::Malformed("NBD_INFO_BLOCK_SIZE")));
    let sizes = "0003e889045565a9 00000007 00000003 0000000e 0003 00000003 00001000 02000000";
    assert_eq!(negotiate(&[GREETING, sizes]), Err(NegotiationError::Malformed("NBD_INFO_BLOCK_SIZE")));
    let empty = "0003e889045565a9 00000007 00000003 00000000";
    assert_eq!(negotiate(&[GREETING, empty]), Err(NegotiationError::Malformed("NBD_REP_INFO")));
    assert_eq!(negotiate(&[GREETING, &EXPORT.repeat(1025)]), Err(NegotiationError::TooLong));
}

#[test]
fn a_name_that_cannot_be_sent() {
    for name in ["a".repeat(4097), "\0".to_owned()] {
        let result = Negotiation::new(&name).receive(&hex(GREETING), &mut Vec::new());
        assert_eq!(result, Err(NegotiationError::InvalidExportName));
    }
}

#[test]
fn a_listing() {
    let mut list = List::new();
    let mut output = Vec::new();
    assert_eq!(list.receive(&hex(GREETING), &mut output), Ok((18, None)));
    assert_eq!(output, hex("00000003 49484156454f5054 00000003 00000000"));
    output.clear();
    let input = hex("0003e889045565a9 00000003 00000002 00000007 00000001 61 6869
                     0003e889045565a9 00000003 00000001 00000000");
    let (consumed, listed) = list.receive(&input, &mut output).unwrap();
    assert_eq!(consumed, input.len());
    let listed: Vec<_> = listed.unwrap().into_iter().map(|it| (it.name, it.description)).collect();
    assert_eq!(listed, [("a".to_owned(), "hi".to_owned())]);
    assert_eq!(output, hex(ABORT));

    let mut list = List::new();
    let bad = hex(&[GREETING, "0003e889045565a9 00000003 00000002 00000004 00000001"].concat());
    assert_eq!(list.receive(&bad, &mut output), Err(NegotiationError::Malformed("NBD_REP_SERVER")));
    let mut list = List::new();
    let other = hex(&[GREETING, ACK].concat());
    assert_eq!(list.receive(&other, &mut output), Err(NegotiationError::WrongOption(NBD_OPT_GO)));
}

#[test]
fn a_simple_reply() {
    let bytes: [u8; 16] = hex("67446698 0000001c 0102030405060708").try_into().unwrap();
    assert_eq!(SimpleReply::decode(&bytes), Some(SimpleReply { error: 28, cookie: 0x0102_0304_0506_0708 }));
    assert_eq!(SimpleReply::decode(&[0; 16]), None);
}
