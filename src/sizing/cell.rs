//! The cells that make up the pages of a filter.

use super::PAGE_BITS;

/// The unit that a key's probes hit.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cell {
    /// A bit, which a key sets.
    Bit,
    /// A counter of four bits, which a key increments, so that it can be removed again.
    Counter,
}

impl Cell {
    /// Returns the number of bits in one cell.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            Cell::Bit => 1,
            Cell::Counter => 4,
        }
    }

    /// Returns the number of cells in a page: 32,640 bits, or 8,160 counters.
    #[must_use]
    pub fn per_page(self) -> u64 {
        PAGE_BITS / u64::from(self.bits())
    }
}
