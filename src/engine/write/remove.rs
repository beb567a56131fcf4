//! Removing from a store of fingerprints. Removals go to the buffer and the log, under the writer lock. Segments change
//! only in a checkpoint.

use crate::engine::read::look_ahead::LookAhead;
use crate::engine::view::lookup::AbsentSince;
use crate::engine::view::lookup::Freshness;
use crate::engine::write::Writer;
use crate::engine::write::guard::WriteGuard;
use crate::engine::write::verdict::Stop;
use crate::engine::write::write_batch::{BatchOperation, Decision, WriteBatch};
use crate::error::{Error, Result};
use crate::memtable::{RemovalClaim, Slot};
use crate::prefetch::hash_source::{HashSource, SourceTail};
use crate::prefetch::{BATCH, GROUP};

/// The keys of a batch that are removed under the writer lock.
struct RemoveBatch<'b> {
    batch: &'b [u64],
    /// Which of them were below the active buffer when they were looked up, and when that was.
    below: &'b [bool],
    looked: Option<AbsentSince>,
    freshness: Freshness,
    outcomes: &'b mut Vec<bool>,
    slots: Vec<Slot>,
    hashes: Vec<u64>,
    /// The keys among them that this handle itself has inserted, in the same transaction.
    taken_back: Vec<u64>,
    /// The place of the first of the hashes in the batch.
    first: usize,
    state: u16,
}

impl Writer<'_> {
    /// Removes the keys of a part from a set, in order, and appends the outcome of each. On an error the outcomes are those of
    /// the keys before the one that failed, and those keys are done.
    pub(super) fn remove_from_set(&self, keys: &dyn HashSource, out: &mut Vec<bool>) -> Result<()> {
        self.handle.check_writable()?;
        let mut ahead = self.look_below(&SourceTail::all(keys))?;
        self.expect_changes(|| keys.count());
        let mut hashes = [0; BATCH];
        for at in (0..keys.count()).step_by(BATCH) {
            let batch = &mut hashes[..BATCH.min(keys.count() - at)];
            keys.hashes_from(at, batch);
            let mut guard = self.lock()?;
            let is_old = ahead
                .as_ref()
                .is_some_and(|look| guard.freshness(look.absent) == Freshness::Checkpointed);
            if is_old {
                drop(guard);
                ahead = self.look_below(&SourceTail {
                    source: keys,
                    first: at,
                })?;
                guard = self.lock()?;
            }
            let first = out.len();
            let below = ahead.as_ref().map(|look| (look.absent, look.seen_from(at)));
            if let Err(stop) = guard.remove(batch, below, out) {
                out.truncate(first + stop.done);
                return Err(*stop.error);
            }
            assert_eq!(out.len(), first + batch.len(), "one for each key");
        }
        Ok(())
    }

    /// Looks up many keys below the active buffer. Returns `None` if the look met a damaged page.
    fn look_below(&self, keys: &SourceTail<'_>) -> Result<Option<LookAhead>> {
        let none = None::<fn(crate::memtable::Presence) -> Option<bool>>;
        self.reader().look_ahead(keys, none)
    }
}

