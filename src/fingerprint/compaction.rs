//! Closing a store of fingerprints small: what lies at the end of the file moves into free room before it, and the rest
//! is cut off.
//!
//! A checkpoint needs room for what it writes in one step. As long as the store is open, the next one uses that room.
//! So does the next session, if it is no great part of the file: a session that writes little moves little.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::file::directory_ref::directory_pages;
use crate::file::layout::{PAGES_OFFSET, page_offset};
use crate::file::{DirectoryRef, Section, Superblock};
use crate::fingerprint::directory_file::{
    expect_directory, named, raise_reused, read_segment, write_directory, write_run_directory,
};
use crate::fingerprint::runs::run_directories::{RunSegments, read_runs};
use crate::fingerprint::segment::entry::Segment;
use crate::fingerprint::segment::fences::pages_with_fences;
use crate::fingerprint::segment::free_room::FreeRoom;
use crate::fingerprint::segment::image::Image;
use crate::page::Binding;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::page_io::PageAccess;
use crate::page_io::checkpoint_trigger::CheckpointTrigger;
use crate::page_io::checkpoint_trigger::Workers;
use crate::storefile::meta::Meta;
use crate::sys::two_threads::do_both;

/// Free room of less than the file divided by this is not worth moving anything.
const WORTH_SHARE: u64 = 64;
/// The same after a session that has written a great part of the file, which is the file divided by `GREAT_SHARE`, at least.
const WORTH_SHARE_OF_GREAT: u64 = 512;
const GREAT_SHARE: u64 = 4;
/// A session moves as many pages as its checkpoints have written, and this many more.
const PAGES_MORE: u64 = 256;
/// How often what is left is moved: what was moved has left room behind.
const MOST_ROUNDS: usize = 12;
/// A free run of fewer pages is not worth a segment of its own.
const LEAST_PIECE: u64 = 8;

/// Moves the segments of a closing store together.
pub(crate) struct Compaction<'a> {
    access: PageAccess<'a>,
    binding: Binding,
}

impl<'a> Compaction<'a> {
    pub(crate) fn new(access: PageAccess<'a>) -> Self {
        let binding = access.file.header.binding();
        Self { access, binding }
    }

    /// Moves segments to the front as long as it pays, and returns the superblock that names them then. The caller holds
    /// the checkpoint lock, and no checkpoint is due.
    pub(crate) fn run(&self) -> Result<()> {
        let mut budget = self.access.state.pages_written().saturating_add(PAGES_MORE);
        for left in (0..MOST_ROUNDS).rev() {
            // What a split puts behind the end is moved down by the round after it.
            if !self.round(left > 0, &mut budget)? {
                break;
            }
        }
        Ok(())
    }

    /// Cuts off what nothing names behind the last page. The caller has made sure that nobody has a map of it.
    pub(crate) fn cut_off(&self) -> Result<()> {
        let file = self.access.file;
        let meta = file.read_meta()?;
        let other = meta.other.as_ref().map_or(0, Superblock::end_offset);
        let end = meta.superblock.end_offset().max(other);
        assert!(end >= PAGES_OFFSET, "{end}");
        let failed = |error| Error::io("cut off the free end of", &file.place, error);
        if file.raw.length().map_err(failed)? > end {
            self.make_certain(&meta.superblock)?;
            file.raw.set_length(end).map_err(failed)?;
        }
        Ok(())
    }

    /// Makes the newest superblock durable, before room is taken that only an older one names. A session that has written
    /// none knows it from the page cache, where it lies also if the sync of an earlier session failed.
    fn make_certain(&self, superblock: &Superblock) -> Result<()> {
        match self.access.state.pages_written() {
            0 => self.access.file.write_superblock(superblock),
            _ => Ok(()),
        }
    }

