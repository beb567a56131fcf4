//! Blocks of whole items, without a copy or an allocation for each item.

pub(crate) mod outline;
mod splitter;

use std::ffi::OsString;
use std::ops::Range;
use std::sync::Arc;

use everseen::Precheck;
use everseen::hash::{HashedKey, KeyHasher};

pub use splitter::{SplitError, Splitter};

/// The size of a block, and the maximum that one read requests. Only a longer item makes a block grow.
pub const BLOCK: usize = 1 << 20;

/// A run of whole items, each with its separator.
#[derive(Default)]
pub struct Block {
    /// Fully initialised, so that [`Read`] may fill any part of it; the bytes read are `storage[..filled]`.
    storage: Vec<u8>,
    filled: usize,
    /// The position of each item's separator.
    ends: Vec<usize>,
    /// Present where items are records of CSV, which may have separators in them.
    csv_delimiter: Option<u8>,
    /// The store's key for each item, once computed.
    keys: Vec<HashedKey>,
    /// Bytes of the dropped items.
    dropped: usize,
    /// For each dropped item, how many items before it were kept.
    gaps: Vec<usize>,
    /// What a look at all keys has found out. Boxed, because blocks are moved from thread to thread.
    precheck: Option<Box<Precheck>>,
    /// The block's input, and how many items precede the block there.
    origin: (Arc<OsString>, u64),
}

/// What an item's bytes came to.
pub enum Keyed {
    Key(HashedKey),
    Dropped,
    /// The block ends before this item.
    End,
}

/// The position of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The name of the input: printed as it is before a line, escaped in messages.
    pub input: Arc<OsString>,
    /// Counted from 1.
    pub line: u64,
}

impl Block {
    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the number of bytes that were read for the block, including separators.
    pub fn bytes(&self) -> usize {
        self.start(self.len()) + self.dropped
    }

    /// Returns the approximate memory use in bytes.
    pub fn memory(&self) -> usize {
        self.start(self.len()) + self.len() * (size_of::<usize>() + size_of::<HashedKey>())
    }

    /// Returns whether another block comes from the same input, directly behind this one.
    pub fn goes_on_in(&self, other: &Block) -> bool {
        let (input, before) = &self.origin;
        let items = (self.len() + self.gaps.len()) as u64;
        Arc::ptr_eq(input, &other.origin.0) && before + items == other.origin.1
    }

    /// Appends the items of another block, with their keys: of a block that [continues](Self::goes_on_in) where this
    /// one ends, or of any block if this one is new.
    pub fn append(&mut self, other: &Block) {
        if self.len() + self.gaps.len() == 0 {
            self.origin = other.origin.clone();
            self.csv_delimiter = other.csv_delimiter;
        }
        let kept = self.len();
        self.gaps.extend(other.gaps.iter().map(|gap| kept + gap));
        let start = self.start(kept);
        self.storage.truncate(start);
        self.storage.extend_from_slice(other.run(0..other.len()));
        self.filled = self.storage.len();
        self.ends.extend(other.ends.iter().map(|end| start + end));
        self.keys.extend_from_slice(&other.keys);
        self.dropped += other.dropped;
    }

    /// Returns the items without their separators.
    pub fn items(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let item = &self.storage[start..end];
            start = end + 1;
            item
        })
    }

    /// Computes each item's key from its bytes.
    pub fn key_all(&mut self, hasher: &KeyHasher) {
        let mut keys = std::mem::take(&mut self.keys);
        keys.clear();
        hasher.keys(self.items(), &mut keys);
        self.keys = keys;
    }

    /// Returns the number of items that were read for the block, including dropped ones.
    pub fn lines(&self) -> u64 {
        (self.len() + self.gaps.len()) as u64
    }

    /// Returns how many items were dropped, and the position of the first of them.
    pub fn first_gap(&self) -> Option<(u64, Place)> {
        let kept = *self.gaps.first()?;
        let (input, before) = &self.origin;
        let place = Place {
            input: Arc::clone(input),
            line: before + kept as u64 + 1,
        };
        Some((self.gaps.len() as u64, place))
    }

    /// Computes each item's key, and drops the items without one. `key` gets the item's number among those that were read
    /// for the block, counted from 1.
    pub fn key_by(&mut self, mut key: impl FnMut(u64, &[u8]) -> Keyed) {
        self.keys.clear();
        let mut long = std::mem::take(&mut self.gaps).into_iter().peekable();
        let (mut start, mut kept_until, mut number) = (0, 0, 0);
        for at in 0..self.ends.len() {
            while long.next_if(|before| *before <= at).is_some() {
                self.gaps.push(self.keys.len());
                number += 1;
            }
            number += 1;
            let end = self.ends[at];
            match key(number, &self.storage[start..end]) {
                Keyed::Key(key) => {
                    if kept_until < start {
                        self.storage.copy_within(start..=end, kept_until);
                    }
                    kept_until += end + 1 - start;
                    self.ends[self.keys.len()] = kept_until - 1;
                    self.keys.push(key);
                }
                Keyed::Dropped => {
                    self.dropped += end + 1 - start;
                    self.gaps.push(self.keys.len());
                }
                Keyed::End => {
                    self.ends.truncate(self.keys.len());
                    return;
                }
            }
            start = end + 1;
        }
        let kept = self.keys.len();
        self.gaps.extend(long.map(|_| kept));
        self.ends.truncate(kept);
    }

    /// Sets the block's origin for later calls of [`place`](Self::place).
    pub fn come_from(&mut self, input: &Arc<OsString>, before: u64) {
        self.origin = (Arc::clone(input), before);
    }

    /// Returns the position of an item in its input, counting dropped items.
    pub fn place(&self, item: usize) -> Place {
        let dropped = self.gaps.partition_point(|kept| *kept <= item);
        let (input, before) = &self.origin;
        Place {
            input: Arc::clone(input),
            line: before + (item + dropped) as u64 + 1,
        }
    }

    /// Looks all keys up, before the block's turn.
    pub fn precheck(&mut self, look: impl FnOnce(&[HashedKey]) -> everseen::Result<Precheck>) {
        // What fails now is looked up again, and fails, in its turn.
        self.precheck = look(&self.keys).ok().map(Box::new);
    }

    /// Returns each item's key, and what [`precheck`](Self::precheck) has found out about them.
    pub fn prechecked_keys(&mut self) -> (&[HashedKey], Option<&mut Precheck>) {
        (&self.keys, self.precheck.as_deref_mut())
    }

    /// Returns each item's key, after [`key_all`](Self::key_all) or [`key_by`](Self::key_by).
    pub fn keys(&self) -> &[HashedKey] {
        &self.keys
    }

    /// Returns neighbouring items as they appear in the input, each with its separator.
    pub fn run(&self, range: Range<usize>) -> &[u8] {
        &self.storage[self.start(range.start)..self.start(range.end)]
    }

    fn start(&self, item: usize) -> usize {
        item.checked_sub(1)
            .map_or(0, |before| self.ends[before] + 1)
    }
}
