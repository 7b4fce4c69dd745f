//! Properties that hold for any bytes and any exports.

mod common;

use common::{Catalogue, catalogue, option, query, run};
use evenkeel_nbd::client::{ExportInfo, List, Negotiation, NegotiationError, SimpleReply, encode_request};
use evenkeel_nbd::{
    BlockSizes, Command, CommandFlags, ErrorCode, Export, Handshake, Progress, Refusal, RequestHeader,
    TransmissionFlags, simple_reply,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Options, mostly well-formed, of the kinds that clients send.
fn options() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![Just(b"gold".to_vec()), Just(Vec::new()), vec(any::<u8>(), 0..20)];
    let ask = (prop_oneof![Just(6_u32), Just(7)], name.clone(), vec(0_u16..6, 0..4))
        .prop_map(|(number, name, infos)| option(number, &query(&name, &infos)));
    let plain = (0_u32..14, vec(any::<u8>(), 0..40)).prop_map(|(number, data)| option(number, &data));
    let choose = name.prop_map(|name| option(1, &name));
    let noise = vec(any::<u8>(), 0..30);
    let one = prop_oneof![4 => ask, 4 => plain, 1 => choose, 1 => noise];
    let flags = prop_oneof![8 => 0_u32..4, 1 => any::<u32>()];
    (flags, vec(one, 0..8))
        .prop_map(|(flags, options)| [&flags.to_be_bytes(), &options.concat()[..]].concat())
}

fn block_sizes() -> impl Strategy<Value = BlockSizes> {
    let minimum = prop_oneof![2 => Just(0_u32), 1 => 0_u32..=16];
    (minimum, 0_u32..=4, any::<u32>(), 0_u32..32).prop_map(|(minimum, more, maximum, shift)| {
        let (minimum, maximum) = (1 << minimum, maximum >> shift);
        let preferred = (minimum << more).max(512);
        BlockSizes { minimum, preferred, maximum: maximum.max(preferred) }
    })
}

fn exports() -> impl Strategy<Value = Export> {
    (any::<u64>(), 0_u32..64, any::<u16>(), block_sizes(), "[^\0]{0,40}").prop_map(
        |(size, shift, flags, block_sizes, description)| {
            let minimum = u64::from(block_sizes.minimum);
            let size = (size >> shift) / minimum * minimum;
            Export { size, flags: TransmissionFlags(flags), block_sizes, description }
        },
    )
}

/// Numbers near zero, near the end of the export, near the limits, and anywhere.
fn near(points: Vec<u64>) -> impl Strategy<Value = u64> {
    (proptest::sample::select(points), -3_i64..4, 0_u32..17, any::<u64>(), 0..8).prop_map(
        |(point, steps, shift, anywhere, pick)| {
            let shift = if pick < 4 { 0 } else { shift };
            if pick == 0 { anywhere } else { point.wrapping_add_signed(steps << shift) }
        },
    )
}

fn requests() -> impl Strategy<Value = (Export, RequestHeader)> {
    exports().prop_flat_map(|export| {
        let end = export.size;
        let lengths = vec![0, end, export.block_sizes.maximum.into(), 64 << 20, u64::from(u32::MAX)];
        let flags = prop_oneof![4 => 0_u16..2, 1 => 0_u16..32, 1 => any::<u16>()];
        let kind = prop_oneof![8 => 0_u16..8, 1 => any::<u16>()];
        // Half of the ranges end near the end of the export.
        (Just(export), flags, kind, any::<u64>(), near(vec![0, end, u64::MAX]), near(lengths), any::<bool>())
            .prop_map(move |(export, flags, kind, cookie, place, length, at_end)| {
                let length = length as u32;
                let offset = if at_end { place.wrapping_sub(length.into()) } else { place };
                (export, RequestHeader { flags: CommandFlags(flags), kind, cookie, offset, length })
            })
    })
}

