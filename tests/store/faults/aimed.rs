//! Disks that fill up or break at one chosen point.

use everseen::testing::storage;
use everseen::testing::{Appending, Options};
use everseen::{Error, Kind, Verdict};
use std::io;

use crate::support::fault::{Call, Failure, Fault, FaultStorage, Rule};
use crate::support::files::{beside, held, image, key, keys, names, place, small};

fn options(storage: &FaultStorage) -> Options {
    small().capacity(10_000).fpr(1e-9).storage(storage.shared())
}

fn full() -> Fault {
    Fault::Fails(Failure::NoSpace)
}

/// What the disk itself says when it can't reserve room must be what the engine acts on.
#[test]
#[cfg_attr(everseen_portable, ignore = "fs2 does not pass the reason on")]
fn the_disk_tells_why_it_can_t_reserve_room() {
    let (_folder, path) = place();
    let file = storage::disk().create_new(&path).unwrap();
    // Some other call has failed shortly before, as calls do.
    storage::disk()
        .remove(&beside(&path, "-missing"))
        .unwrap_err();
    let error = file.allocate(1 << 62).unwrap_err();
    let kind = error.kind();
    let told = [io::ErrorKind::StorageFull, io::ErrorKind::FileTooLarge];
    assert!(told.contains(&kind), "{error:?}");
}

#[test]
fn the_disk_fills_up_in_the_middle_of_a_batch() {
    for transactional in [false, true] {
        let (_folder, path) = place();
        let storage = FaultStorage::new();
        let options = options(&storage).transactional(transactional);
        let store = options.create(&path).unwrap();
        let log = beside(&path, "-log.1");
        // A batch goes to the log in parts; the third finds no room, half of it being written.
        let torn = Fault::Torn(Failure::NoSpace);
        store.insert(key(9999)).unwrap();
        storage.arm(Rule::from(3, torn).on(Call::Write).named("-log.1"));
        let batch = keys(0..1600);
        let mut verdicts = Vec::new();
        let error = store.claim_into(&batch, &mut verdicts).unwrap_err();
        assert!(
            matches!(&error, Error::NoSpace { action: "append to the log", path } if *path == log),
            "{error:?}"
        );
        assert_eq!(verdicts, [Verdict::New; 1024]);
        assert_eq!(held(&store, &batch), 1024);
        // Still full: reading goes on, and what it has is "seen".
        assert!(!store.insert(&batch[0]).unwrap());
        store.insert(&batch[1024]).unwrap_err();
        storage.heal();
        assert_eq!(store.insert_batch(&batch[1024..]).unwrap(), [true; 576]);
        store.commit().unwrap();
        let (_killed, killed) = image(&path);
        let store = small().open(&killed).unwrap();
        assert_eq!(held(&store, &batch), 1600);
        assert_eq!(store.stats().unwrap().keys, 1601);
    }
}

/// A log that can't be made longer.
#[test]
fn the_disk_fills_up_while_the_log_grows() {
    let (_folder, path) = place();
    let storage = FaultStorage::new();
    let store = options(&storage).buffer(4 << 20).create(&path).unwrap();
    store.insert_batch(&keys(0..7000)).unwrap();
    storage.arm(Rule::from(1, full()).on(Call::Allocate));
    let mut verdicts = Vec::new();
    let batch = keys(7000..10_000);
    let error = store.claim_into(&batch, &mut verdicts).unwrap_err();
    assert!(
        matches!(
            &error,
            Error::NoSpace {
                action: "reserve room for the log",
                ..
            }
        ),
        "{error:?}"
    );
    assert!(!verdicts.is_empty());
    // What fits is a shorter reservation: the second call after a failed one.
    storage.arm(Rule::nth(1, full()).on(Call::Allocate));
    let rest = &batch[verdicts.len()..];
    assert!(store.insert_batch(rest).unwrap().iter().all(|new| *new));
    storage.heal();
    store.close().unwrap();
    assert_eq!(
        held(&small().open(&path).unwrap(), &keys(0..10_000)),
        10_000
    );
}

#[test]
fn the_disk_fills_up_in_the_middle_of_a_commit() {
    for transactional in [false, true] {
        let (_folder, path) = place();
        let storage = FaultStorage::new();
        let options = options(&storage).transactional(transactional);
        let store = options.create(&path).unwrap();
        store.commit_with(b"first").unwrap();
        store.insert_batch(&keys(0..100)).unwrap();
        storage.arm(Rule::from(1, Fault::Torn(Failure::NoSpace)).on(Call::Write));
        for _ in 0..2 {
            let error = store.commit_with(b"second").unwrap_err();
            assert!(
                matches!(
                    &error,
                    Error::NoSpace {
                        action: "append to the log",
                        ..
                    }
                ),
                "{error:?}"
            );
            assert_eq!(store.last_commit("default").unwrap().unwrap().tag, b"first");
        }
        let (_killed, killed) = image(&path);
        let reader = small().open_read_only(&killed).unwrap();
        let expected = if transactional { 0 } else { 100 };
        assert_eq!(held(&reader, &keys(0..100)), expected);
        storage.heal();
        assert_eq!(store.commit_with(b"second").unwrap(), 2);
        let (_killed, killed) = image(&path);
        let store = small().open(&killed).unwrap();
        assert_eq!(held(&store, &keys(0..100)), 100);
        assert_eq!(
            store.last_commit("default").unwrap().unwrap().tag,
            b"second"
        );
    }
}

