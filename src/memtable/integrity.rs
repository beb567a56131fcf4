//! Checks a buffer's words before they are trusted.
//!
//! Other processes write to a buffer too, and may write wrong values. Each word is checked before it is used for
//! writing or for finding a place. A word within its range may still be wrong: the [sum](Buffer::sum) that each holder
//! of the writer lock leaves for the next one reveals that.

use std::ops::RangeInclusive;

use super::transactions::Transaction;
use super::{Buffer, Tail, Word};
use crate::sys::sync::Ordering;

/// A word of shared memory that can't be what its writer stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShmCorruption {
    pub(crate) word: &'static str,
    pub(crate) expected: String,
    pub(crate) got: u64,
}

impl ShmCorruption {
    /// Returns an error unless the word is in the range.
    #[inline]
    pub(crate) fn unless_in(
        word: &'static str,
        range: RangeInclusive<u64>,
        got: u64,
    ) -> Result<(), Self> {
        if range.contains(&got) {
            return Ok(());
        }
        Err(Self::outside(word, &range, got))
    }

    #[cold]
    fn outside(word: &'static str, range: &RangeInclusive<u64>, got: u64) -> Self {
        let (least, most) = (range.start(), range.end());
        let expected = match least == most {
            true => least.to_string(),
            false => format!("{least} to {most}"),
        };
        Self {
            word,
            expected,
            got,
        }
    }
}

/// A sum of words that changes if any of the words does.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum {
    sum: u64,
    factor: u64,
}

impl Sum {
    /// Odd, like every factor that follows it, so that a changed word changes the sum.
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    const STEP: u64 = 0xD1B5_4A32_D192_ED02;

    #[inline]
    pub(crate) fn add(&mut self, word: u64) {
        let factor = Self::FACTOR.wrapping_add(self.factor);
        self.sum = self.sum.wrapping_add(word.wrapping_mul(factor));
        self.factor = self.factor.wrapping_add(Self::STEP);
    }

    /// Returns the sum, which is never 0.
    #[inline]
    pub(crate) fn value(self) -> u64 {
        self.sum.max(1)
    }
}

/// The number of keys and a sum over their hashes: equal for two sets that hold the same keys. In a counting store,
/// each key counts as often as it was inserted minus how often it was removed.
///
/// Each hash is mixed before it is added. In a plain sum, two changed words could cancel each other out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Digest {
    pub(crate) keys: u64,
    pub(crate) sum: u64,
}

impl Digest {
    #[inline]
    pub(crate) fn add(&mut self, hash: u64, times: i64) {
        self.keys = self.keys.wrapping_add_signed(times);
        let times = times.cast_unsigned();
        self.sum = self.sum.wrapping_add(mixed(hash).wrapping_mul(times));
    }

    /// Returns the inserts less the removes.
    pub(crate) fn net(self) -> i64 {
        self.keys.cast_signed()
    }

    /// Returns the digest of some keys, each counted once.
    pub(crate) fn of(hashes: &[u64]) -> Self {
        let mut all = Self::default();
        all.add_all(hashes.iter().copied(), 1);
        all
    }

    /// Returns the digest of some keys, each counted the given number of times.
    pub(crate) fn of_nets(nets: &[(u64, i64)]) -> Self {
        let mut all = Self::default();
        nets.iter().for_each(|(hash, net)| all.add(*hash, *net));
        all
    }

    pub(crate) fn add_all(&mut self, hashes: impl Iterator<Item = u64>, times: i64) {
        let mut all = Self::default();
        hashes.for_each(|hash| all.add(hash, 1));
        self.merge(all, times);
    }

    pub(crate) fn merge(&mut self, other: Self, times: i64) {
        let times = times.cast_unsigned();
        let keys = other.keys.wrapping_mul(times);
        self.keys = self.keys.wrapping_add(keys);
        self.sum = self.sum.wrapping_add(other.sum.wrapping_mul(times));
    }
}

/// What a handle's open transaction has done to a key. If it did more than that, it undid it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenChange {
    Insert,
    Remove,
    InsertAndRemove,
    RemoveAndInsert,
}

/// What a handle has changed and not committed yet. Its records are all removes, then all inserts, and then all removes of
/// keys that were just inserted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OpenKeys {
    pub(crate) removed: Vec<u64>,
    pub(crate) inserted: Vec<u64>,
    pub(crate) withdrawn: Vec<u64>,
}

impl OpenKeys {
    /// Returns the keys of a handle's open transaction, as they are in the table.
    pub(crate) fn of(buffer: &Buffer, handle: u64) -> Self {
        let mut open = Self::default();
        buffer.for_each_in(&(0..=u64::MAX), |hash, state| {
            if let Some(change) = buffer.open_change_of(state, handle) {
                open.add(change, hash, hash);
            }
        });
        open
    }

