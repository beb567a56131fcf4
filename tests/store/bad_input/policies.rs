//! What a handle was told to do about damaged pages, and repairs.

use std::fs;
use std::path::Path;

use everseen::testing::Options;
use everseen::{Error, FormatError, Kind, LogError, OnDamage, SuperblockFault};

use crate::support::files::{beside, format_error, held, image, keys, log_of, place, small};

const PAGES: usize = 131_072;
const SUPERBLOCKS: [usize; 2] = [16_384, 73_728];

fn options() -> Options {
    small().capacity(4000).fpr(1e-9)
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x40;
    fs::write(path, bytes).unwrap();
}

/// Which of the two superblocks has the higher sequence.
fn newest(path: &Path) -> usize {
    let bytes = fs::read(path).unwrap();
    let sequence = |slot: usize| {
        let at = SUPERBLOCKS[slot] + 16;
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    };
    usize::from(sequence(1) > sequence(0))
}

#[test]
fn keys_of_a_damaged_page_count_as_never_seen() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    let old = keys(0..2000);
    store.insert_batch(&old).unwrap();
    store.close().unwrap();
    flip(&path, PAGES + 4096 + 100);
    let store = options()
        .on_damage(OnDamage::NeverSeen)
        .open(&path)
        .unwrap();
    let left = held(&store, &old);
    let pages = store.stats().unwrap().layers[0].pages as usize;
    assert!(left < 2000 && left > 2000 - 2 * 2000 / pages, "{left}");
    assert_eq!(store.verify().unwrap().damaged.len(), 1);
    // Again: those that are gone are new, and the checkpoint writes their page anew.
    let new = store.insert_batch(&old).unwrap();
    assert_eq!(new.iter().filter(|new| **new).count(), 2000 - left);
    store.checkpoint().unwrap();
    assert!(store.verify().unwrap().is_ok());
    assert_eq!(held(&store, &old), 2000);
    store.close().unwrap();
    let store = options().open(&path).unwrap();
    assert_eq!(held(&store, &old), 2000);
    assert_eq!(held(&store, &keys(5000..6000)), 0);
}

#[test]
fn keys_of_a_damaged_page_count_as_seen() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    let old = keys(0..2000);
    store.insert_batch(&old).unwrap();
    store.close().unwrap();
    // Claimed before the damage: the checkpoint must bring them to the damaged page.
    let store = options().on_damage(OnDamage::Seen).open(&path).unwrap();
    let before = keys(2000..2500);
    store.insert_batch(&before).unwrap();
    flip(&path, PAGES + 4096 + 100);
    let other = options().on_damage(OnDamage::Seen).open(&path).unwrap();
    assert_eq!(held(&other, &old), 2000);
    let never = keys(5000..7000);
    let seen = held(&other, &never);
    assert!(seen > 0 && seen < 2000, "{seen}");
    store.checkpoint().unwrap();
    assert!(store.verify().unwrap().is_ok());
    other.close().unwrap();
    store.close().unwrap();
    // For good, and for who would have had an error.
    let store = options().open(&path).unwrap();
    assert_eq!(held(&store, &old), 2000);
    assert_eq!(held(&store, &before), 500);
    assert_eq!(held(&store, &never), seen);
}

#[test]
fn an_open_store_is_repaired_beside_others() {
    for (policy, absent) in [(OnDamage::NeverSeen, true), (OnDamage::Seen, false)] {
        let (_folder, path) = place();
        let store = options().create(&path).unwrap();
        let old = keys(0..2000);
        store.insert_batch(&old).unwrap();
        store.close().unwrap();
        flip(&path, PAGES + 8);
        flip(&path, PAGES + 2 * 4096 + 4000);
        let other = options().open(&path).unwrap();
        let store = options().open(&path).unwrap();
        let error = store.repair(OnDamage::Error).unwrap_err();
        assert!(
            matches!(
                error,
                Error::InvalidOption {
                    option: "repair",
                    ..
                }
            ),
            "{error:?}"
        );
        let report = store.repair(policy).unwrap();
        let pages: Vec<_> = report.pages.iter().map(|page| page.page).collect();
        assert_eq!(pages, [0, 2]);
        assert!(!report.is_whole());
        assert!(store.repair(policy).unwrap().is_whole());
        for store in [&store, &other] {
            assert!(store.verify().unwrap().is_ok());
            assert_eq!(held(store, &old) < 2000, absent);
        }
    }
}

