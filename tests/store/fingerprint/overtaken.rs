//! Opening a store of fingerprints while checkpoints write over the directory that is just being read.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use everseen::storage::{Storage, StorageFile, disk};
use everseen::{Kind, Map, Options, Store};

/// Runs once, before the first page is read.
type Hook = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

struct Hooked(Hook);
impl std::fmt::Debug for Hooked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hooked")
    }
}
struct File(Arc<dyn StorageFile>, Hook);
impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("File")
    }
}
impl Storage for Hooked {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        disk().create_new(path)
    }
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(File(
            disk().open(path, write)?,
            Arc::clone(&self.0),
        )))
    }
    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        disk().publish(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        disk().remove(path)
    }
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        disk().sync_folder(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        disk().exists(path)
    }
}
impl StorageFile for File {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset >= 131_072 {
            let hook = self.1.lock().unwrap().take();
            if let Some(hook) = hook {
                hook();
            }
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

/// What a superblock named may have been written over before it was read. That is no damage, but a reason to begin again.
#[test]
fn a_directory_that_is_overtaken_while_it_is_read_is_not_damage() {
    for write in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let options = Options::new().kind(Kind::Fingerprint).buffer(256 << 10);
        let options = options.background(false).measured(false);
        let store = Arc::new(options.create(&path).unwrap());
        let insert = |store: &Store, round: u64| {
            let keys: Vec<u64> = (round * 5000..(round + 1) * 5000).collect();
            store.insert_hash_batch(&keys).unwrap();
            store.checkpoint().unwrap();
        };
        insert(&store, 0);
        let writer = Arc::clone(&store);
        let hook: Hook = Arc::new(Mutex::new(Some(Box::new(move || {
            (1..5).for_each(|round| insert(&writer, round));
        }))));
        let storage = Arc::new(Hooked(Arc::clone(&hook)));
        let hooked = options.clone().storage(storage);
        let opened = match write {
            true => hooked.open(&path).unwrap(),
            false => hooked.open_read_only(&path).unwrap(),
        };
        assert!(hook.lock().unwrap().is_none());
        let keys: Vec<u64> = (0..25_000).collect();
        let found = opened.contains_hash_batch(&keys).unwrap();
        assert!(found.iter().all(|found| *found));
    }
}
