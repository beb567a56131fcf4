//! The write buffer: the keys since the last checkpoint, in memory that processes may share.
//!
//! A buffer belongs to one generation and is never emptied or reused. It begins with a few words about that
//! generation's log. The transactions follow, then the table of keys.

mod bucket;
mod by_model;
mod closed_keys;
mod count_table;
mod integrity;
mod key_bitmap;
#[cfg(all(test, loom))]
mod loom;
#[cfg(test)]
mod model;
mod removal;
pub(crate) mod shared_clock;
mod state;
mod table;
mod transactions;

use std::io;
use std::path::Path;

use crate::page::KeyModel;
use crate::sys::sync::{AtomicU64, Ordering};
use crate::sys::{Folder, Region, SECOND_MAGIC};
pub(crate) use bucket::Slot;
pub(crate) use closed_keys::{ClosedKeys, DecidedBy};
pub(crate) use integrity::{Digest, OpenChange, OpenKeys, ShmCorruption, Sum};
pub(crate) use key_bitmap::KeyBitmap;
pub(crate) use removal::RemovalClaim;
pub(crate) use state::COMMITTED;
pub(crate) use table::{Claim, POPULATED_FROM, Presence};

const BUFFER_MAGIC: u64 = u64::from_le_bytes(*b"EVERBUF5");
const HEADER_WORDS: u64 = 64;
const MOST_TRANSACTIONS: u64 = 8184;

/// A bucket is one line of the processor's cache, so what lies before the first one is whole lines.
const _: () = assert!(HEADER_WORDS.is_multiple_of(bucket::BUCKET_WORDS as u64));
const _: () = assert!(MOST_TRANSACTIONS.is_multiple_of(bucket::BUCKET_WORDS as u64));

/// The meanings of the words at the front.
#[derive(Debug, Clone, Copy)]
#[repr(usize)]
enum Word {
    Magic,
    Generation,
    Transactions,
    Homes,
    /// Its parity selects which of the two tails is valid.
    TailTurn,
    Tails,
    Applied = Word::Tails as usize + 4,
    Durable,
    Allocated,
    Sealed,
    Used,
    Keys,
    Room,
    /// The number of failed syncs of the log, and how many of them have been repaired.
    Failures,
    Mended,
    NextTransaction,
    /// Where keys can be removed: inserts minus removes, signed.
    Net,
    /// How many removals were ever claimed.
    Removals,
    /// Rises before and after each transaction that is given up, so that it is odd in between.
    Aborts,
    /// Of a store that forgets: the time at which the log began.
    Clock,
}

/// The words that hold the magic.
const MAGIC_WORDS: [usize; 2] = [Word::Magic as usize, SECOND_MAGIC];

const _: () =
    assert!((Word::Clock as usize) < SECOND_MAGIC && SECOND_MAGIC < HEADER_WORDS as usize);

/// The end of a generation's log, and the CRC of the log's last record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tail {
    /// 0 while there is no log.
    pub(crate) end: u64,
    pub(crate) previous: u32,
}

/// The buffer of one generation.
///
/// Only one thread at a time may call a method that changes the buffer; the writer lock ensures that. If two ever did
/// so, keys could be lost but memory would stay sound: whatever the words are, no call panics or reaches beyond them.
#[derive(Debug)]
pub(crate) struct Buffer {
    region: Region,
    generation: u64,
    transactions: u64,
    homes: u64,
    /// What the states of the keys in the table mean.
    model: KeyModel,
    /// An impossible state that this handle found in the table; 0 if it found none.
    nonsense: AtomicU64,
}

impl Buffer {
    /// Creates a buffer of about `bytes` that is private to this process.
    pub(crate) fn private(bytes: u64, generation: u64) -> io::Result<Self> {
        let shape = Shape::of(bytes);
        let region = Region::private(shape.words())?;
        Ok(Self::begin(region, shape, generation))
    }

    /// Creates a buffer of about `bytes` in a new file.
    pub(crate) fn create(
        folder: &Folder,
        path: &Path,
        bytes: u64,
        generation: u64,
    ) -> io::Result<Self> {
        let shape = Shape::of(bytes);
        let region = Region::create(folder, path, shape.words())?;
        Ok(Self::begin(region, shape, generation))
    }

