//! What an earlier store of the same name left beside a new one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::{fs, io};

use everseen::testing::Options;
use everseen::testing::storage::{Storage, StorageFile, disk};
use everseen::{Error, LogError, Store};

use crate::support::files::{beside, held, image, keys, log_of, names, place, small};

fn options() -> Options {
    small().capacity(20_000).fpr(1e-9)
}

#[test]
fn a_store_is_not_made_beside_the_log_of_one_that_was_removed() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    let (_killed_folder, killed) = image(&path);
    fs::copy(beside(&path, "-shm"), beside(&killed, "-shm")).unwrap();
    let moved = beside(&killed, "-moved");
    fs::rename(&killed, &moved).unwrap();
    for outcome in [options().create(&killed), options().open_or_create(&killed)] {
        let error = outcome.unwrap_err();
        let log = log_of(&killed, 1);
        assert!(
            matches!(&error, Error::LeftoverLog { path } if *path == log),
            "{error:?}"
        );
        assert!(!killed.exists());
    }
    // Moved back, it has all its keys.
    fs::rename(&moved, &killed).unwrap();
    assert_eq!(held(&options().open(&killed).unwrap(), &keys(0..100)), 100);
    // And gone for good, it is in nobody's way.
    let (_killed_folder, killed) = image(&path);
    fs::remove_file(&killed).unwrap();
    fs::remove_file(log_of(&killed, 1)).unwrap();
    let made = options().create(&killed).unwrap();
    assert_eq!(held(&made, &keys(0..100)), 0);
}

/// A store is moved away while it is open, and has just begun a log.
#[test]
fn a_store_is_not_made_beside_the_files_of_one_that_is_open() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    let next = log_of(&path, 2);
    fs::write(&next, [&b"EVERSLOG"[..], &[7; 56], &[0; 9000]].concat()).unwrap();
    let away = beside(&path, "-away");
    fs::rename(&path, &away).unwrap();
    let error = options().create(&path).unwrap_err();
    assert!(
        matches!(&error, Error::Locked { path: got } if *got == path),
        "{error:?}"
    );
    assert!(next.exists() && log_of(&path, 1).exists());
    drop(store);
    // Nor beside what it left, and none of that is touched.
    let error = options().create(&path).unwrap_err();
    assert!(matches!(error, Error::LeftoverLog { .. }), "{error:?}");
    assert!(next.exists() && log_of(&path, 1).exists());
}

/// A disk on which another process makes the store just after this one looked for it.
#[derive(Debug)]
struct Overtaken {
    disk: Arc<dyn Storage>,
    store: PathBuf,
    made: Mutex<Option<Store>>,
}

