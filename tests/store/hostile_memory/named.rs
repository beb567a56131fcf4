//! Single words, and what each leads to.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use everseen::testing::{LEAST_BUFFER, Options};
use everseen::{Error, Kind, Store};
use tempfile::TempDir;

use super::spoil::{set_word, word};
use crate::support::numbers::key;

const KEYS: u64 = 1000;

fn options(kind: Kind, transactional: bool) -> Options {
    let options = Options::new().kind(kind).transactional(transactional);
    let options = options.capacity(100_000).fpr(1e-9).measured(false);
    options.background(false).buffer(LEAST_BUFFER)
}

fn hashes() -> Vec<u64> {
    (0..KEYS).map(key).collect()
}

/// A store in which generation 2 is the active one and has keys in its log.
fn store(options: &Options) -> (TempDir, PathBuf, Store) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = options.create(&path).unwrap();
    store.insert(key(1 << 40)).unwrap();
    store.commit().unwrap();
    store.checkpoint().unwrap();
    store.insert_batch(&hashes()).unwrap();
    (folder, path, store)
}

/// Changes a word of a file of shared memory.
pub(super) fn change(path: &Path, suffix: &str, index: u64, to: impl Fn(u64) -> u64) {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(name)
        .unwrap();
    set_word(&file, index, to(word(&file, index).unwrap()));
}

/// Where the first bucket of the table with two keys in it begins.
pub(super) fn bucket(path: &Path, suffix: &str) -> u64 {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    let file = OpenOptions::new().read(true).open(name).unwrap();
    let first = 64 + word(&file, 2).unwrap();
    let mut buckets = (first..).step_by(8);
    let has_two = |bucket: &u64| {
        [0, 1, 6]
            .iter()
            .all(|at| word(&file, bucket + at).unwrap() != 0)
    };
    buckets.find(has_two).unwrap()
}

fn wrong(outcome: everseen::Result<u64>) -> &'static str {
    let Err(Error::Poisoned { cause }) = outcome else {
        panic!("{outcome:?}");
    };
    match &*cause {
        Error::SharedMemory { word, .. } => word,
        other => panic!("{other:?}"),
    }
}

fn all_are_there(path: &Path, kind: Kind) {
    let store = Options::new().open(path).unwrap();
    let found = store.contains_batch(&hashes()).unwrap();
    assert!(found.iter().all(|found| *found));
    if kind == Kind::Counting {
        let once = |hash| store.count_estimate(hash).unwrap() == 1;
        assert!(hashes().into_iter().all(once));
    }
    assert!(store.verify().unwrap().is_ok());
    store.close().unwrap();
}

#[test]
#[cfg_attr(everseen_portable, ignore = "no file holds the shared memory")]
fn each_word_that_is_wrong_is_a_typed_error_and_loses_nothing() {
    type Change = fn(u64) -> u64;
    let far: Change = |_| 1 << 60;
    let next: Change = |old| old + 1;
    let cases: [(&str, u64, Change, &str); 22] = [
        ("-shm", 2, next, "ended"),
        // The sizes of buffers.
        ("-shm", 7, |old| old - 8, "sum"),
        ("-shm", 37, next, "sum"),
        ("-shm", 8, |old| old - 1, "active"),
        ("-shm", 8, |_| 0, "active"),
        ("-shm", 8, far, "settled"),
        ("-shm", 9, next, "settled"),
        ("-shm", 9, |_| 0, "settled"),
        ("-shm", 11, |_| 77, "poisoned"),
        ("-shm", 15, far, "sum"),
        ("-shm", 16, far, "sum"),
        // The writer lock: no slot, this handle's own, one that does not exist; and the slot that is changing something.
        ("-shm", 24, |old| old | 255, "writer lock"),
        ("-shm", 24, |old| old | 1, "writer lock"),
        ("-shm", 24, |old| old | 129, "writer lock"),
        ("-shm", 25, |_| 1, "changing"),
        ("-shm", 64, next, "handle"),
        // Of the buffer, where its log ends: both of the words that tell, in turns.
        ("-shm.2", 4, next, "applied"),
        ("-shm.2", 9, far, "applied"),
        ("-shm.2", 10, far, "durable"),
        ("-shm.2", 12, next, "sealed"),
        ("-shm.2", 13, far, "used"),
        ("-shm.2", 14, next, "sum"),
    ];
    for (suffix, index, to, expected) in cases {
        let options = options(Kind::Bloom, false);
        let (_folder, path, store) = store(&options);
        change(&path, suffix, index, to);
        let told = wrong(store.commit());
        assert_eq!(told, expected, "{suffix}, word {index}");
        // And nothing goes on from there.
        assert_eq!(wrong(store.insert(7).map(u64::from)), expected);
        assert_eq!(wrong(store.close().map(|_| 0)), expected);
        all_are_there(&path, Kind::Bloom);
    }
}

#[test]
#[cfg_attr(everseen_portable, ignore = "no file holds the shared memory")]
fn a_checkpoint_believes_the_log_and_not_the_table() {
    for kind in [Kind::Bloom, Kind::Counting, Kind::Fingerprint] {
        let options = options(kind, false);
        for round in 0..3 {
            let (_folder, path, store) = store(&options);
            let bucket = bucket(&path, "-shm.2");
            match round {
                // Another key.
                0 => change(&path, "-shm.2", bucket, |old| old ^ 1 << 7),
                // None, and none after it in its bucket.
                1 => change(&path, "-shm.2", bucket + 6, |_| 0),
                // A state that no key has.
                _ => change(&path, "-shm.2", bucket + 6, |_| u64::MAX),
            }
            store.checkpoint().unwrap();
            store.close().unwrap();
            all_are_there(&path, kind);
        }
    }
}