    /// Moves what fits into free room before it. If nothing does, and it may, splits the last segments so that they do.
    /// Takes what it writes of the budget, in pages. Returns whether anything was moved.
    fn round(&self, may_split: bool, budget: &mut u64) -> Result<bool> {
        let file = self.access.file;
        let meta = file.read_meta()?;
        let superblock = &meta.superblock;
        let (_, space) = expect_directory(&file.place, superblock, file.header.space())?;
        let other = meta.other.as_ref();
        let both_name_it = other.is_some_and(|other| other.names_the_same(superblock));
        let bound = (Some(space), self.binding);
        let runs = read_runs(&*file.raw, &file.place, superblock, bound)?;
        let mut segments = owned_segments(&runs, space);
        let mut room = free_room(&meta, &segments);
        let free: u64 = room.runs().map(|run| run.end - run.start).sum();
        if !both_name_it || free * self.worth_share(room.end()) < room.end() {
            return Ok(false);
        }
        self.make_certain(superblock)?;
        let version = superblock.set_version();
        let moves = moves_down(&segments, &mut room, budget);
        if !moves.is_empty() {
            raise_reused(&*file.raw, &file.place, version)?;
        }
        let mut changed = vec![false; runs.len()];
        for (index, found) in self.move_all(&moves, &segments)? {
            segments[index].segment = found;
            changed[segments[index].run] = true;
        }
        if !changed.contains(&true) && may_split {
            self.split_last(&mut segments, version, &mut room, budget, &mut changed)?;
        }
        if !changed.contains(&true) {
            changed = directories_alone(superblock, &segments, &room);
            if !changed.contains(&true) {
                return Ok(false);
            }
            raise_reused(&*file.raw, &file.place, version)?;
        }
        let named = self.write_directories(superblock, &segments, &changed, &mut room, budget)?;
        self.access.file.name_segments(named)?;
        Ok(true)
    }

    /// Writes the directories of runs whose segments have moved, and returns the superblock that names them.
    fn write_directories(
        &self,
        superblock: &Superblock,
        segments: &[OwnedSegment],
        changed: &[bool],
        room: &mut FreeRoom,
        budget: &mut u64,
    ) -> Result<Superblock> {
        let file = self.access.file;
        let mut named = superblock.clone();
        named.sequence += 1;
        for (number, _) in changed.iter().enumerate().filter(|(_, changed)| **changed) {
            let own = segments.iter().filter(|one| one.run == number);
            let own: Vec<Segment> = own.map(|one| one.segment).collect();
            let pages = directory_pages(own.len() as u64);
            *budget = budget.saturating_sub(2 * pages);
            let places = [self.take(room, pages)?, self.take(room, pages)?];
            let directory = match number.checked_sub(1) {
                None => named.directory.as_mut(),
                Some(young) => named
                    .runs
                    .as_mut()
                    .map(|table| &mut table.runs[young].directory),
            };
            // The segments are those of the runs that the superblock names.
            let directory = directory.expect("a directory of each run");
            let (numbers, path) = ((named.sequence, directory.generation), &*file.place);
            let begin = superblock.begin_of(number);
            let written = match number {
                0 => write_directory(&*file.raw, path, self.binding, &own, places, numbers)?,
                _ => {
                    let own = (&own[..], begin);
                    write_run_directory((&*file.raw, path), self.binding, own, places, numbers)?
                }
            };
            // Moving changes where fingerprints lie, and not which there are; those below the cursor don't count.
            assert!(written.keys == directory.keys || (begin > 0 && written.keys > directory.keys));
            let keys = directory.keys;
            *directory = DirectoryRef { keys, ..written };
        }
        if let Some(table) = &mut named.runs {
            table.set_version = named.sequence;
        }
        Ok(named)
    }

    /// Returns what a file of so many pages is divided by for the least free room that is worth moving anything.
    fn worth_share(&self, end: u64) -> u64 {
        match self.access.state.pages_written() >= end / GREAT_SHARE {
            true => WORTH_SHARE_OF_GREAT,
            false => WORTH_SHARE,
        }
    }

