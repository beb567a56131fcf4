//! One file under several names.

use std::fs;
use std::os::unix::fs::symlink;

use everseen::{Error, OnDamage};

use crate::support::files::{beside, held, key, keys, names, place, small};

fn options() -> everseen::testing::Options {
    small().capacity(5000).fpr(1e-9)
}

#[test]
fn handles_that_come_by_a_symbolic_link_share_the_store() {
    let (folder, path) = place();
    let (link, far) = (folder.path().join("link"), folder.path().join("far"));
    fs::create_dir(&far).unwrap();
    symlink(&path, &link).unwrap();
    symlink("../link", far.join("link")).unwrap();
    options().create(&path).unwrap().close().unwrap();
    let stores = [&path, &link, &far.join("link")].map(|path| options().open(path).unwrap());
    for number in 0..300 {
        let won = stores
            .iter()
            .filter(|store| store.insert(key(number)).unwrap());
        assert_eq!(won.count(), 1, "key {number}");
    }
    stores[1].checkpoint().unwrap();
    for store in &stores {
        assert_eq!(held(store, &keys(0..300)), 300);
        store.close().unwrap();
    }
    assert!(
        fs::read_dir(&far).unwrap().count() == 1,
        "files beside the link"
    );
    assert_eq!(names(&path), ["far", "link", "store"]);
}

#[test]
fn a_file_with_two_names_is_read_and_not_written_to() {
    let (folder, path) = place();
    let link = folder.path().join("link");
    let store = options().create(&path).unwrap();
    store.insert(b"key").unwrap();
    store.close().unwrap();
    fs::hard_link(&path, &link).unwrap();
    for path in [&path, &link] {
        for options in [options(), options().exclusive(true)] {
            let error = options.open(path).unwrap_err();
            assert!(
                matches!(&error, Error::ManyNames { path: got, names: 2 } if got == path),
                "{error:?}"
            );
        }
        let reader = options().open_read_only(path).unwrap();
        assert!(reader.contains(b"key").unwrap());
    }
    fs::remove_file(&link).unwrap();
    assert!(options().open(&path).unwrap().contains(b"key").unwrap());
}

#[test]
fn what_a_killed_publication_left_linked_is_removed() {
    for suffix in ["-new", "-part"] {
        let (_folder, path) = place();
        options().create(&path).unwrap().close().unwrap();
        fs::hard_link(&path, beside(&path, suffix)).unwrap();
        options().open(&path).unwrap().close().unwrap();
        assert_eq!(names(&path), ["store"]);
    }
}

/// Only who comes later is refused.
#[test]
fn a_link_that_is_made_while_the_store_is_open_disturbs_nobody() {
    let (folder, path) = place();
    let link = folder.path().join("link");
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    fs::hard_link(&path, &link).unwrap();
    store.insert_batch(&keys(100..200)).unwrap();
    store.commit().unwrap();
    store.checkpoint().unwrap();
    // Its logs lie beside another name.
    let error = options().open_read_only(&link).unwrap_err();
    assert!(
        matches!(&error, Error::OtherName { path } if *path == link),
        "{error:?}"
    );
    store.close().unwrap();
    fs::remove_file(&link).unwrap();
    assert_eq!(held(&options().open(&path).unwrap(), &keys(0..200)), 200);
}

#[test]
fn a_store_that_was_renamed_while_it_is_open_is_not_opened_by_its_new_name() {
    let (folder, path) = place();
    let other = folder.path().join("other");
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    fs::rename(&path, &other).unwrap();
    for error in [
        options().open(&other).unwrap_err(),
        options().open_read_only(&other).unwrap_err(),
    ] {
        assert!(
            matches!(&error, Error::OtherName { path } if *path == other),
            "{error:?}"
        );
    }
    // What an earlier session left beside the new name is not taken for theirs.
    fs::copy(beside(&path, "-shm"), beside(&other, "-shm")).unwrap();
    let error = options().open(&other).unwrap_err();
    assert!(matches!(error, Error::OtherName { .. }), "{error:?}");
    fs::remove_file(beside(&other, "-shm")).unwrap();
    fs::rename(&other, &path).unwrap();
    store.commit().unwrap();
    store.close().unwrap();
    assert_eq!(held(&options().open(&path).unwrap(), &keys(0..100)), 100);
}

#[test]
#[cfg_attr(everseen_portable, ignore = "files are reached by path")]
fn a_folder_that_is_renamed_while_the_store_is_open_goes_on_working() {
    let (folder, _) = place();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    fs::create_dir(&old).unwrap();
    let path = old.join("store");
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..1000)).unwrap();
    fs::rename(&old, &new).unwrap();
    // A stranger's store of the same name, where this one was.
    fs::create_dir(&old).unwrap();
    let stranger = options().create(&path).unwrap();
    store.insert_batch(&keys(1000..2000)).unwrap();
    store.commit().unwrap();
    store.checkpoint().unwrap();
    let joined = options().open(new.join("store")).unwrap();
    assert_eq!(held(&joined, &keys(0..2000)), 2000);
    assert_eq!(held(&stranger, &keys(0..2000)), 0);
    joined.insert_batch(&keys(2000..3000)).unwrap();
    joined.checkpoint().unwrap();
    store.insert_batch(&keys(3000..3500)).unwrap();
    joined.close().unwrap();
    store.close().unwrap();
    assert_eq!(names(&new.join("store")), ["store"]);
    let store = options().open(new.join("store")).unwrap();
    assert_eq!(held(&store, &keys(0..3500)), 3500);
    assert!(store.verify().unwrap().is_ok());
}

#[test]
fn a_repair_is_refused_while_anybody_has_the_file_open() {
    let (folder, path) = place();
    let (soft, hard) = (folder.path().join("soft"), folder.path().join("hard"));
    symlink(&path, &soft).unwrap();
    let store = options().create(&path).unwrap();
    fs::hard_link(&path, &hard).unwrap();
    let refused = |path: &std::path::PathBuf| {
        let error = options().repair(path, OnDamage::NeverSeen).unwrap_err();
        assert!(matches!(error, Error::Locked { .. }), "{error:?}");
    };
    [&path, &soft, &hard].into_iter().for_each(refused);
    fs::remove_file(&hard).unwrap();
    store.close().unwrap();
    let reader = options().open_read_only(&path).unwrap();
    [&path, &soft].into_iter().for_each(refused);
    reader.close().unwrap();
    assert!(
        options()
            .repair(&soft, OnDamage::NeverSeen)
            .unwrap()
            .is_whole()
    );
}

#[test]
fn a_link_to_nothing_is_named() {
    let (folder, path) = place();
    symlink(folder.path().join("nothing"), &path).unwrap();
    let error = options().create(&path).unwrap_err();
    assert!(
        matches!(&error, Error::DanglingLink { path: got } if *got == path),
        "{error:?}"
    );
    let error = options().open(&path).unwrap_err();
    assert!(
        matches!(&error, Error::DanglingLink { path: got } if *got == path),
        "{error:?}"
    );
    assert_eq!(names(&path), ["store"]);
}
