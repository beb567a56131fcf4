//! The writer lock: taking it, what its holder may do with the active log, and releasing it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use arc_swap::Guard;

use crate::engine::view::View;
use crate::engine::write::Writer;
use crate::engine::writer_state::Local;
use crate::error::{Error, Result};
use crate::memtable::ShmCorruption;
use crate::shm::coordination::{DAMAGED, GAVE_UP};
use crate::shm::handle_slot::HandleSlot;
use crate::shm::store_clock::LogFor;
use crate::shm::writer_lock::{Ownership, Refusal, WriterLock};
use crate::sys::lock;
use crate::wal::LogWriter;

/// The held writer lock. It has one holder across all threads and processes.
pub(crate) struct WriteGuard<'a> {
    pub(crate) writer: &'a Writer<'a>,
    pub(crate) local: MutexGuard<'a, Local>,
    /// Stays current while the lock is held, except that a checkpoint may finish.
    pub(crate) view: Guard<Arc<View>>,
    /// `None` if the handle is exclusive.
    exclusion: Option<Exclusion<'a>>,
    /// Nothing is left half done. If this is false, the next holder takes over as after a death.
    pub(crate) sound: bool,
}

/// The lock that excludes other writers, held.
struct Exclusion<'a> {
    lock: WriterLock<'a>,
    owned: Ownership,
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        let (shared, handle) = (self.writer.shared, self.writer.handle);
        // In a child that was forked under the lock, it is the parent's. A lock that was lost is another's.
        if !handle.is_own() || self.expect_lock().is_err() {
            return;
        }
        // A handle that can't go on leaves its work as if it had died, and the next holder takes over.
        if self.sound && !handle.is_poisoned() && !std::thread::panicking() && self.leave_sum() {
            shared.set_changing(0);
        } else if shared.changing() == handle.number {
            shared.set_changing(handle.number | GAVE_UP);
        }
        if let Some(Exclusion { lock, owned }) = &self.exclusion {
            self.local.released = owned.after();
            if let Err(wrong) = lock.release(*owned) {
                handle.poison_shared(wrong);
            }
        }
    }
}

impl<'a> Writer<'a> {
    /// Takes the writer lock.
    #[inline]
    pub(crate) fn lock(&'a self) -> Result<WriteGuard<'a>> {
        let local = self.state.waits.mutex(&self.state.local);
        self.handle.check_usable()?;
        if local.closed || local.closing {
            return Err(Error::Closed);
        }
        self.lock_with(local)
    }

    /// Takes the writer lock to close the handle, even if an earlier close failed.
    pub(crate) fn lock_to_close(&'a self) -> Result<WriteGuard<'a>> {
        self.lock_with(lock(&self.state.local))
    }

    #[inline]
    fn lock_with(&'a self, local: MutexGuard<'a, Local>) -> Result<WriteGuard<'a>> {
        let exclusion = match self.state.is_shared {
            true => Some(self.exclude_writers(&local)?),
            false => None,
        };
        self.state.waits.count();
        let died = self.shared.changing();
        let is_damaged = self.shared.poisoned() == DAMAGED;
        let mut guard = WriteGuard {
            writer: self,
            local,
            view: self.views.cell.load(),
            exclusion,
            sound: false,
        };
        if is_damaged {
            self.handle.check_usable()?;
        }
        if died != 0 {
            self.expect_gone(died)?;
            let taken_over = self.take_over();
            self.handle.poison_on_failure(taken_over)?;
        }
        guard.refresh()?;
        if died != 0 {
            guard.view.leave_sum(self.shared);
        }
        guard.check_memory()?;
        guard.sound = true;
        assert_eq!(self.state.is_shared, guard.exclusion.is_some());
        // 0 says that no handle is changing anything.
        assert_ne!(self.handle.number, 0);
        assert_eq!(self.handle.number & GAVE_UP, 0);
        self.shared.set_changing(self.handle.number);
        Ok(guard)
    }

    /// Refuses to take over from a handle that lives and has not given up. Memory that was damaged has then let two
    /// handles have the lock at a time.
    #[cold]
    fn expect_gone(&self, changing: u64) -> Result<()> {
        if changing & GAVE_UP != 0 {
            return Ok(());
        }
        let is_own = changing == self.handle.number;
        if is_own || self.handle.locks.is_alive(self.shared, changing)? {
            return Err(self.handle.poison_shared(ShmCorruption {
                word: "changing",
                expected: "no handle that lives".to_owned(),
                got: changing,
            }));
        }
        Ok(())
    }

    /// Returns whether no other handle has written since this one last did.
    pub(crate) fn is_sole_writer(&self) -> bool {
        !self.state.has_company.load(Ordering::Relaxed)
    }

    #[inline]
    fn exclude_writers(&self, local: &Local) -> Result<Exclusion<'a>> {
        if !self.handle.is_own() {
            return Err(Error::Forked);
        }
        let lock = self.shared.writer_lock();
        let owned = match lock.try_take(self.handle.slot) {
            Some(owned) => owned,
            None => self.state.waits.wait(|| self.wait_for(lock))?,
        };
        let has_company = owned.before() != local.released;
        self.state.has_company.store(has_company, Ordering::Relaxed);
        Ok(Exclusion { lock, owned })
    }

