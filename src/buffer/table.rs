//! A hash table with one writer at a time and any number of readers, in a region of words that may
//! lie in shared memory.
//!
//! A bucket is one cache line: six hashes (words 0 to 5) and six 16-bit states (words 6 and 7).
//! The home bucket of a hash is its high bits, as its page is, so a walk over the buckets meets the
//! keys in nearly the order of the pages. A bucket that is full overflows into the next one; the
//! first bucket that is not full ends every search. Nothing is ever taken out: a key that is
//! dropped keeps its slot and changes its state.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::page::place::page_of;
use crate::sys::{self, Region};

const BUCKET_WORDS: usize = 8;
const BUCKET_BYTES: u64 = 64;
const SLOTS: usize = 6;
const STATES: usize = 6;
/// How many buckets past its home a key may lie. At three quarters full, none comes near.
const REACH: u64 = 128;

/// State: no key.
const EMPTY: u16 = 0;
/// State of a key that counts for good.
pub(crate) const COMMITTED: u16 = 1;
/// State of a key that was given up.
const DROPPED: u16 = 2;
/// State of a key that is not in the log yet. Readers pass it by; the writer, who alone can meet
/// its own claim, takes it for present.
const CLAIMED: u16 = 3;
/// States from here on are transactions: the key counts once its transaction is committed.
pub(crate) const FIRST_TRANSACTION: u16 = 4;
/// The last of them.
pub(crate) const LAST_TRANSACTION: u16 = u16::MAX;

/// Where a claimed key lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    bucket: usize,
    place: usize,
}

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The key was there.
    Present,
    /// The key is claimed; to be published or retracted.
    Claimed(Slot),
    /// The table is full.
    NoRoom,
}

/// The table. Methods that change it may be called by one thread at a time, which the writer lock
/// sees to; should two ever do so, keys could be lost but memory would stay sound.
#[derive(Debug)]
pub(crate) struct Table {
    region: Region,
    /// Buckets that can be a home; behind them [`REACH`] more take what overflows.
    homes: u64,
    /// Most slots in use.
    limit: u64,
    used: AtomicU64,
}

impl Table {
    /// The least size of a table.
    pub(crate) const LEAST_BYTES: u64 = 2 * (REACH + 64) * BUCKET_BYTES;

    /// An empty table of about `bytes`.
    pub(crate) fn new(bytes: u64) -> std::io::Result<Self> {
        let buckets = bytes.max(Self::LEAST_BYTES) / BUCKET_BYTES;
        let region = Region::private(buckets * BUCKET_WORDS as u64)?;
        let homes = buckets - REACH;
        Ok(Self {
            region,
            homes,
            limit: Self::limit_of(bytes),
            used: AtomicU64::new(0),
        })
    }

    /// The keys that a table of about `bytes` takes.
    pub(crate) fn limit_of(bytes: u64) -> u64 {
        let homes = bytes.max(Self::LEAST_BYTES) / BUCKET_BYTES - REACH;
        homes * SLOTS as u64 / 4 * 3
    }

    /// The bytes that a table for `keys` needs.
    pub(crate) fn bytes_for(keys: u64) -> u64 {
        let homes = (keys / 3 + 1).saturating_mul(4).div_ceil(SLOTS as u64) + 1;
        (homes + REACH).saturating_mul(BUCKET_BYTES)
    }

