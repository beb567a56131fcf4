//! A store file in memory, as far as segments go.

use std::ops::Range;

use crate::codec::u64_at;
use crate::fingerprint::page::{decode, first, has_short_front};
use crate::fingerprint::segment::directory;
use crate::fingerprint::segment::entry::Segment;
use crate::fingerprint::segment::fault::SegmentFault;
use crate::fingerprint::segment::fences;
use crate::fingerprint::segment::free_room::FreeRoom;
use crate::fingerprint::segment::image::Image;
use crate::fingerprint::segment::lookup::FilePages;
use crate::fingerprint::segment::merge::Changes;
use crate::fingerprint::segment::page_index::PageIndex;
use crate::fingerprint::segment::pass::{OwnedChanges, Pass, PassIo};
use crate::fingerprint::segment::unplaced::UnplacedSegment;
use crate::page::ages::{Ages, Window};
use crate::page::fingerprint_space::FingerprintSpace;
use crate::page::{Binding, GENERATION_OFFSET, PAGE_BYTES, PAGE_WORDS, occupancy};
use crate::sys::simd::dispatch::Baseline;
use crate::sys::simd::lanes::Lanes;

/// The store that it belongs to.
pub(super) const OWN: Binding = Binding::NONE;

/// Its bytes, and the directory of its newest checkpoint.
#[derive(Clone)]
pub(super) struct File {
    pub(super) space: FingerprintSpace,
    pub(super) segments: Vec<Segment>,
    bytes: Vec<u8>,
    generation: u64,
    window: Option<Window>,
    clock: u64,
}

impl File {
    pub(super) fn new(count: u64) -> Self {
        Self {
            space: FingerprintSpace::new(count).unwrap(),
            segments: Vec::new(),
            bytes: Vec::new(),
            generation: 1,
            window: None,
            clock: 0,
        }
    }

    pub(super) fn that_forgets(count: u64, window: Window) -> Self {
        let plain = Self::new(count);
        Self {
            space: plain.space.with_ages(window.age_bits()).unwrap(),
            window: Some(window),
            ..plain
        }
    }

    /// A checkpoint that drops all that is forgotten.
    pub(super) fn checkpoint_at(&mut self, clock: u64, added: &[u64], removed: &[u64]) {
        self.clock = clock;
        self.checkpoint(added, removed);
    }

    pub(super) fn bytes(&self, pages: Range<u64>) -> &[u8] {
        &self.bytes[pages.start as usize * PAGE_BYTES..pages.end as usize * PAGE_BYTES]
    }

    pub(super) fn image(&self, index: usize) -> Image<'_> {
        let range = directory::range(&self.segments, index, self.space);
        let segment = self.segments[index];
        Image::of(OWN, segment, range.end, self.bytes(segment.extent())).unwrap()
    }

    pub(super) fn contains(&self, fingerprint: u64) -> bool {
        let first = |index: u64| self.segments[index as usize].first;
        let count = self.segments.len() as u64;
        count > 0 && {
            let index = directory::segment_of(count, self.space, first, fingerprint);
            self.image(index as usize).contains(fingerprint)
        }
    }

    pub(super) fn keys(&self) -> u64 {
        self.segments.iter().map(|segment| segment.keys).sum()
    }

    /// All fingerprints, in order.
    pub(super) fn list(&self) -> Vec<u64> {
        let mut list = Vec::new();
        for segment in &self.segments {
            let pages = segment.first_page..segment.first_fence_page();
            for page in self.bytes(pages).as_chunks().0 {
                decode(page, first(page), &mut list, Baseline).unwrap();
            }
        }
        list
    }

    pub(super) fn checkpoint(&mut self, added: &[u64], removed: &[u64]) {
        self.try_checkpoint(added, removed).unwrap();
        (0..self.segments.len()).for_each(|index| assert_eq!(self.image(index).check(), Ok(())));
    }

    /// Changes a byte of a page, and mends the page's CRC.
    pub(super) fn forge(&mut self, page: u64, at: usize, byte: u8) {
        let begin = page as usize * PAGE_BYTES;
        let bytes = &mut self.bytes[begin..begin + PAGE_BYTES];
        bytes[at] = byte;
        OWN.seal(
            page,
            u64_at(bytes, GENERATION_OFFSET),
            occupancy(bytes),
            bytes,
        );
    }

    /// Merges changes, and writes the result where the directory of before has nothing.
    pub(super) fn try_checkpoint(
        &mut self,
        added: &[u64],
        removed: &[u64],
    ) -> Result<(), SegmentFault> {
        self.generation += 1;
        let old = self.segments.clone();
        let mut disk = Disk {
            room: FreeRoom::around(old.iter().map(Segment::extent)),
            left: Changes { added, removed },
            asked: 0,
            file: &mut *self,
        };
        let (space, expected) = (disk.file.space, (added.len() + removed.len()) as u64);
        let before = disk.file.bytes.clone();
        let segments = Pass::new(&mut disk, space, &old, expected).run()?;
        assert!(disk.left.is_empty());
        // What the directory of before names is as it was.
        for extent in old.iter().map(Segment::extent) {
            let bytes = extent.start as usize * PAGE_BYTES..extent.end as usize * PAGE_BYTES;
            assert!(self.bytes[bytes.clone()] == before[bytes]);
        }
        self.segments = segments;
        assert_eq!(directory::check(&self.segments, space), Ok(()));
        Ok(())
    }
}