    /// Splits the last segments of the file, until the free room before them is full, and says which runs have changed.
    fn split_last(
        &self,
        segments: &mut Vec<OwnedSegment>,
        version: u64,
        room: &mut FreeRoom,
        budget: &mut u64,
        changed: &mut [bool],
    ) -> Result<()> {
        let mut split = Vec::new();
        for index in from_the_end(segments) {
            let own = segments[index];
            let Some(left) = budget.checked_sub(pages_of(&own.segment)) else {
                break;
            };
            let Some(pieces) = self.split(own, version, room)? else {
                break;
            };
            // Behind the end, the last piece must not stay: its move is charged, and what it took here is given back.
            let behind = pieces.last().map(|piece| piece.segment);
            let behind = behind.filter(|piece| piece.first_page > own.segment.first_page);
            split.push((index, pieces));
            changed[own.run] = true;
            *budget = left + behind.as_ref().map_or(0, pages_of);
        }
        // Those behind a segment keep their indexes while it is replaced last.
        split.sort_unstable_by_key(|(index, _)| std::cmp::Reverse(*index));
        for (index, pieces) in split {
            segments.splice(index..=index, pieces);
        }
        Ok(())
    }

    /// Cuts a segment into pieces that fill the free runs before it. What is left of it goes behind the end: in the next
    /// round it moves down to where the segment was.
    fn split(
        &self,
        own: OwnedSegment,
        version: u64,
        room: &mut FreeRoom,
    ) -> Result<Option<Vec<OwnedSegment>>> {
        let OwnedSegment { segment, end, .. } = own;
        let runs = room.runs().take_while(|run| run.end <= segment.first_page);
        let runs: Vec<_> = runs
            .map(|run| run.end - run.start)
            .filter(|pages| *pages >= LEAST_PIECE)
            .collect();
        if runs.is_empty() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        self.read(&segment, &mut bytes)?;
        let image = Image::of(self.binding, segment, end, &bytes);
        // The entries of the pieces say what the pages' headers do.
        let is_whole =
            |image: &Image<'_>| image.check_fences().is_ok() && image.check_counts().is_ok();
        let Some(image) = image.filter(is_whole) else {
            return Ok(None);
        };
        let file = self.access.file;
        raise_reused(&*file.raw, &file.place, version)?;
        let (mut pieces, mut begin) = (Vec::new(), 0);
        let lengths = runs.iter().map(|run| pages_with_fences(*run) as usize);
        for length in lengths.chain([segment.pages as usize]) {
            let pages = begin..(begin + length).min(segment.pages as usize);
            if pages.is_empty() {
                break;
            }
            begin = pages.end;
            let draft = image.part(pages);
            let first_page = self.take(room, draft.pages_in_file())?;
            let (piece, bytes) = draft.place(self.binding, first_page, segment.generation);
            self.write(&bytes, first_page)?;
            let segment = Segment {
                list: segment.list,
                ..piece
            };
            pieces.push(OwnedSegment { segment, ..own });
        }
        // A page that is in no piece would be lost.
        assert_eq!(begin, segment.pages as usize);
        for index in 1..pieces.len() {
            pieces[index - 1].end = pieces[index].segment.first;
        }
        Ok(Some(pieces))
    }

    /// Moves segments, on two threads if the store may use some. Returns those that were whole, with their indexes.
    fn move_all(&self, moves: &[Move], segments: &[OwnedSegment]) -> Result<Vec<(usize, Segment)>> {
        let move_some = |moves: &[Move]| {
            let mut bytes = Vec::new();
            let moved = moves.iter().map(|one| {
                let moved = self.move_one(segments[one.index], one.first_page, &mut bytes)?;
                Ok(moved.map(|moved| (one.index, moved)))
            });
            moved.filter_map(Result::transpose).collect()
        };
        match CheckpointTrigger::Awaited.workers(self.access.options) {
            Workers::One => move_some(moves),
            Workers::Two => {
                let (some, others) = moves.split_at(moves.len() / 2);
                let moved: (Vec<_>, Vec<_>) = do_both(|| move_some(some), || move_some(others))?;
                Ok([moved.0, moved.1].concat())
            }
        }
    }