impl BatchOperation for RemoveBatch<'_> {
    fn turns(&self) -> usize {
        self.batch.len()
    }

    fn place(&self, turn: usize) -> usize {
        turn
    }

    fn decide(&mut self, guard: &mut WriteGuard<'_>, turn: usize) -> Result<Decision> {
        if turn.is_multiple_of(GROUP) {
            self.prefetch(guard, turn + GROUP);
        }
        let hash = self.batch[turn];
        let is_below = self.is_below(guard, turn)?;
        let own = guard.writer.handle.number;
        let buffer = &guard.view.active.buffer;
        let quota = guard.writer.quota();
        let changed = guard.slot().uncommitted();
        // A key that is absent still gets its answer.
        if changed.saturating_add(self.hashes.len() as u64) >= quota
            && buffer.is_removable(hash, is_below)
            && !self.taken_back.contains(&buffer.canonical(hash))
        {
            return Err(Error::TransactionTooLarge { quota });
        }
        let outcome = match buffer.claim_removal(hash, is_below) {
            RemovalClaim::Claimed(slot) => return Ok(self.reserve(slot, turn)),
            RemovalClaim::NoRoom => return Ok(Decision::NoRoom),
            RemovalClaim::Open(handle) if handle == own => {
                let canonical = buffer.canonical(hash);
                match buffer.slot_of(hash) {
                    Some(slot) if !self.taken_back.contains(&canonical) => {
                        self.taken_back.push(canonical);
                        return Ok(self.reserve(slot, turn));
                    }
                    _ => false,
                }
            }
            RemovalClaim::Absent => false,
            RemovalClaim::Removing(handle) if handle == own => false,
            RemovalClaim::Open(handle) | RemovalClaim::Removing(handle) => {
                guard.give_up_dead(handle)?;
                match guard.view.active.buffer.claim_removal(hash, is_below) {
                    RemovalClaim::Claimed(slot) => return Ok(self.reserve(slot, turn)),
                    _ => false,
                }
            }
        };
        self.outcomes.push(outcome);
        Ok(Decision::Unchanged)
    }

    fn first_reserved(&self) -> Option<usize> {
        (!self.hashes.is_empty()).then_some(self.first)
    }

    fn append(&mut self, guard: &mut WriteGuard<'_>) -> Result<()> {
        guard.check_table()?;
        guard.announce()?;
        let hashes = &self.hashes;
        assert_eq!(hashes.len(), self.slots.len());
        guard.append(|log, handle| log.remove(handle, hashes))
    }

    fn publish(&mut self, guard: &WriteGuard<'_>) {
        let active = &guard.view.active.buffer;
        for slot in &self.slots {
            active.publish_claim(*slot, self.state);
        }
        let count = self.slots.len() as u64;
        active.set_keys(active.keys().saturating_add(count));
        active.set_net_keys(active.net_keys().saturating_sub_unsigned(count));
        guard.note_changes(&self.hashes, -1);
        self.clear();
    }

    fn abandon(&mut self, guard: &WriteGuard<'_>) {
        for slot in &self.slots {
            guard.view.active.buffer.retract(*slot);
        }
        self.clear();
    }

    fn resume(&mut self, guard: &WriteGuard<'_>, state: u16, turn: usize) {
        self.state = state;
        self.freshness = self.freshness_in(guard);
        self.prefetch(guard, turn);
        self.prefetch(guard, turn + GROUP);
    }
}

impl RemoveBatch<'_> {
    fn freshness_in(&self, guard: &WriteGuard<'_>) -> Freshness {
        match self.looked {
            Some(looked) => guard.freshness(looked),
            None => Freshness::Checkpointed,
        }
    }

    fn prefetch(&self, guard: &WriteGuard<'_>, first: usize) {
        for hash in self.batch.iter().skip(first).take(GROUP) {
            guard.view.active.buffer.prefetch(*hash);
        }
    }

    /// Returns whether a key is present below the active buffer.
    fn is_below(&self, guard: &WriteGuard<'_>, turn: usize) -> Result<bool> {
        let hash = self.batch[turn];
        match self.freshness {
            Freshness::Active => Ok(self.below[turn]),
            // What was the active buffer when the key was looked up decides first.
            Freshness::Sealed => {
                let said = guard.view.sealed_says(hash, guard.view.remembered_since());
                Ok(said.unwrap_or(self.below[turn]))
            }
            Freshness::Checkpointed => guard.writer.reader().is_below(hash),
        }
    }

    fn reserve(&mut self, slot: Slot, turn: usize) -> Decision {
        if self.hashes.is_empty() {
            self.first = turn;
        }
        self.slots.push(slot);
        self.hashes.push(self.batch[turn]);
        self.outcomes.push(true);
        Decision::Reserved
    }

    fn clear(&mut self) {
        self.slots.clear();
        self.hashes.clear();
        self.taken_back.clear();
    }
}

