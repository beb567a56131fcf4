//! The segments in a delta: checked, as its pages are read one by one (docs/format/deltas.md, "Deltas").

use crate::file::directory_ref::SEGMENTS_IN_PAGE;
use crate::file::{DeltaError, DirectoryRef, Superblock};
use crate::fingerprint::directory_file::{check_whole, check_whole_run, named};
use crate::fingerprint::page::first;
use crate::fingerprint::runs::run_directories::RunSegments;
use crate::fingerprint::segment::directory::{check_apart, decode_page};
use crate::fingerprint::segment::entry::Segment;
use crate::fingerprint::segment::fault::{SegmentFault, check_sealed};
use crate::fingerprint::segment::image::Image;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::page::{Binding, PAGE_BYTES};

/// The directories of a delta, and the segments that it carries, as far as they have been read.
pub(crate) struct CarriedSegments<'a> {
    superblock: &'a Superblock,
    /// Those of all runs, the oldest first.
    directories: Vec<DirectoryRef>,
    space: FingerprintSpace,
    binding: Binding,
    /// The runs of the new moment, with segments that are not in the delta too, as far as their directories were read.
    runs: Vec<RunSegments>,
    /// The segments of all of them, each with where its range ends, once all directories were read.
    segments: Vec<(Segment, u64)>,
    /// Which of them are in the delta.
    carried: Vec<usize>,
    /// The pages of the last one of these.
    bytes: Vec<u8>,
}

impl<'a> CarriedSegments<'a> {
    /// Begins with the directories that a superblock names.
    pub(crate) fn new(
        superblock: &'a Superblock,
        (space, binding): (FingerprintSpace, Binding),
    ) -> Self {
        let begins = std::iter::once(0).chain(superblock.runs().iter().map(|run| run.begin));
        let runs = begins.map(|begin| RunSegments {
            segments: Vec::new(),
            begin,
            damaged: Vec::new(),
        });
        Self {
            superblock,
            directories: superblock.directories().copied().collect(),
            space,
            binding,
            runs: runs.collect(),
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
        if let Some(run) = self.unread() {
            self.take_of_directory(run, page)?;
            return Ok(None);
        }
        let index = match self.missing_bytes() {
            0 => self.begin(page)?,
            _ => self.carried[self.carried.len() - 1],
        };
        self.bytes.extend_from_slice(page);
        if self.missing_bytes() > 0 {
            return Ok(None);
        }
        let (segment, end) = self.segments[index];
        let image = Image::of(self.binding, segment, end, &self.bytes);
        let checked = image.map_or(Ok(()), |image| image.check_headers());
        checked.map_err(unusable)?;
        Ok(Some((segment, &self.bytes)))
    }

    /// Returns the runs of the new moment, and those of their segments that are not in the delta. All `pages` of the delta
    /// were taken.
    pub(crate) fn finish(self, pages: u64) -> Result<(Vec<RunSegments>, Vec<Segment>), DeltaError> {
        if self.unread().is_some() || self.missing_bytes() > 0 {
            return Err(DeltaError::Field {
                field: "pages",
                expected: "those of the directory and of whole segments",
                got: pages,
            });
        }
        // A run without its directory would be no part of the copy.
        assert_eq!(self.runs.len(), self.directories.len());
        // What is carried is looked for by halves.
        assert!(self.carried.is_sorted_by(|one, next| one < next));
        let indices = 0..self.segments.len();
        let kept = indices.filter(|index| self.carried.binary_search(index).is_err());
        let kept = kept.map(|index| self.segments[index].0).collect();
        Ok((self.runs, kept))
    }

    /// Returns the first run whose directory was not all read.
    fn unread(&self) -> Option<usize> {
        let mut runs = self.runs.iter().zip(&self.directories);
        runs.position(|(run, directory)| (run.segments.len() as u64) < directory.segments)
    }

    /// Returns how many bytes the last carried segment lacks.
    fn missing_bytes(&self) -> usize {
        let last = self.carried.last().map(|index| self.segments[*index].0);
        let pages = last.map_or(0, |segment| segment.extent().end - segment.first_page);
        pages as usize * PAGE_BYTES - self.bytes.len()
    }

    fn take_of_directory(&mut self, run: usize, page: &[u8; PAGE_BYTES]) -> Result<(), DeltaError> {
        let directory = self.directories[run];
        let read = self.runs[run].segments.len() as u64;
        let count = (directory.segments - read).min(SEGMENTS_IN_PAGE) as usize;
        let number = directory.places[0] + read / SEGMENTS_IN_PAGE;
        let (generation, end) = (directory.generation, directory.end_page);
        let found =
            decode_page(self.binding, page, number, generation, count, end).map_err(unusable)?;
        self.runs[run].segments.extend(found);
        match self.unread() {
            None => self.check_directories().map_err(unusable),
            Some(_) => Ok(()),
        }
    }

    fn check_directories(&mut self) -> Result<(), SegmentFault> {
        check_whole(&self.directories[0], &self.runs[0].segments, self.space)?;
        for (run, found) in self.superblock.runs().iter().zip(&self.runs[1..]) {
            check_whole_run(run, &found.segments, self.space)?;
        }
        let all = self.runs.iter().flat_map(|run| &run.segments);
        check_apart(named(self.superblock, all))?;
        let space = self.space;
        let with_ends = self.runs.iter().flat_map(|run| run.with_ends(space));
        self.segments = with_ends.map(|(segment, end)| (*segment, end)).collect();
        Ok(())
    }

    /// Begins the segment whose first page this is: of those after the last one carried that begin with its first
    /// fingerprint, the first for whose place the page is sealed. Without runs there is no other.
    fn begin(&mut self, page: &[u8; PAGE_BYTES]) -> Result<usize, DeltaError> {
        let next = self.carried.last().map_or(0, |last| last + 1);
        let first = first(page);
        let of_first = |index: &usize| self.segments[*index].0.first == first;
        let mut found: Vec<usize> = (next..self.segments.len()).filter(of_first).collect();
        if found.len() > 1 {
            found.retain(|index| {
                let segment = &self.segments[*index].0;
                check_sealed(self.binding, segment.first_page, segment.generation, page).is_ok()
            });
        }
        let Some(found) = found.first() else {
            return Err(DeltaError::Field {
                field: "first",
                expected: "a segment's, above the one before",
                got: first,
            });
        };
        self.carried.push(*found);
        self.bytes.clear();
        Ok(*found)
    }
}

fn unusable(fault: SegmentFault) -> DeltaError {
    DeltaError::SegmentDamaged {
        page: fault.page(),
        reason: fault.to_string(),
    }
}