#[test]
fn a_damaged_header_is_restored_from_a_superblock() {
    for at in [0, 8, 45, 100, 252, 255, 300, 4095] {
        let (_folder, path) = place();
        let store = options().create(&path).unwrap();
        store.insert_batch(&keys(0..100)).unwrap();
        store.close().unwrap();
        let before = fs::read(&path).unwrap();
        flip(&path, at);
        options().open(&path).unwrap_err();
        let report = options().repair(&path, OnDamage::NeverSeen).unwrap();
        assert!(report.header && report.pages.is_empty(), "{report:?}");
        assert!(fs::read(&path).unwrap()[..4096] == before[..4096]);
        let store = options().open(&path).unwrap();
        assert_eq!(held(&store, &keys(0..100)), 100);
    }
}

#[test]
fn what_is_no_store_is_not_made_one() {
    let (_folder, path) = place();
    for length in [0, 10, 5000, 200_000] {
        let bytes = vec![b'x'; length];
        fs::write(&path, &bytes).unwrap();
        let error = options().repair(&path, OnDamage::NeverSeen).unwrap_err();
        assert!(matches!(error, Error::Format { .. }), "{error:?}");
        assert!(fs::read(&path).unwrap() == bytes);
    }
}

#[test]
fn a_damaged_superblock_is_told_and_written_anew() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    store.close().unwrap();
    let older = 1 - newest(&path);
    flip(&path, SUPERBLOCKS[older] + 40);
    let reader = options().open_read_only(&path).unwrap();
    let is_checksum =
        |fault: &Option<SuperblockFault>| matches!(fault, Some(SuperblockFault::Checksum { .. }));
    assert!(is_checksum(&reader.recovery().superblock));
    assert!(!reader.recovery().is_clean());
    let found = reader.verify().unwrap();
    assert!(is_checksum(&found.superblock) && found.is_ok());
    drop(reader);
    let report = options().repair(&path, OnDamage::NeverSeen).unwrap();
    assert!(report.superblock && !report.rolled_back, "{report:?}");
    let store = options().open(&path).unwrap();
    assert!(store.recovery().is_clean());
    assert!(store.verify().unwrap().is_ok());
    assert_eq!(held(&store, &keys(0..100)), 100);
}

/// The newest superblock is lost after a clean close: the older one expects a log that is gone.
#[test]
fn a_store_goes_on_with_its_older_superblock() {
    let (_folder, path) = place();
    let store = options().transactional(true).create(&path).unwrap();
    store.insert_batch(&keys(0..500)).unwrap();
    store.commit_with(b"older").unwrap();
    store.checkpoint().unwrap();
    store.insert_batch(&keys(500..1500)).unwrap();
    store.commit_with(b"newer").unwrap();
    store.close().unwrap();
    flip(&path, SUPERBLOCKS[newest(&path)] + 40);
    let error = options().open(&path).unwrap_err();
    let missing = |error: &Error| {
        matches!(
            error,
            Error::Log {
                source: LogError::Missing { .. },
                ..
            }
        )
    };
    assert!(missing(&error), "{error:?}");
    let report = options().repair(&path, OnDamage::NeverSeen).unwrap();
    assert!(report.superblock && report.rolled_back, "{report:?}");
    let store = options().open(&path).unwrap();
    // The pages have all keys still; of the tag only the older one is left.
    assert_eq!(held(&store, &keys(0..1500)), 1500);
    assert_eq!(store.last_commit("default").unwrap().unwrap().tag, b"older");
    let keys_now = store.stats().unwrap().keys;
    assert!((1450..1550).contains(&keys_now), "{keys_now}");
    assert!(store.insert(b"one more").unwrap());
    store.commit().unwrap();
    store.close().unwrap();
    assert!(options().open(&path).unwrap().verify().unwrap().is_ok());
}

#[test]
fn a_log_that_was_lost_is_given_up() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..500)).unwrap();
    store.checkpoint().unwrap();
    store.insert_batch(&keys(500..800)).unwrap();
    let (_killed, killed) = image(&path);
    fs::remove_file(log_of(&killed, 2)).unwrap();
    options().open(&killed).unwrap_err();
    let report = options().repair(&killed, OnDamage::NeverSeen).unwrap();
    assert!(report.rolled_back && !report.superblock, "{report:?}");
    let store = options().open(&killed).unwrap();
    assert_eq!(held(&store, &keys(0..500)), 500);
    assert_eq!(held(&store, &keys(500..800)), 0);
    assert_eq!(store.insert_batch(&keys(500..800)).unwrap(), [true; 300]);
}

