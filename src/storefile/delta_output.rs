//! The bytes of a delta, as they are written.

use crate::error::Result;
use crate::file::delta::{Content, DELTA_HEADER_BYTES, DeltaHeader, to_record};
use crate::file::layout::PAGE_LIMIT;
use crate::page::PAGE_BYTES;
use crate::storefile::atomic_file::AtomicFile;
use crate::storefile::page_scan::READ_PAGES;
use crate::sys::storage::write_all_at;

/// The pages of layers or of segments in a delta.
#[derive(Default)]
pub(crate) struct Changes {
    /// How many they are.
    pub(crate) count: u64,
    /// Digests of all pages, of the copy and of the store.
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// Writes what follows a delta's header.
pub(crate) struct DeltaOutput<'a> {
    draft: &'a AtomicFile,
    content: Content,
    /// The offset of the bytes that are still to be written.
    at: u64,
    pending: Vec<u8>,
}

impl<'a> DeltaOutput<'a> {
    pub(crate) fn new(draft: &'a AtomicFile) -> Self {
        Self {
            draft,
            content: Content::default(),
            at: DELTA_HEADER_BYTES as u64,
            pending: Vec::new(),
        }
    }

    /// Returns the offset where the written and pending bytes end.
    pub(crate) fn end_offset(&self) -> u64 {
        self.at + self.pending.len() as u64
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.content.update(bytes);
        self.pending.extend_from_slice(bytes);
        match self.pending.len() < READ_PAGES as usize * PAGE_BYTES {
            true => Ok(()),
            false => self.flush(),
        }
    }

    pub(crate) fn put_page(&mut self, number: u64, page: &[u8]) -> Result<()> {
        assert!(
            number < PAGE_LIMIT,
            "a record that no reader takes: {number}"
        );
        let mut record = [0; PAGE_BYTES];
        record.copy_from_slice(page);
        to_record(number, &mut record);
        self.put(&record)
    }

    fn flush(&mut self) -> Result<()> {
        write_all_at(&*self.draft.file, &self.pending, self.at)
            .map_err(|error| self.draft.failed(error))?;
        self.at += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    pub(crate) fn end(mut self, header: &DeltaHeader) -> Result<()> {
        let end = header.encode_end(std::mem::take(&mut self.content));
        // What the header says is what was written, or no reader takes the delta.
        assert_eq!(self.end_offset(), header.end_offset());
        self.pending.extend_from_slice(&end);
        self.flush()
    }
}
