//! A walk over the keys of one part: on one thread, or on two where that takes long.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::engine::read::Reader;
use crate::engine::view::View;
use crate::engine::view::lookup::probe_buffers;
use crate::filter::Filter;
use crate::filter::Readahead;
use crate::memtable::Presence;
use crate::page_io::probe::{BatchProbe, KeyOrder, NeedsPointLookup};
use crate::prefetch::BATCH;
use crate::prefetch::BehindWalk;
use crate::prefetch::lookup_order::LookupOrder;
use crate::prefetch::residency::{CountedWalk, PagesRead};
use crate::prefetch::selection::SelectionVector;
use crate::sys::two_threads::{do_both, shared_bools};
use crate::sys::{is_cached, major_faults};

/// The number of keys from which a sweep is worth a second thread. A window of fewer is answered in a second or so.
pub(super) const TWO_THREADS_FROM: usize = if cfg!(test) { 1 << 15 } else { 1 << 22 };

/// What one walk over the keys searches.
#[derive(Clone, Copy)]
pub(super) enum Walk<'a> {
    Buffers(&'a View),
    Pages {
        /// Whether the buffers had any of the keys.
        some_found: bool,
    },
    Both(&'a View),
}

impl Walk<'_> {
    fn has_pages(self) -> bool {
        !matches!(self, Walk::Buffers(_))
    }
}

/// A walk in progress.
struct WalkState<'a> {
    walk: Walk<'a>,
    readahead: Readahead<'a>,
    /// Space for the hashes of one batch.
    hashes: [u64; BATCH],
}

/// What the walks over the keys of one part share.
pub(super) struct PartLookup<'a, C> {
    pub(super) reader: Reader<'a>,
    pub(super) order: &'a LookupOrder<'a>,
    pub(super) filter: &'a Filter,
    pub(super) context: BatchProbe<'a>,
    /// Tells whether a key is present from what the active buffer says of it; `None` skips that buffer.
    pub(super) says: Option<C>,
}

/// What a walk finds out about the keys of a part.
pub(crate) struct PartFound<'f> {
    /// Which are present. The threads of a walk set it, each for keys of its own.
    pub(super) present: &'f [AtomicBool],
    /// In a store that renews: the step in which the walk began, and of the keys that are present whether they are older than
    /// that.
    pub(crate) older: Option<(u64, &'f mut [Option<bool>])>,
}

impl<'f> PartFound<'f> {
    pub(crate) fn new(
        present: &'f mut [bool],
        older: Option<(u64, &'f mut [Option<bool>])>,
    ) -> Self {
        Self {
            present: shared_bools(present),
            older,
        }
    }

    pub(super) fn is_present(&self, place: usize) -> bool {
        self.present[place].load(Ordering::Relaxed)
    }
}

impl<C: Fn(Presence) -> Option<bool> + Sync> PartLookup<'_, C> {
    /// Looks up all keys, batch by batch.
    pub(super) fn walk(
        &self,
        walk: Walk<'_>,
        found: &mut PartFound<'_>,
    ) -> Result<(), NeedsPointLookup> {
        let count = self.order.count();
        let file = &*self.reader.file.raw;
        let residency = &self.reader.hints.residency;
        let begun = Instant::now();
        let sweeps = walk.has_pages() && self.filter.is_sweep(self.order);
        let counted = sweeps.then(|| residency.begin_walk(|offset| is_cached(file, offset)));
        let passed = counted
            .as_ref()
            .map_or(BehindWalk::Kept, CountedWalk::passed);
        // Where pages are in memory, a batch takes the caller's thread alone.
        let is_long = sweeps && residency.is_likely() && count >= TWO_THREADS_FROM;
        let (walked, sample) = match is_long && found.older.is_none() {
            true => self.walk_on_two_threads((walk, passed), found),
            false => self.walk_turns(0..count, (walk, passed), found),
        };
        if let Some(counted) = counted {
            // This also runs after an error.
            residency.end_walk(&counted, sample);
        }
        if walk.has_pages() && residency.is_likely() {
            self.note_pace(sweeps, begun.elapsed());
        }
        walked
    }

