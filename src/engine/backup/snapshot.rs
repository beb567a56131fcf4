//! A consistent copy of a store that other handles go on writing to.
//!
//! A checkpoint moves what was acknowledged into the pages. The checkpoint lock is then held while the file is copied.
//! So no page changes meanwhile, and inserts go on into buffer and log until they need a checkpoint themselves.
//!
//! A handle that only reads can't move anything in the store. It copies the file as it is and moves what the logs hold into
//! the copy, while no writer can open the store.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use crate::engine::Engine;
use crate::engine::backup::copy_front::front;
use crate::engine::backup::held_still::{HeldStill, check_copyable};
use crate::engine::checkpoint::run::Checkpointer;
use crate::error::{Error, Result};
use crate::file::draft_mark::{self, DRAFT_MARK_OFFSET};
use crate::file::layout::{HEADER_OFFSET, INTENT_OFFSETS, PAGES_OFFSET};
use crate::file::{FormatError, Header, Superblock};
use crate::filter::backup::{self as filter, StillPages};
use crate::filter::has_segments;
use crate::page::PAGE_BYTES;
use crate::storefile::atomic_file::{AtomicFile, COPY};
use crate::storefile::meta::read_meta_of;
use crate::storefile::progress::{Progress, Watched};
use crate::storefile::section_check::check_sections;
use crate::storefile::still_file::StillFile;
use crate::storefile::store_file::StoreFile;
use crate::sys::copy;
use crate::sys::storage::{read_exact_at, write_all_at};
use crate::wal::log_path;

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
    check_copyable(engine)?;
    let draft = AtomicFile::begin(&engine.options, dest, COPY, engine.file.owner()?)?;
    let held = HeldStill::of(engine)?;
    let snapshotter = Snapshotter {
        engine,
        file: &engine.file,
        draft,
        dest,
    };
    snapshotter.copy(held, watch)
}

/// Copies a store that is held still.
struct Snapshotter<'a> {
    engine: &'a Engine,
    file: &'a StoreFile,
    draft: AtomicFile,
    dest: &'a Path,
}

