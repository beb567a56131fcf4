//! A key's place in the table.

use super::bucket::{BUCKET_WORDS, SLOTS};

/// A key's position: its bucket times [`BUCKET_WORDS`], plus its place in the bucket. It is one word, so that it
/// travels in a register: two words that are stored and then copied as one must wait for all stores before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(usize);

impl Slot {
    #[inline]
    pub(super) fn of(bucket: usize, place: usize) -> Self {
        debug_assert!(place < SLOTS, "{place} in bucket {bucket}");
        Self(bucket * BUCKET_WORDS + place)
    }

    #[inline]
    pub(super) fn bucket(self) -> usize {
        self.0 / BUCKET_WORDS
    }

    #[inline]
    pub(super) fn place(self) -> usize {
        self.0 % BUCKET_WORDS
    }
}
