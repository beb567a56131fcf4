//! The layout of the filter file (FORMAT.md, "The whole file"). Pure arithmetic.

use std::ops::Range;

use crate::page::PAGE_BYTES;

/// Bytes that a disk writes whole or not at all (FORMAT.md, "What is assumed of the disk").
pub(crate) const SECTOR_BYTES: usize = 512;
/// Offset of the header.
pub(crate) const HEADER_OFFSET: u64 = 0;
/// Bytes in the header; the rest of its page is zero.
pub(crate) const HEADER_BYTES: usize = 256;
/// Offsets of the two intents.
pub(crate) const INTENT_OFFSETS: [u64; 2] = [4_096, 8_192];
/// Offset of the word `reused`, in a store of fingerprints, which has no intents.
pub(crate) const REUSED_OFFSET: u64 = INTENT_OFFSETS[0];
/// Offsets of the two superblocks.
pub(crate) const SUPERBLOCK_OFFSETS: [u64; 2] = [16_384, 73_728];
/// Offsets of their sequences, which are words of their own.
pub(crate) const SEQUENCE_OFFSETS: [u64; 2] =
    [SUPERBLOCK_OFFSETS[0] + 16, SUPERBLOCK_OFFSETS[1] + 16];
/// Maximum bytes of a superblock.
pub(crate) const SUPERBLOCK_BYTES: usize = 57_344;
/// Offset of the first page.
pub(crate) const PAGES_OFFSET: u64 = 131_072;
/// The number of the first page.
pub(crate) const FIRST_PAGE: u64 = PAGES_OFFSET / PAGE_BYTES as u64;
/// Layers begin at multiples of this many pages (64 KiB), so that any system can map them.
pub(crate) const LAYER_ALIGNMENT: u64 = 16;
/// One past the highest page number: byte offsets fit an i64 with room to spare.
pub(crate) const PAGE_LIMIT: u64 = 1 << 50;

const _: () = assert!(HEADER_OFFSET + PAGE_BYTES as u64 == INTENT_OFFSETS[0]);
/// Maximum value of a number that counts up by one. No counter reaches it in practice, and a value above it could
/// overflow.
pub(crate) const MAX_COUNTER: u64 = 1 << 60;
/// The highest counter with which a store is opened for writing. No session has the time to count on to
/// [`MAX_COUNTER`], beyond which nothing that it writes would be read.
pub(crate) const LAST_WRITABLE: u64 = MAX_COUNTER - (1 << 50);

/// Offset of the copy mark.
pub(crate) const COPY_MARK_OFFSET: u64 = 12_288;

const _: () = assert!(INTENT_OFFSETS[0] + PAGE_BYTES as u64 == INTENT_OFFSETS[1]);
const _: () = assert!(INTENT_OFFSETS[1] + PAGE_BYTES as u64 == COPY_MARK_OFFSET);
const _: () = assert!(COPY_MARK_OFFSET + PAGE_BYTES as u64 == SUPERBLOCK_OFFSETS[0]);
const _: () = assert!(SUPERBLOCK_OFFSETS[0] + SUPERBLOCK_BYTES as u64 == SUPERBLOCK_OFFSETS[1]);
const _: () = assert!(SUPERBLOCK_OFFSETS[1] + SUPERBLOCK_BYTES as u64 == PAGES_OFFSET);
const _: () = assert!(PAGES_OFFSET.is_multiple_of(65_536));
const _: () = assert!(LAYER_ALIGNMENT * PAGE_BYTES as u64 == 65_536);
const _: () = assert!(
    SUPERBLOCK_BYTES.is_multiple_of(PAGE_BYTES),
    "whole pages are written"
);
const _: () = assert!(PAGE_LIMIT == crate::sizing::MAX_PAGES);
const _: () = assert!(PAGE_LIMIT <= i64::MAX as u64 / PAGE_BYTES as u64);
/// Readers load these words through a map.
const _: () = assert!(REUSED_OFFSET.is_multiple_of(8));
const _: () =
    assert!(SEQUENCE_OFFSETS[0].is_multiple_of(8) && SEQUENCE_OFFSETS[1].is_multiple_of(8));
const _: () = assert!(FIRST_PAGE.is_multiple_of(LAYER_ALIGNMENT));

/// Returns the first page that is in two of some ranges of pages.
pub(crate) fn first_shared(ranges: impl IntoIterator<Item = Range<u64>>) -> Option<u64> {
    let mut ranges: Vec<Range<u64>> = ranges.into_iter().collect();
    ranges.sort_unstable_by_key(|pages| pages.start);
    let mut pairs = ranges.windows(2);
    let pair = pairs.find(|pair| pair[1].start < pair[0].end)?;
    Some(pair[1].start)
}

/// Returns the offset of page `number`, which is below [`PAGE_LIMIT`].
pub(crate) fn page_offset(number: u64) -> u64 {
    debug_assert!(number <= PAGE_LIMIT);
    number * PAGE_BYTES as u64
}
