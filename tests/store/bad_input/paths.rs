//! Paths where there is no store, or none can be, and locks.

use std::fs;
use std::io;
use std::path::PathBuf;

use everseen::testing::Options;
use everseen::{Error, Merge, OnDamage, Store};
use tempfile::TempDir;

use crate::support::fault::{Call, Failure, Fault, FaultStorage, Rule};
use crate::support::files::{beside, held, keys, names, place, small};

fn options() -> Options {
    small().capacity(1000).fpr(1e-9)
}

#[test]
fn no_store() {
    let (_folder, path) = place();
    for error in [
        options().open(&path).unwrap_err(),
        options().open_read_only(&path).unwrap_err(),
    ] {
        assert!(
            matches!(&error, Error::NotFound { path: got } if *got == path),
            "{error:?}"
        );
    }
    assert!(names(&path).is_empty(), "{:?}", names(&path));
}

#[test]
fn a_store_that_exists_is_never_overwritten() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..10)).unwrap();
    for _ in 0..2 {
        let error = options().create(&path).unwrap_err();
        assert!(
            matches!(&error, Error::AlreadyExists { path: got } if *got == path),
            "{error:?}"
        );
        store.close().unwrap();
    }
    assert_eq!(held(&options().open(&path).unwrap(), &keys(0..10)), 10);
}

/// A link that leads nowhere is neither a store nor a name that is free.
#[cfg(unix)]
#[test]
fn a_dangling_link() {
    let (folder, path) = place();
    std::os::unix::fs::symlink("nowhere", &path).unwrap();
    let merged = beside(&path, "-merged");
    options().create(&merged).unwrap().close().unwrap();
    for error in [
        options().create(&path).unwrap_err(),
        options().open_or_create(&path).unwrap_err(),
        options().open(&path).unwrap_err(),
        options().open_read_only(&path).unwrap_err(),
        options().repair(&path, OnDamage::NeverSeen).unwrap_err(),
        Merge::new().union(&path, &[&merged]).unwrap_err(),
        Store::open(&merged).unwrap().snapshot(&path).unwrap_err(),
    ] {
        assert!(
            matches!(&error, Error::DanglingLink { path: got } if *got == path),
            "{error:?}"
        );
    }
    assert!(path.is_symlink() && !folder.path().join("nowhere").exists());
}

#[test]
fn a_missing_folder() {
    let (folder, _) = place();
    let missing = folder.path().join("missing");
    let path = missing.join("store");
    let error = options().create(&path).unwrap_err();
    assert!(
        matches!(&error, Error::MissingFolder { path } if *path == missing),
        "{error:?}"
    );
    for error in [
        options().open(&path).unwrap_err(),
        options().open_read_only(&path).unwrap_err(),
    ] {
        assert!(
            matches!(&error, Error::NotFound { path: got } if *got == path),
            "{error:?}"
        );
    }
    let error = options().open_or_create(&path).unwrap_err();
    assert!(
        matches!(&error, Error::MissingFolder { path } if *path == missing),
        "{error:?}"
    );
}

#[test]
fn a_path_that_is_a_folder() {
    let (folder, _) = place();
    let path = folder.path().to_owned();
    for error in [
        options().create(&path).unwrap_err(),
        options().open(&path).unwrap_err(),
        options().open_read_only(&path).unwrap_err(),
        options().open_or_create(&path).unwrap_err(),
    ] {
        assert!(
            matches!(&error, Error::IsFolder { path: got } if *got == path),
            "{error:?}"
        );
    }
}

#[test]
fn a_path_below_a_file() {
    let (folder, file) = place();
    fs::write(&file, "").unwrap();
    let path = file.join("store");
    let error = options().create(&path).unwrap_err();
    assert!(
        matches!(&error, Error::MissingFolder { path } if *path == file),
        "{error:?}"
    );
    let error = options().open(&path).unwrap_err();
    let Error::Io {
        action: "look for",
        path: got,
        source,
    } = &error
    else {
        panic!("{error:?}");
    };
    assert_eq!((got, source.kind()), (&path, io::ErrorKind::NotADirectory));
    drop(folder);
}

#[test]
fn a_second_handle() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    let locked = |outcome: everseen::Result<everseen::Store>| {
        let error = outcome.unwrap_err();
        assert!(
            matches!(&error, Error::Locked { path: got } if *got == path),
            "{error:?}"
        );
    };
    locked(options().exclusive(true).open(&path));
    let another = options().open(&path).unwrap();
    drop((store, another));
    let alone = options().exclusive(true).open(&path).unwrap();
    locked(options().open(&path));
    locked(options().exclusive(true).open(&path));
    locked(options().open_read_only(&path));
    locked(options().open_or_create(&path));
    alone.close().unwrap();
    let reader = options().open_read_only(&path).unwrap();
    options().exclusive(true).open(&path).unwrap();
    drop(reader);
}

