//! Pooled, page-aligned buffers for payloads and sockets.
//!
//! ```text
//!  class   0      1      2     …    14
//!  size    4 KiB  8 KiB  16 KiB     64 MiB
//!  free    [ptr]  []     [ptr,ptr]  …          take: pop or allocate; give: push while the pool
//!                                              retains less than its bound, else free
//! ```
//! Alignment is a page, so the same buffers serve `O_DIRECT`. Memory is zeroed when it is first
//! allocated and never read before the kernel has filled it.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

const ALIGNMENT: usize = 4096;
const SMALLEST_SHIFT: u32 = 12;
const CLASSES: usize = 15;

/// A page-aligned piece of memory; its capacity is a power of two.
#[derive(Debug)]
pub(crate) struct Buffer {
    memory: NonNull<u8>,
    class: u8,
}

/// Keeps freed buffers for reuse. Used by one thread.
#[derive(Debug)]
pub(crate) struct Pool {
    free: [Vec<Buffer>; CLASSES],
    retained: usize,
    retained_max: usize,
}

// SAFETY: a buffer is the sole owner of its memory.
unsafe impl Send for Buffer {}

impl Buffer {
    /// A buffer of at least `length` bytes; `None` if there is no memory or `length` is above 64 MiB.
    pub(crate) fn allocate(length: usize) -> Option<Self> {
        let class = class_of(length)?;
        // SAFETY: the layout's size is at least 4096.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout(class)) })?;
        Some(Self { memory, class })
    }

    pub(crate) fn capacity(&self) -> usize {
        layout(self.class).size()
    }

    pub(crate) fn as_mut_ptr(&self) -> *mut u8 {
        self.memory.as_ptr()
    }

    /// The first `length` bytes.
    pub(crate) fn bytes(&self, length: usize) -> &[u8] {
        assert!(length <= self.capacity());
        // SAFETY: within the allocation, which is initialised; `&self` keeps it alive.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), length) }
    }

    /// The bytes from `start` on.
    pub(crate) fn bytes_mut_from(&mut self, start: usize) -> &mut [u8] {
        let capacity = self.capacity();
        assert!(start <= capacity);
        // SAFETY: within the allocation, which is initialised; `&mut self` makes it exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr().add(start), capacity - start) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with the same layout, and dropped once.
        unsafe { dealloc(self.memory.as_ptr(), layout(self.class)) }
    }
}

impl Pool {
    /// A pool that keeps at most `retained_max` bytes for reuse.
    pub(crate) fn new(retained_max: usize) -> Self {
        Self { free: std::array::from_fn(|_| Vec::with_capacity(64)), retained: 0, retained_max }
    }

    /// A buffer of at least `length` bytes; `None` if there is no memory.
    pub(crate) fn take(&mut self, length: usize) -> Option<Buffer> {
        let class = class_of(length)?;
        match self.free[usize::from(class)].pop() {
            Some(buffer) => {
                self.retained -= buffer.capacity();
                Some(buffer)
            }
            None => Buffer::allocate(length),
        }
    }

    /// Takes a buffer back.
    pub(crate) fn give(&mut self, buffer: Buffer) {
        if self.retained + buffer.capacity() <= self.retained_max {
            self.retained += buffer.capacity();
            self.free[usize::from(buffer.class)].push(buffer);
        }
    }
}

fn class_of(length: usize) -> Option<u8> {
    let shift = length.max(1).next_power_of_two().trailing_zeros().max(SMALLEST_SHIFT);
    let class = (shift - SMALLEST_SHIFT) as usize;
    (class < CLASSES).then_some(class as u8)
}

fn layout(class: u8) -> Layout {
    let size = 1_usize << (SMALLEST_SHIFT + u32::from(class));
    Layout::from_size_align(size, ALIGNMENT).expect("a power of two of at most 64 MiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_the_next_power_of_two_and_aligned() {
        for (length, capacity) in
            [(0, 4096), (1, 4096), (4096, 4096), (4097, 8192), (1 << 25, 1 << 25), (1 << 26, 1 << 26)]
        {
            let buffer = Buffer::allocate(length).unwrap();
            assert_eq!(buffer.capacity(), capacity);
            assert_eq!(buffer.as_mut_ptr() as usize % ALIGNMENT, 0);
        }
        assert!(Buffer::allocate((1 << 26) + 1).is_none());
    }

    #[test]
    fn pool_reuses_and_stays_bounded() {
        let mut pool = Pool::new(8192);
        let first = pool.take(100).unwrap();
        let address = first.as_mut_ptr();
        pool.give(first);
        let again = pool.take(4096).unwrap();
        assert_eq!(again.as_mut_ptr(), address);
        for _ in 0..3 {
            pool.give(Buffer::allocate(4096).unwrap());
        }
        assert_eq!(pool.retained, 8192);
        pool.give(again);
        assert_eq!(pool.retained, 8192);
    }
}
