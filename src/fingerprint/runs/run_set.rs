//! The runs of a store of fingerprints, mapped for look-ups.
//!
//! A look-up asks the youngest run first: what came last counts. Most stores have one run, and look-ups in these ask nothing
//! else.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use super::undecided::{AT_ONCE, Undecided, look_since};
use super::young_filter::YoungFilter;
use crate::config::filter_budget::FilterBudget;
use crate::file::DirectoryRef;
use crate::file::layout::{REUSED_OFFSET, page_offset};
use crate::fingerprint::segment::entry::Segment;
use crate::fingerprint::segment::fault::SegmentFault;
use crate::fingerprint::segment::negative_filter::{FILTERED_AT_ONCE, NegativeFilter};
use crate::fingerprint::segment::pages::SegmentPages;
use crate::fingerprint::segment::reuse::is_stale;
use crate::page::PAGE_WORDS;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::page_io::probe::KeyOrder;
use crate::sys::storage::StorageFile;
use crate::sys::{Map, drop_cached};

/// The segments of a run.
#[derive(Debug)]
pub(crate) struct RunPages {
    /// The directory that names them.
    pub(crate) directory: DirectoryRef,
    pub(crate) came: SegmentPages,
    /// `None` in a run of which nothing went, as in the oldest.
    pub(crate) went: Option<SegmentPages>,
}

impl RunPages {
    /// Returns whether a directory is the one that names these segments. Several may have the same version, but no two of
    /// these lie in one place.
    pub(crate) fn is_of(&self, directory: &DirectoryRef) -> bool {
        let identity = |one: &DirectoryRef| (one.version, one.generation, one.places);
        identity(&self.directory) == identity(directory)
    }

    /// Returns both lists, that of what went first: a look-up asks it first.
    pub(super) fn lists(&self) -> impl Iterator<Item = &SegmentPages> {
        self.went.iter().chain([&self.came])
    }

    /// Returns all segments.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.lists().flat_map(SegmentPages::segments)
    }
}

/// A run above the oldest one.
#[derive(Debug)]
pub(crate) struct YoungRun {
    pub(crate) pages: Arc<RunPages>,
    /// Entries of fingerprints below this don't count.
    pub(crate) begin: u64,
}

/// Returns how many pages of fingerprints a run has.
fn pages_of(run: &RunPages) -> u64 {
    run.lists().map(SegmentPages::pages).sum()
}

/// All runs that a superblock names, and a map of the file.
#[derive(Debug)]
pub(crate) struct RunSet {
    space: FingerprintSpace,
    /// The version of this set.
    version: u64,
    /// How many pages of fingerprints there are.
    pages: u64,
    oldest: Arc<RunPages>,
    /// The youngest first.
    young: Vec<YoungRun>,
    /// Whether one of them says that something went.
    has_went: bool,
    /// The whole file, at least up to the last page of a segment.
    map: Arc<Map>,
    /// Contains all fingerprints of the set.
    negative_filter: Option<Arc<NegativeFilter>>,
    /// Contains all that an entry of a run above the oldest one is about.
    young_filter: YoungFilter,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// The room of these segments may hold others by now. Look in a newer set.
    Stale,
    Damaged(SegmentFault),
}

impl RunSet {
    /// Returns the runs of a set of this version. `map` covers the file up to the last page of a segment.
    pub(crate) fn new(
        (version, space): (u64, FingerprintSpace),
        oldest: Arc<RunPages>,
        young: Vec<YoungRun>,
        (map, budget): (Arc<Map>, FilterBudget),
    ) -> Self {
        // Those below a cursor are read with the others.
        let segments = young.iter().flat_map(|run| run.pages.segments());
        let entries = segments.map(|segment| segment.keys);
        Self {
            young_filter: YoungFilter::new(budget, entries.fold(0, u64::saturating_add)),
            pages: pages_of(&oldest) + young.iter().map(|run| pages_of(&run.pages)).sum::<u64>(),
            has_went: young.iter().any(|run| run.pages.went.is_some()),
            space,
            version,
            oldest,
            young,
            map,
            negative_filter: None,
        }
    }