    /// The keys it takes.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Slots in use, dropped keys included.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        page_of(hash, self.homes) as usize
    }

    #[inline]
    fn bucket(&self, index: usize) -> &[AtomicU64; BUCKET_WORDS] {
        let words = &self.region.words()[index * BUCKET_WORDS..];
        let Some(bucket) = words.first_chunk() else {
            unreachable!("the region holds whole buckets");
        };
        bucket
    }

    /// Fetches the key's home bucket.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        sys::prefetch(&self.region.words()[self.home(hash) * BUCKET_WORDS]);
    }

    /// Whether the key is there, claimed ones and dropped ones aside.
    #[inline]
    pub(crate) fn contains(&self, hash: u64) -> bool {
        for index in self.home(hash)..self.region.words().len() / BUCKET_WORDS {
            let bucket = self.bucket(index);
            let states = load_states(bucket);
            for (place, word) in bucket[..SLOTS].iter().enumerate() {
                let state = state_of(states, place);
                if state == EMPTY {
                    return false;
                }
                if word.load(Ordering::Relaxed) == hash {
                    return state != DROPPED && state != CLAIMED;
                }
            }
        }
        false
    }

    /// Claims a slot for the key unless it is there. Readers don't see it before
    /// [`publish`](Self::publish).
    #[inline]
    pub(crate) fn claim(&self, hash: u64) -> Claim {
        let home = self.home(hash);
        for index in home..=home + REACH as usize - 1 {
            let bucket = self.bucket(index);
            let states = load_states(bucket);
            for (place, word) in bucket[..SLOTS].iter().enumerate() {
                let state = state_of(states, place);
                let slot = Slot {
                    bucket: index,
                    place,
                };
                if state == EMPTY {
                    if self.used() >= self.limit {
                        return Claim::NoRoom;
                    }
                    word.store(hash, Ordering::Relaxed);
                    self.set_state(slot, CLAIMED);
                    self.used.fetch_add(1, Ordering::Relaxed);
                    return Claim::Claimed(slot);
                }
                if word.load(Ordering::Relaxed) == hash {
                    if state != DROPPED {
                        return Claim::Present;
                    }
                    self.set_state(slot, CLAIMED);
                    return Claim::Claimed(slot);
                }
            }
        }
        Claim::NoRoom
    }

    /// Shows a claimed key to readers, in state `state`.
    #[inline]
    pub(crate) fn publish(&self, slot: Slot, state: u16) {
        self.set_state(slot, state);
    }

    /// Gives a claim up.
    pub(crate) fn retract(&self, slot: Slot) {
        self.set_state(slot, DROPPED);
    }

    /// Release, so that whoever sees the state sees the hash.
    #[inline]
    fn set_state(&self, slot: Slot, state: u16) {
        let word = &self.bucket(slot.bucket)[SLOTS + slot.place / 4];
        let shift = slot.place % 4 * 16;
        let old = word.load(Ordering::Relaxed);
        let new = old & !(0xFFFF << shift) | u64::from(state) << shift;
        word.store(new, Ordering::Release);
    }

    /// Appends all keys in a range of hashes whose state `keep` accepts, nearly sorted.
    pub(crate) fn collect(
        &self,
        hashes: RangeInclusive<u64>,
        keep: impl Fn(u16) -> bool,
        out: &mut Vec<u64>,
    ) {
        let last_home = self.home(*hashes.end());
        for index in self.home(*hashes.start())..self.region.words().len() / BUCKET_WORDS {
            let bucket = self.bucket(index);
            let states = load_states(bucket);
            for (place, word) in bucket[..SLOTS].iter().enumerate() {
                let state = state_of(states, place);
                if matches!(state, EMPTY | DROPPED | CLAIMED) || !keep(state) {
                    continue;
                }
                let hash = word.load(Ordering::Relaxed);
                if hashes.contains(&hash) {
                    out.push(hash);
                }
            }
            let overflowed = state_of(states, SLOTS - 1) != EMPTY;
            if index >= last_home && !overflowed {
                break;
            }
        }
    }

    /// Sets every state that is a transaction to [`COMMITTED`].
    pub(crate) fn commit_all(&self) {
        for bucket in 0..self.region.words().len() / BUCKET_WORDS {
            let states = load_states(self.bucket(bucket));
            for place in 0..SLOTS {
                if state_of(states, place) >= FIRST_TRANSACTION {
                    self.set_state(Slot { bucket, place }, COMMITTED);
                }
            }
        }
    }
}

#[inline]
fn load_states(bucket: &[AtomicU64; BUCKET_WORDS]) -> [u64; 2] {
    [
        bucket[SLOTS].load(Ordering::Acquire),
        bucket[SLOTS + 1].load(Ordering::Acquire),
    ]
}

#[inline]
fn state_of(states: [u64; 2], place: usize) -> u16 {
    (states[place / 4] >> (place % 4 * 16)) as u16
}

