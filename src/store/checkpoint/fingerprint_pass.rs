//! The pass of a checkpoint over the segments of a store of fingerprints. It writes where nobody looks: to pages that no
//! superblock names.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::error::{Error, Result};
use crate::file::directory_ref::directory_pages;
use crate::file::layout::page_offset;
use crate::file::{DirectoryRef, Section, Superblock};
use crate::page::space::Space;
use crate::segment::absence_filter::AbsenceFilter;
use crate::segment::draft::Draft;
use crate::segment::entry::Segment;
use crate::segment::fault::SegmentFault;
use crate::segment::free_room::FreeRoom;
use crate::segment::pages::SegmentPages;
use crate::segment::pass::{Origin, OwnedChanges, Pass, PassIo};
use crate::store::checkpoint::absence_update::{AbsenceUpdate, Merge};
use crate::store::checkpoint::aligned_writer::AlignedWriter;
use crate::store::checkpoint::chunk_writer::{PageAccess, Workers};
use crate::store::checkpoint::room_share::RoomShare;
use crate::store::checkpoint::two_threads::do_both;
use crate::store::config::damage_policy::OnDamage;
use crate::store::generation::change_stream::{ChangeSource, ChangeStream};
use crate::store::storefile::meta::Meta;
use crate::store::storefile::segment_directory::{
    named, raise_reused, read_directory, read_segment, write_directory,
};

/// Segments from which on two threads merge them.
const LEAST_FOR_TWO: usize = 8;

/// A checkpoint of a store of fingerprints: what it may not write to, and what it merges.
pub(crate) struct FingerprintPass<'a> {
    access: PageAccess<'a>,
    space: Space,
    directory: DirectoryRef,
    old: Vec<Segment>,
    /// The sequence of the superblock that ends the checkpoint.
    sequence: u64,
    room: Mutex<FreeRoom>,
    named: Vec<Range<u64>>,
}

impl<'a> FingerprintPass<'a> {
    /// Reads the directory, and makes sure that nothing but it is named, so that all other room is free.
    pub(crate) fn begin(
        access: PageAccess<'a>,
        meta: &Meta,
        directory: DirectoryRef,
        space: Space,
    ) -> Result<Self> {
        let file = access.file;
        let found = read_directory(&*file.raw, &file.place, &directory, space)?;
        let mut sequence = meta.superblock.sequence + 1;
        let other = meta.other.as_ref();
        if other.is_none_or(|other| other.directory != Some(directory)) {
            // A process died, or the disk failed, between the two superblocks of a checkpoint.
            file.write_superblock(&Superblock {
                sequence,
                ..meta.superblock.clone()
            })?;
            sequence += 1;
        }
        raise_reused(&*file.raw, &file.place, directory.version)?;
        let mut named: Vec<_> = named(&meta.superblock, &found.segments).collect();
        named.extend(meta.other_sections().iter().map(Section::numbers));
        Ok(Self {
            access,
            space,
            directory,
            old: found.segments,
            sequence,
            room: Mutex::new(FreeRoom::around(named.clone())),
            named,
        })
    }

    /// Returns the pages that are named.
    pub(crate) fn named(&self) -> Vec<Range<u64>> {
        self.named.clone()
    }

    /// Spares sections that this checkpoint has written.
    pub(crate) fn spare(&mut self, sections: &[Section]) {
        self.named.extend(sections.iter().map(Section::numbers));
        self.room = Mutex::new(FreeRoom::around(self.named.clone()));
    }

    /// Returns the sequence of the superblock that ends the checkpoint.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Merges changes, about as many as `merge` says, and writes the segments and the directory that result. Syncs nothing.
    /// Also returns the filter of the segments if they are new ones. `held` are those of before as this handle has them.
    pub(crate) fn run(
        &mut self,
        source: ChangeSource<'_>,
        merge: &Merge,
        held: Option<&SegmentPages>,
    ) -> Result<(DirectoryRef, Option<Arc<AbsenceFilter>>)> {
        let absence = AbsenceUpdate::begin(self.access.options, self.space, merge, held);
        let segments = self.merge(source, merge, &absence)?;
        if segments == self.old && !self.access.state.is_repairing() {
            return Ok((self.directory, None));
        }
        let directory = self.write_directory(&segments, merge.generation)?;
        Ok((directory, absence.into_filter()))
    }

    /// Merges changes, on two threads if a caller waits.
    fn merge(
        &self,
        source: ChangeSource<'_>,
        merge: &Merge,
        absence: &AbsenceUpdate,
    ) -> Result<Vec<Segment>> {
        let all = self.old.len();
        let workers = merge.occasion.workers(self.access.options);
        match source {
            // Each thread would read the whole of a log.
            ChangeSource::Buffer(buffer) if workers == Workers::Two && all >= LEAST_FOR_TWO => {
                let merge_part = |part: Range<usize>| {
                    let pages = self.pages_after(merge, part.clone());
                    let io = self.io(ChangeSource::Buffer(buffer), merge, absence, pages);
                    self.merge_part(io, merge.count, part)
                };
                let (first, second) = (|| merge_part(0..all / 2), || merge_part(all / 2..all));
                let (mut segments, others) = do_both(first, second)?;
                segments.extend(others);
                Ok(segments)
            }
            source => self.merge_part(self.io(source, merge, absence, 0), merge.count, 0..all),
        }
    }

