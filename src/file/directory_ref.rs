//! Where a store of fingerprints has its directory (FORMAT.md, "Directory entry").

use std::ops::Range;

use super::SuperblockFault;
use super::layout::{FIRST_PAGE, MAX_COUNTER, PAGE_LIMIT};
use crate::codec::{Decoder, Encoder};

/// Bytes that the directory takes in the superblock.
pub(crate) const DIRECTORY_REF_BYTES: usize = 64;
/// Pages of fingerprints that a segment has when it is cut from a larger one: two pages of fences, and 4 MiB.
pub(crate) const TARGET_PAGES: usize = 1020;
/// Segments in a page of the directory.
pub(crate) const SEGMENTS_IN_PAGE: u64 = 102;

/// Both copies of a directory, and what its segments have in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DirectoryRef {
    /// The first page of each copy; 0 without segments.
    pub(crate) places: [u64; 2],
    pub(crate) segments: u64,
    /// The pages of all segments, those of fences included.
    pub(crate) pages: u64,
    /// The fingerprints in all segments.
    pub(crate) keys: u64,
    /// One past the highest page of segments and directory.
    pub(crate) end_page: u64,
    /// The sequence of the superblock that first named this directory.
    pub(crate) version: u64,
    /// The generation of its pages.
    pub(crate) generation: u64,
}

/// Returns how many pages a directory of this many segments takes.
pub(crate) fn directory_pages(segments: u64) -> u64 {
    segments.div_ceil(SEGMENTS_IN_PAGE)
}

impl DirectoryRef {
    /// Returns the directory of a new store, without segments.
    pub(crate) fn empty() -> Self {
        Self {
            places: [0, 0],
            segments: 0,
            pages: 0,
            keys: 0,
            end_page: FIRST_PAGE,
            version: 1,
            generation: 1,
        }
    }

    /// Returns the page numbers of both copies.
    pub(crate) fn copies(&self) -> [Range<u64>; 2] {
        let pages = directory_pages(self.segments);
        self.places.map(|place| place..place.saturating_add(pages))
    }

    pub(crate) fn encode(&self, out: &mut Encoder<'_>) {
        // All but what the superblock decides.
        let checked = self.check(self.version, self.generation);
        assert!(checked.is_ok(), "{checked:?}");
        out.u64(self.places[0])
            .u64(self.places[1])
            .u64(self.segments)
            .u64(self.pages)
            .u64(self.keys)
            .u64(self.end_page)
            .u64(self.version)
            .u64(self.generation);
    }

    /// Decodes a directory's place; returns `None` at the end of the bytes. `sequence` is that of the superblock
    /// that names it, and `generation` the highest that its pages may have.
    pub(crate) fn decode(
        input: &mut Decoder<'_>,
        sequence: u64,
        generation: u64,
    ) -> Option<Result<Self, SuperblockFault>> {
        let found = Self {
            places: [input.u64()?, input.u64()?],
            segments: input.u64()?,
            pages: input.u64()?,
            keys: input.u64()?,
            end_page: input.u64()?,
            version: input.u64()?,
            generation: input.u64()?,
        };
        Some(found.check(sequence, generation).map(|()| found))
    }

    pub(super) fn check(&self, sequence: u64, generation: u64) -> Result<(), SuperblockFault> {
        let wrong = |field, expected, got| {
            Err(SuperblockFault::Field {
                field,
                expected,
                got,
            })
        };
        if !(FIRST_PAGE..=PAGE_LIMIT).contains(&self.end_page) {
            return wrong("end_page", "32 to 2^50", self.end_page);
        }
        if self.pages > self.end_page - FIRST_PAGE {
            return wrong("segment_pages", "as many as the file has", self.pages);
        }
        if self.segments > self.pages {
            return wrong("segments", "at most as many as pages", self.segments);
        }
        if self.segments == 0 && (self.places, self.pages, self.keys) != ([0, 0], 0, 0) {
            return wrong("segments", "some, if there is a directory", 0);
        }
        // Checked above: no sum below can overflow.
        let [one, other] = self.copies();
        for copy in [&one, &other].into_iter().filter(|_| self.segments > 0) {
            if copy.start < FIRST_PAGE || copy.end > self.end_page {
                return wrong("directory_page", "within the file's pages", copy.start);
            }
        }
        if self.segments > 0 && one.start < other.end && other.start < one.end {
            return wrong("directory_page", "apart from the other copy", other.start);
        }
        if self.keys > self.pages.saturating_mul(1 << 14) {
            return wrong("keys", "what the pages have room for", self.keys);
        }
        if !(1..=sequence.max(1)).contains(&self.version) || self.version > MAX_COUNTER {
            return wrong("version", "1 to the superblock's sequence", self.version);
        }
        if !(1..=generation).contains(&self.generation) {
            let expected = "1 to the superblock's generation";
            return wrong("directory_generation", expected, self.generation);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::put_u64;

    fn good() -> DirectoryRef {
        DirectoryRef {
            places: [5000, 40],
            segments: 204,
            pages: 4000,
            keys: 1_000_000,
            end_page: 5002,
            version: 7,
            generation: 5,
        }
    }

    fn decoded(bytes: &[u8]) -> Option<Result<DirectoryRef, SuperblockFault>> {
        DirectoryRef::decode(&mut Decoder::new(bytes), 8, 6)
    }

    fn bytes_of(directory: DirectoryRef) -> Vec<u8> {
        let mut bytes = Vec::new();
        directory.encode(&mut Encoder::new(&mut bytes));
        bytes
    }

    #[test]
    fn there_and_back() {
        for directory in [good(), DirectoryRef::empty()] {
            let bytes = bytes_of(directory);
            assert_eq!(bytes.len(), DIRECTORY_REF_BYTES);
            assert_eq!(decoded(&bytes), Some(Ok(directory)));
            assert_eq!(decoded(&bytes[..63]), None);
        }
        assert_eq!(good().copies(), [5000..5002, 40..42]);
    }

    #[test]
    fn every_field_out_of_range_has_its_fault() {
        for (place, value, name) in [
            (0, 31, "directory_page"),
            (0, 5001, "directory_page"),
            (0, 41, "directory_page"),
            (0, u64::MAX, "directory_page"),
            (8, 0, "directory_page"),
            (16, 0, "segments"),
            (16, 4001, "segments"),
            (16, u64::MAX, "segments"),
            (24, 5002 - 31, "segment_pages"),
            (24, u64::MAX, "segment_pages"),
            (32, u64::MAX, "keys"),
            (40, 31, "end_page"),
            (40, PAGE_LIMIT + 1, "end_page"),
            (48, 0, "version"),
            (48, 9, "version"),
            (56, 0, "directory_generation"),
            (56, 7, "directory_generation"),
        ] {
            let mut bytes = bytes_of(good());
            put_u64(&mut bytes, place, value);
            match decoded(&bytes) {
                Some(Err(SuperblockFault::Field { field, .. })) => assert_eq!(field, name),
                other => panic!("{name} {value}: {other:?}"),
            }
        }
    }
}
