//! The thread that makes the location map of a hybrid store durable. A transaction waits for its sync, and
//! the store's thread must not.
//!
//! ```text
//!  store thread ──Vec<Change>──> map thread: one transaction ──Command::MapCommitted──> mailbox
//! ```

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use evenkeel_hybrid::MapFile;
use evenkeel_tiering::Change;

use super::Command;
use crate::mailbox::Mailbox;

#[derive(Debug)]
pub(super) struct MapThread {
    changes: Option<Sender<Vec<Change>>>,
    thread: Option<JoinHandle<()>>,
}

impl MapThread {
    pub(super) fn start(store: &str, map: MapFile, mailbox: Mailbox<Command>) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel::<Vec<Change>>();
        let thread = thread::Builder::new().name(format!("map-{store}")).spawn(move || {
            for changes in receiver {
                // Whoever waits for an answer gets one, whatever happens in the database.
                let succeeded = match catch_unwind(AssertUnwindSafe(|| map.commit(&changes))) {
                    Ok(Ok(())) => true,
                    Ok(Err(error)) => {
                        tracing::error!(%error, "the location map could not be written");
                        false
                    }
                    Err(_) => false,
                };
                mailbox.send(Command::MapCommitted(succeeded));
            }
        })?;
        Ok(Self { changes: Some(sender), thread: Some(thread) })
    }

    /// Makes `changes` durable; whether there is a thread to do so.
    pub(super) fn commit(&self, changes: Vec<Change>) -> bool {
        self.changes.as_ref().is_some_and(|sender| sender.send(changes).is_ok())
    }

    /// Finishes what was asked for and closes the map.
    pub(super) fn close(&mut self) {
        self.changes = None;
        if let Some(thread) = self.thread.take() {
            // It catches what may panic; should it all the same, the map recovers when it is opened.
            let _ = thread.join();
        }
    }
}
