//! The segments of a copy: checked, and what lies between them cleared.

use std::ops::Range;
use std::path::Path;

use crate::error::{Error, Result};
use crate::file::Superblock;
use crate::file::copy::digest_of;
use crate::file::layout::page_offset;
use crate::page::PAGE_BYTES;
use crate::page::space::Space;
use crate::segment::directory::range;
use crate::segment::entry::Segment;
use crate::segment::free_room::FreeRoom;
use crate::segment::image::Image;
use crate::store::backup::progress::Watched;
use crate::store::storefile::page_scan::clear;
use crate::store::storefile::segment_directory::{expect_directory, named, read_directory};
use crate::sys::storage::{StorageFile, read_exact_at};

/// The segments of a copy that was just made.
pub(crate) struct CopiedSegments<'a> {
    file: &'a dyn StorageFile,
    path: &'a Path,
    superblock: &'a Superblock,
    space: Space,
    segments: Vec<Segment>,
}

impl<'a> CopiedSegments<'a> {
    pub(crate) fn open(
        file: &'a dyn StorageFile,
        path: &'a Path,
        superblock: &'a Superblock,
        space: Space,
    ) -> Result<Self> {
        let (directory, space) = expect_directory(path, superblock, Some(space))?;
        let found = read_directory(file, path, &directory, space)?;
        Ok(Self {
            file,
            path,
            superblock,
            space,
            segments: found.segments,
        })
    }

    /// Checks all pages and returns their digest, that of the directory's pages included.
    pub(crate) fn check(&self, watched: &mut Watched<'_>) -> Result<u64> {
        let mut digest = 0_u64;
        for (index, segment) in self.segments.iter().enumerate() {
            let extent = segment.extent();
            let bytes = self.read(&extent)?;
            let end = range(&self.segments, index, self.space).end;
            let checked = Image::of(*segment, end, &bytes).map(|image| image.check_headers());
            if let Some(Err(fault)) = checked {
                return Err(Error::Format {
                    path: self.path.to_owned(),
                    source: fault.into(),
                });
            }
            for (number, page) in extent.zip(bytes.chunks_exact(PAGE_BYTES)) {
                digest = digest.wrapping_add(digest_of(number, page));
                watched.page()?;
            }
        }
        let copies = self.superblock.directory.iter();
        for copy in copies.flat_map(|directory| directory.copies()) {
            let bytes = self.read(&copy)?;
            for (number, page) in copy.zip(bytes.chunks_exact(PAGE_BYTES)) {
                digest = digest.wrapping_add(digest_of(number, page));
            }
        }
        Ok(digest)
    }

    fn read(&self, pages: &Range<u64>) -> Result<Vec<u8>> {
        let mut bytes = vec![0; (pages.end - pages.start) as usize * PAGE_BYTES];
        read_exact_at(self.file, &mut bytes, page_offset(pages.start))
            .map_err(|error| Error::io("read pages of", self.path, error))?;
        Ok(bytes)
    }

    /// Zeroes everything that the superblock and its directory don't name.
    pub(crate) fn clear_unnamed(&self) -> Result<()> {
        let room = FreeRoom::around(named(self.superblock, &self.segments));
        clear(self.file, self.path, room.runs())
    }
}
