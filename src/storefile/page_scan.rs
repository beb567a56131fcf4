//! Reads many pages in order.

use std::ops::Range;
use std::path::Path;

use crate::error::{Error, Result};
use crate::file::layout::{FIRST_PAGE, page_offset};
use crate::file::{FormatError, Layer, Superblock};
use crate::page::{self, Binding, Content, PAGE_BYTES};
use crate::sizing::Cell;
use crate::sys::storage::{StorageFile, read_exact_at, write_all_at};

/// The number of pages that are read at a time.
pub(crate) const READ_PAGES: u64 = 256;

/// The pages of a file, read in chunks.
pub(crate) struct Pages<'a> {
    file: &'a dyn StorageFile,
    path: &'a Path,
    bytes: Vec<u8>,
    held: Range<u64>,
    /// The pages that may not be blank. All pages between them and those requested last are blank.
    data: Range<u64>,
}

impl<'a> Pages<'a> {
    pub(crate) fn new(file: &'a dyn StorageFile, path: &'a Path) -> Self {
        Self {
            file,
            path,
            bytes: Vec::new(),
            held: 0..0,
            data: 0..0,
        }
    }

    /// Returns how many pages from `number` on, up to `end`, are a hole of the file and need not be read: there may be
    /// too many to read in any reasonable time. The first one is read nevertheless, to check what the system reports.
    pub(crate) fn hole(&mut self, number: u64, end: u64) -> Result<u64> {
        if !self.data.contains(&number) {
            let data = self.file.next_data(page_offset(number));
            let data = data.map_err(|error| Error::io("look for data of", self.path, error))?;
            let page = PAGE_BYTES as u64;
            self.data = match data.is_empty() {
                true => u64::MAX..u64::MAX,
                false => data.start / page..data.end.div_ceil(page),
            };
        }
        assert!(number < end, "{number} of {end}");
        let pages = self.data.start.min(end).saturating_sub(number);
        if pages > 0 && !page::is_blank(self.page(number, number + 1)?) {
            self.data = number..end;
            return Ok(0);
        }
        Ok(pages)
    }

    /// Returns the end of the data that contains page `number`, at most `end`.
    pub(crate) fn end_of_data(&self, number: u64, end: u64) -> u64 {
        self.data.end.clamp(number + 1, end)
    }

    /// Returns page `number`. The file must contain all pages from it up to `end`.
    pub(crate) fn page(&mut self, number: u64, end: u64) -> Result<&[u8]> {
        if !self.held.contains(&number) {
            // An empty piece would be read again and again, and have no page.
            assert!(number < end, "{number} of {end}");
            let mut piece = number..end.min(number + READ_PAGES);
            if self.data.contains(&number) {
                piece.end = piece.end.min(self.data.end);
            }
            let length = (piece.end - piece.start) as usize * PAGE_BYTES;
            self.bytes.resize(length, 0);
            self.held = 0..0;
            read_exact_at(self.file, &mut self.bytes, page_offset(number))
                .map_err(|error| Error::io("read pages of", self.path, error))?;
            self.held = piece;
        }
        let at = (number - self.held.start) as usize * PAGE_BYTES;
        Ok(&self.bytes[at..at + PAGE_BYTES])
    }
}

/// A page of a layer.
#[derive(Clone, Copy)]
pub(crate) struct PagePlace<'a> {
    /// The layer's index in the superblock.
    pub(crate) index: u32,
    pub(crate) layer: &'a Layer,
    /// The page's number in the file.
    pub(crate) number: u64,
}

/// Iterates over all pages of some layers.
pub(crate) fn places(layers: &[Layer]) -> impl Iterator<Item = PagePlace<'_>> {
    (0..).zip(layers).flat_map(|(index, layer)| {
        (layer.first_page..layer.end_page()).map(move |number| PagePlace {
            index,
            layer,
            number,
        })
    })
}

/// Returns the number of pages of all layers.
pub(crate) fn count(layers: &[Layer]) -> u64 {
    layers.iter().map(|layer| layer.pages).sum()
}

/// Checks a page as `verify` does: its CRC, its occupancy, and that it is blank only where it may be.
pub(crate) fn check(
    path: &Path,
    (binding, cell): (Binding, Cell),
    place: PagePlace<'_>,
    bytes: &[u8],
) -> Result<()> {
    let PagePlace {
        index,
        layer,
        number,
    } = place;
    let fault = match binding.check_in_layer(number, bytes, || layer.all_written) {
        Ok(Content::Sealed { occupancy, .. }) if page::count_occupied(cell, bytes) != occupancy => {
            page::PageFault {
                expected: binding.checksum(number, bytes),
                got: 0,
            }
        }
        Ok(_) => return Ok(()),
        Err(fault) => fault,
    };
    Err(Error::Format {
        path: path.to_owned(),
        source: FormatError::PageDamaged {
            layer: index,
            page: number - layer.first_page,
            expected: fault.expected,
            got: fault.got,
        },
    })
}

/// Zeroes everything between layers and sections: the places of sections that no longer exist. So copies of the same
/// moment agree in every byte.
pub(crate) fn clear_unnamed(
    file: &dyn StorageFile,
    path: &Path,
    superblock: &Superblock,
) -> Result<()> {
    clear(file, path, superblock.unnamed())
}

/// Zeroes ranges of pages. Pages that are zero already are not written.
pub(crate) fn clear(
    file: &dyn StorageFile,
    path: &Path,
    pages: impl IntoIterator<Item = Range<u64>>,
) -> Result<()> {
    let zeros = [0; PAGE_BYTES];
    for run in pages {
        // Zeros over a header or a superblock would be the end of the store.
        assert!(run.start >= FIRST_PAGE, "{run:?}");
        let mut pages = Pages::new(file, path);
        let mut number = run.start;
        while number < run.end {
            let hole = pages.hole(number, run.end)?;
            if hole == 0 && pages.page(number, run.end)? != zeros {
                write_all_at(file, &zeros, page_offset(number))
                    .map_err(|error| Error::io("write", path, error))?;
            }
            number += hole.max(1);
        }
    }
    Ok(())
}