/// A layer that nothing tells of any more can't be brought back, and its pages are not given up.
#[test]
fn a_lost_layer_is_not_repaired() {
    let (_folder, path) = place();
    let options = small().kind(Kind::Scalable).capacity(300).fpr(1e-9);
    let store = options.create(&path).unwrap();
    store.insert_batch(&keys(0..300)).unwrap();
    store.checkpoint().unwrap();
    store.insert_batch(&keys(300..900)).unwrap();
    store.close().unwrap();
    flip(&path, SUPERBLOCKS[newest(&path)] + 40);
    let before = fs::read(&path).unwrap();
    let error = options.repair(&path, OnDamage::NeverSeen).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Log {
                source: LogError::Missing { .. },
                ..
            }
        ),
        "{error:?}"
    );
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn both_superblocks_lost_is_the_end() {
    let (_folder, path) = place();
    options().create(&path).unwrap().close().unwrap();
    for offset in SUPERBLOCKS {
        let mut bytes = fs::read(&path).unwrap();
        bytes[offset..offset + 4096].fill(7);
        fs::write(&path, bytes).unwrap();
    }
    let error = options().repair(&path, OnDamage::NeverSeen).unwrap_err();
    let Error::Format { source, .. } = error else {
        panic!("{error:?}");
    };
    assert!(matches!(source, FormatError::NoSuperblock { .. }));
    let opened = options().open(&path);
    assert_eq!(format_error(opened, &path), source);
}

#[test]
fn a_damaged_log_is_cut_off_at_the_damage() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    store.commit().unwrap();
    let end = store.stats().unwrap().log_bytes as usize;
    store.insert_batch(&keys(100..200)).unwrap();
    store.commit().unwrap();
    store.insert_batch(&keys(200..300)).unwrap();
    store.commit().unwrap();
    let (_killed, killed) = image(&path);
    flip(&log_of(&killed, 1), end + 100);
    let error = options().open(&killed).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Log {
                source: LogError::Damaged { .. },
                ..
            }
        ),
        "{error:?}"
    );
    let report = options().repair(&killed, OnDamage::NeverSeen).unwrap();
    assert!(report.log_bytes > 800, "{report:?}");
    let store = options().open(&killed).unwrap();
    assert_eq!(held(&store, &keys(0..100)), 100);
    assert_eq!(held(&store, &keys(100..300)), 0);
}

#[test]
fn a_store_in_use_is_not_repaired() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    let error = options().repair(&path, OnDamage::NeverSeen).unwrap_err();
    assert!(
        matches!(&error, Error::Locked { path: got } if *got == path),
        "{error:?}"
    );
    store.close().unwrap();
    assert!(options().repair(&path, OnDamage::Seen).unwrap().is_whole());
    let missing = beside(&path, "-none");
    let error = options().repair(&missing, OnDamage::Seen).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
}

/// A checkpoint that a damaged page keeps from its end is finished by a repair.
#[test]
fn a_repair_finishes_the_checkpoint_that_damage_held_up() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..2000)).unwrap();
    store.close().unwrap();
    let store = options().open(&path).unwrap();
    store.insert_batch(&keys(2000..3000)).unwrap();
    flip(&path, PAGES + 4096 + 100);
    store.checkpoint().unwrap_err();
    drop(store);
    let report = options().repair(&path, OnDamage::NeverSeen).unwrap();
    let pages: Vec<_> = report.pages.iter().map(|page| page.page).collect();
    assert_eq!(pages, [1]);
    let store = options().open(&path).unwrap();
    assert!(store.recovery().is_clean());
    assert_eq!(held(&store, &keys(2000..3000)), 1000);
    assert!(store.verify().unwrap().is_ok());
}

#[test]
fn recovery_tells_what_it_found() {
    let (_folder, path) = place();
    let store = options().transactional(true).create(&path).unwrap();
    assert!(store.recovery().is_clean());
    store.insert_batch(&keys(0..300)).unwrap();
    store.commit().unwrap();
    store.insert_batch(&keys(300..350)).unwrap();
    let other = options().open(&path).unwrap();
    assert!(other.recovery().joined);
    let (_killed, killed) = image(&path);
    let reader = options().open_read_only(&killed).unwrap();
    let seen = reader.recovery().clone();
    drop(reader);
    let store = options().open(&killed).unwrap();
    let report = store.recovery();
    assert_eq!(*report, seen);
    assert_eq!((report.logs, report.keys, report.dropped), (1, 300, 50));
    assert!(report.log_bytes > 4096 && !report.checkpoint && !report.joined);
    store.close().unwrap();
    assert!(options().open(&killed).unwrap().recovery().is_clean());
}
