//! The table of a counting store: how many more times each key was inserted than removed since the last checkpoint.
//!
//! It is the same table as that of keys (`table.rs`), but a key's state means something else: it is the number itself,
//! plus a mark while a record about the key is on its way into the log. A writer that dies between the record and the
//! number thus leaves a mark on each key that still has to be counted.

use std::ops::RangeInclusive;

use super::bucket::Slot;
use super::bucket::state_of;
use super::state::EMPTY;
use super::{Buffer, Digest, Word};

/// The state of a key whose inserts and removes cancel out. 0 means no key.
const EVEN: u16 = 0x4000;
/// The log may hold a record about the key that its number does not include yet.
const MARKED: u16 = 0x8000;
const NUMBER: u16 = MARKED - 1;
/// A number further from 0 has no room for another batch: the buffer counts as full.
const MAX_CHANGE: i64 = EVEN as i64 - 1024;

const _: () = assert!(EVEN & MARKED == 0 && NUMBER & MARKED == 0);
/// No number is the state of a slot without a key, which would end the searches for all behind it.
const _: () = assert!(EMPTY == 0 && 2 * EVEN - 1 <= NUMBER && MAX_CHANGE > 0);

fn number_of(state: u16) -> i64 {
    match state & NUMBER {
        // No key.
        0 => 0,
        number => i64::from(number) - i64::from(EVEN),
    }
}

impl Buffer {
    /// Returns how many more times the key was inserted than removed.
    pub(crate) fn net(&self, hash: u64) -> i64 {
        self.find(hash).map_or(0, |(_, state)| number_of(state))
    }

    /// Marks the key for a record that is about to be written. Returns `None` if the table has no room for the key, or
    /// its number no room for the record.
    pub(crate) fn mark(&self, hash: u64) -> Option<Slot> {
        let (slot, state) = match self.find(hash) {
            Some(found) => found,
            None => (self.take_slot(hash, MARKED | EVEN)?, EVEN),
        };
        if number_of(state).abs() > MAX_CHANGE {
            return None;
        }
        self.publish(slot, state | MARKED);
        Some(slot)
    }

    /// Adds to a marked key's number and removes the mark in one step.
    pub(crate) fn count(&self, slot: Slot, by: i64) {
        let number = number_of(self.state(slot)) + by;
        let bound = i64::from(EVEN) - 1;
        let number = number.clamp(-bound, bound) + i64::from(EVEN);
        self.publish(slot, number as u16);
    }

    /// Removes the mark.
    pub(crate) fn unmark(&self, slot: Slot) {
        self.publish(slot, self.state(slot) & NUMBER);
    }

    /// Adds to the key's number if the key is marked. The next holder of the writer lock calls this after a holder that
    /// died between the record and the number.
    pub(super) fn count_marked(&self, hash: u64, by: i64) {
        if let Some((slot, state)) = self.find(hash)
            && state & MARKED != 0
        {
            self.count(slot, by);
        }
    }

    /// Removes all marks that a dead holder of the writer lock left, and recounts.
    pub(crate) fn unmark_all(&self) {
        let (mut used, mut net) = (0, 0);
        self.for_each_key(|slot, state| {
            used += 1;
            net += number_of(state);
            if state & MARKED != 0 {
                self.unmark(slot);
            }
        });
        self.set(Word::Used, used);
        self.set_net_keys(net);
    }

    /// Returns the inserts minus the removes of all keys together.
    pub(crate) fn net_keys(&self) -> i64 {
        self.get(Word::Net).cast_signed()
    }

    /// Returns how many of the keys were inserted, at most: those that are removed again may be among them.
    pub(crate) fn inserted_keys(&self) -> i64 {
        // Each insert counts once in both sums, each remove once in the one and against the other.
        let keys = i64::try_from(self.keys()).unwrap_or(i64::MAX);
        let net = self.net_keys();
        (keys.saturating_add(net) / 2).max(net).max(0)
    }

    pub(crate) fn set_net_keys(&self, net: i64) {
        self.set(Word::Net, net.cast_unsigned());
    }