/// A sync that fails for want of room says that what was written is gone: no trying again helps.
#[test]
fn the_disk_fills_up_in_the_sync_of_a_commit() {
    let (_folder, path) = place();
    let storage = FaultStorage::new();
    let store = options(&storage).create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    storage.arm(Rule::nth(1, full()).on(Call::Sync));
    for _ in 0..2 {
        let error = store.commit().unwrap_err();
        assert!(matches!(&error, Error::Poisoned { .. }), "{error:?}");
    }
}

/// A disk that fails as soon as it begins with pages tells it once. The sync that follows would succeed.
#[test]
fn the_disk_breaks_when_it_starts_with_the_pages_of_a_checkpoint() {
    for kind in [Kind::Bloom, Kind::Counting, Kind::Fingerprint] {
        let (_folder, path) = place();
        let storage = FaultStorage::without_syncs();
        let options = options(&storage).kind(kind);
        let store = options.create(&path).unwrap();
        store.insert_batch(&keys(0..1500)).unwrap();
        let broken = Fault::Fails(Failure::Broken);
        storage.arm(Rule::nth(1, broken).on(Call::StartWriting).on_store());
        let Error::Poisoned { cause } = store.checkpoint().unwrap_err() else {
            panic!("{kind:?}: the handle goes on");
        };
        let action = "start to write pages of";
        assert!(
            matches!(&*cause, Error::Io { action: got, .. } if *got == action),
            "{kind:?}: {cause:?}"
        );
        drop(store);
        let store = options.open(&path).unwrap();
        assert_eq!(held(&store, &keys(0..1500)), 1500, "{kind:?}");
    }
}

/// At each write of a checkpoint, up to where it is done: the log keeps what the pages lack, and
/// the same handle goes on, with a page that was written by half.
#[test]
fn the_disk_fills_up_in_the_middle_of_a_checkpoint() {
    for kind in [Kind::Bloom, Kind::Scalable, Kind::Fingerprint] {
        for transactional in [false, true] {
            let mut nth = 1;
            while at_the_write(kind, transactional, nth) {
                nth += 1;
            }
            assert!(nth > 6, "{nth} writes are few");
        }
    }
}

/// Whether a checkpoint has an `nth` write to the store file.
fn at_the_write(kind: Kind, transactional: bool, nth: u64) -> bool {
    let (_folder, path) = place();
    let storage = FaultStorage::without_syncs();
    let options = options(&storage).kind(kind).transactional(transactional);
    let store = options.create(&path).unwrap();
    store.insert_batch(&keys(0..1500)).unwrap();
    store.commit().unwrap();
    store.checkpoint().unwrap();
    store.insert_batch(&keys(1500..3000)).unwrap();
    store.commit().unwrap();
    store.insert_batch(&keys(3000..3100)).unwrap();
    storage.arm(
        Rule::from(nth, Fault::Torn(Failure::NoSpace))
            .on(Call::Write)
            .on_store(),
    );
    let Err(error) = store.checkpoint() else {
        return false;
    };
    let Error::NoSpace { path: got, .. } = &error else {
        panic!("{nth}: {error:?}");
    };
    assert_eq!(*got, path);
    // Full still, and answering still.
    assert_eq!(held(&store, &keys(0..3100)), 3100, "{nth}");
    assert!(store.verify().unwrap().is_ok(), "{nth}");
    store.insert_batch(&keys(3100..3200)).unwrap();
    store.commit().unwrap();
    assert!(
        matches!(store.checkpoint(), Err(Error::NoSpace { .. })),
        "{nth}"
    );
    let (_killed, killed) = image(&path);
    storage.heal();
    store.checkpoint().unwrap();
    // The active log alone is left.
    let active = format!("store-log.{}", store.stats().unwrap().generation);
    assert_eq!(names(&path), ["store", &active], "{nth}");
    drop(store);
    for path in [path, killed] {
        let store = small().open(&path).unwrap();
        assert_eq!(held(&store, &keys(0..3200)), 3200, "{nth}");
        assert_eq!(held(&store, &keys(3200..9000)), 0, "{nth}");
        store.close().unwrap();
        let store = small().open(&path).unwrap();
        assert!(store.verify().unwrap().is_ok(), "{nth}");
        assert_eq!(store.stats().unwrap().keys, 3200, "{nth}");
    }
    true
}

