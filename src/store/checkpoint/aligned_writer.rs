//! Writes that end where large pages of memory do.
//!
//! Linux caches a new part of a file in as few pieces as the calls that write it allow. What one call writes of an aligned
//! 2 MiB becomes one piece, which one entry of the processor's tables maps. In a filter whose segments are written
//! one by one, across these borders, a look-up spends a fourth of its time on address translation.
//!
//! A part of the file that has been written before stays in the pieces that it has, so what goes there need not wait.

use crate::error::{Error, Result};
use crate::store::storefile::store_file::StoreFile;

/// The bytes of a large page.
const LARGE_PAGE: u64 = 2 << 20;

/// Writes what follows each other in the file by calls that end at borders of large pages.
pub(crate) struct AlignedWriter<'a> {
    file: &'a StoreFile,
    /// The end of what may have been written before.
    length: u64,
    /// What reaches no border yet, and where it belongs.
    pending: Vec<u8>,
    offset: u64,
}

impl<'a> AlignedWriter<'a> {
    pub(crate) fn new(file: &'a StoreFile) -> Result<Self> {
        let length = file.raw.length();
        Ok(Self {
            file,
            length: length.map_err(|error| Error::io("measure", &file.place, error))?,
            pending: Vec::new(),
            offset: 0,
        })
    }

    /// Writes bytes. In a new part of the file, those behind the last border wait.
    pub(crate) fn write(&mut self, mut bytes: &[u8], mut offset: u64) -> Result<()> {
        if self.end() != offset {
            self.finish()?;
        }
        if self.pending.is_empty() && offset + bytes.len() as u64 <= self.length {
            return self.file.write_pages(bytes, offset);
        }
        if !self.pending.is_empty() {
            let left = LARGE_PAGE - self.end() % LARGE_PAGE;
            let (piece, rest) = bytes.split_at(left.min(bytes.len() as u64) as usize);
            self.pending.extend_from_slice(piece);
            if !self.end().is_multiple_of(LARGE_PAGE) {
                return Ok(());
            }
            self.finish()?;
            offset += piece.len() as u64;
            bytes = rest;
        }
        let behind = (offset + bytes.len() as u64) % LARGE_PAGE;
        let whole = (bytes.len() as u64).saturating_sub(behind);
        let (pieces, rest) = bytes.split_at(whole as usize);
        self.file.write_pages(pieces, offset)?;
        self.pending.extend_from_slice(rest);
        self.offset = offset + whole;
        Ok(())
    }

    /// Writes what is left.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.file.write_pages(&self.pending, self.offset)?;
        self.offset = self.end();
        self.pending.clear();
        Ok(())
    }

    fn end(&self) -> u64 {
        self.offset + self.pending.len() as u64
    }
}
