//! What several runs say together, fingerprint by fingerprint, in order: of each, what the youngest run says that has it.

use crate::error::Result;
use crate::fingerprint::directory_file::expect_directory;
use crate::fingerprint::fingerprint_list::{FingerprintList, ListedFile};
use crate::fingerprint::runs::run_directories::{RunSegments, read_runs};
use crate::fingerprint::runs::young_changes::over;
use crate::fingerprint::segment::entry::{List, Segment};
use crate::page::ages::Ages;
use crate::storefile::progress::{Visit, Visited};
use crate::storefile::still_file::StillFile;

/// The entries of some runs, merged.
pub(crate) struct NetWalk<'a> {
    /// Those of the youngest run first. No fingerprint is in both lists of a run.
    lists: Vec<(List, FingerprintList<'a>)>,
    next: Option<(u64, List)>,
    ages: Ages,
    /// How many pages were read.
    read: u64,
}

impl<'a> NetWalk<'a> {
    /// Begins with the first fingerprint of some runs, the oldest of them first, that is not below `least`.
    pub(crate) fn over(from: ListedFile<'a>, runs: &[RunSegments], least: u64) -> Result<Self> {
        let mut lists = Vec::with_capacity(runs.len());
        for run in runs.iter().rev() {
            for list in [List::Went, List::Came] {
                let segments = run.list(list);
                if !segments.is_empty() {
                    let least = least.max(run.begin);
                    lists.push((list, FingerprintList::open(from, segments, least)?));
                }
            }
        }
        let mut walk = Self {
            lists,
            next: None,
            ages: from.ages,
            read: 0,
        };
        walk.find_next();
        Ok(walk)
    }

    fn pages(&self) -> u64 {
        self.lists.iter().map(|(_, list)| list.pages()).sum()
    }

    /// Returns the next fingerprint, and what the youngest run says of it; `None` at the end.
    pub(crate) fn peek(&self) -> Option<(u64, List)> {
        self.next
    }

    fn find_next(&mut self) {
        self.next = None;
        for (list, entries) in &self.lists {
            // Of those that have it, the youngest run counts.
            if let Some(number) = entries.peek()
                && self
                    .next
                    .is_none_or(|(least, _)| number < self.ages.first_of(least))
            {
                self.next = Some((number, *list));
            }
        }
    }

    /// Passes the next fingerprint.
    pub(crate) fn pass(&mut self) -> Result<()> {
        let Some((least, _)) = self.next else {
            return Ok(());
        };
        let ages = self.ages;
        for (_, entries) in &mut self.lists {
            let next = entries.peek().map(|next| ages.first_of(next));
            if next == Some(ages.first_of(least)) {
                self.read += entries.pass()?;
            }
        }
        self.find_next();
        Ok(())
    }
}

/// The fingerprints of a store with any number of runs, in order.
pub(crate) struct NetList<'a>(NetWalk<'a>);

impl<'a> NetList<'a> {
    /// Begins with the first fingerprint of a store, whose ages are counted so.
    pub(crate) fn open(store: StillFile<'a>, ages: Ages) -> Result<Self> {
        let StillFile {
            file,
            path,
            header,
            superblock,
        } = store;
        let binding = header.binding();
        let (_, space) = expect_directory(path, superblock, header.space())?;
        let runs = read_runs(file, path, superblock, (header.space(), binding))?;
        let from = ListedFile {
            file,
            path,
            bound: (space, binding),
            ages,
            salvages: false,
        };
        let mut list = Self(NetWalk::over(from, &runs, 0)?);
        list.skip()?;
        Ok(list)
    }

    pub(crate) fn pages(&self) -> u64 {
        self.0.pages()
    }

    /// Returns the next fingerprint; `None` at the end.
    pub(crate) fn peek(&self) -> Option<u64> {
        self.0.peek().map(|(fingerprint, _)| fingerprint)
    }

    /// Passes the next fingerprint. Returns how many pages were read for that.
    pub(crate) fn pass(&mut self) -> Result<u64> {
        let before = self.0.read;
        self.0.pass()?;
        self.skip()?;
        Ok(self.0.read - before)
    }

    /// Passes what went.
    fn skip(&mut self) -> Result<()> {
        while let Some((_, List::Went)) = self.0.peek() {
            self.0.pass()?;
        }
        Ok(())
    }
}

/// Returns how many entries of a list are not below `begin`.
pub(crate) fn count_from(from: ListedFile<'_>, segments: &[Segment], begin: u64) -> Result<u64> {
    let behind = segments.partition_point(|one| one.first < begin);
    let whole: u64 = segments[behind..].iter().map(|one| one.keys).sum();
    if behind == 0 {
        return Ok(whole);
    }
    // The range of one may begin below and end above.
    let end = segments.get(behind).map_or(u64::MAX, |next| next.first);
    let mut list = FingerprintList::open(from, segments, begin)?;
    let mut count = 0;
    while list.peek().is_some_and(|one| one < end) {
        count += 1;
        list.pass()?;
    }
    Ok(whole + count)
}

