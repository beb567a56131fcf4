//! What a checkpoint writes over after a death at any of its writes: nothing that either superblock names.

use everseen::testing::{Appending, Options};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use everseen::hash::HashedKey;
use everseen::{Kind, Store};

use crate::support::fault::FaultStorage;
use crate::support::files::{killed_at_write, place, small};
use crate::support::numbers::key;
use crate::support::segments::{Guard, Seen, count, from, newest, superblock};
use crate::support::unsynced::Unsynced;

fn options() -> Options {
    let options = small().kind(Kind::Fingerprint).capacity(50_000);
    options.fpr(1e-12).segment_pages(2).step_segments(1)
}

fn insert(store: &Store, numbers: Range<u64>) {
    let keys: Vec<u64> = numbers.map(key).collect();
    for some in keys.chunks(1000) {
        let new = store.insert_batch(some).unwrap();
        assert!(new.iter().all(|new| *new));
    }
}

fn remove(store: &Store, numbers: Range<u64>) {
    let hasher = store.hasher();
    let keys: Vec<_> = numbers
        .map(|number| HashedKey::from_bits(hasher.mix(key(number))))
        .collect();
    let mut removed = Vec::new();
    store.remove_into(&keys, &mut removed).unwrap();
    assert!(removed.iter().all(|removed| *removed));
}

/// Whether exactly these keys are there.
fn check(store: &Store, there: Range<u64>) {
    let keys: Vec<u64> = (0..10_000).map(key).collect();
    let found = store.contains_batch(&keys).unwrap();
    for (number, found) in (0..).zip(found) {
        assert_eq!(found, there.contains(&number), "key {number}");
    }
    assert_eq!(store.stats().unwrap().keys, there.end - there.start);
    assert!(store.verify().unwrap().is_ok());
}

/// The write fails, and the process ends: between the two superblocks of a checkpoint too.
#[test]
fn after_a_death_at_any_write_nothing_is_written_over_that_a_superblock_names() {
    let seen = Arc::new(Seen::default());
    let (mut between, mut partly_merged) = (0, 0);
    for nth in 1.. {
        let (_folder, path) = place();
        let storage = FaultStorage::without_syncs();
        let store = options().storage(storage.shared()).create(&path).unwrap();
        insert(&store, 0..4000);
        store.checkpoint().unwrap();
        remove(&store, 0..500);
        insert(&store, 4000..5000);
        let (_copy, killed, is_over) = killed_at_write(&storage, nth, &path, || store.checkpoint());
        drop(store);
        let file = std::fs::read(&killed).unwrap();
        let both = [0, 1].map(|place| superblock(&from(&file), place));
        let entries = both
            .each_ref()
            .map(|named| named.as_ref().map(|one| &one.entry));
        between +=
            u64::from(entries[0].is_some() && entries[1].is_some() && entries[0] != entries[1]);

        let newest = newest(&from(&file)).unwrap();
        partly_merged += u64::from(newest.is_partly_merged);

        let guard = Guard::telling(Unsynced::new(), &seen);
        let store = options().storage(guard).open(&killed).unwrap();
        check(&store, 500..5000);
        insert(&store, 5000..6000);
        store.checkpoint().unwrap();
        remove(&store, 500..2500);
        store.checkpoint().unwrap();
        check(&store, 2500..6000);
        store.close().unwrap();
        assert!(count(&killed) > 1);
        check(&options().open(&killed).unwrap(), 2500..6000);
        if is_over {
            // Segments that follow each other are one write.
            assert!(nth > 6, "{nth} writes are few");
            break;
        }
    }
    assert!(between > 2, "{between} deaths between two superblocks");
    assert!(partly_merged > 6, "{partly_merged} deaths between steps");
    println!("{between} deaths between two superblocks, {partly_merged} between steps");
    assert!(seen.writes.load(Ordering::Relaxed) > 100);
    assert!(seen.segments.load(Ordering::Relaxed) > 3);
}
