//! The segments of a file that no checkpoint changes meanwhile: a copy, or a quiesced store.

use std::ops::Range;
use std::path::Path;

use crate::error::{Error, Result};
use crate::file::Superblock;
use crate::file::copy::digest_of;
use crate::file::layout::page_offset;
use crate::fingerprint::directory_file::{expect_directory, named};
use crate::fingerprint::runs::run_directories::{RunSegments, read_runs};
use crate::fingerprint::segment::entry::Segment;
use crate::fingerprint::segment::free_room::FreeRoom;
use crate::fingerprint::segment::image::Image;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::page::{Binding, PAGE_BYTES};
use crate::storefile::page_scan::clear;
use crate::storefile::progress::Watched;
use crate::storefile::still_file::StillFile;
use crate::sys::storage::{StorageFile, read_exact_at};

/// Reads the segments that a superblock of a file names.
pub(crate) struct SegmentReader<'a> {
    file: &'a dyn StorageFile,
    path: &'a Path,
    superblock: &'a Superblock,
    space: FingerprintSpace,
    pub(crate) binding: Binding,
    /// The oldest first.
    runs: Vec<RunSegments>,
}

impl<'a> SegmentReader<'a> {
    /// Reads the directories of a store of fingerprints.
    pub(crate) fn of(still: StillFile<'a>) -> Result<Self> {
        let StillFile {
            file,
            path,
            header,
            superblock,
        } = still;
        let (_, space) = expect_directory(path, superblock, header.space())?;
        Self::open(file, path, superblock, (space, header.binding()))
    }

    pub(crate) fn open(
        file: &'a dyn StorageFile,
        path: &'a Path,
        superblock: &'a Superblock,
        (space, binding): (FingerprintSpace, Binding),
    ) -> Result<Self> {
        Ok(Self {
            file,
            path,
            superblock,
            space,
            binding,
            runs: read_runs(file, path, superblock, (Some(space), binding))?,
        })
    }

    /// Returns all runs, the oldest first.
    pub(crate) fn runs(&self) -> &[RunSegments] {
        &self.runs
    }

    /// Returns the segments of all runs, each with where its range ends.
    pub(crate) fn with_ends(&self) -> impl Iterator<Item = (&Segment, u64)> {
        self.runs.iter().flat_map(|run| run.with_ends(self.space))
    }

    /// Checks all pages and returns their digest, that of the directories' pages included.
    pub(crate) fn check(&self, watched: &mut Watched<'_>) -> Result<u64> {
        let mut digest = self.digest_of_directories()?;
        for (segment, end) in self.with_ends() {
            let bytes = self.read(segment)?;
            self.check_segment((segment, end), &bytes)?;
            digest = digest.wrapping_add(digest_of_pages(segment.first_page, &bytes));
            watched.pages(segment.extent())?;
        }
        Ok(digest)
    }

    /// Checks the headers and CRCs of a segment's pages, which were read before.
    pub(crate) fn check_segment(
        &self,
        (segment, end): (&Segment, u64),
        bytes: &[u8],
    ) -> Result<()> {
        let image = Image::of(self.binding, *segment, end, bytes);
        // With more or fewer pages nothing would be checked.
        assert!(image.is_some(), "{segment:?} in {} bytes", bytes.len());
        match image.map(|image| image.check_headers()) {
            Some(Err(fault)) => Err(Error::Format {
                path: self.path.to_owned(),
                source: fault.into(),
            }),
            _ => Ok(()),
        }
    }

    /// Returns the digest of both copies of all directories.
    pub(crate) fn digest_of_directories(&self) -> Result<u64> {
        let directories = self.superblock.directories();
        let mut copies = directories.flat_map(|directory| directory.copies());
        copies.try_fold(0, |digest: u64, copy| {
            let bytes = self.read_pages(&copy)?;
            Ok(digest.wrapping_add(digest_of_pages(copy.start, &bytes)))
        })
    }

    /// Returns all pages of a segment.
    pub(crate) fn read(&self, segment: &Segment) -> Result<Vec<u8>> {
        self.read_pages(&segment.extent())
    }

    fn read_pages(&self, pages: &Range<u64>) -> Result<Vec<u8>> {
        let mut bytes = vec![0; (pages.end - pages.start) as usize * PAGE_BYTES];
        read_exact_at(self.file, &mut bytes, page_offset(pages.start))
            .map_err(|error| Error::io("read pages of", self.path, error))?;
        Ok(bytes)
    }

    /// Zeroes everything that the superblock and its directories don't name.
    pub(crate) fn clear_unnamed(&self) -> Result<()> {
        let segments = self.with_ends().map(|(segment, _)| segment);
        let room = FreeRoom::around(named(self.superblock, segments));
        clear(self.file, self.path, room.runs())
    }
}

/// Returns the digest of pages that lie together, the first of which has this number.
pub(crate) fn digest_of_pages(first: u64, bytes: &[u8]) -> u64 {
    let pages = (first..).zip(bytes.chunks_exact(PAGE_BYTES));
    pages.fold(0, |digest, (number, page)| {
        digest.wrapping_add(digest_of(number, page))
    })
}