    /// Appends each key in a range of hashes whose inserts and removes don't cancel out, with the difference; nearly
    /// sorted.
    pub(crate) fn collect_nets(&self, hashes: RangeInclusive<u64>, out: &mut Vec<(u64, i64)>) {
        self.for_each_in(&hashes, |hash, state| {
            let number = number_of(state);
            if number != 0 {
                out.push((hash, number));
            }
        });
    }

    /// Returns the digest of the keys in a range of hashes, each weighted by its number.
    pub(crate) fn net_digest(&self, hashes: RangeInclusive<u64>) -> Digest {
        let mut digest = Digest::default();
        self.for_each_in(&hashes, |hash, state| {
            digest.add(hash, number_of(state));
        });
        digest
    }

    fn state(&self, slot: Slot) -> u16 {
        state_of(self.states(slot), slot.place())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A step of a writer, or of the next one after a writer died.
    #[derive(Debug, Clone)]
    enum Step {
        /// Counts a batch of keys up or down. The writer dies after this many of them (or counts all and lives).
        Count(Vec<u64>, bool, usize),
        /// Reserves the keys, then gives them up.
        Fail(Vec<u64>),
        Collect(u64, u64),
    }

    fn key() -> impl Strategy<Value = u64> {
        // Crowded: high bits from few values, so that buckets overflow.
        (0_u64..200).prop_map(|key| (key % 7) << 61 | key << 20)
    }

    fn step() -> impl Strategy<Value = Step> {
        let keys = || prop::collection::vec(key(), 1..20);
        prop_oneof![
            6 => (keys(), any::<bool>(), 0_usize..40).prop_map(|(keys, up, done)| Step::Count(keys, up, done)),
            1 => keys().prop_map(Step::Fail),
            1 => any::<(u64, u64)>().prop_map(|(a, b)| Step::Collect(a.min(b), a.max(b))),
        ]
    }

    proptest! {
        /// The slow twin is a sorted map of numbers.
        #[test]
        fn equals_a_map_of_numbers(steps in prop::collection::vec(step(), 1..100)) {
            let table = Buffer::private(1 << 16, 1).unwrap();
            let mut twin: BTreeMap<u64, i64> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Count(keys, up, done) => {
                        let by = if up { 1 } else { -1 };
                        let mut batch: BTreeMap<u64, i64> = BTreeMap::new();
                        for key in keys {
                            *batch.entry(key).or_default() += by;
                            *twin.entry(key).or_default() += by;
                        }
                        let slots: Vec<_> = batch.keys().map(|key| table.mark(*key).unwrap()).collect();
                        for (slot, by) in slots.iter().zip(batch.values()).take(done) {
                            table.count(*slot, *by);
                        }
                        if done < slots.len() {
                            // The record was written.
                            for (key, by) in &batch {
                                table.count_marked(*key, *by);
                            }
                            table.unmark_all();
                            prop_assert_eq!(table.net_keys(), twin.values().sum::<i64>());
                        }
                    }
                    Step::Fail(keys) => {
                        for key in &keys {
                            let slot = table.mark(*key).unwrap();
                            table.unmark(slot);
                        }
                    }
                    Step::Collect(from, to) => {
                        let mut got = Vec::new();
                        table.collect_nets(from..=to, &mut got);
                        got.sort_unstable();
                        let uneven = |(key, net): (&u64, &i64)| (*net != 0).then_some((*key, *net));
                        let expected: Vec<_> = twin.range(from..=to).filter_map(uneven).collect();
                        prop_assert_eq!(got, expected);
                    }
                }
                for key in 0..200 {
                    let key = (key % 7) << 61 | key << 20;
                    prop_assert_eq!(table.net(key), twin.get(&key).copied().unwrap_or(0));
                }
            }
        }
    }

    #[test]
    fn a_number_that_has_no_room_for_another_batch_is_a_full_buffer() {
        let table = Buffer::private(1 << 16, 1).unwrap();
        let mut number = 0;
        while let Some(slot) = table.mark(7) {
            table.count(slot, -512);
            number -= 512;
            assert_eq!(table.net(7), number);
        }
        assert!(number < -MAX_CHANGE, "{number}");
        assert_eq!(table.net(8), 0);
        assert!(table.mark(8).is_some());
    }
}
