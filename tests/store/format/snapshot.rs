//! What a process that is killed leaves: copies of all files, taken between two writes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use everseen::testing::Map;
use everseen::testing::storage::{Storage, StorageFile, disk};

/// Copies a store with its logs to another folder, and answers its path there.
pub(crate) fn copy(store: &Path, folder: &Path) -> PathBuf {
    let name = store.file_name().unwrap().to_str().unwrap();
    for entry in std::fs::read_dir(store.parent().unwrap()).unwrap() {
        let entry = entry.unwrap();
        let other = entry.file_name().into_string().unwrap();
        if other == name || other.starts_with(&format!("{name}-log.")) {
            std::fs::copy(entry.path(), folder.join(other)).unwrap();
        }
    }
    folder.join(name)
}

/// The disk, with a copy taken in the midst of the `nth` write of pages: its first half is there,
/// its second is not. Syncs are left out: nothing here loses power.
#[derive(Debug)]
pub(crate) struct Interrupted {
    store: PathBuf,
    copies: PathBuf,
    left: Arc<Mutex<u32>>,
}

impl Interrupted {
    pub(crate) fn new(store: &Path, copies: &Path, nth: u32) -> Arc<Self> {
        Arc::new(Self {
            store: store.to_owned(),
            copies: copies.to_owned(),
            left: Arc::new(Mutex::new(nth)),
        })
    }

    /// Whether the copy has been taken.
    pub(crate) fn is_done(&self) -> bool {
        *self.left.lock().unwrap() == 0
    }

    fn wrap(&self, file: Arc<dyn StorageFile>, path: &Path) -> Arc<dyn StorageFile> {
        let pages = path == self.store;
        Arc::new(File {
            file,
            pages: pages.then(|| {
                (
                    self.store.clone(),
                    self.copies.clone(),
                    Arc::clone(&self.left),
                )
            }),
        })
    }
}

impl Storage for Interrupted {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        disk().create_new(path).map(|file| self.wrap(file, path))
    }
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn StorageFile>> {
        disk().open(path, write).map(|file| self.wrap(file, path))
    }
    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        disk().publish(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        disk().remove(path)
    }
    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        disk().exists(path)
    }
}

#[derive(Debug)]
struct File {
    file: Arc<dyn StorageFile>,
    pages: Option<(PathBuf, PathBuf, Arc<Mutex<u32>>)>,
}

impl File {
    fn write_whole(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = self.file.write_at(bytes, offset)?;
            bytes = &bytes[written..];
            offset += written as u64;
        }
        Ok(())
    }
}

impl StorageFile for File {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(bytes, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if offset >= 131_072
            && let Some((store, copies, left)) = &self.pages
        {
            let mut left = left.lock().unwrap();
            if *left == 1 {
                // Half of it, and of the last page of that half the first sectors alone.
                let half = bytes.len() / 2 / 4096 * 4096 + 2048;
                self.write_whole(&bytes[..half], offset)?;
                copy(store, copies);
            }
            *left = left.saturating_sub(1);
        }
        self.write_whole(bytes, offset)?;
        Ok(bytes.len())
    }
    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_length(length)
    }
    fn allocate(&self, length: u64) -> io::Result<()> {
        self.file.allocate(length)
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn map(&self, offset: u64, length: u64) -> io::Result<Map> {
        self.file.map(offset, length)
    }
}
