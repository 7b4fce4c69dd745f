//! Messages to a thread that sleeps in its ring or in `poll`.
//!
//! ```text
//!  sender: lock, push, unlock, write eventfd ──> receiver: woken by the eventfd, takes all messages
//! ```

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};

/// The sending end; clones share one mailbox.
#[derive(Debug)]
pub(crate) struct Mailbox<M> {
    inner: Arc<Inner<M>>,
}

#[derive(Debug)]
struct Inner<M> {
    messages: Mutex<Vec<M>>,
    event: OwnedFd,
}

impl<M> Clone for Mailbox<M> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<M> Mailbox<M> {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: plain system call.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and ours.
        let event = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(Self { inner: Arc::new(Inner { messages: Mutex::new(Vec::new()), event }) })
    }

    /// Leaves `message` and wakes the receiver.
    pub(crate) fn send(&self, message: M) {
        self.inner.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        let one = 1_u64;
        // An eventfd's write can fail only when its counter is full, and then the receiver is awake.
        // SAFETY: eight readable bytes.
        unsafe { libc::write(self.event(), (&raw const one).cast(), 8) };
    }

    /// All messages so far, oldest first.
    pub(crate) fn take(&self) -> Vec<M> {
        std::mem::take(&mut *self.inner.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Becomes readable when there are messages; reading eight bytes from it resets it.
    pub(crate) fn event(&self) -> RawFd {
        self.inner.event.as_raw_fd()
    }

    /// Resets the event of a receiver that learned of it from `poll`.
    pub(crate) fn reset_event(&self) {
        let mut counter = 0_u64;
        // SAFETY: eight writable bytes; called only when the event is readable, so it cannot block.
        unsafe { libc::read(self.event(), (&raw mut counter).cast(), 8) };
    }
}
