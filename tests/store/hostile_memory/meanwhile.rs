//! A word of the sealed table changes in the middle of its checkpoint, ahead of each call on the disk in turn.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everseen::testing::{LEAST_BUFFER, Options};
use everseen::{Kind, Store};

use super::named::{bucket, change};
use super::spoil::word;
use crate::support::fault::{FaultStorage, Rule};
use crate::support::numbers::key;
use crate::support::share::all_or;

/// Keys that lie in the pages before, those that come, and how many of the former go.
const BELOW: u64 = 6000;
const COMING: u64 = 1000;
const GOING: u64 = 100;

/// The states of keys that came and went, and that went and came.
const WITHDRAWN: u64 = 6;
const RESTORED: u64 = 5;

/// The ways to change a table.
const WAYS: u64 = 5;

/// How a checkpoint is asked for.
type Checkpoint = fn(&Store) -> everseen::Result<()>;

fn options(kind: Kind) -> Options {
    let options = Options::new().kind(kind).capacity(100_000).fpr(1e-9);
    let options = options.measured(false).seed([7; 32]).background(false);
    let options = options.segment_pages(2).step_segments(1).least_run(16);
    options.buffer(LEAST_BUFFER)
}

/// Changes a word of the first bucket with two keys, or states.
fn disturb(path: &Path, (suffix, bucket): (&str, u64), how: u64) {
    match how {
        // Another key.
        0 => change(path, suffix, bucket, |old| old ^ 1 << 7),
        // A key twice.
        1 => {
            let file = File::open(format!("{}{suffix}", path.display())).unwrap();
            let next = word(&file, bucket + 1).unwrap();
            change(path, suffix, bucket, |_| next);
        }
        // None, and none after it in its bucket.
        2 => change(path, suffix, bucket + 6, |_| 0),
        // A state that no key has.
        3 => change(path, suffix, bucket + 6, |_| u64::MAX),
        // The sum of a key's records stays 0, and the last one is another.
        _ => {
            let file = File::open(format!("{}{suffix}", path.display())).unwrap();
            let words = file.metadata().unwrap().len() / 8;
            for at in (bucket..words - 7).step_by(8) {
                let states = word(&file, at + 6).unwrap();
                let restored = (0..4).fold(states, |states, slot| {
                    let is_withdrawn = states >> (16 * slot) & 0xFFFF == WITHDRAWN;
                    states
                        ^ if is_withdrawn {
                            (WITHDRAWN ^ RESTORED) << (16 * slot)
                        } else {
                            0
                        }
                });
                if restored != states {
                    change(path, suffix, at + 6, |_| restored);
                }
            }
        }
    }
}

/// Returns how many calls the checkpoint made, if a word changes ahead of this one.
fn try_one(kind: Kind, checkpoint: Checkpoint, how: u64, at: u64) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let storage = FaultStorage::without_syncs();
    let removes = kind != Kind::Bloom;
    let store = options(kind)
        .storage(storage.shared())
        .create(&path)
        .unwrap();
    let below: Vec<u64> = (0..BELOW).map(key).collect();
    store.insert_batch(&below).unwrap();
    store.checkpoint_full().unwrap();
    let suffix = format!("-shm.{}", store.stats().unwrap().generation);
    let coming: Vec<u64> = (BELOW..BELOW + COMING).map(key).collect();
    store.insert_batch(&coming).unwrap();
    let passing: Vec<u64> = (1 << 40..(1 << 40) + COMING).map(key).collect();
    if removes {
        store.remove_batch(&below[..GOING as usize]).unwrap();
        store.insert_batch(&passing).unwrap();
        store.remove_batch(&passing).unwrap();
    }
    let (place, bucket) = (path.clone(), bucket(&path, &suffix));
    let table = PathBuf::from(format!("{}{suffix}", path.display()));
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    storage.arm(Rule::none(move |_, _| {
        // The table of a settled generation is gone before the last calls.
        if counted.fetch_add(1, Ordering::Relaxed) == at && table.exists() {
            disturb(&place, (&suffix, bucket), how);
        }
    }));
    checkpoint(&store).unwrap();
    storage.heal();
    let gone = if removes { GOING } else { 0 };
    let told = format!("{kind}, change {how} ahead of call {at}");
    store.close().unwrap();
    let store = Options::new().open(&path).unwrap();
    let there = |keys: &[u64]| store.contains_batch(keys).unwrap();
    assert!(there(&coming).iter().all(|there| *there), "{told}");
    assert!(
        there(&below[gone as usize..]).iter().all(|there| *there),
        "{told}"
    );
    assert!(!there(&below[..gone as usize]).contains(&true), "{told}");
    assert!(!there(&passing).contains(&true), "{told}");
    assert!(store.verify().unwrap().is_ok(), "{told}");
    assert_eq!(store.stats().unwrap().keys, BELOW + COMING - gone, "{told}");
    calls.load(Ordering::Relaxed)
}

#[test]
#[cfg_attr(everseen_portable, ignore = "no file holds the shared memory")]
fn a_word_that_changes_during_a_checkpoint_neither_brings_nor_takes_a_key() {
    let checkpoints: [Checkpoint; 2] = [Store::checkpoint, Store::checkpoint_full];
    // One that sets bits makes many calls that are alike.
    for (kind, stride) in [(Kind::Bloom, 7), (Kind::Fingerprint, all_or(1, 3))] {
        for checkpoint in checkpoints {
            let mut at = 0;
            while at < try_one(kind, checkpoint, at % WAYS, at) {
                at += stride;
            }
            assert!(at > 5, "the checkpoint made {at} calls");
        }
    }
}
