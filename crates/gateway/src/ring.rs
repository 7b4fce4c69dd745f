//! One io_uring, used by one thread. All of the crate's submissions go through here.
//!
//! ```text
//!  user data: kind (8 bits) | index (56 bits)    kind says whose completion it is,
//!                                                index which connection or request slot
//! ```

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use io_uring::{IoUring, squeue, types};

/// Whose completion it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// The mailbox's event descriptor.
    Wake,
    /// A connection's receive.
    Receive(u32),
    /// A connection's send.
    Send(u32),
    /// A request's access to the backing.
    Access(u32),
    /// An access of a request to one device of a hybrid store.
    Piece(u32),
    /// A copy between the devices of a hybrid store.
    Copy(u32),
    /// The sync of a file of a hybrid store.
    Sync(u32),
}

/// A completed submission: whose, and the result as the kernel gives it (negative: error number).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completed {
    pub(crate) tag: Tag,
    pub(crate) result: i32,
}

pub(crate) struct Ring {
    uring: IoUring,
}

const SUBMISSIONS: u32 = 512;
const COMPLETIONS: u32 = 8192;
const INDEX_BITS: u32 = 56;

impl Tag {
    pub(crate) fn to_bits(self) -> u64 {
        let (kind, index) = match self {
            Self::Wake => (0, 0),
            Self::Receive(index) => (1, index),
            Self::Send(index) => (2, index),
            Self::Access(index) => (3, index),
            Self::Piece(index) => (4, index),
            Self::Copy(index) => (5, index),
            Self::Sync(index) => (6, index),
        };
        kind << INDEX_BITS | u64::from(index)
    }

    fn from_bits(bits: u64) -> Self {
        let index = bits as u32;
        match bits >> INDEX_BITS {
            0 => Self::Wake,
            1 => Self::Receive(index),
            2 => Self::Send(index),
            3 => Self::Access(index),
            4 => Self::Piece(index),
            5 => Self::Copy(index),
            _ => Self::Sync(index),
        }
    }
}

impl Ring {
    /// A ring for the calling thread, with the kernel's cheapest way of delivering completions.
    pub(crate) fn new() -> io::Result<Self> {
        // Deferred task work (Linux 6.1) delivers completions only when this thread asks for them;
        // an older kernel refuses the flag and gets the plain ring.
        let uring = IoUring::builder()
            .setup_cqsize(COMPLETIONS)
            .setup_submit_all()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(SUBMISSIONS)
            .or_else(|_| IoUring::builder().setup_cqsize(COMPLETIONS).build(SUBMISSIONS))?;
        Ok(Self { uring })
    }

    /// Lets submissions name `files` by index, which saves a reference count per access.
    pub(crate) fn register_files(&mut self, files: &[RawFd]) -> io::Result<()> {
        if files.is_empty() { Ok(()) } else { self.uring.submitter().register_files(files) }
    }

    /// Queues a submission; it starts with the next [`Ring::wait`].
    ///
    /// # Safety
    /// Every address in `entry` must stay valid, and its memory untouched where the kernel writes
    /// or reads it, until the completion with `tag` has been taken out.
    pub(crate) unsafe fn push(&mut self, entry: squeue::Entry, tag: Tag) -> io::Result<()> {
        let entry = entry.user_data(tag.to_bits());
        loop {
            // SAFETY: the caller answers for the entry's addresses.
            if unsafe { self.uring.submission().push(&entry) }.is_ok() {
                return Ok(());
            }
            retry(|| self.uring.submit())?;
        }
    }

    /// Starts what is queued and waits for a completion, at most for `timeout`.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let result = match timeout {
            None => self.uring.submit_and_wait(1),
            Some(timeout) => {
                let timespec = types::Timespec::from(timeout);
                let args = types::SubmitArgs::new().timespec(&timespec);
                self.uring.submitter().submit_with_args(1, &args)
            }
        };
        match result {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // Time over, a signal, or completions to take out before more can be submitted.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Moves all that has completed into `into`.
    pub(crate) fn drain(&mut self, into: &mut Vec<Completed>) {
        for entry in self.uring.completion() {
            into.push(Completed { tag: Tag::from_bits(entry.user_data()), result: entry.result() });
        }
    }
}

fn retry(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<()> {
    loop {
        match call() {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_round_trip() {
        let requests = [Tag::Wake, Tag::Receive(0), Tag::Send(u32::MAX), Tag::Access(77)];
        for tag in requests.into_iter().chain([Tag::Piece(5), Tag::Copy(1 << 20), Tag::Sync(1)]) {
            assert_eq!(Tag::from_bits(tag.to_bits()), tag);
        }
    }
}
