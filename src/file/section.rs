//! A section: hashes that a store keeps exactly, sorted, in pages of their own (FORMAT.md, "Sections").

use std::io;
use std::ops::Range;

use super::layout::{FIRST_PAGE, LAYER_ALIGNMENT, PAGE_LIMIT, page_offset};
use super::{FormatError, SuperblockFault};
use crate::codec::{Decoder, Encoder, u64_at};
use crate::page::PAGE_BYTES;
use crate::sys::storage::{StorageFile, read_exact_at};

/// Bytes that a section takes in the superblock.
pub(crate) const SECTION_BYTES: usize = 32;
/// Maximum number of sections in a store, with room for more than there are.
pub(crate) const MAX_SECTIONS: usize = 8;
/// Maximum number of sections that a sample is divided into. Of other kinds there is one at most.
pub(crate) const MOST_SAMPLE_PARTS: usize = 4;
/// Bytes before the hashes, which hold the stamp.
const STAMP_BYTES: u64 = 8;
/// The smallest share of a sample is one in two to the power of this.
pub(crate) const MAX_RARITY: u32 = 32;
/// Maximum number of hashes in a section: no section exceeds the total number of possible pages.
pub(crate) const MAX_SECTION_HASHES: u64 = (PAGE_LIMIT * PAGE_BYTES as u64 - STAMP_BYTES) / 8;
/// Pages read at a time.
const SECTION_PAGES_AT_ONCE: u64 = 16;

/// What the hashes of a section are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SectionKind {
    /// Known false positives of the pages.
    Exempt,
    /// Of the keys in the pages, those that are sampled.
    Sample,
    /// Sampled keys whose insert was mistaken for seen.
    Lost,
}

impl SectionKind {
    pub(crate) fn id(self) -> u32 {
        match self {
            SectionKind::Exempt => 1,
            SectionKind::Sample => 2,
            SectionKind::Lost => 3,
        }
    }

    fn from_id(id: u32) -> Option<Self> {
        match id {
            1 => Some(SectionKind::Exempt),
            2 => Some(SectionKind::Sample),
            3 => Some(SectionKind::Lost),
            _ => None,
        }
    }

    /// Returns its name in FORMAT.md.
    pub(crate) fn name(self) -> &'static str {
        match self {
            SectionKind::Exempt => "exempt",
            SectionKind::Sample => "sample",
            SectionKind::Lost => "lost",
        }
    }
}

/// One section of a store, as its superblock describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) kind: SectionKind,
    /// In a sample, one key in two to the power of this is sampled. 0 for other kinds.
    pub(crate) rarity: u32,
    /// Number of its first page in the file; 0 if it has no hash yet.
    pub(crate) first_page: u64,
    /// The number of hashes in it.
    pub(crate) count: u64,
    /// CRC over the stamp and the hashes.
    pub(crate) crc: u32,
}

/// Returns the number of pages that this many hashes take.
pub(crate) fn pages_for(count: u64) -> u64 {
    (STAMP_BYTES + count * 8).div_ceil(PAGE_BYTES as u64)
}

/// Returns the first place for this many pages that overlaps none of the taken ranges and begins where a layer could
/// begin. Sorts the ranges.
pub(crate) fn place_for(pages: u64, taken: &mut [Range<u64>]) -> u64 {
    taken.sort_unstable_by_key(|range| range.start);
    let mut at = FIRST_PAGE;
    for range in &*taken {
        if range.start >= at && range.start - at >= pages {
            break;
        }
        at = at.max(range.end.next_multiple_of(LAYER_ALIGNMENT));
    }
    let is_apart = |range: &Range<u64>| range.end <= at || at.saturating_add(pages) <= range.start;
    assert!(taken.iter().all(is_apart), "{pages} at {at}");
    at
}

impl Section {
    /// Returns its number of pages. A section without hashes, such as a new sample, has none.
    pub(crate) fn pages(&self) -> u64 {
        match self.count {
            0 => 0,
            count => pages_for(count),
        }
    }

    /// Returns its page numbers in the file.
    pub(crate) fn numbers(&self) -> Range<u64> {
        self.first_page..self.first_page + self.pages()
    }

    pub(crate) fn encode(&self, out: &mut Encoder<'_>) {
        // What decoding refuses is never written.
        let is_sample = self.kind == SectionKind::Sample;
        assert_eq!(is_sample, self.rarity > 0, "{self:?}");
        assert!(self.rarity <= MAX_RARITY, "{self:?}");
        let is_empty = (self.first_page, self.count, self.crc) == (0, 0, 0);
        assert!(
            is_sample && is_empty || self.first_page >= FIRST_PAGE && self.count > 0,
            "{self:?}"
        );
        out.u32(self.kind.id())
            .u32(self.rarity)
            .u64(self.first_page)
            .u64(self.count)
            .u32(self.crc)
            .u32(0);
    }

