//! A consistent copy of a store that other handles go on writing to.
//!
//! A checkpoint moves what was acknowledged into the pages. The checkpoint lock is then held while the file is copied.
//! So no page changes meanwhile, and inserts go on into buffer and log until they need a checkpoint themselves.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use crate::error::{Error, Result};
use crate::file::copy::digest_of;
use crate::file::layout::{INTENT_OFFSETS, PAGES_OFFSET};
use crate::file::{Header, Superblock};
use crate::log::log_path;
use crate::page::PAGE_BYTES;
use crate::store::backup::copy_front::front;
use crate::store::backup::progress::{Progress, Watched};
use crate::store::backup::segments::SegmentReader;
use crate::store::config::options::Options;
use crate::store::engine::Engine;
use crate::store::storefile::atomic_file::{AtomicFile, COPY};
use crate::store::storefile::page_scan::{self, PagePlace, Pages, places};
use crate::store::storefile::section_check::check_sections;
use crate::store::storefile::store_file::StoreFile;
use crate::store::write::quiesce::{Quiesced, quiesce};
use crate::sys::storage::{StorageFile, read_exact_at, write_all_at};

/// The result of a [snapshot](crate::Store::snapshot).
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotReport {
    /// The generation that it shows: its pages hold the keys of all logs below it.
    pub generation: u64,
    /// Keys in it, as [`Stats`](crate::Stats) counts them.
    pub keys: u64,
    /// Its pages, each of which was read and checked.
    pub pages: u64,
    /// Its length in bytes. Holes in the store are holes in the copy, where the file system supports them.
    pub bytes: u64,
    /// Whether the file system shares its blocks with the store's until either file changes.
    pub shared: bool,
}

/// Copies the store to `dest`.
pub(crate) fn snapshot(
    engine: &Engine,
    dest: &Path,
    watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<SnapshotReport> {
    engine.handle.check_writable()?;
    let snapshotter = Snapshotter {
        options: &engine.options,
        file: &engine.file,
    };
    let draft = AtomicFile::begin(&engine.options, dest, COPY, engine.file.owner()?)?;
    let quiesced = quiesce(engine)?;
    snapshotter.copy(draft, quiesced, dest, watch)
}

/// Copies a quiesced store.
struct Snapshotter<'a> {
    options: &'a Options,
    file: &'a StoreFile,
}

impl Snapshotter<'_> {
    fn copy(
        &self,
        draft: AtomicFile,
        quiesced: Quiesced<'_>,
        dest: &Path,
        watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<SnapshotReport> {
        let superblock = quiesced.meta.superblock.clone();
        self.refuse_logs(&draft.place, superblock.generation)?;
        let length = superblock.end_offset().max(PAGES_OFFSET);
        check_sections(&*self.file.raw, &self.file.place, &superblock.sections)?;
        let segment_pages = superblock.directory.map_or(0, |directory| directory.pages);
        let pages = page_scan::count(&superblock.layers) + segment_pages;
        let mut watched = Watched::new(watch, length.saturating_add(pages * PAGE_BYTES as u64));
        let mut ended = Ok(());
        let mut each = |done| {
            ended = watched.at(done);
            match ended {
                Ok(()) => Ok(()),
                Err(_) => Err(io::ErrorKind::Other.into()),
            }
        };
        let copied = draft.file.copy_from(&*self.file.raw, length, &mut each);
        ended?;
        let shared = copied.map_err(|error| Error::io("copy to", dest, error))?;
        drop(quiesced);
        watched.at(length)?;
        let mut digest = self.check_copy(&*draft.file, dest, &superblock, &mut watched)?;
        check_sections(&*draft.file, dest, &superblock.sections)?;
        match self.file.header.space() {
            Some(space) => {
                let bound = (space, self.file.header.binding());
                let copied = SegmentReader::open(&*draft.file, dest, &superblock, bound)?;
                digest = copied.check(&mut watched)?;
                copied.clear_unnamed()?;
            }
            None => page_scan::clear_unnamed(&*draft.file, dest, &superblock)?,
        }
        let front = front(&self.file.header, &superblock, digest);
        write_all_at(&*draft.file, &front, INTENT_OFFSETS[0])
            .map_err(|error| draft.failed(error))?;
        draft.publish()?;
        Ok(SnapshotReport {
            generation: superblock.generation,
            keys: superblock.keys(),
            pages,
            bytes: length,
            shared,
        })
    }

    /// Refuses a name beside which there is a log that an opener of the copy would take for its own.
    fn refuse_logs(&self, dest: &Path, generation: u64) -> Result<()> {
        for number in generation.saturating_sub(1)..=generation + 1 {
            let path = log_path(dest, number);
            let there = self.options.storage.exists(&path);
            if there.map_err(|error| Error::io("look for", &path, error))? {
                return Err(Error::AlreadyExists { path });
            }
        }
        Ok(())
    }

    /// Checks header and pages of the copy, and returns the digest of the pages.
    fn check_copy(
        &self,
        file: &dyn StorageFile,
        path: &Path,
        superblock: &Superblock,
        watched: &mut Watched<'_>,
    ) -> Result<u64> {
        let mut page = [0; PAGE_BYTES];
        read_exact_at(file, &mut page, 0).map_err(|error| Error::io("read", path, error))?;
        let length = superblock.end_offset().max(PAGES_OFFSET);
        if Header::decode(&page, length).as_ref() != Ok(&self.file.header) {
            return Err(Error::Io {
                action: "find the store's header in",
                path: path.to_owned(),
                source: io::ErrorKind::InvalidData.into(),
            });
        }
        let header = &self.file.header;
        let bound = (header.binding(), header.kind.cell());
        let mut pages = Pages::new(file, path);
        let mut digest = 0_u64;
        for place in places(&superblock.layers) {
            let PagePlace { layer, number, .. } = place;
            let bytes = pages.page(number, layer.end_page())?;
            if let Err(error) = page_scan::check(path, bound, place, bytes) {
                // The damage is more likely in the store's own page.
                let mut own = Pages::new(&*self.file.raw, &self.file.place);
                let bytes = own.page(number, number + 1)?;
                page_scan::check(&self.file.place, bound, place, bytes)?;
                return Err(error);
            }
            digest = digest.wrapping_add(digest_of(number, bytes));
            watched.page()?;
        }
        Ok(digest)
    }
}
