//! A delta: the pages of a store that changed since a copy of it was made (docs/format/deltas.md, "Deltas").

use super::copy::Moment;
use super::delta_error::DeltaError;
use super::layout::MAX_COUNTER;
use super::layout::{PAGE_LIMIT, SUPERBLOCK_BYTES};
use super::section::MAX_SECTIONS;
use super::superblock::{FIXED_BYTES, SUPERBLOCK_LENGTH_OFFSET};
use super::{Header, Superblock};
use crate::codec::{Decoder, Encoder, put_u32, put_u64, u32_at, u64_at};
use crate::page::{
    self, Binding, GENERATION_OFFSET, OCCUPANCY_OFFSET, PAGE_BYTES, PAGE_CRC_OFFSET,
};
use crate::sizing::Cell;

pub(crate) const DELTA_MAGIC: [u8; 8] = *b"EVERDELT";
pub(crate) const END_MAGIC: [u8; 8] = *b"EVERDEND";
pub(crate) const DELTA_VERSION: u32 = 1;
pub(crate) const DELTA_HEADER_BYTES: usize = 96;
const DELTA_CRC_OFFSET: usize = 92;
pub(crate) const END_BYTES: usize = 16;
const END_CRC_OFFSET: usize = 12;

const _: () = assert!(DELTA_CRC_OFFSET + 4 == DELTA_HEADER_BYTES);
const _: () = assert!(END_CRC_OFFSET + 4 == END_BYTES);
/// The pages of layers and those of sections, and what lies before them: no length of a delta overflows.
const _: () = assert!(2 * PAGE_LIMIT < (u64::MAX - (1 << 20)) / PAGE_BYTES as u64);
const _: () = assert!(MAX_SECTIONS <= 32, "one bit for each section");
/// In a record, the page's number takes the place of CRC and occupancy, and of nothing else.
const _: () = assert!(PAGE_CRC_OFFSET == 0 && OCCUPANCY_OFFSET == 4 && GENERATION_OFFSET == 8);

/// The header of a delta.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeltaHeader {
    pub(crate) superblock_length: u32,
    pub(crate) store_id: [u8; 16],
    /// The moment that the copy must show before the delta is applied.
    pub(crate) from: Moment,
    /// The moment that the copy shows afterwards.
    pub(crate) to: Moment,
    pub(crate) pages: u64,
    /// The number of pages of sections, which follow the pages of layers.
    pub(crate) section_pages: u64,
    /// The sections of the superblock that the delta includes, one bit for each.
    pub(crate) sections: u32,
}

