//! The disk without its waits, and with room for so much and no more.

use std::io;
use std::path::Path;
use std::sync::Arc;

use everseen::testing::Map;
use everseen::testing::storage::{Storage, StorageFile, disk};

/// No file may be longer: numbers that a fuzzer forges ask for layers of any size.
const ROOM: u64 = 1 << 28;

#[derive(Debug)]
pub struct SmallDisk(Arc<dyn Storage>);

impl SmallDisk {
    pub fn shared() -> Arc<dyn Storage> {
        Arc::new(Self(disk()))
    }
}

impl Storage for SmallDisk {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(SmallFile(self.0.create_new(path)?)))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(SmallFile(self.0.open(path, write)?)))
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
struct SmallFile(Arc<dyn StorageFile>);

impl StorageFile for SmallFile {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        if length > ROOM {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.set_length(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        match self.0.length()? < length {
            true => self.set_length(length),
            false => Ok(()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn map(&self, offset: u64, length: u64) -> io::Result<Map> {
        self.0.map(offset, length)
    }
}
