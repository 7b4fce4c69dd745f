//! Any server against the client's negotiation and listing: how its bytes are cut must not matter, and
//! what the client sends stays small.
#![no_main]

use evenkeel_fuzz::{cuts, pieces};
use evenkeel_nbd::client::{List, Negotiation, NegotiationError};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&mode, rest)) = data.split_first() else { return };
    let Some((cuts, input)) = cuts(rest) else { return };
    if mode % 2 == 0 {
        let client = || {
            let mut negotiation = Negotiation::new("gold");
            move |input: &[u8], output: &mut Vec<u8>| negotiation.receive(input, output)
        };
        let outcome = run(cuts, input, client());
        assert_eq!(outcome, run(&[], input, client()), "the cuts matter");
        if let Ok(Some(info)) = outcome.2 {
            assert!(info.block_sizes.is_none_or(|sizes| sizes.validate().is_ok()));
        }
    } else {
        let client = || {
            let mut list = List::new();
            move |input: &[u8], output: &mut Vec<u8>| list.receive(input, output)
        };
        let outcome = run(cuts, input, client());
        assert_eq!(outcome, run(&[], input, client()), "the cuts matter");
        if let Ok(Some(listed)) = outcome.2 {
            assert!(listed.iter().map(|it| it.name.len()).sum::<usize>() <= input.len());
        }
    }
});

type Outcome<T> = (Vec<u8>, usize, Result<Option<T>, NegotiationError>);

fn run<T>(
    cuts: &[u8],
    input: &[u8],
    mut receive: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(usize, Option<T>), NegotiationError>,
) -> Outcome<T> {
    let mut output = Vec::new();
    let mut total = 0;
    for piece in pieces(cuts, input) {
        match receive(piece, &mut output) {
            Ok((consumed, None)) => {
                assert_eq!(consumed, piece.len());
                total += consumed;
            }
            Ok((consumed, done)) => {
                assert!(consumed <= piece.len());
                return (output, total + consumed, Ok(done));
            }
            Err(error) => return (output, 0, Err(error)),
        }
        assert!(output.len() <= 100, "the flags, one option and an ABORT");
    }
    (output, total, Ok(None))
}
