//! The fingerprints of a list of segments, one after the other.

use std::path::Path;

use crate::error::{Error, Result};
use crate::fingerprint::directory_file::read_segment;
use crate::fingerprint::segment::directory::range;
use crate::fingerprint::segment::entry::Segment;
use crate::fingerprint::segment::image::Image;
use crate::page::ages::Ages;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::page::{Binding, PAGE_BYTES};
use crate::sys::storage::StorageFile;

/// A file whose segments are listed. Nothing writes to their room meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct ListedFile<'a> {
    pub(crate) file: &'a dyn StorageFile,
    pub(crate) path: &'a Path,
    pub(crate) bound: (FingerprintSpace, Binding),
    /// How the ages of numbers are counted. What is too old for that is left out.
    pub(crate) ages: Ages,
    /// Whether a damaged segment gives what is left of it. Otherwise it is an error.
    pub(crate) salvages: bool,
}

/// The fingerprints of one list of a run, in order.
pub(crate) struct FingerprintList<'a> {
    from: ListedFile<'a>,
    segments: Vec<Segment>,
    /// All below this are passed over.
    least: u64,
    /// The segment that is read next.
    next: usize,
    /// All pages of the segment before it, and which of them is decoded next.
    bytes: Vec<u8>,
    page: usize,
    list: Vec<u64>,
    at: usize,
}

impl<'a> FingerprintList<'a> {
    /// Begins with the first fingerprint that is not below `least`.
    pub(crate) fn open(from: ListedFile<'a>, segments: &[Segment], least: u64) -> Result<Self> {
        let before = segments.partition_point(|one| one.first <= least);
        let mut list = Self {
            from,
            segments: segments[before.saturating_sub(1)..].to_vec(),
            least,
            next: 0,
            bytes: Vec::new(),
            page: 0,
            list: Vec::new(),
            at: 0,
        };
        list.fill()?;
        Ok(list)
    }

    /// Returns how many pages all of it has, those of fences too.
    pub(crate) fn pages(&self) -> u64 {
        let extents = self.segments.iter().map(Segment::extent);
        extents.map(|extent| extent.end - extent.start).sum()
    }

    /// Returns the next fingerprint; `None` at the end.
    #[inline]
    pub(crate) fn peek(&self) -> Option<u64> {
        self.list.get(self.at).copied()
    }

    /// Passes the next fingerprint. Returns how many pages were read for that.
    #[inline]
    pub(crate) fn pass(&mut self) -> Result<u64> {
        debug_assert!(self.at < self.list.len(), "none is next");
        self.at += 1;
        match self.at < self.list.len() {
            true => Ok(0),
            false => self.fill(),
        }
    }

    /// Passes all fingerprints below `end`, and adds them to `out`.
    pub(crate) fn take_below(&mut self, end: u64, out: &mut Vec<u64>) -> Result<()> {
        while self.peek().is_some_and(|next| next < end) {
            self.take_of_page(end, out)?;
        }
        Ok(())
    }

    /// Does so with those of the page that the next one is on.
    pub(crate) fn take_of_page(&mut self, end: u64, out: &mut Vec<u64>) -> Result<()> {
        let rest = &self.list[self.at..];
        let count = match rest.last() {
            Some(last) if *last < end => rest.len(),
            _ => rest.partition_point(|one| *one < end),
        };
        out.extend_from_slice(&rest[..count]);
        self.at += count;
        if self.at == self.list.len() {
            self.fill()?;
        }
        Ok(())
    }

    /// Decodes pages until there is a fingerprint, or no page is left.
    fn fill(&mut self) -> Result<u64> {
        self.list.clear();
        self.at = 0;
        let mut read = 0;
        while self.at == self.list.len() {
            self.list.clear();
            let pages = match self.next {
                0 => 0,
                next => self.segments[next - 1].pages as usize,
            };
            if self.page < pages {
                self.decode()?;
            } else if self.next < self.segments.len() {
                read += self.read_segment()?;
            } else {
                break;
            }
            self.at = self.list.partition_point(|one| *one < self.least);
        }
        Ok(read)
    }

    fn read_segment(&mut self) -> Result<u64> {
        let segment = &self.segments[self.next];
        read_segment(self.from.file, self.from.path, segment, &mut self.bytes)?;
        (self.next, self.page) = (self.next + 1, 0);
        Ok((self.bytes.len() / PAGE_BYTES) as u64)
    }

    fn decode(&mut self) -> Result<()> {
        let index = self.next - 1;
        let (space, binding) = self.from.bound;
        let end = range(&self.segments, index, space).end;
        let segment = self.segments[index];
        let Some(image) = Image::of(binding, segment, end, &self.bytes) else {
            self.page = segment.pages as usize;
            return Ok(());
        };
        if self.page == 0 && self.from.salvages && !image.is_whole() {
            self.list = image.salvage(self.from.ages);
            self.page = segment.pages as usize;
            return Ok(());
        }
        let checked = match self.page {
            0 => image.check_fences(),
            _ => Ok(()),
        };
        let listed = checked.and_then(|()| {
            image.list_page(self.page, &mut self.list)?;
            image.bring(self.page, self.from.ages, &mut self.list)
        });
        listed.map_err(|fault| Error::Format {
            path: self.from.path.to_owned(),
            source: fault.into(),
        })?;
        self.page += 1;
        Ok(())
    }
}
