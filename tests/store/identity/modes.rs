//! Who may read what is made of a store.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use everseen::testing::Options;
use everseen::{Merge, Store};

use crate::support::files::{beside, key, keys, place, small};

fn options() -> Options {
    small().capacity(20_000).fpr(1e-9)
}

/// Mode, user and group.
fn owner(path: &Path) -> (u32, u32, u32) {
    let found = fs::metadata(path).unwrap();
    (found.mode() & 0o777, found.uid(), found.gid())
}

/// The files beside the store, with whom they belong to.
fn all(path: &Path) -> Vec<(String, (u32, u32, u32))> {
    let entries = fs::read_dir(path.parent().unwrap()).unwrap();
    let mut found: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), owner(&path)))
        .collect();
    found.sort();
    found
}

fn check(path: &Path, expected: (u32, u32, u32)) {
    let store = options().open(path).unwrap();
    for number in 0..5000 {
        store.insert(key(number)).unwrap();
    }
    store.commit().unwrap();
    let others = all(path);
    assert!(others.len() >= 4, "{others:?}");
    for (name, found) in others {
        assert_eq!(found, expected, "{name}");
    }
    let made = |name: &str| beside(path, name);
    store.snapshot(made("-copy")).unwrap();
    store.insert_batch(&keys(5000..5100)).unwrap();
    store.snapshot_since(made("-delta"), made("-copy")).unwrap();
    store.close().unwrap();
    Options::new().apply(made("-delta"), made("-copy")).unwrap();
    Merge::new().union(made("-union"), &[path]).unwrap();
    let foldable = made("-large");
    options()
        .foldable(1)
        .create(&foldable)
        .unwrap()
        .close()
        .unwrap();
    fs::set_permissions(&foldable, Permissions::from_mode(expected.0)).unwrap();
    chown(&foldable, Some(expected.1), Some(expected.2)).unwrap();
    Merge::new().fold(&foldable, made("-fold"), 2).unwrap();
    for (name, found) in all(path) {
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn all_that_is_made_of_a_store_has_its_mode() {
    for mode in [0o600, 0o640, 0o660, 0o666] {
        let (_folder, path) = place();
        options().create(&path).unwrap().close().unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let (_, user, group) = owner(&path);
        check(&path, (mode, user, group));
    }
}

/// The administrator's `add` on somebody's store leaves nothing that locks the owner out.
#[test]
fn all_that_is_made_of_a_store_belongs_to_its_owner() {
    let (_folder, path) = place();
    options().create(&path).unwrap().close().unwrap();
    if chown(&path, Some(12_345), Some(23_456)).is_err() {
        println!("skipped: only the administrator may give files away");
        return;
    }
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    check(&path, (0o640, 12_345, 23_456));
}

/// Of two stores that allow different things, what both allow.
#[test]
fn a_union_allows_what_all_its_inputs_allow() {
    let (_folder, path) = place();
    let other = beside(&path, "-other");
    options().create(&path).unwrap().close().unwrap();
    let like = small().like(&path);
    like.create(&other).unwrap().close().unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(&other, Permissions::from_mode(0o604)).unwrap();
    let out = beside(&path, "-union");
    Merge::new().union(&out, &[&path, &other]).unwrap();
    assert_eq!(owner(&out).0, 0o600);
    drop(Store::open(&out).unwrap());
}
