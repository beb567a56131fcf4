//! Inserting into a counting store, and removing: everything is counted under the writer lock, in the
//! buffer and the log. Pages change only in a checkpoint.

use std::sync::Arc;

use crate::buffer::Slot;
use crate::error::{Error, Result};
use crate::page::counting::after;
use crate::store::api::store::Verdict;
use crate::store::checkpoint::run::Checkpointer;
use crate::store::engine::Engine;
use crate::store::prefetch::BATCH;
use crate::store::prefetch::hash_source::HashSource;
use crate::store::read::Reader;
use crate::store::read::count::KeyCount;
use crate::store::write::guard::Writing;

/// How often a page that is being written is looked at again, where it is not a checkpoint that writes it.
const ROUNDS: usize = 1000;

/// What is to be done with keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Insert,
    /// Insert what is absent.
    InsertUnique,
    Remove,
    /// Remove what the buffers know to have been inserted.
    RemoveProven,
}

/// What became of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counted {
    /// It was there before.
    pub(crate) was_there: bool,
    /// It was inserted, or removed.
    pub(crate) done: bool,
}

impl Counted {
    /// What an insert answers.
    pub(crate) fn verdict(self) -> Verdict {
        match self.was_there {
            true => Verdict::Seen,
            false => Verdict::New,
        }
    }
}

/// A key that is marked in the buffer, and what is to be added to its number.
struct Marked {
    hash: u64,
    slot: Slot,
    by: i64,
}

/// What a batch has decided and not written yet.
#[derive(Default)]
struct Undone {
    marked: Vec<Marked>,
    /// As they come into the log.
    hashes: Vec<u64>,
    net: i64,
}

impl Undone {
    fn of(&mut self, hash: u64) -> Option<&mut Marked> {
        self.marked.iter_mut().rev().find(|one| one.hash == hash)
    }

    fn clear(&mut self) {
        self.marked.clear();
        self.hashes.clear();
        self.net = 0;
    }
}

impl Operation {
    fn by(self) -> i64 {
        match self {
            Operation::Insert | Operation::InsertUnique => 1,
            Operation::Remove | Operation::RemoveProven => -1,
        }
    }

    /// What is to become of a key that is there so often.
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

impl Engine {
    /// Counts one key.
    pub(crate) fn count_single(&self, operation: Operation, hash: u64) -> Result<Counted> {
        let mut counted = Vec::with_capacity(1);
        self.count_each(operation, &vec![hash], &mut counted)?;
        // One key, one answer.
        Ok(counted[0])
    }

    /// Counts keys in their order, and appends what became of each. On an error that is of the keys
    /// before the one that failed, which are done.
    pub(crate) fn count_each(
        &self,
        operation: Operation,
        keys: &dyn HashSource,
        out: &mut Vec<Counted>,
    ) -> Result<()> {
        self.handle.check_writable()?;
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
                None => self.lock_writer()?.count_batch(operation, batch, out),
            };
            if let Err((done, error)) = counted {
                out.truncate(first + done);
                return Err(*error);
            }
        }
        Ok(())
    }

    /// The same with the verdicts of inserts.
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

    /// The answers of a batch of which nothing is to be counted, as can be told without the writer
    /// lock. Brings what it looks at into memory, for who takes the lock after.
    fn counted_already(&self, operation: Operation, batch: &[u64]) -> Result<Option<Vec<Counted>>> {
        let mut counted = Vec::with_capacity(batch.len());
        let mut is_idle = true;
        let told = Reader::of(self).count_batch(batch, |_, told| {
            let one = operation.decide(told.count(), told.buffered > 0);
            is_idle &= !one.done;
            counted.push(one);
        })?;
        Ok(told.filter(|()| is_idle).map(|()| counted))
    }
}