impl Storage for Overtaken {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        self.disk.create_new(path)
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn StorageFile>> {
        self.disk.open(path, write)
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.publish(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.disk.sync_folder(folder)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let exists = self.disk.exists(path)?;
        let mut made = self.made.lock().unwrap();
        if path == self.store && made.is_none() {
            let store = options().create(path).unwrap();
            store.insert_batch(&keys(0..100)).unwrap();
            *made = Some(store);
        }
        Ok(exists)
    }
}

#[test]
fn of_two_that_make_a_store_at_once_the_later_opens_the_first_ones() {
    let overtaken = |path: &Path| {
        let storage = Overtaken {
            disk: disk(),
            store: path.to_owned(),
            made: Mutex::default(),
        };
        Arc::new(storage)
    };
    let (_folder, path) = place();
    let storage = overtaken(&path);
    let later = options().storage(storage.clone()).create(&path);
    assert!(
        matches!(&later, Err(Error::AlreadyExists { path: got }) if *got == path),
        "{later:?}"
    );
    assert!(log_of(&path, 1).exists() && !beside(&path, "-new").exists());
    let (_other_folder, path) = place();
    let storage = overtaken(&path);
    let later = options().storage(storage.clone());
    let later = later.open_or_create(&path).unwrap();
    assert_eq!(held(&later, &keys(0..100)), 100);
}

#[test]
fn what_an_earlier_store_left_and_holds_no_key_is_cleared() {
    let (_folder, path) = place();
    fs::write(
        log_of(&path, 1),
        [&b"EVERSLOG"[..], &[7; 56], &[0; 9000]].concat(),
    )
    .unwrap();
    fs::write(log_of(&path, 7), []).unwrap();
    fs::write(beside(&path, "-shm"), [&b"EVERSHM2"[..], &[7; 56]].concat()).unwrap();
    fs::write(beside(&path, "-shm.3"), [0; 8192]).unwrap();
    fs::write(beside(&path, "-shm.spare"), [0; 8192]).unwrap();
    let store = options().create(&path).unwrap();
    assert_eq!(names(&path), ["store"]);
    store.insert_batch(&keys(0..3000)).unwrap();
    store.close().unwrap();
    assert_eq!(names(&path), ["store"]);
}

#[test]
fn a_store_is_not_opened_beside_a_log_that_it_would_meet_later() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    let backup = beside(&path, "-backup");
    store.snapshot(&backup).unwrap();
    for _ in 0..4 {
        store.insert_batch(&keys(0..100)).unwrap();
        store.checkpoint().unwrap();
        store.insert(b"one more").unwrap();
    }
    store.insert_batch(&keys(100..200)).unwrap();
    let (_folder, killed) = image(&path);
    drop(store);
    let log = names(&killed)
        .into_iter()
        .find(|name| name.contains("-log."))
        .unwrap();
    let log = killed.with_file_name(log);
    fs::copy(&backup, &killed).unwrap();
    // A reader would answer "absent" for keys that are in the log.
    for outcome in [options().open_read_only(&killed), options().open(&killed)] {
        let error = outcome.unwrap_err();
        assert!(
            matches!(&error, Error::OtherMoment { path, .. } if *path == log),
            "{error:?}"
        );
    }
    fs::remove_file(&log).unwrap();
    options().open(&killed).unwrap().close().unwrap();
}

#[test]
fn a_log_of_another_store_in_the_place_of_ones_own_is_named() {
    let (_folder, path) = place();
    options().create(&path).unwrap().close().unwrap();
    let (_other_folder, other) = place();
    let store = options().create(&other).unwrap();
    store.insert(b"key").unwrap();
    fs::copy(log_of(&other, 1), log_of(&path, 1)).unwrap();
    let error = options().open(&path).unwrap_err();
    assert!(
        matches!(&error, Error::Log { path: got, source: LogError::Foreign { .. } } if *got == log_of(&path, 1)),
        "{error:?}"
    );
}

/// Those that a store takes for its own past, or for a rotation that was given up, may be another's last keys.
#[test]
fn a_log_of_another_store_beside_ones_own_numbers_is_not_removed() {
    for generation in [2, 4] {
        let (_folder, path) = place();
        let store = options().create(&path).unwrap();
        for number in 0..2 {
            store.insert_batch(&keys(number..number + 1)).unwrap();
            store.checkpoint().unwrap();
        }
        store.insert(b"one more").unwrap();
        let (_killed_folder, killed) = image(&path);
        assert_eq!(names(&killed), ["store", "store-log.3"]);
        let (_other_folder, other) = place();
        let other_store = options().create(&other).unwrap();
        for number in 1..generation {
            other_store.insert_batch(&keys(number..number + 1)).unwrap();
            other_store.checkpoint().unwrap();
        }
        other_store.insert_batch(&keys(500..600)).unwrap();
        let theirs = log_of(&killed, generation);
        fs::copy(log_of(&other, generation), &theirs).unwrap();
        let before = fs::read(&theirs).unwrap();
        let error = options().open(&killed).unwrap_err();
        assert!(
            matches!(&error, Error::LeftoverLog { path } if *path == theirs),
            "{error:?}"
        );
        assert_eq!(fs::read(&theirs).unwrap(), before);
        fs::remove_file(&theirs).unwrap();
        let opened = options().open(&killed).unwrap();
        assert!(opened.contains(b"one more").unwrap());
    }
}
