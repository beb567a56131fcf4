//! Cuts a stream of bytes into blocks of whole items, without a copy or an allocation for each item.

pub(crate) mod outline;

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read};
use std::iter;
use std::ops::Range;
use std::sync::Arc;

use everseen::hash::{HashedKey, KeyHasher};
use everseen::{Precheck, Store};
use memchr::memchr_iter;

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

    /// Computes each item's key, and drops the items without one.
    pub fn key_by(&mut self, mut key: impl FnMut(&[u8]) -> Option<HashedKey>) {
        self.keys.clear();
        let (mut start, mut kept_until) = (0, 0);
        for at in 0..self.ends.len() {
            let end = self.ends[at];
            if let Some(key) = key(&self.storage[start..end]) {
                if kept_until < start {
                    self.storage.copy_within(start..=end, kept_until);
                }
                kept_until += end + 1 - start;
                self.ends[self.keys.len()] = kept_until - 1;
                self.keys.push(key);
            } else {
                self.dropped += end + 1 - start;
                self.gaps.push(self.keys.len());
            }
            start = end + 1;
        }
        self.ends.truncate(self.keys.len());
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
    pub fn precheck(&mut self, store: &Store) {
        // What fails now is looked up again, and fails, in its turn.
        self.precheck = store.precheck(&self.keys).ok().map(Box::new);
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

/// Why a stream could not be cut.
#[derive(Debug, thiserror::Error)]
pub enum SplitError {
    #[error(transparent)]
    Read(#[from] io::Error),
    /// The next item exceeds the maximum length.
    #[error("item too long")]
    ItemTooLong,
}

/// Fills blocks from one stream.
pub struct Splitter {
    separator: u8,
    /// See [`BLOCK`].
    block_size: usize,
    /// Maximum length of an item, without its separator.
    longest: usize,
    block: Block,
}

impl Splitter {
    pub fn new(separator: u8, longest: usize) -> Self {
        Self::with_sizes(separator, BLOCK, longest)
    }

    fn with_sizes(separator: u8, block_size: usize, longest: usize) -> Self {
        Splitter {
            separator,
            block_size,
            longest,
            block: Block::default(),
        }
    }

    /// Reads until the block holds a whole item, and stops with the read that completes it. Returns `false` at the end
    /// of the stream, where an item without a separator receives one.
    pub fn fill(&mut self, input: &mut impl Read) -> Result<bool, SplitError> {
        while self.block.ends.is_empty() {
            self.refuse_long()?;
            self.make_room()?;
            let block = &mut self.block;
            let until = block.storage.len().min(block.filled + self.block_size);
            let count = match input.read(&mut block.storage[block.filled..until]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            };
            if count == 0 {
                if block.filled > 0 {
                    block.storage[block.filled] = self.separator;
                    block.ends.push(block.filled);
                    block.filled += 1;
                }
                return Ok(false);
            }
            let (start, end) = (block.filled, block.filled + count);
            let found = memchr_iter(self.separator, &block.storage[start..end]);
            block.ends.extend(found.map(|at| start + at));
            block.filled = end;
        }
        self.refuse_long()?;
        Ok(true)
    }

    /// Refuses an item that is too long, and everything behind it, once the caller has taken the items before it.
    fn refuse_long(&mut self) -> Result<(), SplitError> {
        if self.block.filled <= self.longest {
            return Ok(());
        }
        let block = &mut self.block;
        let starts = iter::once(0).chain(block.ends.iter().map(|end| end + 1));
        let ends = block.ends.iter().copied().chain([block.filled]);
        let is_long = |(start, end): (usize, usize)| end - start > self.longest;
        match starts.zip(ends).position(is_long) {
            None => Ok(()),
            Some(0) => Err(SplitError::ItemTooLong),
            Some(before) => {
                block.ends.truncate(before);
                Ok(())
            }
        }
    }

    /// Returns whether whole items are available.
    pub fn has_items(&self) -> bool {
        self.block.len() > 0
    }

    /// Returns the whole items. The rest moves to `next`, whose memory is reused.
    pub fn take(&mut self, mut next: Block) -> Block {
        let whole = self.block.bytes();
        let rest = &self.block.storage[whole..self.block.filled];
        next.ends.clear();
        next.precheck = None;
        next.dropped = 0;
        next.gaps.clear();
        // A block that grew for one long item is replaced: a new one is smaller, and cheaper than clearing the old one.
        if next.storage.len() < self.block_size || next.storage.len() > 4 * self.block_size {
            next.storage = vec![0; self.block_size];
        }
        if next.storage.len() < rest.len() {
            next.storage.resize(rest.len(), 0);
        }
        next.storage[..rest.len()].copy_from_slice(rest);
        next.filled = rest.len();
        std::mem::replace(&mut self.block, next)
    }

    /// Doubles a full block, so that the moves of a long item cost a constant number per byte. The longest item and its
    /// separator fit.
    fn make_room(&mut self) -> Result<(), SplitError> {
        let storage = &mut self.block.storage;
        if self.block.filled < storage.len() {
            return Ok(());
        }
        let most = self.longest.saturating_add(1).max(self.block_size);
        let size = storage.len().saturating_mul(2).clamp(self.block_size, most);
        storage
            .try_reserve_exact(size - storage.len())
            .map_err(|_| io::Error::from(ErrorKind::OutOfMemory))?;
        storage.resize(size, 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns its bytes in pieces whose sizes the generator draws, with interruptions.
    struct Pieces<'a> {
        bytes: &'a [u8],
        random: fastrand::Rng,
        largest: usize,
    }

    impl Read for Pieces<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.random.u8(..8) == 0 {
                return Err(ErrorKind::Interrupted.into());
            }
            let piece = self.random.usize(1..=self.largest).min(into.len());
            self.bytes.read(&mut into[..piece])
        }
    }

    /// Returns all items of a stream, read through blocks that are used in turn.
    fn split(splitter: &mut Splitter, input: &mut impl Read) -> Result<Vec<Vec<u8>>, SplitError> {
        let (mut items, mut spare) = (Vec::new(), Block::default());
        loop {
            let more = splitter.fill(input)?;
            if splitter.has_items() {
                spare = splitter.take(spare);
                items.extend(spare.items().map(<[u8]>::to_vec));
                let mut joined: Vec<u8> = Vec::new();
                spare
                    .items()
                    .for_each(|item| joined.extend([item, &[splitter.separator]].concat()));
                assert_eq!(spare.run(0..spare.len()), joined);
                assert_eq!(spare.bytes(), joined.len());
            }
            if !more {
                return Ok(items);
            }
        }
    }

    /// The obvious twin.
    fn naive(separator: u8, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut items: Vec<Vec<u8>> = bytes
            .split(|byte| *byte == separator)
            .map(<[u8]>::to_vec)
            .collect();
        if items.last().is_some_and(Vec::is_empty) {
            items.pop();
        }
        items
    }

    #[test]
    fn any_piece_and_block_sizes_give_the_items_of_the_twin() {
        let mut random = fastrand::Rng::with_seed(1);
        for round in 0..2_000 {
            let (separator, sparse) = (*random.choice(&[b'\n', 0]).unwrap_or(&0), random.u8(1..40));
            let length = random.usize(0..400);
            let bytes: Vec<u8> = (0..length)
                .map(|_| {
                    if random.u8(..sparse) == 0 {
                        separator
                    } else {
                        random.u8(..)
                    }
                })
                .collect();
            let largest = random.usize(1..100);
            let mut splitter = Splitter::with_sizes(separator, random.usize(1..64), 1024);
            let mut input = Pieces {
                bytes: &bytes,
                random: random.fork(),
                largest,
            };
            let items = split(&mut splitter, &mut input).expect("fits");
            assert_eq!(items, naive(separator, &bytes), "round {round}");
        }
    }

    #[test]
    fn items_keyed_together_are_keyed_as_each() {
        let hasher = KeyHasher::new(everseen::Hash::Highway, &[7; 32]);
        let mut random = fastrand::Rng::with_seed(3);
        let mut spare = Block::default();
        for round in 0..500 {
            let items: Vec<Vec<u8>> = (0..random.usize(1..30))
                .map(|_| vec![random.u8(b'a'..b'd'); random.usize(..99)])
                .collect();
            let bytes = [&items.join(&b'\n')[..], b"\n"].concat();
            let mut splitter = Splitter::new(b'\n', 99);
            splitter.fill(&mut &bytes[..]).expect("reads");
            spare = splitter.take(spare);
            spare.key_all(&hasher);
            let keys: Vec<_> = items.iter().map(|item| hasher.key(item)).collect();
            assert_eq!(spare.keys(), keys, "round {round}");
        }
    }

    #[test]
    fn dropped_items_leave_the_others_and_the_count_of_bytes() {
        let hasher = everseen::hash::KeyHasher::new(everseen::Hash::Xxh3, &[0; 32]);
        let mut random = fastrand::Rng::with_seed(2);
        for round in 0..2_000 {
            let items: Vec<Vec<u8>> = (0..random.usize(1..30))
                .map(|_| vec![random.u8(b'a'..b'd'); random.usize(..9)])
                .collect();
            let bytes = items.join(&b'\n');
            let bytes = [&bytes[..], b"\n"].concat();
            let mut splitter = Splitter::new(b'\n', 99);
            splitter.fill(&mut &bytes[..]).expect("reads");
            let mut block = splitter.take(Block::default());
            block.key_by(|item| (!item.contains(&b'a')).then(|| hasher.key(item)));

            let kept: Vec<&Vec<u8>> = items.iter().filter(|item| !item.contains(&b'a')).collect();
            assert_eq!(block.items().collect::<Vec<_>>(), kept, "round {round}");
            let keys: Vec<_> = kept.iter().map(|item| hasher.key(item).bits()).collect();
            let got: Vec<_> = block.keys().iter().map(|key| key.bits()).collect();
            assert_eq!(got, keys, "round {round}");
            assert_eq!(block.bytes(), bytes.len(), "round {round}");
            block.come_from(&Arc::new("input".into()), 40);
            let lines: Vec<u64> = (41..)
                .zip(&items)
                .filter(|(_, item)| !item.contains(&b'a'))
                .map(|(line, _)| line)
                .collect();
            let told: Vec<u64> = (0..kept.len()).map(|item| block.place(item).line).collect();
            assert_eq!(told, lines, "round {round}");
            // A reused block has forgotten its items.
            splitter.fill(&mut &b"a\n"[..]).expect("reads");
            let second = splitter.take(block);
            assert_eq!(
                (second.bytes(), splitter.block.bytes()),
                (2, 0),
                "round {round}"
            );
        }
    }

    /// The twin says which items precede the first one that is too long, whatever the sizes of pieces and blocks.
    #[test]
    fn an_item_is_refused_when_it_is_too_long_and_those_before_it_are_given() {
        let mut random = fastrand::Rng::with_seed(4);
        for round in 0..2_000 {
            let longest = random.usize(1..100);
            let items: Vec<Vec<u8>> = (0..random.usize(1..20))
                .map(|_| vec![b'x'; random.usize(..longest + 2)])
                .collect();
            let mut bytes = items.join(&b'\n');
            bytes.extend(random.bool().then_some(b'\n'));
            let mut expected = naive(b'\n', &bytes);
            let long = expected.iter().position(|item| item.len() > longest);
            expected.truncate(long.unwrap_or(expected.len()));

            let mut splitter = Splitter::with_sizes(b'\n', random.usize(1..64), longest);
            let mut input = Pieces {
                bytes: &bytes,
                random: random.fork(),
                largest: random.usize(1..100),
            };
            let (mut items, mut more, mut refused) = (Vec::new(), true, false);
            while more && !refused {
                match splitter.fill(&mut input) {
                    Ok(goes_on) => more = goes_on,
                    Err(SplitError::ItemTooLong) => refused = true,
                    Err(SplitError::Read(error)) => panic!("{error}"),
                }
                if !refused && splitter.has_items() {
                    let block = splitter.take(Block::default());
                    items.extend(block.items().map(<[u8]>::to_vec));
                }
                let most = splitter.block_size.max(longest + 1);
                assert!(splitter.block.storage.len() <= most, "round {round}");
            }
            assert_eq!(
                (items, refused),
                (expected, long.is_some()),
                "round {round}"
            );
        }
    }

    #[test]
    fn what_a_read_gives_is_passed_on_at_once() {
        let mut splitter = Splitter::new(b'\n', 99);
        let mut input = (&b"one\ntw"[..]).chain(&b"o\n"[..]);
        assert!(splitter.fill(&mut input).expect("reads"));
        let block = splitter.take(Block::default());
        assert_eq!(block.run(0..block.len()), b"one\n");
        assert!(splitter.fill(&mut input).expect("reads"));
        assert_eq!(splitter.take(block).run(0..1), b"two\n");
    }

    #[test]
    fn a_block_that_grew_shrinks_when_it_is_used_again() {
        let mut splitter = Splitter::with_sizes(b'\n', 16, 1 << 20);
        let bytes = [vec![b'x'; 10_000], vec![b'\n']].concat();
        splitter.fill(&mut &bytes[..]).expect("reads");
        let large = splitter.take(Block::default());
        assert!(large.storage.len() > 10_000);
        splitter.fill(&mut &b"y\n"[..]).expect("reads");
        splitter.take(large);
        assert_eq!(splitter.block.storage.len(), 16);
    }
}
