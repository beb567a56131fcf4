//! What a handle keeps for its turns as the writer.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::memtable::Slot;
use crate::sys::LockWaits;
use crate::wal::LogEnd;

/// What this handle keeps from one use of the writer lock to the next.
#[derive(Debug, Default)]
pub(crate) struct Local {
    /// The generation in whose log this handle has announced itself.
    pub(crate) announced: u64,
    /// The word of the writer lock as this handle last left it.
    pub(crate) released: u64,
    pub(crate) scratch: Vec<u8>,
    /// The end of the active log, while the writer lock is held.
    pub(crate) end: LogEnd,
    /// The claims of the last batch, kept to reuse their memory.
    pub(crate) claims: Option<Box<Claims>>,
    /// The bytes that this handle's writer needs in a superblock for its last commit.
    pub(crate) writer_bytes: Option<u64>,
    /// What all writers needed after a commit of this handle: the commit's sequence, and the number of bytes.
    pub(crate) all_bytes: Option<(u64, u64)>,
    /// In a store that forgets, where it was counted and is full.
    pub(crate) full_in: Option<CountedIn>,
    /// The uncommitted keys that closing has dropped.
    pub(crate) dropped: u64,
    /// Whether the handle is closed, or a close that failed for lack of room has discarded what was uncommitted. All
    /// that is left to do is to close it.
    pub(crate) closing: bool,
    pub(crate) closed: bool,
}

/// The state of a store in which its keys were counted. In another one there may be fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CountedIn {
    pub(crate) step: u64,
    /// The version of the set of runs.
    pub(crate) set_version: u64,
    /// Removes that the active buffer has.
    pub(crate) removed: u64,
    /// If there are some, keys that are not committed, of all handles.
    pub(crate) uncommitted: u64,
}

/// Keys that are claimed and not yet in the log.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    pub(crate) hashes: Vec<u64>,
    pub(crate) slots: Vec<Slot>,
    /// The place of each key in the batch.
    pub(crate) places: Vec<usize>,
    /// The keys among them that the handle itself has removed before, in the same transaction.
    pub(crate) taken_back: Vec<u64>,
    /// The other handles that were alive after the writer lock was taken. Finding out takes longer than claiming dozens
    /// of keys, and the answer may be outdated at once.
    pub(crate) alive: Vec<u64>,
    /// Whether transactions of dead handles were given up just now.
    pub(crate) gave_up: bool,
    /// How many keys may be claimed before anything can forbid one more.
    pub(crate) allowance: u64,
}

impl Claims {
    pub(crate) fn clear(&mut self) {
        self.hashes.clear();
        self.slots.clear();
        self.places.clear();
        self.taken_back.clear();
        self.gave_up = false;
    }
}

/// The writer lock, as this handle knows it.
#[derive(Debug)]
pub(crate) struct WriterState {
    pub(crate) local: Mutex<Local>,
    /// Whether other handles may write, so that the writer lock excludes them.
    pub(crate) is_shared: bool,
    /// Whether others had the writer lock between this handle's last two turns.
    pub(crate) has_company: AtomicBool,
    pub(crate) waits: LockWaits,
    /// The uncommitted keys that this handle has dropped for handles that died.
    pub(crate) abandoned: AtomicU64,
}

impl WriterState {
    pub(crate) fn new(is_shared: bool) -> Self {
        Self {
            local: Mutex::default(),
            is_shared,
            has_company: AtomicBool::new(false),
            waits: LockWaits::default(),
            abandoned: AtomicU64::new(0),
        }
    }
}
