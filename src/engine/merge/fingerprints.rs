//! Set algebra on stores of fingerprints: unions, intersections and differences, exact, since fingerprints can be listed.

use std::ops::ControlFlow;
use std::path::Path;

use super::input::Input;
use super::plan::{check_labels, new_header, result_superblock};
use super::{MergeReport, Watch, exemptions};
use crate::config::options::Options;
use crate::engine::checkpoint::run::HeldOff;
use crate::engine::open::create::{begin, finish};
use crate::error::{Error, Result};
use crate::file::directory_ref::directory_pages;
use crate::file::layout::{FIRST_PAGE, page_offset};
use crate::file::{DirectoryRef, Header, Superblock};
use crate::fingerprint::directory_file::{
    expect_directory, read_directory, read_segment, write_directory,
};
use crate::fingerprint::segment::directory::range;
use crate::fingerprint::segment::draft::Draft;
use crate::fingerprint::segment::entry::Segment;
use crate::fingerprint::segment::image::Image;
use crate::fingerprint::segment::packer::Packer;
use crate::page::space::Space;
use crate::page::{Binding, PAGE_BYTES};
use crate::storefile::atomic_file::AtomicFile;
use crate::sys::storage::{StorageFile, write_all_at};

/// How many fingerprints of the result are packed at a time.
const PACKED_AT_ONCE: usize = 1 << 14;

/// What a merge keeps of the fingerprints of its inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetOperation {
    /// What is in any input.
    Union,
    /// What is in all inputs.
    Intersection,
    /// What is in the first input and in no other.
    Difference,
}

impl SetOperation {
    /// Returns whether a fingerprint is in the result, by the inputs that have it: how many, and whether the first is one
    /// of them.
    fn keeps(self, with_it: usize, inputs: usize, is_in_first: bool) -> bool {
        match self {
            SetOperation::Union => true,
            SetOperation::Intersection => with_it == inputs,
            SetOperation::Difference => is_in_first && with_it == 1,
        }
    }
}

/// The fingerprints of one input, in order.
struct FingerprintList<'a> {
    input: &'a Input,
    _held_off: HeldOff<'a>,
    space: Space,
    binding: Binding,
    segments: Vec<Segment>,
    /// The segment that is read next.
    next: usize,
    /// All pages of the segment before it, and which of them is decoded next.
    bytes: Vec<u8>,
    page: usize,
    list: Vec<u64>,
    at: usize,
}

impl<'a> FingerprintList<'a> {
    fn open(input: &'a Input) -> Result<Self> {
        // A checkpoint would free the room of segments that are still to be read.
        let held_off = input.hold_off()?;
        let superblock = input.newest_settled()?;
        let space = input.header().space();
        let (directory, space) = expect_directory(&input.path, &superblock, space)?;
        let binding = input.header().binding();
        let found = read_directory(input.file(), &input.path, &directory, (space, binding))?;
        let mut list = Self {
            input,
            _held_off: held_off,
            space,
            binding,
            segments: found.segments,
            next: 0,
            bytes: Vec::new(),
            page: 0,
            list: Vec::new(),
            at: 0,
        };
        list.fill()?;
        Ok(list)
    }

    fn pages(&self) -> u64 {
        let extents = self.segments.iter().map(Segment::extent);
        extents.map(|extent| extent.end - extent.start).sum()
    }

    /// Returns the next fingerprint; `None` at the end.
    fn peek(&self) -> Option<u64> {
        self.list.get(self.at).copied()
    }

    /// Passes the next fingerprint. Returns how many pages were read for that.
    fn pass(&mut self) -> Result<u64> {
        self.at += 1;
        match self.at < self.list.len() {
            true => Ok(0),
            false => self.fill(),
        }
    }

    /// Decodes pages until there is a fingerprint, or no page is left.
    fn fill(&mut self) -> Result<u64> {
        (self.at, self.list) = (0, std::mem::take(&mut self.list));
        self.list.clear();
        let mut read = 0;
        while self.list.is_empty() {
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
        }
        Ok(read)
    }

    fn read_segment(&mut self) -> Result<u64> {
        let segment = &self.segments[self.next];
        read_segment(
            self.input.file(),
            &self.input.path,
            segment,
            &mut self.bytes,
        )?;
        (self.next, self.page) = (self.next + 1, 0);
        Ok((self.bytes.len() / PAGE_BYTES) as u64)
    }

    fn decode(&mut self) -> Result<()> {
        let index = self.next - 1;
        let end = range(&self.segments, index, self.space).end;
        let Some(image) = Image::of(self.binding, self.segments[index], end, &self.bytes) else {
            return Ok(());
        };
        let checked = match self.page {
            0 => image.check_fences(),
            _ => Ok(()),
        };
        let listed = checked.and_then(|()| image.list_page(self.page, &mut self.list));
        listed.map_err(|fault| Error::Format {
            path: self.input.path.clone(),
            source: fault.into(),
        })?;
        self.page += 1;
        Ok(())
    }
}

/// A merge of stores of fingerprints.
pub(crate) struct SetMerge<'a, 'w> {
    inputs: &'a [Input],
    operation: SetOperation,
    watch: &'a mut Watch<'w>,
    total: u64,
    read: u64,
}

impl<'a, 'w> SetMerge<'a, 'w> {
    pub(crate) fn new(
        inputs: &'a [Input],
        operation: SetOperation,
        watch: &'a mut Watch<'w>,
    ) -> Self {
        Self {
            inputs,
            operation,
            watch,
            total: 0,
            read: 0,
        }
    }

