//! A segment as the directory names it.

use std::ops::Range;

use super::fault::SegmentFault;
use super::fences::fence_pages;
use crate::codec::{Decoder, Encoder};
use crate::file::directory_ref::TARGET_PAGES;
use crate::file::layout::{FIRST_PAGE, MAX_COUNTER, PAGE_LIMIT};
use crate::fingerprint::page::MOST_IN_PAGE;
use crate::page::{Binding, PAGE_BYTES, occupancy};

/// The most pages of fingerprints that a segment may have.
pub(crate) const MOST_SEGMENT_PAGES: u32 = 2 * TARGET_PAGES as u32;
/// A packer cuts what is left into pieces of half as many pages again at most.
const _: () = assert!(TARGET_PAGES + TARGET_PAGES / 2 <= MOST_SEGMENT_PAGES as usize);
/// Bytes that a segment takes in the directory.
pub(crate) const SEGMENT_BYTES: usize = 40;

/// The fingerprints of a range, and where they lie: pages of fingerprints, and the pages of their fences behind them.
///
/// The range ends where that of the next segment begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The first fingerprint that it may hold.
    pub(crate) first: u64,
    /// Number of its first page in the file.
    pub(crate) first_page: u64,
    /// The fingerprints in it.
    pub(crate) keys: u64,
    /// The generation of its pages.
    pub(crate) generation: u64,
    /// Pages of fingerprints, at least one.
    pub(crate) pages: u32,
}

impl Segment {
    /// Returns the numbers of its pages, those of the fences too.
    pub(crate) fn extent(&self) -> Range<u64> {
        self.first_page..self.first_page + u64::from(self.pages) + fence_pages(self.pages)
    }

    /// Returns the number of its first page of fences.
    pub(crate) fn first_fence_page(&self) -> u64 {
        self.first_page + u64::from(self.pages)
    }

    /// Returns the entry of the same segment in another place, and seals its pages for there.
    pub(crate) fn moved(&self, binding: Binding, first_page: u64, bytes: &mut [u8]) -> Self {
        let extent = self.extent();
        let room = (extent.end - extent.start) * PAGE_BYTES as u64;
        assert_eq!(bytes.len() as u64, room);
        for (number, page) in (first_page..).zip(bytes.chunks_exact_mut(PAGE_BYTES)) {
            binding.seal(number, self.generation, occupancy(page), page);
        }
        Self {
            first_page,
            ..*self
        }
    }

    pub(crate) fn encode(&self, out: &mut Encoder<'_>) {
        assert!((1..=MOST_SEGMENT_PAGES).contains(&self.pages), "{self:?}");
        assert!(self.first_page >= FIRST_PAGE, "{self:?}");
        assert!(
            self.keys <= u64::from(self.pages) * MOST_IN_PAGE as u64,
            "{self:?}"
        );
        assert!(self.generation > 0, "{self:?}");
        out.u64(self.first)
            .u64(self.first_page)
            .u64(self.keys)
            .u64(self.generation)
            .u32(self.pages)
            .u32(0);
    }

    /// Decodes an entry whose pages lie before `end_page`; `None` at the end of the bytes.
    pub(crate) fn decode(
        input: &mut Decoder<'_>,
        end_page: u64,
    ) -> Option<Result<Self, SegmentFault>> {
        let segment = Self {
            first: input.u64()?,
            first_page: input.u64()?,
            keys: input.u64()?,
            generation: input.u64()?,
            pages: input.u32()?,
        };
        let reserved = input.u32()?;
        Some(segment.check(reserved, end_page).map(|()| segment))
    }

    fn check(&self, reserved: u32, end_page: u64) -> Result<(), SegmentFault> {
        let wrong = |field, expected, got| {
            Err(SegmentFault::Field {
                field,
                expected,
                got,
            })
        };
        if !(1..=MOST_SEGMENT_PAGES).contains(&self.pages) {
            return wrong("pages", "1 to 2040", self.pages.into());
        }
        if !(FIRST_PAGE..PAGE_LIMIT).contains(&self.first_page) || self.extent().end > end_page {
            return wrong("first_page", "within the file's pages", self.first_page);
        }
        if self.keys > u64::from(self.pages) * MOST_IN_PAGE as u64 {
            return wrong("keys", "what its pages have room for", self.keys);
        }
        if !(1..=MAX_COUNTER).contains(&self.generation) {
            return wrong("generation", "1 to 2^60", self.generation);
        }
        if reserved != 0 {
            return wrong("reserved", "0", reserved.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::put_u64;

    const END: u64 = 10_000;

    fn segment() -> Segment {
        Segment {
            first: 77,
            first_page: 40,
            keys: 1_400_000,
            generation: 5,
            pages: 1021,
        }
    }

    fn bytes(segment: &Segment) -> Vec<u8> {
        let mut bytes = Vec::new();
        segment.encode(&mut Encoder::new(&mut bytes));
        bytes
    }

    fn decoded(bytes: &[u8], end: u64) -> Option<Result<Segment, SegmentFault>> {
        Segment::decode(&mut Decoder::new(bytes), end)
    }

    #[test]
    fn there_and_back() {
        let bytes = bytes(&segment());
        assert_eq!(bytes.len(), SEGMENT_BYTES);
        assert_eq!(decoded(&bytes, END), Some(Ok(segment())));
        assert_eq!(decoded(&bytes[..39], END), None);
        assert_eq!(segment().extent(), 40..40 + 1021 + 3);
    }

    #[test]
    fn every_field_out_of_range_has_its_fault() {
        let limits = [
            (8, 31, "first_page"),
            (8, PAGE_LIMIT, "first_page"),
            (8, u64::MAX, "first_page"),
            (8, END - 1023, "first_page"),
            (16, 1021 * MOST_IN_PAGE as u64 + 1, "keys"),
            (24, 0, "generation"),
            (24, MAX_COUNTER + 1, "generation"),
            (32, 0, "pages"),
            (32, 2041, "pages"),
            (32, 1021 | 1 << 32, "reserved"),
        ];
        for (place, value, name) in limits {
            let mut bytes = bytes(&segment());
            put_u64(&mut bytes, place, value);
            match decoded(&bytes, END) {
                Some(Err(SegmentFault::Field { field, .. })) => assert_eq!(field, name),
                other => panic!("{name} {value}: {other:?}"),
            }
        }
        let mut last = segment();
        last.first_page = END - 1024;
        assert_eq!(decoded(&bytes(&last), END), Some(Ok(last)));
    }
}