impl Writing<'_> {
    /// Counts the keys of a batch in their order. On an error tells of how many there are answers:
    /// those are done.
    fn count_batch(
        &mut self,
        operation: Operation,
        batch: &[u64],
        out: &mut Vec<Counted>,
    ) -> Result<(), (usize, Box<Error>)> {
        let first = out.len();
        let mut undone = Undone::default();
        // The keys before this one are done.
        let mut written = 0;
        let mut rotated = false;
        let begun = match self.log_is_long() {
            true => self.rotate(),
            false => Ok(()),
        };
        begun
            .and_then(|()| self.begin_claims().map(drop))
            .map_err(|error| (0, Box::new(error)))?;
        let mut place = 0;
        let outcome = loop {
            let Some(hash) = batch.get(place).copied() else {
                break Ok(());
            };
            match self.count_one(operation, hash, &mut undone) {
                Ok(Some(counted)) => {
                    out.push(counted);
                    place += 1;
                    rotated &= undone.hashes.is_empty();
                }
                Ok(None) => {
                    let ended = self.write_undone(operation, &mut undone).and_then(|()| {
                        written = place;
                        match rotated {
                            // Even an empty buffer has no room: others of its hash crowd it.
                            true => Err(Error::TransactionTooLarge { quota: 0 }),
                            false => self.rotate(),
                        }
                    });
                    if let Err(error) = ended.and_then(|()| self.begin_claims().map(drop)) {
                        break Err(error);
                    }
                    rotated = true;
                }
                Err(error) => break Err(error),
            }
        };
        let ended = self.write_undone(operation, &mut undone);
        if ended.is_ok() {
            written = place;
        }
        out.truncate(first + written);
        outcome
            .and(ended)
            .map_err(|error| (written, Box::new(error)))
    }

    /// Decides on one key, after those of the batch that are not written yet; `None` if the buffer has
    /// no room for it.
    fn count_one(
        &mut self,
        operation: Operation,
        hash: u64,
        undone: &mut Undone,
    ) -> Result<Option<Counted>> {
        let told = self.tell(hash)?;
        let own = undone.of(hash).map_or(0, |marked| marked.by);
        let count = after(told.settled, told.active + own);
        let counted = operation.decide(count, told.buffered + own > 0);
        if !counted.done {
            return Ok(Some(counted));
        }
        let by = operation.by();
        if by > 0 && self.is_full_with(undone.net) {
            return Err(Error::Full {
                capacity: self.engine.file.key_limit,
            });
        }
        match undone.of(hash) {
            Some(marked) => marked.by += by,
            None => {
                let Some(slot) = self.view.active.buffer.mark(hash) else {
                    return Ok(None);
                };
                undone.marked.push(Marked { hash, slot, by });
            }
        }
        undone.hashes.push(hash);
        undone.net += by;
        Ok(Some(counted))
    }

    /// How often a key is there. Waits for a checkpoint that is at its page, or goes on with one that
    /// died there.
    fn tell(&mut self, hash: u64) -> Result<KeyCount> {
        for _ in 0..ROUNDS {
            let told = Reader::of(self.engine).count_by(&self.view, hash)?;
            if !told.at_least {
                return Ok(told);
            }
            Checkpointer::of(self.engine).settle_all(self.engine.options.timeout)?;
            self.refresh()?;
        }
        // Who was repairing the page has died at it.
        Err(Error::Busy {
            path: self.engine.file.place.to_path_buf(),
            what: "a page that is being written",
            process: None,
        })
    }

    fn is_full_with(&self, more: i64) -> bool {
        let keys = self.view.net_keys();
        keys.saturating_add_signed(more) >= self.engine.file.key_limit
    }

    /// Puts what was decided into the log, and then shows it to readers.
    fn write_undone(&mut self, operation: Operation, undone: &mut Undone) -> Result<()> {
        let active = Arc::clone(&self.view.active);
        let buffer = &active.buffer;
        let logged = match undone.hashes.is_empty() {
            true => Ok(()),
            false => self.append_operations(operation, &undone.hashes),
        };
        if let Err(error) = logged {
            // A handle that can't go on leaves the marks to the next holder of the lock, who sees whether
            // the record came to be in the log.
            if !self.engine.handle.is_poisoned() {
                for marked in &undone.marked {
                    buffer.unmark(marked.slot);
                }
            }
            undone.clear();
            return Err(error);
        }
        for marked in &undone.marked {
            buffer.count(marked.slot, marked.by);
        }
        buffer.set_net_keys(buffer.net_keys().saturating_add(undone.net));
        self.set_applied();
        undone.clear();
        Ok(())
    }

    fn append_operations(&mut self, operation: Operation, hashes: &[u64]) -> Result<()> {
        self.announce()?;
        self.append(|log, handle| match operation.by() > 0 {
            true => log.insert(handle, hashes),
            false => log.remove(handle, hashes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Options, Store};

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().kind(Kind::Counting).capacity(1000).fpr(1e-9);
        let store = options.create(folder.path().join("store")).unwrap();
        (folder, store)
    }

    /// Does what a batch does, up to where a holder of the writer lock may die: with the record in the
    /// log or not, and so many of its keys counted.
    fn die(store: &Store, operation: Operation, hashes: &[u64], logged: bool, counted: usize) {
        let mut writing = store.engine.lock_writer().unwrap();
        writing.begin_claims().unwrap();
        let mut undone = Undone::default();
        for hash in hashes {
            let done = writing.count_one(operation, *hash, &mut undone).unwrap();
            assert!(done.unwrap().done);
        }
        if logged {
            writing
                .append_operations(operation, &undone.hashes)
                .unwrap();
        }
        let buffer = &writing.view.active.buffer;
        for marked in undone.marked.iter().take(counted) {
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
                    let engine = &store.engine;
                    engine
                        .count_each(Operation::Insert, &keys, inserted)
                        .unwrap();
                }
                let before = hashes.map(count);
                assert_eq!(before, [15, 5, 15, 5, 15]);
                die(&store, Operation::Remove, &hashes, logged, counted);
                // Another key, by whoever comes next.
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
