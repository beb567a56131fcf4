//! A layer: a run of pages that forms one filter of fixed size.

use std::ops::Range;

use super::SuperblockFault;
use super::layout::{FIRST_PAGE, LAYER_ALIGNMENT, PAGE_LIMIT, page_offset};
use crate::codec::{Decoder, Encoder};
use crate::page::place::page_of;
use crate::sizing::{Cell, MAX_PROBES, Plan};

/// Bytes that a layer takes in the superblock and in a cut.
pub(crate) const LAYER_BYTES: usize = 64;
/// Maximum number of layers in a store.
/// Every page of the layer has been written, so that a page of zeros in it is damage.
const FLAG_ALL_WRITTEN: u32 = 1;

/// One layer of a store, as its superblock describes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Layer {
    /// The kind of cell in its pages.
    pub(crate) cell: Cell,
    /// Number of its first page in the file.
    pub(crate) first_page: u64,
    pub(crate) pages: u64,
    /// The number of keys it was planned for.
    pub(crate) capacity: u64,
    /// The number of keys in its pages.
    pub(crate) keys: u64,
    /// The rate it was planned for.
    pub(crate) fpr: f64,
    pub(crate) probes: u32,
    /// Whether a page of zeros is damage.
    pub(crate) all_written: bool,
}

impl Layer {
    /// Returns an empty layer behind `last`, or at the front if there is none.
    pub(crate) fn after(last: Option<&Layer>, plan: &Plan) -> Self {
        Self::behind(last.map_or(FIRST_PAGE, Layer::end_page), plan)
    }

    /// Returns an empty layer behind all pages before `end`.
    pub(crate) fn behind(end: u64, plan: &Plan) -> Self {
        Self {
            cell: plan.cell,
            first_page: end.next_multiple_of(LAYER_ALIGNMENT),
            pages: plan.pages,
            capacity: plan.capacity,
            keys: 0,
            fpr: plan.target,
            probes: plan.probes,
            all_written: false,
        }
    }

    /// Returns one past the number of its last page.
    pub(crate) fn end_page(&self) -> u64 {
        self.first_page + self.pages
    }

    /// Returns its page numbers in the file.
    pub(crate) fn numbers(&self) -> Range<u64> {
        self.first_page..self.end_page()
    }

    /// Returns the bytes a file needs to hold it.
    pub(crate) fn end_offset(&self) -> u64 {
        page_offset(self.end_page())
    }

    /// Returns how many more keys it accepts.
    pub(crate) fn room(&self) -> u64 {
        self.capacity.saturating_sub(self.keys)
    }

    /// Returns the page of a hash, counted within the layer.
    #[inline]
    pub(crate) fn page_of(&self, hash: u64) -> u64 {
        page_of(hash, self.pages)
    }

    /// Returns the approximate number of keys per page.
    pub(crate) fn keys_a_page(&self) -> u64 {
        self.keys.div_ceil(self.pages)
    }

    pub(crate) fn encode(&self, out: &mut Encoder<'_>) {
        // What decoding refuses is never written: it would take the store with it.
        assert!(self.first_page.is_multiple_of(LAYER_ALIGNMENT), "{self:?}");
        assert!((FIRST_PAGE..PAGE_LIMIT).contains(&self.first_page));
        assert!((1..=PAGE_LIMIT - self.first_page).contains(&self.pages));
        assert!(self.capacity > 0, "{self:?}");
        assert!(self.fpr > 0.0 && self.fpr < 1.0, "{self:?}");
        assert!((1..=MAX_PROBES).contains(&self.probes), "{self:?}");
        out.u64(self.first_page)
            .u64(self.pages)
            .u64(self.capacity)
            .u64(self.keys)
            .f64(self.fpr)
            .u32(self.probes)
            .u32(if self.all_written {
                FLAG_ALL_WRITTEN
            } else {
                0
            })
            .u32(self.cell.run_length(self.probes))
            .u32(0)
            .u64(0);
    }

    /// Decodes a layer whose pages begin at or after page `least`; returns `None` at the end of the bytes.
    pub(crate) fn decode(
        input: &mut Decoder<'_>,
        least: u64,
    ) -> Option<Result<Self, SuperblockFault>> {
        let first_page = input.u64()?;
        let pages = input.u64()?;
        let capacity = input.u64()?;
        let keys = input.u64()?;
        let fpr = input.f64()?;
        let probes = input.u32()?;
        let flags = input.u32()?;
        let run_length = input.u32()?;
        let reserved = (input.u32()?, input.u64()?);
        let wrong = |field, expected, got| {
            Some(Err(SuperblockFault::Field {
                field,
                expected,
                got,
            }))
        };
        if first_page < least || first_page % LAYER_ALIGNMENT != 0 || first_page >= PAGE_LIMIT {
            return wrong("first_page", "a multiple of 16 behind the last", first_page);
        }
        if pages == 0 || pages > PAGE_LIMIT - first_page {
            return wrong("pages", "at least 1, below 2^50", pages);
        }
        if capacity == 0 {
            return wrong("capacity", "at least 1", capacity);
        }
        if !(fpr > 0.0 && fpr < 1.0) {
            return wrong("fpr", "above 0 and below 1", fpr.to_bits());
        }
        if !(1..=MAX_PROBES).contains(&probes) {
            return wrong("probes", "1 to 64", probes.into());
        }
        if flags & !FLAG_ALL_WRITTEN != 0 {
            return wrong("layer_flags", "bit 0 alone", flags.into());
        }
        let is_of = |cell: &Cell| cell.run_length(probes) == run_length;
        let Some(cell) = [Cell::Bit, Cell::Counter].into_iter().find(is_of) else {
            let expected = "that of a layer of so many probes";
            return wrong("run_length", expected, run_length.into());
        };
        if reserved != (0, 0) {
            return wrong("layer_reserved", "0", u64::from(reserved.0) | reserved.1);
        }
        Some(Ok(Self {
            cell,
            first_page,
            pages,
            capacity,
            keys,
            fpr,
            probes,
            all_written: flags & FLAG_ALL_WRITTEN != 0,
        }))
    }
}
