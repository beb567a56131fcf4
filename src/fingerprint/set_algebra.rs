//! Set algebra on stores of fingerprints: unions, intersections and differences, exact, since fingerprints can be listed.

use std::ops::ControlFlow;
use std::path::Path;

use crate::config::forget_by::ForgetBy;
use crate::error::{Error, Result};
use crate::file::directory_ref::directory_pages;
use crate::file::layout::{FIRST_PAGE, page_offset};
use crate::file::{DirectoryRef, Header};
use crate::fingerprint::directory_file::write_directory;
use crate::fingerprint::net_list::NetList;
use crate::fingerprint::segment::entry::Segment;
use crate::fingerprint::segment::packer::Packer;
use crate::fingerprint::segment::unplaced::UnplacedSegment;
use crate::page::Binding;
use crate::page::ages::Ages;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::sizing::check_rate;
use crate::storefile::still_file::StillFile;
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

/// A merge of stores of fingerprints.
pub(crate) struct SetMerge<'a, 'w> {
    stores: &'a [StillFile<'a>],
    operation: SetOperation,
    watch: &'a mut (dyn FnMut(u64, u64) -> ControlFlow<()> + 'w),
    total: u64,
    read: u64,
}

impl<'a, 'w> SetMerge<'a, 'w> {
    pub(crate) fn new(
        stores: &'a [StillFile<'a>],
        operation: SetOperation,
        watch: &'a mut (dyn FnMut(u64, u64) -> ControlFlow<()> + 'w),
    ) -> Self {
        Self {
            stores,
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

    /// Writes the segments and the directory of the result to the file of a new store, without a sync. Also returns how
    /// many pages were read.
    pub(crate) fn write(
        mut self,
        (file, path): (&dyn StorageFile, &Path),
        header: &Header,
        generation: u64,
    ) -> Result<(DirectoryRef, u64)> {
        let Some(space) = header.space() else {
            // The inputs were checked.
            return Err(Error::Cancelled);
        };
        let mut target = Target {
            file,
            path,
            binding: header.binding(),
            segments: Vec::new(),
            end: FIRST_PAGE,
        };
        let mut packer = Packer::begin(0).with_ages(common_ages(self.stores));
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
        Ok((target.directory(generation)?, self.read))
    }

    /// Calls `each` with all fingerprints of the result, in order, many at a time.
    fn for_each(&mut self, mut each: impl FnMut(&[u64]) -> Result<()>) -> Result<()> {
        let ages = common_ages(self.stores);
        let stores = self.stores.iter();
        let lists = stores.map(|store| NetList::open(*store, ages));
        let mut lists: Vec<_> = lists.collect::<Result<_>>()?;
        self.total = lists.iter().map(NetList::pages).sum();
        self.tell()?;
        let mut kept = Vec::with_capacity(PACKED_AT_ONCE);
        // Of several ages of a fingerprint, the least comes first.
        while let Some(youngest) = lists.iter().filter_map(NetList::peek).min() {
            let least = ages.first_of(youngest);
            let has_it =
                |list: &NetList<'_>| list.peek().map(|one| ages.first_of(one)) == Some(least);
            let (mut with_it, mut read) = (0, 0);
            let is_in_first = has_it(&lists[0]);
            for list in &mut lists {
                if has_it(list) {
                    with_it += 1;
                    read += list.pass()?;
                }
            }
            if self.operation.keeps(with_it, lists.len(), is_in_first) {
                kept.push(youngest);
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
    fn write(&mut self, draft: UnplacedSegment) -> Result<()> {
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

/// Gives a result another bound on its rate, and the capacity that keeps it.
pub(crate) fn set_rate(header: &mut Header, fpr: f64) -> Result<()> {
    check_rate(fpr)?;
    if let Some(space) = header.space() {
        header.fpr = fpr;
        header.capacity = ((space.distinct() as f64 * fpr) as u64).max(1);
    }
    Ok(())
}

/// Refuses a result that would be wrong more often than it promises.
pub(crate) fn check_limit(out: &Path, header: &Header, keys: u64) -> Result<()> {
    if keys <= header.capacity {
        return Ok(());
    }
    Err(Error::Overfull {
        path: out.to_owned(),
        keys,
        expected: header.fpr,
        got: rate_of(header, keys),
    })
}

/// Returns the rate of a store with so many keys.
pub(crate) fn rate_of(header: &Header, keys: u64) -> f64 {
    keys as f64 / header.space().map_or(0, FingerprintSpace::distinct) as f64
}

/// Returns the time of some stores together; 0 if they don't forget.
pub(crate) fn common_time(stores: &[StillFile<'_>]) -> u64 {
    let clocks = stores.iter().map(|store| store.superblock.clock);
    clocks.max().unwrap_or(0)
}

/// Returns how ages are counted in what some stores become together.
fn common_ages(stores: &[StillFile<'_>]) -> Ages {
    let window = stores.first().and_then(|store| store.header.window);
    window.map_or(Ages::NONE, |window| Ages::at(window, common_time(stores)))
}

/// Refuses stores whose fingerprints can't be compared, or whose windows differ.
pub(crate) fn check_comparable(stores: &[StillFile<'_>]) -> Result<()> {
    let space = |header: &Header| {
        let count = header.space().map_or(0, FingerprintSpace::distinct);
        count.to_string()
    };
    let window = |header: &Header| match header.window {
        None => "for ever".to_owned(),
        Some(window) => format!("{} ms in {} steps", window.milliseconds(), window.steps()),
    };
    let properties = |header: &Header| {
        [
            ("space", space(header)),
            ("window", window(header)),
            ("forget_by", ForgetBy::of(header.renews()).to_string()),
        ]
    };
    let first = &stores[0];
    for store in stores {
        let both = properties(first.header)
            .into_iter()
            .zip(properties(store.header));
        for ((field, expected), (_, got)) in both {
            if expected != got {
                return Err(Error::Mismatch {
                    path: store.path.to_owned(),
                    other: first.path.to_owned(),
                    field,
                    expected,
                    got,
                });
            }
        }
    }
    Ok(())
}
