//! A store's files, in memory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::support::files::names;

/// The name of the store file in each image.
pub const STORE: &str = "store";
const BLOCK: usize = 4096;

/// Store file and logs by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image(pub BTreeMap<String, Vec<u8>>);

impl Image {
    /// The files of the store at `path` as they lie there: what `kill -9` leaves.
    pub fn take(path: &Path) -> Self {
        let folder = path.parent().unwrap();
        let read = |name: String| {
            let bytes = fs::read(folder.join(&name)).unwrap();
            (name, bytes)
        };
        Self(names(path).into_iter().map(read).collect())
    }

    pub fn store(&self) -> &[u8] {
        &self.0[STORE]
    }

    /// The log of a generation.
    pub fn log(&self, generation: u64) -> Option<&[u8]> {
        self.0.get(&log_name(generation)).map(Vec::as_slice)
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.0.values().map(|bytes| bytes.len() as u64).sum()
    }

    /// Writes the files into an empty folder; blocks of zeros take no room.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        for (name, bytes) in &self.0 {
            let file = File::create_new(folder.join(name))?;
            file.set_len(bytes.len() as u64)?;
            for (index, block) in bytes.chunks(BLOCK).enumerate() {
                if block.iter().any(|byte| *byte != 0) {
                    file.write_all_at(block, (index * BLOCK) as u64)?;
                }
            }
        }
        Ok(())
    }
}

pub fn log_name(generation: u64) -> String {
    format!("{STORE}-log.{generation}")
}

/// Removes everything in a folder.
pub fn clear(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
}
