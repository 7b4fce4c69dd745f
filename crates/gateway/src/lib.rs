//! The live gateway: NBD sessions in front of stores, one scheduling engine per store.

pub mod config;
