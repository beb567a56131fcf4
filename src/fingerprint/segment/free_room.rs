//! Pages of the file that nothing names.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::file::layout::{FIRST_PAGE, PAGE_LIMIT};

/// The free pages of a store file, for the one checkpoint that runs: it is made anew from what is named, and written
/// nowhere.
///
/// Named is what either superblock names, whole directories and sections included, what a snapshot has pinned, and what
/// this checkpoint has [taken](Self::take) and not given back. Nothing of that is ever handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FreeRoom {
    /// The ends of free runs by their starts. No two of them touch.
    ends: BTreeMap<u64, u64>,
    /// The same runs by length.
    lengths: BTreeSet<(u64, u64)>,
    /// All pages from here on are free.
    end: u64,
}

impl FreeRoom {
    /// Returns what is free around named ranges of pages. They may overlap, as those of two superblocks do.
    pub(crate) fn around(named: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut named: Vec<Range<u64>> = named.into_iter().collect();
        named.sort_unstable_by_key(|range| range.start);
        let mut room = Self {
            ends: BTreeMap::new(),
            lengths: BTreeSet::new(),
            end: FIRST_PAGE,
        };
        for range in named.into_iter().filter(|range| !range.is_empty()) {
            if range.start > room.end {
                room.insert(room.end..range.start);
            }
            room.end = room.end.max(range.end);
        }
        room
    }

