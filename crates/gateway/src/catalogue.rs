//! What the gateway exports, as the handshake asks for it.

use evenkeel_nbd::{BlockSizes, Export, Exports, TransmissionFlags};

use crate::backing::Slice;
use crate::config::VolumeConfig;

/// The longest payload of one request.
pub(crate) const PAYLOAD_MAX: u32 = 32 << 20;

/// One volume as an export.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) export: Export,
    /// Index of the store, and of the volume within it.
    pub(crate) store: usize,
    pub(crate) volume: u32,
}

/// Every export of the gateway.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) entries: Vec<Entry>,
}

impl Exports for Catalogue {
    fn names(&self) -> Vec<String> {
        self.entries.iter().map(|entry| entry.name.clone()).collect()
    }

    fn find(&self, name: &str) -> Option<Export> {
        self.lookup(name).map(|entry| entry.export.clone())
    }
}

impl Catalogue {
    /// The volume of that name. The empty name means the only volume, if there is only one: with
    /// several, guessing would hand a tenant somebody else's data.
    pub(crate) fn lookup(&self, name: &str) -> Option<&Entry> {
        match (name, self.entries.as_slice()) {
            ("", [only]) => Some(only),
            _ => self.entries.iter().find(|entry| entry.name == name),
        }
    }
}

/// The export of a volume.
pub(crate) fn export(volume: &VolumeConfig, slice: &Slice, block_minimum: u32) -> Export {
    let mut flags = TransmissionFlags::HAS_FLAGS
        | TransmissionFlags::SEND_FLUSH
        | TransmissionFlags::SEND_FUA
        // Every connection of a volume reaches the same open file, so a flush on one covers
        // what was written through any other.
        | TransmissionFlags::CAN_MULTI_CONN;
    if volume.read_only {
        flags |= TransmissionFlags::READ_ONLY;
    } else {
        flags |= TransmissionFlags::SEND_TRIM | TransmissionFlags::SEND_WRITE_ZEROES;
    }
    Export {
        size: slice.size,
        flags: TransmissionFlags(flags),
        block_sizes: BlockSizes { minimum: block_minimum, preferred: 4096, maximum: volume.request_max },
        description: volume.description.clone(),
    }
}
