//! Applying a delta to a copy (docs/format/deltas.md, "Applying a delta").
//!
//! Nothing is written until the whole delta, and what it will make of the copy, has been checked. From then until all
//! is written the copy is not a store, and its mark says so. Whatever interrupts that, applying the same delta again
//! completes it.

use std::ops::ControlFlow;
use std::path::Path;

use crate::config::open_options::OpenOptions;
use crate::engine::backup::copy_front::{front, mark_of};
use crate::engine::backup::delta_writer::missing;
use crate::engine::open::handle::check_exists;
use crate::engine::open::leftover_logs::LeftoverLogs;
use crate::error::{Error, Result};
use crate::file::copy::{CopyMark, Moment, superblocks_of};
use crate::file::layout::COPY_MARK_OFFSET;
use crate::file::layout::{INTENT_OFFSETS, SUPERBLOCK_OFFSETS};
use crate::file::{DeltaError, FormatError, Header, Superblock};
use crate::filter::backup::delta_pages;
use crate::page::PAGE_BYTES;
use crate::shm::locks::{Intention, OpenCloseLock, PresenceLock, StoreLocks, locked};
use crate::shm::place::Place;
use crate::storefile::delta_reader::{Delta, delta_error};
use crate::storefile::meta::{Meta, read_mark, read_meta_of};
use crate::storefile::progress::{Progress, Watched};
use crate::storefile::still_file::StillFile;
use crate::sys::RangeLock;
use crate::sys::storage::{StorageFile, read_exact_at, write_all_at};

/// The result of [applying](crate::apply_delta) a delta.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyReport {
    /// The generation of the copy before.
    pub from: u64,
    /// The generation of the copy now.
    pub to: u64,
    /// Pages written; 0 if the copy was already up to date.
    pub pages: u64,
    /// Keys in the copy now, as [`Stats`](crate::Stats) counts them.
    pub keys: u64,
    /// Whether an earlier attempt had left the copy half written.
    pub resumed: bool,
}

/// Applies a delta to a copy that no handle has open.
pub(crate) fn apply(
    options: &OpenOptions,
    delta: &Path,
    path: &Path,
    watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<ApplyReport> {
    check_exists(options, delta).map_err(missing(DeltaError::Missing))?;
    check_exists(options, path).map_err(missing(DeltaError::MissingCopy))?;
    let delta = Delta::open(options, delta)?;
    let place = &Place::of_existing(path)?;
    let options = options.within(place);
    let gate = OpenCloseLock::enter(place, Intention::Write, options.timeout)?;
    let locks = gate.locks(place, Intention::Write)?;
    let _alone = PresenceLock::alone(&locks)?.ok_or_else(|| locked(place))?;
    let path: &Path = place;
    let file = options.storage.open(path, true);
    let file = file.map_err(|error| Error::io("open", path, error))?;
    let applying = Applying {
        delta: &delta,
        place,
        file: &*file,
        locks: &locks,
    };
    applying.run(watch)
}

/// The state of the copy when the delta arrives.
enum Before {
    /// It shows the moment that the delta starts from.
    Whole(Box<Meta>, CopyMark),
    /// An earlier attempt has begun to apply the same delta.
    Half(CopyMark),
    /// It shows the moment that the delta leads to; the mark may not say so yet.
    Done(Box<Meta>, CopyMark),
}

struct Applying<'a> {
    delta: &'a Delta<'a>,
    place: &'a Place,
    file: &'a dyn StorageFile,
    locks: &'a StoreLocks,
}

