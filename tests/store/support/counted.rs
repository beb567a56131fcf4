//! The disk, and how many bytes are read from it and written to it. Far too many are refused, so that a test that
//! goes through what it should not comes to an end.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everseen::testing::Map;
use everseen::testing::storage::{Storage, StorageFile, disk};

#[derive(Debug, Default)]
pub struct Counts {
    read: AtomicU64,
    written: AtomicU64,
}

/// Bytes that nobody reads or writes unless something is wrong.
const FAR_TOO_MANY: u64 = 256 << 20;

fn note(count: &AtomicU64, bytes: usize) -> io::Result<usize> {
    let before = count.fetch_add(bytes as u64, Ordering::Relaxed);
    match before < FAR_TOO_MANY {
        true => Ok(bytes),
        false => Err(io::Error::other("far too many bytes")),
    }
}

impl Counts {
    /// Bytes read and written since this was asked last.
    pub fn take(&self) -> (u64, u64) {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        (take(&self.read), take(&self.written))
    }
}

#[derive(Debug)]
pub struct Counted {
    disk: Arc<dyn Storage>,
    pub counts: Arc<Counts>,
}

impl Counted {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            disk: disk(),
            counts: Arc::default(),
        })
    }

    fn file(&self, file: Arc<dyn StorageFile>) -> Arc<dyn StorageFile> {
        let counts = Arc::clone(&self.counts);
        Arc::new(CountedFile { file, counts })
    }
}

impl Storage for Counted {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        Ok(self.file(self.disk.create_new(path)?))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn StorageFile>> {
        Ok(self.file(self.disk.open(path, write)?))
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
    counts: Arc<Counts>,
}

impl StorageFile for CountedFile {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.file.read_at(bytes, offset)?;
        note(&self.counts.read, read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let written = self.file.write_at(bytes, offset)?;
        note(&self.counts.written, written)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_length(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.file.allocate(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn next_data(&self, offset: u64) -> io::Result<Range<u64>> {
        self.file.next_data(offset)
    }

    fn map(&self, offset: u64, length: u64) -> io::Result<Map> {
        self.file.map(offset, length)
    }
}