/// The handle is open still after a close that found no room; then what it has not committed is
/// there still, or the handle says that it is not.
#[test]
fn the_disk_fills_up_while_a_transactional_store_is_closed() {
    let (_folder, path) = place();
    let storage = FaultStorage::new();
    let store = options(&storage).transactional(true).create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    store.commit().unwrap();
    store.insert_batch(&keys(100..200)).unwrap();
    storage.arm(Rule::from(1, full()).on(Call::Write).on_store());
    let error = store.close().unwrap_err();
    assert!(matches!(&error, Error::NoSpace { .. }), "{error:?}");
    storage.heal();
    let inserted = store.insert(key(200));
    let committed = store.commit();
    match &committed {
        Ok(_) => {
            assert!(inserted.unwrap());
            store.close().unwrap();
            let store = small().open(&path).unwrap();
            assert_eq!(held(&store, &keys(0..201)), 201, "a commit has lost keys");
        }
        Err(error) => {
            assert!(matches!(error, Error::Closed), "{error:?}");
            store.close().unwrap();
            let store = small().open(&path).unwrap();
            assert_eq!(held(&store, &keys(0..100)), 100);
        }
    }
}

/// The same where everything counts at once.
#[test]
fn the_disk_fills_up_while_a_store_is_closed() {
    let (_folder, path) = place();
    let storage = FaultStorage::new();
    let store = options(&storage).create(&path).unwrap();
    store.insert_batch(&keys(0..200)).unwrap();
    storage.arm(Rule::from(1, full()).on(Call::Write).on_store());
    for _ in 0..2 {
        let error = store.close().unwrap_err();
        assert!(matches!(&error, Error::NoSpace { .. }), "{error:?}");
    }
    let (_killed, killed) = image(&path);
    storage.heal();
    store.close().unwrap();
    assert_eq!(names(&path), ["store"]);
    for path in [path, killed] {
        assert_eq!(held(&small().open(&path).unwrap(), &keys(0..200)), 200);
    }
}

/// Room for a new layer is made when it is needed.
#[test]
fn the_disk_fills_up_when_the_store_grows() {
    let (_folder, path) = place();
    let storage = FaultStorage::new();
    let options = options(&storage).kind(Kind::Scalable).capacity(500);
    let store = options.create(&path).unwrap();
    storage.arm(Rule::from(1, full()).on(Call::SetLength).named("store"));
    // More than two buffers take: the second finds that the first could not be emptied.
    let batch = keys(0..9000);
    let mut verdicts = Vec::new();
    let error = store.claim_into(&batch, &mut verdicts).unwrap_err();
    assert!(
        matches!(&error, Error::NoSpace { action: "make room for a layer in", path: got } if *got == path),
        "{error:?}"
    );
    assert_eq!(held(&store, &batch), verdicts.len());
    storage.heal();
    let rest = store.insert_batch(&batch[verdicts.len()..]).unwrap();
    assert!(rest.iter().all(|new| *new));
    store.close().unwrap();
    let store = small().open(&path).unwrap();
    assert_eq!(held(&store, &batch), 9000);
    assert!(store.stats().unwrap().layers.len() > 1);
}

/// Keys so crowded that the smaller buffer of the next opener has no place for some.
#[test]
fn crowded_keys_are_not_lost_to_a_smaller_buffer() {
    let (_folder, path) = place();
    let seed = [0; 32];
    let options = small()
        .buffer(64 << 20)
        .seed(seed)
        .capacity(100_000)
        .fpr(1e-9);
    let store = options.create(&path).unwrap();
    // Hashes from one thousandth of their range. Without a seed the mixer has a known inverse.
    let crowd: Vec<u64> = (0..2000_u64).map(|n| unmixed(n << 43)).collect();
    let new = store.insert_batch(&crowd).unwrap();
    assert!(new.iter().all(|new| *new));
    let (_killed, killed) = image(&path);
    let store = small().open(&killed).unwrap();
    let found = store.contains_batch(&crowd).unwrap();
    assert_eq!(found.iter().filter(|found| !**found).count(), 0, "at once");
    store.close().unwrap();
    let store = small().open(&killed).unwrap();
    let found = store.contains_batch(&crowd).unwrap();
    assert_eq!(found.iter().filter(|found| !**found).count(), 0, "for good");
}

/// The inverse of the finaliser of splitmix64.
fn unmixed(mut hash: u64) -> u64 {
    hash = hash ^ (hash >> 31) ^ (hash >> 62);
    hash = hash.wrapping_mul(0x3196_42B2_D24D_8EC3);
    hash = hash ^ (hash >> 27) ^ (hash >> 54);
    hash = hash.wrapping_mul(0x96DE_1B17_3F11_9089);
    hash ^ (hash >> 30) ^ (hash >> 60)
}
