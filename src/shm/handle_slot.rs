//! What the shared words tell of one handle: its number, its process and its transaction.

use crate::memtable::Digest;
use crate::sys::sync::{AtomicU64, Ordering};

pub(crate) const SLOT_WORDS: usize = 8;
/// The last word that is used.
const TRANSACTION_BEGIN: usize = 6;
const _: () = assert!(TRANSACTION_BEGIN < SLOT_WORDS);

/// The slot of one handle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HandleSlot<'a> {
    words: &'a [AtomicU64],
}

impl<'a> HandleSlot<'a> {
    pub(crate) fn new(words: &'a [AtomicU64]) -> Self {
        Self { words }
    }

    /// Returns the handle's number, 0 while the slot is free.
    pub(crate) fn handle(self) -> u64 {
        self.words[0].load(Ordering::Acquire)
    }

    pub(crate) fn set_handle(self, handle: u64) {
        self.words[0].store(handle, Ordering::Release);
    }

    /// Returns the process number. It is used only in messages.
    pub(crate) fn process(self) -> u64 {
        self.words[1].load(Ordering::Acquire)
    }

    pub(crate) fn set_process(self, process: u64) {
        self.words[1].store(process, Ordering::Release);
    }

    /// Returns the transaction state of the handle's uncommitted keys in the active buffer, 0 for none yet.
    pub(crate) fn transaction(self) -> u16 {
        self.words[2].load(Ordering::Acquire) as u16
    }

    /// Sets that state, and where in the active log its first record will be, or any earlier record.
    pub(crate) fn set_transaction(self, state: u16, begin: u64) {
        self.words[TRANSACTION_BEGIN].store(begin, Ordering::Release);
        self.words[2].store(u64::from(state), Ordering::Release);
    }

    /// Returns the offset in the active log from which on the records of the handle's transaction are.
    pub(crate) fn transaction_begin(self) -> u64 {
        self.words[TRANSACTION_BEGIN].load(Ordering::Acquire)
    }

    /// Returns the number of keys that the handle has changed since its last commit.
    pub(crate) fn uncommitted(self) -> u64 {
        self.words[5].load(Ordering::Acquire)
    }

    /// Returns a digest of the keys that it has inserted since then, less that of the removed ones.
    pub(crate) fn digest(self) -> Digest {
        Digest {
            keys: self.words[3].load(Ordering::Acquire),
            sum: self.words[4].load(Ordering::Acquire),
        }
    }

    /// Sets the digest and the number of changed keys.
    pub(crate) fn set_uncommitted(self, digest: Digest, changed: u64) {
        self.words[5].store(changed, Ordering::Release);
        self.words[3].store(digest.keys, Ordering::Release);
        self.words[4].store(digest.sum, Ordering::Release);
    }
}
