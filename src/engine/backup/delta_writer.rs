//! Writes what has changed in a store since a copy of it was taken.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use crate::config::open_options::OpenOptions;
use crate::engine::Engine;
use crate::engine::backup::held_still::{HeldStill, check_copyable};
use crate::error::{Error, Result};
use crate::file::copy::{Moment, superblocks_of};
use crate::file::delta::{DELTA_HEADER_BYTES, DeltaHeader, superblock_bytes};
use crate::file::{DeltaError, Superblock};
use crate::filter::backup as filter;
use crate::page::PAGE_BYTES;
use crate::storefile::atomic_file::{AtomicFile, DELTA};
use crate::storefile::delta_output::DeltaOutput;
use crate::storefile::delta_reader::delta_error;
use crate::storefile::meta::{Meta, identify, read_mark};
use crate::storefile::page_scan::Pages;
use crate::storefile::progress::{Progress, Watched};
use crate::storefile::section_check::check_sections;
use crate::storefile::still_file::StillFile;
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
    fn open(options: &OpenOptions, path: &'a Path) -> Result<Self> {
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

    fn still(&self) -> StillFile<'_> {
        StillFile {
            file: &*self.file,
            path: self.path,
            header: &self.meta.header,
            superblock: &self.meta.superblock,
        }
    }
}

/// Reports a missing file by the role that it was to have.
pub(crate) fn missing(source: DeltaError) -> impl FnOnce(Error) -> Error {
    |error| match error {
        Error::NotFound { path } => Error::Delta { path, source },
        other => other,
    }
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
    filter::check_layers(&copy.meta.superblock.layers, &superblock.layers).map_err(of_copy)?;
    let writer = DeltaWriter {
        file,
        copy: &copy,
        superblock: &superblock,
        out: DeltaOutput::new(&draft),
    };
    let header = writer.write(watch)?;
    assert!(header.from.generation <= header.to.generation, "a way back");
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
        let total = filter::pages_of(self.superblock);
        let mut watched = Watched::new(watch, total.saturating_mul(PAGE_BYTES as u64));
        watched.at(0)?;
        let front = superblock_bytes(self.superblock, &self.file.header);
        self.out.put(&front)?;
        let superblock_length = (self.out.end_offset() - DELTA_HEADER_BYTES as u64) as u32;
        let store = StillFile {
            file: &*self.file.raw,
            path: &self.file.place,
            header: &self.file.header,
            superblock: self.superblock,
        };
        let changes = filter::write_changes(store, self.copy.still(), &mut self.out, &mut watched)?;
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