impl DeltaHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(DELTA_HEADER_BYTES);
        Encoder::new(&mut bytes)
            .bytes(&DELTA_MAGIC)
            .u32(DELTA_VERSION)
            .u32(self.superblock_length)
            .bytes(&self.store_id)
            .u64(self.from.generation)
            .u64(self.to.generation)
            .u64(self.from.digest)
            .u64(self.to.digest)
            .u64(self.pages)
            .u64(self.section_pages)
            .u32(self.sections)
            .pad_to(DELTA_HEADER_BYTES);
        let crc = crc32fast::hash(&bytes[..DELTA_CRC_OFFSET]);
        put_u32(&mut bytes, DELTA_CRC_OFFSET, crc);
        bytes
    }

    /// Checks the beginning of a file of `length` bytes and decodes the header from it. `bytes` holds as much of the
    /// header as the file has.
    pub(crate) fn decode(bytes: &[u8], length: u64) -> Result<Self, DeltaError> {
        if bytes.len() < 8 || bytes[..8] != DELTA_MAGIC {
            let got = bytes[..bytes.len().min(8)].to_vec();
            return Err(DeltaError::NotADelta { got });
        }
        if bytes.len() < DELTA_HEADER_BYTES {
            return Err(DeltaError::Length {
                expected: (DELTA_HEADER_BYTES + FIXED_BYTES + END_BYTES) as u64,
                got: length,
            });
        }
        checked(
            "header",
            &bytes[..DELTA_CRC_OFFSET],
            u32_at(bytes, DELTA_CRC_OFFSET),
        )?;
        let mut input = Decoder::new(&bytes[8..DELTA_CRC_OFFSET]);
        // The slice covers all fields together, so no field is ever missing.
        Self::fields(&mut input, length).unwrap_or(Err(DeltaError::Length {
            expected: DELTA_HEADER_BYTES as u64,
            got: length,
        }))
    }

    fn fields(input: &mut Decoder<'_>, length: u64) -> Option<Result<Self, DeltaError>> {
        let version = input.u32()?;
        if version != DELTA_VERSION {
            return Some(Err(DeltaError::UnsupportedVersion {
                expected: DELTA_VERSION,
                got: version,
            }));
        }
        let superblock_length = input.u32()?;
        let store_id = input.array()?;
        let (from, to) = (input.u64()?, input.u64()?);
        let (from_digest, to_digest) = (input.u64()?, input.u64()?);
        let pages = input.u64()?;
        let section_pages = input.u64()?;
        let sections = input.u32()?;
        let allowed = FIXED_BYTES..=SUPERBLOCK_BYTES;
        if !allowed.contains(&(superblock_length as usize)) || superblock_length % 8 != 0 {
            let got = superblock_length.into();
            return wrong("superblock_length", "320 to 57344, a multiple of 8", got);
        }
        if from == 0 || from > to {
            return wrong("from_generation", "1 to to_generation", from);
        }
        if to > MAX_COUNTER {
            return wrong("to_generation", "at most 2^60", to);
        }
        if pages > PAGE_LIMIT {
            return wrong("pages", "at most 2^50", pages);
        }
        if section_pages > PAGE_LIMIT {
            return wrong("section_pages", "at most 2^50", section_pages);
        }
        if !input.rest_is_zero() {
            return wrong("reserved", "zeros", 1);
        }
        let header = Self {
            superblock_length,
            store_id,
            from: Moment {
                generation: from,
                digest: from_digest,
            },
            to: Moment {
                generation: to,
                digest: to_digest,
            },
            pages,
            section_pages,
            sections,
        };
        let expected = header.length();
        if expected != length {
            return Some(Err(DeltaError::Length {
                expected,
                got: length,
            }));
        }
        Some(Ok(header))
    }

    /// Returns the offset of the pages.
    pub(crate) fn pages_offset(&self) -> u64 {
        DELTA_HEADER_BYTES as u64 + u64::from(self.superblock_length)
    }

    /// Returns the offset of the end mark.
    pub(crate) fn end_offset(&self) -> u64 {
        self.pages_offset() + (self.pages + self.section_pages) * PAGE_BYTES as u64
    }

    /// Returns whether the delta includes the section with this index in the superblock.
    pub(crate) fn has_section(&self, index: usize) -> bool {
        index < 32 && self.sections & (1 << index) != 0
    }

    /// Returns the length of the whole delta.
    pub(crate) fn length(&self) -> u64 {
        self.end_offset() + END_BYTES as u64
    }

    /// Returns the end mark of a delta whose superblock and pages have this CRC, computed with [`Content`].
    pub(crate) fn encode_end(&self, content: Content) -> Vec<u8> {
        let mut bytes = self.end_without_crc();
        let crc = content.finish(&bytes);
        put_u32(&mut bytes, END_CRC_OFFSET, crc);
        bytes
    }

    fn end_without_crc(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(END_BYTES);
        let own = u32_at(&self.encode(), DELTA_CRC_OFFSET);
        Encoder::new(&mut bytes).bytes(&END_MAGIC).u32(own).u32(0);
        bytes
    }

    /// Checks the end mark. A delta is complete only with its end mark.
    pub(crate) fn check_end(&self, bytes: &[u8], content: Content) -> Result<(), DeltaError> {
        let expected = content.finish(&self.end_without_crc());
        let got = u32_at(bytes, END_CRC_OFFSET);
        let same = bytes[..END_CRC_OFFSET] == self.end_without_crc()[..END_CRC_OFFSET];
        if expected == got && same {
            return Ok(());
        }
        Err(DeltaError::Checksum {
            part: "content",
            expected,
            got,
        })
    }

    /// Checks the superblock of the delta against the store's header.
    pub(crate) fn check_superblock(
        &self,
        bytes: &[u8],
        header: &Header,
    ) -> Result<Superblock, DeltaError> {
        let superblock = Superblock::decode(bytes, header).map_err(DeltaError::Superblock)?;
        if u32_at(bytes, SUPERBLOCK_LENGTH_OFFSET) != self.superblock_length {
            let got = u32_at(bytes, SUPERBLOCK_LENGTH_OFFSET);
            return Err(DeltaError::Superblock(super::SuperblockFault::Length {
                got,
            }));
        }
        if superblock.generation != self.to.generation || superblock.log_expected {
            return Err(DeltaError::Field {
                field: "to_generation",
                expected: "its superblock's, which expects no log",
                got: self.to.generation,
            });
        }
        let known = (1_u64 << superblock.sections.len()) - 1;
        if u64::from(self.sections) & !known != 0 {
            let got = self.sections.into();
            return Err(field(
                "sections",
                "a bit for each section that there is",
                got,
            ));
        }
        let held = superblock.sections.iter().enumerate();
        let held = held.filter(|(index, _)| self.has_section(*index));
        let pages: u64 = held.map(|(_, section)| section.pages()).sum();
        if pages != self.section_pages {
            let got = self.section_pages;
            return Err(field("section_pages", "those of its sections", got));
        }
        Ok(superblock)
    }
}

fn field(field: &'static str, expected: &'static str, got: u64) -> DeltaError {
    DeltaError::Field {
        field,
        expected,
        got,
    }
}

