//! Records that are damaged, or make no sense although every checksum is right.

use std::fs;
use std::path::{Path, PathBuf};

use everseen::LogError;
use everseen::testing::Options;
use tempfile::TempDir;

use crate::support::files::{held, image, keys, log_error, log_of, names, place, small};
use crate::support::log;

fn options() -> Options {
    small().capacity(1000).fpr(1e-9)
}

/// What a killed process leaves: log 1 with keys 0 to 100.
fn killed() -> (TempDir, PathBuf) {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    image(&path)
}

#[track_caller]
fn refused(path: &Path, expected: &LogError) {
    for outcome in [options().open(path), options().open_read_only(path)] {
        assert_eq!(&log_error(outcome, &log_of(path, 1)), expected);
    }
    assert_eq!(names(path), ["store", "store-log.1"]);
}

fn flip(path: &Path, at: usize) {
    let mut file = fs::read(path).unwrap();
    file[at] ^= 0x08;
    fs::write(path, file).unwrap();
}

/// Three commits. The last mark says that the second one had been durable.
fn committed_thrice(transactional: bool) -> (TempDir, PathBuf) {
    let (_folder, path) = place();
    let options = options().transactional(transactional);
    let store = options.create(&path).unwrap();
    for part in [0..50, 50..60, 60..70] {
        store.insert_batch(&keys(part)).unwrap();
        store.commit().unwrap();
    }
    image(&path)
}

#[test]
fn every_damaged_byte_before_what_a_mark_proves_durable() {
    for (transactional, noted) in [(false, false), (true, false), (false, true), (true, true)] {
        let (_folder, path) = committed_thrice(transactional);
        let log = log_of(&path, 1);
        if !noted {
            log::blank_note(&log);
        }
        let good = fs::read(&log).unwrap();
        let records = log::records(&log);
        let kinds: Vec<_> = records.iter().map(|record| record.kind).collect();
        let (open, insert, commit) = (log::OPEN, log::INSERT, log::COMMIT);
        assert_eq!(
            kinds,
            [open, insert, commit, insert, commit, insert, commit]
        );
        let proved = if noted { 7 } else { 5 };
        for (index, record) in records[..proved].iter().enumerate() {
            // Proved by the note, or else by the first mark behind it that can.
            let durable = match index {
                _ if noted => records[6].end,
                0..3 => records[2].end,
                _ => records[4].end,
            } as u64;
            for at in record.offset..record.end {
                let mut bad = good.clone();
                bad[at] ^= 0x80;
                fs::write(&log, bad).unwrap();
                let expected = LogError::Damaged {
                    offset: record.offset as u64,
                    durable,
                };
                let error = log_error(options().open_read_only(&path), &log);
                assert_eq!(error, expected, "byte {at}");
            }
            refused(
                &path,
                &LogError::Damaged {
                    offset: record.offset as u64,
                    durable,
                },
            );
        }
    }
}

/// A later opener made durable all that it read, so its marks prove it.
#[test]
fn damage_to_what_an_earlier_opener_made_durable() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..50)).unwrap();
    store.commit().unwrap();
    let (_killed, path) = image(&path);
    let log = log_of(&path, 1);
    let read = log::end(&log) as u64;
    let store = options().open(&path).unwrap();
    store.insert_batch(&keys(50..60)).unwrap();
    store.commit().unwrap();
    let (_killed, path) = image(&path);
    let log = log_of(&path, 1);
    log::blank_note(&log);
    let records = log::records(&log);
    flip(&log, records[1].offset + 40);
    let expected = LogError::Damaged {
        offset: records[1].offset as u64,
        durable: read,
    };
    refused(&path, &expected);
}

/// Without the note, the last commit's own keys can't be proved by anything behind it: a torn tail looks the same.
#[test]
fn damage_behind_the_last_proof_is_a_torn_tail() {
    for transactional in [false, true] {
        let (_folder, path) = committed_thrice(transactional);
        let log = log_of(&path, 1);
        log::blank_note(&log);
        let records = log::records(&log);
        flip(&log, records[5].offset + 25);
        let store = options().open(&path).unwrap();
        assert_eq!(held(&store, &keys(0..60)), 60);
        assert_eq!(held(&store, &keys(60..70)), 0);
        assert_eq!(store.last_commit("default").unwrap().unwrap().sequence, 2);
    }
}

#[test]
fn a_mark_that_can_t_be_read() {
    let (_folder, good) = killed();
    let long = log::mark(1, 4096, b"w", &[0; 4097]);
    for payload in [
        vec![],
        vec![0; 16],
        log::mark(1, 4096, b"", b""),
        log::mark(1, 4096, &[b'w'; 256], b""),
        log::mark(1, 4096, &[0xFF, 0xFE], b""),
        long,
        log::mark(1, 4096, b"w", &[0; 100])[..64].to_vec(),
    ] {
        let (_folder, path) = image(&good);
        let at = log::append(&log_of(&path, 1), log::COMMIT, 1, &payload);
        let expected = LogError::Nonsense {
            offset: at as u64,
            reason: "its commit mark can't be read",
        };
        refused(&path, &expected);
    }
}

