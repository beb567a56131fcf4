//! Blocks whose items lie elsewhere for a while.

use std::ffi::OsString;
use std::sync::Arc;

use everseen::hash::HashedKey;
use memchr::memchr_iter;

use crate::input::record_blocks::Block;

/// What is left of a block without its items.
pub struct Outline {
    bytes: usize,
    dropped: usize,
    gaps: Vec<usize>,
    origin: (Arc<OsString>, u64),
}

impl Outline {
    /// Returns the number of bytes of the items, including separators.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Block {
    /// Sets each item's key.
    pub fn set_keys(&mut self, keys: &[HashedKey]) {
        self.keys.clear();
        self.keys.extend_from_slice(keys);
    }

    /// Returns everything but the items.
    pub fn outline(&self) -> Outline {
        Outline {
            bytes: self.start(self.len()),
            dropped: self.dropped,
            gaps: self.gaps.clone(),
            origin: self.origin.clone(),
        }
    }

    /// Returns the block of an outline, whose items are these bytes. The items have no keys.
    pub fn restore(outline: Outline, storage: Vec<u8>) -> Self {
        let ends = match storage.last() {
            Some(separator) => memchr_iter(*separator, &storage).collect(),
            None => Vec::new(),
        };
        Block {
            precheck: None,
            filled: storage.len(),
            storage,
            ends,
            keys: Vec::new(),
            dropped: outline.dropped,
            gaps: outline.gaps,
            origin: outline.origin,
        }
    }
}