impl Snapshotter<'_> {
    fn copy(
        self,
        held: HeldStill<'_>,
        watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<SnapshotReport> {
        let Self { draft, dest, .. } = &self;
        let mut superblock = held.meta().superblock.clone();
        self.refuse_logs(superblock.generation)?;
        check_sections(&*self.file.raw, &self.file.place, &superblock.sections)?;
        let mut watched = Watched::new(
            watch,
            length_of(&superblock) + filter::pages_of(&superblock) * PAGE_BYTES as u64,
        );
        let shared = self.copy_bytes(length_of(&superblock), &mut watched)?;
        if held
            .move_logs_into(self.engine, draft)
            .map_err(|error| self.blamed(error))?
        {
            superblock = read_meta_of(&*draft.file, dest)?.superblock;
            self.refuse_logs(superblock.generation)?;
        }
        let (length, pages) = (length_of(&superblock), filter::pages_of(&superblock));
        drop(held);
        watched.at(length)?;
        let digest = self.check_copy(&superblock, &mut watched)?;
        let mut front = front(&self.file.header, &superblock, digest);
        self.put_mark(&mut front);
        write_all_at(&*draft.file, &front, INTENT_OFFSETS[0])
            .map_err(|error| draft.failed(error))?;
        self.draft.publish()?;
        Ok(SnapshotReport {
            generation: superblock.generation,
            keys: superblock.keys(),
            pages,
            bytes: length,
            shared,
        })
    }

    /// Returns whether the file system shares the blocks.
    fn copy_bytes(&self, length: u64, watched: &mut Watched<'_>) -> Result<bool> {
        // The header is known. The caller hears so before a long copy, and may end it.
        watched.at(PAGE_BYTES as u64)?;
        let mut ended = Ok(());
        let mut each = |done| {
            ended = watched.at(done);
            match ended {
                Ok(()) => Ok(()),
                Err(_) => Err(io::ErrorKind::Other.into()),
            }
        };
        let (from, to) = (&*self.file.raw, &*self.draft.file);
        let copied = copy(from, to, PAGES_OFFSET..length, &mut each);
        ended?;
        let shared = copied.map_err(|error| Error::io("copy to", self.dest, error))?;
        self.copy_front()?;
        Ok(shared)
    }

    /// Copies what lies before the pages, the header last: from then on the copy is a store, with the mark of a draft.
    fn copy_front(&self) -> Result<()> {
        let mut front = vec![0; PAGES_OFFSET as usize];
        let read = read_exact_at(&*self.file.raw, &mut front, 0);
        read.map_err(|error| Error::io("read", &self.file.place, error))?;
        self.put_mark(&mut front[PAGE_BYTES..]);
        let write = |bytes: &[u8], offset| {
            let written = write_all_at(&*self.draft.file, bytes, offset);
            written.map_err(|error| self.draft.failed(error))
        };
        let (header, rest) = front.split_at(PAGE_BYTES);
        write(rest, PAGE_BYTES as u64)?;
        let synced = self.draft.file.sync();
        synced.map_err(|error| Error::sync("sync", &self.draft.temporary, error))?;
        write(header, HEADER_OFFSET)
    }

    /// Puts the mark of a draft into what lies between the header and the pages.
    fn put_mark(&self, behind_header: &mut [u8]) {
        let mark = draft_mark::mark_of(&self.file.header.store_id);
        let at = DRAFT_MARK_OFFSET as usize - PAGE_BYTES;
        behind_header[at..at + mark.len()].copy_from_slice(&mark);
    }

    /// Refuses a name beside which there is a log that an opener of the copy would take for its own.
    fn refuse_logs(&self, generation: u64) -> Result<()> {
        for number in generation.saturating_sub(1)..=generation + 1 {
            let path = log_path(&self.draft.place, number);
            let there = self.engine.options.storage.exists(&path);
            if there.map_err(|error| Error::io("look for", &path, error))? {
                return Err(Error::AlreadyExists { path });
            }
        }
        Ok(())
    }

    /// Checks the copy, zeroes what it does not name, and returns the digest of its pages.
    fn check_copy(&self, superblock: &Superblock, watched: &mut Watched<'_>) -> Result<u64> {
        let (file, path) = (&*self.draft.file, self.dest);
        let header = &self.file.header;
        let length = length_of(superblock);
        let failed = |error| self.draft.failed(error);
        // Moving keys into it may have taken more room for a while.
        if file.length().map_err(failed)? > length {
            file.set_length(length).map_err(failed)?;
        }
        let mut page = [0; PAGE_BYTES];
        read_exact_at(file, &mut page, 0).map_err(|error| Error::io("read", path, error))?;
        if Header::decode(&page, length).as_ref() != Ok(header) {
            return Err(Error::Io {
                action: "find the store's header in",
                path: path.to_owned(),
                source: io::ErrorKind::InvalidData.into(),
            });
        }
        check_sections(file, path, &superblock.sections)?;
        let copied = StillFile {
            file,
            path,
            header,
            superblock,
        };
        let copied = StillPages::open(copied).map_err(|error| self.blamed(error))?;
        let digest = copied.check(watched).map_err(|error| self.blamed(error))?;
        copied.clear_unnamed()?;
        Ok(digest)
    }

    /// Returns an error that names the store where damage of the copy is the store's own, as it is more likely.
    fn blamed(&self, error: Error) -> Error {
        let looked = match &error {
            Error::Format { source, .. } => self.look_at_own(source),
            _ => Ok(()),
        };
        match looked {
            Err(own @ Error::Format { .. }) => own,
            _ => error,
        }
    }

    /// Looks in the store for damage that was found in the copy.
    fn look_at_own(&self, found: &FormatError) -> Result<()> {
        let file = self.file;
        let moves = has_segments(&file.header);
        let place = match found {
            FormatError::PageDamaged { layer, page, .. } => Some((*layer, *page)),
            // A page that stays where it is is reported by its place.
            _ if !moves => return Ok(()),
            _ => None,
        };
        // Otherwise others might take the room of what is read for something else meanwhile.
        let _held_off = match moves {
            true => Some(Checkpointer::of(self.engine).hold_off()?),
            false => None,
        };
        let superblock = file.read_meta()?.superblock;
        let own = StillFile {
            file: &*file.raw,
            path: &file.place,
            header: &file.header,
            superblock: &superblock,
        };
        match place {
            Some((layer, page)) => filter::check_page(own, layer, page),
            None => {
                let mut watch = |_| ControlFlow::Continue(());
                let mut watched = Watched::new(&mut watch, 0);
                StillPages::open(own)?.check(&mut watched).map(drop)
            }
        }
    }
}

fn length_of(superblock: &Superblock) -> u64 {
    superblock.end_offset().max(PAGES_OFFSET)
}
