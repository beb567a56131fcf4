//! Checkpoints in steps: what a death between two of them leaves, and how little room they take.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use everseen::testing::{LEAST_BUFFER, Options};
use everseen::{Error, Kind, LogError, OnDamage, Store};
use tempfile::TempDir;

use crate::format::log::{chain, log_path};
use crate::processes::hooked::{self, Hooked, Point};
use crate::support::fault::FaultStorage;
use crate::support::files::{killed_at_write, place, small};
use crate::support::numbers::key;
use crate::support::segments::{Named, from, newest};
use crate::support::unsynced::Unsynced;

/// The keys of the first checkpoint, and those that the second one brings.
pub(super) const OLD: u64 = 6000;
pub(super) const NEW: u64 = 2000;

pub(super) fn options() -> Options {
    let options = small().kind(Kind::Fingerprint).capacity(50_000);
    let options = options.fpr(1e-12).background(false);
    // Each checkpoint merges all there is.
    let options = options.least_run(u64::MAX);
    options.segment_pages(2).step_segments(1)
}

pub(super) fn insert(store: &Store, numbers: Range<u64>) {
    let keys: Vec<u64> = numbers.map(key).collect();
    let new = store.insert_batch(&keys).unwrap();
    assert!(new.iter().all(|new| *new));
}

pub(super) fn found(store: &Store, numbers: Range<u64>) -> u64 {
    let keys: Vec<u64> = numbers.map(key).collect();
    let found = store.contains_batch(&keys).unwrap();
    found.iter().map(|found| u64::from(*found)).sum()
}

pub(super) fn named(path: &Path) -> Named {
    newest(&from(&std::fs::read(path).unwrap())).unwrap()
}

/// Stores whose process died between two steps of a checkpoint, after one step, two and so on.
pub(crate) fn partly_merged() -> Vec<(TempDir, PathBuf)> {
    partly_merged_by(Store::checkpoint)
}

/// The same for a checkpoint that this runs.
fn partly_merged_by(checkpoint: fn(&Store) -> everseen::Result<()>) -> Vec<(TempDir, PathBuf)> {
    let mut stores = Vec::new();
    let mut version = 0;
    for nth in 1.. {
        let (_folder, path) = place();
        let storage = FaultStorage::without_syncs();
        let store = options().storage(storage.shared()).create(&path).unwrap();
        insert(&store, 0..OLD);
        store.checkpoint().unwrap();
        insert(&store, OLD..OLD + NEW);
        let (folder, killed, is_over) =
            killed_at_write(&storage, nth, &path, || checkpoint(&store));
        let newest = named(&killed);
        if newest.is_partly_merged && newest.version > version {
            version = newest.version;
            stores.push((folder, killed));
        }
        if is_over {
            break;
        }
    }
    assert!(stores.len() > 3, "{} steps are few", stores.len());
    stores
}

#[test]
fn keys_count_once_whatever_has_them_after_a_death_between_two_steps() {
    for (_folder, path) in partly_merged() {
        // The pages have some of the new keys, and not all.
        let before = std::fs::read(&path).unwrap();
        let reader = options().open_read_only(&path).unwrap();
        assert_eq!(found(&reader, 0..OLD + NEW), OLD + NEW);
        assert_eq!(found(&reader, OLD + NEW..2 * OLD), 0);
        assert_eq!(reader.stats().unwrap().keys, OLD + NEW);
        drop(reader);
        assert!(before == std::fs::read(&path).unwrap());

        let store = options().open(&path).unwrap();
        assert_eq!(store.stats().unwrap().keys, OLD + NEW);
        let keys: Vec<u64> = (0..OLD + NEW).map(key).collect();
        let new = store.insert_batch(&keys).unwrap();
        assert!(new.iter().all(|new| !*new));
        store.checkpoint().unwrap();
        assert_eq!(store.stats().unwrap().keys, OLD + NEW);
        assert_eq!(store.verify().unwrap().fingerprints, OLD + NEW);
        store.close().unwrap();
        assert!(!named(&path).is_partly_merged);
    }
}

/// The log of a checkpoint that has begun must be there, though the pages have a part of it.
#[test]
fn a_log_that_is_lost_between_two_steps_is_missed() {
    for (_folder, path) in partly_merged() {
        let generation = named(&path).generation;
        std::fs::remove_file(log_path(&path, generation)).unwrap();
        match options().open(&path) {
            Err(Error::Log { source, .. }) => {
                assert_eq!(source, LogError::Missing { generation });
            }
            other => panic!("{other:?}"),
        }
        let report = options().repair(&path, OnDamage::NeverSeen).unwrap();
        assert!(report.rolled_back);
        let store = options().open(&path).unwrap();
        let left = found(&store, 0..OLD + NEW);
        assert!(OLD < left && left < OLD + NEW, "{left}");
        assert_eq!(store.stats().unwrap().keys, left);
        assert_eq!(store.verify().unwrap().fingerprints, left);
        insert(&store, OLD + NEW..2 * OLD);
        assert_eq!(store.stats().unwrap().keys, left + 2 * OLD - OLD - NEW);
        store.close().unwrap();
    }
}

