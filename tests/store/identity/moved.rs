//! Files of an open store that somebody removes, renames or replaces.

use std::fs;
use std::path::Path;

use everseen::testing::Options;
use everseen::{Error, LogError, OnDamage, Store};

use crate::support::fault::{Call, Failure, Fault, FaultStorage, Rule};
use crate::support::files::{beside, held, image, keys, log_of, names, place, small};

fn options() -> Options {
    small().capacity(20_000).fpr(1e-9)
}

/// The calls that must notice.
const CALLS: [fn(&Store) -> everseen::Result<()>; 4] = [
    |store| store.commit().map(drop),
    Store::checkpoint,
    // Rotations among them.
    |store| {
        (100..20_000).try_for_each(|at| {
            store.insert_batch(&keys(at..at + 1))?;
            Ok(())
        })
    },
    |store| store.close().map(drop),
];

fn expect_moved(error: &Error, expected: &Path) {
    let error = match error {
        Error::Poisoned { cause } => &**cause,
        error => error,
    };
    assert!(
        matches!(error, Error::Moved { path } if path == expected),
        "{error:?}"
    );
}

#[test]
fn a_store_file_that_is_gone_is_noticed_by_the_next_commit_checkpoint_rotation_or_close() {
    let gone: [fn(&Path); 3] = [
        |path| fs::remove_file(path).unwrap(),
        |path| fs::rename(path, beside(path, "-elsewhere")).unwrap(),
        |path| {
            let copy = beside(path, "-copy");
            fs::copy(path, &copy).unwrap();
            fs::rename(copy, path).unwrap();
        },
    ];
    for (way, go) in gone.iter().enumerate() {
        for (number, call) in CALLS.iter().enumerate() {
            for exclusive in [false, true] {
                println!("way {way}, call {number}, exclusive {exclusive}");
                let (_folder, path) = place();
                let store = options().exclusive(exclusive).create(&path).unwrap();
                store.insert_batch(&keys(0..100)).unwrap();
                go(&path);
                expect_moved(&call(&store).unwrap_err(), &path);
                // It stays so.
                expect_moved(&store.insert(b"one more").unwrap_err(), &path);
                expect_moved(&store.close().unwrap_err(), &path);
            }
        }
    }
}

#[test]
fn what_was_acknowledged_is_there_once_the_file_is_back() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..5000)).unwrap();
    let away = beside(&path, "-away");
    fs::rename(&path, &away).unwrap();
    expect_moved(&store.commit().unwrap_err(), &path);
    drop(store);
    fs::rename(&away, &path).unwrap();
    let store = options().open(&path).unwrap();
    assert_eq!(held(&store, &keys(0..5000)), 5000);
}

#[test]
fn a_log_that_is_gone_is_noticed_by_the_next_commit_or_rotation() {
    for call in &CALLS[..3] {
        let (_folder, path) = place();
        let store = options().create(&path).unwrap();
        store.insert_batch(&keys(0..100)).unwrap();
        let log = log_of(&path, 1);
        fs::rename(&log, beside(&path, "-away")).unwrap();
        expect_moved(&call(&store).unwrap_err(), &log);
        drop(store);
        let error = options().open(&path).unwrap_err();
        let missing = LogError::Missing { generation: 1 };
        assert!(
            matches!(&error, Error::Log { source, .. } if *source == missing),
            "{error:?}"
        );
        fs::rename(beside(&path, "-away"), &log).unwrap();
        assert_eq!(held(&options().open(&path).unwrap(), &keys(0..100)), 100);
    }
}

/// Everything is in the buffer, so closing in good order loses nothing.
#[test]
fn shared_memory_that_is_gone_keeps_others_out_and_loses_nothing() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    fs::remove_file(beside(&path, "-shm")).unwrap();
    for error in [
        options().open(&path).unwrap_err(),
        options().open_read_only(&path).unwrap_err(),
    ] {
        assert!(
            matches!(&error, Error::OtherName { path: got } if *got == path),
            "{error:?}"
        );
    }
    store.insert_batch(&keys(100..3000)).unwrap();
    store.commit().unwrap();
    store.close().unwrap();
    assert_eq!(names(&path), ["store"]);
    assert_eq!(held(&options().open(&path).unwrap(), &keys(0..3000)), 3000);
}

/// The next file of that name is opened while handles of the last one live.
#[test]
fn a_file_that_took_the_place_of_an_open_one_waits_for_its_handles_to_go() {
    let (_folder, path) = place();
    let old = options().create(&path).unwrap();
    old.insert_batch(&keys(0..100)).unwrap();
    let copy = beside(&path, "-copy");
    fs::copy(&path, &copy).unwrap();
    fs::rename(&copy, &path).unwrap();
    let error = options().open(&path).unwrap_err();
    assert!(
        matches!(&error, Error::Locked { path: got } if *got == path),
        "{error:?}"
    );
    expect_moved(&old.commit().unwrap_err(), &path);
    drop(old);
    // The log is the copy's as well: it was made at the same moment.
    assert_eq!(held(&options().open(&path).unwrap(), &keys(0..100)), 100);
}

/// Two logs, and the newer one is removed after a kill.
#[test]
fn a_repair_settles_the_log_that_is_there_and_reports_the_one_that_is_not() {
    let (_folder, path) = place();
    let storage = FaultStorage::new();
    let store = options().storage(storage.shared()).create(&path).unwrap();
    store.insert_batch(&keys(0..1000)).unwrap();
    // A checkpoint that comes as far as its first page.
    let broken = Fault::Fails(Failure::Broken);
    storage.arm(Rule::from(1, broken).on(Call::Write).on_store());
    store.checkpoint().unwrap_err();
    drop(store);
    let (folder, killed) = image(&path);
    assert_eq!(names(&killed).len(), 3);
    let newest = names(&killed).pop().unwrap();
    fs::remove_file(folder.path().join(&newest)).unwrap();
    let error = options().open(&killed).unwrap_err();
    let Error::Log {
        source: LogError::Missing { generation },
        ..
    } = error
    else {
        panic!("{error:?}");
    };
    assert!(newest.ends_with(&format!("-log.{generation}")), "{newest}");
    let report = options().repair(&killed, OnDamage::NeverSeen).unwrap();
    assert!(
        report.log_missing && !report.rolled_back && !report.is_whole(),
        "{report:?}"
    );
    assert_eq!(names(&killed), ["store"]);
    let store = options().open(&killed).unwrap();
    assert_eq!(held(&store, &keys(0..1000)), 1000);
}
