//! The folder of a store, held open: names in it stay valid when the folder is renamed or the process changes its
//! working directory.
//!
//! Side files are opened through it. Nothing that a stranger put under their names is followed, waited for or removed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

#[cfg_attr(not(everseen_portable), path = "folder_linux.rs")]
#[cfg_attr(everseen_portable, path = "folder_other.rs")]
mod system;

/// Every file of Everseen begins with one of these or is still blank (FORMAT.md, "Files").
const KNOWN_MAGICS: [&[u8]; 5] = [
    b"EVERSEEN",
    b"EVERSLOG",
    b"EVERDELT",
    b"EVERSHM",
    b"EVERBUF",
];

/// Shared memory repeats its magic in this word: the first may be damaged.
pub(crate) const SECOND_MAGIC: usize = 63;

/// A file counts as blank if it begins with this many zeros, or is shorter and all zeros. A power cut can lose the
/// first page of a file and keep later ones.
const BLANK_BYTES: usize = 4096;

/// The identity of the file behind a name or a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId {
    /// The number of the file system.
    pub device: u64,
    /// The file's number in it.
    pub inode: u64,
}

/// The owner and permissions of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Permission bits.
    pub mode: u32,
    /// The user's number.
    pub user: u32,
    /// The group's number.
    pub group: u32,
}

/// What the system reports about a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileState {
    pub(crate) id: FileId,
    pub(crate) owner: Owner,
    /// The number of names it has.
    pub(crate) links: u64,
}

/// The path does not name a regular file, but a link, a pipe or a device.
#[derive(Debug)]
pub(crate) struct NotAFile;

/// Everseen did not create what the path names.
#[derive(Debug)]
pub(crate) struct NotOurs;

impl std::fmt::Display for NotAFile {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("not a regular file")
    }
}

impl std::fmt::Display for NotOurs {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("not a file of Everseen's")
    }
}

impl std::error::Error for NotAFile {}
impl std::error::Error for NotOurs {}

fn not_a_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, NotAFile)
}

fn not_ours() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, NotOurs)
}

/// An open folder.
///
/// Its methods take the paths of files directly in it, as they were when the folder was opened.
#[derive(Debug)]
pub struct Folder {
    dir: system::Dir,
    path: PathBuf,
    /// The owner of new files; the process's own defaults if `None`.
    owner: Option<Owner>,
}

impl Folder {
    /// Opens a folder. `path` should be absolute.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            dir: system::open_folder(path)?,
            path: path.to_owned(),
            owner: None,
        })
    }

    /// Returns the same folder with another owner and mode for new files.
    pub(crate) fn with_owner(&self, owner: Option<Owner>) -> io::Result<Self> {
        Ok(Self {
            dir: system::clone(&self.dir)?,
            path: self.path.clone(),
            owner,
        })
    }

    /// Returns the path by which it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether a path names a file directly in this folder.
    #[must_use]
    pub fn holds(&self, path: &Path) -> bool {
        path.parent() == Some(&self.path) && path.file_name().is_some()
    }

    fn name<'a>(&self, path: &'a Path) -> io::Result<&'a OsStr> {
        match path.file_name() {
            Some(name) if self.holds(path) => Ok(name),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Creates a new file, open for reading and writing, with the owner and the mode that files of this folder get.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::AlreadyExists`] if anything has that name.
    pub fn create(&self, path: &Path) -> io::Result<File> {
        let name = self.name(path)?;
        let file = system::create(&self.dir, name, self.owner.is_some())?;
        if let Some(owner) = self.owner
            && let Err(error) = system::set_owner(&file, owner)
        {
            let _ = system::remove(&self.dir, name);
            return Err(error);
        }
        Ok(file)
    }

    /// Opens a regular file. Does not follow links or wait for a pipe.
    pub fn open_file(&self, path: &Path, write: bool) -> io::Result<File> {
        regular(system::open(&self.dir, self.name(path)?, write)?)
    }

    /// Returns the bytes that may still be written in it, or `None` if the system can't say.
    pub(crate) fn room(&self) -> Option<u64> {
        system::room(&self.dir).ok()
    }

    /// Returns the state of what a path names without following links, or `None` if nothing is there.
    pub(crate) fn state(&self, path: &Path) -> io::Result<Option<FileState>> {
        match system::state_at(&self.dir, self.name(path)?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    /// Returns whether something has this name, even a dangling link.
    pub fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.state(path)?.is_some())
    }

    /// Returns whether a path may name a file of Everseen's: a regular file that is empty or blank, or begins as its
    /// files do.
    pub(crate) fn is_ours(&self, path: &Path) -> io::Result<bool> {
        match self.open_file(path, false) {
            Ok(file) => is_ours(&file),
            Err(error) if error.get_ref().is_some_and(|inner| inner.is::<NotAFile>()) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => Ok(false),
            // A file that this process may not read was not created by it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes a file of Everseen's.
    ///
    /// # Errors
    /// Returns an error that holds `NotOurs` if the file is not Everseen's.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        if !self.is_ours(path)? {
            return Err(not_ours());
        }
        system::remove(&self.dir, self.name(path)?)
    }

    /// Renames a file of Everseen's, replacing a file under the other name if that is Everseen's too.
    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        // A missing file ends it: the rename would move a file that appeared a moment later, unchecked.
        if !self.is_ours(from)? || (self.exists(to)? && !self.is_ours(to)?) {
            return Err(not_ours());
        }
        system::rename(&self.dir, self.name(from)?, self.name(to)?)
    }

    /// Gives a file another name, unless something has that name.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::AlreadyExists`] if something has it.
    pub fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        system::publish(&self.dir, self.name(from)?, self.name(to)?)
    }

    /// Returns the names in the folder.
    pub(crate) fn names(&self) -> io::Result<Vec<OsString>> {
        system::names(&self.dir, &self.path)
    }

    /// Makes the names in the folder durable.
    pub fn sync(&self) -> io::Result<()> {
        system::sync(&self.dir)
    }
}

