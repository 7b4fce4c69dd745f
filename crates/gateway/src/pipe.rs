//! From a store's thread to one that writes files. The sender never waits, and wakes nobody in the usual
//! case: the receiver looks by itself a few times a second, or is woken for each full chunk.
//!
//! ```text
//!  store thread                      under one short lock                        writer thread
//!  turn: [ n n n ] ── try_lock ──> filling [ n n n n … ]                   ┌──> taken, oldest first
//!                                     │ full                               │
//!                                  full: [ chunk ]─[ chunk ]─ … ───────────┘
//!                                  spare: [ empty ]─[ empty ] <── emptied chunks come back
//! ```
//!
//! Both sides hold the lock for the time of moving a few notes or pointers. If the sender finds it taken, its
//! notes stay with it until the next turn. Chunks are used again and again: nothing is allocated as long as
//! the receiver keeps up. When [`CHUNKS_MAX`] chunks wait, notes are dropped and counted until the receiver
//! has taken what is there, so all that is lost lies behind what was taken.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Notes in a chunk.
const CHUNK: usize = 4096;
/// Chunks that may wait: half a million notes, some 50 MiB, a few seconds of a busy store.
const CHUNKS_MAX: usize = 128;
/// Chunks that are kept for reuse.
const SPARE_MAX: usize = 16;

/// What happens to a note when the receiver is too far behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It is kept all the same: there are few.
    Kept,
    /// It is dropped.
    Dropped,
    /// It is dropped, and counted as the end of a request.
    DroppedEnd,
}

/// What can be sent.
pub(crate) trait Note {
    /// What becomes of it when there is no room.
    fn kind(&self) -> Kind;
}

/// How much has been dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) notes: u64,
    pub(crate) ends: u64,
}

/// The sending end.
pub(crate) struct Sender<T> {
    shared: Arc<Shared<T>>,
    turn: Vec<T>,
}

/// The receiving end.
pub(crate) struct Receiver<T> {
    shared: Arc<Shared<T>>,
    taken: VecDeque<Vec<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    woken: Condvar,
}

struct State<T> {
    filling: Vec<T>,
    full: VecDeque<Vec<T>>,
    spare: Vec<Vec<T>>,
    lost: Lost,
    closed: bool,
}

/// What [`Receiver::wait`] found besides notes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Dropped behind the notes that were taken.
    pub(crate) lost: Lost,
    /// Nothing will come any more.
    pub(crate) closed: bool,
}

/// A pipe.
pub(crate) fn pipe<T: Note>() -> (Sender<T>, Receiver<T>) {
    let empty = || Vec::with_capacity(CHUNK);
    let state = State {
        filling: empty(),
        full: VecDeque::with_capacity(CHUNKS_MAX + 1),
        spare: (1..SPARE_MAX).map(|_| empty()).collect(),
        lost: Lost::default(),
        closed: false,
    };
    let shared = Arc::new(Shared { state: Mutex::new(state), woken: Condvar::new() });
    let sender = Sender { shared: Arc::clone(&shared), turn: Vec::with_capacity(CHUNK) };
    (sender, Receiver { shared, taken: VecDeque::with_capacity(CHUNKS_MAX + 1) })
}

impl<T: Note> Sender<T> {
    /// Notes something; it is sent with the next [`Sender::flush`].
    pub(crate) fn send(&mut self, note: T) {
        self.turn.push(note);
    }

    /// Sends what has been noted, unless the receiver is just taking: then it waits here for the next call.
    pub(crate) fn flush(&mut self) {
        if self.turn.is_empty() {
            return;
        }
        let Ok(mut state) = self.shared.state.try_lock() else { return };
        let before = state.full.len();
        for note in self.turn.drain(..) {
            state.put(note);
        }
        let wake = state.full.len() > before;
        drop(state);
        if wake {
            self.shared.woken.notify_one();
        }
    }

    /// Whether something waits for another [`Sender::flush`].
    pub(crate) fn is_pending(&self) -> bool {
        !self.turn.is_empty()
    }