const _: () = assert!(SLOTS + STATES.div_ceil(4) == BUCKET_WORDS);
const _: () = assert!(BUCKET_WORDS as u64 * 8 == BUCKET_BYTES);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn insert(table: &Table, hash: u64, state: u16) -> bool {
        match table.claim(hash) {
            Claim::Claimed(slot) => {
                table.publish(slot, state);
                true
            }
            Claim::Present => false,
            Claim::NoRoom => panic!("no room"),
        }
    }

    #[test]
    fn holds_as_many_keys_as_it_says() {
        let table = Table::new(1 << 20).unwrap();
        for key in 0..table.limit() {
            assert!(insert(&table, crate::hash::finalise(key), COMMITTED));
        }
        assert_eq!(
            table.claim(crate::hash::finalise(table.limit())),
            Claim::NoRoom
        );
        for key in 0..table.limit() {
            assert!(table.contains(crate::hash::finalise(key)));
        }
        assert!(!table.contains(crate::hash::finalise(table.limit())));
    }

    #[test]
    fn bytes_for_keys_hold_them() {
        for keys in [0, 1, 1000, 12_345, 1_000_000] {
            let bytes = Table::bytes_for(keys);
            assert!(Table::limit_of(bytes) >= keys, "{keys}");
        }
    }

    #[test]
    fn extreme_hashes_are_keys_like_others() {
        let table = Table::new(0).unwrap();
        for hash in [0, 1, u64::MAX, u64::MAX - 1, 1 << 63] {
            assert!(!table.contains(hash));
            assert!(insert(&table, hash, COMMITTED));
            assert!(!insert(&table, hash, COMMITTED));
            assert!(table.contains(hash));
        }
        let mut all = Vec::new();
        table.collect(0..=u64::MAX, |_| true, &mut all);
        all.sort_unstable();
        assert_eq!(all, [0, 1, 1 << 63, u64::MAX - 1, u64::MAX]);
    }

    #[test]
    fn keys_that_crowd_one_bucket_end_in_no_room_not_in_loss() {
        let table = Table::new(0).unwrap();
        let mut held = 0;
        while let Claim::Claimed(slot) = table.claim(u64::MAX - held) {
            table.publish(slot, COMMITTED);
            held += 1;
        }
        assert_eq!(held, REACH * SLOTS as u64);
        assert!((0..held).all(|key| table.contains(u64::MAX - key)));
    }

    #[test]
    fn a_claim_is_seen_once_published_and_forgotten_when_retracted() {
        let table = Table::new(0).unwrap();
        let Claim::Claimed(slot) = table.claim(7) else {
            panic!("an empty table has room");
        };
        assert!(!table.contains(7));
        assert_eq!(table.claim(7), Claim::Present);
        table.retract(slot);
        assert!(!table.contains(7));
        assert_eq!(table.claim(7), Claim::Claimed(slot));
        table.publish(slot, 9);
        assert!(table.contains(7));
        table.commit_all();
        let mut kept = Vec::new();
        table.collect(0..=u64::MAX, |state| state == COMMITTED, &mut kept);
        assert_eq!(kept, [7]);
    }

    proptest! {
        /// The slow twin is a sorted map.
        #[test]
        fn equals_a_map(
            keys in prop::collection::vec((0_u64..5000, 4_u16..8), 1..2000),
            start in any::<u64>(),
            end in any::<u64>(),
        ) {
            let table = Table::new(0).unwrap();
            let mut twin = BTreeMap::new();
            for (key, state) in keys {
                // Crowded: high bits from few values, so that buckets overflow.
                let hash = (key % 37) << 58 | key << 20;
                let new = !twin.contains_key(&hash);
                prop_assert_eq!(table.contains(hash), !new);
                if table.used() < table.limit() || !new {
                    match table.claim(hash) {
                        Claim::Claimed(slot) => {
                            prop_assert!(new);
                            table.publish(slot, state);
                            twin.insert(hash, state);
                        }
                        Claim::Present => prop_assert!(!new),
                        Claim::NoRoom => prop_assert!(new),
                    }
                }
            }
            let (start, end) = (start.min(end), start.max(end));
            let mut got = Vec::new();
            table.collect(start..=end, |state| state < 6, &mut got);
            got.sort_unstable();
            let expected: Vec<u64> = twin
                .range(start..=end)
                .filter(|(_, state)| **state < 6)
                .map(|(hash, _)| *hash)
                .collect();
            prop_assert_eq!(got, expected);
        }
    }
}