    /// Looks up one half of the keys on this thread and the other on a second one, each with a readahead of its own.
    fn walk_on_two_threads(
        &self,
        walk: (Walk<'_>, BehindWalk),
        found: &PartFound<'_>,
    ) -> (Result<(), NeedsPointLookup>, Vec<u64>) {
        let count = self.order.count();
        let middle = (count / 2).next_multiple_of(BATCH).min(count);
        let half = |turns| {
            let mut found = PartFound {
                present: found.present,
                older: None,
            };
            Ok::<_, Infallible>(self.walk_turns(turns, walk, &mut found))
        };
        let Ok(((walked, mut sample), (other_walked, other_sample))) =
            do_both(|| half(0..middle), || half(middle..count));
        sample.extend(other_sample);
        (walked.and(other_walked), sample)
    }

    /// Looks up the keys of a range of turns, batch by batch. Returns a sample of the pages that were requested, also after
    /// an error.
    fn walk_turns(
        &self,
        turns: Range<usize>,
        (walk, behind): (Walk<'_>, BehindWalk),
        found: &mut PartFound<'_>,
    ) -> (Result<(), NeedsPointLookup>, Vec<u64>) {
        // Another range begins at the end of this one: no key may be in both, or in neither.
        assert!(turns.start.is_multiple_of(BATCH));
        let file = &*self.reader.file.raw;
        let mut state = WalkState {
            walk,
            readahead: self.filter.readahead(file, self.order.count(), behind),
            hashes: [0; BATCH],
        };
        let walked = turns
            .step_by(BATCH)
            .try_for_each(|first| self.look_from(first, &mut state, found));
        (walked, state.readahead.into_sample())
    }

    /// Notes how long a walk took whose pages may have come from the disk.
    fn note_pace(&self, is_sweep: bool, taken: Duration) {
        let pace = &self.reader.hints.pace;
        if self.order.count() >= BATCH {
            pace.note_keys(self.order.count(), taken);
        }
        if is_sweep {
            pace.note_sweep(self.filter.pages(), taken);
        }
    }

    /// Looks up the batch that begins at this turn.
    fn look_from(
        &self,
        first: usize,
        state: &mut WalkState<'_>,
        found: &mut PartFound<'_>,
    ) -> Result<(), NeedsPointLookup> {
        let (order, walk) = (self.order, state.walk);
        let residency = &self.reader.hints.residency;
        let end = order.count().min(first + BATCH);
        // Keys that share a page hide from each other how long it took.
        let shares_pages = self.context.order == KeyOrder::SharingPages;
        let asks = walk.has_pages() && (shares_pages || residency.asks());
        if asks {
            state.readahead.advance(order, first);
        }
        let hashes = &mut state.hashes[..end - first];
        order.hashes(first..end, hashes);
        let mut there = [false; BATCH];
        let there = &mut there[..hashes.len()];
        let mut rest = SelectionVector::all(hashes.len());
        match walk {
            Walk::Buffers(view) | Walk::Both(view) => {
                let view = (view, self.context.since);
                probe_buffers(view, hashes, self.says.as_ref(), &mut rest, there);
            }
            Walk::Pages { some_found: true } => {
                rest.drop_if(|turn| found.is_present(order.place(first + turn)));
            }
            // The places are all over memory: not to ask saves a fifth of a sweep's time.
            Walk::Pages { some_found: false } => {}
        }
        if walk.has_pages() {
            let before = residency.suspects().then(major_faults);
            let begun = Instant::now();
            self.filter
                .probe_many(&self.context, hashes, &mut rest, there)?;
            let taken = begun.elapsed();
            let read = before.map_or(PagesRead::Uncounted, |before| {
                PagesRead::between(before, major_faults())
            });
            residency.note(asks, taken, hashes.len(), read);
        }
        for (turn, there) in (first..).zip(&*there) {
            // The places are all over memory: none is touched for a key that is absent.
            if *there {
                found.present[order.place(turn)].store(true, Ordering::Relaxed);
            }
        }
        if let (Some((step, older)), Walk::Both(view)) = (&mut found.older, walk) {
            let recent = self.find_recent((view, *step), hashes, there)?;
            for (turn, (there, recent)) in (first..).zip(there.iter().zip(recent)) {
                older[order.place(turn)] = there.then_some(!recent);
            }
        }
        Ok(())
    }

    /// Returns which of the keys that are there came in a step or later, or are an open transaction's.
    fn find_recent(
        &self,
        (view, step): (&View, u64),
        hashes: &[u64],
        there: &[bool],
    ) -> Result<[bool; BATCH], NeedsPointLookup> {
        let mut recent = [false; BATCH];
        let found = &mut recent[..hashes.len()];
        let mut rest = SelectionVector::all(hashes.len());
        rest.drop_if(|turn| !there[turn]);
        let is_touched = |presence| (presence != Presence::Absent).then_some(true);
        probe_buffers((view, step), hashes, Some(is_touched), &mut rest, found);
        let context = BatchProbe {
            since: step,
            ..self.context
        };
        self.filter.probe_many(&context, hashes, &mut rest, found)?;
        Ok(recent)
    }
}
