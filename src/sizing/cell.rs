//! What the pages of a filter are made of.

use super::PAGE_BITS;

/// What a key's probes hit.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cell {
    /// A bit, which a key sets.
    Bit,
    /// A counter of four bits, which a key counts up, so that it can be taken out again.
    Counter,
}

impl Cell {
    /// Bits that it takes.
    pub fn bits(self) -> u32 {
        match self {
            Cell::Bit => 1,
            Cell::Counter => 4,
        }
    }

    /// How many a page has: 32,640 bits, or 8,160 counters.
    pub fn per_page(self) -> u64 {
        PAGE_BITS / u64::from(self.bits())
    }
}
