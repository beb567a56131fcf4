//! Keys that share a fingerprint are one key: which of them a removal takes along, FORMAT.md tells exactly.

use everseen::testing::Appending;
use std::collections::BTreeSet;

use everseen::hash::HashedKey;
use everseen::{Kind, Store};

use crate::support::files::{place, small};
use crate::support::forge::u64_at;
use crate::support::numbers::{Random, key};

/// Keys that are asked for: most are inserted, the last ones never.
const ALL: u64 = 4000;
const INSERTED: u64 = 3000;

/// FORMAT.md, "Segments": the fingerprint of a hash.
fn fingerprint(hash: u64, space: u64) -> u64 {
    ((u128::from(hash) * u128::from(space)) >> 64) as u64
}

/// The set of fingerprints that a store is.
struct Twin {
    space: u64,
    set: BTreeSet<u64>,
}

impl Twin {
    fn of(&self, store: &Store, number: u64) -> u64 {
        fingerprint(store.hasher().mix(key(number)), self.space)
    }

    /// Holds every answer of the store against the set.
    fn check(&self, store: &Store) {
        let keys: Vec<u64> = (0..ALL).map(key).collect();
        for (number, found) in (0..).zip(store.contains_batch(&keys).unwrap()) {
            let expected = self.set.contains(&self.of(store, number));
            assert_eq!(found, expected, "key {number}");
        }
        assert_eq!(store.stats().unwrap().keys, self.set.len() as u64);
    }
}

#[test]
fn a_removal_takes_those_along_that_share_its_fingerprint_and_no_others() {
    for (transactional, filtered_from) in [(false, u64::MAX), (true, 0)] {
        let (_folder, path) = place();
        let options = small()
            .kind(Kind::Fingerprint)
            .segment_pages(2)
            .step_segments(2);
        let options = options.filtered_from(filtered_from);
        let options = options.capacity(ALL).fpr(0.25).transactional(transactional);
        let store = options.create(&path).unwrap();
        let space = u64_at(&std::fs::read(&path).unwrap(), 72);
        assert_eq!(space, 4 * ALL);
        let mut twin = Twin {
            space,
            set: BTreeSet::new(),
        };
        for first in (0..INSERTED).step_by(500) {
            let numbers = first..first + 500;
            let keys: Vec<u64> = numbers.clone().map(key).collect();
            let new = store.insert_batch(&keys).unwrap();
            for (number, new) in numbers.zip(new) {
                let fingerprint = twin.of(&store, number);
                assert_eq!(new, twin.set.insert(fingerprint), "key {number}");
            }
            store.commit().unwrap();
        }
        store.checkpoint().unwrap();
        twin.check(&store);

        // Some of those that are asked to go were never there, and some are named twice.
        let mut random = Random::new(5);
        let going: Vec<u64> = (0..500).map(|_| random.below(ALL)).collect();
        let hashed = going.iter().map(|number| store.hasher().mix(key(*number)));
        let hashed: Vec<_> = hashed.map(HashedKey::from_bits).collect();
        let mut removed = Vec::new();
        store.remove_into(&hashed, &mut removed).unwrap();
        for (number, removed) in going.iter().zip(removed) {
            let fingerprint = twin.of(&store, *number);
            assert_eq!(removed, twin.set.remove(&fingerprint), "key {number}");
        }
        let kept = (0..INSERTED).filter(|number| !going.contains(number));
        let lost = kept.filter(|number| !twin.set.contains(&twin.of(&store, *number)));
        let lost = lost.count();
        assert!((50..200).contains(&lost), "{lost} keys are taken along");

        twin.check(&store);
        store.commit().unwrap();
        store.checkpoint().unwrap();
        twin.check(&store);
        store.close().unwrap();
        twin.check(&options.open(&path).unwrap());
    }
}
