//! Inserting: looks keys up without a lock, then claims the absent ones under it.

use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::engine::read::look_ahead::{LookAhead, OlderFrom};
use crate::engine::view::View;
use crate::engine::view::lookup::AbsentSince;
use crate::engine::view::lookup::Freshness;
use crate::engine::view::lookup::probe_buffers;
use crate::engine::write::Writer;
use crate::engine::write::claim::{Candidates, Purpose};
use crate::engine::write::verdict::{OnPending, Stop, Verdict};
use crate::error::Result;
use crate::memtable::Presence;
use crate::page_io::probe::{BatchProbe, KeyOrder, NeedsPointLookup};
use crate::prefetch::BATCH;
use crate::prefetch::hash_source::{HashSource, SourceTail};
use crate::prefetch::selection::SelectionVector;

/// A batch of at least this many keys is looked up ahead, and predicts what the next batches are like.
const LEAST_PRECHECKED_KEYS: usize = 64;

/// What a look ahead found out about the keys of a batch.
struct BatchPrecheck<'a> {
    absent: AbsentSince,
    seen: &'a [bool],
    older: Option<OlderFrom<'a>>,
}

impl Writer<'_> {
    /// Inserts one key into a set.
    pub(super) fn claim_in_set(&self, hash: u64) -> Result<Verdict> {
        self.handle.check_writable()?;
        let mut verdict = [Verdict::Seen];
        let Some(absent) = self.reader().absent_since(hash)? else {
            self.check_seen(&[hash], &verdict);
            self.renew(&[hash], None, |_| true)?;
            return Ok(Verdict::Seen);
        };
        let candidates = Candidates {
            batch: &[hash],
            places: &[0],
            absent,
            on_pending: OnPending::GoOn,
            purpose: Purpose::Claim,
        };
        if let Err(stop) = self.lock()?.claim(candidates, &mut verdict) {
            return Err(*stop.error);
        }
        self.renew(&[hash], None, |_| verdict[0] == Verdict::Seen)?;
        Ok(verdict[0])
    }

    /// Inserts the keys of a part into a set, in order, and appends a verdict for each; with [`OnPending::Stop`] only up to
    /// the first key that is pending.
    ///
    /// On an error the verdicts are those of the keys before the one that failed, and those keys are done.
    pub(super) fn claim_part_in_set(
        &self,
        keys: &dyn HashSource,
        on_pending: OnPending,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<()> {
        self.handle.check_writable()?;
        let mut ahead = match keys.count() < LEAST_PRECHECKED_KEYS {
            true => None,
            false => self.look_ahead(&SourceTail::all(keys))?,
        };
        let range = 0..keys.count();
        self.claim_ahead(keys, range, &mut ahead, on_pending, verdicts)
    }

    /// Like [`claim_part`](Self::claim_part), for a range of a part's keys. What a look ahead has found is seen; other
    /// keys are searched where they may be since.
    pub(crate) fn claim_ahead(
        &self,
        keys: &dyn HashSource,
        range: Range<usize>,
        ahead: &mut Option<LookAhead>,
        on_pending: OnPending,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<()> {
        self.handle.check_writable()?;
        verdicts.reserve(range.len());
        self.expect_changes(|| match ahead {
            // Its other ranges follow.
            Some(part) => part.count_absent(),
            None => range.len(),
        });
        let waiting = match ahead {
            Some(_) => keys.count() - range.start,
            None => 0,
        };
        self.hints.waiting.store(waiting, Ordering::Relaxed);
        let mut hashes = [0; BATCH];
        for at in range.clone().step_by(BATCH) {
            self.refresh(keys, at, ahead)?;
            let batch = &mut hashes[..BATCH.min(range.end - at)];
            keys.hashes_from(at, batch);
            let checked = ahead.as_ref().map(|part| BatchPrecheck {
                absent: part.absent,
                seen: part.seen_from(at),
                older: part.older_from(at),
            });
            let first = verdicts.len();
            if let Err(stop) = self.claim_batch(batch, checked, on_pending, verdicts) {
                verdicts.truncate(first + stop.done);
                return Err(*stop.error);
            }
            if on_pending.stops_after(&verdicts[first..]) {
                break;
            }
            assert_eq!(verdicts.len(), first + batch.len(), "one for each key");
        }
        Ok(())
    }

    /// Looks up many keys together, before batches of them are claimed. Returns `None` if the look met a damaged page:
    /// each key is then looked up in its turn.
    pub(crate) fn look_ahead(&self, keys: &SourceTail<'_>) -> Result<Option<LookAhead>> {
        self.reader()
            .look_ahead_to_claim(keys, self.active_search()?)
    }

    /// Brings a look ahead up to date for the keys from a place on. Where keys inserted since may be in the pages, looks
    /// anew.
    fn refresh(
        &self,
        keys: &dyn HashSource,
        place: usize,
        ahead: &mut Option<LookAhead>,
    ) -> Result<()> {
        let Some(part) = ahead else {
            return Ok(());
        };
        let freshness = Freshness::of(part.absent, &**self.views.current()?);
        match freshness {
            Freshness::Active => {}
            Freshness::Sealed => self.reader().follow(keys, place, part)?,
            Freshness::Checkpointed => {
                *ahead = self.look_ahead(&SourceTail {
                    source: keys,
                    first: place,
                })?;
            }
        }
        Ok(())
    }

    /// Returns how the precheck searches the active buffer. It skips that buffer if the last batch was mostly new,
    /// because claiming searches it anyway. A key that this buffer has removed must not be taken for one below: the view of
    /// the last call may be of an earlier buffer, in which nothing was removed.
    fn active_search(&self) -> Result<Option<impl Fn(Presence) -> Option<bool>>> {
        let reader = self.reader();
        let searches = !self.hints.mostly_new.load(Ordering::Relaxed)
            || self.views.current()?.active.buffer.has_removals();
        Ok(searches.then_some(move |presence| reader.says_seen(presence)))
    }

    /// Claims a batch, prechecked or not.
    fn claim_batch(
        &self,
        batch: &[u64],
        checked: Option<BatchPrecheck<'_>>,
        on_pending: OnPending,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<(), Stop> {
        let first = verdicts.len();
        let older = checked.as_ref().and_then(|checked| checked.older);
        let (absent, places, outcome) = match checked {
            Some(BatchPrecheck { absent, seen, .. }) => {
                let places = (0..batch.len()).filter(|place| !seen[*place]);
                (absent, places.collect(), Ok(()))
            }
            None => loop {
                let view = self.views.current().map_err(Stop::at(0))?;
                view.filter.expect_open().map_err(Stop::at(0))?;
                let absent = AbsentSince::of(&view);
                let (places, outcome) = self.find_absent(&view, batch);
                if view.found_holds(self.shared) {
                    break (absent, places, outcome);
                }
            },
        };
        let judged = match &outcome {
            Ok(()) => batch.len(),
            Err(stop) => stop.done,
        };
        verdicts.resize(first + judged, Verdict::Seen);
        if let Some(first_absent) = places.first() {
            self.prefetch_for_others(batch, &places);
            let mut guard = self.lock().map_err(Stop::at(*first_absent))?;
            let candidates = Candidates {
                batch,
                places: &places,
                absent,
                on_pending,
                purpose: Purpose::Claim,
            };
            let claimed = guard.claim(candidates, &mut verdicts[first..]);
            drop(guard);
            if let Err(stop) = claimed {
                // The keys before it are done, and those that are seen are to be as old as this.
                let is_seen = |place| verdicts[first + place] == Verdict::Seen;
                let _ = self.renew(&batch[..stop.done], older, is_seen);
                return Err(stop);
            }
            on_pending.truncate(verdicts, first);
        }
        let verdicts = &verdicts[first..];
        self.check_seen(batch, verdicts);
        let is_seen = |place: usize| verdicts.get(place) == Some(&Verdict::Seen);
        self.renew(batch, older, is_seen)
            .map_err(Stop::at(verdicts.len()))?;
        self.predict(batch.len(), verdicts);
        if on_pending.stops_after(verdicts) {
            return Ok(());
        }
        outcome
    }

    /// If other handles wait for the lock, prefetches what claiming touches before taking it.
    fn prefetch_for_others(&self, batch: &[u64], places: &[usize]) {
        if self.is_sole_writer() {
            return;
        }
        let view = self.views.cell.load();
        for place in places {
            view.active.buffer.prefetch(batch[*place]);
        }
    }

    /// Records for the next batch whether this one, if it is large, was mostly new.
    fn predict(&self, keys: usize, verdicts: &[Verdict]) {
        if keys < LEAST_PRECHECKED_KEYS {
            return;
        }
        let is_new = |verdict: &&Verdict| **verdict == Verdict::New;
        let new = verdicts.iter().filter(is_new).count();
        let mostly = new * 4 > keys * 3;
        self.hints.mostly_new.store(mostly, Ordering::Relaxed);
    }

    /// Returns the places of a batch whose keys are absent, as far as this handle can tell without the writer lock.
    /// Stops at the first key that can't be looked up. The keys before it are claimed nevertheless.
    fn find_absent(&self, view: &View, batch: &[u64]) -> (Vec<usize>, Result<(), Stop>) {
        let mut seen = [false; BATCH];
        let seen = &mut seen[..batch.len()];
        let reader = self.reader();
        let says = |presence| reader.says_seen(presence);
        let probed = self.probe_since((view, view.remembered_since()), batch, says, seen);
        let mut outcome = Ok(());
        if probed.is_err() {
            for (place, hash) in batch.iter().enumerate() {
                // Newer views may answer. What is absent in one of them proves no less than what is absent in this one.
                match reader.absent_since(*hash) {
                    Ok(absent) => seen[place] = absent.is_none(),
                    Err(error) => {
                        outcome = Err(Stop::at(place)(error));
                        seen[place..].fill(true);
                        break;
                    }
                }
            }
        }
        let mut absent = Vec::with_capacity(batch.len());
        absent.extend((0..batch.len()).filter(|place| !seen[*place]));
        (absent, outcome)
    }

    /// Looks for keys in the buffers and in the pages of a view, at most [`BATCH`] of them, and sets `found` for each that is
    /// there. Those count that came in a step or later, and `says` tells what the active buffer's word means. After an error,
    /// what isn't found may be there.
    pub(super) fn probe_since(
        &self,
        (view, since): (&View, u64),
        hashes: &[u64],
        says: impl Fn(Presence) -> Option<bool>,
        found: &mut [bool],
    ) -> Result<(), NeedsPointLookup> {
        let context = BatchProbe {
            exempt: view.sections.exempt.as_deref(),
            since,
            window: self.shared.window(),
            order: KeyOrder::Given,
        };
        let mut rest = SelectionVector::all(hashes.len());
        probe_buffers((view, since), hashes, Some(says), &mut rest, found);
        view.filter.probe_many(&context, hashes, &mut rest, found)
    }
}

#[cfg(test)]
mod tests {
    use crate::{BatchError, ClaimOptions, Precheck, Store};
    use tempfile::TempDir;

    use super::*;
    use crate::hash::HashedKey;
    use crate::testing::Options;

    const KEYS: u32 = 2000;

    /// An empty store, in a folder of its own, and keys for it.
    fn store_and_keys() -> (TempDir, Store, Vec<HashedKey>) {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().capacity(100_000).background(false);
        let store = options.create(folder.path().join("store")).unwrap();
        let keys = (0..KEYS).map(|number| store.hasher().key(&number.to_le_bytes()));
        let keys = keys.collect();
        (folder, store, keys)
    }

    fn rotate(store: &Store) {
        let writer = Writer::of(&store.engine);
        assert!(writer.lock().unwrap().seal_active(false).unwrap());
    }

    fn seen(verdicts: &[Verdict]) -> Vec<usize> {
        let turns = 0..verdicts.len();
        turns
            .filter(|turn| verdicts[*turn] == Verdict::Seen)
            .collect()
    }

    fn claim(store: &Store, keys: &[HashedKey]) -> Vec<Verdict> {
        // Verdicts already in the vector do not belong to this call.
        let mut verdicts = vec![Verdict::Pending];
        BatchError::append(
            store.claim_batch(keys, ClaimOptions::new().until_pending(true)),
            &mut verdicts,
        )
        .unwrap();
        verdicts.split_off(1)
    }

    /// After one rotation, a look follows for the range whose turn it is. A range before that may hold what came earlier.
    #[test]
    fn ranges_come_in_any_order_around_a_rotation() {
        let (_folder, store, keys) = store_and_keys();
        let mut precheck = Precheck::for_claims(&store, &keys).unwrap();
        for came in [7, 1007] {
            assert_eq!(claim(&store, &keys[came..=came]), [Verdict::New]);
        }
        rotate(&store);
        let mut verdicts = Vec::new();
        for range in [1000..2000, 0..1000] {
            BatchError::append(
                precheck.claim(&store, &keys, range, ClaimOptions::new()),
                &mut verdicts,
            )
            .unwrap();
        }
        assert_eq!(seen(&verdicts), [7, 1007]);
    }

    /// What was selected after an answer is looked for where it may have come since that answer.
    #[test]
    fn keys_selected_around_a_rotation_are_looked_for_in_both_buffers() {
        let (_folder, store, keys) = store_and_keys();
        let mut precheck = Precheck::for_lookups(&store, &keys).unwrap();
        let mut found = Vec::new();
        let mut ask = |precheck: &mut Precheck, range| {
            found.clear();
            let asked = precheck
                .contains(&store, &keys, range)
                .map(|found_now| found.extend(found_now));
            asked.unwrap();
            assert!(!found.contains(&true));
        };
        ask(&mut precheck, 0..1000);
        assert_eq!(claim(&store, &keys[7..8]), [Verdict::New]);
        rotate(&store);
        ask(&mut precheck, 1000..2000);
        let places: Vec<_> = (0..2000).collect();
        let mut selected = precheck.select(&places);
        let mut verdicts = Vec::new();
        BatchError::append(
            selected.claim(&store, &keys, 0..2000, ClaimOptions::new()),
            &mut verdicts,
        )
        .unwrap();
        assert_eq!(seen(&verdicts), [7]);
    }

    #[test]
    fn claims_end_with_the_first_key_that_is_pending() {
        // In the first batch, at the end of one, in a later part.
        for place in [0, 700, 4095, 60_000] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store");
            let options = Options::new().capacity(100_000).transactional(true);
            let [one, two, three] = [(); 3].map(|()| options.open_or_create(&path).unwrap());
            let keys: Vec<_> = (0..70_000_u32)
                .map(|number| one.hasher().key(&number.to_le_bytes()))
                .collect();
            assert_eq!(claim(&two, &keys[place..=place]), [Verdict::New]);
            let mut expected = vec![Verdict::New; place];
            expected.push(Verdict::Pending);
            assert_eq!(claim(&one, &keys), expected, "{place}");
            // Other handles can claim the keys after it.
            let behind = &keys[place + 1..];
            assert_eq!(claim(&three, behind), vec![Verdict::New; behind.len()]);
            two.commit().unwrap();
            assert_eq!(
                claim(&one, &keys[place..]),
                [Verdict::Seen, Verdict::Pending]
            );
            three.close().unwrap();
            assert_eq!(claim(&one, behind), vec![Verdict::New; behind.len()]);
        }
    }
}
