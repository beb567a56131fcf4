//! Handles that can't do what they are asked to, and limits that are reached.

use everseen::testing::{Appending, Options};
use std::sync::Arc;

use everseen::{Error, Store, Verdict};

use crate::support::fault::{Call, Failure, Fault, FaultStorage, Rule};
use crate::support::files::{held, key, keys, names, place, small};

fn options() -> Options {
    small().capacity(1000).fpr(1e-9)
}

/// Everything that writes.
fn writes(store: &Store) -> Vec<Error> {
    let mut verdicts = Vec::new();
    let errors = vec![
        store.insert(b"new").unwrap_err(),
        store.claim(b"new").unwrap_err(),
        *store.insert_batch(&["new"]).unwrap_err().error,
        store.claim_into(&["new"], &mut verdicts).unwrap_err(),
        store.insert(7).unwrap_err(),
        *store.insert_batch(&[7]).unwrap_err().error,
        store.commit().unwrap_err(),
        store.commit_with(b"tag").unwrap_err(),
        store.checkpoint().unwrap_err(),
    ];
    assert!(verdicts.is_empty());
    errors
}

/// Everything that reads.
fn reads(store: &Store) -> Vec<Error> {
    vec![
        store.contains(b"key").unwrap_err(),
        store.contains_batch(&["key"]).unwrap_err(),
        store.contains(7).unwrap_err(),
        store.contains_batch(&[7]).unwrap_err(),
        store.verify().unwrap_err(),
    ]
}

#[test]
fn a_read_only_store_is_written_to() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    store.insert(b"key").unwrap();
    store.close().unwrap();
    let before = std::fs::read(&path).unwrap();
    let store = options().open_read_only(&path).unwrap();
    for error in writes(&store) {
        assert!(matches!(error, Error::ReadOnly), "{error:?}");
    }
    assert!(store.contains(b"key").unwrap());
    store.close().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(names(&path), ["store"]);
}

#[test]
fn a_closed_handle() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    store.insert(b"key").unwrap();
    store.close().unwrap();
    for error in writes(&store).into_iter().chain(reads(&store)) {
        assert!(matches!(error, Error::Closed), "{error:?}");
    }
    store.close().unwrap();
}

#[test]
fn a_poisoned_handle() {
    let (_folder, path) = place();
    let storage = FaultStorage::new();
    let store = options().storage(storage.shared()).create(&path).unwrap();
    store.insert(b"key").unwrap();
    let log = crate::support::files::log_of(&path, 1);
    for failure in [Failure::NoSpace, Failure::Broken, Failure::Denied] {
        storage.arm(Rule::from(1, Fault::Fails(failure)).on(Call::Sync));
        let first = store.commit().unwrap_err();
        storage.heal();
        let mut all = vec![first];
        all.extend(writes(&store));
        all.extend(reads(&store));
        all.push(store.close().unwrap_err());
        let mut causes = Vec::new();
        for error in all {
            let Error::Poisoned { cause } = error else {
                panic!("{failure:?}: {error:?}");
            };
            assert!(
                matches!(&*cause, Error::Io { action: "sync the log", path, .. } if *path == log),
                "{failure:?}: {cause:?}"
            );
            causes.push(cause);
        }
        assert!(causes.iter().all(|cause| Arc::ptr_eq(cause, &causes[0])));
    }
    drop(store);
    let store = options().open(&path).unwrap();
    assert!(!store.insert(b"key").unwrap());
}

#[test]
fn a_full_store() {
    let (_folder, path) = place();
    let store = options().capacity(100).create(&path).unwrap();
    let batch = keys(0..150);
    let mut verdicts = Vec::new();
    let error = store.claim_into(&batch, &mut verdicts).unwrap_err();
    assert!(matches!(error, Error::Full { capacity: 100 }), "{error:?}");
    assert_eq!(verdicts, [Verdict::New; 100]);
    assert_eq!(held(&store, &batch), 100);
}

/// Refusing costs nothing on the disk, however often it happens.
#[test]
fn a_full_store_that_is_asked_again_and_again_writes_nothing() {
    let (_folder, path) = place();
    let storage = FaultStorage::new();
    let options = options().capacity(100).storage(storage.shared());
    let store = options.create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    store.close().unwrap();
    let store = options.open(&path).unwrap();
    let before = storage.events().len();
    for number in 100..10_100 {
        let error = store.insert(key(number)).unwrap_err();
        assert!(
            matches!(error, Error::Full { capacity: 100 }),
            "{number}: {error:?}"
        );
    }
    let events = storage.events();
    let writes = events[before..]
        .iter()
        .filter(|event| event.call == Call::Write)
        .count();
    assert_eq!(writes, 0);
    assert_eq!(held(&store, &keys(0..100)), 100);
}

#[test]
fn a_transaction_too_large() {
    let (_folder, path) = place();
    let store = options()
        .capacity(8000)
        .transactional(true)
        .create(&path)
        .unwrap();
    let quota = store.uncommitted().unwrap().most;
    let batch = keys(0..quota + 10);
    let mut verdicts = Vec::new();
    let error = store.claim_into(&batch, &mut verdicts).unwrap_err();
    assert!(
        matches!(error, Error::TransactionTooLarge { quota: got } if got == quota),
        "{error:?}"
    );
    assert_eq!(verdicts.len() as u64, quota);
    store.commit().unwrap();
    assert_eq!(
        store.insert_batch(&batch[verdicts.len()..]).unwrap(),
        [true; 10]
    );
}

#[test]
fn a_tag_too_large() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    let error = store.commit_with(&[0; 4097]).unwrap_err();
    assert!(
        matches!(
            error,
            Error::TagTooLarge {
                expected: 4096,
                got: 4097
            }
        ),
        "{error:?}"
    );
    assert_eq!(store.last_commit("default").unwrap(), None);
    assert_eq!(store.commit_with(&[7; 4096]).unwrap(), 1);
    store.close().unwrap();
    let store = options().open(&path).unwrap();
    assert_eq!(
        store.last_commit("default").unwrap().unwrap().tag,
        [7; 4096]
    );
}

/// All there is of a superblock, less its fixed part and 64 layers: 52,928 bytes.
#[test]
fn too_many_writers() {
    let (_folder, path) = place();
    let entry = (16 + 3 + 4096_usize).next_multiple_of(8);
    let fit = 52_672 / entry;
    for number in 0..fit {
        let store = options()
            .writer(&format!("w{number:02}"))
            .open_or_create(&path)
            .unwrap();
        store.commit_with(&[1; 4096]).unwrap();
        store.close().unwrap();
    }
    let store = options().writer("w99").open(&path).unwrap();
    let error = store.commit_with(&[1; 4096]).unwrap_err();
    let needed = (fit + 1) * entry;
    assert!(
        matches!(error, Error::TooManyWriters { expected: 52_672, got } if got == needed),
        "{error:?}"
    );
    assert_eq!(store.last_commit("w99").unwrap(), None);
    assert_eq!(store.last_commit("w00").unwrap().unwrap().tag, [1; 4096]);
    store.insert(b"key").unwrap();
    store.close().unwrap();
    let store = options().open(&path).unwrap();
    assert!(store.contains(b"key").unwrap());
    assert_eq!(store.stats().unwrap().commits.len(), fit);
}
