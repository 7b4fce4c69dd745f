//! 128-bit integers that need no more alignment than 64-bit ones: up to 8 bytes less in each struct.

/// A number that is stored on a multiple of 8 bytes. Read and written as a whole: `.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(Rust, packed(8))]
pub(crate) struct Packed<T: Copy>(pub(crate) T);

const _: () = assert!(align_of::<Packed<u128>>() == 8);