/// Somebody else is making a store of this name just now.
#[test]
fn a_store_that_is_being_made() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let error = options().create(&path).unwrap_err();
    assert!(
        matches!(&error, Error::Locked { path: got } if *got == path),
        "{error:?}"
    );
    drop(store);
}

#[test]
fn what_a_killed_maker_left_is_overwritten() {
    let (_folder, path) = place();
    // It writes the header last.
    let mut left = vec![0xA5; 200_000];
    left[..4096].fill(0);
    left[..8].copy_from_slice(b"EVERSEEN");
    fs::write(beside(&path, "-new"), left).unwrap();
    let store = options().create(&path).unwrap();
    assert_eq!(names(&path), ["store"]);
    assert!(store.insert(b"key").unwrap());
}

#[test]
fn a_new_store_whose_name_is_taken_meanwhile() {
    let (_folder, path) = place();
    fs::create_dir(beside(&path, "-new")).unwrap();
    let error = options().create(&path).unwrap_err();
    let temporary = beside(&path, "-new");
    assert!(
        matches!(&error, Error::InTheWay { path: got } if *got == temporary),
        "{error:?}"
    );
}

/// Which call is refused, while what is done, and the error's own words.
type Refusal = (Call, &'static str, &'static str, &'static str);

/// For a superuser nothing is forbidden, so the storage forbids it.
#[test]
fn no_permission() {
    let creating: [Refusal; 5] = [
        (Call::Exists, "store", "look for", "store"),
        (Call::Create, "store-new", "create the store", "store-new"),
        (
            Call::Publish,
            "store",
            "give its name to the new store",
            "store",
        ),
        (
            Call::SetLength,
            "store-new",
            "create the store",
            "store-new",
        ),
        (Call::Write, "store-new", "create the store", "store-new"),
    ];
    for (call, on, action, file) in creating {
        let (_folder, path) = place();
        let storage = FaultStorage::new();
        storage.arm(
            Rule::from(1, Fault::Fails(Failure::Denied))
                .on(call)
                .named(on),
        );
        let error = options()
            .storage(storage.shared())
            .create(&path)
            .unwrap_err();
        expect_denied(&error, action, &path.with_file_name(file));
        assert!(names(&path).is_empty(), "{call:?}: {:?}", names(&path));
    }
    let opening: [Refusal; 4] = [
        (Call::Exists, "store", "look for", "store"),
        (Call::Open, "store", "open", "store"),
        (Call::Read, "store", "read", "store"),
        (Call::Map, "store", "map a layer of", "store"),
    ];
    for (call, on, action, file) in opening {
        let (_folder, path) = place();
        options().create(&path).unwrap().close().unwrap();
        let storage = FaultStorage::new();
        storage.arm(
            Rule::from(1, Fault::Fails(Failure::Denied))
                .on(call)
                .named(on),
        );
        let denied = options().storage(storage.shared());
        for outcome in [denied.open(&path), denied.open_read_only(&path)] {
            expect_denied(&outcome.unwrap_err(), action, &path.with_file_name(file));
        }
        assert_eq!(names(&path), ["store"]);
    }
    let (_folder, path) = place();
    let storage = FaultStorage::new();
    let store = options().storage(storage.shared()).create(&path).unwrap();
    storage.arm(Rule::from(1, Fault::Fails(Failure::Denied)).on(Call::Create));
    let error = store.insert(b"key").unwrap_err();
    expect_denied(&error, "create the log", &beside(&path, "-log.1"));
    assert!(!store.contains(b"key").unwrap());
    storage.heal();
    assert!(store.insert(b"key").unwrap());
}

#[track_caller]
fn expect_denied(error: &Error, expected: &str, file: &PathBuf) {
    assert!(
        matches!(error, Error::PermissionDenied { action, path } if *action == expected && path == file),
        "{expected} {file:?}: {error:?}"
    );
}

/// On a terminal such a name would do what its owner likes.
#[test]
fn messages_show_names_escaped() {
    const NAME: &str = "a\x1b[2J\r\n\u{9b}31m\u{202e}b";
    const SHOWN: &str = "a\\x1b[2J\\r\\n\\u{9b}31m\\u{202e}b";
    let folder = TempDir::new().unwrap();
    let path = folder.path().join(NAME);
    let missing = small().open(&path).unwrap_err();
    small().create(&path).unwrap().close().unwrap();
    let taken = small().create(&path).unwrap_err();
    fs::write(beside(&path, "-copy-log.1"), b"mine").unwrap();
    let other = small().create(folder.path().join("other")).unwrap();
    let copy = beside(&path, "-copy");
    let in_the_way = other.snapshot(&copy).unwrap_err();
    fs::write(&path, b"no store at all").unwrap();
    let format = small().open(&path).unwrap_err();
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let is_folder = small().open(&path).unwrap_err();
    for error in [missing, taken, in_the_way, format, is_folder] {
        let said = error.to_string();
        assert!(said.contains(SHOWN), "{said:?}");
        let is_plain = |char: char| !char.is_control() && char != '\u{202e}';
        assert!(said.chars().all(is_plain), "{said:?}");
    }
}
