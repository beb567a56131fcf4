//! Reading a delta, in order to apply it to a copy.

use std::path::Path;
use std::sync::Arc;

use crate::config::open_options::OpenOptions;
use crate::error::{Error, Result};
use crate::file::delta::{Content, DELTA_HEADER_BYTES, DeltaHeader, END_BYTES};
use crate::file::{DeltaError, Header, Section, Superblock};
use crate::page::PAGE_BYTES;
use crate::storefile::page_scan::READ_PAGES;
use crate::storefile::section_check::{check_section_at, check_sections};
use crate::sys::storage::{StorageFile, read_exact_at};

pub(crate) fn delta_error(path: &Path, source: DeltaError) -> Error {
    Error::Delta {
        path: path.to_owned(),
        source,
    }
}

/// A delta whose header has been checked.
pub(crate) struct Delta<'a> {
    pub(crate) path: &'a Path,
    file: Arc<dyn StorageFile>,
    pub(crate) header: DeltaHeader,
}

impl<'a> Delta<'a> {
    pub(crate) fn open(options: &OpenOptions, path: &'a Path) -> Result<Self> {
        let failed = |error| Error::io("read", path, error);
        let file = options.storage.open(path, false).map_err(failed)?;
        let length = file.length().map_err(failed)?;
        let mut bytes = vec![0; length.min(DELTA_HEADER_BYTES as u64) as usize];
        read_exact_at(&*file, &mut bytes, 0).map_err(failed)?;
        let header = DeltaHeader::decode(&bytes, length);
        let header = header.map_err(|source| delta_error(path, source))?;
        Ok(Self { path, file, header })
    }

    pub(crate) fn wrong(&self, source: DeltaError) -> Error {
        delta_error(self.path, source)
    }

    fn read(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        read_exact_at(&*self.file, bytes, offset)
            .map_err(|error| Error::io("read", self.path, error))
    }

    /// Returns the delta's superblock, which must belong to this store.
    pub(crate) fn superblock(&self, header: &Header) -> Result<(Superblock, Content)> {
        let mut bytes = vec![0; self.header.superblock_length as usize];
        self.read(&mut bytes, DELTA_HEADER_BYTES as u64)?;
        let mut content = Content::default();
        content.update(&bytes);
        let superblock = self.header.check_superblock(&bytes, header);
        Ok((superblock.map_err(|source| self.wrong(source))?, content))
    }

    /// Reads all pages in pieces, then those of each section with the place where each piece goes. At the end, checks
    /// what the pieces and `content`, which was read before, must add up to. A piece is not certain before that.
    pub(crate) fn for_each_piece(
        &self,
        superblock: &Superblock,
        mut content: Content,
        mut each: impl FnMut(&mut [u8]) -> Result<()>,
        mut each_of_section: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut offset = self.header.pages_offset();
        let mut bytes = Vec::new();
        let mut read = |left: u64, bytes: &mut Vec<u8>| {
            let count = left.min(READ_PAGES);
            bytes.resize(count as usize * PAGE_BYTES, 0);
            self.read(bytes, offset)?;
            content.update(bytes);
            offset += bytes.len() as u64;
            Ok::<_, Error>(count)
        };
        let mut left = self.header.pages;
        while left > 0 {
            left -= read(left, &mut bytes)?;
            each(&mut bytes)?;
        }
        for (section, _) in self.sections(superblock) {
            let mut pages = section.numbers();
            while !pages.is_empty() {
                let count = read(pages.end - pages.start, &mut bytes)?;
                each_of_section(pages.start, &bytes)?;
                pages.start += count;
            }
        }
        // Pages and sections leave nothing unread before the end mark, whose CRC is over all of them.
        assert_eq!(offset, self.header.end_offset());
        let mut end = [0; END_BYTES];
        self.read(&mut end, self.header.end_offset())?;
        let checked = self.header.check_end(&end, content);
        checked.map_err(|source| self.wrong(source))
    }

    /// Returns the sections of its superblock that the delta contains, and where they begin.
    fn sections(&self, superblock: &Superblock) -> Vec<(Section, u64)> {
        let mut offset = self.header.pages_offset() + self.header.pages * PAGE_BYTES as u64;
        let sections = superblock.sections.iter().enumerate();
        let inside = sections.filter(|(index, _)| self.header.has_section(*index));
        let place = |(_, section): (usize, &Section)| {
            let begins = offset;
            offset += section.pages() * PAGE_BYTES as u64;
            (*section, begins)
        };
        inside.map(place).collect()
    }

    /// Checks all sections of its superblock: those in the delta, and the others in the copy.
    pub(crate) fn check_sections(
        &self,
        superblock: &Superblock,
        copy: &dyn StorageFile,
        path: &Path,
    ) -> Result<()> {
        for (section, offset) in self.sections(superblock) {
            check_section_at(&*self.file, self.path, &section, offset)?;
        }
        let sections = superblock.sections.iter().enumerate();
        let outside = sections.filter(|(index, _)| !self.header.has_section(*index));
        check_sections(copy, path, outside.map(|(_, section)| section))
    }
}
