//! A folder for the files that are measured, removed in the end.

use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The folder.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
}

impl Scratch {
    /// Makes one in `parent`, else where the system has its temporary files.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(parent: Option<&Path>) -> io::Result<Self> {
        let folder = match parent {
            Some(parent) => tempfile::tempdir_in(parent)?,
            None => tempfile::tempdir()?,
        };
        Ok(Self { folder })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Removes all files in it.
    ///
    /// # Errors
    /// What the system says.
    pub fn clear(&self) -> io::Result<()> {
        for entry in std::fs::read_dir(self.path())? {
            std::fs::remove_file(entry?.path())?;
        }
        Ok(())
    }
}
