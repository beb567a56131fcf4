//! The segments in a delta: checked, as its pages are read one by one (docs/format/deltas.md, "Deltas").

use crate::file::directory_ref::SEGMENTS_IN_PAGE;
use crate::file::{DeltaError, DirectoryRef, Superblock};
use crate::fingerprint::directory_file::{check_whole, named};
use crate::fingerprint::page::first;
use crate::fingerprint::segment::directory::{decode_page, range};
use crate::fingerprint::segment::entry::Segment;
use crate::fingerprint::segment::fault::SegmentFault;
use crate::fingerprint::segment::image::Image;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::page::{Binding, PAGE_BYTES};

/// The directory of a delta, and the segments that it carries, as far as they have been read.
pub(crate) struct CarriedSegments<'a> {
    superblock: &'a Superblock,
    directory: DirectoryRef,
    space: FingerprintSpace,
    binding: Binding,
    /// The segments of the new moment, those that are not in the delta too.
    segments: Vec<Segment>,
    /// Which of them are in the delta.
    carried: Vec<usize>,
    /// The pages of the last one of these.
    bytes: Vec<u8>,
}

impl<'a> CarriedSegments<'a> {
    pub(crate) fn new(
        superblock: &'a Superblock,
        directory: DirectoryRef,
        (space, binding): (FingerprintSpace, Binding),
    ) -> Self {
        Self {
            superblock,
            directory,
            space,
            binding,
            segments: Vec::new(),
            carried: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Takes the next page. Returns a segment and its pages if this is the last of them.
    pub(crate) fn take(
        &mut self,
        page: &[u8; PAGE_BYTES],
    ) -> Result<Option<(Segment, &[u8])>, DeltaError> {
        if !self.has_directory() {
            self.take_of_directory(page)?;
            return Ok(None);
        }
        let index = match self.missing_bytes() {
            0 => self.begin(first(page))?,
            _ => self.carried[self.carried.len() - 1],
        };
        self.bytes.extend_from_slice(page);
        if self.missing_bytes() > 0 {
            return Ok(None);
        }
        let segment = self.segments[index];
        let end = range(&self.segments, index, self.space).end;
        let image = Image::of(self.binding, segment, end, &self.bytes);
        let checked = image.map_or(Ok(()), |image| image.check_headers());
        checked.map_err(unusable)?;
        Ok(Some((segment, &self.bytes)))
    }

    /// Returns all segments of the new moment, and those of them that are not in the delta. All `pages` of the delta were
    /// taken.
    pub(crate) fn finish(self, pages: u64) -> Result<(Vec<Segment>, Vec<Segment>), DeltaError> {
        if !self.has_directory() || self.missing_bytes() > 0 {
            return Err(DeltaError::Field {
                field: "pages",
                expected: "those of the directory and of whole segments",
                got: pages,
            });
        }
        let indices = 0..self.segments.len();
        let kept = indices.filter(|index| self.carried.binary_search(index).is_err());
        let kept = kept.map(|index| self.segments[index]).collect();
        Ok((self.segments, kept))
    }

    fn has_directory(&self) -> bool {
        self.segments.len() as u64 == self.directory.segments
    }

    /// Returns how many bytes the last carried segment lacks.
    fn missing_bytes(&self) -> usize {
        let last = self.carried.last().map(|index| self.segments[*index]);
        let pages = last.map_or(0, |segment| segment.extent().end - segment.first_page);
        pages as usize * PAGE_BYTES - self.bytes.len()
    }

    fn take_of_directory(&mut self, page: &[u8; PAGE_BYTES]) -> Result<(), DeltaError> {
        let read = self.segments.len() as u64;
        let count = (self.directory.segments - read).min(SEGMENTS_IN_PAGE) as usize;
        let number = self.directory.places[0] + read / SEGMENTS_IN_PAGE;
        let (generation, end) = (self.directory.generation, self.directory.end_page);
        let found =
            decode_page(self.binding, page, number, generation, count, end).map_err(unusable)?;
        self.segments.extend(found);
        match self.has_directory() {
            true => self.check_directory().map_err(unusable),
            false => Ok(()),
        }
    }

    fn check_directory(&self) -> Result<(), SegmentFault> {
        check_whole(&self.directory, &self.segments, self.space)?;
        let mut all: Vec<_> = named(self.superblock, &self.segments).collect();
        all.sort_unstable_by_key(|pages| pages.start);
        let mut pairs = all.windows(2);
        match pairs.find(|pair| pair[1].start < pair[0].end) {
            Some(pair) => Err(SegmentFault::Shared {
                number: pair[1].start,
            }),
            None => Ok(()),
        }
    }

    /// Begins the segment with this first fingerprint.
    fn begin(&mut self, first: u64) -> Result<usize, DeltaError> {
        let next = self.carried.last().map_or(0, |last| last + 1);
        let found = self.segments[next..].binary_search_by_key(&first, |segment| segment.first);
        let Ok(found) = found else {
            return Err(DeltaError::Field {
                field: "first",
                expected: "a segment's, above the one before",
                got: first,
            });
        };
        self.carried.push(next + found);
        self.bytes.clear();
        Ok(next + found)
    }
}

fn unusable(fault: SegmentFault) -> DeltaError {
    DeltaError::SegmentDamaged {
        page: fault.page(),
        reason: fault.to_string(),
    }
}
