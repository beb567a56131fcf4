//! The table of keys in a buffer.
//!
//! A bucket is one cache line (`bucket.rs`). The high bits of a hash select its home bucket, as they select its page,
//! so a walk over the buckets meets the keys in nearly page order. A full bucket overflows into the next one and keeps
//! a mark for each key that passed it; the lowest bits of the key's hash select the mark. A bucket without a key's mark
//! ends the search for that key. Nothing is ever removed: a dropped key keeps its slot and changes its state.

use std::ops::RangeInclusive;

use super::bucket::Slot;
use super::bucket::{
    Bucket, SLOTS, is_passed, load_states, mark_of, place_of, state_of, used_places,
};
use super::state::{
    CLAIMED, EMPTY, UNREMOVING, UNWITHDRAWING, WITHDRAWN, is_insert_mark, is_mark, is_over_below,
    published, retracted,
};
use super::{Buffer, COMMITTED, HEADER_WORDS, Word};
use crate::page::place::page_of;
use crate::sys;
use crate::sys::sync::Ordering;

/// The number of buckets past its home in which a key may lie. At three quarters full, no key comes near it. (The model
/// checker has no time for that many.)
pub(super) const REACH: u64 = if cfg!(all(test, loom)) { 2 } else { 128 };

/// With so many keys, a table that was only reserved takes all of its memory at once: they touch so many of its pages that
/// those of all further keys cost less together than one by one.
pub(crate) const POPULATED_FROM: u64 = 4096;

/// The outcome of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The key was present, or the caller itself has already claimed it.
    Settled,
    /// The key was present, in the open transaction of this handle.
    Open(u64),
    /// The open transaction of this handle removes the key.
    Removing(u64),
    /// The key is claimed. The caller publishes or retracts it.
    Claimed(Slot),
    /// The table is full.
    NoRoom,
}

/// What a buffer says of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Nothing: the key is as it is below.
    Absent,
    Settled,
    /// Part of the open transaction of this handle.
    Open(u64),
    /// Removed: absent, whatever is below.
    Removed,
    /// Present, and removed by the open transaction of this handle.
    Removing(u64),
    /// As it is below, and removed by the open transaction of this handle.
    RemovingBelow(u64),
}

impl Buffer {
    /// Returns the number of keys that the table accepts: three quarters of all slots. By then an insert takes three
    /// times as long as in a table half full, since a fourth of the keys lie in the bucket after their own.
    pub(crate) fn limit(&self) -> u64 {
        self.homes * SLOTS as u64 / 4 * 3
    }

    /// Returns the number of slots in use, including dropped keys.
    pub(crate) fn used(&self) -> u64 {
        self.get(Word::Used)
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        page_of(hash, self.homes) as usize
    }

    #[inline]
    fn buckets(&self) -> &[Bucket] {
        let from = (HEADER_WORDS + self.transactions) as usize;
        self.region.words()[from..].as_chunks().0
    }