    /// Creates the same, quickly, and without memory where the folder's system keeps what is reserved: pages come one by
    /// one with the keys, until these are many. A caller that knows that many come calls [`fill`](Self::fill) before the
    /// first.
    pub(crate) fn reserve(
        folder: &Folder,
        path: &Path,
        bytes: u64,
        generation: u64,
    ) -> io::Result<Self> {
        let shape = Shape::of(bytes);
        let region = Region::reserve(folder, path, shape.words())?;
        Ok(Self::begin(region, shape, generation))
    }

    /// Prepares a buffer for many keys. It erases those that the buffer has.
    pub(crate) fn fill(&self) -> io::Result<()> {
        self.region.fill()
    }

    /// Brings the whole buffer into memory at once.
    pub(crate) fn populate(&self) {
        self.region.populate();
    }

    /// Creates a file of zeros, except for magic and shape, that a buffer of about `bytes` can [adopt](Self::adopt) at
    /// once.
    pub(crate) fn blank(folder: &Folder, path: &Path, bytes: u64) -> io::Result<()> {
        let shape = Shape::of(bytes);
        let region = Region::create(folder, path, shape.words())?;
        // Shape, but no generation yet.
        Self::begin(region, shape, 0);
        Ok(())
    }

    /// Creates a buffer in a file that [`blank`](Self::blank) created, of the size for which it was created.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::InvalidData`] if the file is none of these, or no longer blank.
    pub(crate) fn adopt(folder: &Folder, path: &Path, generation: u64) -> io::Result<Self> {
        let region = Region::take_over(folder, path)?;
        let shape = Shape::stated(&region, 0).ok_or(io::ErrorKind::InvalidData)?;
        let stated = [Word::Transactions as usize, Word::Homes as usize];
        let words = region.words().iter().enumerate();
        let front = words.take(HEADER_WORDS as usize);
        let rest = front.filter(|(at, _)| !MAGIC_WORDS.contains(at) && !stated.contains(at));
        if rest.fold(0, |all, (_, word)| all | word.load(Ordering::Acquire)) != 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self::begin(region, shape, generation))
    }

    fn begin(region: Region, shape: Shape, generation: u64) -> Self {
        assert_eq!(region.words().len() as u64, shape.words());
        // A state names a transaction, in 16 bits, and a hash has a home.
        assert!(shape.transactions <= MOST_TRANSACTIONS && shape.homes > 0);
        let buffer = Self {
            region,
            generation,
            transactions: shape.transactions,
            homes: shape.homes,
            model: KeyModel::GrowOnlySet,
            nonsense: AtomicU64::new(0),
        };
        buffer.set(Word::Generation, generation);
        buffer.set(Word::Transactions, shape.transactions);
        buffer.set(Word::Homes, shape.homes);
        for index in MAGIC_WORDS {
            buffer.region.words()[index].store(BUFFER_MAGIC, Ordering::Release);
        }
        buffer
    }

    /// Opens the buffer in a file that [`create`](Self::create) created for this generation.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::InvalidData`] if the file holds no such buffer.
    pub(crate) fn open(
        folder: &Folder,
        path: &Path,
        generation: u64,
        write: bool,
    ) -> io::Result<Self> {
        let region = Region::open(folder, path, write)?;
        let shape = Shape::stated(&region, generation).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self {
            region,
            generation,
            transactions: shape.transactions,
            homes: shape.homes,
            model: KeyModel::GrowOnlySet,
            nonsense: AtomicU64::new(0),
        })
    }

    /// Returns the buffer's generation.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the bytes of memory that the buffer takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.region.words().len() as u64 * 8
    }

    fn word(&self, word: Word) -> &AtomicU64 {
        &self.region.words()[word as usize]
    }

    fn get(&self, word: Word) -> u64 {
        self.word(word).load(Ordering::Acquire)
    }

    fn set(&self, word: Word, value: u64) {
        self.word(word).store(value, Ordering::Release);
    }

    /// Returns the end of the log. Without the writer lock, one call may return the end that is being published and the
    /// next call the one before it, but never an end before the one that was published at the time of the call.
    pub(crate) fn tail(&self) -> Tail {
        let turn = self.get(Word::TailTurn) % 2;
        let at = Word::Tails as usize + 2 * turn as usize;
        let words = self.region.words();
        Tail {
            end: words[at].load(Ordering::Acquire),
            previous: words[at + 1].load(Ordering::Acquire) as u32,
        }
    }

    /// Returns an end that no other one exceeds that [`tail`](Self::tail) has returned up to now.
    pub(crate) fn furthest_end(&self) -> u64 {
        let ends = [0, 2].map(|at| &self.region.words()[Word::Tails as usize + at]);
        ends.map(|end| end.load(Ordering::Acquire))
            .into_iter()
            .fold(self.tail().end, u64::max)
    }

    /// Publishes a complete record. Both words change in one step, so that a holder of the writer lock that dies in
    /// between leaves one tail or the other.
    pub(crate) fn set_tail(&self, tail: Tail) {
        let turn = self.get(Word::TailTurn).wrapping_add(1);
        let at = Word::Tails as usize + 2 * (turn % 2) as usize;
        let words = self.region.words();
        words[at].store(tail.end, Ordering::Release);
        words[at + 1].store(u64::from(tail.previous), Ordering::Release);
        self.set(Word::TailTurn, turn);
    }

    /// Returns the offset up to which the log's records are in the table.
    pub(crate) fn applied(&self) -> u64 {
        self.get(Word::Applied)
    }

    pub(crate) fn set_applied(&self, end: u64) {
        self.set(Word::Applied, end);
    }

    /// Returns the offset up to which the log is known to be durable.
    pub(crate) fn durable(&self) -> u64 {
        self.get(Word::Durable)
    }

    pub(crate) fn set_durable(&self, end: u64) {
        self.word(Word::Durable).fetch_max(end, Ordering::AcqRel);
    }

    /// Returns the number of failed syncs of the log, and how many of them have been repaired.
    pub(crate) fn failures(&self) -> (&AtomicU64, &AtomicU64) {
        (self.word(Word::Failures), self.word(Word::Mended))
    }

    /// Returns the bytes allocated to the log file.
    pub(crate) fn allocated(&self) -> u64 {
        self.get(Word::Allocated)
    }

    pub(crate) fn set_allocated(&self, length: u64) {
        self.set(Word::Allocated, length);
    }

    /// Returns whether the log contains the record that closes it.
    pub(crate) fn is_sealed(&self) -> bool {
        self.get(Word::Sealed) != 0
    }

    pub(crate) fn set_sealed(&self) {
        self.set(Word::Sealed, 1);
    }

    /// Returns whether no key was ever claimed in the buffer. If so, a reader need not search it: a key is counted
    /// before it becomes visible.
    #[inline]
    pub(crate) fn is_unused(&self) -> bool {
        self.used() == 0
    }

    /// Returns the number of keys in the table that were not dropped.
    pub(crate) fn keys(&self) -> u64 {
        self.get(Word::Keys)
    }

    pub(crate) fn set_keys(&self, keys: u64) {
        self.set(Word::Keys, keys);
    }

    /// Returns whether a key was ever removed in the buffer.
    #[inline]
    pub(crate) fn has_removals(&self) -> bool {
        self.get(Word::Removals) != 0
    }

    /// Returns the number of the transactions that were given up, to compare with; `None` while one is.
    #[inline]
    pub(crate) fn aborts(&self) -> Option<u64> {
        Some(self.get(Word::Aborts)).filter(|aborts| aborts.is_multiple_of(2))
    }

    /// Returns how many committed keys the buffer accepts before rotation, so that they fill a layer exactly.
    pub(crate) fn room(&self) -> u64 {
        self.get(Word::Room)
    }

    /// Returns the time of all keys of the buffer, in a store that forgets; `None` if something else has written over it.
    #[inline]
    pub(crate) fn clock(&self) -> Option<u64> {
        shared_clock::unpack(self.get(Word::Clock))
    }

    pub(crate) fn set_clock(&self, clock: u64) {
        self.set(Word::Clock, shared_clock::pack(clock));
    }

    pub(crate) fn set_room(&self, keys: u64) {
        self.set(Word::Room, keys);
    }
}