    /// Counts the fingerprints of the result.
    pub(crate) fn count(mut self) -> Result<u64> {
        let mut count = 0;
        self.for_each(|some| {
            count += some.len() as u64;
            Ok(())
        })?;
        Ok(count)
    }

    /// Writes the result to the file of a new store.
    pub(crate) fn write(
        mut self,
        draft: &AtomicFile,
        out: &Path,
        options: &Options,
    ) -> Result<MergeReport> {
        let (header, mut superblock) = self.design(options)?;
        let Some(space) = header.space() else {
            // The inputs were checked.
            return Err(Error::Cancelled);
        };
        let (file, path) = (&*draft.file, &*draft.temporary);
        let mut target = Target {
            file,
            path,
            binding: header.binding(),
            segments: Vec::new(),
            end: FIRST_PAGE,
        };
        let mut packer = Packer::begin(0);
        let mut is_empty = true;
        self.for_each(|some| {
            is_empty = false;
            packer.put(some);
            while let Some(draft) = packer.take_full() {
                target.write(draft)?;
            }
            Ok(())
        })?;
        if !is_empty {
            for draft in packer.finish(space.count()) {
                target.write(draft)?;
            }
        }
        let directory = target.directory(superblock.generation)?;
        check_limit(out, &header, space, directory.keys)?;
        superblock.directory = Some(directory);
        let exempt = exemptions::keep(self.inputs, file, path, &superblock)?;
        superblock.sections.extend(exempt);
        begin(draft, &superblock)?;
        finish(file, path, &header, &superblock)?;
        Ok(MergeReport {
            keys: directory.keys,
            fpr_now: directory.keys as f64 / space.count() as f64,
            fpr: header.fpr,
            capacity: Some(header.capacity),
            layers: 0,
            pages: directory.pages,
            pages_read: self.read,
            bytes: superblock.end_offset(),
        })
    }

    fn design(&self, options: &Options) -> Result<(Header, Superblock)> {
        let model = self.inputs[0].header();
        let mut header = new_header(self.inputs, options, model)?;
        if let (Some(fpr), Some(space)) = (options.fpr, model.space()) {
            header.fpr = fpr;
            header.capacity = ((space.count() as f64 * fpr) as u64).max(1);
        }
        let superblock = result_superblock(self.inputs, &mut header, Vec::new());
        Ok((header, superblock))
    }

    /// Calls `each` with all fingerprints of the result, in order, many at a time.
    fn for_each(&mut self, mut each: impl FnMut(&[u64]) -> Result<()>) -> Result<()> {
        let lists = self.inputs.iter().map(FingerprintList::open);
        let mut lists: Vec<_> = lists.collect::<Result<_>>()?;
        self.total = lists.iter().map(FingerprintList::pages).sum();
        self.tell()?;
        let mut kept = Vec::with_capacity(PACKED_AT_ONCE);
        while let Some(least) = lists.iter().filter_map(FingerprintList::peek).min() {
            let (mut with_it, mut read) = (0, 0);
            let is_in_first = lists[0].peek() == Some(least);
            for list in &mut lists {
                if list.peek() == Some(least) {
                    with_it += 1;
                    read += list.pass()?;
                }
            }
            if self.operation.keeps(with_it, lists.len(), is_in_first) {
                kept.push(least);
            }
            if kept.len() == PACKED_AT_ONCE {
                each(&kept)?;
                kept.clear();
            }
            if read > 0 {
                self.read += read;
                self.tell()?;
            }
        }
        if !kept.is_empty() {
            each(&kept)?;
        }
        self.read = self.total;
        self.tell()
    }

    fn tell(&mut self) -> Result<()> {
        match (self.watch)(self.read.min(self.total), self.total) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Cancelled),
        }
    }
}

/// The segments of the result, one behind the other.
struct Target<'a> {
    file: &'a dyn StorageFile,
    path: &'a Path,
    /// The store that is being made.
    binding: Binding,
    segments: Vec<Segment>,
    end: u64,
}

impl Target<'_> {
    fn write(&mut self, draft: Draft) -> Result<()> {
        let (segment, bytes) = draft.place(self.binding, self.end, 1);
        write_all_at(self.file, &bytes, page_offset(self.end))
            .map_err(|error| Error::io("write pages of", self.path, error))?;
        self.end = segment.extent().end;
        self.segments.push(segment);
        Ok(())
    }

    fn directory(&self, generation: u64) -> Result<DirectoryRef> {
        let pages = directory_pages(self.segments.len() as u64);
        if pages == 0 {
            return Ok(DirectoryRef::empty());
        }
        let places = [self.end, self.end + pages];
        write_directory(
            self.file,
            self.path,
            self.binding,
            &self.segments,
            places,
            (1, generation),
        )
    }
}

/// Refuses a result that would be wrong more often than it promises.
fn check_limit(out: &Path, header: &Header, space: Space, keys: u64) -> Result<()> {
    if keys <= header.capacity {
        return Ok(());
    }
    Err(Error::Overfull {
        path: out.to_owned(),
        keys,
        expected: header.fpr,
        got: keys as f64 / space.count() as f64,
    })
}

/// Refuses stores whose fingerprints can't be compared.
pub(crate) fn check_comparable(inputs: &[Input]) -> Result<()> {
    check_labels(inputs)?;
    let first = &inputs[0];
    let space = |input: &Input| input.header().space().map_or(0, Space::count);
    match inputs.iter().find(|input| space(input) != space(first)) {
        None => Ok(()),
        Some(input) => Err(Error::Mismatch {
            path: input.path.clone(),
            other: first.path.clone(),
            field: "space",
            expected: space(first).to_string(),
            got: space(input).to_string(),
        }),
    }
}
