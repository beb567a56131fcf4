//! The sections of a view: sets of hashes that are stored exactly (FORMAT.md, "Sections").

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::error::{Error, Result};
use crate::file::section_hashes::{Gone, Hashes};
use crate::file::{FormatError, Section, SectionKind, Superblock};
use crate::storefile::meta::{read_meta_of, section_error};
use crate::sys::lock;
use crate::sys::storage::StorageFile;

/// How often a section is reopened if other handles' checkpoints replace it meanwhile.
const MOST_REOPENS: usize = 1000;

/// One section of a view.
///
/// Two checkpoints later its pages may be reused. From then on it asks the newest section of its kind, whose answer is
/// as good. For exemptions: a key that the newest section lacks was inserted since, and one that it has was not, as far
/// as the pages say.
#[derive(Debug)]
pub(crate) struct SectionReader {
    section: Section,
    /// Damage is an error only if an answer is needed.
    hashes: Result<Hashes, FormatError>,
    file: Arc<dyn StorageFile>,
    path: PathBuf,
    /// The newest section of this kind, as of the last time it was needed.
    newer: Mutex<Option<Arc<SectionReader>>>,
}

impl SectionReader {
    /// Returns the section that a superblock names; `None` if it has no hashes. `held` is that of an older view.
    pub(crate) fn of(
        file: &Arc<dyn StorageFile>,
        path: &Path,
        superblock: &Superblock,
        kind: SectionKind,
        held: Option<&Arc<Self>>,
    ) -> Result<Option<Arc<Self>>> {
        let mut section = named(superblock, kind);
        for _ in 0..MOST_REOPENS {
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
            // The section is damaged, or the superblock was outdated by the time its section was read.
            section = named(&read_meta_of(&**file, path)?.superblock, kind);
            if section == Some(found) {
                return Ok(Some(Arc::new(opened)));
            }
        }
        Err(Error::Busy {
            path: path.to_owned(),
            what: "other handles to make progress",
            process: None,
        })
    }

    fn open(file: &Arc<dyn StorageFile>, path: &Path, section: Section) -> Result<Self> {
        let hashes = Hashes::open(&section, &**file);
        Ok(Self {
            section,
            hashes: hashes.map_err(|error| section_error(path, error))?,
            file: Arc::clone(file),
            path: path.to_owned(),
            newer: Mutex::new(None),
        })
    }

    /// Returns whether this is the given section, and whole.
    fn is(&self, section: &Section) -> bool {
        let whole = self.hashes.as_ref().is_ok_and(|hashes| !hashes.is_gone());
        whole && self.section == *section
    }

    /// Returns whether the section has the hash; `None` if only [`contains`](Self::contains) can find out.
    #[inline]
    pub(crate) fn try_contains(&self, hash: u64) -> Option<bool> {
        let hashes = self.hashes.as_ref().ok()?;
        hashes.contains(hash).ok()
    }

    /// Returns whether the section has the hash.
    ///
    /// # Errors
    /// Fails if the section is damaged or cannot be read.
    pub(crate) fn contains(&self, hash: u64) -> Result<bool> {
        self.query(|hashes| hashes.contains(hash), false)
    }

    /// Queries the section, or the newest of its kind if its pages were reused. Returns `none` if there is no such
    /// section any more.
    pub(crate) fn query<T: Copy>(
        &self,
        mut question: impl FnMut(&Hashes) -> Result<T, Gone>,
        none: T,
    ) -> Result<T> {
        let mut ask = |reader: &Self| match &reader.hashes {
            Ok(hashes) => Ok(question(hashes).ok()),
            Err(source) => Err(Error::Format {
                path: reader.path.clone(),
                source: source.clone(),
            }),
        };
        if let Some(answer) = ask(self)? {
            return Ok(answer);
        }
        let mut newer = lock(&self.newer);
        loop {
            if let Some(reader) = &*newer
                && let Some(answer) = ask(reader)?
            {
                return Ok(answer);
            }
            let superblock = read_meta_of(&*self.file, &self.path)?.superblock;
            let kind = self.section.kind;
            *newer = Self::of(&self.file, &self.path, &superblock, kind, None)?;
            if newer.is_none() {
                return Ok(none);
            }
        }
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.hashes.is_err()
    }

    pub(crate) fn count(&self) -> u64 {
        self.section.count
    }
}

/// All sections of a view.
#[derive(Debug, Default)]
pub(crate) struct SectionSet {
    /// Keys that are absent, whatever the layers say.
    pub(crate) exempt: Option<Arc<SectionReader>>,
    /// The sampled keys of the pages, and the sampled keys among the lost ones. `None` if empty.
    pub(crate) sample: Option<Arc<SectionReader>>,
    pub(crate) lost: Option<Arc<SectionReader>>,
}

impl SectionSet {
    pub(crate) fn of(
        file: &Arc<dyn StorageFile>,
        path: &Path,
        superblock: &Superblock,
        held: Option<&Self>,
    ) -> Result<Self> {
        let of = |kind, held: Option<&Arc<SectionReader>>| {
            SectionReader::of(file, path, superblock, kind, held)
        };
        let held = |which: fn(&Self) -> &Option<Arc<SectionReader>>| {
            held.and_then(|held| which(held).as_ref())
        };
        Ok(Self {
            exempt: of(SectionKind::Exempt, held(|held| &held.exempt))?,
            sample: of(SectionKind::Sample, held(|held| &held.sample))?,
            lost: of(SectionKind::Lost, held(|held| &held.lost))?,
        })
    }
}

fn named(superblock: &Superblock, kind: SectionKind) -> Option<Section> {
    let section = superblock.section(kind).copied();
    section.filter(|section| section.count > 0)
}
