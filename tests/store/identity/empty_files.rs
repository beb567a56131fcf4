//! An empty file, as `mktemp` and `touch` make it, becomes a store in its place.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use everseen::testing::Options;
use everseen::{Error, Merge, Store};

use crate::support::fault::{Call, Failure, Fault, FaultStorage, Rule};
use crate::support::files::{beside, held, image, keys, log_of, names, place, small};

fn options() -> Options {
    small().capacity(20_000).fpr(1e-9)
}

/// Inode and permissions: what locks and access depend on.
fn identity(path: &Path) -> (u64, u32) {
    let found = fs::metadata(path).unwrap();
    (found.ino(), found.permissions().mode() & 0o777)
}

fn make_empty(path: &Path) -> (u64, u32) {
    let file = File::create_new(path).unwrap();
    file.set_permissions(PermissionsExt::from_mode(0o640))
        .unwrap();
    identity(path)
}

fn expect_empty(outcome: everseen::Result<Store>, path: &Path) {
    match outcome {
        Err(Error::EmptyFile { path: got }) => assert_eq!(got, path),
        other => panic!("{other:?}"),
    }
}

#[test]
#[cfg_attr(
    everseen_portable,
    ignore = "a lock of any program on the file keeps this one out"
)]
fn an_empty_file_becomes_a_store_and_keeps_its_inode_and_its_mode() {
    for transactional in [true, false] {
        let options = Options::new().transactional(transactional);
        for is_create in [true, false] {
            let (_folder, path) = place();
            let before = make_empty(&path);
            // Another program's lock on it excludes that program's other runs, and nothing of Everseen's.
            let locked = File::open(&path).unwrap();
            locked.try_lock().unwrap();
            expect_empty(options.open(&path), &path);
            expect_empty(options.open_read_only(&path), &path);
            let made = match is_create {
                true => options.create(&path),
                false => options.open_or_create(&path),
            };
            let store = made.unwrap();
            store.insert_batch(&keys(0..100)).unwrap();
            store.commit().unwrap();
            store.close().unwrap();
            assert_eq!(identity(&path), before);
            assert_eq!(names(&path), ["store"]);
            assert!(File::open(&path).unwrap().try_lock().is_err());
            let store = options.open(&path).unwrap();
            assert_eq!(held(&store, &keys(0..100)), 100);
        }
    }
}

#[test]
fn a_link_to_an_empty_file_leads_to_the_store() {
    let (folder, path) = place();
    let before = make_empty(&path);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("store", &link).unwrap();
    options().create(&link).unwrap().close().unwrap();
    assert_eq!(identity(&path), before);
    assert!(link.is_symlink());
    options().open(&path).unwrap();
}

#[test]
fn a_union_takes_an_empty_file_too() {
    let (folder, path) = place();
    let input = folder.path().join("input");
    let store = options().create(&input).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    store.close().unwrap();
    let before = make_empty(&path);
    Merge::new().union(&path, &[&input]).unwrap();
    assert_eq!(identity(&path), before);
    let store = options().open(&path).unwrap();
    assert_eq!(held(&store, &keys(0..100)), 100);
}

