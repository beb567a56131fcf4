//! A pass over all segments: a checkpoint without its I/O.

use std::ops::Range;

use super::directory::range;
use super::entry::Segment;
use super::fault::SegmentFault;
use super::image::Image;
use super::merge::{Changes, merge};
use super::packer::Packer;
use super::sorted_run::SortedRun;
use super::unplaced::UnplacedSegment;
use crate::config::memory_budget::CHANGES_AT_ONCE;
use crate::file::directory_ref::TARGET_PAGES;
use crate::page::Binding;
use crate::page::ages::Ages;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::sys::simd::dispatch::Baseline;

/// Where a pass gets what it merges, and what becomes of the result.
pub(crate) trait PassIo {
    type Error;

    /// Returns the store that the segments belong to.
    fn binding(&self) -> Binding;

    /// Replaces what `changes` holds by the changes of a range. Ranges are asked for in order, and each once.
    fn changes(&mut self, range: Range<u64>, changes: &mut OwnedChanges)
    -> Result<(), Self::Error>;

    /// Replaces what `bytes` holds by all bytes of a segment's extent.
    fn read(&mut self, segment: &Segment, bytes: &mut Vec<u8>) -> Result<(), Self::Error>;

    /// Writes a segment where nothing is named. Also returns the memory of its pages, to be used again.
    fn write(&mut self, draft: UnplacedSegment) -> Result<(Segment, Vec<u8>), Self::Error>;

    /// Returns how the numbers of new pages have ages.
    fn ages(&self) -> Ages {
        Ages::NONE
    }

    /// Returns whether a segment that is not what was written gives up what it has lost, instead of ending the pass.
    fn salvages(&self) -> bool {
        false
    }

    /// Returns whether segments without changes are read as well, to find those that are damaged.
    fn reads_all(&self) -> bool {
        false
    }

    /// Is told of fingerprints that the new segments may have, sorted.
    fn note(&mut self, _origin: Origin, _fingerprints: &[u64]) {}

    /// Returns whether it is to be told of all fingerprints, those of segments included that stay as they are.
    fn notes_all(&self) -> bool {
        false
    }

    /// Is told that the fingerprints of a segment can't be told, since it is damaged.
    fn note_damaged(&mut self) {}

    /// Returns how many pages a segment is to have, about.
    fn target_pages(&self) -> usize {
        TARGET_PAGES
    }

    /// Returns how many changes to ask for at once, about.
    fn changes_at_once(&self) -> u64 {
        CHANGES_AT_ONCE
    }

    /// Returns the error of a segment that is not what was written.
    fn fault(&self, fault: SegmentFault) -> Self::Error;
}

/// Where fingerprints come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// They were in the segments. Some may be removed.
    Old,
    /// They are added.
    New,
}

/// Changes of a range: both lists rise, and no fingerprint is in both.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnedChanges {
    pub(crate) added: Vec<u64>,
    pub(crate) removed: Vec<u64>,
}

impl OwnedChanges {
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }

    fn borrowed(&self) -> Changes<'_> {
        Changes {
            added: &self.added,
            removed: &self.removed,
        }
    }
}

/// Merges changes into the segments of a directory. Segments without changes stay as they are, unless the one before has
/// become too small and takes them in.
pub(crate) struct Pass<'a, I> {
    io: &'a mut I,
    space: FingerprintSpace,
    old: &'a [Segment],
    /// The segments that this pass is about.
    part: Range<usize>,
    /// How many changes there will be, about, in all segments.
    expected: u64,
    /// What is packed and belongs to no segment yet.
    packer: Option<Packer>,
    new: Vec<Segment>,
    changes: OwnedChanges,
    /// Where the range ends whose changes were asked for last; at first, where those of the part begin.
    asked_to: u64,
    /// The bytes of the segment that was read last.
    bytes: Vec<u8>,
    /// Memory for the pages of a segment.
    memory: Vec<u8>,
}

impl<'a, I: PassIo> Pass<'a, I> {
    pub(crate) fn new(
        io: &'a mut I,
        space: FingerprintSpace,
        old: &'a [Segment],
        expected: u64,
    ) -> Self {
        Self {
            io,
            space,
            old,
            part: 0..old.len(),
            expected,
            packer: None,
            new: Vec::with_capacity(old.len()),
            changes: OwnedChanges::default(),
            asked_to: 0,
            bytes: Vec::new(),
            memory: Vec::new(),
        }
    }

