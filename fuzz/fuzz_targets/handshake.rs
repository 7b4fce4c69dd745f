//! Any client against the server's handshake: how its bytes are cut must not matter, the answers must be
//! whole, and what follows the handshake is taken for requests.
#![no_main]

use evenkeel_fuzz::{Catalogue, check, cuts, pieces};
use evenkeel_nbd::handshake::MAX_OPTION_DATA;
use evenkeel_nbd::{Export, Handshake, HandshakeError, Progress, RequestHeader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((cuts, input)) = cuts(data) else { return };
    let in_pieces = run(cuts, input);
    assert_eq!(in_pieces, run(&[], input), "the cuts matter");
    let (output, consumed, result) = in_pieces;
    let Ok(Progress::Transmission { export, .. }) = &result else {
        check_replies(&output, &[]);
        return;
    };
    check_replies(&output, &zeroes_after_export_name(export));
    for request in input[consumed..].chunks(RequestHeader::LEN) {
        let Ok(bytes) = request.try_into() else { break };
        let Some(request) = RequestHeader::decode(bytes) else { break };
        check(&request, export);
    }
});

fn run(cuts: &[u8], input: &[u8]) -> (Vec<u8>, usize, Result<Progress, HandshakeError>) {
    let mut handshake = Handshake::new();
    let mut output = Vec::new();
    let mut total = 0;
    for piece in pieces(cuts, input) {
        match handshake.receive(piece, &Catalogue, &mut output) {
            Ok((consumed, Progress::Incomplete)) => {
                assert_eq!(consumed, piece.len());
                total += consumed;
            }
            Ok((consumed, progress)) => {
                assert!(consumed <= piece.len());
                return (output, total + consumed, Ok(progress));
            }
            // How far the handshake has read is not known then.
            Err(error) => return (output, 0, Err(error)),
        }
        assert!(handshake.buffered() <= MAX_OPTION_DATA);
    }
    (output, total, Ok(Progress::Incomplete))
}

/// The output is a row of replies, and at its end the answer to EXPORT_NAME if there was one.
fn check_replies(output: &[u8], last: &[u8]) {
    let mut rest = output;
    while let Some((head, after)) = rest.split_first_chunk::<20>() {
        if head[..8] != 0x0003_e889_0455_65a9_u64.to_be_bytes() {
            break;
        }
        let length = u32::from_be_bytes([head[16], head[17], head[18], head[19]]) as usize;
        assert!(length <= 2 * 4096 + 4, "a reply is too long");
        rest = after.get(length..).expect("a reply is cut short");
    }
    assert!(rest.is_empty() || rest == last || rest == &last[..last.len().min(10)], "not a reply");
}

fn zeroes_after_export_name(export: &Export) -> Vec<u8> {
    [&export.size.to_be_bytes()[..], &export.flags.0.to_be_bytes(), &[0; 124]].concat()
}