#[test]
fn what_is_no_empty_file_is_not_taken_for_one() {
    let (folder, path) = place();
    for bytes in [&b"\n"[..], b"a line\n", &[0; 9], &[0; 200_000]] {
        fs::write(&path, bytes).unwrap();
        for outcome in [options().create(&path), options().open_or_create(&path)] {
            match outcome {
                Err(Error::AlreadyExists { .. } | Error::Format { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    fs::remove_file(&path).unwrap();
    // A second name would lead to a store without its log.
    make_empty(&path);
    fs::hard_link(&path, folder.path().join("other")).unwrap();
    match options().create(&path) {
        Err(Error::ManyNames { names: 2, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
}

/// A store that something has cut to nothing is no empty file, as long as anything shows what it was.
#[test]
fn an_emptied_store_is_an_error() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    let (_killed_folder, killed) = image(&path);
    let log = log_of(&killed, 1);
    File::create(&killed).unwrap();
    let expect = |outcome: everseen::Result<Store>, expected: &Path| match outcome {
        Err(Error::Emptied { path, beside }) => {
            assert_eq!(path, killed);
            assert_eq!(beside, expected);
        }
        other => panic!("{other:?}"),
    };
    expect(options().create(&killed), &log);
    expect(options().open_or_create(&killed), &log);
    expect(options().open(&killed), &log);
    expect(options().open_read_only(&killed), &log);
    fs::remove_file(&log).unwrap();
    let words = beside(&killed, "-shm");
    fs::copy(beside(&path, "-shm"), &words).unwrap();
    expect(options().create(&killed), &words);
    assert_eq!(fs::metadata(&killed).unwrap().len(), 0);

    // While it is open, its handles may be about to write to it.
    File::create(&path).unwrap();
    match options().create(&path) {
        Err(Error::Locked { .. }) => {}
        other => panic!("{other:?}"),
    }
}

/// Whichever call is the last of a creator, the file is empty, unfinished or a store, and the next creator gets one.
#[test]
fn a_creator_that_dies_anywhere_leaves_what_the_next_one_takes() {
    let made_by = |storage: &FaultStorage, path: &Path| {
        let options = options().storage(storage.shared());
        options.create(path).and_then(|store| store.close())
    };
    let (_folder, path) = place();
    make_empty(&path);
    let storage = FaultStorage::new();
    made_by(&storage, &path).unwrap();
    let calls = storage.events();
    assert!(calls.len() > 10, "{} calls", calls.len());
    let ways = [
        Fault::Fails(Failure::Broken),
        Fault::Lies(Failure::Broken),
        Fault::Torn(Failure::Broken),
    ];
    for (nth, event) in (1..).zip(&calls) {
        for fault in ways {
            if matches!(fault, Fault::Torn(_)) && event.call != Call::Write {
                continue;
            }
            let (_folder, path) = place();
            let before = make_empty(&path);
            let storage = FaultStorage::new();
            storage.arm(Rule::from(nth, fault));
            let outcome = made_by(&storage, &path);
            drop(storage);
            let what = format!("call {nth}, {event:?}, {fault:?}, {outcome:?}");
            let again = options().open_or_create(&path);
            let store = again.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(store.insert(b"key").unwrap(), "{what}");
            store.close().unwrap();
            assert_eq!(identity(&path), before, "{what}");
            assert_eq!(names(&path), ["store"], "{what}");
        }
    }
}

/// Of two that find the file empty, one makes the store.
#[test]
fn two_creators_make_one_store_of_it() {
    for _ in 0..50 {
        let (_folder, path) = place();
        let before = make_empty(&path);
        let start = std::sync::Barrier::new(3);
        let new: usize = std::thread::scope(|scope| {
            let insert = || {
                start.wait();
                let store = options().open_or_create(&path).unwrap();
                usize::from(store.insert(b"key").unwrap())
            };
            let threads = [(); 3].map(|()| scope.spawn(insert));
            threads.map(|thread| thread.join().unwrap()).iter().sum()
        });
        assert_eq!(new, 1);
        assert_eq!(identity(&path), before);
    }
}

/// As `mktemp` makes it. It is empty until the copy is whole, whose mode is the empty file's.
#[test]
fn a_copy_and_a_delta_take_the_place_of_an_empty_file() {
    let (folder, path) = place();
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("target", &link).unwrap();
    make_empty(&folder.path().join("target"));
    make_empty(&folder.path().join("copy"));
    for dest in [folder.path().join("copy"), link.clone()] {
        store
            .snapshot_watched(&dest, |_| {
                assert_eq!(fs::metadata(&dest).unwrap().len(), 0);
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(identity(&dest).1, 0o640);
        let copy = options().open_read_only(&dest).unwrap();
        assert_eq!(held(&copy, &keys(0..100)), 100);
    }
    assert!(link.is_symlink());
    store.insert_batch(&keys(100..200)).unwrap();
    let delta = folder.path().join("delta");
    make_empty(&delta);
    let copy = folder.path().join("copy");
    store.snapshot_since(&delta, &copy).unwrap();
    options().apply(&delta, &copy).unwrap();
    let copy = options().open_read_only(&copy).unwrap();
    assert_eq!(held(&copy, &keys(0..200)), 200);
    assert_eq!(
        names(&path),
        ["copy", "delta", "link", "store", "store-log.3", "target"]
    );
}

/// Whichever call fails, the file stays empty, or the copy is there.
#[test]
fn an_empty_file_whose_copy_fails_stays_empty() {
    let copied_by = |storage: &FaultStorage, path: &Path| {
        let options = options().storage(storage.shared());
        let store = options.open_read_only(path)?;
        store.snapshot(beside(path, "-copy"))
    };
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    store.close().unwrap();
    let copy = beside(&path, "-copy");
    for nth in 1.. {
        make_empty(&copy);
        let storage = FaultStorage::new();
        storage.arm(Rule::nth(nth, Fault::Fails(Failure::Broken)));
        let outcome = copied_by(&storage, &path);
        let is_over = storage.events().len() < nth as usize;
        match outcome {
            Err(_) if copy.exists() => assert_eq!(fs::metadata(&copy).unwrap().len(), 0, "{nth}"),
            // A sync of the folder failed.
            Err(_) => {}
            Ok(_) => assert_eq!(
                held(&options().open_read_only(&copy).unwrap(), &keys(0..100)),
                100
            ),
        }
        let _ = fs::remove_file(&copy);
        if is_over {
            break;
        }
        assert!(nth < 1000);
    }
}

/// It may be a store's that something has cut to nothing, or another process's.
#[test]
fn a_copy_takes_no_empty_file_that_is_in_use() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    let copy = beside(&path, "-copy");
    make_empty(&copy);
    fs::hard_link(&copy, beside(&path, "-other")).unwrap();
    let refused = store.snapshot(&copy).unwrap_err();
    assert!(
        matches!(refused, Error::ManyNames { names: 2, .. }),
        "{refused:?}"
    );
    fs::remove_file(beside(&path, "-other")).unwrap();
    let log = log_of(&copy, 7);
    fs::write(&log, b"EVERSLOG").unwrap();
    let refused = store.snapshot(&copy).unwrap_err();
    assert!(matches!(refused, Error::Emptied { .. }), "{refused:?}");
    fs::remove_file(&log).unwrap();
    let full = beside(&path, "-full");
    fs::write(&full, b"x").unwrap();
    let refused = store.snapshot(&full).unwrap_err();
    assert!(
        matches!(refused, Error::AlreadyExists { .. }),
        "{refused:?}"
    );
    store.snapshot(&copy).unwrap();
}