    /// Returns how many pages a part of the segments will have, about, and one segment more.
    fn pages_after(&self, merge: &Merge, part: Range<usize>) -> u64 {
        let extents = self.old[part].iter().map(Segment::extent);
        let pages: u64 = extents.map(|extent| extent.end - extent.start).sum();
        let keys = self.directory.keys.max(1);
        let grown = u128::from(pages) * u128::from(keys.saturating_add(merge.count));
        let grown = u64::try_from(grown / u128::from(keys)).unwrap_or(u64::MAX);
        grown.saturating_add(self.access.options.segment_pages)
    }

    fn io<'p>(
        &'p self,
        source: ChangeSource<'p>,
        merge: &Merge,
        absence: &'p AbsenceUpdate,
        pages_at_once: u64,
    ) -> SegmentIo<'a, 'p> {
        let most = self.access.options.chunk_keys();
        SegmentIo {
            access: self.access,
            room: RoomShare::new(&self.room, pages_at_once),
            changes: ChangeStream::new(source, self.space, most),
            generation: merge.generation,
            writer: AlignedWriter::new(self.access.file),
            absence,
        }
    }

    fn merge_part(
        &self,
        mut io: SegmentIo<'_, '_>,
        count: u64,
        part: Range<usize>,
    ) -> Result<Vec<Segment>> {
        let pass = Pass::new(&mut io, self.space, &self.old, count).of_part(part);
        let segments = pass.run().map_err(|failure| failure.0)?;
        io.writer.finish()?;
        Ok(segments)
    }

    fn write_directory(&mut self, segments: &[Segment], generation: u64) -> Result<DirectoryRef> {
        let pages = directory_pages(segments.len() as u64);
        let file = self.access.file;
        let mut room = RoomShare::new(&self.room, 0);
        let places = [
            take(self.access, &mut room, pages)?,
            take(self.access, &mut room, pages)?,
        ];
        drop(room);
        let (version, path) = (self.sequence, &*file.place);
        write_directory(&*file.raw, path, segments, places, (version, generation))
    }
}

fn take(access: PageAccess<'_>, room: &mut RoomShare<'_>, pages: u64) -> Result<u64> {
    room.take(pages).ok_or_else(|| Error::NoSpace {
        action: "find room in",
        path: access.file.place.to_path_buf(),
    })
}

/// The store file, as a pass sees it.
struct SegmentIo<'a, 'p> {
    access: PageAccess<'a>,
    room: RoomShare<'p>,
    changes: ChangeStream<'p>,
    generation: u64,
    writer: AlignedWriter<'a>,
    absence: &'p AbsenceUpdate,
}

/// Why a pass ended.
struct PassFailure(Error);

impl From<Error> for PassFailure {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl SegmentIo<'_, '_> {
    fn damaged(&self, fault: SegmentFault) -> PassFailure {
        PassFailure(self.access.file.format_error(fault.into()))
    }
}

impl PassIo for SegmentIo<'_, '_> {
    type Error = PassFailure;

    fn changes(
        &mut self,
        range: Range<u64>,
        changes: &mut OwnedChanges,
    ) -> Result<(), PassFailure> {
        Ok(self.changes.load(range, changes)?)
    }

    fn read(&mut self, segment: &Segment, bytes: &mut Vec<u8>) -> Result<(), PassFailure> {
        let file = self.access.file;
        Ok(read_segment(&*file.raw, &file.place, segment, bytes)?)
    }

    fn write(&mut self, draft: Draft) -> Result<(Segment, Vec<u8>), PassFailure> {
        let first_page = take(self.access, &mut self.room, draft.pages_in_file())?;
        let (segment, bytes) = draft.place(first_page, self.generation);
        self.writer.write(&bytes, page_offset(first_page))?;
        Ok((segment, bytes))
    }

    fn salvages(&self) -> bool {
        self.access.options.on_damage == OnDamage::NeverSeen
    }

    fn reads_all(&self) -> bool {
        self.access.state.is_repairing()
    }

    fn note(&mut self, origin: Origin, fingerprints: &[u64]) {
        self.absence.note(origin, fingerprints);
    }

    fn notes_all(&self) -> bool {
        self.absence.notes_all()
    }

    fn note_damaged(&mut self) {
        self.absence.note_damaged();
    }

    fn target_pages(&self) -> usize {
        self.access.options.segment_pages as usize
    }

    fn fault(&self, fault: SegmentFault) -> PassFailure {
        self.damaged(fault)
    }
}
