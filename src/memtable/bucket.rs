//! A bucket of the table occupies one cache line; a slot is a key's place in it.
//!
//! It holds six hashes (words 0 to 5), six 16-bit states and 32 marks (words 6 and 7). Word 6 holds four states. The
//! lower half of word 7 holds two states and its upper half the marks.

use super::state::EMPTY;
use crate::sys::sync::{AtomicU64, Ordering};

pub(super) const BUCKET_WORDS: usize = 8;
pub(super) const SLOTS: usize = 6;

pub(super) type Bucket = [AtomicU64; BUCKET_WORDS];

const _: () = assert!(BUCKET_WORDS * 8 == 64, "a line of the processor's cache");
const _: () = assert!(SLOTS + SLOTS.div_ceil(4) == BUCKET_WORDS && EMPTY == 0);

#[inline]
pub(super) fn load_states(bucket: &Bucket) -> [u64; 2] {
    [
        bucket[SLOTS].load(Ordering::Acquire),
        bucket[SLOTS + 1].load(Ordering::Acquire),
    ]
}

#[inline]
pub(super) fn state_of(states: [u64; 2], place: usize) -> u16 {
    (states[place / 4] >> (place % 4 * 16)) as u16
}

/// Returns the mark that a key leaves in each bucket it passes, positioned in the upper half of the second state word.
#[inline]
pub(super) fn mark_of(hash: u64) -> u64 {
    1 << (32 + hash % 32)
}

/// Returns whether the key, or another key with the same mark, passed this bucket.
#[inline]
pub(super) fn is_passed(states: [u64; 2], hash: u64) -> bool {
    states[1] & mark_of(hash) != 0
}

/// Returns how many places of a bucket are in use. Keys fill them in order.
#[inline]
pub(super) fn used_places(states: [u64; 2]) -> usize {
    const ONES: u64 = 0x0001_0001_0001_0001;
    // The lowest set bit is the top bit of the first zero state (Warren, "Hacker's Delight", 6-1). The bits above it
    // are meaningless.
    let first_empty = |word: u64| {
        let zeros = word.wrapping_sub(ONES) & !word & (ONES << 15);
        zeros.trailing_zeros() as usize / 16
    };
    match first_empty(states[0]) {
        // The marks are not states.
        4 => 4 + first_empty(states[1] & 0xFFFF_FFFF),
        first => first,
    }
}

/// Returns the place of a hash among the first `used` of a bucket. It compares all six at once: the number in use is
/// effectively random, and a branch for each place would be mispredicted.
#[inline]
pub(super) fn place_of(bucket: &Bucket, used: usize, hash: u64) -> Option<usize> {
    debug_assert!(used <= SLOTS);
    // The model checker would try all older values of the unused places.
    let looked_at = if cfg!(all(test, loom)) { used } else { SLOTS };
    let mut equal = 0_u32;
    for (place, word) in bucket[..looked_at].iter().enumerate() {
        equal |= u32::from(word.load(Ordering::Relaxed) == hash) << place;
    }
    equal &= (1 << used) - 1;
    (equal != 0).then_some(equal.trailing_zeros() as usize)
}

/// Sorts hashes by a network of comparisons, none of which is a branch (Knuth, "The Art of Computer Programming", 5.3.4).
#[inline(always)]
pub(super) fn sort_slots(hashes: &mut [u64; SLOTS]) {
    const NETWORK: [(usize, usize); 12] = [
        (1, 2),
        (4, 5),
        (0, 2),
        (3, 5),
        (0, 1),
        (3, 4),
        (2, 5),
        (0, 3),
        (1, 4),
        (2, 4),
        (1, 3),
        (2, 3),
    ];
    for (one, other) in NETWORK {
        let (low, high) = (hashes[one], hashes[other]);
        (hashes[one], hashes[other]) = (low.min(high), low.max(high));
    }
}

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

#[cfg(test)]
mod tests {
    use super::super::COMMITTED;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_network_sorts(hashes in prop::array::uniform6(prop_oneof![any::<u64>(), 0_u64..4, Just(u64::MAX)])) {
            let mut sorted = hashes;
            sort_slots(&mut sorted);
            let mut twin = hashes;
            twin.sort_unstable();
            prop_assert_eq!(sorted, twin);
        }

        /// The slow twin checks one place after another.
        #[test]
        fn used_places_end_at_the_first_empty_one(
            states in prop::array::uniform6(prop_oneof![Just(EMPTY), Just(COMMITTED), Just(0x8000), any::<u16>()]),
            marks in any::<u64>(),
        ) {
            let word = |states: &[u16]| {
                let shifted = |(place, state): (usize, &u16)| u64::from(*state) << (16 * place);
                states.iter().enumerate().map(shifted).sum()
            };
            let twin = states.iter().position(|state| *state == EMPTY).unwrap_or(SLOTS);
            prop_assert_eq!(used_places([word(&states[..4]), word(&states[4..]) | marks << 32]), twin);
        }
    }
}
