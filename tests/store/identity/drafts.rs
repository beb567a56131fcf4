//! `NAME-new` and `NAME-part`: files that creators make, and leave when they are killed.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Barrier;

use everseen::testing::Options;
use everseen::testing::storage::HeldByte;
use everseen::{Error, Merge};

use crate::support::fault::{Call, Failure, Fault, FaultStorage, Rule};
use crate::support::files::{beside, held, keys, names, place, small};

/// The byte of the lock on opening and closing.
const GATE: u64 = 1 << 62;

fn options() -> Options {
    small().capacity(20_000).fpr(1e-9)
}

fn make(path: &Path) {
    options().create(path).unwrap().close().unwrap();
}

/// A creator makes its file, finds that another one has given the name to its own, and is killed before it removes its file.
#[test]
fn what_a_late_creator_leaves_goes_with_the_next_opening_or_closing() {
    for left in [&b""[..], b"EVERSEEN"] {
        for suffix in ["-new", "-part"] {
            let (_folder, path) = place();
            make(&path);
            fs::write(beside(&path, suffix), left).unwrap();
            let store = options().open(&path).unwrap();
            assert!(!beside(&path, suffix).exists(), "opening, {suffix}");
            fs::write(beside(&path, suffix), left).unwrap();
            store.close().unwrap();
            assert_eq!(names(&path), ["store"], "closing, {suffix}");
        }
    }
}

#[test]
fn nothing_else_of_that_name_is_removed() {
    let (folder, path) = place();
    make(&path);
    let new = beside(&path, "-new");
    let through = || options().open(&path).unwrap().close().unwrap();

    // A creator that lives.
    fs::write(&new, b"EVERSEEN").unwrap();
    let lives = HeldByte::take(&new, GATE).unwrap().unwrap();
    through();
    assert!(new.exists());
    drop(lives);
    fs::remove_file(&new).unwrap();

    // What others have put there.
    for bytes in [&b"a list\n"[..], &[0; 5000]] {
        fs::write(&new, bytes).unwrap();
        through();
        assert_eq!(fs::read(&new).unwrap(), bytes);
    }
    fs::remove_file(&new).unwrap();
    fs::write(folder.path().join("target"), b"").unwrap();
    std::os::unix::fs::symlink("target", &new).unwrap();
    through();
    assert!(new.is_symlink() && folder.path().join("target").exists());
    fs::remove_file(&new).unwrap();

    // A store that somebody named so, to put it in the place of this one: with keys of its own, or just made.
    let other = options().create(&new).unwrap();
    other.insert_batch(&keys(0..100)).unwrap();
    other.close().unwrap();
    through();
    let union = beside(&path, "-part");
    Merge::new().union(&union, &[&new]).unwrap();
    through();
    for kept in [&new, &union] {
        let kept = options().open(kept).unwrap();
        assert_eq!(held(&kept, &keys(0..100)), 100);
    }

    // Nor does one who makes a store remove it.
    fs::remove_file(&path).unwrap();
    match options().create(&path) {
        Err(Error::InTheWay { path }) => assert_eq!(path, new),
        other => panic!("{other:?}"),
    }
    let kept = options().open(&new).unwrap();
    assert_eq!(held(&kept, &keys(0..100)), 100);
}

/// Whoever makes a file beside it may need its name: it is a store all the same, with keys or without.
#[test]
fn a_store_is_no_draft_whatever_its_name() {
    for suffix in ["-new", "-part"] {
        for has_keys in [false, true] {
            let (folder, path) = place();
            let kept = beside(&path, suffix);
            let store = options().create(&kept).unwrap();
            if has_keys {
                store.insert_batch(&keys(0..100)).unwrap();
            }
            store.close().unwrap();
            // A copy as well: it was never opened, and has the mark of a copy.
            let copied = folder.path().join("copied");
            options().open(&kept).unwrap().snapshot(&copied).unwrap();
            for file in [&kept, &copied] {
                if file == &copied {
                    fs::rename(&copied, &kept).unwrap();
                }
                let before = fs::read(&kept).unwrap();
                let outcome = match suffix {
                    "-new" => options().create(&path).map(drop),
                    _ => {
                        let other = options().create(folder.path().join("other")).unwrap();
                        let outcome = other.snapshot(&path).map(drop);
                        drop(other);
                        fs::remove_file(folder.path().join("other")).unwrap();
                        outcome
                    }
                };
                match outcome {
                    Err(Error::InTheWay { path }) => assert_eq!(path, kept),
                    other => panic!("{suffix} {has_keys}: {other:?}"),
                }
                assert!(fs::read(&kept).unwrap() == before && !path.exists());
            }
            let kept = options().open(&kept).unwrap();
            assert_eq!(held(&kept, &keys(0..100)), if has_keys { 100 } else { 0 });
        }
    }
}

