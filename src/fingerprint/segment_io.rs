//! The store file, as a pass of a checkpoint sees it.

use std::ops::Range;

use crate::config::damage_policy::OnDamage;
use crate::error::{Error, Result};
use crate::file::layout::page_offset;
use crate::fingerprint::aligned_writer::AlignedWriter;
use crate::fingerprint::changes::ChangeStream;
use crate::fingerprint::directory_file::read_segment;
use crate::fingerprint::negative_filter_update::NegativeFilterUpdate;
use crate::fingerprint::room_share::RoomShare;
use crate::fingerprint::runs::young_changes::YoungChanges;
use crate::fingerprint::segment::entry::Segment;
use crate::fingerprint::segment::fault::SegmentFault;
use crate::fingerprint::segment::pass::{Origin, OwnedChanges, PassIo};
use crate::fingerprint::segment::unplaced::UnplacedSegment;
use crate::page::ages::Ages;
use crate::page::{Binding, PAGE_BYTES};
use crate::page_io::PageAccess;

/// Where new segments go.
pub(super) struct SegmentWriter<'a, 'p> {
    access: PageAccess<'a>,
    room: RoomShare<'p>,
    binding: Binding,
    generation: u64,
    pages: AlignedWriter<'a>,
}

impl<'a, 'p> SegmentWriter<'a, 'p> {
    /// Returns one for segments of a generation, which takes its pages from `room`.
    pub(super) fn new(
        access: PageAccess<'a>,
        room: RoomShare<'p>,
        (binding, generation): (Binding, u64),
    ) -> Self {
        let file = access.file;
        // Without the length, all of the file is taken for new.
        let length = file.raw.length().unwrap_or(0);
        Self {
            access,
            room,
            binding,
            generation,
            pages: AlignedWriter::new(length, |bytes, offset| file.write_pages(bytes, offset)),
        }
    }

    /// Writes a segment to free pages, and returns it with its bytes.
    pub(super) fn write(&mut self, draft: UnplacedSegment) -> Result<(Segment, Vec<u8>)> {
        let draft_pages = draft.pages_in_file();
        let first_page = take(self.access, &mut self.room, draft_pages)?;
        let (segment, bytes) = draft.place(self.binding, first_page, self.generation);
        // Behind them lies room that is not this segment's (I5).
        assert_eq!(bytes.len() as u64, draft_pages * PAGE_BYTES as u64);
        self.pages.write(&bytes, page_offset(first_page))?;
        self.access.state.note_written(draft_pages);
        Ok((segment, bytes))
    }

    /// Writes what waits for a border of the file.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.pages.finish()
    }
}

/// What a pass reads and writes.
pub(super) struct SegmentIo<'a, 'p, 's> {
    pub(super) access: PageAccess<'a>,
    pub(super) changes: &'p mut ChangeStream<'s>,
    pub(super) young: YoungChanges<'p>,
    pub(super) changes_at_once: u64,
    pub(super) out: SegmentWriter<'a, 'p>,
    pub(super) negative_filter: &'p NegativeFilterUpdate,
    /// How pages are written, and whether keys may be too old for that.
    pub(super) ages: (Ages, bool),
}

/// Why a pass ended.
pub(super) struct PassFailure(pub(super) Error);

impl From<Error> for PassFailure {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl SegmentIo<'_, '_, '_> {
    fn damaged(&self, fault: SegmentFault) -> PassFailure {
        PassFailure(self.access.file.format_error(fault.into()))
    }
}

impl PassIo for SegmentIo<'_, '_, '_> {
    type Error = PassFailure;

    fn binding(&self) -> Binding {
        self.out.binding
    }

    fn changes(
        &mut self,
        range: Range<u64>,
        changes: &mut OwnedChanges,
    ) -> Result<(), PassFailure> {
        let end = range.end;
        self.changes.load(range, changes)?;
        Ok(self.young.add_to(changes, end)?)
    }

    fn read(&mut self, segment: &Segment, bytes: &mut Vec<u8>) -> Result<(), PassFailure> {
        let file = self.access.file;
        Ok(read_segment(&*file.raw, &file.place, segment, bytes)?)
    }

    fn write(&mut self, draft: UnplacedSegment) -> Result<(Segment, Vec<u8>), PassFailure> {
        Ok(self.out.write(draft)?)
    }

    fn ages(&self) -> Ages {
        self.ages.0
    }

    fn salvages(&self) -> bool {
        self.access.options.on_damage == OnDamage::NeverSeen
    }

    fn changes_at_once(&self) -> u64 {
        self.changes_at_once
    }

    fn reads_all(&self) -> bool {
        self.access.state.is_repairing() || self.ages.1
    }

    fn note(&mut self, origin: Origin, fingerprints: &[u64]) {
        self.negative_filter.note(origin, fingerprints);
    }

    fn notes_all(&self) -> bool {
        self.negative_filter.notes_all()
    }

    fn note_damaged(&mut self) {
        self.negative_filter.note_damaged();
    }

    fn target_pages(&self) -> usize {
        self.access.options.segment_pages as usize
    }

    fn fault(&self, fault: SegmentFault) -> PassFailure {
        self.damaged(fault)
    }
}

/// Takes room for both copies of a directory of so many pages.
pub(super) fn take_for_copies(
    access: PageAccess<'_>,
    mut room: RoomShare<'_>,
    pages: u64,
) -> Result<[u64; 2]> {
    let places = [
        take(access, &mut room, pages)?,
        take(access, &mut room, pages)?,
    ];
    access.state.note_written(2 * pages);
    Ok(places)
}

/// Takes this many free pages that lie together, and returns the first.
fn take(access: PageAccess<'_>, room: &mut RoomShare<'_>, pages: u64) -> Result<u64> {
    room.take(pages).ok_or_else(|| Error::NoSpace {
        action: "find room in",
        path: access.file.place.to_path_buf(),
    })
}
