//! Inserting into and removing from a counting store. Counts change under the writer lock, in the buffer and the log.
//! Pages change only in a checkpoint.

use crate::engine::write::Writer;
use crate::engine::write::guard::WriteGuard;
use crate::engine::write::verdict::{Stop, Verdict};
use crate::engine::write::write_batch::{BatchOperation, Decision, WriteBatch};
use crate::error::{Error, Result};
use crate::filter::count::KeyCount;
use crate::memtable::Slot;
use crate::prefetch::BATCH;
use crate::prefetch::hash_source::HashSource;

/// How often to read a page again that something other than a checkpoint is writing.
const MAX_PAGE_READS: usize = 1000;

/// The operation to apply to keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Insert,
    /// Insert only absent keys.
    InsertUnique,
    Remove,
    /// Remove only keys that the buffers prove were inserted.
    RemoveProven,
}

/// The outcome for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counted {
    /// It was present before the operation.
    pub(crate) was_there: bool,
    /// The operation was carried out.
    pub(crate) done: bool,
}

impl Counted {
    /// Returns the verdict of an insert.
    pub(crate) fn verdict(self) -> Verdict {
        match self.was_there {
            true => Verdict::Seen,
            false => Verdict::New,
        }
    }
}

/// A key that is marked in the buffer, and the amount to add to its count.
struct Marked {
    hash: u64,
    slot: Slot,
    by: i64,
}

/// The keys of a batch that are counted under the writer lock.
struct CountBatch<'b> {
    operation: Operation,
    batch: &'b [u64],
    /// The outcome of each key so far.
    counted: &'b mut Vec<Counted>,
    marked: Vec<Marked>,
    /// The hashes of the marked keys, in order, one for each time a key occurs.
    hashes: Vec<u64>,
    /// The place of the first of those in the batch.
    first_marked: usize,
    net: i64,
}

impl Operation {
    fn by(self) -> i64 {
        match self {
            Operation::Insert | Operation::InsertUnique => 1,
            Operation::Remove | Operation::RemoveProven => -1,
        }
    }

    /// Returns the outcome for a key that is present `count` times.
    fn decide(self, count: u8, is_proven: bool) -> Counted {
        let was_there = count > 0;
        let done = match self {
            Operation::Insert => true,
            Operation::InsertUnique => !was_there,
            Operation::Remove => was_there,
            Operation::RemoveProven => was_there && is_proven,
        };
        Counted { was_there, done }
    }
}

impl Writer<'_> {
    /// Counts one key.
    pub(crate) fn count_single(&self, operation: Operation, hash: u64) -> Result<Counted> {
        let mut counted = Vec::with_capacity(1);
        self.count_each(operation, &vec![hash], &mut counted)?;
        // One key gives one answer.
        Ok(counted[0])
    }

    /// Counts keys in order and appends the outcome of each. On an error the outcomes are those of the keys before the
    /// one that failed, and those keys are done.
    pub(crate) fn count_each(
        &self,
        operation: Operation,
        keys: &dyn HashSource,
        out: &mut Vec<Counted>,
    ) -> Result<()> {
        self.handle.check_writable()?;
        self.expect_changes(|| keys.count());
        let mut hashes = [0; BATCH];
        for at in (0..keys.count()).step_by(BATCH) {
            let batch = &mut hashes[..BATCH.min(keys.count() - at)];
            keys.hashes_from(at, batch);
            let first = out.len();
            let counted = match self.counted_already(operation, batch)? {
                Some(counted) => {
                    out.extend(counted);
                    Ok(())
                }
                None => self.lock()?.count(operation, batch, out),
            };
            if let Err(stop) = counted {
                out.truncate(first + stop.done);
                return Err(*stop.error);
            }
            assert_eq!(out.len(), first + batch.len(), "one for each key");
        }
        Ok(())
    }

    /// Like `count_each`, but appends the verdicts of inserts.
    pub(crate) fn count_verdicts(
        &self,
        operation: Operation,
        keys: &dyn HashSource,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<()> {
        let mut counted = Vec::with_capacity(keys.count());
        let outcome = self.count_each(operation, keys, &mut counted);
        verdicts.extend(counted.into_iter().map(Counted::verdict));
        outcome
    }

    /// Returns the answers of a batch if none of its keys needs counting, as far as a look-up without the writer lock
    /// can tell. Otherwise the look-up has prefetched what counting them touches.
    fn counted_already(&self, operation: Operation, batch: &[u64]) -> Result<Option<Vec<Counted>>> {
        let mut counted = Vec::with_capacity(batch.len());
        let mut is_idle = true;
        let reported = self.reader().count_batch(batch, |_, reported| {
            let one = operation.decide(reported.count(), reported.buffered > 0);
            is_idle &= !one.done;
            counted.push(one);
        })?;
        Ok(reported.filter(|()| is_idle).map(|()| counted))
    }
}