    /// Moves a segment to free pages, if it is whole.
    fn move_one(
        &self,
        OwnedSegment { segment, end, .. }: OwnedSegment,
        first_page: u64,
        bytes: &mut Vec<u8>,
    ) -> Result<Option<Segment>> {
        self.read(&segment, bytes)?;
        let image = Image::of(self.binding, segment, end, bytes);
        let is_whole = image.is_some_and(|image| image.check_headers().is_ok());
        if !is_whole {
            // What is damaged stays where it is, to be found there.
            return Ok(None);
        }
        let moved = segment.moved(self.binding, first_page, bytes);
        // Until both superblocks name the new place, the old one must stay as it is.
        assert!(moved.extent().end <= segment.first_page, "{moved:?}");
        self.write(bytes, first_page)?;
        Ok(Some(moved))
    }

    fn read(&self, segment: &Segment, bytes: &mut Vec<u8>) -> Result<()> {
        let file = self.access.file;
        read_segment(&*file.raw, &file.place, segment, bytes)
    }

    fn write(&self, bytes: &[u8], first_page: u64) -> Result<()> {
        self.access.file.write_pages(bytes, page_offset(first_page))
    }

    fn take(&self, room: &mut FreeRoom, pages: u64) -> Result<u64> {
        let first = room.take_before(pages, u64::MAX);
        first
            .or_else(|| room.take(pages))
            .ok_or_else(|| Error::NoSpace {
                action: "find room in",
                path: self.access.file.place.to_path_buf(),
            })
    }
}

/// A segment of a run.
#[derive(Debug, Clone, Copy)]
struct OwnedSegment {
    /// 0 for the oldest run.
    run: usize,
    segment: Segment,
    /// Where its range ends.
    end: u64,
}

/// Returns the segments of all runs, in the order of runs and directories.
fn owned_segments(runs: &[RunSegments], space: FingerprintSpace) -> Vec<OwnedSegment> {
    let mut all = Vec::new();
    for (run, segments) in runs.iter().enumerate() {
        let own = segments.with_ends(space);
        all.extend(own.map(|(segment, end)| OwnedSegment {
            run,
            segment: *segment,
            end,
        }));
    }
    all
}

/// Returns which runs have a copy of their directory behind all segments, and behind free room for both copies: it alone keeps
/// that in the file.
fn directories_alone(
    superblock: &Superblock,
    segments: &[OwnedSegment],
    room: &FreeRoom,
) -> Vec<bool> {
    let end = segments.iter().map(|one| one.segment.extent().end).max();
    let is_alone = |directory: &DirectoryRef| {
        let last = directory.copies().map(|copy| copy.start).into_iter().max();
        let pages = 2 * directory_pages(directory.segments);
        let mut before = room.runs().filter(|run| Some(run.end) <= last);
        pages > 0 && last >= end && before.any(|run| run.end - run.start >= pages)
    };
    superblock.directories().map(is_alone).collect()
}

/// A segment that is to move, by its index, and where to.
struct Move {
    index: usize,
    first_page: u64,
}

/// Returns the indexes of segments, of the one that lies last in the file first.
fn from_the_end(segments: &[OwnedSegment]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..segments.len()).collect();
    order.sort_unstable_by_key(|index| std::cmp::Reverse(segments[*index].segment.first_page));
    order
}

/// Returns which segments move: those at the end of the file first, each into the first free run before it that has space
/// for it, up to one that the budget has no pages for: to move those before it would not make the file shorter.
fn moves_down(segments: &[OwnedSegment], room: &mut FreeRoom, budget: &mut u64) -> Vec<Move> {
    let mut moves = Vec::new();
    for index in from_the_end(segments) {
        let segment = &segments[index].segment;
        let pages = pages_of(segment);
        let Some(left) = budget.checked_sub(pages) else {
            break;
        };
        if let Some(first_page) = room.take_before(pages, segment.first_page) {
            moves.push(Move { index, first_page });
            *budget = left;
        }
    }
    moves
}

/// Returns the pages that a segment takes in the file.
fn pages_of(segment: &Segment) -> u64 {
    let extent = segment.extent();
    extent.end - extent.start
}

/// Returns what nothing names.
fn free_room(meta: &Meta, segments: &[OwnedSegment]) -> FreeRoom {
    let mut taken: Vec<Range<u64>> =
        named(&meta.superblock, segments.iter().map(|one| &one.segment)).collect();
    taken.extend(meta.other_sections().iter().map(Section::numbers));
    FreeRoom::around(taken)
}
