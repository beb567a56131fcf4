//! Stores whose counters stand near their end, with right checksums: what is written beyond it, nobody would read.

use std::fs;
use std::path::{Path, PathBuf};

use everseen::{FormatError, Kind, Merge, Store};
use tempfile::TempDir;

use crate::support::files::{format_error, held, image, keys, log_of, place, small};
use crate::support::forge;
use crate::support::log;

/// The end of counters, and the last one with which a store is opened for writing.
const END: u64 = 1 << 60;
const LAST: u64 = END - (1 << 50);

/// Where superblocks have their counters.
const COUNTERS: [(usize, &str); 3] = [
    (16, "sequence"),
    (24, "generation"),
    (296, "commit_sequence"),
];

fn closed(kind: Kind) -> (TempDir, PathBuf) {
    let (folder, path) = place();
    let options = small().kind(kind).capacity(1000).fpr(1e-9);
    let store = options.transactional(true).create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    store.commit_with(b"tag").unwrap();
    store.close().unwrap();
    (folder, path)
}

/// Sets a counter of the newest superblock, to the value or the one before it: where a superblock lies follows from its
/// sequence. Returns which.
fn set(path: &Path, offset: usize, value: u64) -> u64 {
    let slot = forge::newest(path);
    let value = match offset {
        16 => value - (value + slot as u64) % 2,
        _ => value,
    };
    forge::superblock(path, slot, offset, &value.to_le_bytes());
    value
}

fn tag(store: &Store) -> Vec<u8> {
    store.last_commit("default").unwrap().unwrap().tag
}

#[test]
fn a_store_at_the_end_of_its_counters_can_be_read_and_merged_alone() {
    for kind in [Kind::Bloom, Kind::Fingerprint] {
        for (offset, counter) in COUNTERS {
            // The place of a superblock takes every other sequence.
            for value in [END, LAST + 2] {
                let (folder, path) = closed(kind);
                let got = set(&path, offset, value);
                let before = fs::read(&path).unwrap();
                let error = format_error(small().open(&path), &path);
                assert_eq!(error, FormatError::WornOut { counter, got }, "{kind}");
                let reader = small().open_read_only(&path).unwrap();
                assert_eq!(held(&reader, &keys(0..100)), 100);
                reader.close().unwrap();
                let merged = folder.path().join("merged");
                Merge::new().union(&merged, &[&path]).unwrap();
                assert!(fs::read(&path).unwrap() == before, "{kind}, {counter}");
                let store = small().open(&merged).unwrap();
                assert_eq!(tag(&store), b"tag");
                store.insert_batch(&keys(100..200)).unwrap();
                store.commit_with(b"next").unwrap();
                store.close().unwrap();
                let store = small().open(&merged).unwrap();
                assert_eq!(held(&store, &keys(0..200)), 200);
                assert_eq!(tag(&store), b"next");
            }
        }
    }
}

#[test]
fn a_store_before_the_end_of_its_counters_is_written_as_any() {
    for kind in [Kind::Bloom, Kind::Fingerprint] {
        for (offset, _) in COUNTERS {
            let (_folder, path) = closed(kind);
            set(&path, offset, LAST);
            let store = small().open(&path).unwrap();
            store.insert_batch(&keys(100..200)).unwrap();
            store.commit().unwrap();
            store.close().unwrap();
            let reader = small().open_read_only(&path).unwrap();
            assert_eq!(held(&reader, &keys(0..200)), 200);
        }
    }
}

/// A handle above the end makes records that no reader takes for whole, and so does the commit after the last one.
#[test]
fn a_log_at_the_end_of_its_counters_can_be_read_alone() {
    let (_folder, path) = place();
    let options = small().capacity(1000).fpr(1e-9).transactional(true);
    let store = options.create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    store.commit_with(b"tag").unwrap();
    let (_copies, killed) = image(&path);
    let records = log::records(&log_of(&killed, 1));
    let handle = records.last().unwrap().handle;
    let mark = log::mark(END, 4096, b"default", b"tag");
    let forged = [
        (1, END, vec![7; 8], ("handle", END + 1)),
        (3, handle, mark, ("commit_sequence", END)),
    ];
    for (kind, handle, payload, (counter, got)) in forged {
        let (_copies, path) = image(&killed);
        log::append(&log_of(&path, 1), kind, handle, &payload);
        let error = format_error(small().open(&path), &path);
        assert_eq!(error, FormatError::WornOut { counter, got });
        let reader = small().open_read_only(&path).unwrap();
        assert_eq!(held(&reader, &keys(0..100)), 100, "{counter}");
    }
}
