//! Where a store lies: its directory, held open, and the names of its files there.
//!
//! A store is its file, not its name. Links are resolved once, the path is absolute from then on, and the directory is
//! reached through its descriptor: neither `chdir` nor renaming the directory separates a store from the files beside
//! it.

use std::ffi::OsString;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::file::side_file::is_suffix;
use crate::sys::storage::Owner;
use crate::sys::{FileId, FileState, Folder};

/// Hardly any store reaches this many generations, whereas a date in the name of an unrelated file is a larger number.
const LIKELY_GENERATIONS: u64 = 1_000_000;

/// The place of one store. Its path is absolute and free of links.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    path: PathBuf,
    folder: Arc<Folder>,
}

impl Deref for Place {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl Place {
    /// Returns the place of an existing file, with all links resolved.
    pub(crate) fn of_existing(path: &Path) -> Result<Self> {
        match path.canonicalize() {
            Ok(resolved) => Self::at(resolved),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::NotFound {
                path: path.to_owned(),
            }),
            Err(error) => Err(Error::io("resolve", path, error)),
        }
    }

    /// Returns the place of a file to be created: its directory exists, and nothing has its name.
    pub(crate) fn of_new(path: &Path) -> Result<Self> {
        refuse_dangling(path)?;
        let folder = folder_of(path);
        let missing = || Error::MissingFolder {
            path: folder.to_owned(),
        };
        if !folder.is_dir() {
            return Err(missing());
        }
        let Some(name) = path.file_name() else {
            return Err(Error::IsFolder {
                path: path.to_owned(),
            });
        };
        match folder.canonicalize() {
            Ok(resolved) => Self::at(resolved.join(name)),
            Err(error) => Err(Error::io("resolve", folder, error)),
        }
    }

    fn at(path: PathBuf) -> Result<Self> {
        let folder = folder_of(&path);
        let opened = Folder::open(folder);
        let opened = opened.map_err(|error| Error::io("open the folder", folder, error))?;
        Ok(Self {
            folder: Arc::new(opened),
            path,
        })
    }

    /// Returns the same place with an owner and mode for new files.
    pub(crate) fn with_owner(&self, owner: Option<Owner>) -> Result<Self> {
        let folder = self.folder.with_owner(owner);
        let folder = folder.map_err(|error| Error::io("open the folder", &self.path, error))?;
        Ok(Self {
            path: self.path.clone(),
            folder: Arc::new(folder),
        })
    }

    pub(crate) fn folder(&self) -> &Arc<Folder> {
        &self.folder
    }

    /// Returns the path of one of the files beside the store.
    pub(crate) fn beside(&self, suffix: &str) -> PathBuf {
        // Programs keep off the names that it lists, and remove what has them.
        debug_assert!(is_suffix(suffix.as_bytes()), "{suffix}");
        beside(&self.path, suffix)
    }

    /// Returns the state of the file that has the store's name now, if any.
    pub(crate) fn state(&self) -> Result<Option<FileState>> {
        self.state_of(&self.path)
    }

    /// Returns the state of the file that has a name in this directory now, if any.
    pub(crate) fn state_of(&self, path: &Path) -> Result<Option<FileState>> {
        let found = self.folder.state(path);
        found.map_err(|error| Error::io("look at", path, error))
    }

    /// Fails with [`Error::Moved`] if the name stands for no file, or for another file than the open one.
    pub(crate) fn expect(&self, path: &Path, id: FileId) -> Result<()> {
        match self.state_of(path)? {
            Some(found) if found.id == id => Ok(()),
            _ => Err(Error::Moved {
                path: path.to_owned(),
            }),
        }
    }

    /// Returns whether a file with a generation number in its name is Everseen's. Ignores an unrelated file whose
    /// number no store reaches.
    ///
    /// # Errors
    /// [`Error::InTheWay`] for an unrelated file whose name the store may need later.
    pub(crate) fn is_ours(&self, path: &Path, number: u64) -> Result<bool> {
        let ours = self.folder.is_ours(path);
        if ours.map_err(|error| Error::io("look at", path, error))? {
            return Ok(true);
        }
        match number < LIKELY_GENERATIONS {
            true => Err(Error::InTheWay {
                path: path.to_owned(),
            }),
            false => Ok(false),
        }
    }

    /// Returns the numbers of all files named `NAME` + `prefix` + number. Names are compared as bytes.
    pub(crate) fn numbers(&self, prefix: &str) -> Result<Vec<u64>> {
        let failed = |error| Error::io("list the folder", self.folder.path(), error);
        let start = beside(Path::new(self.path.file_name().unwrap_or_default()), prefix);
        let start = start.as_os_str().as_encoded_bytes();
        let names = self.folder.names().map_err(failed)?;
        let numbers = names.iter().filter_map(|name| {
            let rest = name.as_encoded_bytes().strip_prefix(start)?;
            // The number has neither a sign nor a leading zero.
            let number = std::str::from_utf8(rest).ok()?.parse::<u64>().ok()?;
            (number.to_string().as_bytes() == rest).then_some(number)
        });
        Ok(numbers.collect())
    }
}

/// Refuses a dangling link: it is no store, and nothing can be created under its name.
pub(crate) fn refuse_dangling(path: &Path) -> Result<()> {
    match path.is_symlink() && matches!(path.try_exists(), Ok(false)) {
        true => Err(Error::DanglingLink {
            path: path.to_owned(),
        }),
        false => Ok(()),
    }
}

/// Returns the path of one of the files beside the store at `path`.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// Returns the directory that contains the file, or is to contain it.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