    /// Decodes the section behind others; returns `None` at the end of the bytes.
    pub(crate) fn decode(
        input: &mut Decoder<'_>,
        before: &[Self],
    ) -> Option<Result<Self, SuperblockFault>> {
        let id = input.u32()?;
        let rarity = input.u32()?;
        let first_page = input.u64()?;
        let count = input.u64()?;
        let crc = input.u32()?;
        let reserved = input.u32()?;
        let wrong = |field, expected, got| {
            Some(Err(SuperblockFault::Field {
                field,
                expected,
                got,
            }))
        };
        let follows = |kind: &SectionKind| follows(*kind, before);
        let Some(kind) = SectionKind::from_id(id).filter(follows) else {
            let expected = "a known one, rising, each once but up to 4 of a sample";
            return wrong("section_kind", expected, id.into());
        };
        let part_before = before.last().filter(|last| last.kind == kind);
        let fits = match kind {
            SectionKind::Sample => {
                (1..=MAX_RARITY).contains(&rarity)
                    && part_before.is_none_or(|part| part.rarity == rarity)
            }
            _ => rarity == 0,
        };
        if !fits {
            let expected = "0, or 1 to 32 of a sample, the same in all its parts";
            return wrong("rarity", expected, rarity.into());
        }
        let may_be_empty = kind == SectionKind::Sample && part_before.is_none();
        if may_be_empty && (first_page, count, crc, reserved) == (0, 0, 0, 0) {
            return Some(Ok(Self::empty_sample(rarity)));
        }
        let aligned = first_page.is_multiple_of(LAYER_ALIGNMENT);
        if first_page < FIRST_PAGE || !aligned || first_page >= PAGE_LIMIT {
            return wrong("section_page", "a multiple of 16, 32 or more", first_page);
        }
        if count == 0 || count > MAX_SECTION_HASHES || pages_for(count) > PAGE_LIMIT - first_page {
            return wrong("hashes", "at least 1, on pages below 2^50", count);
        }
        if reserved != 0 {
            return wrong("section_reserved", "0", reserved.into());
        }
        Some(Ok(Self {
            kind,
            rarity,
            first_page,
            count,
            crc,
        }))
    }

    /// Returns a sample without keys.
    pub(crate) fn empty_sample(rarity: u32) -> Self {
        Self {
            kind: SectionKind::Sample,
            rarity,
            first_page: 0,
            count: 0,
            crc: 0,
        }
    }

    fn damaged(&self, expected: u32, got: u32) -> FormatError {
        FormatError::SectionDamaged {
            section: self.kind.name(),
            hashes: self.count,
            expected,
            got,
        }
    }

    /// Reads and checks the whole section; returns its stamp.
    ///
    /// # Errors
    /// The inner error describes the contents, the outer one a failed read.
    pub(crate) fn check(&self, file: &dyn StorageFile) -> io::Result<Result<u64, FormatError>> {
        self.check_at(file, page_offset(self.first_page))
    }

    /// Checks the section as if its pages began at another offset.
    pub(crate) fn check_at(
        &self,
        file: &dyn StorageFile,
        mut offset: u64,
    ) -> io::Result<Result<u64, FormatError>> {
        if self.count == 0 {
            return Ok(Ok(0));
        }
        let mut checker = Checker::new(self);
        let mut left = self.pages();
        let mut bytes = Vec::new();
        while left > 0 {
            let count = SECTION_PAGES_AT_ONCE.min(left);
            bytes.resize(count as usize * PAGE_BYTES, 0);
            read_exact_at(file, &mut bytes, offset)?;
            checker.feed(&bytes);
            if !checker.rising {
                // Stop here whatever length the section claims: zeros, of which a file may hold any number, are not
                // ascending.
                break;
            }
            offset += bytes.len() as u64;
            left -= count;
        }
        Ok(checker.finish())
    }
}

/// Returns whether a superblock can name these sections, in this order.
pub(crate) fn are_in_order(sections: &[Section]) -> bool {
    let mut numbered = sections.iter().enumerate();
    numbered.all(|(number, section)| follows(section.kind, &sections[..number]))
}

