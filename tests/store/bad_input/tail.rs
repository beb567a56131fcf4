//! What a crash leaves at the end of a log, and that it never comes back.

use std::fs::{self, OpenOptions as File};
use std::path::{Path, PathBuf};

use everseen::LogError;
use everseen::testing::Options;
use tempfile::TempDir;

use crate::support::files::{held, image, key, keys, log_error, log_of, place, small};
use crate::support::log;

fn options() -> Options {
    small().capacity(1000).fpr(1e-9)
}

/// Log 1 with keys 0 to 20 in one record and 20 to 40 in the next.
fn two_records() -> (TempDir, PathBuf) {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..20)).unwrap();
    store.insert_batch(&keys(20..40)).unwrap();
    image(&path)
}

#[track_caller]
fn first_alone(path: &Path, what: &str, at: usize) {
    let reader = options().open_read_only(path).unwrap();
    assert_eq!(held(&reader, &keys(0..20)), 20, "{what} {at}");
    assert_eq!(held(&reader, &keys(20..40)), 0, "{what} {at}");
}

/// The log tells that it was cut off, as its note says how long it was made.
#[track_caller]
fn cut_off(path: &Path, expected: usize, got: usize) {
    let (expected, got) = (expected as u64, got as u64);
    for outcome in [options().open(path), options().open_read_only(path)] {
        let error = log_error(outcome, &log_of(path, 1));
        assert_eq!(error, LogError::Truncated { expected, got });
    }
}

#[test]
fn a_tail_torn_at_every_length() {
    let (_folder, path) = two_records();
    let log = log_of(&path, 1);
    let good = fs::read(&log).unwrap();
    log::blank_note(&log);
    let unnoted = fs::read(&log).unwrap();
    let last = log::records(&log).pop().unwrap();
    assert_eq!(last.end - last.offset, 24 + 20 * 8);
    for at in last.offset..last.end {
        let mut zeroed = good.clone();
        zeroed[at..last.end].fill(0);
        if zeroed == good {
            continue;
        }
        fs::write(&log, &zeroed).unwrap();
        first_alone(&path, "zeros from", at);
        fs::write(&log, &good[..at]).unwrap();
        cut_off(&path, good.len(), at);
        fs::write(&log, &unnoted[..at]).unwrap();
        first_alone(&path, "cut at", at);
        let mut flipped = good.clone();
        flipped[at] ^= 0xFF;
        fs::write(&log, &flipped).unwrap();
        first_alone(&path, "another byte at", at);
    }
    // And for writing: what follows goes where the torn record was.
    for at in [last.offset, last.offset + 24, last.end - 1] {
        let (_folder, path) = image(&path);
        fs::write(log_of(&path, 1), &unnoted[..at]).unwrap();
        let store = options().open(&path).unwrap();
        assert!(store.insert(key(100)).unwrap());
        assert!(store.insert(key(30)).unwrap());
        store.close().unwrap();
        let store = options().open(&path).unwrap();
        assert_eq!(held(&store, &keys(0..20)), 20);
        assert_eq!(held(&store, &keys(20..40)), 1);
        assert!(store.contains(key(100)).unwrap());
    }
}

#[test]
fn a_log_that_ends_behind_its_header() {
    let (_folder, path) = two_records();
    let log = File::new().write(true).open(log_of(&path, 1)).unwrap();
    let made = log.metadata().unwrap().len() as usize;
    log.set_len(4096).unwrap();
    cut_off(&path, made, 4096);
    log::blank_note(&log_of(&path, 1));
    let store = options().open(&path).unwrap();
    assert_eq!(held(&store, &keys(0..40)), 0);
    store.insert_batch(&keys(0..20)).unwrap();
    store.close().unwrap();
    assert_eq!(held(&options().open(&path).unwrap(), &keys(0..20)), 20);
}

/// The record behind the torn one is whole, and lies just where the new one ends. Only that it
/// follows on another record tells that it is old.
#[test]
fn what_lies_behind_a_torn_record_never_comes_back() {
    let (_folder, path) = two_records();
    let log = log_of(&path, 1);
    let records = log::records(&log);
    let [_, first, second] = &records[..] else {
        panic!("{records:?}");
    };
    let mut file = fs::read(&log).unwrap();
    // Torn: its end never reached the disk.
    file[first.end - 8..first.end].fill(0);
    fs::write(&log, &file).unwrap();
    let store = options().open(&path).unwrap();
    assert_eq!(held(&store, &keys(0..40)), 0);
    // The open record of the new handle takes 40 bytes; fill up to where the old second begins.
    let room = second.offset - first.offset - 40 - 24;
    assert_eq!(room % 8, 0);
    store
        .insert_batch(&keys(100..100 + room as u64 / 8))
        .unwrap();
    let (_killed, path) = image(&path);
    let log = log_of(&path, 1);
    assert_eq!(log::end(&log), second.offset);
    let file = fs::read(&log).unwrap();
    let stale = &file[second.offset..second.end];
    assert_eq!(
        stale[24..],
        second.payload,
        "the old record is still there, whole"
    );
    let store = options().open(&path).unwrap();
    assert_eq!(held(&store, &keys(0..40)), 0);
    assert_eq!(held(&store, &keys(100..100 + room as u64 / 8)), room / 8);
}

/// The same keys in the same places: but for the nonce of each opener, the record that is written
/// over the torn one would be equal to it, and the stale one behind it would follow.
#[test]
fn not_even_where_the_same_is_written_over_it() {
    let (_folder, path) = place();
    options().create(&path).unwrap().close().unwrap();
    let store = options().open(&path).unwrap();
    store.commit().unwrap();
    let (_killed, path) = image(&path);
    // Three openers write the same from the same place on, and each is killed; of the first, two
    // records of keys remain, of each other one.
    let begin = log::end(&log_of(&path, 1));
    let mut path = path;
    let mut folders = Vec::new();
    for opener in 0..3 {
        let mut file = fs::read(log_of(&path, 1)).unwrap();
        // The first record behind the mark is torn.
        file[begin..begin + 4].fill(0);
        fs::write(log_of(&path, 1), file).unwrap();
        let store = options().open(&path).unwrap();
        assert_eq!(held(&store, &keys(0..40)), 0);
        store.insert_batch(&keys(0..20)).unwrap();
        if opener == 0 {
            store.insert_batch(&keys(20..40)).unwrap();
        }
        let (folder, killed) = image(&path);
        folders.push(folder);
        path = killed;
    }
    let store = options().open(&path).unwrap();
    assert_eq!(held(&store, &keys(0..20)), 20);
    assert_eq!(held(&store, &keys(20..40)), 0);
}
