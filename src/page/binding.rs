//! A page's header and its CRC, which binds the page to its place and its store.

use super::{
    GENERATION_OFFSET, OCCUPANCY_OFFSET, PAGE_BYTES, PAGE_CRC_OFFSET, count_occupied, is_blank,
    occupancy,
};
use crate::codec::{put_u32, put_u64, u32_at, u64_at};
use crate::sizing::Cell;

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

/// The store that a page belongs to, as the page's CRC knows it: the CRC-32 of the store's id.
///
/// The CRC of a page goes on from there, so it is the one over id, number and bytes, and takes no longer than one without
/// the id. For the same bytes, every binding has a CRC of its own: a page of a store with another binding never passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Binding(u32);

impl Binding {
    /// That of stores of earlier builds, whose pages could be of any store.
    pub(crate) const NONE: Self = Self(0);

    /// Returns the binding of pages to a store.
    pub(crate) fn to_store(store_id: &[u8; 16]) -> Self {
        Self(crc32fast::hash(store_id))
    }

    /// Returns the CRC-32 that page `number` of a file must carry.
    pub(crate) fn checksum(self, number: u64, page: &[u8]) -> u32 {
        debug_assert_eq!(page.len(), PAGE_BYTES);
        let mut hasher = crc32fast::Hasher::new_with_initial(self.0);
        hasher.update(&number.to_le_bytes());
        hasher.update(&page[OCCUPANCY_OFFSET..PAGE_BYTES]);
        hasher.finalize()
    }

    /// Checks a page's CRC. A page of zeros has none; the layer decides whether the page may be blank.
    pub(crate) fn check(self, number: u64, page: &[u8]) -> Result<Content, PageFault> {
        let got = u32_at(page, PAGE_CRC_OFFSET);
        if got == 0 && is_blank(page) {
            return Ok(Content::Blank);
        }
        let expected = self.checksum(number, page);
        if expected != got {
            return Err(PageFault { expected, got });
        }
        Ok(Content::Sealed {
            generation: u64_at(page, GENERATION_OFFSET),
            occupancy: occupancy(page),
        })
    }

    /// Checks a page of a layer, which may not be blank if `all_written` returns `true`. The function calls
    /// `all_written` after the page was read.
    pub(crate) fn check_in_layer(
        self,
        number: u64,
        page: &[u8],
        all_written: impl FnOnce() -> bool,
    ) -> Result<Content, PageFault> {
        match self.check(number, page)? {
            Content::Blank if all_written() => {
                let expected = self.checksum(number, page);
                Err(PageFault { expected, got: 0 })
            }
            content => Ok(content),
        }
    }

    /// Writes the header, CRC last.
    pub(crate) fn seal(self, number: u64, generation: u64, occupancy: u32, page: &mut [u8]) {
        // Of more bytes, the CRC would cover the first page alone.
        assert_eq!(page.len(), PAGE_BYTES);
        // No page is older than the first checkpoint.
        assert!(generation > 0, "page {number}");
        put_u32(page, OCCUPANCY_OFFSET, occupancy);
        put_u64(page, GENERATION_OFFSET, generation);
        let crc = self.checksum(number, page);
        put_u32(page, PAGE_CRC_OFFSET, crc);
    }