/// Opens a regular file at any path, following links. Does not wait for a pipe.
pub(super) fn open_path(path: &Path, write: bool) -> io::Result<File> {
    regular(system::open_path(path, write)?)
}

fn regular(file: File) -> io::Result<File> {
    match file.metadata()?.file_type() {
        kind if kind.is_file() => Ok(file),
        kind if kind.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(not_a_file()),
    }
}

fn is_ours(file: &File) -> io::Result<bool> {
    let mut first = Vec::with_capacity(BLANK_BYTES);
    let mut limited = io::Read::take(file, BLANK_BYTES as u64);
    io::Read::read_to_end(&mut limited, &mut first)?;
    let second = first.get(SECOND_MAGIC * 8..).unwrap_or_default();
    let is_ours = |bytes: &[u8]| KNOWN_MAGICS.iter().any(|magic| bytes.starts_with(magic));
    Ok(is_ours(&first) || is_ours(second) || is_barely_begun(&first))
}

/// Returns whether a file is blank but for the first bytes of a magic, if those: a process can die within its first
/// write. A short file that has such bytes is somebody's text: logs are given their length before they are written.
fn is_barely_begun(first: &[u8]) -> bool {
    let written = first.iter().rposition(|byte| *byte != 0);
    let written = &first[..written.map_or(0, |last| last + 1)];
    let begins = |magic: &&[u8]| magic.starts_with(written);
    written.is_empty() || (first.len() == BLANK_BYTES && KNOWN_MAGICS.iter().any(begins))
}

/// Returns what the system reports about an open file.
pub(crate) fn state_of(file: &File) -> io::Result<FileState> {
    system::state_of(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &[u8] = b"EVERSLOG";

    #[test]
    fn a_file_whose_magic_is_half_written_is_ours_and_a_text_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store-log.3");
        let is_ours = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            is_ours(&File::open(&path).unwrap()).unwrap()
        };
        for written in 0..=LOG.len() {
            let mut bytes = vec![0; 2 * BLANK_BYTES];
            bytes[..written].copy_from_slice(&LOG[..written]);
            assert!(is_ours(&bytes), "{written} bytes");
            let is_whole = written == 0 || written == LOG.len();
            assert_eq!(is_ours(&LOG[..written]), is_whole, "{written} bytes alone");
            bytes[written] = b'!';
            assert_eq!(is_ours(&bytes), written == LOG.len(), "{written} bytes");
        }
    }
}
