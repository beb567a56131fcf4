//! Blocks whose items lie elsewhere for a while.

use std::ffi::OsString;
use std::sync::Arc;

use everseen::hash::HashedKey;
use everseen_keys::columns::CsvCutter;
use memchr::memchr_iter;

use crate::input::record_blocks::Block;

/// What is left of a block without its items.
pub struct Outline {
    bytes: usize,
    dropped: usize,
    gaps: Vec<usize>,
    csv_delimiter: Option<u8>,
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
            csv_delimiter: self.csv_delimiter,
            origin: self.origin.clone(),
        }
    }

    /// Returns the block of an outline, whose items are these bytes. The items have no keys.
    pub fn restore(outline: Outline, storage: Vec<u8>) -> Self {
        let mut ends = Vec::new();
        match (outline.csv_delimiter, storage.last()) {
            (Some(delimiter), _) => {
                // As when the block was read: at the start of an input, or behind other records.
                let mut cutter = match outline.origin.1 {
                    0 => CsvCutter::new(delimiter),
                    _ => CsvCutter::inside(delimiter),
                };
                cutter.cut(&storage, |end| ends.push(end));
            }
            (None, Some(separator)) => ends.extend(memchr_iter(*separator, &storage)),
            (None, None) => {}
        }
        Block {
            precheck: None,
            filled: storage.len(),
            storage,
            ends,
            csv_delimiter: outline.csv_delimiter,
            keys: Vec::new(),
            dropped: outline.dropped,
            gaps: outline.gaps,
            origin: outline.origin,
        }
    }
}
