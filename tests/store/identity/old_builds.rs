//! Stores whose writers locked files beside them.

use std::fs::{self, File};
use std::path::Path;

use everseen::testing::Options;
use everseen::{Error, FormatError};

use crate::support::files::{beside, held, keys, names, place, small};
use crate::support::forge;

fn options() -> Options {
    small().capacity(20_000).fpr(1e-9)
}

/// The number of `incompatible`, FORMAT.md, "Header".
fn incompatible(path: &Path) -> u64 {
    u64::from_le_bytes(fs::read(path).unwrap()[32..40].try_into().unwrap())
}

/// Bits of `incompatible`: the locks lie on the file; pages are bound to the store, which stays as it was.
const FILE_LOCKS: u64 = 1;
const BOUND_PAGES: u64 = 4;

/// Makes of a store one of a build whose locks were files of their own.
fn age(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    bytes[32] &= !(FILE_LOCKS as u8);
    let crc = crc32fast::hash(&bytes[..252]);
    bytes[252..256].copy_from_slice(&crc.to_le_bytes());
    fs::write(path, bytes).unwrap();
    assert_eq!(incompatible(path), BOUND_PAGES);
    for suffix in ["-gate", "-lock"] {
        fs::write(beside(path, suffix), []).unwrap();
    }
}

#[test]
fn a_store_of_an_earlier_build_is_taken_over() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    store.close().unwrap();
    age(&path);
    let reader = options().open_read_only(&path).unwrap();
    assert_eq!(held(&reader, &keys(0..100)), 100);
    drop(reader);
    assert_eq!(incompatible(&path), BOUND_PAGES);

    let store = options().open(&path).unwrap();
    assert_eq!(incompatible(&path), FILE_LOCKS | BOUND_PAGES);
    assert_eq!(held(&store, &keys(0..100)), 100);
    store.insert_batch(&keys(100..200)).unwrap();
    store.close().unwrap();
    assert_eq!(names(&path), ["store"]);
    assert_eq!(held(&options().open(&path).unwrap(), &keys(0..200)), 200);
}

#[test]
fn a_store_that_an_earlier_build_has_open_is_left_to_it() {
    for suffix in ["-gate", "-lock"] {
        let (_folder, path) = place();
        options().create(&path).unwrap().close().unwrap();
        age(&path);
        let lock = File::open(beside(&path, suffix)).unwrap();
        fs2::FileExt::lock_shared(&lock).unwrap();
        let error = options().open(&path).unwrap_err();
        let file = beside(&path, suffix);
        assert!(
            matches!(&error, Error::Locked { path } if *path == file),
            "{error:?}"
        );
        assert_eq!(incompatible(&path), BOUND_PAGES);
        fs2::FileExt::unlock(&lock).unwrap();
        options().open(&path).unwrap().close().unwrap();
        assert_eq!(incompatible(&path), FILE_LOCKS | BOUND_PAGES);
        assert_eq!(names(&path).len(), 1);
    }
}

/// A delta leads from a copy that an earlier build made to what a later one did.
#[test]
fn copies_of_an_earlier_build_are_the_stores_own() {
    let (_folder, path) = place();
    let copy = beside(&path, "-copy");
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    store.snapshot(&copy).unwrap();
    store.close().unwrap();
    for path in [&path, &copy] {
        age(path);
    }
    let store = options().open(&path).unwrap();
    store.insert_batch(&keys(100..200)).unwrap();
    store
        .snapshot_since(beside(&path, "-delta"), &copy)
        .unwrap();
    store.close().unwrap();
    options().apply(beside(&path, "-delta"), &copy).unwrap();
    let copy = options().open(&copy).unwrap();
    assert_eq!(held(&copy, &keys(0..200)), 200);
    assert!(copy.verify().unwrap().is_ok());
}

/// Where a store has its first layer's `run_length` in a superblock: FORMAT.md, "Superblocks" and "Layer entry".
const RUN_LENGTH: usize = 320 + 48;

/// Before 2026-11-21 the bits of a key were drawn anywhere in its page, and these bytes were zeros.
#[test]
fn a_store_whose_keys_have_their_bits_elsewhere_is_told_to_be_created_anew() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    store.close().unwrap();
    let written: Vec<_> = (0..2)
        .filter(|slot| forge::is_written(&fs::read(&path).unwrap(), *slot))
        .collect();
    for slot in written {
        forge::superblock(&path, slot, RUN_LENGTH, &[0; 4]);
    }
    for error in [
        options().open(&path).unwrap_err(),
        options().open_read_only(&path).unwrap_err(),
    ] {
        assert!(
            matches!(
                &error,
                Error::Format {
                    source: FormatError::NoSuperblock { .. },
                    ..
                }
            ),
            "{error:?}"
        );
        let said = error.to_string();
        assert!(
            said.ends_with("differently; create it again from its keys"),
            "{said}"
        );
    }
    // Damage beside it is damage.
    let slot = forge::newest(&path);
    forge::patch(&path, forge::SUPERBLOCKS[slot] + 300, &[0xFF; 8]);
    let said = options().open(&path).unwrap_err().to_string();
    assert!(said.contains("both superblocks are damaged"), "{said}");
}
