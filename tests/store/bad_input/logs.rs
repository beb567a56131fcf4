//! Logs that are missing, foreign, of another time, or damaged in their header.

use std::fs;
use std::path::{Path, PathBuf};

use everseen::LogError;
use everseen::testing::Options;
use tempfile::TempDir;

use crate::support::fault::{Call, Failure, Fault, FaultStorage, Rule};
use crate::support::files::{held, image, keys, log_error, log_of, names, place, small};
use crate::support::forge::{SUPERBLOCKS, newest, patch};
use crate::support::log;

fn options() -> Options {
    small().capacity(1000).fpr(1e-9)
}

/// What a killed process leaves: a store that expects log 1, with keys 0 to 100 in it.
fn killed() -> (TempDir, PathBuf) {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    store.commit().unwrap();
    image(&path)
}

/// The error of both ways to open; nothing on the disk may change.
#[track_caller]
fn refused(path: &Path, expected: &LogError) {
    let before: Vec<_> = names(path);
    let store = fs::read(path).unwrap();
    for outcome in [options().open(path), options().open_read_only(path)] {
        assert_eq!(&log_error(outcome, &log_of(path, 1)), expected);
    }
    assert_eq!(names(path), before);
    assert_eq!(fs::read(path).unwrap(), store);
}

#[test]
fn a_store_that_was_moved_without_its_log() {
    let (_folder, path) = killed();
    fs::remove_file(log_of(&path, 1)).unwrap();
    refused(&path, &LogError::Missing { generation: 1 });
}

#[test]
fn every_flipped_byte_of_the_log_s_header() {
    let (_folder, path) = killed();
    let log = log_of(&path, 1);
    let good = fs::read(&log).unwrap();
    for at in 0..64 {
        let mut bad = good.clone();
        bad[at] ^= 0x20;
        fs::write(&log, bad).unwrap();
        refused(&path, &LogError::Header);
    }
    fs::write(&log, good).unwrap();
    assert_eq!(held(&options().open(&path).unwrap(), &keys(0..100)), 100);
}

#[test]
fn a_log_cut_short_within_its_header_s_page() {
    let (_folder, path) = killed();
    let good = fs::read(log_of(&path, 1)).unwrap();
    for length in [0, 1, 63, 64, 4095] {
        fs::write(log_of(&path, 1), &good[..length]).unwrap();
        refused(&path, &LogError::Header);
    }
}

#[test]
fn a_log_of_a_newer_version() {
    let (_folder, path) = killed();
    log::header(&log_of(&path, 1), 8, &7_u32.to_le_bytes());
    let expected = LogError::UnsupportedVersion {
        expected: 2,
        got: 7,
    };
    refused(&path, &expected);
}