    /// Adds a filter that contains all fingerprints of the set.
    pub(crate) fn with_negative_filter(self, negative_filter: Option<Arc<NegativeFilter>>) -> Self {
        Self {
            negative_filter,
            ..self
        }
    }

    /// Returns the filter that contains all fingerprints of the set, if there is one.
    pub(crate) fn negative_filter(&self) -> Option<&Arc<NegativeFilter>> {
        self.negative_filter.as_ref()
    }

    /// Returns all runs, the oldest first.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &Arc<RunPages>> {
        let young = self.young.iter().rev().map(|run| &run.pages);
        std::iter::once(&self.oldest).chain(young)
    }

    /// Returns the oldest run.
    pub(crate) fn oldest(&self) -> &RunPages {
        &self.oldest
    }

    /// Returns a filter of so many bytes with all fingerprints that came; `None` without memory, if a page is not whole, or
    /// once it is no longer wanted.
    #[cold]
    pub(crate) fn read_filter(
        &self,
        bytes: u64,
        is_wanted: &dyn Fn() -> bool,
    ) -> Option<NegativeFilter> {
        let filter = NegativeFilter::empty(self.space, bytes).ok()?;
        let add = |some: &[u64]| {
            filter.add(some);
            is_wanted().then_some(())
        };
        for run in self.runs() {
            run.came.for_each_page(&self.map, add)?;
        }
        Some(filter)
    }

    /// Returns the map, for the next set.
    pub(crate) fn map(&self) -> &Arc<Map> {
        &self.map
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Returns whether what was read up to now may be of later segments.
    #[inline]
    pub(crate) fn is_stale(&self) -> bool {
        is_stale(|| self.map.word(REUSED_OFFSET as usize / 8), self.version)
    }

    /// Sets the answer for each of some hashes, which come in this order; `None` if there was none. In a store that forgets,
    /// keys count from the step `since` on.
    pub(crate) fn contains_all(
        &self,
        hashes: &[u64],
        (order, since): (KeyOrder, u64),
        answers: &mut [Option<bool>],
    ) {
        debug_assert_eq!(hashes.len(), answers.len());
        let filter = self.negative_filter.as_ref();
        // Pages that other keys have just brought into the processor's cache answer as fast as it does.
        let Some(negative_filter) = filter.filter(|_| order != KeyOrder::SharingPages) else {
            self.look_for_all(hashes, (order, since), answers);
            return;
        };
        let groups = hashes.chunks(FILTERED_AT_ONCE);
        for (some, answers) in groups.zip(answers.chunks_mut(FILTERED_AT_ONCE)) {
            let mut turns = [0; FILTERED_AT_ONCE];
            let fingerprints = some.iter().map(|hash| self.space.fingerprint(*hash));
            let Some(turns) = negative_filter.sift(fingerprints, &mut turns) else {
                self.look_for_all(some, (order, since), answers);
                continue;
            };
            let (mut rest, mut left) = ([0; FILTERED_AT_ONCE], [None; FILTERED_AT_ONCE]);
            let (rest, left) = (&mut rest[..turns.len()], &mut left[..turns.len()]);
            for (hash, turn) in rest.iter_mut().zip(turns) {
                *hash = some[usize::from(*turn)];
            }
            self.look_for_all(rest, (order, since), left);
            answers.fill(Some(false));
            for (answer, turn) in left.iter().zip(turns) {
                answers[usize::from(*turn)] = *answer;
            }
        }
    }

    /// Does the same without the filter.
    fn look_for_all(
        &self,
        hashes: &[u64],
        (order, since): (KeyOrder, u64),
        answers: &mut [Option<bool>],
    ) {
        let oldest = (&self.oldest.came, since);
        if self.young.is_empty() {
            look_since(oldest, &self.map, hashes, answers);
            return;
        }
        let groups = hashes.chunks(AT_ONCE);
        for (hashes, answers) in groups.zip(answers.chunks_mut(AT_ONCE)) {
            // Where nothing went, whichever run has a key decides, and the oldest has most.
            if !self.has_went {
                look_since(oldest, &self.map, hashes, answers);
            }
            let mut undecided = match self.has_went {
                true => Undecided::all(hashes, answers),
                false => Undecided::but_those_found(hashes, answers),
            };
            // Their pages tell as fast, and making the filter would read them a second time.
            let filter = match order {
                KeyOrder::SharingPages => None,
                KeyOrder::Given | KeyOrder::ByPage { .. } => self.young_filter(undecided.count),
            };
            let ask_young = |undecided: &mut Undecided<'_>| {
                for run in self.by_order() {
                    let from = |hash: u64| self.space.fingerprint(hash) >= run.begin;
                    if let Some(went) = &run.pages.went {
                        // Whatever it hides came before it.
                        undecided.ask((went, 0), &self.map, from, false);
                    }
                    undecided.ask((&run.pages.came, since), &self.map, from, true);
                }
            };
            match filter {
                Some(filter) => {
                    undecided.sift(filter, self.space);
                    ask_young(&mut undecided);
                }
                None if order == KeyOrder::SharingPages => ask_young(&mut undecided),
                None => {
                    let looks = undecided.count;
                    self.young_filter.timed(looks, || ask_young(&mut undecided));
                }
            }
            if self.has_went {
                undecided.ask_last(oldest, &self.map);
            }
        }
    }

    /// Returns the runs above the oldest one in the order in which they are asked: the youngest first, whose word counts.
    /// Where nothing went, no two disagree about a fingerprint, and the largest decides most.
    fn by_order(&self) -> impl Iterator<Item = &YoungRun> {
        let count = self.young.len();
        let place = move |at| match self.has_went {
            true => at,
            false => count - 1 - at,
        };
        (0..count).map(move |at| &self.young[place(at)])
    }

    /// Returns the filter of the runs above the oldest one, for so many look-ups, if it pays.
    #[inline]
    fn young_filter(&self, looks: usize) -> Option<&NegativeFilter> {
        self.young_filter.get(looks, |filter| {
            let runs = self.young.iter().map(|run| &*run.pages);
            let made = filter.read(runs, self.space, &self.map);
            // What was read may be of later segments.
            made.filter(|_| !self.is_stale())
        })
    }

    /// Returns whether a key is there.
    pub(crate) fn contains(&self, hash: u64, since: u64) -> Result<bool, NoAnswer> {
        let is_absent = |negative_filter: &Arc<NegativeFilter>| {
            !negative_filter.may_contain(self.space.fingerprint(hash))
        };
        let found = match self.negative_filter.as_ref().is_some_and(is_absent) {
            true => Some(false),
            false => self.look_for(hash, since),
        };
        if self.is_stale() {
            return Err(NoAnswer::Stale);
        }
        match found {
            Some(found) => Ok(found),
            None => Err(self.fault(hash)),
        }
    }

    fn look_for(&self, hash: u64, since: u64) -> Option<bool> {
        let oldest = self.oldest.came.lookup_since(&self.map, since);
        if self.young.is_empty() {
            return oldest.contains(hash);
        }
        let in_oldest = match self.has_went {
            true => None,
            false => Some(oldest.contains(hash)),
        };
        if in_oldest == Some(Some(true)) {
            return Some(true);
        }
        match self.look_in_young(hash, since) {
            ControlFlow::Break(answer) => answer,
            ControlFlow::Continue(()) => in_oldest.unwrap_or_else(|| oldest.contains(hash)),
        }
    }

    /// Looks for a key in the runs above the oldest one. Goes on if none of these decides.
    fn look_in_young(&self, hash: u64, since: u64) -> ControlFlow<Option<bool>> {
        let is_absent = |filter: &NegativeFilter| !filter.may_contain(self.space.fingerprint(hash));
        match self.young_filter(1) {
            Some(filter) if is_absent(filter) => ControlFlow::Continue(()),
            Some(_) => self.ask_young(hash, since),
            None => self.young_filter.timed(1, || self.ask_young(hash, since)),
        }
    }

    fn ask_young(&self, hash: u64, since: u64) -> ControlFlow<Option<bool>> {
        for run in self.counting_for(hash) {
            let lists = [
                (run.pages.went.as_ref(), 0, false),
                (Some(&run.pages.came), since, true),
            ];
            for (list, since, answer) in lists {
                match list.map(|list| list.lookup_since(&self.map, since).contains(hash)) {
                    None | Some(Some(false)) => {}
                    Some(Some(true)) => return ControlFlow::Break(Some(answer)),
                    Some(None) => return ControlFlow::Break(None),
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Returns the runs above the oldest one whose entry for a hash counts, if they have one.
    fn counting_for(&self, hash: u64) -> impl Iterator<Item = &YoungRun> {
        let fingerprint = self.space.fingerprint(hash);
        self.young
            .iter()
            .filter(move |run| fingerprint >= run.begin)
    }

    /// Returns the lists that a look-up of a hash may ask, in this order.
    fn asked_for(&self, hash: u64) -> impl Iterator<Item = &SegmentPages> {
        let filter = self.young_filter.made();
        let may_be_young =
            filter.is_none_or(|filter| filter.may_contain(self.space.fingerprint(hash)));
        let young = self.counting_for(hash).filter(move |_| may_be_young);
        young
            .flat_map(|run| run.pages.lists())
            .chain([&self.oldest.came])
    }

    /// Returns why there is no answer for a key.
    #[cold]
    fn fault(&self, hash: u64) -> NoAnswer {
        let mut lists = self.asked_for(hash);
        let fault = lists.find_map(|list| list.lookup(&self.map).check_way(hash).err());
        match fault {
            Some(fault) if !self.is_stale() => NoAnswer::Damaged(fault),
            // Whatever was wrong has been written again since.
            _ => NoAnswer::Stale,
        }
    }

    /// Asks for the lines that a look-up of a key begins with.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Some(negative_filter) = &self.negative_filter {
            negative_filter.prefetch(self.space.fingerprint(hash));
        }
        match self.young_filter.made() {
            Some(filter) => filter.prefetch(self.space.fingerprint(hash)),
            None => {
                for run in &self.young {
                    run.pages.came.lookup(&self.map).prefetch(hash);
                }
            }
        }
        self.oldest.came.lookup(&self.map).prefetch(hash);
    }

    /// Adds the pages of the file that a look-up of a hash reads.
    pub(crate) fn add_pages_of(&self, hash: u64, pages: &mut Vec<u64>) {
        let lists = self.asked_for(hash);
        pages.extend(lists.filter_map(|list| list.lookup(&self.map).page_of(hash)));
    }

    /// Returns how many pages of fingerprints there are.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    pub(crate) fn space(&self) -> FingerprintSpace {
        self.space
    }

    /// Returns all runs, each with the fingerprint from which on its entries count.
    pub(crate) fn begun_runs(&self) -> impl Iterator<Item = (&Arc<RunPages>, u64)> {
        let young = self.young.iter().map(|run| (&run.pages, run.begin));
        young.chain([(&self.oldest, 0)])
    }

    /// Returns all lists, each with the fingerprint from which on its entries count.
    pub(crate) fn lists(&self) -> impl Iterator<Item = (&SegmentPages, u64)> {
        let runs = self.begun_runs();
        runs.flat_map(|(run, begin)| run.lists().map(move |list| (list, begin)))
    }

    /// Advises the system that some pages of the file will not be needed soon.
    pub(crate) fn drop_cached(&self, pages: Range<u64>, file: &dyn StorageFile) {
        let words = |pages: u64| pages as usize * PAGE_WORDS;
        let count = pages.end - pages.start;
        self.map.drop_cached(words(pages.start), words(count));
        drop_cached(file, page_offset(pages.start)..page_offset(pages.end));
    }

    /// Asks the system for some pages of the file, without waiting for them.
    pub(crate) fn will_need(&self, pages: Range<u64>) {
        let count = pages.end - pages.start;
        self.map.will_need(
            pages.start as usize * PAGE_WORDS,
            count as usize * PAGE_WORDS,
        );
    }
}