impl WriteGuard<'_> {
    /// Removes the keys of a batch in order and appends the outcome of each.
    fn remove(
        &mut self,
        batch: &[u64],
        below: Option<(AbsentSince, &[bool])>,
        outcomes: &mut Vec<bool>,
    ) -> Result<(), Stop> {
        if self.log_is_long() {
            self.rotate().map_err(Stop::at(0))?;
        }
        let state = self.begin_claims().map_err(Stop::at(0))?;
        let mut operation = RemoveBatch {
            batch,
            below: below.map_or(&[], |(_, below)| below),
            looked: below.map(|(looked, _)| looked),
            freshness: Freshness::Checkpointed,
            outcomes,
            slots: Vec::new(),
            hashes: Vec::new(),
            taken_back: Vec::new(),
            first: 0,
            state,
        };
        operation.freshness = operation.freshness_in(self);
        operation.prefetch(self, 0);
        WriteBatch {
            guard: self,
            operation,
        }
        .run()
    }

    /// Gives up what a dead handle has not committed.
    ///
    /// # Errors
    /// `Busy` if the handle lives: whether the key is there is not decided yet.
    fn give_up_dead(&self, handle: u64) -> Result<()> {
        let Writer {
            shared,
            handle: own,
            file,
            ..
        } = *self.writer;
        if !own.locks.is_alive(shared, handle)? {
            return self.reap_dead_handles();
        }
        let slot = shared.slot_of(handle);
        Err(Error::Busy {
            path: file.place.to_path_buf(),
            what: "the commit of a handle that has changed this key",
            process: slot.map(|slot| shared.slot(slot).process()),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tempfile::TempDir;

    use crate::engine::checkpoint::run::Checkpointer;
    use crate::engine::read::Reader;
    use crate::engine::write::Writer;
    use crate::engine::write::verdict::Verdict;
    use crate::testing::Options;
    use crate::{BatchError, ClaimOptions, Kind, Precheck, Store};

    /// Two hashes with one fingerprint, in any store that a test makes.
    const KEY: u64 = 1 << 40;
    const EXEMPT: u64 = KEY + 1;

    fn options() -> Options {
        let options = Options::new().kind(Kind::Fingerprint).background(false);
        options.capacity(1000).fpr(1e-6).measured(false)
    }

    fn contains(store: &Store, hash: u64) -> bool {
        Reader::of(&store.engine).contains(hash).unwrap()
    }

    fn insert(store: &Store, hash: u64) -> Verdict {
        Writer::of(&store.engine).claim_single(hash).unwrap()
    }

    fn remove(store: &Store, hash: u64) -> bool {
        Writer::of(&store.engine).remove_single(hash).unwrap()
    }

    /// Makes a store whose pages have `KEY`, and one key that stays. `EXEMPT` is exempt.
    fn with_an_exemption(path: &Path, transactional: bool) -> Store {
        let store = options().transactional(transactional).create(path).unwrap();
        assert_eq!(insert(&store, KEY), Verdict::New);
        assert_eq!(insert(&store, EXEMPT), Verdict::Seen);
        assert_eq!(insert(&store, u64::MAX), Verdict::New);
        store.commit().unwrap();
        store.checkpoint().unwrap();
        let report = Writer::of(&store.engine).exempt(vec![EXEMPT]).unwrap();
        assert_eq!(report.exempted, 1);
        assert_eq!(
            [KEY, EXEMPT].map(|hash| contains(&store, hash)),
            [true, false]
        );
        store
    }

    /// Moves the active log into the pages without its buffer, as when memory has no room for one.
    fn checkpoint_from_log(store: &Store) {
        let writer = Writer::of(&store.engine);
        writer.lock().unwrap().seal_active(false).unwrap();
        let sealed = store.engine.views.cell.load().sealed.clone().unwrap();
        let log = writer.logs.of(&sealed).unwrap();
        Checkpointer::of(&store.engine)
            .checkpoint_from_log(log)
            .unwrap();
    }

    /// Copies what a process leaves that is killed now, and opens it.
    fn after_a_kill(folder: &Path, path: &Path) -> (TempDir, Store) {
        let copies = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(folder).unwrap() {
            let from = entry.unwrap().path();
            let name = from.file_name().unwrap();
            if !name.to_str().unwrap().contains("-shm") {
                std::fs::copy(&from, copies.path().join(name)).unwrap();
            }
        }
        let store = options().open(copies.path().join(path.file_name().unwrap()));
        (copies, store.unwrap())
    }

    /// The remove names another hash of a fingerprint than the insert, and the pages have that fingerprint.
    #[test]
    fn the_last_record_of_a_fingerprint_decides_wherever_it_is_read() {
        for transactional in [false, true] {
            for removes_last in [true, false] {
                for checkpoint in [
                    |store: &Store| store.checkpoint().unwrap(),
                    checkpoint_from_log,
                ] {
                    let folder = tempfile::tempdir().unwrap();
                    let path = folder.path().join("store");
                    let store = with_an_exemption(&path, transactional);
                    assert_eq!(insert(&store, EXEMPT), Verdict::New);
                    assert!(remove(&store, KEY));
                    assert!(!remove(&store, KEY) && !remove(&store, EXEMPT));
                    if !removes_last {
                        assert_eq!(insert(&store, KEY), Verdict::New);
                    }
                    store.commit().unwrap();
                    let found = |store: &Store| [KEY, EXEMPT].map(|hash| contains(store, hash));
                    let expected = [!removes_last; 2];
                    assert_eq!(found(&store), expected);
                    let (_copies, killed) = after_a_kill(folder.path(), &path);
                    assert_eq!(found(&killed), expected);
                    checkpoint(&killed);
                    for store in [&store, &killed] {
                        checkpoint(store);
                        assert_eq!(found(store), expected);
                        let keys = 1 + u64::from(!removes_last);
                        assert_eq!(store.stats().unwrap().keys, keys);
                        assert_eq!(store.verify().unwrap().fingerprints, keys);
                        let exempt = Writer::of(&store.engine).exempt_from(0).unwrap();
                        assert_eq!(exempt, if removes_last { vec![EXEMPT] } else { vec![] });
                    }
                }
            }
        }
    }

    /// What a transaction has done to a fingerprint goes on in the next buffer.
    #[test]
    fn the_last_record_of_a_transaction_decides_after_a_rotation() {
        for removes_last in [true, false] {
            for commits in [true, false] {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("store");
                let store = with_an_exemption(&path, true);
                let other = options().open(&path).unwrap();
                assert_eq!(insert(&other, EXEMPT), Verdict::New);
                assert!(remove(&other, KEY));
                if !removes_last {
                    assert_eq!(insert(&other, EXEMPT), Verdict::New);
                }
                let found = |store: &Store| [KEY, EXEMPT].map(|hash| contains(store, hash));
                for rotates in [false, true] {
                    if rotates {
                        store.checkpoint().unwrap();
                    }
                    assert_eq!(found(&other), [!removes_last; 2], "{rotates}");
                    // The insert of another handle counts before it is committed, its remove does not.
                    assert_eq!(found(&store), [true, !removes_last], "{rotates}");
                    assert_eq!(insert(&store, KEY), Verdict::Pending);
                }
                let expected = match commits {
                    true => [!removes_last; 2],
                    false => [true, false],
                };
                if commits {
                    other.commit().unwrap();
                }
                other.close().unwrap();
                for _ in 0..2 {
                    assert_eq!(found(&store), expected);
                    store.checkpoint().unwrap();
                }
            }
        }
    }

    /// A look for an insert goes by a transaction that another handle gives up before the insert has the writer lock.
    #[test]
    fn a_remove_that_is_given_up_leaves_no_room_for_a_second_winner() {
        for (rotates, few) in [(false, true), (true, true), (false, false), (true, false)] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store");
            let store = with_an_exemption(&path, true);
            let other = options().open(&path).unwrap();
            assert!(remove(&other, KEY));
            let keys: Vec<u64> = match few {
                true => vec![KEY],
                false => (1..100).map(|n| n << 41 | KEY).chain([KEY]).collect(),
            };
            let hashes = keys
                .iter()
                .map(|bits| crate::hash::HashedKey::from_bits(*bits));
            let hashes: Vec<_> = hashes.collect();
            let mut precheck = Precheck::for_claims(&store, &hashes).unwrap();
            if rotates {
                store.checkpoint().unwrap();
            }
            other.close().unwrap();
            let mut verdicts = Vec::new();
            let range = 0..hashes.len();
            BatchError::append(
                precheck.claim(&store, &hashes, range, ClaimOptions::new()),
                &mut verdicts,
            )
            .unwrap();
            assert_eq!(verdicts.last(), Some(&Verdict::Seen), "{rotates} {few}");
        }
    }
}
