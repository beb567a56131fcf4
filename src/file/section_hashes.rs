//! The hashes of a section, as look-ups read them.

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::FormatError;
use super::layout::page_offset;
use super::section::Section;
use crate::page::PAGE_BYTES;
use crate::page::place::page_of;
use crate::sys::Map;
use crate::sys::storage::StorageFile;
use crate::sys::sync::{Ordering, fence};

/// The number of hashes around the guessed one that a search tries first.
const NEAR: u64 = 8;

/// The hashes of a section, read through a map.
///
/// A checkpoint or two after another section replaces this one, its pages are reused. The stamp changes before anything
/// else, so a reader that reads the stamp last knows whether it has read the section.
#[derive(Debug)]
pub(crate) struct Hashes {
    map: Map,
    count: u64,
    stamp: u64,
}

/// The section no longer exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone;

impl Hashes {
    /// Checks a section and maps it.
    ///
    /// # Errors
    /// Returns the errors of [`Section::check`].
    pub(crate) fn open(
        section: &Section,
        file: &dyn StorageFile,
    ) -> io::Result<Result<Self, FormatError>> {
        let stamp = match section.check(file)? {
            Ok(stamp) => stamp,
            Err(error) => return Ok(Err(error)),
        };
        let length = section.pages() * PAGE_BYTES as u64;
        let map = file.map(page_offset(section.first_page), length)?;
        Ok(Ok(Self {
            map,
            count: section.count,
            stamp,
        }))
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    fn hash(&self, index: u64) -> u64 {
        debug_assert!(index < self.count, "zeros lie behind");
        self.map.word(index as usize + 1)
    }

    /// Returns how many hashes in the section are below `hash`.
    fn below(&self, hash: u64) -> u64 {
        // Hashes are spread evenly, so the position is near the one that the high bits give.
        let guess = page_of(hash, self.count);
        let (mut low, mut high) = (0, self.count);
        let mut step = NEAR;
        if self.hash(guess) < hash {
            low = guess + 1;
            while low + step < high {
                if self.hash(low + step) >= hash {
                    high = low + step;
                    break;
                }
                low += step + 1;
                step *= 2;
            }
        } else {
            high = guess;
            while low + step < high {
                if self.hash(high - step) < hash {
                    low = high - step + 1;
                    break;
                }
                high -= step;
                step *= 2;
            }
        }
        debug_assert!(low <= high && high <= self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.hash(middle) < hash {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    fn still<T>(&self, answer: T) -> Result<T, Gone> {
        // Orders the read of the stamp after the reads above.
        fence(Ordering::Acquire);
        match self.map.word(0) == self.stamp {
            true => Ok(answer),
            false => Err(Gone),
        }
    }

    /// Returns whether its pages hold something else by now.
    pub(crate) fn is_gone(&self) -> bool {
        self.still(()).is_err()
    }

    /// Returns whether the section contains the hash.
    pub(crate) fn contains(&self, hash: u64) -> Result<bool, Gone> {
        let index = self.below(hash);
        self.still(index < self.count && self.hash(index) == hash)
    }

    /// Appends at most `most` hashes in a range, sorted.
    pub(crate) fn load(
        &self,
        range: RangeInclusive<u64>,
        most: usize,
        out: &mut Vec<u64>,
    ) -> Result<(), Gone> {
        let first = self.below(*range.start());
        let hashes = (first..self.count).map(|index| self.hash(index));
        let before = out.len();
        out.extend(hashes.take(most).take_while(|hash| range.contains(hash)));
        self.still(()).inspect_err(|_| out.truncate(before))
    }
}

/// The hashes of all sections of a kind.
#[derive(Debug, Clone)]
pub(crate) struct SectionParts(pub(crate) Vec<Arc<Hashes>>);

impl SectionParts {
    /// Returns whether the pages of one of them hold something else by now.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.iter().any(|part| part.is_gone())
    }

    /// Returns whether one of them contains the hash.
    pub(crate) fn contains(&self, hash: u64) -> Result<bool, Gone> {
        for part in &self.0 {
            if part.contains(hash)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Appends at most `most` hashes in a range, sorted.
    pub(crate) fn load(
        &self,
        range: RangeInclusive<u64>,
        most: usize,
        out: &mut Vec<u64>,
    ) -> Result<(), Gone> {
        let before = out.len();
        for part in &self.0 {
            let loaded = part.load(range.clone(), most, out);
            loaded.inspect_err(|_| out.truncate(before))?;
        }
        if self.0.len() > 1 {
            out[before..].sort_unstable();
            out.truncate(before.saturating_add(most));
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::file::layout::FIRST_PAGE;
    use crate::file::section::SectionKind;

    fn file_of(hashes: &[u64]) -> (tempfile::TempDir, Section) {
        let mut bytes = vec![0; page_offset(FIRST_PAGE) as usize];
        bytes.extend(7_u64.to_le_bytes());
        bytes.extend(hashes.iter().flat_map(|hash| hash.to_le_bytes()));
        let crc = crc32fast::hash(&bytes[page_offset(FIRST_PAGE) as usize..]);
        bytes.resize(bytes.len().next_multiple_of(PAGE_BYTES), 0);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), bytes).unwrap();
        let section = Section {
            kind: SectionKind::Exempt,
            rarity: 0,
            first_page: FIRST_PAGE,
            count: hashes.len() as u64,
            crc,
        };
        (folder, section)
    }

    proptest! {
        /// The slow twin is a set and its ranges, with even and crowded hashes.
        #[test]
        fn a_section_is_the_set_of_its_hashes(
            hashes in prop::collection::btree_set(any::<u64>(), 1..1500),
            crowd in prop::collection::btree_set(1_u64 << 40..(1 << 40) + 3000, 0..800),
            others in prop::collection::vec(any::<u64>(), 30),
            (start, most) in (any::<u64>(), 0_usize..900),
        ) {
            let set: std::collections::BTreeSet<u64> = &hashes | &crowd;
            let all: Vec<u64> = set.iter().copied().collect();
            let (folder, section) = file_of(&all);
            let storage = crate::sys::Disk::default();
            let path = folder.path().join("file");
            let file = crate::sys::storage::Storage::open(&storage, &path, false).unwrap();
            let held = Hashes::open(&section, &*file).unwrap().unwrap();
            for hash in &all {
                for near in [hash.wrapping_sub(1), *hash, hash.wrapping_add(1)] {
                    prop_assert_eq!(held.contains(near), Ok(set.contains(&near)));
                }
            }
            for hash in others {
                prop_assert_eq!(held.contains(hash), Ok(set.contains(&hash)));
                prop_assert_eq!(held.below(hash), set.range(..hash).count() as u64);
            }
            let mut out = vec![1];
            held.load(start..=u64::MAX / 2, most, &mut out).unwrap();
            let range = start..=(u64::MAX / 2).max(start);
            let twin = set.range(range).filter(|hash| **hash <= u64::MAX / 2).take(most);
            prop_assert_eq!(&out[1..], &twin.copied().collect::<Vec<_>>()[..]);
            // Another stamp means that the section is gone.
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[page_offset(FIRST_PAGE) as usize] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            prop_assert_eq!(held.contains(all[0]), Err(Gone));
            prop_assert!(held.is_gone());
            let fault = section.check(&*file).unwrap();
            prop_assert!(matches!(fault, Err(FormatError::SectionDamaged { .. })), "{:?}", fault);
        }
    }
}