/// The last moment before a draft gets its name: all of it is there.
#[test]
fn a_whole_draft_of_a_creator_that_died_is_made_again() {
    let (folder, path) = place();
    let other = options().create(folder.path().join("other")).unwrap();
    other.insert_batch(&keys(0..100)).unwrap();
    let previous = folder.path().join("previous");
    other.snapshot(&previous).unwrap();
    other.insert_batch(&keys(100..200)).unwrap();
    type Make<'a> = &'a dyn Fn(&Path, Options) -> everseen::Result<()>;
    let create: Make = &|path, options| options.create(path)?.close().map(drop);
    let union: Make = &|path, options| {
        let merge = options.merge();
        merge.union(path, &[&previous]).map(drop)
    };
    let through = |options: Options| options.open(folder.path().join("other"));
    let copy: Make = &|path, options| through(options)?.snapshot(path).map(drop);
    let delta: Make = &|path, options| through(options)?.snapshot_since(path, &previous).map(drop);
    other.close().unwrap();
    for (suffix, make) in [
        ("-new", create),
        ("-new", union),
        ("-part", copy),
        ("-part", delta),
    ] {
        let storage = FaultStorage::without_syncs();
        make(&path, options().storage(storage.shared())).unwrap();
        let calls = storage.events();
        let published = calls
            .iter()
            .position(|event| event.call == Call::Publish)
            .unwrap();
        fs::remove_file(&path).unwrap();
        // It can't publish it, nor remove it.
        let storage = FaultStorage::without_syncs();
        storage.arm(Rule::from(
            published as u64 + 1,
            Fault::Fails(Failure::Broken),
        ));
        make(&path, options().storage(storage.shared())).unwrap_err();
        let left = beside(&path, suffix);
        assert!(left.exists() && !path.exists(), "{suffix}");
        make(&path, options()).unwrap();
        assert!(path.exists() && !left.exists(), "{suffix}");
        if let Ok(store) = options().open_read_only(&path) {
            assert!(store.verify().unwrap().is_ok());
        }
        // It has its name now, so it is no draft under another.
        if suffix == "-new" {
            fs::rename(&path, &left).unwrap();
            let refused = make(&path, options()).unwrap_err();
            assert!(matches!(refused, Error::InTheWay { .. }), "{refused:?}");
            fs::rename(&left, &path).unwrap();
        }
        fs::remove_file(&path).unwrap();
    }
}

/// Creators exclude each other by the file that they make, so another program may lock the folder, as `flock` does.
#[test]
fn a_locked_folder_keeps_no_creator_out() {
    let (folder, path) = place();
    let locked = File::open(folder.path()).unwrap();
    locked.try_lock().unwrap();
    let store = options().create(&path).unwrap();
    store.snapshot(folder.path().join("copy")).unwrap();
}

/// Creators meet what others have left, begin, remove and open at the same time: one wins, and none leaves a file.
#[test]
fn of_many_creators_one_wins() {
    for round in 0..60 {
        let (_folder, path) = place();
        match round % 3 {
            0 => fs::write(beside(&path, "-new"), b"").unwrap(),
            1 => fs::write(beside(&path, "-new"), b"EVERSEEN").unwrap(),
            _ => {}
        }
        let start = Barrier::new(4);
        let create = || {
            start.wait();
            match options().create(&path) {
                Ok(store) => (1, store.insert(b"key").unwrap()),
                Err(Error::AlreadyExists { .. }) => {
                    let store = options().open(&path).unwrap();
                    (0, store.insert(b"key").unwrap())
                }
                Err(error) => panic!("round {round}: {error:?}"),
            }
        };
        let outcomes = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(create));
            threads.map(|thread| thread.join().unwrap())
        });
        let winners: i32 = outcomes.iter().map(|(won, _)| won).sum();
        let new = outcomes.iter().filter(|(_, new)| *new).count();
        assert_eq!((winners, new), (1, 1), "round {round}");
        assert_eq!(names(&path), ["store"], "round {round}");
    }
}
