//! The disk without its waits: nothing is synced and no room reserved. All else goes to the disk as it is.
//!
//! What a process leaves behind when it ends or is killed is the same, since the page cache outlives it. A power cut
//! would tell the difference.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use everseen::testing::Map;
use everseen::testing::storage::{Folder, Storage, StorageFile, disk};

#[derive(Debug)]
pub struct Unsynced(Arc<dyn Storage>);

impl Unsynced {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(disk()))
    }
}

impl Storage for Unsynced {
    fn within(&self, folder: &Arc<Folder>) -> Option<Arc<dyn Storage>> {
        let within = self.0.within(folder)?;
        Some(Arc::new(Self(within)))
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(UnsyncedFile(self.0.create_new(path)?)))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(UnsyncedFile(self.0.open(path, write)?)))
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.publish(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn sync_folder(&self, _folder: &Path) -> io::Result<()> {
        Ok(())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.0.exists(path)
    }
}

#[derive(Debug)]
struct UnsyncedFile(Arc<dyn StorageFile>);

impl StorageFile for UnsyncedFile {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn append_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.append_at(bytes, offset)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.set_length(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        if self.0.length()? < length {
            self.0.set_length(length)?;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn next_data(&self, offset: u64) -> io::Result<Range<u64>> {
        self.0.next_data(offset)
    }

    fn map(&self, offset: u64, length: u64) -> io::Result<Map> {
        self.0.map(offset, length)
    }

    fn as_file(&self) -> Option<&File> {
        self.0.as_file()
    }
}