impl Applying<'_> {
    fn run(&self, watch: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<ApplyReport> {
        let header = self.header()?;
        let before = self.before(&header)?;
        let to = self.delta.header.to;
        let report = |superblock: &Superblock, pages, resumed| ApplyReport {
            from: self.delta.header.from.generation,
            to: to.generation,
            pages,
            keys: superblock.keys(),
            resumed,
        };
        if let Before::Done(meta, mark) = &before {
            let resumed = mark.next.is_some();
            if resumed {
                let _no_readers = self.keep_out_readers(meta.superblock.end_offset())?;
                // The proof that it is done may be only in the page cache.
                self.finish(&header, &meta.superblock)?;
            }
            return Ok(report(&meta.superblock, 0, resumed));
        }
        let (superblock, content) = self.delta.superblock(&header)?;
        let copy = StillFile {
            file: self.file,
            path: self.place,
            header: &header,
            superblock: &superblock,
        };
        let pages = delta_pages(self.delta, copy)?;
        let old = match &before {
            Before::Whole(meta, _) => Some(&meta.superblock),
            _ => None,
        };
        let mut watched = Watched::new(watch, self.delta.header.pages * PAGE_BYTES as u64);
        watched.at(0)?;
        let digest = pages.check(old, content.clone(), &mut watched)?;
        digest.map_or(Ok(()), |digest| self.expect(digest))?;
        let least = old.map_or(u64::MAX, Superblock::end_offset);
        let _no_readers = self.keep_out_readers(least.min(superblock.end_offset()))?;
        // A handle that died before the superblock knew of its log has left one, which the next moment does not fit.
        LeftoverLogs::of(self.place)?.remove_blank(self.place)?;
        let (mark, resumed) = match before {
            Before::Whole(meta, mark) => {
                self.make_room(&meta.superblock, &superblock)?;
                (mark, false)
            }
            Before::Half(mark) | Before::Done(_, mark) => (mark, true),
        };
        self.write_mark(&CopyMark {
            next: Some(to),
            ..mark
        })?;
        pages.write(content)?;
        self.sync()?;
        if digest.is_none() {
            self.expect(pages.digest()?)?;
        }
        self.finish(&header, &superblock)?;
        Ok(report(&superblock, self.delta.header.pages, resumed))
    }

    /// Keeps readers out, if the copy is to be shortened to this length at least for a moment: one that reads a map beyond
    /// the end of its file is ended by the system. Until this work is done, the open-close lock lets no other in.
    fn keep_out_readers(&self, length: u64) -> Result<[Option<RangeLock>; 2]> {
        if self.length()? <= length {
            return Ok([None, None]);
        }
        let readers = self.locks.keep_readers_out()?;
        // Look-ups of a handle that was closed may still be under way.
        let maps = self.locks.keep_maps_out()?;
        match readers.is_some() && maps.is_some() {
            true => Ok([readers, maps]),
            false => Err(locked(self.place)),
        }
    }

    /// Turns the copy, whose pages are durable, back into a store.
    fn finish(&self, header: &Header, superblock: &Superblock) -> Result<()> {
        // A mark counts beside the superblock of its own moment alone.
        assert_eq!(superblock.generation, self.delta.header.to.generation);
        let digest = self.delta.header.to.digest;
        let front = front(header, superblock, digest);
        let first = (SUPERBLOCK_OFFSETS[0] - INTENT_OFFSETS[0]) as usize;
        self.write(&front[first..], SUPERBLOCK_OFFSETS[0])?;
        self.sync()?;
        if self.length()? > superblock.end_offset() {
            // Remove what lay behind the layers before the delta.
            self.set_length(superblock.end_offset())?;
        }
        self.write_mark(&mark_of(header, superblock, digest))
    }

    fn wrong(&self, source: DeltaError) -> Error {
        delta_error(self.place, source)
    }

    fn length(&self) -> Result<u64> {
        let length = self.file.length();
        length.map_err(|error| Error::io("measure", self.place, error))
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        write_all_at(self.file, bytes, offset)
            .map_err(|error| Error::io("apply a delta to", self.place, error))
    }

    fn sync(&self) -> Result<()> {
        let synced = self.file.sync();
        synced.map_err(|error| Error::sync("sync", self.place, error))
    }

    fn write_mark(&self, mark: &CopyMark) -> Result<()> {
        self.write(&mark.encode(), COPY_MARK_OFFSET)?;
        self.sync()
    }

    fn header(&self) -> Result<Header> {
        let length = self.length()?;
        let mut page = vec![0; length.min(PAGE_BYTES as u64) as usize];
        read_exact_at(self.file, &mut page, 0)
            .map_err(|error| Error::io("read", self.place, error))?;
        let header = Header::decode(&page, length).map_err(|source| Error::Format {
            path: self.place.to_path_buf(),
            source,
        })?;
        let (expected, got) = (self.delta.header.store_id, header.store_id);
        if expected != got {
            return Err(self.wrong(DeltaError::WrongStore { expected, got }));
        }
        Ok(header)
    }

    /// Finds out the state of the copy, and refuses a copy that the delta does not apply to.
    fn before(&self, header: &Header) -> Result<Before> {
        let mark = read_mark(self.file, self.place, header)?;
        let meta = match read_meta_of(self.file, self.place) {
            Ok(meta) => Some(Box::new(meta)),
            // None of its superblocks counts: the mark decides.
            Err(Error::Format {
                source: FormatError::HalfApplied { .. },
                ..
            }) => None,
            Err(error) => return Err(error),
        };
        let Some(mark) = mark else {
            return Err(self.wrong(DeltaError::NotACopy));
        };
        let (from, to) = (self.delta.header.from, self.delta.header.to);
        if let Some(next) = mark.next
            && (mark.moment, next) != (from, to)
        {
            return Err(self.wrong(DeltaError::Unfinished {
                from: mark.moment.generation,
                to: next.generation,
            }));
        }
        let Some(meta) = meta else {
            return Ok(Before::Half(mark));
        };
        let found = &meta.superblock;
        if mark.next.is_some() {
            // Everything is written except the mark, or the newer of the superblocks too.
            let (end, _) = self.delta.superblock(header)?;
            let [older, newest] = superblocks_of(&end);
            if *found == newest {
                return Ok(Before::Done(meta, mark));
            }
            if *found == older {
                return Ok(Before::Half(mark));
            }
        } else if mark.fits(found) {
            if mark.moment == to {
                return Ok(Before::Done(meta, mark));
            }
            self.expect_from(mark.moment)?;
            return Ok(Before::Whole(meta, mark));
        }
        Err(self.wrong(DeltaError::Written {
            expected: mark.sequence,
            got: found.sequence,
        }))
    }

    fn expect_from(&self, got: Moment) -> Result<()> {
        let expected = self.delta.header.from;
        if expected.generation != got.generation {
            return Err(self.wrong(DeltaError::WrongGeneration {
                expected: expected.generation,
                got: got.generation,
            }));
        }
        if expected.digest != got.digest {
            return Err(self.wrong(DeltaError::WrongContent {
                expected: expected.digest,
                got: got.digest,
            }));
        }
        Ok(())
    }

    /// Refuses pages that are not those of the moment that the delta leads to.
    fn expect(&self, got: u64) -> Result<()> {
        let expected = self.delta.header.to.digest;
        if expected == got {
            return Ok(());
        }
        Err(self.wrong(DeltaError::WrongContent { expected, got }))
    }

    /// Extends the copy to its future length. Removes what may lie behind its layers.
    fn make_room(&self, old: &Superblock, new: &Superblock) -> Result<()> {
        // A delta has each layer of its copy in the same place, and a directory takes the place of another.
        assert_eq!(old.directory.is_some(), new.directory.is_some());
        let length = self.length()?;
        let old = old.end_offset();
        // Keep the longer of both lengths until the copy can no longer be taken for the old one.
        let new = new.end_offset().max(old);
        if length > old {
            self.set_length(old)?;
        }
        if length > old || length != new {
            self.set_length(new)?;
            // Sync this before the mark says that it is done.
            self.sync()?;
        }
        Ok(())
    }

    fn set_length(&self, length: u64) -> Result<()> {
        let set = self.file.set_length(length);
        set.map_err(|error| Error::io("make room in", self.place, error))
    }
}
