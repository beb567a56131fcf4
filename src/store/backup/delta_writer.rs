//! Writing what has changed in a store since a copy of it was made.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::file::copy::{Moment, PAGE_HEADER, digest_of, superblocks_of};
use crate::file::delta::{Content, DeltaHeader, HEADER_BYTES, superblock_bytes, to_record};
use crate::file::{DeltaError, Layer, Superblock};
use crate::page::PAGE_BYTES;
use crate::store::api::store::Store;
use crate::store::backup::snapshot::Progress;
use crate::store::backup::snapshot::Watched;
use crate::store::config::options::Options;
use crate::store::engine::Engine;
use crate::store::storefile::atomic_file::{COPY, Draft};
use crate::store::storefile::meta::{Identity, identify, read_mark};
use crate::store::storefile::page_scan::{self as walk, Pages, numbers};
use crate::sys::storage::{StorageFile, write_all_at};

/// What a [delta](Store::snapshot_since) is.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeltaReport {
    /// The generation of the copy that it leads on from.
    pub from: u64,
    /// The generation that it leads to.
    pub to: u64,
    /// Pages in it: those that changed.
    pub pages: u64,
    /// Its length in bytes: 4096 for each page (those of sections that changed besides), 112, and a superblock without what fills its last page (384, and 16
    /// or more for each writer, with the tag, and 64 for each further layer).
    pub bytes: u64,
}

impl Store {
    /// Writes what has changed since the copy `previous` was made to a new file `dest`, a delta, which
    /// [`Options::apply`] lays on that copy, or on another one of the same moment, wherever it is.
    ///
    /// `previous` is a [snapshot](Self::snapshot), or one brought up to date by deltas, that was not written to as a
    /// store of its own; it is read alone. The headers of all pages of both are read to find those that differ, and
    /// checkpoints wait meanwhile; the pages that go into the delta are checked. What the store holds at the moment of the
    /// delta is what [`snapshot`](Self::snapshot) promises.
    ///
    /// # Errors
    /// As [`snapshot`](Self::snapshot); [`Error::Delta`](crate::Error::Delta) if `previous` can't be the base of one.
    pub fn snapshot_since(
        &self,
        dest: impl AsRef<Path>,
        previous: impl AsRef<Path>,
    ) -> Result<DeltaReport> {
        self.snapshot_since_watched(dest, previous, |_| ControlFlow::Continue(()))
    }

    /// As [`snapshot_since`](Self::snapshot_since), and tells from time to time how far it is. `watch` may end it early.
    ///
    /// # Errors
    /// As [`snapshot_since`](Self::snapshot_since); [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn snapshot_since_watched(
        &self,
        dest: impl AsRef<Path>,
        previous: impl AsRef<Path>,
        mut watch: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<DeltaReport> {
        let (dest, previous) = (dest.as_ref(), previous.as_ref());
        self.engine.delta(dest, previous, &mut watch)
    }
}

/// A copy that nobody has written to.
pub(crate) struct Copy<'a> {
    pub(crate) path: &'a Path,
    pub(crate) file: Arc<dyn StorageFile>,
    pub(crate) identity: Identity,
    pub(crate) moment: Moment,
}

impl<'a> Copy<'a> {
    fn open(options: &Options, path: &'a Path) -> Result<Self> {
        crate::store::open::handle::check_exists(options, path)
            .map_err(missing(DeltaError::MissingCopy))?;
        let (file, identity) = identify(options, path, false)?;
        let mark = read_mark(&*file, path, &identity.header)?;
        let Some(mark) = mark else {
            return Err(delta_error(path, DeltaError::NotACopy));
        };
        if !mark.fits(&identity.superblock) {
            return Err(delta_error(
                path,
                DeltaError::Written {
                    expected: mark.sequence,
                    got: identity.superblock.sequence,
                },
            ));
        }
        Ok(Self {
            path,
            file,
            identity,
            moment: mark.moment,
        })
    }
}

/// Has a file that is missing told as what it was to be.
pub(crate) fn missing(source: DeltaError) -> impl FnOnce(Error) -> Error {
    |error| match error {
        Error::NotFound { path } => Error::Delta { path, source },
        other => other,
    }
}

pub(crate) fn delta_error(path: &Path, source: DeltaError) -> Error {
    Error::Delta {
        path: path.to_owned(),
        source,
    }
}

/// Refuses a copy with a layer that the newer superblock does not have in the same place.
pub(crate) fn check_layers(old: &[Layer], new: &[Layer]) -> Result<(), DeltaError> {
    let same = |old: &Layer, new: &Layer| {
        (old.first_page, old.pages, old.probes) == (new.first_page, new.pages, new.probes)
    };
    for (index, layer) in (0..).zip(old) {
        if !new.get(index as usize).is_some_and(|new| same(layer, new)) {
            return Err(DeltaError::Layers { layer: index });
        }
    }
    Ok(())
}

