//! Looking up the parts of a large batch: in page order, and with many reads in flight for pages that are not in
//! memory.

use std::sync::Arc;

use crate::engine::read::Reader;
use crate::engine::read::part_lookup::{PartFound, PartLookup, Walk};
use crate::engine::view::lookup::AbsentSince;
use crate::error::Result;
use crate::memtable::Presence;
use crate::page_io::probe::{BatchProbe, KeyOrder, NeedsPointLookup};
use crate::prefetch::hash_source::{HashSource, SourceTail};
use crate::prefetch::lookup_order::LookupOrder;

/// How often to look up many keys together while other handles rotate.
pub(crate) const MAX_VIEW_ATTEMPTS: usize = 3;

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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use super::*;
    use crate::engine::read::part_lookup::TWO_THREADS_FROM;
    use crate::hash::KeyHasher;
    use crate::prefetch::residency::PagesRead;
    use crate::prefetch::{BATCH, BehindWalk};
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
            let options = options.seed([7; 32]);
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
        let options = options.kind(kind).least_run(64).seed([7; 32]);
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
        let options = options.kind(kind).seed([7; 32]);
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