    #[cold]
    fn wait_for(&self, lock: WriterLock<'_>) -> Result<Ownership> {
        let taken = lock.take(self.handle.slot, self.options.timeout, |owner| {
            // After damage, the owner may be unable to release the lock.
            if self.shared.poisoned() == DAMAGED {
                self.handle.check_usable()?;
            }
            self.handle.locks.is_slot_alive(owner)
        });
        taken.map_err(|refusal| match refusal {
            Refusal::Busy(owner) => self.busy(owner),
            Refusal::ShmCorruption(wrong) => self.handle.poison_shared(wrong),
            Refusal::Unknown(error) => error,
        })
    }

    fn busy(&self, owner: Option<usize>) -> Error {
        Error::Busy {
            path: self.file.place.to_path_buf(),
            what: "the writer lock",
            process: owner.map(|slot| self.shared.slot(slot).process()),
        }
    }
}

impl<'a> WriteGuard<'a> {
    /// Makes the view current. Other writers are excluded, so only checkpoints can change it meanwhile.
    pub(crate) fn refresh(&mut self) -> Result<()> {
        let views = self.writer.views;
        if !self.view.is_current(self.writer.shared) {
            views.renew()?;
            self.view = views.cell.load();
        }
        Ok(())
    }

    /// Returns this handle's slot in the shared memory.
    pub(crate) fn slot(&self) -> HandleSlot<'a> {
        self.writer.shared.slot(self.writer.handle.slot)
    }

    /// Announces this handle in the active log, if it has not done so yet.
    pub(crate) fn announce(&mut self) -> Result<()> {
        if self.local.announced == self.view.active.number() {
            return Ok(());
        }
        self.append(|log, handle| log.open(handle))?;
        self.set_applied();
        self.local.announced = self.view.active.number();
        Ok(())
    }

    /// Records that the buffer holds everything in the log.
    pub(crate) fn set_applied(&self) {
        self.view.active.buffer.set_applied(self.local.end.end);
    }

    /// Checks that memory still shows this handle as the owner of the lock, before it writes to a log: another owner
    /// could write to the same place.
    #[inline]
    pub(crate) fn expect_lock(&self) -> Result<()> {
        let Some(Exclusion { lock, owned }) = &self.exclusion else {
            return Ok(());
        };
        let checked = lock.check(*owned);
        checked.map_err(|wrong| self.writer.handle.poison_shared(wrong))
    }

    /// Appends to the active log in this handle's name.
    #[inline]
    pub(crate) fn append(
        &mut self,
        write: impl FnOnce(&mut LogWriter<'_>, u64) -> Result<()>,
    ) -> Result<()> {
        let (logs, handle) = (self.writer.logs, self.writer.handle);
        self.expect_lock()?;
        let active = &self.view.active;
        let log = logs.of(active)?;
        let Local { end, scratch, .. } = &mut *self.local;
        let outcome = active.append(log, end, scratch, |log| write(log, handle.number));
        handle.poison_on_failure(outcome)
    }

    /// Appends a record that holds no key, and creates a log if there is none.
    pub(crate) fn append_noted(
        &mut self,
        write: impl FnOnce(&mut LogWriter<'_>, u64) -> Result<()>,
    ) -> Result<()> {
        if !self.view.active.has_log() {
            self.start_log(LogFor::Notes)?;
        }
        self.announce()?;
        self.append(write)?;
        self.set_applied();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use tempfile::TempDir;

    use super::*;
    use crate::Store;
    use crate::memtable::Claim;
    use crate::testing::Options;

    const PATIENCE: Duration = Duration::from_millis(30);

    /// Two handles, as two processes have them. The first has written.
    fn two() -> (TempDir, PathBuf, [Store; 2]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let options = Options::new().capacity(1000).timeout(PATIENCE);
        let stores = [(); 2].map(|()| options.open_or_create(&path).unwrap());
        stores[0].insert(b"key").unwrap();
        (folder, path, stores)
    }

    fn writer(store: &Store) -> Writer<'_> {
        Writer::of(&store.engine)
    }

    fn wrong_word<T: std::fmt::Debug>(outcome: Result<T>) -> &'static str {
        let Err(Error::Poisoned { cause }) = outcome else {
            panic!("{outcome:?}");
        };
        match &*cause {
            Error::SharedMemory { word, .. } => word,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_owner_that_lives_is_not_robbed() {
        let (_folder, _path, [one, other]) = two();
        let writer = writer(&one);
        let guard = writer.lock().unwrap();
        let process = Some(u64::from(std::process::id()));
        let refused = other.insert(b"another key").unwrap_err();
        assert!(
            matches!(refused, Error::Busy { what: "the writer lock", process: named, .. } if named == process)
        );
        drop(guard);
        assert!(other.insert(b"another key").unwrap());
    }

    /// What a handle that dies has written to the log, and not shown yet.
    const HALF_DONE: u64 = 7 << 40;

    /// As if its process had been killed.
    fn die(store: Store) {
        let writer = writer(&store);
        let mut guard = writer.lock().unwrap();
        let hash = store.engine.hasher.mix(HALF_DONE);
        let claim = guard.view.active.buffer.claim(hash);
        assert!(matches!(claim, Claim::Claimed(_)));
        let appended = guard.append(|log, handle| log.insert(handle, &[hash]));
        appended.unwrap();
        std::mem::forget(guard);
        drop(lock(&store.engine.handle.held).take());
        // Closing it would wait for the guard.
        std::mem::forget(store);
    }

    #[test]
    fn a_dead_owner_is_robbed_and_its_work_mended() {
        let (_folder, path, [one, other]) = two();
        die(one);
        assert!(!other.contains(HALF_DONE).unwrap());
        let third = Options::new().open(&path).unwrap();
        assert!(!other.insert(HALF_DONE).unwrap());
        assert!(other.insert(b"another key").unwrap());
        assert!(!third.insert(b"another key").unwrap());
        assert_eq!(other.stats().unwrap().keys, 3);
    }

    /// It died when it had given its slot up, on its way out.
    #[test]
    fn the_slot_that_a_dead_owner_has_left_is_not_taken() {
        let (_folder, path, [one, other]) = two();
        let slot = one.engine.handle.slot;
        die(one);
        other.engine.shared.slot(slot).set_handle(0);
        let third = Options::new().open(&path).unwrap();
        assert_ne!(third.engine.handle.slot, slot);
        assert!(third.insert(b"another key").unwrap());
        assert!(!other.insert(b"another key").unwrap());
        // Now it is free.
        let fourth = Options::new().open(&path).unwrap();
        assert_eq!(fourth.engine.handle.slot, slot);
    }

    /// Damaged memory says that the lock is free.
    fn lose_the_lock(guard: &WriteGuard<'_>) {
        let Exclusion { lock, owned } = guard.exclusion.as_ref().unwrap();
        lock.release(*owned).unwrap();
    }

    #[test]
    fn who_has_lost_the_lock_does_not_write() {
        let (_folder, _path, [one, other]) = two();
        let writer = writer(&one);
        let mut guard = writer.lock().unwrap();
        lose_the_lock(&guard);
        let end = guard.local.end.end;
        let appended = guard.append(|log, handle| log.insert(handle, &[7]));
        assert_eq!(wrong_word(appended), "writer lock");
        assert_eq!(guard.local.end.end, end);
        drop(guard);
        assert_eq!(wrong_word(other.insert(b"another key")), "poisoned");
    }

    #[test]
    fn who_finds_the_last_owner_alive_does_not_write() {
        let (_folder, _path, [one, other]) = two();
        let writer = writer(&one);
        let guard = writer.lock().unwrap();
        lose_the_lock(&guard);
        assert_eq!(wrong_word(other.insert(b"another key")), "changing");
        drop(guard);
        assert_eq!(wrong_word(one.insert(b"another key")), "writer lock");
    }

    /// Its failure is not taken for damage.
    #[test]
    fn a_handle_that_gives_up_leaves_its_work_to_others() {
        let (_folder, _path, [one, other]) = two();
        let writer = writer(&one);
        let mut guard = writer.lock().unwrap();
        guard.sound = false;
        drop(guard);
        assert_eq!(other.engine.shared.changing() & GAVE_UP, GAVE_UP);
        assert!(other.insert(b"another key").unwrap());
        assert_eq!(other.engine.shared.changing(), 0);
        assert!(one.insert(b"a third key").unwrap());
    }

    #[test]
    fn company_is_who_has_had_the_lock_in_between() {
        let (_folder, _path, [one, other]) = two();
        let alone = |store: &Store| Writer::of(&store.engine).is_sole_writer();
        // The other is open, and idle.
        one.insert(1).unwrap();
        one.insert(2).unwrap();
        assert!(alone(&one));
        other.insert(3).unwrap();
        one.insert(4).unwrap();
        assert!(!alone(&one) && !alone(&other));
        one.insert(5).unwrap();
        assert!(alone(&one));
    }
}