    /// Adds what the transaction has done to a key. `inserted` and `removed` are the hashes under which it did that.
    pub(crate) fn add(&mut self, change: OpenChange, inserted: u64, removed: u64) {
        match change {
            OpenChange::Insert => self.inserted.push(inserted),
            OpenChange::Remove => self.removed.push(removed),
            OpenChange::InsertAndRemove => {
                self.inserted.push(inserted);
                self.withdrawn.push(removed);
            }
            OpenChange::RemoveAndInsert => {
                self.removed.push(removed);
                self.inserted.push(inserted);
            }
        }
    }

    /// Returns the records, in order: some keys, and whether they are inserted.
    pub(crate) fn records(&self) -> impl Iterator<Item = (&[u64], bool)> {
        let records = [
            (&self.removed, false),
            (&self.inserted, true),
            (&self.withdrawn, false),
        ];
        let records = records.map(|(hashes, is_insert)| (hashes.as_slice(), is_insert));
        records.into_iter().filter(|(hashes, _)| !hashes.is_empty())
    }

    /// Returns the digest of the keys as a buffer takes them.
    pub(crate) fn digest(&self, buffer: &Buffer) -> Digest {
        let mut digest = Digest::default();
        for (hashes, is_insert) in self.records() {
            let canonical = hashes.iter().map(|hash| buffer.canonical(*hash));
            digest.add_all(canonical, if is_insert { 1 } else { -1 });
        }
        digest
    }

    /// Returns the number of changes.
    pub(crate) fn count(&self) -> u64 {
        let counts = self.records().map(|(hashes, _)| hashes.len() as u64);
        counts.sum()
    }

    /// Returns the inserts less the removes.
    pub(crate) fn net(&self) -> i64 {
        let nets = self.records().map(|(hashes, is_insert)| match is_insert {
            true => hashes.len() as i64,
            false => -(hashes.len() as i64),
        });
        nets.sum()
    }
}

