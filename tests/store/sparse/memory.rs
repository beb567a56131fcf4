//! A file system that is memory gives a hole its room when it is looked at through a map, and ends the
//! process when there is none left. So nobody looks.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use everseen::testing::Options;
use everseen::{Error, FormatError, Kind, OnDamage, Store};
use tempfile::TempDir;

use crate::support::files::{held, key, keys, small};
use crate::support::forge;

/// A folder in memory, if the computer has such a place.
pub fn place() -> Option<(TempDir, PathBuf)> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let there = mounts.lines().any(|mount| {
        let mut fields = mount.split(' ').skip(1);
        fields.next() == Some("/dev/shm") && fields.next() == Some("tmpfs")
    });
    let folder = there.then(|| TempDir::new_in("/dev/shm").ok()).flatten();
    if folder.is_none() {
        eprintln!("skipped: /dev/shm is no tmpfs that can be written to");
    }
    let path = folder.as_ref()?.path().join("store");
    Some((folder?, path))
}

/// Bytes that the file takes.
fn room(path: &Path) -> u64 {
    path.metadata().unwrap().blocks() * 512
}

fn options(kind: Kind) -> Options {
    small().kind(kind).capacity(2_000_000).fpr(0.01)
}

/// A closed store with the first 100 keys, nearly all of it holes.
fn closed(kind: Kind, path: &Path) {
    let store = options(kind).create(path).unwrap();
    store.insert_batch(&keys(0..100)).unwrap();
    store.close().unwrap();
    let length = path.metadata().unwrap().len();
    assert!(room(path) < length / 2, "{} of {length}", room(path));
}

/// Looks everywhere.
fn look(store: &Store) {
    assert_eq!(held(store, &keys(0..100)), 100);
    let wrong = held(store, &keys(1000..9000));
    assert!(wrong < 100, "{wrong}");
    for number in 9000..9500 {
        assert!(!store.contains(key(number)).unwrap());
    }
    assert!(store.verify().unwrap().is_ok());
}

#[test]
#[cfg_attr(everseen_portable, ignore = "only Linux has such a system")]
fn who_looks_for_absent_keys_takes_no_room() {
    for kind in [Kind::Bloom, Kind::Counting, Kind::Scalable] {
        let Some((_folder, path)) = place() else {
            return;
        };
        closed(kind, &path);
        let before = room(&path);
        look(&options(kind).open_read_only(&path).unwrap());
        assert_eq!(room(&path), before, "{kind} read");
        let store = options(kind).open(&path).unwrap();
        look(&store);
        if kind == Kind::Counting {
            assert_eq!(store.count_estimate(key(1)).unwrap(), 1);
            for number in 1000..1500 {
                assert_eq!(store.count_estimate(key(number)).unwrap(), 0);
            }
        }
        // Whether they are new is looked up in the pages, and they go into the buffer.
        store.insert_batch(&keys(10_000..10_100)).unwrap();
        assert_eq!(room(&path), before, "{kind} inserted");
        store.close().unwrap();
        assert!(room(&path) > before, "{kind} closed");
    }
}

/// What was a hole when it was looked at last is a page now.
#[test]
fn pages_that_others_write_are_seen() {
    for kind in [Kind::Bloom, Kind::Counting] {
        let Some((_folder, path)) = place() else {
            return;
        };
        closed(kind, &path);
        let [reader, writer] = [(); 2].map(|()| options(kind).open(&path).unwrap());
        let later = keys(10_000..12_000);
        for number in 0..3 {
            assert!(held(&reader, &later[number * 500..]) < 50, "{kind}");
            writer.insert_batch(&later[number * 500..][..500]).unwrap();
            writer.checkpoint().unwrap();
            assert_eq!(
                held(&reader, &later[..number * 500 + 500]),
                number * 500 + 500
            );
        }
    }
}

/// Writes the file anew with holes for its blank pages.
fn with_holes(path: &Path) {
    let bytes = fs::read(path).unwrap();
    let file = fs::File::create(path).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    for (number, page) in (0..).zip(bytes.chunks(4096)) {
        if page.iter().any(|byte| *byte != 0) {
            file.write_all_at(page, number * 4096).unwrap();
        }
    }
    assert!(room(path) < bytes.len() as u64 / 2);
}

/// Tells that each page of the layer was written.
fn forge_all_written(path: &Path) {
    for slot in [0, 1] {
        if forge::is_written(&fs::read(path).unwrap(), slot) {
            forge::superblock(path, slot, 320 + 44, &1_u32.to_le_bytes());
        }
    }
}

/// Tells that a checkpoint is writing all pages.
fn forge_intent(path: &Path) {
    let file = fs::read(path).unwrap();
    let mut intent = b"EVERINTT".to_vec();
    intent.extend([0; 8]);
    intent.extend(&file[112..128]);
    for number in [1_u64 << 40, 0, 0, 1 << 40] {
        intent.extend(number.to_le_bytes());
    }
    let crc = crc32fast::hash(&intent[12..]);
    intent[8..12].copy_from_slice(&crc.to_le_bytes());
    forge::patch(path, 4096, &intent);
}

/// Of a layer that was written all over, as it says, a hole is damage, and a policy answers for it.
#[test]
#[cfg_attr(everseen_portable, ignore = "only Linux has such a system")]
fn holes_that_are_damage_take_no_room_either() {
    for kind in [Kind::Bloom, Kind::Counting] {
        let Some((_folder, path)) = place() else {
            return;
        };
        closed(kind, &path);
        forge_all_written(&path);
        with_holes(&path);
        let before = room(&path);
        for policy in [OnDamage::Error, OnDamage::NeverSeen, OnDamage::Seen] {
            let options = options(kind).on_damage(policy);
            let store = options.open_read_only(&path).unwrap();
            assert_eq!(held(&store, &keys(0..100)), 100);
            let mut damaged = 0;
            for number in 1000..1500 {
                match (policy, store.contains(key(number))) {
                    (OnDamage::Error, Err(Error::Format { source, .. })) => {
                        assert!(matches!(source, FormatError::PageDamaged { got: 0, .. }));
                        damaged += 1;
                    }
                    (OnDamage::Seen, Ok(true)) => damaged += 1,
                    // Of a page that is there.
                    (_, Ok(false)) => {}
                    (_, other) => panic!("{policy:?}: {other:?}"),
                }
            }
            assert_eq!(damaged > 300, policy != OnDamage::NeverSeen, "{damaged}");
            assert!(!store.verify().unwrap().is_ok());
        }
        assert_eq!(room(&path), before, "{kind}");
        forge_intent(&path);
        with_holes(&path);
        let before = room(&path);
        let store = options(kind).open_read_only(&path).unwrap();
        // They may just be being written, so what they hold counts.
        assert_eq!(held(&store, &keys(1000..1500)), 0);
        for number in 1000..1500 {
            assert!(!store.contains(key(number)).unwrap());
        }
        assert_eq!(room(&path), before, "{kind} with an intent");
    }
}