/// Carries bytes between a client and a server in pieces of `cut` until either side is done.
fn back_to_back<T>(
    exports: &Catalogue,
    cut: usize,
    mut client: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(usize, Option<T>), NegotiationError>,
) -> (Result<T, NegotiationError>, Progress) {
    let mut server = Handshake::new();
    let mut to_client = server.greeting().to_vec();
    let mut result = None;
    let mut progress = Progress::Incomplete;
    while !to_client.is_empty() {
        let mut to_server = Vec::new();
        while !to_client.is_empty() && result.is_none() {
            let piece = &to_client[..cut.min(to_client.len())];
            match client(piece, &mut to_server) {
                Ok((consumed, done)) => {
                    to_client.drain(..consumed);
                    result = done.map(Ok);
                }
                Err(error) => {
                    to_client.clear();
                    result = Some(Err(error));
                }
            }
        }
        assert_eq!(to_client, [], "the server said more than the client expected");
        for piece in to_server.chunks(cut) {
            let (consumed, next) = server.receive(piece, exports, &mut to_client).unwrap();
            assert_eq!(consumed, piece.len());
            progress = next;
        }
        if result.is_some() {
            break;
        }
    }
    (result.expect("the client has an answer"), progress)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_in_any_pieces_come_to_the_same(input in options(), cuts in vec(0_usize..40, 1..6)) {
        let exports = catalogue();
        prop_assert_eq!(run(&input, &exports, &cuts), run(&input, &exports, &[]));
    }

    #[test]
    fn any_bytes_from_a_server_come_to_the_same(
        noise in vec(any::<u8>(), 0..200), genuine in any::<bool>(), listing in any::<bool>(), cut in 1_usize..40,
    ) {
        let mut input = if genuine { Handshake::new().greeting().to_vec() } else { Vec::new() };
        input.extend(&noise);
        let feed = |cut: usize| {
            let mut negotiation = Negotiation::new("gold");
            let mut list = List::new();
            let mut output = Vec::new();
            for piece in input.chunks(cut) {
                let before = output.len();
                let step = if listing {
                    list.receive(piece, &mut output).map(|(took, done)| (took, done.is_some()))
                } else {
                    negotiation.receive(piece, &mut output).map(|(took, done)| (took, done.is_some()))
                };
                assert!(output.len() - before < 200);
                match step {
                    Ok((consumed, done)) => {
                        assert!(consumed <= piece.len());
                        if done {
                            return (output, Ok(()));
                        }
                        assert_eq!(consumed, piece.len());
                    }
                    Err(error) => return (output, Err(error)),
                }
            }
            (output, Ok(()))
        };
        prop_assert_eq!(feed(cut), feed(usize::MAX));
    }

    #[test]
    fn client_and_server_agree(export in exports(), name in "[^\0]{1,60}", cut in 1_usize..100) {
        prop_assert_eq!(export.validate(), Ok(()));
        let exports = Catalogue(vec![(name.clone(), export.clone())]);
        let offered = Export { flags: export.flags.offered(), ..export.clone() };
        for asked in [&name[..], ""] {
            let mut negotiation = Negotiation::new(asked);
            let (info, progress) = back_to_back(&exports, cut, |bytes, out| negotiation.receive(bytes, out));
            let expected =
                ExportInfo { size: export.size, flags: offered.flags, block_sizes: Some(export.block_sizes) };
            prop_assert_eq!(info, Ok(expected));
            let go = Progress::Transmission { name: asked.to_owned(), export: offered.clone() };
            prop_assert_eq!(progress, go);
        }
        let mut negotiation = Negotiation::new(&format!("{name}?"));
        let (info, progress) = back_to_back(&exports, cut, |bytes, out| negotiation.receive(bytes, out));
        let refused = matches!(info, Err(NegotiationError::Refused { .. }));
        prop_assert!(refused);
        prop_assert_eq!(progress, Progress::Aborted);
    }

    #[test]
    fn a_listing_arrives_whole(exports in vec(("[^\0]{1,20}", exports()), 0..6), cut in 1_usize..100) {
        let mut exports = exports;
        exports.sort_by(|a, b| a.0.cmp(&b.0));
        exports.dedup_by(|a, b| a.0 == b.0);
        let exports = Catalogue(exports);
        let mut list = List::new();
        let (listed, progress) = back_to_back(&exports, cut, |bytes, out| list.receive(bytes, out));
        let listed: Vec<_> = listed.unwrap().into_iter().map(|it| (it.name, it.description)).collect();
        let expected: Vec<_> = exports.0.into_iter().map(|(name, it)| (name, it.description)).collect();
        prop_assert_eq!(listed, expected);
        prop_assert_eq!(progress, Progress::Aborted);
    }
}

proptest! {
    // Cheap, and the corners are rare: off-by-one errors must show.
    #![proptest_config(ProptestConfig { cases: 1 << 15, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_accepted_is_sound((export, request) in requests()) {
        let end = u128::from(request.offset) + u128::from(request.length);
        let sizes = export.block_sizes;
        let writes = [1, 4, 6].contains(&request.kind);
        match request.check(&export) {
            Ok(Command::Disconnect) => prop_assert_eq!(request.kind, 2),
            Ok(Command::Flush) => prop_assert_eq!((request.kind, end), (3, 0)),
            Ok(command) => {
                prop_assert_eq!(command.to_wire(), request.kind);
                prop_assert!(request.length > 0 && end <= u128::from(export.size));
                prop_assert_eq!(request.offset % u64::from(sizes.minimum), 0);
                prop_assert_eq!(request.length % sizes.minimum, 0);
                prop_assert!(request.kind > 1 || request.length <= sizes.maximum);
                prop_assert!(!(writes && export.flags.has(TransmissionFlags::READ_ONLY)));
            }
            Err(Refusal::Answer { error, payload }) => {
                prop_assert_eq!(payload, if request.kind == 1 { request.length } else { 0 });
                prop_assert_eq!(error == ErrorCode::Permission, writes && export.flags.has(2));
            }
            Err(Refusal::Close) => {
                prop_assert!(request.kind == 1 && request.length > sizes.maximum.max(64 << 20));
            }
        }
    }

    #[test]
    fn headers_go_there_and_back((_, request) in requests(), error in any::<u32>()) {
        prop_assert_eq!(RequestHeader::decode(&encode_request(&request)), Some(request));
        let code = ErrorCode::from_wire(error % 120);
        let reply = SimpleReply::decode(&simple_reply(code, request.cookie)).unwrap();
        prop_assert_eq!((ErrorCode::from_wire(reply.error), reply.cookie), (code, request.cookie));
    }

    #[test]
    fn any_28_bytes_decode_or_not(bytes in any::<[u8; 28]>()) {
        prop_assert_eq!(RequestHeader::decode(&bytes), None);
        let mut bytes = bytes;
        bytes[..4].copy_from_slice(&[0x25, 0x60, 0x95, 0x13]);
        prop_assert_eq!(encode_request(&RequestHeader::decode(&bytes).unwrap()), bytes);
    }
}
