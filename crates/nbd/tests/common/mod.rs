//! What the tests of the wire format share.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use evenkeel_nbd::{BlockSizes, Export, Exports, Handshake, HandshakeError, Progress, TransmissionFlags};

/// A catalogue of fixed exports; the empty name finds the first.
pub struct Catalogue(pub Vec<(String, Export)>);

impl Exports for Catalogue {
    fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| name.clone()).collect()
    }

    fn find(&self, name: &str) -> Option<Export> {
        let found = self.0.iter().find(|(have, _)| have == name);
        let default = if name.is_empty() { self.0.first() } else { None };
        found.or(default).map(|(_, export)| export.clone())
    }

    fn canonical_name(&self, name: &str) -> Option<String> {
        name.is_empty().then(|| self.0.first().map(|(name, _)| name.clone())).flatten()
    }
}

pub fn export(size: u64, description: &str) -> Export {
    Export {
        size,
        flags: TransmissionFlags::writable(),
        block_sizes: BlockSizes { minimum: 512, preferred: 4096, maximum: 1 << 25 },
        description: description.to_owned(),
    }
}

/// `gold`, with a description, and `plain`.
pub fn catalogue() -> Catalogue {
    Catalogue(vec![
        ("gold".to_owned(), export(0x1_0000_0000, "first class")),
        ("plain".to_owned(), export(0x20_0000, "")),
    ])
}

/// Bytes in hexadecimal; white space is for the reader.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> =
        text.split_whitespace().flat_map(str::chars).map(|c| c.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap()).collect()
}

/// An option as a client sends it.
pub fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap();
    [b"IHAVEOPT", &number.to_be_bytes()[..], &length.to_be_bytes(), data].concat()
}

/// The data of INFO and GO.
pub fn query(name: &[u8], infos: &[u16]) -> Vec<u8> {
    let mut data = u32::try_from(name.len()).unwrap().to_be_bytes().to_vec();
    data.extend_from_slice(name);
    data.extend_from_slice(&u16::try_from(infos.len()).unwrap().to_be_bytes());
    data.extend(infos.iter().flat_map(|info| info.to_be_bytes()));
    data
}

/// What a handshake has come to over a whole input, however it was cut.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub output: Vec<u8>,
    /// Bytes consumed before the end or the error; after an error it is not known.
    pub consumed: Option<usize>,
    pub result: Result<Progress, HandshakeError>,
}

/// Feeds `input` in pieces whose lengths `cuts` gives, over and over; a cut of 0 offers nothing.
pub fn run(input: &[u8], exports: &dyn Exports, cuts: &[usize]) -> Outcome {
    let mut handshake = Handshake::new();
    let mut output = Vec::new();
    let mut given = 0;
    let mut cuts = cuts.iter().copied().chain([usize::MAX]).cycle();
    let mut progress = Progress::Incomplete;
    while given < input.len() && progress == Progress::Incomplete {
        let piece = &input[given..][..cuts.next().unwrap().min(input.len() - given)];
        match handshake.receive(piece, exports, &mut output) {
            Ok((consumed, next)) => {
                assert!(consumed <= piece.len(), "consumed more than was given");
                assert!(next != Progress::Incomplete || consumed == piece.len(), "held bytes back");
                given += consumed;
                progress = next;
            }
            Err(error) => return Outcome { output, consumed: None, result: Err(error) },
        }
        assert!(handshake.buffered() <= evenkeel_nbd::handshake::MAX_OPTION_DATA);
    }
    if progress != Progress::Incomplete {
        assert_eq!(handshake.receive(b"x", exports, &mut output), Err(HandshakeError::Over));
    }
    Outcome { output, consumed: Some(given), result: Ok(progress) }
}

/// [`run`] in one piece.
pub fn whole(input: &[u8]) -> Outcome {
    run(input, &catalogue(), &[])
}

/// One reply out of the server's output.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    pub option: u32,
    pub kind: u32,
    pub data: Vec<u8>,
}

/// Cuts the server's output into replies.
pub fn replies(mut output: &[u8]) -> Vec<Reply> {
    let mut replies = Vec::new();
    while let Some((head, rest)) = output.split_first_chunk::<20>() {
        assert_eq!(head[..8], hex("0003 e889 0455 65a9"));
        let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        let (data, rest) = rest.split_at(number(16) as usize);
        replies.push(Reply { option: number(8), kind: number(12), data: data.to_vec() });
        output = rest;
    }
    assert_eq!(output, [], "a reply is cut short");
    replies
}