    /// Leaves all segments but these to others.
    pub(crate) fn of_part(self, part: Range<usize>) -> Self {
        let asked_to = self.old.get(part.start).map_or(0, |front| front.first);
        Self {
            part,
            asked_to,
            ..self
        }
    }

    /// Returns the segments of the new directory.
    pub(crate) fn run(mut self) -> Result<Vec<Segment>, I::Error> {
        if self.old.is_empty() {
            self.fill()?;
        }
        for index in self.part.clone() {
            self.merge(index)?;
            let end = range(self.old, index, self.space).end;
            let pages = self.packer.as_ref().map_or(0, Packer::pages);
            if pages >= self.io.target_pages() / 2 || index + 1 == self.part.end {
                self.finish(end)?;
            }
            // Changes that no call asked for would be lost with the log.
            assert_eq!(self.asked_to, end);
        }
        // What is packed and not written would be lost with the log.
        assert!(self.packer.is_none());
        assert!(self.new.is_sorted_by(|one, next| one.first < next.first));
        // The new segments begin where the old ones did: no range is left out between two parts.
        let begins = |segment: &Segment| segment.first;
        let old = self.old.get(self.part.start).map(begins);
        assert!(self.part.is_empty() || self.new.first().map(begins) == old);
        Ok(self.new)
    }

    /// Makes the first segments of a store.
    fn fill(&mut self) -> Result<(), I::Error> {
        let count = self.space.count();
        let at_once = self.io.changes_at_once();
        let mut begin = 0;
        for end in (self.space).parts_of(&(0..count), self.expected.div_ceil(at_once)) {
            self.load_changes(begin..end)?;
            if !self.changes.added.is_empty() {
                self.begin(0);
                if let Some(packer) = &mut self.packer {
                    packer.put(&self.changes.added);
                }
                self.write_full()?;
            }
            begin = end;
        }
        self.finish(count)
    }