    /// Returns the end of the file's pages that are named.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Returns the free runs before the end, by rising numbers.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Range<u64>> {
        self.ends.iter().map(|(start, end)| *start..*end)
    }

    /// Takes this many pages, at least one, that lie together: from the shortest run that is long enough, or at the end. Returns
    /// the first, or `None` if no file has as many pages.
    pub(crate) fn take(&mut self, pages: u64) -> Option<u64> {
        // Of none, the first would be handed out again.
        assert!(pages > 0);
        if let Some(&(length, start)) = self.lengths.range((pages, 0)..).next() {
            self.remove(start);
            if length > pages {
                self.insert(start + pages..start + length);
            }
            return Some(start);
        }
        let start = self.end;
        let end = start.checked_add(pages).filter(|end| *end <= PAGE_LIMIT)?;
        self.end = end;
        Some(start)
    }

    /// Takes a run of `at_once` pages; one of `pages` if that many are free before the end and `at_once` are not. Returns
    /// `None` if no file has as many pages.
    pub(crate) fn take_run(&mut self, pages: u64, at_once: u64) -> Option<Range<u64>> {
        let many = at_once.max(pages);
        let fits = |pages: u64| self.lengths.range((pages, 0)..).next().is_some();
        let first = match fits(many) || !fits(pages) {
            true => self.take(many).map(|start| start..start + many),
            false => None,
        };
        first.or_else(|| self.take(pages).map(|start| start..start + pages))
    }

    /// Frees pages that were taken and not given back since.
    pub(crate) fn give_back(&mut self, mut run: Range<u64>) {
        if run.is_empty() {
            return;
        }
        let before = self.ends.range(..run.start).next_back();
        if let Some((start, _)) = before.filter(|(_, end)| **end == run.start) {
            run.start = *start;
            self.remove(run.start);
        }
        if self.ends.contains_key(&run.end) {
            run.end = self.remove(run.end);
        }
        assert!(run.end <= self.end, "{run:?} were not taken");
        match run.end == self.end {
            true => self.end = run.start,
            false => self.insert(run),
        }
    }

    /// Takes this many pages from the first run that is long enough and begins before `end`.
    pub(crate) fn take_before(&mut self, pages: u64, end: u64) -> Option<u64> {
        assert!(pages > 0);
        let mut runs = self.ends.range(..end);
        let (start, end) = runs.find(|(start, end)| **end - **start >= pages)?;
        let (start, end) = (*start, *end);
        self.remove(start);
        if end - start > pages {
            self.insert(start + pages..end);
        }
        Some(start)
    }

    /// Forgets a free run that begins here, and returns its end.
    fn remove(&mut self, start: u64) -> u64 {
        let end = self.ends.remove(&start).unwrap_or(start);
        let was_free = self.lengths.remove(&(end - start, start));
        assert!(was_free, "{start}..{end}");
        end
    }

    /// Remembers a free run that touches no other.
    fn insert(&mut self, run: Range<u64>) {
        assert!(FIRST_PAGE <= run.start && run.start < run.end, "{run:?}");
        let before = self.ends.range(..=run.start).next_back();
        let behind = self.ends.range(run.start..).next();
        // A page that is free twice would be handed out twice, and one segment overwrite another.
        assert!(before.is_none_or(|(_, end)| *end < run.start), "{run:?}");
        assert!(behind.is_none_or(|(start, _)| run.end < *start), "{run:?}");
        self.ends.insert(run.start, run.end);
        self.lengths.insert((run.end - run.start, run.start));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The slow twin has a mark for each page.
    struct Marks(Vec<bool>);

    impl Marks {
        fn name(&mut self, pages: Range<u64>) {
            let end = self.0.len().max(pages.end as usize);
            self.0.resize(end, false);
            pages.for_each(|page| self.0[page as usize] = true);
        }

        fn free(&mut self, pages: Range<u64>) {
            pages.for_each(|page| self.0[page as usize] = false);
            while self.0.len() > FIRST_PAGE as usize && self.0.last() == Some(&false) {
                self.0.pop();
            }
        }

        fn runs(&self) -> Vec<Range<u64>> {
            let mut runs: Vec<Range<u64>> = Vec::new();
            for page in (FIRST_PAGE..self.0.len() as u64).filter(|page| !self.0[*page as usize]) {
                match runs.last_mut().filter(|run| run.end == page) {
                    Some(run) => run.end += 1,
                    None => runs.push(page..page + 1),
                }
            }
            runs
        }
    }

    proptest! {
        #[test]
        fn what_is_named_is_never_handed_out(
            named in prop::collection::vec((0_u64..300, 0_u64..20), 0..20),
            asked in prop::collection::vec(1_u64..15, 0..40),
        ) {
            let named: Vec<_> = named.iter().map(|(at, pages)| FIRST_PAGE + at..FIRST_PAGE + at + pages).collect();
            let mut marks = Marks(vec![false; FIRST_PAGE as usize]);
            named.iter().filter(|range| !range.is_empty()).for_each(|range| marks.name(range.clone()));
            let mut room = FreeRoom::around(named);
            prop_assert_eq!(room.runs().collect::<Vec<_>>(), marks.runs());
            for pages in asked {
                let fits = |run: &Range<u64>| run.end - run.start >= pages;
                let best = marks.runs().into_iter().filter(fits).min_by_key(|run| run.end - run.start);
                let twin = best.map_or(marks.0.len() as u64, |run| run.start);
                prop_assert_eq!(room.take(pages), Some(twin));
                marks.name(twin..twin + pages);
                prop_assert_eq!(room.runs().collect::<Vec<_>>(), marks.runs());
                prop_assert_eq!(room.end(), marks.0.len() as u64);
            }
        }

        #[test]
        fn what_is_given_back_is_free_again(
            named in prop::collection::vec((0_u64..300, 0_u64..20), 0..20),
            steps in prop::collection::vec((1_u64..15, 0_u64..40, any::<prop::sample::Index>(), any::<bool>()), 0..40),
        ) {
            let named: Vec<_> = named.iter().map(|(at, pages)| FIRST_PAGE + at..FIRST_PAGE + at + pages).collect();
            let mut marks = Marks(vec![false; FIRST_PAGE as usize]);
            named.iter().filter(|range| !range.is_empty()).for_each(|range| marks.name(range.clone()));
            let mut room = FreeRoom::around(named);
            let mut taken: Vec<Range<u64>> = Vec::new();
            for (pages, at_once, which, gives_back) in steps {
                if gives_back && !taken.is_empty() {
                    let run = taken.swap_remove(which.index(taken.len()));
                    marks.free(run.clone());
                    room.give_back(run);
                } else {
                    let many = pages.max(at_once);
                    let longest = marks.runs().iter().map(|run| run.end - run.start).max().unwrap_or(0);
                    let expected = if (pages..many).contains(&longest) { pages } else { many };
                    let run = room.take_run(pages, at_once).unwrap();
                    prop_assert_eq!(run.end - run.start, expected);
                    prop_assert!(run.clone().all(|page| !marks.0.get(page as usize).is_some_and(|taken| *taken)));
                    marks.name(run.clone());
                    taken.push(run);
                }
                prop_assert_eq!(room.runs().collect::<Vec<_>>(), marks.runs());
                prop_assert_eq!(room.end(), marks.0.len() as u64);
            }
        }
    }

    #[test]
    fn the_first_run_that_is_long_enough_is_taken_if_it_lies_before() {
        let named = [40..50, 53..60, 70..80].map(|range| range.start..range.end);
        let mut room = FreeRoom::around(named);
        assert_eq!(room.take_before(9, 60), None);
        assert_eq!(room.take_before(5, 32), None);
        assert_eq!(room.take_before(9, 100), Some(60));
        assert_eq!(room.take_before(3, 50), Some(32));
        assert_eq!(room.take_before(3, 51), Some(35));
        assert_eq!(room.take_before(3, 51), Some(50));
        assert_eq!(room.runs().collect::<Vec<_>>(), [38..40, 69..70]);
    }

    #[test]
    fn no_file_has_more_pages_than_the_limit() {
        let mut room = FreeRoom::around(std::iter::once(PAGE_LIMIT - 20..PAGE_LIMIT - 10));
        let before = PAGE_LIMIT - 20 - FIRST_PAGE;
        assert_eq!(room.take(before + 1), None);
        assert_eq!(room.take(u64::MAX), None);
        assert_eq!(room.take(before), Some(FIRST_PAGE));
        assert_eq!(room.take(10), Some(PAGE_LIMIT - 10));
        assert_eq!(room.take(1), None);
    }
}
