//! What is exempt: keys that are not there, whatever the pages say (FORMAT.md, "Sections").

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::identity::read_identity;
use crate::error::{Error, Result};
use crate::file::section::{Gone, Hashes};
use crate::file::{FormatError, Section, SectionKind, Superblock};
use crate::sys::lock;
use crate::sys::storage::StorageFile;

/// How often a section is opened again that checkpoints of others have replaced meanwhile.
const ROUNDS: usize = 1000;

/// A section of exemptions, as a view holds it.
///
/// Who looks into it with a view that others have left behind by two checkpoints may find its pages
/// used for something else. The newest section answers then, which is as good: a key that it does not
/// have was inserted since; and one that it has was not, as far as the pages tell.
#[derive(Debug)]
pub(crate) struct Exempt {
    section: Section,
    /// Damage is told to who needs an answer.
    hashes: Result<Hashes, FormatError>,
    file: Arc<dyn StorageFile>,
    path: PathBuf,
    /// The newest one when it was needed last.
    newer: Mutex<Option<Arc<Exempt>>>,
}

impl Exempt {
    /// That of a superblock; `held` is the one of an older view.
    pub(crate) fn of(
        file: &Arc<dyn StorageFile>,
        path: &Path,
        superblock: &Superblock,
        held: Option<&Arc<Self>>,
    ) -> Result<Option<Arc<Self>>> {
        let mut section = superblock.section(SectionKind::Exempt).copied();
        for _ in 0..ROUNDS {
            let Some(found) = section else {
                return Ok(None);
            };
            if let Some(held) = held.filter(|held| held.is(&found)) {
                return Ok(Some(Arc::clone(held)));
            }
            let opened = Self::open(file, path, found)?;
            if opened.hashes.is_ok() {
                return Ok(Some(Arc::new(opened)));
            }
            // Damaged, or the superblock was an old one by the time its section was read.
            section = newest(file, path)?;
            if section == Some(found) {
                return Ok(Some(Arc::new(opened)));
            }
        }
        Err(Error::Busy {
            path: path.to_owned(),
            what: "other handles to go on",
            process: None,
        })
    }

    fn open(file: &Arc<dyn StorageFile>, path: &Path, section: Section) -> Result<Self> {
        let hashes = Hashes::open(&section, &**file);
        Ok(Self {
            section,
            hashes: hashes.map_err(|error| failed(path, error))?,
            file: Arc::clone(file),
            path: path.to_owned(),
            newer: Mutex::new(None),
        })
    }

    /// Whether it is this section, and whole.
    fn is(&self, section: &Section) -> bool {
        let whole = self.hashes.as_ref().is_ok_and(|hashes| !hashes.is_gone());
        whole && self.section == *section
    }

    /// Whether the key is exempt; `None` if this one can't tell: then [`has`](Self::has) can.
    #[inline]
    pub(crate) fn tells(&self, hash: u64) -> Option<bool> {
        let hashes = self.hashes.as_ref().ok()?;
        hashes.contains(hash).ok()
    }

    /// Whether the key is exempt.
    ///
    /// # Errors
    /// A damaged section, or one that can't be read.
    pub(crate) fn has(&self, hash: u64) -> Result<bool> {
        self.ask(|hashes| hashes.contains(hash), false)
    }

    /// Asks the section; `none` is the answer of one that is gone, with none in its place.
    pub(crate) fn ask<T: Copy>(
        &self,
        mut question: impl FnMut(&Hashes) -> Result<T, Gone>,
        none: T,
    ) -> Result<T> {
        let mut ask = |exempt: &Self| match &exempt.hashes {
            Ok(hashes) => Ok(question(hashes).ok()),
            Err(source) => Err(Error::Format {
                path: exempt.path.clone(),
                source: source.clone(),
            }),
        };
        if let Some(answer) = ask(self)? {
            return Ok(answer);
        }
        let mut newer = lock(&self.newer);
        loop {
            if let Some(exempt) = &*newer
                && let Some(answer) = ask(exempt)?
            {
                return Ok(answer);
            }
            let superblock = read_identity(&*self.file, &self.path)?.superblock;
            *newer = Self::of(&self.file, &self.path, &superblock, None)?;
            if newer.is_none() {
                return Ok(none);
            }
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.section.count
    }
}

/// The exemptions that the newest superblock names.
fn newest(file: &Arc<dyn StorageFile>, path: &Path) -> Result<Option<Section>> {
    let superblock = read_identity(&**file, path)?.superblock;
    Ok(superblock.section(SectionKind::Exempt).copied())
}

pub(crate) fn failed(path: &Path, error: std::io::Error) -> Error {
    Error::io("read a section of", path, error)
}