/// Mixes a hash non-linearly, so that differences between hashes are not preserved.
#[inline]
fn mixed(hash: u64) -> u64 {
    let spread = (hash ^ (hash >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (spread ^ (spread >> 29)).wrapping_mul(0xD1B5_4A32_D192_ED03)
}

/// The offset of a log's first record. Only the tail of a buffer without a log lies below it.
const FIRST_TAIL: u64 = 4096;

impl Buffer {
    /// Checks each word that the holder of the writer lock is about to use, on its own.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), ShmCorruption> {
        let tail = self.tail();
        if !tail.end.is_multiple_of(8) || (tail.end != 0 && tail.end < FIRST_TAIL) {
            return Err(ShmCorruption {
                word: "tail",
                expected: format!("0, or a multiple of 8 from {FIRST_TAIL} on"),
                got: tail.end,
            });
        }
        ShmCorruption::unless_in("tail", 0..=self.allocated(), tail.end)?;
        ShmCorruption::unless_in("applied", 0..=tail.end, self.applied())?;
        ShmCorruption::unless_in("durable", 0..=tail.end, self.durable())?;
        ShmCorruption::unless_in("used", 0..=self.limit(), self.used())?;
        ShmCorruption::unless_in("sealed", 0..=0, self.is_sealed().into())
    }

    /// Adds the words that change under the writer lock alone. Returns the tail and the allocated bytes as they went
    /// into the sum: read a second time, they might be others.
    #[inline]
    pub(crate) fn sum(&self, sum: &mut Sum) -> (Tail, u64) {
        let words = self.region.words();
        let load = |word: usize| words[word].load(Ordering::Relaxed);
        sum.add(self.generation);
        let mut turn_and_tails = [0; 5];
        for (word, loaded) in (Word::TailTurn as usize..).zip(&mut turn_and_tails) {
            *loaded = load(word);
            sum.add(*loaded);
        }
        sum.add(load(Word::Applied as usize));
        let allocated = load(Word::Allocated as usize);
        sum.add(allocated);
        for word in [
            Word::Sealed,
            Word::Used,
            Word::Keys,
            Word::Room,
            Word::Net,
            Word::Removals,
            Word::Aborts,
        ] {
            sum.add(load(word as usize));
        }
        let at = 1 + 2 * (turn_and_tails[0] % 2) as usize;
        let tail = Tail {
            end: turn_and_tails[at],
            previous: turn_and_tails[at + 1] as u32,
        };
        (tail, allocated)
    }

    /// Returns whether `state` is that of a handle's open transaction.
    pub(crate) fn is_open(&self, state: u16, handle: u64) -> bool {
        self.transaction(state) == Transaction::Open(handle)
    }

    /// Returns a state that was found in the table although no writer gives it to a key.
    pub(crate) fn nonsense(&self) -> Option<ShmCorruption> {
        match self.nonsense.load(Ordering::Relaxed) {
            0 => None,
            state => Some(ShmCorruption {
                word: "state",
                expected: format!("below {}", self.states_end()),
                got: state,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{COMMITTED, Claim};
    use super::*;

    fn buffer() -> Buffer {
        let buffer = Buffer::private(1 << 16, 3).unwrap();
        buffer.set_allocated(65_536);
        for (end, previous) in [(4096, 7), (4160, 8)] {
            buffer.set_tail(Tail { end, previous });
        }
        buffer.set_applied(4160);
        buffer.set_durable(4096);
        buffer
    }

    fn sum_of(buffer: &Buffer) -> u64 {
        let mut sum = Sum::default();
        buffer.sum(&mut sum);
        sum.value()
    }

    #[test]
    fn each_word_out_of_its_range_is_named() {
        assert_eq!(buffer().check(), Ok(()));
        let wrong = |word: Word, value: u64| {
            let buffer = buffer();
            buffer.set(word, value);
            let wrong = buffer.check().unwrap_err();
            (wrong.word, wrong.got)
        };
        let current = Word::Tails as usize;
        assert_eq!(current % 2, 1, "two tails of two words");
        assert_eq!(wrong(Word::Tails, 4161), ("tail", 4161));
        assert_eq!(wrong(Word::Tails, 4088), ("tail", 4088));
        assert_eq!(wrong(Word::Tails, 1 << 40), ("tail", 1 << 40));
        assert_eq!(wrong(Word::Allocated, 4096), ("tail", 4160));
        assert_eq!(wrong(Word::Applied, 4168), ("applied", 4168));
        assert_eq!(wrong(Word::Durable, u64::MAX), ("durable", u64::MAX));
        let more = buffer().limit() + 1;
        assert_eq!(wrong(Word::Used, more), ("used", more));
        assert_eq!(wrong(Word::Sealed, 1), ("sealed", 1));
    }

    #[test]
    fn each_word_that_changes_under_the_lock_alone_makes_another_sum() {
        let before = sum_of(&buffer());
        assert_ne!(before, 0);
        let first = Word::TailTurn as usize;
        for word in first..=Word::Aborts as usize {
            let buffer = buffer();
            let old = buffer.region.words()[word].load(Ordering::Relaxed);
            buffer.region.words()[word].store(old ^ 1 << 20, Ordering::Relaxed);
            let free = [
                Word::Durable,
                Word::Failures,
                Word::Mended,
                Word::NextTransaction,
            ];
            let counts = !free.iter().any(|free| *free as usize == word);
            assert_eq!(sum_of(&buffer) != before, counts, "word {word}");
        }
    }

    #[test]
    fn the_tail_that_was_summed_is_the_one_that_counts() {
        let buffer = buffer();
        for end in [4168, 4176, 4184] {
            buffer.set_tail(Tail { end, previous: 9 });
            let summed = buffer.sum(&mut Sum::default());
            assert_eq!(summed, (buffer.tail(), buffer.allocated()));
            assert_eq!(summed.0.end, end);
        }
    }

    #[test]
    fn a_state_that_nobody_gives_is_told_and_its_key_absent() {
        let buffer = buffer();
        let Claim::Claimed(slot) = buffer.claim(7) else {
            panic!("an empty buffer has room");
        };
        buffer.publish(slot, COMMITTED);
        assert_eq!(buffer.nonsense(), None);
        buffer.publish(slot, u16::MAX);
        assert!(!buffer.contains(7));
        assert_eq!(buffer.nonsense().unwrap().got, u16::MAX.into());
        // Nothing is written for it.
        buffer.commit_transaction(u16::MAX);
        buffer.abort_transaction(0);
        assert!(!buffer.contains(7));
    }

    #[test]
    fn changes_that_make_up_for_each_other_change_a_digest() {
        for n in 0..100_000_u64 {
            let pair = [n, !n].map(|n| n.wrapping_mul(0x2545_F491_4F6C_DD1D));
            let before = Digest::of(&pair);
            for by in [1, 8, 1 << 32, 1 << 60, 1 << 63] {
                let after = [pair[0].wrapping_add(by), pair[1].wrapping_sub(by)];
                assert_ne!(Digest::of(&after), before, "{pair:x?} by {by}");
                assert_ne!(Digest::of(&[pair[0] ^ by, pair[1] ^ by]), before);
            }
        }
    }
}