/// What the table has of them does not matter.
#[test]
#[cfg_attr(everseen_portable, ignore = "no file holds the shared memory")]
fn keys_that_are_carried_over_are_those_of_the_log() {
    for kind in [Kind::Bloom, Kind::Fingerprint] {
        let options = options(kind, true);
        let (_folder, path, store) = store(&options);
        change(&path, "-shm.2", bucket(&path, "-shm.2"), |old| {
            old ^ 1 << 47
        });
        store.checkpoint().unwrap();
        let new = store.insert_batch(&hashes()).unwrap();
        assert!(new.iter().all(|new| !*new));
        store.commit().unwrap();
        assert_eq!(store.stats().unwrap().keys, KEYS + 1);
        store.close().unwrap();
        all_are_there(&path, kind);
    }
}

/// Nobody has been told that they were committed, so they are gone, and can be inserted again.
#[test]
#[cfg_attr(everseen_portable, ignore = "no file holds the shared memory")]
fn keys_of_the_log_that_are_not_those_of_the_handle_are_not_carried_over() {
    type Change = fn(u64) -> u64;
    let cases: [(u64, Change); 4] = [
        // How many keys there are, and their sum.
        (67, |old| old + 1),
        (68, |old| old ^ 1 << 30),
        // Where their records begin: within one, or behind them all.
        (70, |old| old + 8),
        (70, |_| 1 << 60),
    ];
    for (index, to) in cases {
        let options = options(Kind::Bloom, true);
        let (_folder, path, store) = store(&options);
        change(&path, "-shm", index, to);
        assert_eq!(wrong(store.checkpoint().map(|()| 0)), "table", "{index}");
        assert_eq!(wrong(store.commit()), "table");
        assert_eq!(wrong(store.close().map(|_| 0)), "table");
        let store = options.open(&path).unwrap();
        assert!(!store.contains(key(5)).unwrap());
        let new = store.insert_batch(&hashes()).unwrap();
        assert!(new.iter().all(|new| *new));
        store.commit().unwrap();
        store.close().unwrap();
        all_are_there(&path, Kind::Bloom);
    }
}

/// Puts a buffer with so many homes for keys in the place of that of generation 2, which stays as it is for those that
/// have it open.
fn resize(path: &Path, homes: impl Fn(u64) -> u64) {
    let mut name = path.as_os_str().to_owned();
    name.push("-shm.2");
    let old = OpenOptions::new().read(true).open(&name).unwrap();
    let forged = path.with_extension("forged");
    std::fs::copy(&name, &forged).unwrap();
    let file = OpenOptions::new().write(true).open(&forged).unwrap();
    let homes = homes(word(&old, 3).unwrap());
    set_word(&file, 3, homes);
    let words = 64 + word(&old, 2).unwrap() + (homes + 128) * 8;
    file.set_len(words * 8).unwrap();
    std::fs::rename(&forged, &name).unwrap();
}

/// A process that joins takes the sizes of buffers from the shared words, and each buffer's from its file.
#[test]
#[cfg_attr(everseen_portable, ignore = "no file holds the shared memory")]
fn a_buffer_has_one_of_the_sizes_that_the_shared_words_allow() {
    type Forge = fn(&Path);
    let cases: [(Forge, &str); 4] = [
        (
            |path| change(path, "-shm", 37, |_| 1 << 60),
            "most buffer bytes",
        ),
        (|path| change(path, "-shm", 7, |_| 1 << 30), "buffer bytes"),
        // Half of the homes and of the file: it is sound, but no buffer of this store's.
        (|path| resize(path, |homes| homes / 2), "buffer bytes"),
        (|path| resize(path, |homes| homes * 16), "buffer bytes"),
    ];
    for follows in [false, true] {
        for (forge, expected) in cases {
            let mut options = options(Kind::Bloom, false);
            if follows {
                options = options.buffer_between(LEAST_BUFFER, 8 * LEAST_BUFFER);
            }
            let (_folder, path, store) = store(&options);
            forge(&path);
            for joined in [options.open(&path), options.open_read_only(&path)] {
                match joined {
                    Err(Error::SharedMemory { word, .. }) => assert_eq!(word, expected),
                    other => panic!("{other:?}"),
                }
            }
            drop(store);
            all_are_there(&path, Kind::Bloom);
        }
    }
}

/// Records carry the number of their handle, and each session counts on from the highest: a forged one near the end of
/// its range would leave a store that takes no more writers.
#[test]
#[cfg_attr(everseen_portable, ignore = "no file holds the shared memory")]
fn a_handle_that_joins_gets_a_number_near_those_of_the_others() {
    for forged in [0, 1 << 42, 1 << 60, u64::MAX] {
        let options = options(Kind::Bloom, false);
        let (_folder, path, store) = store(&options);
        change(&path, "-shm", 14, |_| forged);
        match options.open(&path) {
            Err(Error::SharedMemory { word, .. }) => assert_eq!(word, "next handle", "{forged}"),
            other => panic!("{forged}: {other:?}"),
        }
        store.close().unwrap();
        all_are_there(&path, Kind::Bloom);
    }
}
