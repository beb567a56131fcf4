//! Looking up the parts of a large batch: in page order, and with many reads in flight for pages that are not in
//! memory.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::engine::read::Reader;
use crate::engine::view::View;
use crate::engine::view::lookup::AbsentSince;
use crate::engine::view::lookup::probe_buffers;
use crate::error::Result;
use crate::filter::Filter;
use crate::filter::Readahead;
use crate::memtable::Presence;
use crate::page_io::probe::{BatchProbe, KeyOrder, NeedsPointLookup};
use crate::prefetch::BATCH;
use crate::prefetch::BehindWalk;
use crate::prefetch::hash_source::{HashSource, SourceTail};
use crate::prefetch::lookup_order::LookupOrder;
use crate::prefetch::residency::{CountedWalk, PagesRead};
use crate::prefetch::selection::SelectionVector;
use crate::sys::two_threads::{do_both, shared_bools};
use crate::sys::{is_cached, major_faults};

/// How often to look up many keys together while other handles rotate.
pub(crate) const MAX_VIEW_ATTEMPTS: usize = 3;

/// The number of keys from which a sweep is worth a second thread. A window of fewer is answered in a second or so.
const TWO_THREADS_FROM: usize = if cfg!(test) { 1 << 15 } else { 1 << 22 };

/// What one walk over the keys searches.
#[derive(Clone, Copy)]
enum Walk<'a> {
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
struct PartLookup<'a, C> {
    reader: Reader<'a>,
    order: &'a LookupOrder<'a>,
    filter: &'a Filter,
    context: BatchProbe<'a>,
    /// Tells whether a key is present from what the active buffer says of it; `None` skips that buffer.
    says: Option<C>,
}

/// What a walk finds out about the keys of a part.
pub(crate) struct PartFound<'f> {
    /// Which are present. The threads of a walk set it, each for keys of its own.
    present: &'f [AtomicBool],
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

    fn is_present(&self, place: usize) -> bool {
        self.present[place].load(Ordering::Relaxed)
    }
}

impl Reader<'_> {
    /// Sets `found` for each key of a part that a set has.
    pub(super) fn find_in_set(self, keys: &dyn HashSource, found: &mut [bool]) -> Result<()> {
        let keys = SourceTail::all(keys);
        if self.contains_part(&keys, found) {
            return Ok(());
        }
        // Look up key by key: a page that is damaged, or seems so, affects only its own keys.
        let mut outcome = Ok(());
        keys.for_each(|place, hash| {
            if outcome.is_ok() && !found[place] {
                outcome = self.is_in_set(hash).map(|there| found[place] = there);
            }
        });
        outcome
    }

    /// Looks up many keys together. Returns `false` if other handles kept rotating, or if a page is damaged or seems
    /// so. Keys found before that are present.
    fn contains_part(self, keys: &SourceTail<'_>, found: &mut [bool]) -> bool {
        let there = |presence| self.says_there(presence);
        for _ in 0..MAX_VIEW_ATTEMPTS {
            let probed = self.probe_part(keys, Some(there), &mut PartFound::new(found, None));
            match probed {
                Ok(Ok(absent)) if absent.still_holds(self.shared) => return true,
                // Without removals, what was found stays.
                Ok(Ok(_)) if !self.views.cell.load().filter.has_removes() => {}
                Ok(Ok(_)) => found.fill(false),
                Ok(Err(NeedsPointLookup)) => {
                    found.fill(false);
                    return false;
                }
                Err(_) => return false,
            }
        }
        false
    }

    /// Looks up the keys of a part and sets `found` for each that is present. `says` tells whether a key is present from
    /// what the active buffer says of it; `None` skips that buffer. Returns what that proves about the other keys. Which are
    /// older than the step is found in the same walk, since each page is at hand then.
    ///
    /// # Errors
    /// After the inner error `found` is meaningless.
    pub(crate) fn probe_part<C: Fn(Presence) -> Option<bool> + Sync>(
        self,
        keys: &SourceTail<'_>,
        says: Option<C>,
        found: &mut PartFound<'_>,
    ) -> Result<Result<AbsentSince, NeedsPointLookup>> {
        assert_eq!(found.present.len(), keys.count());
        let view = Arc::clone(&*self.views.current()?);
        view.filter.expect_open()?;
        if let Some((step, _)) = &mut found.older {
            *step = view.this_step();
        }
        let absent = AbsentSince::of(&view);
        let (filter, exempt) = (view.filter.clone(), view.sections.exempt.clone());
        let order = LookupOrder::of(keys, self.hints.residency.asks());
        let shares_pages = self.hints.residency.is_likely() && filter.shares_pages(&order);
        let lookup = PartLookup {
            reader: self,
            order: &order,
            filter: &filter,
            context: BatchProbe {
                exempt: exempt.as_deref(),
                since: view.remembered_since(),
                window: self.shared.window(),
                order: match order.is_by_page() {
                    true if shares_pages => KeyOrder::SharingPages,
                    true => KeyOrder::ByPage {
                        keys: keys.count() as u64,
                    },
                    false => KeyOrder::Given,
                },
            },
            says,
        };
        // Between two walks, it would be forgotten which keys the buffers have removed.
        let may_split = !filter.has_removes() && found.older.is_none() && order.is_by_page();
        let walked = if may_split && self.hints.residency.asks() {
            lookup.walk(Walk::Buffers(&view), found).and_then(|()| {
                // The walk over the pages is long. Meanwhile the view would keep its buffers in memory.
                drop(view);
                let some_found = (0..keys.count()).any(|place| found.is_present(place));
                lookup.walk(Walk::Pages { some_found }, found)
            })
        } else {
            lookup.walk(Walk::Both(&view), found)
        };
        Ok(walked.map(|()| absent))
    }
}

