//! One page: its header, its checksum, and the filter inside it.
//!
//! Nothing here does I/O or takes a lock. A kind is a pure function on one page.
//! Bytes: FORMAT.md, "Pages".

mod blocked_probes;
pub(crate) mod bloom;
pub(crate) mod counting;
pub(crate) mod fingerprint;
mod kind;
pub(crate) mod merge;
pub(crate) mod place;
pub(crate) mod probe_batch;
pub(crate) mod space;
mod uniform_probes;

pub use kind::{Kind, UnknownKind};

use crate::codec::{put_u32, put_u64, u32_at, u64_at};
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
const _: () = assert!(PAYLOAD_BITS == crate::sizing::PAGE_BITS);
const _: () = assert!(PAGE_BYTES as u64 == crate::sizing::PAGE_BYTES);

/// The header of a page, after its CRC was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// All zeros: never written.
    Blank,
    /// Written by the checkpoint that created this generation.
    Sealed { generation: u64, occupancy: u32 },
}

/// A page whose bytes are not what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageFault {
    pub(crate) expected: u32,
    pub(crate) got: u32,
}

/// Returns the CRC-32 that page `number` of a file must carry.
pub(crate) fn checksum(number: u64, page: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.update(&page[OCCUPANCY_OFFSET..PAGE_BYTES]);
    hasher.finalize()
}

/// Returns whether the page has never been written.
pub(crate) fn is_blank(page: &[u8]) -> bool {
    page.iter().all(|byte| *byte == 0)
}

/// Checks a page's CRC. A page of zeros has none; the layer decides whether the page may be blank.
pub(crate) fn check(number: u64, page: &[u8]) -> Result<Content, PageFault> {
    let got = u32_at(page, PAGE_CRC_OFFSET);
    if got == 0 && is_blank(page) {
        return Ok(Content::Blank);
    }
    let expected = checksum(number, page);
    if expected != got {
        return Err(PageFault { expected, got });
    }
    Ok(Content::Sealed {
        generation: u64_at(page, GENERATION_OFFSET),
        occupancy: occupancy(page),
    })
}

/// Checks a page of a layer, which may not be blank if `all_written` returns `true`. The function calls `all_written`
/// after the page was read.
pub(crate) fn check_in_layer(
    number: u64,
    page: &[u8],
    all_written: impl FnOnce() -> bool,
) -> Result<Content, PageFault> {
    match check(number, page)? {
        Content::Blank if all_written() => {
            let expected = checksum(number, page);
            Err(PageFault { expected, got: 0 })
        }
        content => Ok(content),
    }
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

/// Counts how much of a page is in use: set bits, or counters above 0.
pub(crate) fn count_occupied(cell: Cell, page: &[u8]) -> u32 {
    match cell {
        Cell::Counter => counting::occupied(page),
        _ => count_bits(page),
    }
}

/// Writes the header, CRC last.
pub(crate) fn seal(number: u64, generation: u64, occupancy: u32, page: &mut [u8]) {
    put_u32(page, OCCUPANCY_OFFSET, occupancy);
    put_u64(page, GENERATION_OFFSET, generation);
    let crc = checksum(number, page);
    put_u32(page, PAGE_CRC_OFFSET, crc);
}

/// Turns the page into one for which every key, or none, tests positive.
pub(crate) fn fill(cell: Cell, number: u64, generation: u64, full: bool, page: &mut [u8]) {
    page.fill(if full { 0xFF } else { 0 });
    seal(number, generation, count_occupied(cell, page), page);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The slow twin: CRC-32 bit by bit, of a number and bytes (ISO 3309, reflected).
    fn crc_by_bits(number: u64, bytes: &[u8]) -> u32 {
        let mut crc = u32::MAX;
        for byte in number.to_le_bytes().iter().chain(bytes) {
            for bit in 0..8 {
                let odd = (crc ^ u32::from(byte >> bit)) & 1 == 1;
                crc = (crc >> 1) ^ if odd { 0xEDB8_8320 } else { 0 };
            }
        }
        !crc
    }

    proptest! {
        #[test]
        fn a_page_is_what_was_sealed_and_nothing_else(
            bytes in prop::collection::vec((16_usize..PAGE_BYTES, any::<u8>()), 0..50),
            number in any::<u64>(),
            generation in any::<u64>(),
            harm in prop::option::of((0..PAGE_BYTES, 1_u8..)),
        ) {
            let mut page = vec![0; PAGE_BYTES];
            for (at, byte) in &bytes {
                page[*at] = *byte;
            }
            let payload = page.clone();
            let ones = page[PAYLOAD_OFFSET..].iter().map(|byte| byte.count_ones()).sum();
            prop_assert_eq!(count_bits(&page), ones);
            seal(number, generation, ones, &mut page);
            prop_assert_eq!(&page[PAYLOAD_OFFSET..], &payload[PAYLOAD_OFFSET..]);
            prop_assert_eq!(&page[4..8], &ones.to_le_bytes());
            prop_assert_eq!(&page[8..16], &generation.to_le_bytes());
            let crc = crc_by_bits(number, &page[4..]);
            prop_assert_eq!(&page[..4], &crc.to_le_bytes());
            let sealed = Content::Sealed { generation, occupancy: ones };
            prop_assert_eq!(check(number, &page), Ok(sealed));
            if let Some((at, change)) = harm {
                page[at] ^= change;
                let twin = PageFault {
                    expected: crc_by_bits(number, &page[4..]),
                    got: u32::from_le_bytes([page[0], page[1], page[2], page[3]]),
                };
                prop_assert_eq!(check(number, &page), Err(twin));
            }
        }
    }

    #[test]
    fn a_sealed_page_verifies_and_any_flipped_bit_is_noticed() {
        let mut page = vec![0; PAGE_BYTES];
        page[1234] = 0b1010;
        seal(77, 5, 2, &mut page);
        let sealed = Content::Sealed {
            generation: 5,
            occupancy: 2,
        };
        assert_eq!(check(77, &page), Ok(sealed));
        assert_eq!(count_bits(&page), 2);
        for bit in 0..PAGE_BYTES * 8 {
            page[bit / 8] ^= 1 << (bit % 8);
            assert!(check(77, &page).is_err(), "bit {bit}");
            page[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_page_in_the_wrong_place_is_noticed() {
        let mut page = vec![0; PAGE_BYTES];
        seal(77, 5, 0, &mut page);
        assert!(check(78, &page).is_err());
    }

    #[test]
    fn a_blank_page_is_told_apart_from_an_empty_one() {
        let mut page = vec![0; PAGE_BYTES];
        assert_eq!(check(32, &page), Ok(Content::Blank));
        seal(32, 1, 0, &mut page);
        let empty = Content::Sealed {
            generation: 1,
            occupancy: 0,
        };
        assert_eq!(check(32, &page), Ok(empty));
    }
}
