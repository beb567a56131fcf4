//! A batch under the writer lock: decides on each key and reserves its slot, appends all to the log, publishes.

use crate::engine::write::guard::WriteGuard;
use crate::engine::write::verdict::Stop;
use crate::error::{Error, Result};
use crate::memtable::COMMITTED;
use crate::shm::store_clock::LogFor;

/// What a batch does to its keys. A turn is one key, in the order in which they are decided.
pub(crate) trait BatchOperation {
    fn turns(&self) -> usize;

    /// Returns how many keys of the caller's batch are done once all turns before this one are.
    fn place(&self, turn: usize) -> usize;

    /// Decides on a key, and reserves a slot of the active buffer if the key is to change.
    fn decide(&mut self, guard: &mut WriteGuard<'_>, turn: usize) -> Result<Decision>;

    /// Returns the place of the first key whose slot is reserved.
    fn first_reserved(&self) -> Option<usize>;

    /// Appends the changes of the reserved keys to the log.
    fn append(&mut self, guard: &mut WriteGuard<'_>) -> Result<()>;

    /// Shows the changes to readers, and clears the reservations.
    fn publish(&mut self, guard: &WriteGuard<'_>);

    /// Gives up the reserved slots.
    fn abandon(&mut self, guard: &WriteGuard<'_>);

    /// Continues at a turn, in a new active buffer. `state` is the state of keys claimed there.
    fn resume(&mut self, guard: &WriteGuard<'_>, state: u16, turn: usize);
}

/// The decision on a key.
pub(crate) enum Decision {
    /// The key does not change.
    Unchanged,
    /// The key's slot is reserved.
    Reserved,
    /// The active buffer can't take the key.
    NoRoom,
    /// The key does not change, and the keys after it are left alone.
    Last,
}

/// A batch, and the lock under which it is written.
pub(crate) struct WriteBatch<'g, 'a, O> {
    pub(crate) guard: &'g mut WriteGuard<'a>,
    pub(crate) operation: O,
}

impl<O: BatchOperation> WriteBatch<'_, '_, O> {
    /// Decides on all keys and writes the changes. If the active buffer has no room, writes what is reserved, rotates,
    /// and continues.
    #[inline]
    pub(crate) fn run(&mut self) -> Result<(), Stop> {
        let mut rotated = false;
        let mut turn = 0;
        let outcome = loop {
            if turn == self.operation.turns() {
                break Ok(());
            }
            match self.operation.decide(self.guard, turn) {
                Ok(Decision::Unchanged) => {}
                Ok(Decision::Reserved) => rotated = false,
                Ok(Decision::Last) => break Ok(()),
                Ok(Decision::NoRoom) => {
                    self.flush()?;
                    if let Err(error) = self.make_room(rotated, turn) {
                        break Err(Stop::at(self.operation.place(turn))(error));
                    }
                    rotated = true;
                    continue;
                }
                Err(error) => break Err(Stop::at(self.operation.place(turn))(error)),
            }
            turn += 1;
        };
        self.flush()?;
        outcome
    }

    /// Rotates, unless the last rotation made no room.
    #[cold]
    fn make_room(&mut self, rotated: bool, turn: usize) -> Result<()> {
        if rotated {
            // Even a fresh buffer has no room: uncommitted keys fill it, or keys with one hash do.
            let quota = self.guard.slot().uncommitted();
            return Err(Error::TransactionTooLarge { quota });
        }
        self.guard.rotate()?;
        let state = self.guard.begin_claims()?;
        self.operation.resume(self.guard, state, turn);
        Ok(())
    }

    /// Appends the reserved keys to the log, then shows them to readers. Only then are they done.
    #[inline]
    fn flush(&mut self) -> Result<(), Stop> {
        let Some(first) = self.operation.first_reserved() else {
            return Ok(());
        };
        if let Err(error) = self.operation.append(self.guard) {
            // After a failed write the log may still hold the keys. The next holder of the lock then decides, as after
            // a death.
            if !self.guard.writer.handle.is_poisoned() {
                self.operation.abandon(self.guard);
            }
            return Err(Stop::at(first)(error));
        }
        self.operation.publish(self.guard);
        // What is still reserved would go into the next record again.
        assert!(self.operation.first_reserved().is_none());
        self.guard.set_applied();
        Ok(())
    }
}

impl WriteGuard<'_> {
    /// Makes sure that there is a log and, in a transactional store, a transaction. Returns the state of keys that are
    /// claimed.
    pub(crate) fn begin_claims(&mut self) -> Result<u16> {
        if !self.view.active.has_log() {
            self.start_log(LogFor::Keys)?;
        }
        if self.is_step_over() {
            self.rotate()?;
        }
        if !self.writer.file.header.transactional {
            return Ok(COMMITTED);
        }
        let slot = self.slot();
        if slot.transaction() == 0 {
            let active = &self.view.active.buffer;
            let begun = active.begin_transaction(self.writer.handle.number);
            // There are as many states as there can be open handles, so most of these are over.
            let state = begun.ok_or(Error::TransactionTooLarge { quota: 0 })?;
            slot.set_transaction(state, active.tail().end);
        }
        self.check_transaction(slot.transaction())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::write::Writer;
    use crate::testing::Options;

    /// Two keys are reserved, the next finds no room, and the log can't take their record.
    #[derive(Default)]
    struct Failing {
        reserved: Vec<usize>,
        abandoned: bool,
    }

    impl BatchOperation for Failing {
        fn turns(&self) -> usize {
            4
        }

        fn place(&self, turn: usize) -> usize {
            10 * turn
        }

        fn decide(&mut self, _guard: &mut WriteGuard<'_>, turn: usize) -> Result<Decision> {
            match turn {
                0 => Ok(Decision::Unchanged),
                3 => Ok(Decision::NoRoom),
                _ => {
                    self.reserved.push(turn);
                    Ok(Decision::Reserved)
                }
            }
        }

        fn first_reserved(&self) -> Option<usize> {
            self.reserved.first().map(|turn| self.place(*turn))
        }

        fn append(&mut self, _guard: &mut WriteGuard<'_>) -> Result<()> {
            Err(Error::TransactionTooLarge { quota: 7 })
        }

        fn publish(&mut self, _guard: &WriteGuard<'_>) {
            unreachable!("it is not in the log");
        }

        fn abandon(&mut self, _guard: &WriteGuard<'_>) {
            self.abandoned = true;
            self.reserved.clear();
        }

        fn resume(&mut self, _guard: &WriteGuard<'_>, _state: u16, _turn: usize) {
            unreachable!("the keys before are not written");
        }
    }

    #[test]
    fn keys_whose_record_could_not_be_written_before_a_rotation_are_not_done() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().capacity(1000);
        let store = options.create(folder.path().join("store")).unwrap();
        let writer = Writer::of(&store.engine);
        let mut guard = writer.lock().unwrap();
        let mut batch = WriteBatch {
            guard: &mut guard,
            operation: Failing::default(),
        };
        let Err(stop) = batch.run() else {
            panic!("it ran");
        };
        assert_eq!(stop.done, 10);
        assert!(matches!(
            *stop.error,
            Error::TransactionTooLarge { quota: 7 }
        ));
        assert!(batch.operation.abandoned);
    }
}
