//! One page: its header, its checksum, and the filter inside it.
//!
//! Nothing here does I/O or takes a lock. A kind is a pure function on one page.
//! Bytes: FORMAT.md, "Pages".

pub(crate) mod ages;
pub(crate) mod binding;
pub(crate) mod fingerprint_space;
mod kind;
pub(crate) mod place;
mod state;
pub(crate) mod write_window;

pub(crate) use binding::{Binding, Content, PageFault};
pub(crate) use kind::KeyModel;
pub use kind::{Kind, UnknownKind};
pub use state::{Damage, PageState};

use crate::codec::{u32_at, u64_at};
use crate::sizing::Cell;

/// Bytes in a page, including the header.
pub(crate) const PAGE_BYTES: usize = 4096;
/// 64-bit words in a page, including the header.
pub(crate) const PAGE_WORDS: usize = PAGE_BYTES / 8;
/// Offset of the CRC-32 in a page.
pub(crate) const PAGE_CRC_OFFSET: usize = 0;
/// Offset of the occupancy in a page.
pub(crate) const OCCUPANCY_OFFSET: usize = 4;
/// Offset of the generation in a page.
pub(crate) const GENERATION_OFFSET: usize = 8;
/// Offset of the payload.
pub(crate) const PAYLOAD_OFFSET: usize = 16;
/// Bits in the payload.
pub(crate) const PAYLOAD_BITS: u64 = ((PAGE_BYTES - PAYLOAD_OFFSET) * 8) as u64;

const _: () = assert!(PAGE_CRC_OFFSET + 4 == OCCUPANCY_OFFSET);
const _: () = assert!(OCCUPANCY_OFFSET + 4 == GENERATION_OFFSET);
const _: () = assert!(GENERATION_OFFSET + 8 == PAYLOAD_OFFSET);
const _: () = assert!(
    PAYLOAD_OFFSET.is_multiple_of(8),
    "payloads are read by words"
);
const _: () = assert!(PAYLOAD_BITS == crate::sizing::PAGE_BITS);
const _: () = assert!(PAGE_BYTES as u64 == crate::sizing::PAGE_BYTES);

/// Returns whether the page has never been written.
pub(crate) fn is_blank(page: &[u8]) -> bool {
    page.iter().all(|byte| *byte == 0)
}

/// Returns how much of the page is in use, according to its header.
pub(crate) fn occupancy(page: &[u8]) -> u32 {
    u32_at(page, OCCUPANCY_OFFSET)
}

/// Counts the set bits.
#[inline(always)]
pub(crate) fn count_bits(page: &[u8]) -> u32 {
    let payload = &page[PAYLOAD_OFFSET..PAGE_BYTES];
    payload
        .chunks_exact(8)
        .map(|word| u64_at(word, 0).count_ones())
        .sum()
}

/// Counts the counters above 0.
pub(crate) fn count_counters(page: &[u8]) -> u32 {
    count_counters_where(page, |word| word | word >> 1 | word >> 2 | word >> 3)
}

/// Counts the counters for which `test` sets the lowest bit.
pub(crate) fn count_counters_where(page: &[u8], test: impl Fn(u64) -> u64) -> u32 {
    const LOWEST: u64 = 0x1111_1111_1111_1111;
    let payload = &page[PAYLOAD_OFFSET..PAGE_BYTES];
    let words = payload.chunks_exact(8).map(|word| u64_at(word, 0));
    words.map(|word| (test(word) & LOWEST).count_ones()).sum()
}

/// Counts how much of a page is in use: set bits, or counters above 0.
pub(crate) fn count_occupied(cell: Cell, page: &[u8]) -> u32 {
    match cell {
        Cell::Counter => count_counters(page),
        _ => count_bits(page),
    }
}
