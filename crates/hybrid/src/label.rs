//! The label at the beginning of a fast device: whose it is.
//!
//! ```text
//!  byte 0        16         20          24                  40            512
//!  │ magic       │ version  │ cluster   │ identity          │ zeros       │
//! ```

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::Identity;

/// Bytes of a label.
pub const LABEL_BYTES: usize = 512;
const MAGIC: [u8; 16] = *b"evenkeel-fast\0\0\x01";
const VERSION: u32 = 1;

/// What the label says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The map that belongs to this device.
    pub identity: Identity,
    /// Bytes of a cluster, and so of a slot.
    pub cluster_bytes: u32,
}

/// Why a fast device was refused.
#[derive(Debug, thiserror::Error)]
pub enum LabelError {
    /// It cannot be read or written.
    #[error("cannot access its label: {0}")]
    Io(#[from] io::Error),
    /// There is no label, but there is content.
    #[error(
        "it has no label of a fast device, and it is not empty; if its content may go, erase its first 4 KiB"
    )]
    Foreign,
    /// It belongs to a store.
    #[error(
        "it is the fast device of a hybrid store already; dissolve that one (evenkeel hybrid drain --dissolve), or erase its first 4 KiB if nothing of it is needed"
    )]
    Taken,
    /// There is no label.
    #[error("it has no label of a fast device")]
    Missing,
    /// The label is of a version that this program does not know.
    #[error("its label has version {0}, and this program knows version {VERSION}")]
    Version(u32),
}

/// Where slot 0 begins: behind the label, at a border of clusters and of pages.
#[must_use]
pub const fn slots_at(cluster_bytes: u32) -> u64 {
    if cluster_bytes < 4096 { 4096 } else { cluster_bytes as u64 }
}

impl Label {
    /// Reads the label of `device`.
    ///
    /// # Errors
    /// [`LabelError`] if there is none that can be used.
    pub fn read(device: &File) -> Result<Self, LabelError> {
        let mut bytes = [0; LABEL_BYTES];
        match device.read_exact_at(&mut bytes, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(LabelError::Missing),
            other => other?,
        }
        Self::parse(&bytes)
    }

    /// Reads a label from the first bytes of a device.
    ///
    /// # Errors
    /// [`LabelError`] if they are none that can be used.
    pub fn parse(bytes: &[u8; LABEL_BYTES]) -> Result<Self, LabelError> {
        if bytes[..16] != MAGIC {
            let is_empty = bytes.iter().all(|&byte| byte == 0);
            return Err(if is_empty { LabelError::Missing } else { LabelError::Foreign });
        }
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if number(16) != VERSION {
            return Err(LabelError::Version(number(16)));
        }
        let mut identity = [0; 16];
        identity.copy_from_slice(&bytes[24..40]);
        Ok(Self { identity, cluster_bytes: number(20) })
    }

    /// Writes the label, durably.
    ///
    /// # Errors
    /// When the device cannot be written.
    pub fn write(&self, device: &File) -> io::Result<()> {
        device.write_all_at(&self.to_bytes(), 0)?;
        device.sync_all()
    }

    /// As it stands on a device.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; LABEL_BYTES] {
        let mut bytes = [0; LABEL_BYTES];
        bytes[..16].copy_from_slice(&MAGIC);
        bytes[16..20].copy_from_slice(&VERSION.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.cluster_bytes.to_le_bytes());
        bytes[24..40].copy_from_slice(&self.identity);
        bytes
    }

    /// Erases the label, durably: the device is nobody's again.
    ///
    /// # Errors
    /// When the device cannot be written.
    pub fn erase(device: &File) -> io::Result<()> {
        device.write_all_at(&[0; LABEL_BYTES], 0)?;
        device.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_read_as_written_and_nothing_else_is_taken_for_one() {
        let file = tempfile::tempfile().expect("a file");
        assert!(matches!(Label::read(&file), Err(LabelError::Missing)));
        file.set_len(4096).expect("room");
        assert!(matches!(Label::read(&file), Err(LabelError::Missing)));
        let label = Label { identity: *b"0123456789abcdef", cluster_bytes: 1 << 20 };
        label.write(&file).expect("written");
        assert_eq!(Label::read(&file).expect("read"), label);
        file.write_all_at(&[9], 16).expect("written");
        assert!(matches!(Label::read(&file), Err(LabelError::Version(9))));
        file.write_all_at(b"ext4", 0).expect("written");
        assert!(matches!(Label::read(&file), Err(LabelError::Foreign)));
    }
}
