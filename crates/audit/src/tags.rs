//! A tag behind each event of a block, so that an alteration is named to the record.
//!
//! ```text
//!  payload  number of its first record │ event │ tag │ event │ tag │ ... │ closing tag
//!
//!  state_0  = BLAKE3( log │ file │ number of the first record )
//!  state_i  = BLAKE3 keyed with state_i−1 ( event i )          tag_i = its first 4 bytes
//!  closing  = the first 4 bytes of BLAKE3 keyed with the last state ( )
//! ```
//!
//! Each state depends on every event of the block so far and on where the block belongs. The first tag that
//! does not fit therefore stands behind the first event that is not the one that was written there, whether it
//! was altered, dropped, swapped or inserted; that it fits by chance happens once in 2³². Tags are no proof:
//! who knows the format can make them anew. The chain of the blocks and the signatures are.

/// Bytes of a tag.
pub(crate) const TAG_BYTES: usize = 4;

/// The state behind the events of a block so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tags {
    state: [u8; 32],
}

impl Tags {
    /// Where a block begins whose first record has number `first_record`.
    pub(crate) fn begin(log: &[u8; 16], segment: u64, first_record: u64) -> Self {
        let mut seed = [0; 32];
        seed[..16].copy_from_slice(log);
        seed[16..24].copy_from_slice(&segment.to_le_bytes());
        seed[24..].copy_from_slice(&first_record.to_le_bytes());
        Self { state: *blake3::hash(&seed).as_bytes() }
    }

    /// The tag of the next event. One compression for an event of up to 64 bytes.
    pub(crate) fn next(&mut self, event: &[u8]) -> [u8; TAG_BYTES] {
        self.state = *blake3::keyed_hash(&self.state, event).as_bytes();
        first_bytes(&self.state)
    }

    /// The tag that closes the block if no further event comes.
    pub(crate) fn closing(&self) -> [u8; TAG_BYTES] {
        first_bytes(blake3::keyed_hash(&self.state, &[]).as_bytes())
    }
}

fn first_bytes(state: &[u8; 32]) -> [u8; TAG_BYTES] {
    [state[0], state[1], state[2], state[3]]
}