/// The division of a region's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    transactions: u64,
    homes: u64,
}

impl Shape {
    fn of(bytes: u64) -> Self {
        // Whole cache lines, like buckets.
        let transactions = (bytes / 256 / 8 * 8).clamp(64, MOST_TRANSACTIONS);
        let fixed = HEADER_WORDS + transactions;
        let buckets = (bytes / 8).saturating_sub(fixed) / bucket::BUCKET_WORDS as u64;
        Self {
            transactions,
            homes: buckets.saturating_sub(table::REACH).max(64),
        }
    }

    /// Returns what a region says of its own division, if that is possible and fits the region's length, and the region
    /// belongs to this generation.
    fn stated(region: &Region, generation: u64) -> Option<Self> {
        let words = region.words();
        let word = |word: Word| match words.get(word as usize) {
            Some(found) => found.load(Ordering::Acquire),
            None => 0,
        };
        let shape = Self {
            transactions: word(Word::Transactions),
            homes: word(Word::Homes),
        };
        let fits = word(Word::Magic) == BUFFER_MAGIC
            && word(Word::Generation) == generation
            && shape.homes > 0
            && shape.homes < 1 << 40
            && shape.transactions <= MOST_TRANSACTIONS
            && shape.words() == words.len() as u64;
        fits.then_some(shape)
    }

