//! The keys of a sealed buffer, as its checkpoint takes them.

use std::ops::RangeInclusive;

use super::bucket::{Bucket, SLOTS, sort_slots, state_of};
use super::{Buffer, Digest};
use crate::sys::sync::Ordering;

/// Which records of a key decide whether it comes or goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DecidedBy {
    /// The last one, whatever lies below.
    LastRecord,
    /// The sum of all, inserts less removes: a key that went and came again is below and stays there. Records of a key take
    /// turns, so this says how the set changes, unless another hash of the same fingerprint is exempt.
    Sum,
}

/// A sealed buffer, in which no transaction ends any more.
#[derive(Debug, Clone)]
pub(crate) struct ClosedKeys<'b> {
    buffer: &'b Buffer,
    /// Of a key of each state: the sum of its records, and its last record. Most states name a transaction, and it takes
    /// long to ask what became of it for each key.
    sums: Vec<i8>,
    lasts: Vec<i8>,
}

impl<'b> ClosedKeys<'b> {
    pub(crate) fn of(buffer: &'b Buffer) -> Self {
        let states = || 0..buffer.states_end();
        let sums = states().map(|state| buffer.sum_of(state as u16) as i8);
        let lasts = states().map(|state| buffer.last_of(state as u16) as i8);
        Self {
            buffer,
            sums: sums.collect(),
            lasts: lasts.collect(),
        }
    }

