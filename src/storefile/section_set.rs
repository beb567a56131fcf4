//! The sections of a view: sets of hashes that are stored exactly (FORMAT.md, "Sections").

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::error::{Error, Result};
use crate::file::section_hashes::{Gone, Hashes, SectionParts};
use crate::file::{FormatError, Section, SectionKind, Superblock};
use crate::storefile::meta::{read_meta_of, section_error};
use crate::sys::lock;
use crate::sys::storage::StorageFile;

/// How often a section is reopened if other handles' checkpoints replace it meanwhile.
const MOST_REOPENS: usize = 1000;

/// The sections of a kind in a view.
///
/// Two checkpoints later their pages may be reused. From then on it asks the newest sections of its kind, whose answer is
/// as good. For exemptions: a key that the newest section lacks was inserted since, and one that it has was not, as far
/// as the pages say.
#[derive(Debug)]
pub(crate) struct SectionReader {
    sections: Vec<Section>,
    /// Damage is an error only if an answer is needed.
    hashes: Result<SectionParts, FormatError>,
    file: Arc<dyn StorageFile>,
    path: PathBuf,
    /// The newest sections of this kind, as of the last time it was needed.
    newer: Mutex<Option<Arc<SectionReader>>>,
}

impl SectionReader {
    /// Returns the sections of a kind that a superblock names; `None` if they have no hashes. `held` are those of an older
    /// view.
    pub(crate) fn of(
        file: &Arc<dyn StorageFile>,
        path: &Path,
        superblock: &Superblock,
        kind: SectionKind,
        held: Option<&Arc<Self>>,
    ) -> Result<Option<Arc<Self>>> {
        let mut sections = named(superblock, kind);
        for _ in 0..MOST_REOPENS {
            if sections.is_empty() {
                return Ok(None);
            }
            if let Some(held) = held.filter(|held| held.is(&sections)) {
                return Ok(Some(Arc::clone(held)));
            }
            let opened = Self::open(file, path, &sections, held)?;
            if opened.hashes.is_ok() {
                return Ok(Some(Arc::new(opened)));
            }
            // A section is damaged, or the superblock was outdated by the time its sections were read.
            let found = named(&read_meta_of(&**file, path)?.superblock, kind);
            if found == sections {
                return Ok(Some(Arc::new(opened)));
            }
            sections = found;
        }
        Err(Error::Busy {
            path: path.to_owned(),
            what: "other handles to make progress",
            process: None,
        })
    }

    /// Opens sections, but for those that are held already.
    fn open(
        file: &Arc<dyn StorageFile>,
        path: &Path,
        sections: &[Section],
        held: Option<&Arc<Self>>,
    ) -> Result<Self> {
        let mut parts = SectionParts(Vec::new());
        let mut fault = None;
        for section in sections {
            if let Some(part) = held.and_then(|held| held.part(section)) {
                parts.0.push(part);
                continue;
            }
            let hashes = Hashes::open(section, &**file);
            match hashes.map_err(|error| section_error(path, error))? {
                Ok(hashes) => parts.0.push(Arc::new(hashes)),
                Err(damaged) => fault = Some(damaged),
            }
        }
        Ok(Self {
            sections: sections.to_vec(),
            hashes: fault.map_or(Ok(parts), Err),
            file: Arc::clone(file),
            path: path.to_owned(),
            newer: Mutex::new(None),
        })
    }

    /// Returns whether these are the given sections, and whole.
    fn is(&self, sections: &[Section]) -> bool {
        let whole = self.hashes.as_ref().is_ok_and(|parts| !parts.is_gone());
        whole && self.sections == sections
    }

    /// Returns the hashes of a section, if it is one of these, and whole.
    fn part(&self, section: &Section) -> Option<Arc<Hashes>> {
        let at = self.sections.iter().position(|own| own == section)?;
        let part = self.hashes.as_ref().ok()?.0.get(at)?;
        (!part.is_gone()).then(|| Arc::clone(part))
    }

    /// Returns whether the sections have the hash; `None` if only [`contains`](Self::contains) can find out.
    #[inline]
    pub(crate) fn try_contains(&self, hash: u64) -> Option<bool> {
        let hashes = self.hashes.as_ref().ok()?;
        hashes.contains(hash).ok()
    }

    /// Returns whether the sections have the hash.
    ///
    /// # Errors
    /// Fails if one of them is damaged or cannot be read.
    pub(crate) fn contains(&self, hash: u64) -> Result<bool> {
        self.query(|hashes| hashes.contains(hash), false)
    }

    /// Queries the sections, or the newest of their kind if their pages were reused. Returns `none` if there is no such
    /// section any more.
    pub(crate) fn query<T: Copy>(
        &self,
        mut question: impl FnMut(&SectionParts) -> Result<T, Gone>,
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
            let kind = self.sections[0].kind;
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
        let counts = self.sections.iter().map(|section| section.count);
        counts.fold(0, u64::saturating_add)
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

/// Returns the sections of a kind that have hashes.
fn named(superblock: &Superblock, kind: SectionKind) -> Vec<Section> {
    let sections = superblock.sections_of(kind).copied();
    sections.filter(|section| section.count > 0).collect()
}
