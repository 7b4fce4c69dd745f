//! What the fuzz targets share: exports, reading their input, and the oracle for requests.

use evenkeel_nbd::{BlockSizes, Command, Export, Exports, Refusal, RequestHeader, TransmissionFlags};

/// Two exports; the empty name finds the first.
pub struct Catalogue;

impl Exports for Catalogue {
    fn names(&self) -> Vec<String> {
        vec!["gold".to_owned(), "plain".to_owned()]
    }

    fn find(&self, name: &str) -> Option<Export> {
        let (size, flags, description) = match name {
            "" | "gold" => (1 << 30, TransmissionFlags::writable(), "first class"),
            "plain" => (1 << 20, TransmissionFlags::read_only(), ""),
            _ => return None,
        };
        let block_sizes = BlockSizes { minimum: 512, preferred: 4096, maximum: 1 << 20 };
        Some(Export { size, flags, block_sizes, description: description.to_owned() })
    }

    fn canonical_name(&self, name: &str) -> Option<String> {
        name.is_empty().then(|| "gold".to_owned())
    }
}

/// The front of a fuzz input says how the rest is cut: one byte for the number of cuts, then their
/// lengths, which are used over and over.
pub fn cuts(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (count, rest) = data.split_first()?;
    rest.split_at_checked(usize::from(count % 8))
}

/// Cuts `input` into pieces; a piece may be empty, but not all.
pub fn pieces<'a>(cuts: &'a [u8], input: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut lengths = cuts.iter().map(|&cut| usize::from(cut)).chain([usize::MAX]).cycle();
    let mut rest = input;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, after) = rest.split_at(lengths.next()?.min(rest.len()));
        rest = after;
        Some(piece)
    })
}

/// Holds the answer of `check` against the rules, worked out once more in wider numbers.
pub fn check(request: &RequestHeader, export: &Export) {
    let sizes = export.block_sizes;
    let answer = request.check(export);
    let acceptable = is_acceptable(request, export);
    match answer {
        Ok(command) => {
            assert_eq!(command.to_wire(), request.kind);
            assert!(acceptable || command == Command::Disconnect);
        }
        Err(Refusal::Answer { payload, .. }) => {
            assert!(!acceptable && request.kind != 2);
            assert_eq!(payload, if request.kind == 1 { request.length } else { 0 });
            assert!(payload <= sizes.maximum.max(64 << 20));
        }
        Err(Refusal::Close) => {
            assert!(request.kind == 1 && request.length > sizes.maximum.max(64 << 20));
        }
    }
}

/// Whether a request lies inside the export, is aligned, within the payload limit, and on offer.
fn is_acceptable(request: &RequestHeader, export: &Export) -> bool {
    let (offset, length) = (u128::from(request.offset), u128::from(request.length));
    let sizes = export.block_sizes;
    let minimum = u128::from(sizes.minimum.max(1));
    let flags = export.flags.0;
    let has = |bit: u32| flags >> bit & 1 == 1;
    let in_range = length > 0
        && offset + length <= u128::from(export.size)
        && offset % minimum == 0
        && length % minimum == 0;
    let (offered, writes, fits) = match request.kind {
        0 => (true, false, in_range && length <= u128::from(sizes.maximum)),
        1 => (true, true, in_range && length <= u128::from(sizes.maximum)),
        3 => (has(2), false, offset == 0 && length == 0),
        4 => (has(5), true, in_range),
        6 => (has(6), true, in_range),
        _ => return false,
    };
    let zeroes = request.kind == 6;
    let flags_fit = (0..16).filter(|bit| request.flags.0 >> bit & 1 == 1).all(|bit| match bit {
        0 => has(3),
        1 => zeroes,
        4 => zeroes && has(11),
        _ => false,
    });
    offered && fits && flags_fit && !(writes && has(1))
}

/// A sink that can be looked at afterwards.
#[derive(Clone, Default)]
pub struct Written(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl Written {
    /// What was written.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().expect("nobody panics while writing").clone()
    }
}

impl std::io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("nobody panics while writing").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