impl BatchOperation for CountBatch<'_> {
    fn turns(&self) -> usize {
        self.batch.len()
    }

    fn place(&self, turn: usize) -> usize {
        turn
    }

    /// Decides on one key, taking into account the keys of the batch that are not written yet.
    fn decide(&mut self, guard: &mut WriteGuard<'_>, turn: usize) -> Result<Decision> {
        let hash = self.batch[turn];
        let reported = guard.count_of(hash)?;
        let own = self.marked_of(hash).map_or(0, |marked| marked.by);
        let count = reported.count_with(own);
        let counted = self.operation.decide(count, reported.buffered + own > 0);
        if !counted.done {
            self.counted.push(counted);
            return Ok(Decision::Unchanged);
        }
        let by = self.operation.by();
        if by > 0 && guard.is_full_with(self.net) {
            return Err(guard.full());
        }
        match self.marked_of(hash) {
            Some(marked) => marked.by += by,
            None => {
                let Some(slot) = guard.view.active.buffer.mark(hash) else {
                    return Ok(Decision::NoRoom);
                };
                self.marked.push(Marked { hash, slot, by });
            }
        }
        if self.hashes.is_empty() {
            self.first_marked = turn;
        }
        self.hashes.push(hash);
        self.net += by;
        self.counted.push(counted);
        Ok(Decision::Reserved)
    }

    fn first_reserved(&self) -> Option<usize> {
        (!self.hashes.is_empty()).then_some(self.first_marked)
    }

    fn append(&mut self, guard: &mut WriteGuard<'_>) -> Result<()> {
        guard.announce()?;
        // What the log says of the batch is what the buffer will.
        let logged = self.operation.by() * self.hashes.len() as i64;
        assert_eq!(logged, self.net);
        let (is_insert, hashes) = (self.operation.by() > 0, &self.hashes);
        guard.append(|log, handle| match is_insert {
            true => log.insert(handle, hashes),
            false => log.remove(handle, hashes),
        })
    }

    fn publish(&mut self, guard: &WriteGuard<'_>) {
        let buffer = &guard.view.active.buffer;
        let all: i64 = self.marked.iter().map(|marked| marked.by).sum();
        assert_eq!(all, self.net, "a key is counted for another");
        for marked in &self.marked {
            buffer.count(marked.slot, marked.by);
        }
        buffer.set_net_keys(buffer.net_keys().saturating_add(self.net));
        self.clear();
    }

    fn abandon(&mut self, guard: &WriteGuard<'_>) {
        for marked in &self.marked {
            guard.view.active.buffer.unmark(marked.slot);
        }
        self.clear();
    }

    fn resume(&mut self, _guard: &WriteGuard<'_>, _state: u16, _turn: usize) {}
}

impl<'b> CountBatch<'b> {
    fn new(operation: Operation, batch: &'b [u64], counted: &'b mut Vec<Counted>) -> Self {
        Self {
            operation,
            batch,
            counted,
            marked: Vec::new(),
            hashes: Vec::new(),
            first_marked: 0,
            net: 0,
        }
    }

    fn marked_of(&mut self, hash: u64) -> Option<&mut Marked> {
        self.marked.iter_mut().rev().find(|one| one.hash == hash)
    }