/// The layer of the store as a cut names it.
fn layer(path: &Path) -> Vec<u8> {
    let file = fs::read(path).unwrap();
    let slot = crate::support::forge::newest(path);
    file[crate::support::forge::SUPERBLOCKS[slot] + 320..][..64].to_vec()
}

fn cut(flags: u32, index: u32, layer: &[u8]) -> Vec<u8> {
    let mut payload = flags.to_le_bytes().to_vec();
    payload.extend_from_slice(&index.to_le_bytes());
    payload.extend_from_slice(layer);
    payload
}

#[test]
fn a_cut_that_makes_no_sense() {
    let (_folder, good) = killed();
    let right = layer(&good);
    let changed = |at: usize, value: u64| {
        let mut layer = right.clone();
        layer[at..at + 8].copy_from_slice(&value.to_le_bytes());
        layer
    };
    let unreadable = "its cut can't be read";
    let unfit = "its layer does not fit the superblock's";
    for (payload, reason) in [
        (vec![], unreadable),
        (cut(2, 0, &right), unreadable),
        (cut(0, 0, &right[..56]), unreadable),
        (cut(0, 0, &changed(0, 33)), unreadable),
        (cut(0, 0, &changed(8, 0)), unreadable),
        (cut(0, 1, &right), unfit),
        (cut(0, u32::MAX, &right), unfit),
        // Far past the end of the file, and no allocation.
        (cut(0, 0, &changed(8, 1 << 49)), unfit),
        (cut(0, 0, &changed(0, 1 << 49)), unfit),
        (cut(0, 0, &changed(24, 7)), unfit),
    ] {
        let (_folder, path) = image(&good);
        let at = log::append(&log_of(&path, 1), log::CUT, 1, &payload);
        let expected = LogError::Nonsense {
            offset: at as u64,
            reason,
        };
        refused(&path, &expected);
    }
}

/// A store that grows has no layer yet to hold a cut against.
#[test]
fn a_cut_whose_new_layer_no_plan_would_make() {
    let growing = small()
        .capacity(1000)
        .fpr(1e-9)
        .kind(everseen::Kind::Scalable);
    let (_folder, good) = place();
    let store = growing.create(&good).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    let (_killed, good) = image(&good);
    for pages in [1 << 30, 1 << 49] {
        let (_folder, path) = image(&good);
        let mut layer = vec![];
        for number in [32, pages, 1000, 0, 1e-10_f64.to_bits()] {
            layer.extend_from_slice(&u64::to_le_bytes(number));
        }
        layer.extend_from_slice(&30_u64.to_le_bytes());
        layer.extend_from_slice(&2_u64.to_le_bytes());
        layer.extend_from_slice(&[0; 8]);
        let at = log::append(&log_of(&path, 1), log::CUT, 1, &cut(1, 0, &layer));
        let expected = LogError::Nonsense {
            offset: at as u64,
            reason: "its layer does not fit the superblock's",
        };
        for outcome in [growing.open(&path), growing.open_read_only(&path)] {
            assert_eq!(log_error(outcome, &log_of(&path, 1)), expected);
        }
    }
}

#[test]
fn two_logs_that_are_both_closed() {
    let (_folder, path) = killed();
    let right = layer(&path);
    let (first, second) = (log_of(&path, 1), log_of(&path, 2));
    // A log's header without its records.
    fs::write(&second, &fs::read(&first).unwrap()[..4096]).unwrap();
    log::blank_note(&second);
    log::header(&second, 48, &2_u64.to_le_bytes());
    log::append(&first, log::CUT, 1, &cut(0, 0, &right));
    log::append(&second, log::CUT, 1, &cut(0, 0, &right));
    let expected = LogError::Nonsense {
        offset: 4096,
        reason: "it is closed, and the log before it is still there",
    };
    for outcome in [options().open(&path), options().open_read_only(&path)] {
        assert_eq!(log_error(outcome, &second), expected);
    }
}

/// More writers than a superblock has room for: no handle would have written that.
#[test]
fn marks_of_more_writers_than_a_superblock_holds() {
    let (_folder, path) = killed();
    let log = log_of(&path, 1);
    for number in 0..40_u64 {
        let name = format!("writer {number}");
        let mark = log::mark(number + 1, 4096, name.as_bytes(), &[7; 4096]);
        log::append(&log, log::COMMIT, 1, &mark);
    }
    let last = log::records(&log).pop().unwrap();
    assert_eq!(last.kind, log::COMMIT);
    let outcome = options().open(&path);
    let LogError::Nonsense { .. } = log_error(outcome, &log) else {
        panic!("a superblock that runs over into the next");
    };
}

/// Numbers at the end of their range, every checksum right.
#[test]
fn counters_at_the_end_of_their_range_do_not_overflow() {
    for (sequence, handle) in [(u64::MAX, 1), (1, u64::MAX), (u64::MAX - 1, u64::MAX - 1)] {
        let (_folder, path) = killed();
        let log = log_of(&path, 1);
        let mark = log::mark(sequence, u64::MAX, b"default", b"");
        log::append(&log, log::COMMIT, handle, &mark);
        let Ok(store) = options().open(&path) else {
            continue;
        };
        assert_eq!(held(&store, &keys(0..100)), 100);
        // Refused or done, and no panic.
        let _ = store.commit();
        let _ = store.close();
    }
}
