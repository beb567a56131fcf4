//! A reader of what was there once, whose pages a later writer goes on with.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use everseen::testing::storage::{Storage, StorageFile, disk};
use everseen::testing::{LEAST_BUFFER, Map, Options};
use everseen::{Error, FormatError, Kind, OnDamage};
use tempfile::TempDir;

use crate::support::files::image;
use crate::support::numbers::key;

/// What a later writer does when the reader next reads of the file, and not through a map.
type Later = Box<dyn FnOnce() + Send>;

/// A disk that stands still but for what is done [`Later`].
#[derive(Clone, Default)]
struct Still(Arc<Mutex<Option<Later>>>);

impl std::fmt::Debug for Still {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Still")
    }
}

impl Storage for Still {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        disk().create_new(path)
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(StillFile(disk().open(path, write)?, self.clone())))
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        disk().publish(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        disk().remove(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        disk().sync_folder(folder)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        disk().exists(path)
    }
}

#[derive(Debug)]
struct StillFile(Arc<dyn StorageFile>, Still);

impl StorageFile for StillFile {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let later = self.1.0.lock().unwrap().take();
        if let Some(later) = later {
            later();
        }
        self.0.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.set_length(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.0.allocate(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn map(&self, offset: u64, length: u64) -> io::Result<Map> {
        self.0.map(offset, length)
    }
}

const KEYS: u64 = 100;

/// A store whose pages have each key once, and a killed session's log some of them once more.
fn store(kind: Kind) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let options = Options::new().kind(kind).capacity(1000).fpr(1e-9);
    let options = options.seed([7; 32]).background(false).buffer(LEAST_BUFFER);
    let store = options.create(&path).unwrap();
    let insert = |numbers: std::ops::Range<u64>| {
        for number in numbers {
            store.insert(key(number).to_le_bytes()).unwrap();
        }
    };
    insert(0..KEYS);
    store.checkpoint().unwrap();
    insert(0..KEYS / 2);
    store.commit().unwrap();
    image(&path)
}

/// How often a key is there, by a reader that finds its page torn, of which the writer is done before the reader
/// looks for an intent; or never.
fn count(path: &Path, kind: Kind, number: u64, on: OnDamage, healed: bool) -> Result<u64, Error> {
    let good = std::fs::read(path).unwrap();
    let still = Still::default();
    let options = Options::new().storage(Arc::new(still.clone()));
    let reader = options.on_damage(on).open_read_only(path).unwrap();
    let mut torn = good.clone();
    // The ends of all pages that have one: a page's header stays.
    for page in torn[(64 << 10)..].chunks_mut(4096) {
        page.last_mut().into_iter().for_each(|byte| *byte ^= 0xFF);
    }
    std::fs::write(path, torn).unwrap();
    let heal = {
        let (path, good) = (path.to_owned(), good.clone());
        move || std::fs::write(path, good).unwrap()
    };
    if healed {
        *still.0.lock().unwrap() = Some(Box::new(heal.clone()));
    }
    let bytes = key(number).to_le_bytes();
    let told = match kind {
        Kind::Counting => reader.count_estimate(bytes),
        _ => reader.contains(bytes).map(u64::from),
    };
    heal();
    told
}

#[test]
fn a_page_that_is_whole_again_by_the_second_look_is_not_damaged() {
    for kind in [Kind::Bloom, Kind::Counting] {
        let (_folder, path) = store(kind);
        for on in [OnDamage::Error, OnDamage::NeverSeen, OnDamage::Seen] {
            // Of the first, the log has something to say too: they are looked up in a copy of the page.
            for number in [0, KEYS - 1] {
                let told = count(&path, kind, number, on, true).unwrap();
                let twice = kind == Kind::Counting && number == 0;
                let expected = if twice { 2 } else { 1 };
                assert_eq!(told, expected, "{kind}, {on:?}, key {number}");
            }
        }
    }
}

#[test]
fn a_page_that_is_not_is_damaged() {
    for kind in [Kind::Bloom, Kind::Counting] {
        let (_folder, path) = store(kind);
        let last = KEYS - 1;
        let told = count(&path, kind, last, OnDamage::Error, false);
        let Err(Error::Format { source, .. }) = told else {
            panic!("{kind}: {told:?}");
        };
        assert!(
            matches!(source, FormatError::PageDamaged { layer: 0, .. }),
            "{source:?}"
        );
        let told = |on| count(&path, kind, last, on, false).unwrap();
        assert_eq!(told(OnDamage::NeverSeen), 0);
        assert!(told(OnDamage::Seen) > 0);
    }
}

/// A log of removes alone takes as much memory as one of inserts.
#[test]
fn a_reader_has_room_for_a_log_of_removes() {
    const MANY: u64 = 60_000;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let options = Options::new().kind(Kind::Counting).capacity(MANY).fpr(0.01);
    let store = options.create(&path).unwrap();
    let keys: Vec<[u8; 8]> = (0..MANY).map(|number| key(number).to_le_bytes()).collect();
    for key in &keys {
        store.insert(key.as_slice()).unwrap();
    }
    store.checkpoint().unwrap();
    for key in &keys[1..] {
        store.remove(key.as_slice()).unwrap();
    }
    let (_copies, killed) = image(&path);
    let bounds = Options::new().buffer_between(LEAST_BUFFER, 64 * LEAST_BUFFER);
    let reader = bounds.open_read_only(&killed).unwrap();
    assert_eq!(reader.recovery().keys, MANY - 1);
    assert!(reader.contains(keys[0].as_slice()).unwrap());
    assert_eq!(reader.stats().unwrap().keys, 1);
}
