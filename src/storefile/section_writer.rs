//! Writes sections: hashes that are kept exactly (FORMAT.md, "Sections").

use std::path::Path;

use crate::error::{Error, Result};
use crate::file::layout::{FIRST_PAGE, LAYER_ALIGNMENT, page_offset};
use crate::file::{Section, SectionKind};
use crate::page::PAGE_BYTES;
use crate::sys::storage::{StorageFile, write_all_at};

/// The number of bytes written at a time.
const WRITE_BYTES: usize = 64 * PAGE_BYTES;

/// Writes a section, hash after hash, in an area that no superblock names.
///
/// The stamp changes first, so a reader of the previous content notices.
pub(crate) struct SectionWriter<'a> {
    file: &'a dyn StorageFile,
    path: &'a Path,
    section: Section,
    hasher: crc32fast::Hasher,
    /// The first page, which is written last.
    front: Vec<u8>,
    /// The bytes still to be written, and the page that they begin at.
    pending: Vec<u8>,
    at: u64,
    /// The hash that was added last.
    last: Option<u64>,
}

impl<'a> SectionWriter<'a> {
    pub(crate) fn begin(
        file: &'a dyn StorageFile,
        path: &'a Path,
        kind: SectionKind,
        first_page: u64,
        generation: u64,
    ) -> Result<Self> {
        assert!(generation > 0, "a section's stamp is not 0");
        assert!(first_page >= FIRST_PAGE, "{first_page}");
        assert!(first_page.is_multiple_of(LAYER_ALIGNMENT), "{first_page}");
        let mut writer = Self {
            file,
            path,
            section: Section {
                kind,
                rarity: 0,
                first_page,
                count: 0,
                crc: 0,
            },
            hasher: crc32fast::Hasher::new(),
            front: generation.to_le_bytes().to_vec(),
            pending: vec![0; PAGE_BYTES],
            at: first_page,
            last: None,
        };
        writer.hasher.update(&writer.front);
        writer.flush()?;
        Ok(writer)
    }

    /// Adds hashes. They must be sorted, and above all hashes added before.
    pub(crate) fn put(&mut self, hashes: &[u64]) -> Result<()> {
        for hash in hashes {
            // A reader takes all of a section for damaged whose hashes don't rise.
            assert!(self.last < Some(*hash), "{hash:x} behind {:x?}", self.last);
            self.last = Some(*hash);
            let bytes = hash.to_le_bytes();
            self.hasher.update(&bytes);
            match self.front.len() < PAGE_BYTES {
                true => self.front.extend_from_slice(&bytes),
                false => self.pending.extend_from_slice(&bytes),
            }
            if self.pending.len() == WRITE_BYTES {
                self.flush()?;
            }
        }
        // All of a page but its last bytes is written: the front alone waits for the sync.
        debug_assert!(self.pending.is_empty() || self.front.len() == PAGE_BYTES);
        self.section.count += hashes.len() as u64;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let length = self.pending.len().next_multiple_of(PAGE_BYTES);
        self.pending.resize(length, 0);
        self.write(&self.pending, self.at)?;
        self.at += (length / PAGE_BYTES) as u64;
        self.pending.clear();
        Ok(())
    }

    fn write(&self, bytes: &[u8], page: u64) -> Result<()> {
        write_all_at(self.file, bytes, page_offset(page))
            .map_err(|error| Error::io("write a section of", self.path, error))
    }

    /// Finishes the section after the last hash. The caller still has to sync the file.
    pub(crate) fn finish(mut self) -> Result<Section> {
        self.flush()?;
        assert!(
            self.section.count > 0,
            "a section without hashes has no pages"
        );
        // As many pages as its place was chosen for.
        assert_eq!(self.at, self.section.numbers().end);
        assert!(self.pending.is_empty() && self.front.len() <= PAGE_BYTES);
        self.front.resize(PAGE_BYTES, 0);
        self.write(&self.front, self.section.first_page)?;
        Ok(Section {
            crc: self.hasher.finalize(),
            ..self.section
        })
    }
}