impl Engine {
    fn delta(
        &self,
        dest: &Path,
        previous: &Path,
        watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<DeltaReport> {
        self.handle.check_writable()?;
        let copy = Copy::open(&self.options, previous)?;
        let of_copy = |source| delta_error(previous, source);
        let ids = (self.file.header.store_id, copy.identity.header.store_id);
        if !copy.identity.header.is_same_store(&self.file.header) {
            return Err(of_copy(DeltaError::WrongStore {
                expected: ids.0,
                got: ids.1,
            }));
        }
        let draft = Draft::begin(&self.options, dest, COPY, self.file.owner()?)?;
        let still = self.hold_still()?;
        let [_, superblock] = superblocks_of(&still.identity.superblock);
        if copy.moment.generation > superblock.generation {
            return Err(of_copy(DeltaError::Newer {
                expected: superblock.generation,
                got: copy.moment.generation,
            }));
        }
        check_layers(&copy.identity.superblock.layers, &superblock.layers).map_err(of_copy)?;
        let header = self.write_changes(&draft, &copy, &superblock, watch)?;
        drop(still);
        let bytes = header.encode();
        write_all_at(&*draft.file, &bytes, 0).map_err(|error| draft.failed(error))?;
        draft.publish()?;
        Ok(DeltaReport {
            from: header.from.generation,
            to: header.to.generation,
            pages: header.pages,
            bytes: header.length(),
        })
    }

    /// Writes all of a delta but its header, which comes last.
    fn write_changes(
        &self,
        draft: &Draft,
        copy: &Copy<'_>,
        superblock: &Superblock,
        watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<DeltaHeader> {
        let held = &copy.identity.superblock.layers;
        let total = walk::count(&superblock.layers).saturating_mul(PAGE_BYTES as u64);
        let mut watched = Watched::new(watch, total);
        watched.at(0)?;
        let mut out = Writer::new(draft);
        out.put(&superblock_bytes(superblock, &self.file.header))?;
        let superblock_length = (out.at + out.pending.len() as u64 - HEADER_BYTES as u64) as u32;
        let cell = self.file.header.kind.cell();
        let mut new = Pages::new(&*self.file.raw, &self.file.place);
        let mut old = Pages::new(&*copy.file, copy.path);
        let (mut count, mut from, mut to) = (0, 0_u64, 0_u64);
        for (index, layer, number) in numbers(&superblock.layers) {
            let page = new.page(number, layer.end_page())?;
            let before = match held.get(index as usize) {
                Some(held) => &old.page(number, held.end_page())?[..PAGE_HEADER],
                None => &[0; PAGE_HEADER],
            };
            from = from.wrapping_add(digest_of(number, before));
            to = to.wrapping_add(digest_of(number, page));
            if page[..PAGE_HEADER] != *before {
                walk::check(&self.file.place, cell, index, layer, number, page)?;
                out.put_page(number, page)?;
                count += 1;
            }
            watched.page()?;
        }
        let (mut section_pages, mut sections) = (0, 0);
        for (index, section) in superblock.sections.iter().enumerate() {
            if copy.identity.superblock.sections.contains(section) {
                continue;
            }
            walk::check_sections(&*self.file.raw, &self.file.place, [section])?;
            let numbers = section.numbers();
            for number in numbers.clone() {
                out.put(new.page(number, numbers.end)?)?;
            }
            section_pages += section.pages();
            sections |= 1 << index;
        }
        if from != copy.moment.digest {
            return Err(delta_error(
                copy.path,
                DeltaError::WrongContent {
                    expected: copy.moment.digest,
                    got: from,
                },
            ));
        }
        let header = DeltaHeader {
            superblock_length,
            store_id: self.file.header.store_id,
            from: copy.moment,
            to: Moment {
                generation: superblock.generation,
                digest: to,
            },
            pages: count,
            section_pages,
            sections,
        };
        out.end(&header)?;
        Ok(header)
    }
}

/// Writes what follows a delta's header.
struct Writer<'a> {
    draft: &'a Draft,
    content: Content,
    /// Where the bytes begin that are still to be written.
    at: u64,
    pending: Vec<u8>,
}

impl<'a> Writer<'a> {
    fn new(draft: &'a Draft) -> Self {
        Self {
            draft,
            content: Content::default(),
            at: HEADER_BYTES as u64,
            pending: Vec::new(),
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.content.update(bytes);
        self.pending.extend_from_slice(bytes);
        match self.pending.len() < walk::PIECE as usize * PAGE_BYTES {
            true => Ok(()),
            false => self.flush(),
        }
    }

    fn put_page(&mut self, number: u64, page: &[u8]) -> Result<()> {
        let mut record = [0; PAGE_BYTES];
        record.copy_from_slice(page);
        to_record(number, &mut record);
        self.put(&record)
    }

    fn flush(&mut self) -> Result<()> {
        write_all_at(&*self.draft.file, &self.pending, self.at)
            .map_err(|error| self.draft.failed(error))?;
        self.at += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    fn end(mut self, header: &DeltaHeader) -> Result<()> {
        let end = header.encode_end(std::mem::take(&mut self.content));
        self.pending.extend_from_slice(&end);
        self.flush()
    }
}