/// A checkpoint of the file.
struct Disk<'a> {
    file: &'a mut File,
    room: FreeRoom,
    left: Changes<'a>,
    asked: u64,
}

impl PassIo for Disk<'_> {
    type Error = SegmentFault;

    fn binding(&self) -> Binding {
        OWN
    }

    fn ages(&self) -> Ages {
        let window = self.file.window;
        window.map_or(Ages::NONE, |window| Ages::at(window, self.file.clock))
    }

    fn reads_all(&self) -> bool {
        self.ages().are_any()
    }

    fn changes(
        &mut self,
        range: Range<u64>,
        changes: &mut OwnedChanges,
    ) -> Result<(), SegmentFault> {
        assert_eq!(range.start, self.asked);
        self.asked = range.end;
        let taken = self.left.take_below(range.end);
        changes.added = taken.added.to_vec();
        changes.removed = taken.removed.to_vec();
        Ok(())
    }

    fn read(&mut self, segment: &Segment, bytes: &mut Vec<u8>) -> Result<(), SegmentFault> {
        bytes.clear();
        bytes.extend_from_slice(self.file.bytes(segment.extent()));
        Ok(())
    }

    fn write(&mut self, draft: UnplacedSegment) -> Result<(Segment, Vec<u8>), SegmentFault> {
        let pages = draft.pages_in_file();
        let first_page = self.room.take(pages).unwrap();
        let (segment, bytes) = draft.place(OWN, first_page, self.file.generation);
        assert_eq!(bytes.len() as u64, pages * PAGE_BYTES as u64);
        let begin = first_page as usize * PAGE_BYTES;
        let end = begin + bytes.len();
        self.file.bytes.resize(self.file.bytes.len().max(end), 0);
        self.file.bytes[begin..end].copy_from_slice(&bytes);
        Ok((segment, bytes))
    }

    fn fault(&self, fault: SegmentFault) -> SegmentFault {
        fault
    }
}

impl File {
    fn page(&self, number: u64) -> &[u8; PAGE_BYTES] {
        self.bytes(number..number + 1).try_into().unwrap()
    }

    /// An index that knows of no fence yet.
    pub(super) fn index(&self) -> PageIndex {
        let pages = self.bytes.len() / PAGE_BYTES;
        PageIndex::of(&self.segments, pages as u64).unwrap()
    }
}

impl FilePages for &File {
    fn word<V: Lanes>(self, page: V, index: V) -> V {
        let place = |lane| index.lane(lane) as usize % PAGE_WORDS * 8;
        V::each(|lane| u64_at(self.page(page.lane(lane)), place(lane)))
    }

    fn bytes<V: Lanes>(self, page: V, byte: V) -> V {
        let place = |lane| byte.lane(lane).min(PAGE_BYTES as u64 - 8) as usize;
        V::each(|lane| u64_at(self.page(page.lane(lane)), place(lane)))
    }

    fn prefetch<V: Lanes>(self, page: V, index: V) {
        // What is not there can't be asked for.
        self.word(page, index);
    }

    // Checked after each checkpoint.
    fn fences(self, segment: usize) -> Result<Vec<u64>, SegmentFault> {
        let segment = &self.segments[segment];
        let word = |page: u64| {
            let place = fences::place(page);
            let number = segment.first_fence_page() + place / PAGE_WORDS as u64;
            u64_at(self.page(number), place as usize % PAGE_WORDS * 8)
        };
        Ok((0..segment.pages.into()).map(word).collect())
    }

    fn check_list(self, _segment: usize, number: u64, fence: u64) -> Result<bool, SegmentFault> {
        assert_eq!(first(self.page(number)), fence);
        Ok(has_short_front(self.page(number)))
    }
}

/// The file, where some pages don't stand the check.
#[derive(Clone, Copy)]
pub(super) struct Damaged<'a> {
    pub(super) file: &'a File,
    /// Every so many pages one is damaged.
    pub(super) every: u64,
    pub(super) are_fences_whole: bool,
}

impl Damaged<'_> {
    /// Asserts that no page is read that doesn't stand the check: it may be a hole. The file's header is none of them.
    fn expect_whole(self, pages: impl Lanes) {
        pages.for_each(|page| assert!(page == 0 || !page.is_multiple_of(self.every), "{page}"));
    }
}

impl FilePages for Damaged<'_> {
    fn word<V: Lanes>(self, page: V, index: V) -> V {
        self.expect_whole(page);
        self.file.word(page, index)
    }

    fn bytes<V: Lanes>(self, page: V, byte: V) -> V {
        self.expect_whole(page);
        FilePages::bytes(self.file, page, byte)
    }

    fn prefetch<V: Lanes>(self, page: V, index: V) {
        self.file.prefetch(page, index);
    }

    fn fences(self, segment: usize) -> Result<Vec<u64>, SegmentFault> {
        match self.are_fences_whole {
            true => self.file.fences(segment),
            false => Err(SegmentFault::Field {
                field: "fences",
                expected: "whole",
                got: segment as u64,
            }),
        }
    }

    fn check_list(self, _segment: usize, number: u64, _fence: u64) -> Result<bool, SegmentFault> {
        match number.is_multiple_of(self.every) {
            true => Err(SegmentFault::Field {
                field: "page",
                expected: "whole",
                got: number,
            }),
            false => Ok(true),
        }
    }
}
