//! The live gateway: NBD sessions in front of stores, one scheduling engine per store.
//!
//! ```text
//!  config ──> Server::start ──> front thread: accept, handshake ──> store thread: ring, engine,
//!                                                                   sessions, files, device model
//! ```

mod backing;
mod buffers;
pub mod calibrate;
mod catalogue;
pub mod config;
mod front;
mod listener;
mod mailbox;
mod pipe;
mod ring;
mod server;
mod store;

pub use backing::BackingError;
pub use listener::ListenError;
pub use server::{
    Accounts, Ended, GroupAccount, HybridStatus, Server, StartError, StoreAccount, VolumeAccount, engine_of,
};
pub use store::{AdaptAccount, CapacityAccount, CapacityVerdict, RecordTo};