/// A log is closed before its checkpoint begins. One that is cut short between two steps is damaged, also if there is no
/// later one.
#[test]
fn a_log_that_is_open_again_between_two_steps_is_refused() {
    let closing = partly_merged_by(|store| store.close().map(drop));
    for (_folder, path) in partly_merged().into_iter().chain(closing) {
        let log = log_path(&path, named(&path).generation);
        let mut bytes = std::fs::read(&log).unwrap();
        let end = chain(&bytes).last().unwrap().offset;
        bytes[end..].fill(0);
        std::fs::write(&log, bytes).unwrap();
        match options().open(&path) {
            Err(Error::Log { source, .. }) => {
                assert_eq!(source, LogError::Unsealed { end: end as u64 });
            }
            other => panic!("{other:?}"),
        }
        options().repair(&path, OnDamage::NeverSeen).unwrap();
        let store = options().open(&path).unwrap();
        assert_eq!(found(&store, 0..OLD + NEW), OLD + NEW);
        assert_eq!(store.stats().unwrap().keys, OLD + NEW);
        assert_eq!(store.verify().unwrap().fingerprints, OLD + NEW);
    }
}

/// A log that memory has no room for goes into the pages from the disk, in steps as well, before the store is open.
#[test]
fn a_log_that_memory_has_no_room_for_is_merged_in_steps() {
    for nth in 1.. {
        let (_folder, path) = place();
        let storage = FaultStorage::without_syncs();
        let large = options().buffer(4 << 20).storage(storage.shared());
        let store = large.create(&path).unwrap();
        insert(&store, 0..OLD);
        store.checkpoint().unwrap();
        insert(&store, OLD..4 * OLD);
        let (_copy, killed, is_over) = killed_at_write(&storage, nth, &path, || store.checkpoint());
        drop(store);
        let small = options().buffer(LEAST_BUFFER);
        for _ in 0..2 {
            let store = small.open(&killed).unwrap();
            assert_eq!(found(&store, 0..4 * OLD), 4 * OLD);
            assert_eq!(store.stats().unwrap().keys, 4 * OLD);
            store.close().unwrap();
        }
        assert!(!named(&killed).is_partly_merged);
        if is_over {
            assert!(nth > 15, "{nth} writes are few");
            break;
        }
    }
}

/// Look-ups at each write of a checkpoint in steps, which makes a new filter of absent keys meanwhile.
#[test]
fn all_keys_are_found_between_steps() {
    let (_folder, path) = place();
    let held: Arc<OnceLock<Store>> = Arc::default();
    let (looking, looks) = (Arc::clone(&held), Arc::new(AtomicU64::new(0)));
    let (is_armed, counted) = (Arc::new(AtomicBool::new(false)), Arc::clone(&looks));
    let armed = Arc::clone(&is_armed);
    let hook = move |point: Point<'_>| {
        let is_due = point.call == hooked::Call::Written && !point.is_log();
        if is_due && armed.load(Ordering::Relaxed) {
            let store = looking.get().unwrap();
            assert_eq!(found(store, 0..OLD + 4 * NEW), OLD + 4 * NEW);
            assert_eq!(store.stats().unwrap().keys, OLD + 4 * NEW);
            counted.fetch_add(1, Ordering::Relaxed);
        }
    };
    let disk = Hooked::new(Unsynced::new(), Arc::new(hook));
    let options = options().buffer(1 << 20).filtered_from(0).storage(disk);
    let store = held.get_or_init(|| options.create(&path).unwrap());
    insert(store, 0..NEW);
    store.checkpoint().unwrap();
    insert(store, NEW..OLD);
    store.checkpoint().unwrap();
    insert(store, OLD..OLD + 4 * NEW);
    is_armed.store(true, Ordering::Relaxed);
    store.checkpoint().unwrap();
    let looks = looks.load(Ordering::Relaxed);
    println!("{looks} looks");
    assert!(looks > 20, "{looks} looks are few");
}

/// What the steps before have freed holds the segments of the next.
#[test]
fn an_open_store_takes_little_more_than_its_segments() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    insert(&store, 0..3 * OLD);
    store.checkpoint().unwrap();
    for round in 0..10 {
        let first = 3 * OLD + 100 * round;
        insert(&store, first..first + 100);
        store.checkpoint().unwrap();
        let pages: u64 = named(&path)
            .pages
            .iter()
            .map(|range| range.end - range.start)
            .sum();
        let length = std::fs::metadata(&path).unwrap().len() / 4096 - 32;
        // The share of a step, a directory, and pieces that nothing fits into.
        assert!(
            length * 10 <= pages * 15,
            "round {round}: {pages} of {length} pages"
        );
    }
    assert_eq!(found(&store, 0..3 * OLD + 1000), 3 * OLD + 1000);
}