    /// Prefetches the key's home bucket.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        sys::prefetch(&self.buckets()[self.home(hash)]);
    }

    /// Returns whether the key is present, including in an open transaction.
    #[inline]
    pub(crate) fn contains(&self, hash: u64) -> bool {
        !matches!(self.lookup(hash), Presence::Absent | Presence::Removed)
    }

    /// Returns what the buffer says of a key once it is sealed: all but what is in open transactions.
    #[inline]
    pub(crate) fn lookup_closed(&self, hash: u64) -> Presence {
        match self.find(hash) {
            None => Presence::Absent,
            Some((_, COMMITTED)) => Presence::Settled,
            Some((_, state)) => self.closed_presence(state),
        }
    }

    /// Returns what the buffer says of a key, and the handle of its transaction while that is open.
    pub(crate) fn lookup(&self, hash: u64) -> Presence {
        loop {
            match self.find(hash) {
                None => return Presence::Absent,
                Some((_, COMMITTED)) => return Presence::Settled,
                Some((slot, state)) => {
                    let presence = self.presence(state);
                    // Otherwise the number may name another transaction by now.
                    let states = load_states(&self.buckets()[slot.bucket()]);
                    if state_of(states, slot.place()) == state {
                        return presence;
                    }
                }
            }
        }
    }

    /// Returns whether a claim of the key would find it present, even if the same batch claimed it.
    pub(crate) fn is_held(&self, hash: u64) -> bool {
        match self.find(hash) {
            None => false,
            Some((_, state)) if is_insert_mark(state) => true,
            Some((_, state)) => {
                !matches!(self.presence(state), Presence::Absent | Presence::Removed)
            }
        }
    }

    /// Returns whether a key is as it is below but for an open transaction: no record that counts was there before it.
    pub(crate) fn is_open_over_below(&self, hash: u64) -> bool {
        self.find(hash)
            .is_some_and(|(_, state)| is_over_below(state))
    }

    /// Returns the key's slot and state.
    #[inline]
    pub(super) fn find(&self, hash: u64) -> Option<(Slot, u16)> {
        let hash = self.canonical(hash);
        let home = self.home(hash);
        for (bucket, words) in self.buckets().iter().enumerate().skip(home) {
            let states = load_states(words);
            let used = used_places(states);
            if let Some(place) = place_of(words, used, hash) {
                return Some((Slot::of(bucket, place), state_of(states, place)));
            }
            // Rare, even in a full bucket.
            if !is_passed(states, hash) {
                return None;
            }
        }
        None
    }

    /// Claims a slot for the key unless the key is present. Readers don't see it before [`publish`](Self::publish).
    #[inline]
    pub(crate) fn claim(&self, hash: u64) -> Claim {
        let hash = self.canonical(hash);
        let home = self.home(hash);
        let reach = &self.buckets()[home..home + REACH as usize];
        for (bucket, words) in (home..).zip(reach) {
            let states = load_states(words);
            let used = used_places(states);
            if let Some(place) = place_of(words, used, hash) {
                return self.claim_again(Slot::of(bucket, place), state_of(states, place));
            }
            if used < SLOTS {
                let place = used;
                let taken = self.take(Slot::of(bucket, place), hash, CLAIMED);
                return taken.map_or(Claim::NoRoom, Claim::Claimed);
            }
        }
        Claim::NoRoom
    }

    /// Takes a slot for an absent key; returns `None` if there is no room.
    pub(super) fn take_slot(&self, hash: u64, state: u16) -> Option<Slot> {
        let hash = self.canonical(hash);
        let home = self.home(hash);
        let reach = &self.buckets()[home..home + REACH as usize];
        let mut used = (home..).zip(reach.iter().map(|words| used_places(load_states(words))));
        let (bucket, place) = used.find(|(_, used)| *used < SLOTS)?;
        self.take(Slot::of(bucket, place), hash, state)
    }

    #[inline]
    fn take(&self, slot: Slot, hash: u64, state: u16) -> Option<Slot> {
        debug_assert!(state != EMPTY && hash == self.canonical(hash));
        // Further away no look-up goes.
        debug_assert!((0..REACH as usize).contains(&(slot.bucket() - self.home(hash))));
        let slots = self.used();
        if slots >= self.limit() {
            return None;
        }
        // Set the marks before the key becomes visible in its slot, so that every search for it reaches that slot.
        for full in &self.buckets()[self.home(hash)..slot.bucket()] {
            let word = &full[SLOTS + 1];
            let marks = word.load(Ordering::Relaxed) | mark_of(hash);
            word.store(marks, Ordering::Release);
        }
        self.buckets()[slot.bucket()][slot.place()].store(hash, Ordering::Relaxed);
        self.publish(slot, state);
        let used = slots.saturating_add(1);
        self.set(Word::Used, used);
        if used == POPULATED_FROM {
            self.region.populate_once();
        }
        Some(slot)
    }

    fn claim_again(&self, slot: Slot, state: u16) -> Claim {
        if is_mark(state) {
            return Claim::Settled;
        }
        let mark = match self.presence(state) {
            Presence::Settled => return Claim::Settled,
            Presence::Open(handle) => return Claim::Open(handle),
            Presence::Removing(handle) | Presence::RemovingBelow(handle) => {
                return Claim::Removing(handle);
            }
            Presence::Removed if self.closed_state(state) == WITHDRAWN => UNWITHDRAWING,
            Presence::Removed => UNREMOVING,
            Presence::Absent => CLAIMED,
        };
        self.publish(slot, mark);
        Claim::Claimed(slot)
    }

    /// Shows readers what was claimed of a key, in state `base`: [`COMMITTED`], or that of the transaction that claims,
    /// which may have changed the key before.
    #[inline]
    pub(crate) fn publish_claim(&self, slot: Slot, base: u16) {
        let state = state_of(self.states(slot), slot.place());
        self.publish(slot, published(state, base));
    }

    /// Makes a claimed key visible to readers, in state `state`. The store is a release: a reader that sees the state
    /// also sees the hash.
    #[inline]
    pub(crate) fn publish(&self, slot: Slot, state: u16) {
        let word = &self.buckets()[slot.bucket()][SLOTS + slot.place() / 4];
        let shift = slot.place() % 4 * 16;
        let old = word.load(Ordering::Relaxed);
        let new = old & !(0xFFFF << shift) | u64::from(state) << shift;
        word.store(new, Ordering::Release);
    }

    /// Retracts a claim.
    pub(crate) fn retract(&self, slot: Slot) {
        let state = state_of(self.states(slot), slot.place());
        self.publish(slot, retracted(state));
    }

    /// Shows readers what a record of the log inserts or removes, in state `base`, if it is claimed. The next holder of
    /// the writer lock calls this after a holder that died between the record and the publishing.
    pub(super) fn publish_logged(&self, hash: u64, is_insert: bool, base: u16) {
        if let Some((slot, state)) = self.find(hash)
            && let Some(state) = self.replayed(state, is_insert, base)
        {
            self.publish(slot, state);
        }
    }

    /// Retracts all claims that a dead holder of the writer lock left, and counts the keys that are present.
    pub(super) fn retract_claimed(&self) {
        let (mut used, mut keys, mut net) = (0, 0, 0);
        self.for_each_key(|slot, state| {
            used += 1;
            if is_mark(state) {
                self.retract(slot);
            }
            let state = retracted(state);
            keys += u64::from(self.presence(state) != Presence::Absent);
            net += self.open_sum_of(state);
        });
        self.set(Word::Used, used);
        self.set_keys(keys);
        self.set_net_keys(net);
    }

    /// Visits the keys in a range of hashes with their states, in the order of their home buckets but for those that
    /// overflowed.
    #[inline]
    pub(super) fn for_each_in(&self, hashes: &RangeInclusive<u64>, mut each: impl FnMut(u64, u16)) {
        self.for_each_bucket_in(hashes, |bucket, states| {
            for (place, word) in bucket.iter().enumerate().take(used_places(states)) {
                let hash = word.load(Ordering::Relaxed);
                if hashes.contains(&hash) {
                    each(hash, state_of(states, place));
                }
            }
        });
    }

    /// Visits the buckets that may have keys in a range of hashes, with their states.
    #[inline(always)]
    pub(super) fn for_each_bucket_in(
        &self,
        hashes: &RangeInclusive<u64>,
        mut each: impl FnMut(&Bucket, [u64; 2]),
    ) {
        let last_home = self.home(*hashes.end());
        let first_home = self.home(*hashes.start());
        for (index, bucket) in self.buckets().iter().enumerate().skip(first_home) {
            let states = load_states(bucket);
            each(bucket, states);
            let overflowed = state_of(states, SLOTS - 1) != EMPTY;
            if index >= last_home && !overflowed {
                break;
            }
        }
    }

    /// Returns the states in a slot's bucket.
    pub(super) fn states(&self, slot: Slot) -> [u64; 2] {
        load_states(&self.buckets()[slot.bucket()])
    }

    pub(super) fn for_each_key(&self, mut each: impl FnMut(Slot, u16)) {
        for (bucket, words) in self.buckets().iter().enumerate() {
            let states = load_states(words);
            for place in 0..SLOTS {
                match state_of(states, place) {
                    EMPTY => break,
                    state => each(Slot::of(bucket, place), state),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ClosedKeys, DecidedBy, limit_of};
    use super::*;
    use crate::hash::finalise;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn insert(table: &Buffer, hash: u64, state: u16) -> bool {
        match table.claim(hash) {
            Claim::Claimed(slot) => {
                table.publish(slot, state);
                true
            }
            Claim::NoRoom => panic!("no room"),
            _ => false,
        }
    }

    #[test]
    fn holds_as_many_keys_as_it_says() {
        let table = Buffer::private(1 << 20, 1).unwrap();
        assert_eq!(table.limit(), limit_of(1 << 20));
        for key in 0..table.limit() {
            assert!(insert(&table, finalise(key), COMMITTED));
        }
        assert_eq!(table.claim(finalise(table.limit())), Claim::NoRoom);
        assert!((0..table.limit()).all(|key| table.contains(finalise(key))));
        assert!(!table.contains(finalise(table.limit())));
    }

    #[test]
    fn extreme_hashes_are_keys_like_others() {
        let table = Buffer::private(0, 1).unwrap();
        for hash in [0, 1, u64::MAX, u64::MAX - 1, 1 << 63] {
            assert!(!table.contains(hash));
            assert!(insert(&table, hash, COMMITTED));
            assert!(!insert(&table, hash, COMMITTED));
            assert!(table.contains(hash));
        }
        let mut all = Vec::new();
        ClosedKeys::of(&table).collect(
            0..=u64::MAX,
            DecidedBy::LastRecord,
            &mut all,
            &mut Vec::new(),
        );
        all.sort_unstable();
        assert_eq!(all, [0, 1, 1 << 63, u64::MAX - 1, u64::MAX]);
    }

    #[test]
    fn keys_that_crowd_one_bucket_end_in_no_room_not_in_loss() {
        let table = Buffer::private(1 << 20, 1).unwrap();
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
        let table = Buffer::private(0, 1).unwrap();
        let Claim::Claimed(slot) = table.claim(7) else {
            panic!("an empty table has room");
        };
        assert!(!table.contains(7));
        assert_eq!(table.claim(7), Claim::Settled);
        table.retract(slot);
        assert!(!table.contains(7));
        assert_eq!(table.claim(7), Claim::Claimed(slot));
        table.publish(slot, COMMITTED);
        assert!(table.contains(7));
    }

    #[test]
    fn who_goes_on_after_a_death_shows_what_is_logged_and_gives_up_the_rest() {
        let table = Buffer::private(0, 1).unwrap();
        assert!(insert(&table, 1, COMMITTED));
        for hash in [2, 3] {
            assert!(matches!(table.claim(hash), Claim::Claimed(_)));
        }
        table.publish_logged(2, true, COMMITTED);
        table.retract_claimed();
        assert_eq!(
            [1, 2, 3].map(|hash| table.contains(hash)),
            [true, true, false]
        );
        assert_eq!((table.used(), table.keys()), (3, 2));
    }

    proptest! {
        /// The slow twin is a sorted map.
        #[test]
        fn equals_a_map(
            keys in prop::collection::vec((0_u64..5000, 0_u64..4), 1..2000),
            start in any::<u64>(),
            end in any::<u64>(),
        ) {
            let table = Buffer::private(0, 1).unwrap();
            let states: Vec<u16> = (0..4).map(|n| table.begin_transaction(n).unwrap()).collect();
            let mut twin = BTreeMap::new();
            for (key, handle) in keys {
                // Crowded: high bits from few values, so that buckets overflow.
                let hash = (key % 37) << 58 | key << 20;
                let held = twin.get(&hash).copied();
                let presence = held.map_or(Presence::Absent, Presence::Open);
                prop_assert_eq!(table.lookup(hash), presence);
                match table.claim(hash) {
                    Claim::Claimed(slot) => {
                        prop_assert_eq!(held, None);
                        table.publish(slot, states[handle as usize]);
                        twin.insert(hash, handle);
                    }
                    Claim::Open(handle) => prop_assert_eq!(held, Some(handle)),
                    Claim::NoRoom => prop_assert_eq!(held, None),
                    other => prop_assert!(false, "{other:?}"),
                }
            }
            table.commit_transaction(states[0]);
            table.abort_transaction(states[1]);
            table.commit_transaction(states[2]);
            let (start, end) = (start.min(end), start.max(end));
            let mut got = Vec::new();
            ClosedKeys::of(&table).collect(start..=end, DecidedBy::LastRecord, &mut got, &mut Vec::new());
            got.sort_unstable();
            let expected: Vec<u64> = twin
                .range(start..=end)
                .filter(|(_, handle)| [0, 2].contains(*handle))
                .map(|(hash, _)| *hash)
                .collect();
            prop_assert_eq!(got, expected);
        }
    }
}