    /// Sends the rest and says that it was the last; waits for the lock.
    pub(crate) fn close(mut self) {
        let mut state = self.shared.lock();
        for note in self.turn.drain(..) {
            state.put(note);
        }
        state.closed = true;
        drop(state);
        self.shared.woken.notify_one();
    }
}

impl<T: Note> State<T> {
    fn put(&mut self, note: T) {
        let kind = note.kind();
        if self.filling.len() >= CHUNK && self.full.len() < CHUNKS_MAX {
            let empty = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(CHUNK));
            self.full.push_back(std::mem::replace(&mut self.filling, empty));
        }
        let full = self.filling.len() >= CHUNK || self.lost.notes > 0;
        if full && kind != Kind::Kept {
            self.lost.notes += 1;
            self.lost.ends += u64::from(kind == Kind::DroppedEnd);
        } else {
            self.filling.push(note);
        }
    }
}

impl<T> Receiver<T> {
    /// Waits until a chunk is full or the time is over, and takes all that is there.
    pub(crate) fn wait(&mut self, limit: Duration) -> Found {
        let mut state = self.shared.lock();
        if state.full.is_empty() && !state.closed {
            let waited = self.shared.woken.wait_timeout(state, limit);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.taken.append(&mut state.full);
        if !state.filling.is_empty() {
            let empty = state.spare.pop().unwrap_or_else(|| Vec::with_capacity(CHUNK));
            self.taken.push_back(std::mem::replace(&mut state.filling, empty));
        }
        Found { lost: std::mem::take(&mut state.lost), closed: state.closed }
    }

    /// The oldest notes that have been taken; to be given back with [`Receiver::give_back`].
    pub(crate) fn next_chunk(&mut self) -> Option<Vec<T>> {
        self.taken.pop_front()
    }

    /// Lets the sender use the chunk again.
    pub(crate) fn give_back(&self, mut chunk: Vec<T>) {
        chunk.clear();
        let mut state = self.shared.lock();
        if state.spare.len() < SPARE_MAX {
            state.spare.push(chunk);
        }
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    struct Number(u64, Kind);

    impl Note for Number {
        fn kind(&self) -> Kind {
            self.1
        }
    }

    fn drain(receiver: &mut Receiver<Number>) -> Vec<u64> {
        let mut all = Vec::new();
        while let Some(chunk) = receiver.next_chunk() {
            all.extend(chunk.iter().map(|number| number.0));
            receiver.give_back(chunk);
        }
        all
    }

    #[test]
    fn everything_arrives_in_order() {
        let (mut sender, mut receiver) = pipe();
        let thread = std::thread::spawn(move || {
            let mut all = Vec::new();
            loop {
                let found = receiver.wait(Duration::from_millis(5));
                all.extend(drain(&mut receiver));
                assert_eq!(found.lost, Lost::default());
                if found.closed {
                    return all;
                }
            }
        });
        for number in 0..100_000 {
            sender.send(Number(number, Kind::Dropped));
            if number % 7 == 0 {
                sender.flush();
            }
        }
        sender.close();
        assert!(thread.join().unwrap().into_iter().eq(0..100_000));
    }

    #[test]
    fn what_finds_no_room_is_counted_and_lies_behind_what_is_taken() {
        let (mut sender, mut receiver) = pipe();
        let room = ((CHUNKS_MAX + 1) * CHUNK) as u64;
        for number in 0..room + 10 {
            sender.send(Number(number, if number % 2 == 0 { Kind::Dropped } else { Kind::DroppedEnd }));
            sender.flush();
        }
        sender.send(Number(u64::MAX, Kind::Kept));
        sender.flush();
        let found = receiver.wait(Duration::ZERO);
        assert_eq!(found.lost, Lost { notes: 10, ends: 5 });
        assert!(drain(&mut receiver).into_iter().eq((0..room).chain([u64::MAX])));
        sender.send(Number(7, Kind::Dropped));
        sender.flush();
        assert_eq!(receiver.wait(Duration::ZERO).lost, Lost::default());
        assert_eq!(drain(&mut receiver), [7]);
    }
}
