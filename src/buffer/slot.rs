//! A key's place in the table.

use super::bucket::BUCKET_WORDS;

/// Where a key lies: its bucket times [`BUCKET_WORDS`], and its place there. One word, so that it is handed on in a
/// register: two that are stored and then copied as one have to wait for all stores before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(usize);

impl Slot {
    #[inline]
    pub(super) fn of(bucket: usize, place: usize) -> Self {
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