    /// Merges one segment with its changes, or leaves it alone.
    fn merge(&mut self, index: usize) -> Result<(), I::Error> {
        let segment = self.old[index];
        let own = range(self.old, index, self.space);
        let share = (own.end - own.start) as f64 / self.space.count() as f64;
        let at_once = self.io.changes_at_once() as f64;
        let parts = (self.expected as f64 * share / at_once).ceil() as usize;
        if parts <= 1 {
            self.load_changes(own.clone())?;
            if self.is_idle() && !self.io.reads_all() {
                return self.keep(segment, own.end);
            }
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        self.io.read(&segment, &mut bytes)?;
        let merged = self.merge_image(segment, own, &bytes, parts);
        self.bytes = bytes;
        merged
    }

    /// Merges what was read of a segment, in so many parts.
    fn merge_image(
        &mut self,
        segment: Segment,
        own: Range<u64>,
        bytes: &[u8],
        parts: usize,
    ) -> Result<(), I::Error> {
        let image =
            Image::of(self.io.binding(), segment, own.end, bytes).ok_or(SegmentFault::Field {
                field: "extent",
                expected: "as many bytes as its pages have",
                got: bytes.len() as u64,
            });
        let ages = self.io.ages();
        if self.io.salvages()
            && let Ok(image) = &image
        {
            match image.is_whole() && image.check_first_numbers(self.space).is_ok() {
                true if parts <= 1 && self.is_idle() && !image.has_forgotten(ages) => {
                    if self.io.notes_all() {
                        self.note_kept(Some(image));
                    }
                    self.new.push(segment);
                    return Ok(());
                }
                true => {}
                false => return self.salvage(image, own, parts > 1),
            }
        }
        let image = image.and_then(|image| {
            image.check_fences()?;
            image.check_first_numbers(self.space)?;
            Ok(image)
        });
        let image = image.map_err(|fault| self.io.fault(fault))?;
        if ages.are_any() && parts <= 1 && self.is_idle() && !image.has_forgotten(ages) {
            if self.io.notes_all() {
                self.note_kept(Some(&image));
            }
            self.new.push(segment);
            return Ok(());
        }
        self.begin(own.start);
        let mut keys = 0;
        let at_once = (segment.pages as usize).div_ceil(parts.max(1));
        for first in (0..segment.pages as usize).step_by(at_once) {
            let pages = first..(first + at_once).min(segment.pages as usize);
            if parts > 1 {
                let part = image.range(pages.start).start..image.range(pages.end - 1).end;
                self.load_changes(part)?;
            }
            keys += self.merge_pages(&image, pages)?;
        }
        image.check_keys(keys).map_err(|fault| self.io.fault(fault))
    }

    fn load_changes(&mut self, range: Range<u64>) -> Result<(), I::Error> {
        assert_eq!(range.start, self.asked_to, "in order, and each once");
        self.asked_to = range.end;
        self.io.changes(range.clone(), &mut self.changes)?;
        // A change of another range would be packed out of order, or not at all.
        let OwnedChanges { added, removed } = &self.changes;
        for list in [added, removed] {
            let mut ends = list.first().into_iter().chain(list.last());
            assert!(ends.all(|one| range.contains(one)), "{range:?}");
            debug_assert!(list.is_sorted());
        }
        self.io.note(Origin::New, &self.changes.added);
        Ok(())
    }

    /// Leaves a segment as it is that was not read, and whose range ends here.
    fn keep(&mut self, segment: Segment, end: u64) -> Result<(), I::Error> {
        // Pages that wait to be packed lie before it.
        assert!(self.packer.is_none());
        if self.io.notes_all() {
            let mut bytes = std::mem::take(&mut self.bytes);
            self.io.read(&segment, &mut bytes)?;
            let image = Image::of(self.io.binding(), segment, end, &bytes);
            self.note_kept(image.as_ref());
            self.bytes = bytes;
        }
        self.new.push(segment);
        Ok(())
    }

    /// Notes the fingerprints of a segment that stays as it is.
    fn note_kept(&mut self, image: Option<&Image<'_>>) {
        match image.and_then(Image::list) {
            Some(list) => self.io.note(Origin::Old, &list),
            None => self.io.note_damaged(),
        }
    }

    /// Begins to pack at the first fingerprint of a range, unless what came before is to be packed together with it.
    fn begin(&mut self, first: u64) {
        let (target, ages, memory) = (self.io.target_pages(), self.io.ages(), &mut self.memory);
        self.packer.get_or_insert_with(|| {
            Packer::aiming_at(target, first, std::mem::take(memory)).with_ages(ages)
        });
    }

    /// Returns whether the segment that comes next has nothing to take in.
    fn is_idle(&self) -> bool {
        self.packer.is_none() && self.changes.borrowed().is_empty()
    }

    /// Merges what is left of a damaged segment with its changes.
    fn salvage(
        &mut self,
        image: &Image<'_>,
        range: Range<u64>,
        asks: bool,
    ) -> Result<(), I::Error> {
        if asks {
            self.load_changes(range.clone())?;
        }
        let mut merged = SortedRun::default();
        let ages = self.io.ages();
        let old = image.salvage(ages);
        self.io.note(Origin::Old, &old);
        merge(&old, self.changes.borrowed(), ages, &mut merged, Baseline);
        self.begin(range.start);
        if let Some(packer) = &mut self.packer {
            packer.put(merged.as_slice());
        }
        self.write_full()
    }

    /// Returns how many fingerprints the pages had.
    fn merge_pages(&mut self, image: &Image<'_>, pages: Range<usize>) -> Result<u64, I::Error> {
        let changes = std::mem::take(&mut self.changes);
        let (mut left, mut keys) = (changes.borrowed(), 0);
        for index in pages {
            let Some(packer) = &mut self.packer else {
                break;
            };
            let merged = image.merge(index, &mut left, packer);
            keys += u64::from(merged.map_err(|fault| self.io.fault(fault))?);
            self.io.note(Origin::Old, packer.decoded());
            self.write_full()?;
        }
        // The pages cover the range of the changes: what is left would be in none.
        assert!(left.is_empty());
        self.changes = changes;
        Ok(keys)
    }

    fn write_full(&mut self) -> Result<(), I::Error> {
        while let Some(draft) = self.packer.as_mut().and_then(Packer::take_full) {
            self.write(draft)?;
        }
        Ok(())
    }

    fn write(&mut self, draft: UnplacedSegment) -> Result<(), I::Error> {
        let (segment, memory) = self.io.write(draft)?;
        self.new.push(segment);
        if memory.capacity() > self.memory.capacity() {
            self.memory = memory;
        }
        Ok(())
    }

    /// Ends what is packed at the end of a segment's range.
    fn finish(&mut self, end: u64) -> Result<(), I::Error> {
        for draft in self
            .packer
            .take()
            .map_or(Vec::new(), |packer| packer.finish(end))
        {
            self.write(draft)?;
        }
        Ok(())
    }
}
