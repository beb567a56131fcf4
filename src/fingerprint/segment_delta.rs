//! Applying a delta of segments: they go where they lie in the store.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use crate::error::{Error, Result};
use crate::file::delta::Content;
use crate::file::layout::page_offset;
use crate::file::{DeltaError, DirectoryRef, Superblock};
use crate::fingerprint::carried_segments::CarriedSegments;
use crate::fingerprint::directory_file::{expect_directory, raise_reused};
use crate::fingerprint::runs::run_directories::RunSegments;
use crate::fingerprint::segment::directory::encode;
use crate::fingerprint::segment::entry::Segment;
use crate::fingerprint::segment_reader::{SegmentReader, digest_of_pages};
use crate::page::fingerprint_space::FingerprintSpace;
use crate::page::{Binding, PAGE_BYTES};
use crate::page_io::page_delta::PageDelta;
use crate::storefile::delta_reader::{Delta, delta_error};
use crate::storefile::progress::Watched;
use crate::storefile::still_file::StillFile;
use crate::sys::storage::{StorageFile, write_all_at};

/// A delta of a store of fingerprints, and the copy it is for.
pub(crate) struct SegmentDelta<'a> {
    delta: &'a Delta<'a>,
    file: &'a dyn StorageFile,
    path: &'a Path,
    superblock: &'a Superblock,
    space: FingerprintSpace,
    binding: Binding,
}

impl<'a> SegmentDelta<'a> {
    /// `copy` has the superblock of the delta.
    pub(crate) fn of(delta: &'a Delta<'a>, copy: StillFile<'a>) -> Result<Self> {
        let StillFile {
            file,
            path,
            header,
            superblock,
        } = copy;
        let (_, space) = expect_directory(delta.path, superblock, header.space())?;
        Ok(Self {
            delta,
            file,
            path,
            superblock,
            space,
            binding: header.binding(),
        })
    }
}

impl PageDelta for SegmentDelta<'_> {
    fn check(
        &self,
        old: Option<&Superblock>,
        content: Content,
        watched: &mut Watched<'_>,
    ) -> Result<Option<u64>> {
        let mut carried = 0_u64;
        let each = |segment: Segment, bytes: &[u8]| {
            carried = carried.wrapping_add(digest_of_pages(segment.first_page, bytes));
            Ok(())
        };
        let pages = |count: usize| watched.pages(0..count as u64);
        let (runs, kept) = self.read(content, each, pages, |_, _| Ok(()))?;
        self.delta
            .check_sections(self.superblock, self.file, self.path)?;
        let Some(old) = old else {
            return Ok(None);
        };
        let before = self.segments_of(old)?;
        let mut digest = self.delta.header.from.digest.wrapping_add(carried);
        for (directory, run) in self.superblock.directories().zip(&runs) {
            for place in directory.places {
                let pages = encode(self.binding, &run.segments, place, directory.generation);
                digest = digest.wrapping_add(digest_of_pages(place, &pages));
            }
        }
        digest = digest.wrapping_sub(before.digest_of_directories()?);
        for segment in self.replaced(&before, &kept)? {
            let bytes = before.read(&segment)?;
            digest = digest.wrapping_sub(digest_of_pages(segment.first_page, &bytes));
        }
        Ok(Some(digest))
    }

    fn write(&self, content: Content) -> Result<()> {
        // A handle that reads the copy meanwhile, which nothing keeps out, gets an error and no wrong answer.
        raise_reused(self.file, self.path, self.superblock.set_version())?;
        let write = |page, bytes: &[u8]| self.write_pages(page, bytes);
        let each = |segment: Segment, bytes: &[u8]| write(segment.first_page, bytes);
        let (runs, _) = self.read(content, each, |_| Ok(()), write)?;
        for (directory, run) in self.superblock.directories().zip(&runs) {
            self.write_directory(directory, run)?;
        }
        self.segments_of(self.superblock)?.clear_unnamed()
    }

    fn digest(&self) -> Result<u64> {
        let mut watch = |_| ControlFlow::Continue(());
        let written = self.segments_of(self.superblock)?;
        written.check(&mut Watched::new(&mut watch, 0))
    }
}

impl SegmentDelta<'_> {
    /// Returns the segments of the copy that the new moment does not have; it must have all of `kept`.
    fn replaced(&self, before: &SegmentReader<'_>, kept: &[Segment]) -> Result<Vec<Segment>> {
        let own = before.with_ends().map(|(own, _)| (own.first_page, *own));
        let mut own: BTreeMap<u64, Segment> = own.collect();
        for segment in kept {
            if own.remove(&segment.first_page) != Some(*segment) {
                let first = segment.first;
                return Err(delta_error(self.path, DeltaError::SegmentMissing { first }));
            }
        }
        Ok(own.into_values().collect())
    }

    fn segments_of<'b>(&'b self, superblock: &'b Superblock) -> Result<SegmentReader<'b>> {
        let bound = (self.space, self.binding);
        SegmentReader::open(self.file, self.path, superblock, bound)
    }

    /// Reads the whole delta, each segment once it is checked. `pages` is called with how many pages were read. Returns all
    /// runs of the new moment, and those of their segments that are not in the delta.
    fn read(
        &self,
        content: Content,
        mut each: impl FnMut(Segment, &[u8]) -> Result<()>,
        mut pages: impl FnMut(usize) -> Result<()>,
        each_of_section: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<(Vec<RunSegments>, Vec<Segment>)> {
        let mut carried = CarriedSegments::new(self.superblock, (self.space, self.binding));
        let of_piece = |piece: &mut [u8]| {
            for page in piece.as_chunks::<PAGE_BYTES>().0 {
                let whole = carried.take(page);
                if let Some((segment, bytes)) = whole.map_err(|source| self.delta.wrong(source))? {
                    each(segment, bytes)?;
                }
            }
            pages(piece.len() / PAGE_BYTES)
        };
        self.delta
            .for_each_piece(self.superblock, content, of_piece, each_of_section)?;
        let finished = carried.finish(self.delta.header.pages);
        finished.map_err(|source| self.delta.wrong(source))
    }

    /// Writes both copies of a run's directory.
    fn write_directory(&self, directory: &DirectoryRef, run: &RunSegments) -> Result<()> {
        for place in directory.places {
            let pages = encode(self.binding, &run.segments, place, directory.generation);
            self.write_pages(place, &pages)?;
        }
        Ok(())
    }

    /// Writes pages that lie together, the first of which has this number.
    fn write_pages(&self, first: u64, bytes: &[u8]) -> Result<()> {
        write_all_at(self.file, bytes, page_offset(first))
            .map_err(|error| Error::io("apply a delta to", self.path, error))
    }
}
