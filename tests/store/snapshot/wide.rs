//! Deltas of stores with several segments: those that the copy lacks are in them, and no others.

use std::fs;
use std::path::{Path, PathBuf};

use everseen::{Kind, Store};

use super::segments::{options, spread};
use super::setting::assert_same;
use crate::support::fault::{Failure, Fault, FaultStorage, Rule};
use crate::support::files::{beside, place, small};
use crate::support::forge::u64_at;
use crate::support::share::{Share, all_some_or};

/// Keys that make four segments or more, and the pages of a segment: as users have them, or four or sixteen times smaller.
fn size() -> (u64, u64) {
    all_some_or((3_400_000, 1020), (880_000, 255), (220_000, 64))
}

/// A store of several segments: fingerprints of 63 bits, so that few fill one.
fn wide_store(least_run: u64) -> (tempfile::TempDir, PathBuf, Store) {
    let (folder, path) = place();
    let (many, pages) = size();
    let options = small().kind(Kind::Fingerprint).segment_pages(pages);
    let options = options.least_run(least_run);
    let options = options.buffer(64 << 20).capacity(3_410_000).fpr(4e-13);
    let store = options.create(&path).unwrap();
    let hashes: Vec<u64> = (0..many).map(spread).collect();
    for some in hashes.chunks(1 << 20) {
        store.insert_batch(some).unwrap();
    }
    store.checkpoint().unwrap();
    (folder, path, store)
}

/// The number of segments that the newest superblock of a copy names (FORMAT.md, "Directory entry").
fn segments(copy: &Path) -> u64 {
    let file = fs::read(copy).unwrap();
    u64_at(&file, 16_384 + 320 + 16)
}

/// What few keys change is a run of its own, and the delta is that run.
#[test]
fn a_delta_after_few_keys_is_as_small_as_they_are() {
    let (_folder, path, store) = wide_store(16);
    let [kept, delta, whole] = ["-kept", "-delta", "-whole"].map(|name| beside(&path, name));
    store.snapshot(&kept).unwrap();
    for round in 0..8_u64 {
        for key in 0..16 {
            assert!(store.insert(spread(1 << 40 | round << 8 | key)).unwrap());
        }
        let made = store.snapshot_since(&delta, &kept).unwrap();
        // Directories of the oldest run and of at most three others, pages of the youngest and their fences.
        assert!(made.pages <= 12, "{} pages", made.pages);
        options().apply(&delta, &kept).unwrap();
        store.snapshot(&whole).unwrap();
        assert_same(&kept, &whole);
        fs::remove_file(&delta).unwrap();
        fs::remove_file(&whole).unwrap();
    }
    store.close().unwrap();
}

#[test]
fn a_delta_carries_the_segments_that_changed_and_no_others() {
    let (_folder, path, store) = wide_store(u64::MAX);
    let [kept, delta, whole] = ["-kept", "-delta", "-whole"].map(|name| beside(&path, name));
    let all = store.snapshot(&kept).unwrap().pages;
    let count = segments(&kept);
    assert!(count >= 4, "{count} segments");
    // Each time one segment changes: the room of those before is used again, so neither file grows on and on.
    let mut lengths = Vec::new();
    for round in 0..8_u64 {
        let hash = (u64::MAX / 8 * round).saturating_add(12_345 + round);
        assert!(store.insert(hash).unwrap());
        let made = store.snapshot_since(&delta, &kept).unwrap();
        let most = all / count * 3 / 2;
        assert!(made.pages <= most, "{} of {all} pages", made.pages);
        let applied = options().apply(&delta, &kept).unwrap();
        assert_eq!(applied.pages, made.pages);
        store.snapshot(&whole).unwrap();
        assert_same(&kept, &whole);
        lengths.push(kept.metadata().unwrap().len());
        fs::remove_file(&delta).unwrap();
        fs::remove_file(&whole).unwrap();
    }
    assert!(lengths[7] <= lengths[0] * 3 / 2, "{lengths:?}");
    // Without a change there is the directory alone.
    let nothing = store.snapshot_since(&delta, &kept).unwrap();
    assert_eq!((nothing.pages, nothing.from), (1, nothing.to));
    assert_eq!(options().apply(&delta, &kept).unwrap().pages, 0);
    assert_same(&kept, &{
        store.snapshot(&whole).unwrap();
        whole
    });
    store.close().unwrap();
}

/// One call in so many fails, unless `EVERSEEN_ALL=1` is set.
const FEW: u64 = 16;

/// Whatever the call that fails, the segments that the delta doesn't carry are as they were.
#[test]
fn an_interrupted_delta_is_completed_beside_the_segments_that_stay() {
    let (_folder, path, store) = wide_store(u64::MAX);
    let [kept, delta, whole] = ["-kept", "-delta", "-whole"].map(|name| beside(&path, name));
    store.snapshot(&kept).unwrap();
    for round in 0..3 {
        assert!(store.insert(12_345 + round).unwrap());
        store.checkpoint().unwrap();
    }
    store.snapshot_since(&delta, &kept).unwrap();
    store.snapshot(&whole).unwrap();
    store.close().unwrap();
    let mut half = 0;
    let mut share = Share::one_in(FEW);
    for nth in 1.. {
        if !share.takes() {
            continue;
        }
        let copy = beside(&path, "-copy");
        fs::copy(&kept, &copy).unwrap();
        let storage = FaultStorage::without_syncs();
        storage.arm(Rule::from(nth, Fault::Torn(Failure::NoSpace)));
        let options = options().storage(storage.shared());
        let outcome = options.apply(&delta, &copy);
        storage.heal();
        let resumed = options.apply(&delta, &copy).unwrap().resumed;
        half += u64::from(resumed);
        assert_same(&copy, &whole);
        if outcome.is_ok() {
            break;
        }
    }
    assert!(half >= 1, "none was half");
}
