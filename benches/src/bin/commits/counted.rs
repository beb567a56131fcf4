//! The disk, with a count of the calls that make its files durable.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everseen::testing::Map;
use everseen::testing::storage::{Storage, StorageFile, disk};

/// The disk, counted.
#[derive(Debug)]
pub struct Counted {
    disk: Arc<dyn Storage>,
    syncs: Arc<AtomicU64>,
}

impl Counted {
    pub fn new() -> Self {
        Self {
            disk: disk(),
            syncs: Arc::default(),
        }
    }

    /// How many syncs of files there were.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    fn wrap(&self, file: Arc<dyn StorageFile>) -> Arc<dyn StorageFile> {
        let syncs = Arc::clone(&self.syncs);
        Arc::new(CountedFile { file, syncs })
    }
}

impl Storage for Counted {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        Ok(self.wrap(self.disk.create_new(path)?))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn StorageFile>> {
        Ok(self.wrap(self.disk.open(path, write)?))
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.publish(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.disk.sync_folder(folder)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }
}

#[derive(Debug)]
struct CountedFile {
    file: Arc<dyn StorageFile>,
    syncs: Arc<AtomicU64>,
}

impl StorageFile for CountedFile {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_length(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.file.allocate(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.file.sync()
    }

    fn map(&self, offset: u64, length: u64) -> io::Result<Map> {
        self.file.map(offset, length)
    }
}