    pub(crate) fn buffer(&self) -> &'b Buffer {
        self.buffer
    }

    /// Returns the sum of the records of a key in this state, inserts less removes.
    #[inline(always)]
    fn sum(&self, state: u16) -> i64 {
        match self.sums.get(usize::from(state)) {
            Some(sum) => i64::from(*sum),
            None => self.buffer.sum_of(state),
        }
    }

    /// Returns what the last record of a key in this state is: 1 for an insert, -1 for a remove, 0 if there is none.
    #[inline(always)]
    fn last(&self, state: u16) -> i64 {
        match self.lasts.get(usize::from(state)) {
            Some(last) => i64::from(*last),
            None => self.buffer.last_of(state),
        }
    }

    /// Calls `each` for all places of a bucket with what `of` says of their states, those without a key included: they
    /// change nothing. How many have a key is not predictable, so no branch asks.
    #[inline(always)]
    fn for_each_place(
        &self,
        bucket: &Bucket,
        states: [u64; 2],
        of: impl Fn(&Self, u16) -> i64,
        mut each: impl FnMut(usize, u64, i64),
    ) {
        for (place, word) in bucket.iter().enumerate().take(SLOTS) {
            let change = of(self, state_of(states, place));
            each(place, word.load(Ordering::Relaxed), change);
        }
    }

    /// Returns the digest of all inserts, less that of all removes.
    pub(crate) fn digest(&self) -> Digest {
        let mut digest = Digest::default();
        self.buffer
            .for_each_bucket_in(&(0..=u64::MAX), |bucket, states| {
                self.for_each_place(bucket, states, Self::sum, |_, hash, sum| {
                    digest.add(hash, sum)
                });
            });
        digest
    }

    /// Appends the keys in a range of hashes that come, and those that go, nearly sorted: only those that overflowed their
    /// bucket come behind greater ones.
    pub(crate) fn collect(
        &self,
        hashes: RangeInclusive<u64>,
        decided_by: DecidedBy,
        added: &mut Vec<u64>,
        removed: &mut Vec<u64>,
    ) {
        match decided_by {
            DecidedBy::LastRecord => self.collect_by(hashes, Self::last, added, removed),
            DecidedBy::Sum => self.collect_by(hashes, Self::sum, added, removed),
        }
    }

    #[inline(always)]
    fn collect_by(
        &self,
        hashes: RangeInclusive<u64>,
        change_of: impl Fn(&Self, u16) -> i64 + Copy,
        added: &mut Vec<u64>,
        removed: &mut Vec<u64>,
    ) {
        self.buffer.for_each_bucket_in(&hashes, |bucket, states| {
            let (mut kept, mut count, mut goes) = ([u64::MAX; SLOTS], 0, false);
            self.for_each_place(bucket, states, change_of, |place, hash, change| {
                let is_inside = hashes.contains(&hash);
                let comes = is_inside & (change > 0);
                kept[place] = if comes { hash } else { u64::MAX };
                count += usize::from(comes);
                goes |= is_inside & (change < 0);
            });
            // Without branches: half of them would be mispredicted.
            sort_slots(&mut kept);
            debug_assert!(count <= SLOTS && kept[count..].iter().all(|hash| *hash == u64::MAX));
            added.extend_from_slice(&kept);
            added.truncate(added.len() - (SLOTS - count));
            if goes {
                self.for_each_place(bucket, states, change_of, |_, hash, change| {
                    if change < 0 && hashes.contains(&hash) {
                        removed.push(hash);
                    }
                });
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::state::{DROPPED, REMOVED, RESTORED, VARIANTS, WITHDRAWN};
    use super::super::{COMMITTED, Claim};
    use super::*;

    /// Returns whether there was room.
    fn put(buffer: &Buffer, hash: u64, state: u16) -> bool {
        match buffer.claim(hash) {
            Claim::Claimed(slot) => buffer.publish(slot, state),
            _ => return false,
        }
        true
    }

    proptest! {
        /// The slow twin is a map from each key to the sum of its records and the last of them.
        #[test]
        fn keys_that_came_and_went_are_those_of_a_map(
            // Most are committed, so that buckets are full of those.
            keys in prop::collection::btree_map(0_u64..5000, prop_oneof![3 => Just(0), 1 => 0_usize..29], 1..2000),
            start in any::<u64>(),
            end in any::<u64>(),
        ) {
            let buffer = Buffer::private(0, 1).unwrap();
            let begun: Vec<u16> = (0..3).map(|handle| buffer.begin_transaction(handle).unwrap()).collect();
            let (insert, none, remove) = ((1, 1), (0, 0), (-1, -1));
            let (withdrawn, restored) = ((0, -1), (0, 1));
            let plain = [(COMMITTED, insert), (DROPPED, none), (REMOVED, remove), (RESTORED, restored), (WITHDRAWN, withdrawn)];
            // Committed, aborted, and open: each in the order of the variants.
            let with = [insert, remove, withdrawn, restored, withdrawn, remove, insert, restored];
            let without = [none, none, none, none, insert, restored, withdrawn, remove];
            let named = begun.iter().zip([with, without, without]);
            let named = named.flat_map(|(base, ends)| (*base..*base + VARIANTS).zip(ends));
            let states: Vec<(u16, (i64, i64))> = plain.into_iter().chain(named).collect();
            let mut twin = BTreeMap::new();
            for (key, state) in keys {
                // Crowded: high bits from few values, so that buckets overflow.
                let (hash, (state, ends)) = ((key % 37) << 58 | key << 20, states[state]);
                if put(&buffer, hash, state) {
                    twin.insert(hash, ends);
                }
            }
            buffer.commit_transaction(begun[0]);
            buffer.abort_transaction(begun[1]);
            let closed = ClosedKeys::of(&buffer);
            let mut digest = Digest::default();
            twin.iter().for_each(|(hash, (sum, _))| digest.add(*hash, *sum));
            prop_assert_eq!(closed.digest(), digest);
            let range = start.min(end)..=start.max(end);
            let ways = [DecidedBy::LastRecord, DecidedBy::Sum];
            for (range, way) in [range, 0..=u64::MAX].into_iter().flat_map(|range| ways.map(|way| (range.clone(), way))) {
                let (mut added, mut removed) = (Vec::new(), Vec::new());
                closed.collect(range.clone(), way, &mut added, &mut removed);
                for (mut found, expected) in [(added, 1), (removed, -1)] {
                    found.sort_unstable();
                    let change = |(sum, last): (i64, i64)| if way == DecidedBy::Sum { sum } else { last };
                    let of_twin = twin.range(range.clone()).filter(|(_, records)| change(**records) == expected);
                    let of_twin: Vec<u64> = of_twin.map(|(hash, _)| *hash).collect();
                    prop_assert_eq!(found, of_twin);
                }
            }
        }
    }

    #[test]
    fn a_state_that_names_nothing_changes_nothing_and_is_noted() {
        let buffer = Buffer::private(0, 1).unwrap();
        let end = buffer.states_end();
        assert!(put(&buffer, 1 << 60, end as u16));
        let closed = ClosedKeys::of(&buffer);
        assert!(buffer.nonsense().is_none());
        assert_eq!(closed.digest(), Digest::default());
        assert_eq!(buffer.nonsense().map(|wrong| wrong.got), Some(end));
    }
}
