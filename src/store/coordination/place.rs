//! Where a store lies: its folder, held open, and its files' names in it.
//!
//! A store is its file, not its name. Links are resolved once, the path is absolute from then on, and the folder
//! is reached through its descriptor: neither `chdir` nor a renamed folder parts a store from the files beside it.

use std::ffi::OsString;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::sys::storage::Owner;
use crate::sys::{FileId, FileState, Folder};

/// So many generations hardly any store comes to; but a date in the name of somebody's own file is a larger number.
const LIKELY_GENERATIONS: u64 = 1_000_000;

/// The place of one store. As a path it is absolute and free of links.
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
    /// The place of a file that exists, at the end of all links.
    pub(crate) fn of_existing(path: &Path) -> Result<Self> {
        match path.canonicalize() {
            Ok(resolved) => Self::at(resolved),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::NotFound {
                path: path.to_owned(),
            }),
            Err(error) => Err(Error::io("resolve", path, error)),
        }
    }

    /// The place of a file that is to be made: in a folder that exists, where nothing has its name.
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

    /// The same place, where new files get this owner and mode.
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

    /// One of the files beside the store.
    pub(crate) fn beside(&self, suffix: &str) -> PathBuf {
        beside(&self.path, suffix)
    }

    /// What has the store's name now, if anything.
    pub(crate) fn state(&self) -> Result<Option<FileState>> {
        self.state_of(&self.path)
    }

    /// What has the name of a file in this folder now, if anything.
    pub(crate) fn state_of(&self, path: &Path) -> Result<Option<FileState>> {
        let found = self.folder.state(path);
        found.map_err(|error| Error::io("look at", path, error))
    }

    /// Refuses to go on if a name stands for another file than the one that is open, or for none.
    pub(crate) fn expect(&self, path: &Path, id: FileId) -> Result<()> {
        match self.state_of(path)? {
            Some(found) if found.id == id => Ok(()),
            _ => Err(Error::Moved {
                path: path.to_owned(),
            }),
        }
    }

    /// Whether a file with the number of a generation in its name is Everseen's. Of a stranger's, a number that no
    /// store comes to is passed by.
    ///
    /// # Errors
    /// [`Error::InTheWay`] for a stranger's file whose name the store may come to need.
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

    /// The numbers of all files `NAME` + `prefix` + number. Names are compared as bytes.
    pub(crate) fn numbers(&self, prefix: &str) -> Result<Vec<u64>> {
        let failed = |error| Error::io("list the folder", self.folder.path(), error);
        let start = beside(Path::new(self.path.file_name().unwrap_or_default()), prefix);
        let start = start.as_os_str().as_encoded_bytes();
        let names = self.folder.names().map_err(failed)?;
        let numbers = names.iter().filter_map(|name| {
            let rest = name.as_encoded_bytes().strip_prefix(start)?;
            // Neither a sign nor a leading zero.
            let number = std::str::from_utf8(rest).ok()?.parse::<u64>().ok()?;
            (number.to_string().as_bytes() == rest).then_some(number)
        });
        Ok(numbers.collect())
    }
}

/// Refuses a link that leads nowhere: it is no store, and nothing can be made under its name.
pub(crate) fn refuse_dangling(path: &Path) -> Result<()> {
    match path.is_symlink() && matches!(path.try_exists(), Ok(false)) {
        true => Err(Error::DanglingLink {
            path: path.to_owned(),
        }),
        false => Ok(()),
    }
}

/// The name of one of the files beside the store at `path`.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// The folder that a file is in, or is to be.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