    /// Turns the page into one for which every key, or none, tests positive.
    pub(crate) fn fill(
        self,
        cell: Cell,
        number: u64,
        generation: u64,
        full: bool,
        page: &mut [u8],
    ) {
        page.fill(if full { 0xFF } else { 0 });
        self.seal(number, generation, count_occupied(cell, page), page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{PAYLOAD_OFFSET, count_bits};
    use proptest::prelude::*;

    const OWN: Binding = Binding(0x1234_5678);

    /// The slow twin: CRC-32 bit by bit, of a store's id, a number and bytes (ISO 3309, reflected).
    fn crc_by_bits(id: &[u8], number: u64, bytes: &[u8]) -> u32 {
        let mut crc = u32::MAX;
        for byte in id.iter().chain(&number.to_le_bytes()).chain(bytes) {
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
            id in prop::option::of(any::<[u8; 16]>()),
            harm in prop::option::of((0..PAGE_BYTES, 1_u8..)),
        ) {
            let mut page = vec![0; PAGE_BYTES];
            for (at, byte) in &bytes {
                page[*at] = *byte;
            }
            let payload = page.clone();
            let ones = page[PAYLOAD_OFFSET..].iter().map(|byte| byte.count_ones()).sum();
            prop_assert_eq!(count_bits(&page), ones);
            let binding = id.as_ref().map_or(Binding::NONE, Binding::to_store);
            let id = id.as_ref().map_or(&[][..], |id| id);
            binding.seal(number, generation, ones, &mut page);
            prop_assert_eq!(&page[PAYLOAD_OFFSET..], &payload[PAYLOAD_OFFSET..]);
            prop_assert_eq!(&page[4..8], &ones.to_le_bytes());
            prop_assert_eq!(&page[8..16], &generation.to_le_bytes());
            let crc = crc_by_bits(id, number, &page[4..]);
            prop_assert_eq!(&page[..4], &crc.to_le_bytes());
            let sealed = Content::Sealed { generation, occupancy: ones };
            prop_assert_eq!(binding.check(number, &page), Ok(sealed));
            if let Some((at, change)) = harm {
                page[at] ^= change;
                let twin = PageFault {
                    expected: crc_by_bits(id, number, &page[4..]),
                    got: u32::from_le_bytes([page[0], page[1], page[2], page[3]]),
                };
                prop_assert_eq!(binding.check(number, &page), Err(twin));
            }
        }
    }

    #[test]
    fn a_sealed_page_verifies_and_any_flipped_bit_is_noticed() {
        let mut page = vec![0; PAGE_BYTES];
        page[1234] = 0b1010;
        OWN.seal(77, 5, 2, &mut page);
        let sealed = Content::Sealed {
            generation: 5,
            occupancy: 2,
        };
        assert_eq!(OWN.check(77, &page), Ok(sealed));
        assert_eq!(count_bits(&page), 2);
        for bit in 0..PAGE_BYTES * 8 {
            page[bit / 8] ^= 1 << (bit % 8);
            assert!(OWN.check(77, &page).is_err(), "bit {bit}");
            page[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_page_in_the_wrong_place_is_noticed() {
        let mut page = vec![0; PAGE_BYTES];
        OWN.seal(77, 5, 0, &mut page);
        assert!(OWN.check(78, &page).is_err());
    }

    #[test]
    fn a_blank_page_is_told_apart_from_an_empty_one() {
        let mut page = vec![0; PAGE_BYTES];
        assert_eq!(OWN.check(32, &page), Ok(Content::Blank));
        OWN.seal(32, 1, 0, &mut page);
        let empty = Content::Sealed {
            generation: 1,
            occupancy: 0,
        };
        assert_eq!(OWN.check(32, &page), Ok(empty));
    }

    proptest! {
        /// Not only most likely: what goes into a CRC last changes it one to one.
        #[test]
        fn a_page_of_another_store_never_passes(
            ids in any::<[[u8; 16]; 2]>(),
            number in any::<u64>(),
            at in PAYLOAD_OFFSET..PAGE_BYTES,
            byte in any::<u8>(),
        ) {
            let [one, other] = [&ids[0], &ids[1]].map(Binding::to_store);
            prop_assume!(one != other);
            let mut page = vec![0; PAGE_BYTES];
            page[at] = byte;
            for (one, other) in [(one, other), (one, Binding::NONE), (Binding::NONE, one)] {
                one.seal(number, 7, 1, &mut page);
                let expected = other.checksum(number, &page);
                let got = one.checksum(number, &page);
                prop_assert_eq!(other.check(number, &page), Err(PageFault { expected, got }));
            }
        }
    }
}