    fn words(&self) -> u64 {
        let buckets = self.homes + table::REACH;
        HEADER_WORDS + self.transactions + buckets * bucket::BUCKET_WORDS as u64
    }

    fn limit(&self) -> u64 {
        self.homes * bucket::SLOTS as u64 / 4 * 3
    }
}

/// Returns the number of keys that a buffer of about `bytes` accepts.
pub(crate) fn limit_of(bytes: u64) -> u64 {
    Shape::of(bytes).limit()
}

/// Returns the bytes that a buffer for `keys` needs, approximately but never too few.
pub(crate) fn bytes_for(keys: u64) -> u64 {
    let mut bytes = keys.saturating_mul(15).saturating_add(65_536);
    while limit_of(bytes) < keys {
        bytes = bytes.saturating_add(bytes / 16);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_for_keys_hold_them() {
        for keys in [0, 1, 1000, 12_345, 1_000_000, 1 << 33] {
            let bytes = bytes_for(keys);
            assert!(limit_of(bytes) >= keys, "{keys}");
            assert!(bytes < keys * 20 + 100_000, "{keys}: {bytes}");
        }
    }

    #[test]
    fn a_reserved_buffer_keeps_its_keys_when_it_gets_all_of_its_memory() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = &Folder::open(temporary.path()).unwrap();
        let path = temporary.path().join("buffer");
        let made = Buffer::reserve(folder, &path, 4 << 20, 7).unwrap();
        // The key that has it come may be of another handle.
        let opened = Buffer::open(folder, &path, 7, true).unwrap();
        let hash = |key: u64| crate::hash::finalise(key);
        for key in 0..POPULATED_FROM + 2 {
            let buffer = if key % 2 == 0 { &made } else { &opened };
            let Claim::Claimed(slot) = buffer.claim(hash(key)) else {
                panic!("there is room for {key}");
            };
            buffer.publish(slot, COMMITTED);
        }
        for buffer in [&made, &opened] {
            let held = (0..POPULATED_FROM + 2).filter(|key| buffer.contains(hash(*key)));
            assert_eq!(held.count() as u64, POPULATED_FROM + 2);
        }
        assert_eq!(made.used(), POPULATED_FROM + 2);
    }

    #[test]
    fn a_buffer_in_a_file_is_the_same_to_all_who_open_it() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = &Folder::open(temporary.path()).unwrap();
        let path = temporary.path().join("buffer");
        let made = Buffer::create(folder, &path, 1 << 20, 7).unwrap();
        let opened = Buffer::open(folder, &path, 7, true).unwrap();
        let tail = Tail {
            end: 99,
            previous: 5,
        };
        made.set_tail(tail);
        assert_eq!(opened.tail(), tail);
        let Claim::Claimed(slot) = made.claim(1) else {
            panic!("an empty buffer has room");
        };
        made.publish(slot, COMMITTED);
        assert!(opened.contains(1));
        let reader = Buffer::open(folder, &path, 7, false).unwrap();
        assert!(reader.contains(1));
        let wrong = Buffer::open(folder, &path, 8, true).unwrap_err();
        assert_eq!(wrong.kind(), io::ErrorKind::InvalidData);
        let again = Buffer::create(folder, &path, 1 << 20, 7).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }
}