/// Returns whether a section of a kind may follow others.
fn follows(kind: SectionKind, before: &[Section]) -> bool {
    let Some(last) = before.last() else {
        return true;
    };
    let parts = || before.iter().filter(|part| part.kind == kind).count();
    match kind {
        // A sample without hashes has no parts.
        SectionKind::Sample if last.kind == kind => last.count > 0 && parts() < MOST_SAMPLE_PARTS,
        _ => last.kind < kind,
    }
}

/// Checks the pages of a section as they arrive.
struct Checker {
    section: Section,
    hasher: crc32fast::Hasher,
    /// Bytes of stamp and hashes still to come.
    left: u64,
    stamp: Option<u64>,
    last: Option<u64>,
    /// The stamp is above 0, and each hash so far is above the one before.
    rising: bool,
}

impl Checker {
    fn new(section: &Section) -> Self {
        Self {
            section: *section,
            hasher: crc32fast::Hasher::new(),
            left: STAMP_BYTES + section.count * 8,
            stamp: None,
            last: None,
            rising: true,
        }
    }

    /// Processes the next whole pages.
    fn feed(&mut self, pages: &[u8]) {
        let count = self.left.min(pages.len() as u64) as usize;
        let bytes = &pages[..count];
        self.left -= count as u64;
        self.hasher.update(bytes);
        for at in (0..count).step_by(8) {
            let word = u64_at(bytes, at);
            if self.stamp.is_none() {
                self.stamp = Some(word);
                self.rising &= word > 0;
                continue;
            }
            self.rising &= self.last < Some(word);
            self.last = Some(word);
        }
    }

    /// Returns the section's stamp if the section is intact.
    fn finish(self) -> Result<u64, FormatError> {
        let expected = self.hasher.finalize();
        match self.stamp {
            Some(stamp) if self.left == 0 && self.rising && expected == self.section.crc => {
                Ok(stamp)
            }
            _ => Err(self.section.damaged(expected, self.section.crc)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The slow twin tries one place after another.
        #[test]
        fn a_place_is_the_first_that_is_free(
            pages in 1_u64..60,
            runs in prop::collection::vec((0_u64..20, 1_u64..50), 0..8),
        ) {
            let mut taken: Vec<_> = runs
                .iter()
                .map(|(slot, length)| {
                    let start = FIRST_PAGE + slot * LAYER_ALIGNMENT;
                    start..start + length
                })
                .collect();
            let twin = (FIRST_PAGE..).step_by(LAYER_ALIGNMENT as usize).find(|at| {
                let apart = |range: &Range<u64>| range.end <= *at || range.start >= at + pages;
                taken.iter().all(apart)
            });
            prop_assert_eq!(Some(place_for(pages, &mut taken)), twin);
        }
    }

    /// Decodes a section behind others.
    fn behind(before: &[Section], section: &Section) -> Result<Section, SuperblockFault> {
        let mut bytes = Vec::new();
        section.encode(&mut Encoder::new(&mut bytes));
        Section::decode(&mut Decoder::new(&bytes), before).unwrap()
    }

    #[test]
    fn a_sample_alone_has_parts() {
        let part = |kind: SectionKind, rarity| Section {
            kind,
            rarity,
            first_page: FIRST_PAGE,
            count: 7,
            crc: 1,
        };
        let [exempt, lost] = [SectionKind::Exempt, SectionKind::Lost].map(|kind| part(kind, 0));
        let sample = part(SectionKind::Sample, 12);
        let empty = Section::empty_sample(12);
        let refused = |before: &[Section], section, field: &str| {
            let fault = behind(before, &section);
            assert!(
                matches!(&fault, Err(SuperblockFault::Field { field: got, .. }) if *got == field),
                "{fault:?} behind {before:?}"
            );
        };
        for count in 0..MOST_SAMPLE_PARTS {
            let before = [vec![exempt], vec![sample; count]].concat();
            assert_eq!(behind(&before, &sample), Ok(sample));
            assert_eq!(behind(&before, &lost), Ok(lost));
            refused(&before, exempt, "section_kind");
        }
        refused(&[sample; MOST_SAMPLE_PARTS], sample, "section_kind");
        refused(&[sample, lost], sample, "section_kind");
        refused(&[lost], lost, "section_kind");
        refused(&[sample], part(SectionKind::Sample, 11), "rarity");
        assert_eq!(behind(&[exempt], &empty), Ok(empty));
        refused(&[sample], empty, "section_page");
        refused(&[empty], sample, "section_kind");
    }

    #[test]
    fn pages_hold_the_stamp_and_the_hashes() {
        assert_eq!([1, 511, 512, 1023, 1024].map(pages_for), [1, 1, 2, 2, 3]);
        assert_eq!(pages_for(MAX_SECTION_HASHES), PAGE_LIMIT);
    }
}