#[test]
fn a_log_of_another_store() {
    let (_folder, path) = killed();
    let (_other_folder, other) = killed();
    fs::copy(log_of(&other, 1), log_of(&path, 1)).unwrap();
    let id = |store: &Path| {
        let file = fs::read(store).unwrap();
        file[112..128]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let expected = LogError::Foreign {
        expected: id(&path),
        got: id(&other),
    };
    refused(&path, &expected);
}

#[test]
fn a_log_of_another_generation() {
    let (_folder, path) = killed();
    log::header(&log_of(&path, 1), 48, &9_u64.to_le_bytes());
    let expected = LogError::WrongGeneration {
        expected: 1,
        got: 9,
    };
    refused(&path, &expected);
}

#[test]
fn a_log_that_its_maker_did_not_finish_is_passed_by() {
    let (_folder, path) = place();
    options().create(&path).unwrap().close().unwrap();
    for bytes in [
        vec![],
        vec![0; 4096],
        [&b"EVERSLOG"[..], &[0xA5; 70_000]].concat(),
        b"EVERSLOG".to_vec(),
    ] {
        fs::write(log_of(&path, 1), &bytes).unwrap();
        let store = options().open_read_only(&path).unwrap();
        assert_eq!(held(&store, &keys(0..100)), 0);
        drop(store);
        assert_eq!(names(&path), ["store", "store-log.1"]);
        options().open(&path).unwrap().close().unwrap();
        assert_eq!(names(&path), ["store"]);
    }
}

#[test]
fn a_log_whose_checkpoint_was_done_is_removed() {
    let (_folder, path) = killed();
    let old = fs::read(log_of(&path, 1)).unwrap();
    let store = options().open(&path).unwrap();
    store.close().unwrap();
    assert_eq!(names(&path), ["store"]);
    fs::write(log_of(&path, 1), old).unwrap();
    let store = options().open(&path).unwrap();
    assert_eq!(names(&path), ["store"]);
    assert_eq!(store.stats().unwrap().keys, 100);
    assert_eq!(held(&store, &keys(0..100)), 100);
}

/// A rotation makes the next log before it closes the active one. It does not sync it then: a note that says so proves
/// that the active one had been closed.
#[test]
fn a_next_log_whose_predecessor_is_open_does_not_count() {
    let (_folder, path) = killed();
    fs::copy(log_of(&path, 1), log_of(&path, 2)).unwrap();
    log::header(&log_of(&path, 2), 48, &2_u64.to_le_bytes());
    let expected = LogError::Damaged {
        offset: 4096,
        durable: log::end(&log_of(&path, 1)) as u64,
    };
    for outcome in [options().open(&path), options().open_read_only(&path)] {
        assert_eq!(log_error(outcome, &log_of(&path, 2)), expected);
    }
    log::blank_note(&log_of(&path, 2));
    let store = options().open(&path).unwrap();
    assert_eq!(names(&path), ["store", "store-log.1"]);
    assert_eq!(held(&store, &keys(0..100)), 100);
}

/// What a killed process leaves whose checkpoint found no room: log 1 is closed and holds keys 0 to
/// 100, log 2 holds 100 to 200, all committed. If it has begun, its intent is on the disk.
fn killed_at_a_checkpoint(begun: bool) -> (TempDir, PathBuf) {
    let (_folder, path) = place();
    let storage = FaultStorage::new();
    let store = options().storage(storage.shared()).create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    store.commit().unwrap();
    let first = if begun { 2 } else { 1 };
    let full = Fault::Fails(Failure::NoSpace);
    storage.arm(Rule::from(first, full).on(Call::Write).on_store());
    store.checkpoint().unwrap_err();
    store.insert_batch(&keys(100..200)).unwrap();
    store.commit().unwrap();
    let killed = image(&path);
    storage.heal();
    killed
}

#[test]
fn a_checkpoint_that_was_killed_is_done_by_the_next_opener() {
    for begun in [false, true] {
        let (_folder, path) = killed_at_a_checkpoint(begun);
        assert_eq!(names(&path), ["store", "store-log.1", "store-log.2"]);
        let reader = options().open_read_only(&path).unwrap();
        assert_eq!(held(&reader, &keys(0..200)), 200);
        assert_eq!(held(&reader, &keys(200..1000)), 0);
        drop(reader);
        let store = options().open(&path).unwrap();
        assert_eq!(held(&store, &keys(0..200)), 200);
        store.close().unwrap();
        assert_eq!(names(&path), ["store"]);
    }
}

#[test]
fn the_second_of_two_logs_is_missing() {
    let (_folder, path) = killed_at_a_checkpoint(false);
    fs::remove_file(log_of(&path, 2)).unwrap();
    for outcome in [options().open(&path), options().open_read_only(&path)] {
        let error = log_error(outcome, &log_of(&path, 2));
        assert_eq!(error, LogError::Missing { generation: 2 });
    }
}

#[test]
fn a_closed_log_whose_last_record_is_damaged_after_its_checkpoint_began() {
    let (_folder, path) = killed_at_a_checkpoint(true);
    let log = log_of(&path, 1);
    let cut = log::records(&log).pop().unwrap();
    assert_eq!(cut.kind, log::CUT);
    let mut file = fs::read(&log).unwrap();
    file[cut.offset + 30] ^= 1;
    fs::write(&log, file).unwrap();
    let expected = LogError::Unsealed {
        end: cut.offset as u64,
    };
    refused(&path, &expected);
}

/// The superblock that expects the log is damaged, the one before does not know of it, and the log is gone or its header
/// is damaged. The intent still tells that there was one.
#[test]
fn a_log_that_only_an_intent_tells_of() {
    for gone in [true, false] {
        let (_folder, path) = killed_at_a_checkpoint(true);
        let expects = SUPERBLOCKS[newest(&path)];
        patch(&path, expects + 100, &[0xA5; 8]);
        let log = log_of(&path, 1);
        let expected = match gone {
            true => {
                fs::remove_file(&log).unwrap();
                LogError::Missing { generation: 1 }
            }
            false => {
                patch(&log, 20, &[0xA5; 8]);
                LogError::Header
            }
        };
        refused(&path, &expected);
    }
}

/// Before its checkpoint began, only the log after it can tell that it had been closed. That one
/// holds keys that are committed: to take it for one that never counted would lose them.
#[test]
fn a_closed_log_whose_last_record_is_damaged_before_its_checkpoint_began() {
    let (_folder, path) = killed_at_a_checkpoint(false);
    let log = log_of(&path, 1);
    let cut = log::records(&log).pop().unwrap();
    let mut file = fs::read(&log).unwrap();
    file[cut.offset + 30] ^= 1;
    fs::write(&log, file).unwrap();
    let expected = LogError::Unsealed {
        end: cut.offset as u64,
    };
    refused(&path, &expected);
}

/// A log that is gone on with must be expected from then on, or moving the store without it would
/// lose its keys in silence.
#[test]
fn a_log_that_the_superblock_does_not_expect_is_expected_once_it_is_gone_on_with() {
    let (_folder, path) = place();
    options().create(&path).unwrap().close().unwrap();
    let bare = fs::read(&path).unwrap();
    let store = options().open(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    let (_killed, path) = image(&path);
    // As if the superblock that expects the log had been damaged, or never written.
    fs::write(&path, bare).unwrap();
    let store = options().open(&path).unwrap();
    assert_eq!(held(&store, &keys(0..100)), 100);
    store.insert_batch(&keys(100..200)).unwrap();
    store.commit().unwrap();
    let (_moved, path) = image(&path);
    fs::remove_file(log_of(&path, 1)).unwrap();
    refused(&path, &LogError::Missing { generation: 1 });
}