fn wrong<T>(
    field: &'static str,
    expected: &'static str,
    got: u64,
) -> Option<Result<T, DeltaError>> {
    Some(Err(self::field(field, expected, got)))
}

fn checked(part: &'static str, bytes: &[u8], got: u32) -> Result<(), DeltaError> {
    let expected = crc32fast::hash(bytes);
    match expected == got {
        true => Ok(()),
        false => Err(DeltaError::Checksum {
            part,
            expected,
            got,
        }),
    }
}

/// The CRC over the bytes between a delta's header and its end mark, computed as they are read or written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content(crc32fast::Hasher);

impl Content {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Finishes the CRC with the end mark up to the end mark's own CRC.
    fn finish(self, end: &[u8]) -> u32 {
        let mut hasher = self.0;
        hasher.update(&end[..END_CRC_OFFSET]);
        hasher.finalize()
    }
}

/// Converts a page to its record in a delta: the page's number replaces CRC and occupancy, which follow from the rest.
pub(crate) fn to_record(number: u64, page: &mut [u8]) {
    put_u64(page, 0, number);
}

/// Returns the page number of a record.
pub(crate) fn number_of(record: &[u8]) -> u64 {
    u64_at(record, 0)
}

/// Converts a record back to its page in a store.
pub(crate) fn to_page((binding, cell): (Binding, Cell), record: &mut [u8]) {
    let number = number_of(record);
    if page::is_blank(&record[GENERATION_OFFSET..PAGE_BYTES]) {
        record.fill(0);
        return;
    }
    let generation = u64_at(record, GENERATION_OFFSET);
    binding.seal(
        number,
        generation,
        page::count_occupied(cell, record),
        record,
    );
}

/// Returns the bytes of a superblock without the padding of its last page.
pub(crate) fn superblock_bytes(superblock: &Superblock, header: &Header) -> Vec<u8> {
    let mut bytes = superblock.encode(header);
    let length = u32_at(&bytes, SUPERBLOCK_LENGTH_OFFSET) as usize;
    debug_assert!(bytes[length..].iter().all(|byte| *byte == 0));
    bytes.truncate(length);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn delta()(
            superblock_length in 40_u32..1000,
            store_id in any::<[u8; 16]>(),
            (from, more) in (1_u64..1 << 40, 0_u64..1 << 40),
            digests in any::<(u64, u64)>(),
            pages in 0_u64..1 << 40,
            (section_pages, sections) in (0_u64..1 << 40, any::<u32>()),
        ) -> DeltaHeader {
            DeltaHeader {
                superblock_length: superblock_length * 8,
                store_id,
                from: Moment { generation: from, digest: digests.0 },
                to: Moment { generation: from + more, digest: digests.1 },
                pages,
                section_pages,
                sections,
            }
        }
    }

    proptest! {
        #[test]
        fn headers_and_ends_go_there_and_back_unless_a_bit_is_flipped(
            delta in delta(),
            content in prop::collection::vec(any::<u8>(), 0..50),
            bit in 0..DELTA_HEADER_BYTES * 8,
            end_bit in 0..END_BYTES * 8,
        ) {
            let length = delta.length();
            let mut bytes = delta.encode();
            prop_assert_eq!(DeltaHeader::decode(&bytes, length), Ok(delta.clone()));
            for other in [length - 1, length + 1] {
                let wrong = DeltaError::Length { expected: length, got: other };
                prop_assert_eq!(DeltaHeader::decode(&bytes, other), Err(wrong));
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(DeltaHeader::decode(&bytes, length).is_err());
            let mut sum = Content::default();
            sum.update(&content);
            let mut end = delta.encode_end(sum.clone());
            prop_assert_eq!(delta.check_end(&end, sum.clone()), Ok(()));
            end[end_bit / 8] ^= 1 << (end_bit % 8);
            prop_assert!(delta.check_end(&end, sum).is_err());
        }

        #[test]
        fn pages_go_there_and_back(
            number in 0_u64..1 << 50,
            generation in 1_u64..1 << 60,
            bits in prop::collection::vec(0_usize..32_640, 0..200),
        ) {
            let mut page = vec![0; PAGE_BYTES];
            for bit in bits {
                page[16 + bit / 8] |= 1 << (bit % 8);
            }
            let binding = Binding::to_store(&[7; 16]);
            binding.seal(number, generation, page::count_bits(&page), &mut page);
            let mut record = page.clone();
            to_record(number, &mut record);
            prop_assert_eq!(number_of(&record), number);
            to_page((binding, Cell::Bit), &mut record);
            prop_assert_eq!(record, page);
        }
    }

    #[test]
    fn a_blank_page_comes_back_blank() {
        let mut record = vec![0; PAGE_BYTES];
        to_record(99, &mut record);
        to_page((Binding::NONE, Cell::Bit), &mut record);
        assert!(page::is_blank(&record));
    }
}
