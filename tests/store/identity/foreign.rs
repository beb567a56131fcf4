//! Files, links, pipes and folders that are not Everseen's, under names that it uses.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use everseen::testing::Options;
use everseen::{Error, Merge, Store};

use crate::support::files::{beside, held, keys, place, small};

fn options() -> Options {
    small().capacity(20_000).fpr(1e-9)
}

/// Something a stranger may have put there.
type Plant = fn(&Path, &Path);

const PLANTS: [(&str, Plant); 5] = [
    ("a file", |at, _| fs::write(at, "my own words\n").unwrap()),
    ("a link to a file", |at, other| symlink(other, at).unwrap()),
    ("a link to nothing", |at, other| {
        symlink(other.with_extension("none"), at).unwrap()
    }),
    ("a pipe", |at, _| {
        assert!(Command::new("mkfifo").arg(at).status().unwrap().success())
    }),
    ("a folder", |at, _| fs::create_dir(at).unwrap()),
];

/// What a path is, and what is in it.
fn state(path: &Path) -> String {
    let kind = fs::symlink_metadata(path).unwrap().file_type();
    let bytes = if kind.is_file() {
        fs::read(path).unwrap()
    } else {
        Vec::new()
    };
    format!("{kind:?} {bytes:?}")
}

fn for_each_plant(suffix: &str, attempt: impl Fn(&Path, &Path) -> everseen::Result<()>) {
    for (name, plant) in PLANTS {
        println!("{name} at {suffix}");
        let (folder, path) = place();
        let other = folder.path().join("of a stranger");
        fs::write(&other, "not yours").unwrap();
        let at = beside(&path, suffix);
        let planted = || {
            plant(&at, &other);
            (state(&at), state(&other))
        };
        let before = std::cell::OnceCell::new();
        options()
            .create(folder.path().join("made before"))
            .unwrap()
            .close()
            .unwrap();
        fs::rename(folder.path().join("made before"), &path).unwrap();
        let _ = before.set(planted());
        let error = attempt(&path, folder.path()).unwrap_err();
        assert!(
            matches!(&error, Error::InTheWay { path } | Error::NotAFile { path } | Error::IsFolder { path } if *path == at),
            "{error:?}"
        );
        assert_eq!(before.get(), Some(&(state(&at), state(&other))), "touched");
    }
}

#[test]
fn opening_leaves_them_alone() {
    for suffix in ["-shm", "-shm.1", "-shm.spare", "-shm.making", "-shm.77"] {
        for_each_plant(suffix, |path, _| options().open(path).map(drop));
    }
}

#[test]
fn making_a_store_leaves_them_alone() {
    for suffix in ["-new", "-log.1", "-log.9", "-shm", "-shm.4", "-shm.spare"] {
        for_each_plant(suffix, |path, _| {
            fs::remove_file(path).unwrap();
            let made = options().create(path).map(drop);
            assert!(!path.exists());
            made
        });
    }
}

#[test]
fn a_rotation_leaves_them_alone() {
    for_each_plant("-log.2", |path, _| {
        let store = options().open(path)?;
        (0..20_000).try_for_each(|at| {
            store.insert_batch(&keys(at..at + 1))?;
            Ok(())
        })
    });
}

#[test]
fn copies_and_merges_leave_them_alone() {
    for_each_plant("-copy-part", |path, _| {
        Store::open(path)?.snapshot(beside(path, "-copy")).map(drop)
    });
    for_each_plant("-union-new", |path, _| {
        Merge::new()
            .union(beside(path, "-union"), &[path])
            .map(drop)
    });
}

/// The names of the first versions' lock files are nobody's any more.
#[test]
fn names_that_were_once_used_are_not() {
    for suffix in ["-gate", "-lock", "-handle.0"] {
        for (name, plant) in PLANTS {
            println!("{name} at {suffix}");
            let (folder, path) = place();
            let (at, other) = (beside(&path, suffix), folder.path().join("other"));
            fs::write(&other, "not yours").unwrap();
            plant(&at, &other);
            let before = (state(&at), state(&other));
            let store = options().create(&path).unwrap();
            store.insert_batch(&keys(0..100)).unwrap();
            let joined = options().open(&path).unwrap();
            assert_eq!(held(&joined, &keys(0..100)), 100);
            joined.close().unwrap();
            store.close().unwrap();
            assert_eq!((state(&at), state(&other)), before);
        }
    }
}

/// Names of somebody's own that end in dates.
#[test]
fn numbers_that_no_store_comes_to_are_passed_by() {
    let (_folder, path) = place();
    let own =
        ["-log.20241122", "-shm.20241122", "-log.01", "-log.+1"].map(|name| beside(&path, name));
    for path in &own {
        fs::write(path, "my own words\n").unwrap();
    }
    for _ in 0..2 {
        let store = options().open_or_create(&path).unwrap();
        store.insert_batch(&keys(0..100)).unwrap();
        store.checkpoint().unwrap();
        store.close().unwrap();
    }
    for path in &own {
        assert_eq!(fs::read(path).unwrap(), b"my own words\n");
    }
}

/// Two names that are alike if what is no UTF-8 is replaced.
#[test]
fn names_are_compared_as_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] =
        [b"caf\xe8.ever", b"caf\xe9.ever"].map(|name| folder.path().join(OsStr::from_bytes(name)));
    let live = options().create(&one).unwrap();
    live.insert_batch(&keys(0..100)).unwrap();
    for _ in 0..2 {
        let store = options().open_or_create(&other).unwrap();
        store.insert_batch(&keys(0..3000)).unwrap();
        store.close().unwrap();
    }
    let joined = options().open(&one).unwrap();
    assert_eq!(held(&joined, &keys(0..100)), 100);
    joined.insert_batch(&keys(100..3000)).unwrap();
    joined.close().unwrap();
    live.close().unwrap();
    assert_eq!(held(&options().open(&one).unwrap(), &keys(0..3000)), 3000);
}

/// A pipe where a store should be must not be waited for, and neither must any file that is no store be touched.
#[test]
fn what_is_no_store_is_left_alone() {
    let (folder, path) = place();
    assert!(
        Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    for outcome in [options().open(&path), options().open_read_only(&path)] {
        let error = outcome.unwrap_err();
        assert!(
            matches!(&error, Error::NotAFile { path: got } if *got == path),
            "{error:?}"
        );
    }
    let list = folder.path().join("urls.txt");
    fs::write(&list, "https://example.org/\n".repeat(10_000)).unwrap();
    for outcome in [options().open(&list), options().open_read_only(&list)] {
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Format { .. }), "{error:?}");
    }
    let count = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(count, 2, "something was left beside them");
}