    fn clear(&mut self) {
        self.marked.clear();
        self.hashes.clear();
        self.net = 0;
    }
}

impl WriteGuard<'_> {
    /// Counts the keys of a batch in order and appends the outcome of each.
    fn count(
        &mut self,
        operation: Operation,
        batch: &[u64],
        counted: &mut Vec<Counted>,
    ) -> Result<(), Stop> {
        if self.log_is_long() {
            self.rotate().map_err(Stop::at(0))?;
        }
        self.begin_claims().map_err(Stop::at(0))?;
        let operation = CountBatch::new(operation, batch, counted);
        WriteBatch {
            guard: self,
            operation,
        }
        .run()
    }

    /// Returns how often a key is present. Waits for a checkpoint that is writing its page, or completes one that died
    /// there.
    fn count_of(&mut self, hash: u64) -> Result<KeyCount> {
        for _ in 0..MAX_PAGE_READS {
            let reported = self.writer.reader().count_by(&self.view, hash)?;
            if !reported.at_least {
                return Ok(reported);
            }
            self.finish_checkpoints()?;
        }
        // A repair died while it was writing the page.
        Err(Error::Busy {
            path: self.writer.file.place.to_path_buf(),
            what: "a page that is being written",
            process: None,
        })
    }

    fn is_full_with(&self, more: i64) -> bool {
        let keys = self.view.net_keys();
        keys.saturating_add_signed(more) >= self.writer.file.key_limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::read::Reader;
    use crate::testing::Options;
    use crate::{Kind, Store};

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().kind(Kind::Counting).capacity(1000).fpr(1e-9);
        let store = options.create(folder.path().join("store")).unwrap();
        (folder, store)
    }

    /// Does what a batch does, up to a point where a holder of the writer lock may die: with or without the record in
    /// the log, and with `counted` of its keys counted.
    fn die(store: &Store, operation: Operation, hashes: &[u64], logged: bool, counted: usize) {
        let writer = Writer::of(&store.engine);
        let mut writing = writer.lock().unwrap();
        writing.begin_claims().unwrap();
        let done = &mut Vec::new();
        let mut batch = CountBatch::new(operation, hashes, done);
        for turn in 0..hashes.len() {
            let decided = batch.decide(&mut writing, turn).unwrap();
            assert!(matches!(decided, Decision::Reserved));
        }
        if logged {
            batch.append(&mut writing).unwrap();
        }
        let buffer = &writing.view.active.buffer;
        for marked in batch.marked.iter().take(counted) {
            buffer.count(marked.slot, marked.by);
        }
        writing.sound = false;
    }

    #[test]
    fn who_goes_on_after_a_death_counts_what_is_in_the_log_once_and_the_rest_never() {
        let hashes = [1 << 60, 2 << 60, 1 << 60, 3 << 60, 1 << 60];
        for logged in [false, true] {
            for counted in 0..=if logged { 3 } else { 0 } {
                let (_folder, store) = store();
                let count = |hash| Reader::of(&store.engine).count_of(hash).unwrap();
                for _ in 0..5 {
                    let keys = hashes.to_vec();
                    let inserted = &mut Vec::new();
                    Writer::of(&store.engine)
                        .count_each(Operation::Insert, &keys, inserted)
                        .unwrap();
                }
                let before = hashes.map(count);
                assert_eq!(before, [15, 5, 15, 5, 15]);
                die(&store, Operation::Remove, &hashes, logged, counted);
                // The next holder of the lock inserts another key.
                assert!(store.insert(b"next").unwrap());
                let removed = u8::from(logged);
                let after = [3, 1, 3, 1, 3].map(|times: u8| 5 * times - times * removed);
                assert_eq!(hashes.map(count), after, "{logged}, {counted}");
                assert_eq!(store.stats().unwrap().keys, 26 - 5 * u64::from(removed));
                die(&store, Operation::Insert, &hashes[1..2], logged, 0);
                assert!(!store.insert(b"next").unwrap());
                assert_eq!(count(hashes[1]), after[1] + removed);
                store.close().unwrap();
            }
        }
    }
}