impl<C: Fn(Presence) -> Option<bool> + Sync> PartLookup<'_, C> {
    /// Looks up all keys, batch by batch.
    fn walk(&self, walk: Walk<'_>, found: &mut PartFound<'_>) -> Result<(), NeedsPointLookup> {
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::hash::KeyHasher;
    use crate::testing::Options;
    use crate::{Hash, Kind, Store};

    /// Sends the next look-ups down the path for pages that come from disk.
    fn make_cold(store: &Store) {
        while !store.engine.hints.residency.asks() {
            store.engine.hints.residency.note(
                false,
                Duration::from_secs(1),
                BATCH,
                PagesRead::Unknown,
            );
        }
    }

    #[test]
    fn a_walk_is_sampled_from_end_to_end() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().capacity(2_000_000).fpr(1e-9);
        let store = options.create(folder.path().join("store")).unwrap();
        store.insert_batch(&batch(0, 100_000)).unwrap();
        store.checkpoint().unwrap();
        let hasher = KeyHasher::new(Hash::Xxh3, &[7; 32]);
        let keys: Vec<u64> = (0..100_000).map(|key| hasher.mix(key)).collect();
        let view = store.engine.views.current().unwrap();
        let tail = SourceTail::all(&keys);
        let order = LookupOrder::of(&tail, false);
        assert!(view.filter.is_sweep(&order));
        let file = &*store.engine.file.raw;
        let mut readahead = view.filter.readahead(file, keys.len(), BehindWalk::Kept);
        for first in (0..keys.len()).step_by(BATCH) {
            readahead.advance(&order, first);
        }
        let mut sample = readahead.into_sample();
        sample.sort_unstable();
        let length = store.engine.file.raw.length().unwrap();
        assert!((60..70).contains(&sample.len()), "{}", sample.len());
        assert!(sample[0] < length / 10 && sample[59] > length / 10 * 8);
        assert!(sample.iter().all(|offset| *offset < length));
    }

    /// Returns keys out of a million or so, so that most batches contain new keys, old keys and duplicates.
    fn batch(seed: u64, keys: u64) -> Vec<u64> {
        let hasher = KeyHasher::new(Hash::Xxh3, &[7; 32]);
        let mut state = seed << 32;
        let draw = |_| {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            hasher.mix(state) % 1_000_000
        };
        (0..keys).map(draw).collect()
    }

    /// The slow twin is a set in memory.
    #[test]
    fn a_window_on_two_threads_is_answered_as_on_one() {
        for kind in [Kind::Bloom, Kind::Fingerprint] {
            let folder = tempfile::tempdir().unwrap();
            let options = Options::new().capacity(2_000_000).fpr(1e-9).kind(kind);
            let store = options.create(folder.path().join("store")).unwrap();
            let inserted = batch(1, 200_000);
            store.insert_batch(&inserted[..150_000]).unwrap();
            store.checkpoint().unwrap();
            // The buffer has some as well.
            store.insert_batch(&inserted[150_000..]).unwrap();
            let twin: HashSet<u64> = inserted.into_iter().collect();
            make_cold(&store);
            let mut sieve = crate::Sieve::new(&store).sweep(crate::Sweep::Always);
            let asked = batch(2, 5 * TWO_THREADS_FROM as u64 + 77);
            for key in &asked {
                sieve.push(
                    crate::hash::HashedKey::from_bits(store.engine.hasher.mix(*key)),
                    *key,
                );
            }
            let mut count = 0;
            let each = |key, there| {
                assert_eq!(there, twin.contains(&key), "{kind:?}, key {key}");
                count += 1;
            };
            sieve.contains(usize::MAX, each).unwrap();
            assert_eq!((sieve.sweeps(), count), (1, asked.len()));
        }
    }

    /// The slow twin is a set in memory. Buffers of two megabytes rotate several times during the test, also
    /// within parts.
    #[test]
    fn large_batches_out_of_memory_are_answered_as_any() {
        for kind in [Kind::Bloom, Kind::Fingerprint] {
            large_batches_are_answered(kind);
        }
    }

    fn large_batches_are_answered(kind: Kind) {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().capacity(2_000_000).fpr(1e-9).buffer(4 << 20);
        let options = options.kind(kind).least_run(64);
        let store = options.create(folder.path().join("store")).unwrap();
        let mut twin = HashSet::new();
        for seed in 0..8 {
            make_cold(&store);
            let keys = batch(seed, 100_000);
            let answers = store.insert_batch(&keys).unwrap();
            for (key, new) in keys.iter().zip(answers) {
                assert_eq!(new, twin.insert(*key), "key {key} of batch {seed}");
            }
            make_cold(&store);
            let keys = batch(1000 + seed, 100_000);
            let answers = store.contains_batch(&keys).unwrap();
            for (key, there) in keys.iter().zip(answers) {
                assert_eq!(there, twin.contains(key), "key {key} after batch {seed}");
            }
            // However slow the look-ups were, what they read is still in memory.
            assert!(!store.engine.hints.residency.is_tight());
        }
        assert!(store.stats().unwrap().generation > 2, "nothing was rotated");
    }

    /// Each key has one winner among handles whose parts outlast each other's rotations.
    #[test]
    fn large_batches_of_two_handles_have_one_winner_a_key() {
        for kind in [Kind::Bloom, Kind::Fingerprint] {
            two_handles_have_one_winner(kind);
        }
    }

    fn two_handles_have_one_winner(kind: Kind) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let options = Options::new().capacity(2_000_000).fpr(1e-9).buffer(4 << 20);
        let options = options.kind(kind);
        let first = options.create(&path).unwrap();
        let handles = [first, options.open(&path).unwrap()];
        let mut won: Vec<u64> = std::thread::scope(|scope| {
            let insert = |(seed, store): (u64, &_)| {
                let mut won = Vec::new();
                for round in 0..6 {
                    make_cold(store);
                    let keys = batch(seed * 3 + round, 100_000);
                    let answers = store.insert_batch(&keys).unwrap();
                    let new = keys.iter().zip(answers).filter(|(_, new)| *new);
                    won.extend(new.map(|(key, _)| *key));
                }
                won
            };
            let threads: Vec<_> = (0..)
                .zip(&handles)
                .map(|work| scope.spawn(move || insert(work)))
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        let all: HashSet<u64> = (0..9).flat_map(|seed| batch(seed, 100_000)).collect();
        won.sort_unstable();
        let winners = won.len();
        won.dedup();
        assert_eq!(winners, won.len(), "a key was won twice");
        assert_eq!(winners, all.len());
    }
}
