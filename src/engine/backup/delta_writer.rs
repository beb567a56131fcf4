//! Writes what has changed in a store since a copy of it was taken.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use crate::config::options::Options;
use crate::engine::Engine;
use crate::engine::backup::changed_segments::ChangedSegments;
use crate::engine::backup::delta_output::{Changes, DeltaOutput};
use crate::engine::backup::held_still::{HeldStill, check_copyable};
use crate::error::{Error, Result};
use crate::file::copy::{Moment, PAGE_HEADER, digest_of, superblocks_of};
use crate::file::delta::{DELTA_HEADER_BYTES, DeltaHeader, superblock_bytes};
use crate::file::{DeltaError, Layer, Superblock};
use crate::fingerprint::segment_reader::SegmentReader;
use crate::page::PAGE_BYTES;
use crate::page::space::Space;
use crate::storefile::atomic_file::{AtomicFile, DELTA};
use crate::storefile::meta::{Meta, identify, read_mark};
use crate::storefile::page_scan::{self, PagePlace, Pages, places};
use crate::storefile::progress::{Progress, Watched};
use crate::storefile::section_check::check_sections;
use crate::storefile::store_file::StoreFile;
use crate::sys::storage::{StorageFile, write_all_at};

/// The result of writing a [delta](crate::Store::snapshot_since).
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeltaReport {
    /// The generation of the copy that it starts from.
    pub from: u64,
    /// The generation that it leads to.
    pub to: u64,
    /// Pages in it, which are those that changed; of a store of kind fingerprint, the pages of the directory and of the
    /// segments that changed.
    pub pages: u64,
    /// Its length in bytes: 4096 for each page (including the pages of changed sections), 112, and a superblock without
    /// the padding of its last page (384, and 16 or more for each writer, with the tag, and 64 for each further layer).
    pub bytes: u64,
}

/// A copy that nothing has written to.
pub(crate) struct Copy<'a> {
    pub(crate) path: &'a Path,
    pub(crate) file: Arc<dyn StorageFile>,
    pub(crate) meta: Meta,
    pub(crate) moment: Moment,
}

impl<'a> Copy<'a> {
    fn open(options: &Options, path: &'a Path) -> Result<Self> {
        crate::engine::open::handle::check_exists(options, path)
            .map_err(missing(DeltaError::MissingCopy))?;
        let (file, meta) = identify(options, path, false)?;
        let mark = read_mark(&*file, path, &meta.header)?;
        let Some(mark) = mark else {
            return Err(delta_error(path, DeltaError::NotACopy));
        };
        if !mark.fits(&meta.superblock) {
            return Err(delta_error(
                path,
                DeltaError::Written {
                    expected: mark.sequence,
                    got: meta.superblock.sequence,
                },
            ));
        }
        Ok(Self {
            path,
            file,
            meta,
            moment: mark.moment,
        })
    }

    fn segments(&self, space: Space) -> Result<SegmentReader<'_>> {
        let bound = (space, self.meta.header.binding());
        SegmentReader::open(&*self.file, self.path, &self.meta.superblock, bound)
    }
}

/// Reports a missing file by the role that it was to have.
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