/// What a walk over all runs has found.
#[derive(Debug, Default)]
pub(crate) struct CheckedRuns {
    /// How many fingerprints there are.
    pub(crate) keys: u64,
    /// What it found in the runs above the oldest one, the oldest first.
    pub(crate) runs: Vec<CheckedRun>,
}

/// What a walk has found in a run above the oldest one.
#[derive(Debug, Clone, Default)]
pub(crate) struct CheckedRun {
    pub(crate) came: u64,
    pub(crate) went: u64,
    /// A fingerprint that came and is below already, or that went and isn't.
    pub(crate) contradicts: Option<u64>,
}

impl CheckedRun {
    /// Takes some entries of the run into what is there without it.
    fn take(&mut self, below: Vec<u64>, came: &[u64], went: &[u64]) -> Vec<u64> {
        self.came += came.len() as u64;
        self.went += went.len() as u64;
        if came.is_empty() && went.is_empty() {
            return below;
        }
        let with = over(&below, came, &[], Ages::NONE);
        let without = match went {
            [] => None,
            went => Some(over(&with, &[], went, Ages::NONE)),
        };
        let left = without.as_ref().unwrap_or(&with).len();
        if with.len() != below.len() + came.len() || left + went.len() != with.len() {
            let is_below = |one: &&u64| below.binary_search(one).is_ok();
            let twice = came.iter().find(is_below);
            let never = went.iter().find(|one| with.binary_search(one).is_err());
            let first = twice.into_iter().chain(never).min().copied();
            self.contradicts = self.contradicts.or(first);
        }
        without.unwrap_or(with)
    }
}

/// Entries that are counted at once, about: 2 MiB of them.
const COUNTED_AT_ONCE: u64 = 1 << 18;

/// Counts the entries of all runs, and holds each against the runs below. `each` gets how many pages were read for it.
pub(crate) fn check_runs(
    from: ListedFile<'_>,
    runs: &[RunSegments],
    each: &mut Visit<'_>,
) -> Result<CheckedRuns> {
    let (mut lists, mut entries) = (Vec::with_capacity(runs.len()), 0_u64);
    // The oldest first.
    for run in runs {
        let mut open = |list| {
            let segments = run.list(list);
            let keys = segments.iter().map(|segment| segment.keys);
            entries = keys.fold(entries, u64::saturating_add);
            FingerprintList::open(from, segments, run.begin)
        };
        lists.push([open(List::Came)?, open(List::Went)?]);
    }
    let mut found = CheckedRuns {
        keys: 0,
        runs: vec![CheckedRun::default(); runs.len().saturating_sub(1)],
    };
    let (space, _) = from.bound;
    let parts = entries.div_ceil(COUNTED_AT_ONCE).max(1);
    let pages: u64 = lists.iter().flatten().map(FingerprintList::pages).sum();
    for end in space.parts_of(&(0..space.count()), parts) {
        let mut there = Vec::new();
        for (number, lists) in lists.iter_mut().enumerate() {
            let mut own = [Vec::new(), Vec::new()];
            for (list, own) in lists.iter_mut().zip(&mut own) {
                list.take_below(end, own)?;
            }
            let [came, went] = own;
            there = match number.checked_sub(1) {
                Some(run) => found.runs[run].take(there, &came, &went),
                None => came,
            };
        }
        found.keys += there.len() as u64;
        // Entries spread over the parts evenly.
        each(Visited::Again(pages / parts))?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn some() -> impl Strategy<Value = BTreeSet<u64>> {
        prop::collection::btree_set(0_u64..120, 0..60)
    }

    proptest! {
        /// The slow twin asks a set about each fingerprint.
        #[test]
        fn a_run_is_held_against_what_is_below(below in some(), came in some(), went in some()) {
            let went: Vec<u64> = went.difference(&came).copied().collect();
            let came: Vec<u64> = came.into_iter().collect();
            let mut twin = below.clone();
            let twice = came.iter().filter(|one| !twin.insert(**one)).min().copied();
            let never = went.iter().filter(|one| !twin.remove(one)).min().copied();
            let mut run = CheckedRun::default();
            let left = run.take(below.into_iter().collect(), &came, &went);
            prop_assert_eq!(left, twin.into_iter().collect::<Vec<_>>());
            prop_assert_eq!((run.came, run.went), (came.len() as u64, went.len() as u64));
            prop_assert_eq!(run.contradicts, twice.into_iter().chain(never).min());
        }
    }
}