/// Writes to `dest` what has changed since the copy `previous` was taken.
pub(crate) fn write_delta(
    engine: &Engine,
    dest: &Path,
    previous: &Path,
    watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<DeltaReport> {
    let (options, file) = (&engine.options, &*engine.file);
    check_copyable(engine)?;
    let copy = Copy::open(options, previous)?;
    let of_copy = |source| delta_error(previous, source);
    let ids = (file.header.store_id, copy.meta.header.store_id);
    if !copy.meta.header.is_same_store(&file.header) {
        return Err(of_copy(DeltaError::WrongStore {
            expected: ids.0,
            got: ids.1,
        }));
    }
    let draft = AtomicFile::begin(options, dest, DELTA, file.owner()?)?;
    let held = HeldStill::of(engine)?;
    held.expect_no_keys_in_logs(engine)?;
    let [_, superblock] = superblocks_of(&held.meta().superblock);
    if copy.moment.generation > superblock.generation {
        return Err(of_copy(DeltaError::Newer {
            expected: superblock.generation,
            got: copy.moment.generation,
        }));
    }
    check_layers(&copy.meta.superblock.layers, &superblock.layers).map_err(of_copy)?;
    let writer = DeltaWriter {
        file,
        copy: &copy,
        superblock: &superblock,
        out: DeltaOutput::new(&draft),
    };
    let header = writer.write(watch)?;
    drop(held);
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

/// Compares a quiesced store with a copy of it and writes what differs.
struct DeltaWriter<'a> {
    file: &'a StoreFile,
    copy: &'a Copy<'a>,
    superblock: &'a Superblock,
    out: DeltaOutput<'a>,
}

impl DeltaWriter<'_> {
    /// Writes all of a delta except its header, which comes last.
    fn write(mut self, watch: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<DeltaHeader> {
        let of_segments = self.superblock.directory.map_or(0, |found| found.pages);
        let total = page_scan::count(&self.superblock.layers).saturating_add(of_segments);
        let mut watched = Watched::new(watch, total.saturating_mul(PAGE_BYTES as u64));
        watched.at(0)?;
        let front = superblock_bytes(self.superblock, &self.file.header);
        self.out.put(&front)?;
        let superblock_length = (self.out.end_offset() - DELTA_HEADER_BYTES as u64) as u32;
        let changes = match self.file.header.space() {
            Some(space) => {
                let place: &Path = &self.file.place;
                let bound = (space, self.file.header.binding());
                ChangedSegments {
                    store: SegmentReader::open(&*self.file.raw, place, self.superblock, bound)?,
                    copy: self.copy.segments(space)?,
                }
                .write(self.superblock, &mut self.out, &mut watched)?
            }
            None => self.write_pages(&mut watched)?,
        };
        let (section_pages, sections) = self.write_sections()?;
        let moment = self.copy.moment;
        if changes.from != moment.digest {
            return Err(delta_error(
                self.copy.path,
                DeltaError::WrongContent {
                    expected: moment.digest,
                    got: changes.from,
                },
            ));
        }
        let header = DeltaHeader {
            superblock_length,
            store_id: self.file.header.store_id,
            from: moment,
            to: Moment {
                generation: self.superblock.generation,
                digest: changes.to,
            },
            pages: changes.count,
            section_pages,
            sections,
        };
        self.out.end(&header)?;
        Ok(header)
    }

    /// Checks the pages that differ, and writes them.
    fn write_pages(&mut self, watched: &mut Watched<'_>) -> Result<Changes> {
        let held = &self.copy.meta.superblock.layers;
        let header = &self.file.header;
        let bound = (header.binding(), header.kind.cell());
        let mut new = Pages::new(&*self.file.raw, &self.file.place);
        let mut old = Pages::new(&*self.copy.file, self.copy.path);
        let mut changes = Changes::default();
        for place in places(&self.superblock.layers) {
            let PagePlace { layer, number, .. } = place;
            let page = new.page(number, layer.end_page())?;
            let before = match held.get(place.index as usize) {
                Some(held) => &old.page(number, held.end_page())?[..PAGE_HEADER],
                None => &[0; PAGE_HEADER],
            };
            changes.from = changes.from.wrapping_add(digest_of(number, before));
            changes.to = changes.to.wrapping_add(digest_of(number, page));
            if page[..PAGE_HEADER] != *before {
                page_scan::check(&self.file.place, bound, place, page)?;
                self.out.put_page(number, page)?;
                changes.count += 1;
            }
            watched.page()?;
        }
        Ok(changes)
    }

    /// Writes the sections that the copy does not have. Returns their pages, and a bit for each section by its place in
    /// the superblock.
    fn write_sections(&mut self) -> Result<(u64, u32)> {
        let mut new = Pages::new(&*self.file.raw, &self.file.place);
        let (mut section_pages, mut sections) = (0, 0);
        for (index, section) in self.superblock.sections.iter().enumerate() {
            if self.copy.meta.superblock.sections.contains(section) {
                continue;
            }
            check_sections(&*self.file.raw, &self.file.place, [section])?;
            let numbers = section.numbers();
            for number in numbers.clone() {
                self.out.put(new.page(number, numbers.end)?)?;
            }
            section_pages += section.pages();
            sections |= 1 << index;
        }
        Ok((section_pages, sections))
    }
}
