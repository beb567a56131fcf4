//! A handle that reads on from one writer to the next: it opens the store again by itself.
//!
//! Between two calls of its caller, the store may have been opened, written to and closed by others any number of times.
//! Each call first looks whether what is open can still show the store as it is now. If not, or if it turns out during
//! the call, the store is opened again, and the call begins again. A store of another number, or another file under the
//! same name, is never opened in this way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, Guard};

use crate::config::open_options::OpenOptions;
use crate::engine::open::close::CloseReport;
use crate::engine::open::close::Session;
use crate::engine::open::read_only::open_at;
use crate::engine::view::View;
use crate::engine::{Engine, Parts};
use crate::error::{Error, Result};
use crate::filter::Filter;
use crate::generation::Generation;
use crate::memtable::Buffer;
use crate::shm::coordination::Coordination;
use crate::shm::handle::Access;
use crate::shm::locks::Others;
use crate::storefile::file_watch::NameTarget;
use crate::storefile::section_set::SectionSet;
use crate::sys::{lock, wait_until};

/// How often one call begins again because writers came or went.
const MOST_REOPENINGS: u32 = 100;

/// Returns whether the store may hold keys by now that an open handle does not show.
#[inline]
fn is_outdated(engine: &Engine) -> Result<bool> {
    if engine.handle.access == Access::Watching {
        return Ok(engine.shared.is_ended());
    }
    let Some(watch) = &engine.file.watch else {
        return Ok(false);
    };
    if watch.has_new_superblock() {
        return Ok(true);
    }
    match watch.has_log() {
        false => Ok(false),
        true => Ok(engine.handle.locks.others()? != Others::None || watch.has_longer_log()?),
    }
}

fn name_target(engine: &Engine) -> Result<NameTarget> {
    let known = engine.views.cell.load().superblock.sequence;
    engine.file.name_target(engine.handle.locks.id(), known)
}

/// Returns whether the reason of an error passes when the store is opened again. If it seems to be damaged, and the
/// name leads elsewhere, that is the error.
fn is_passing(engine: &Engine, error: &Error) -> Result<bool> {
    if !engine.handle.is_own() {
        return Ok(false);
    }
    match error {
        Error::Ended => Ok(true),
        Error::Replaced { .. } => Ok(name_target(engine)? == NameTarget::CopiedUp),
        Error::Format { .. } | Error::Log { .. } => match name_target(engine)? {
            NameTarget::CopiedUp => Ok(true),
            NameTarget::Same => is_outdated(engine),
            NameTarget::Another => Err(engine.handle.lose_name(true)),
            NameTarget::Nowhere => Err(engine.handle.lose_name(false)),
        },
        _ => Ok(false),
    }
}

/// A handle that follows a store.
#[derive(Debug)]
pub(crate) struct Follower {
    options: OpenOptions,
    /// The store as it is open from one reopening to the next.
    opened: ArcSwap<Session>,
    /// Held while the store is opened again.
    reopening: Mutex<()>,
    closed: AtomicBool,
}

/// Returns what stays of a handle that is opened again and again: a handle that is closed from the beginning, with what
/// never changes in a store.
pub(crate) fn anchor_of(engine: &Engine) -> Result<Session> {
    let place = &engine.file.place;
    let failed = |error| Error::io("reserve memory for", place, error);
    let superblock = engine.views.cell.load().superblock.clone();
    let empty = Buffer::private(0, superblock.generation).map_err(failed)?;
    let anchor = Engine::new(Parts {
        place: place.clone(),
        locks: engine.handle.locks.clone(),
        reading: None,
        options: engine.options.clone(),
        header: engine.file.header.clone(),
        file: Arc::clone(&engine.file.raw),
        watch: None,
        access: Access::Snapshot,
        handle: 0,
        shared: Coordination::private().map_err(failed)?,
        view: View {
            active: Arc::new(Generation::new(empty)),
            sealed: None,
            filter: Filter::Closed,
            sections: SectionSet::default(),
            lease: None,
            superblock,
            clock: None,
        },
        held: None,
        recovery: engine.recovery.clone(),
    });
    let anchor = Session::of(anchor);
    anchor.close()?;
    Ok(anchor)
}

impl Follower {
    pub(crate) fn of(options: &OpenOptions, session: Session) -> Self {
        Self {
            options: options.clone(),
            opened: ArcSwap::from_pointee(session),
            reopening: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Does some work that only reads, again if the store has to be opened again meanwhile.
    #[inline]
    pub(crate) fn read<T>(&self, mut work: impl FnMut(&Engine) -> Result<T>) -> Result<T> {
        let opened = self.current()?;
        match work(&opened) {
            Ok(done) => Ok(done),
            Err(error) => self.read_again(&opened, error, work),
        }
    }

    /// Does some work that can't be done again on the store as it is now.
    pub(crate) fn read_once<T>(&self, work: impl FnOnce(&Engine) -> Result<T>) -> Result<T> {
        let opened = self.current()?;
        let outcome = work(&opened);
        outcome.map_err(|error| match is_passing(&opened, &error) {
            Ok(_) => error,
            Err(named) => named,
        })
    }

    #[cold]
    fn read_again<T>(
        &self,
        opened: &Arc<Session>,
        mut error: Error,
        mut work: impl FnMut(&Engine) -> Result<T>,
    ) -> Result<T> {
        let mut opened = Arc::clone(opened);
        for _ in 0..MOST_REOPENINGS {
            if !is_passing(&opened, &error)? {
                return Err(error);
            }
            opened = self.reopen(&opened, true)?;
            match work(&opened) {
                Ok(done) => return Ok(done),
                Err(next) => error = next,
            }
        }
        match is_passing(&opened, &error)? {
            true => Err(Error::Busy {
                path: opened.file.place.to_path_buf(),
                what: "writers that open and close the store during each look-up",
                process: None,
            }),
            false => Err(error),
        }
    }

    /// Returns a handle that shows all that was in the store when this was called.
    #[inline]
    fn current(&self) -> Result<Guard<Arc<Session>>> {
        let opened = self.opened.load();
        match is_outdated(&opened)? {
            false => Ok(opened),
            true => self.renew(opened),
        }
    }

    #[cold]
    fn renew(&self, opened: Guard<Arc<Session>>) -> Result<Guard<Arc<Session>>> {
        let engine: &Engine = &opened;
        // A forked child has what its parent has opened, as long as that serves.
        if !engine.handle.is_own() || engine.handle.check_usable().is_err() {
            return Ok(opened);
        }
        let is_usable = engine.handle.access == Access::Snapshot;
        match self.reopen(&opened, !is_usable) {
            // What an exclusive handle writes can't be seen before it is closed. A handle that is opening or closing the
            // store is alone as well, but holds the open-close lock: opening again has waited for it, since others may
            // have come and gone before it.
            Err(Error::Locked { .. }) if is_usable => Ok(opened),
            Err(error) => Err(error),
            Ok(_) => Ok(self.opened.load()),
        }
    }

    /// Opens the store again, unless another thread has done so since `seen`. `waits` says whether to wait for a handle
    /// that has the store exclusively.
    fn reopen(&self, seen: &Arc<Session>, waits: bool) -> Result<Arc<Session>> {
        let _one = lock(&self.reopening);
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        let now = self.opened.load_full();
        if !Arc::ptr_eq(&now, seen) {
            return Ok(now);
        }
        let opened = Arc::new(self.open_again(seen, waits)?);
        self.opened.store(Arc::clone(&opened));
        Ok(opened)
    }

    fn open_again(&self, old: &Engine, waits: bool) -> Result<Session> {
        let mut opened = Err(Error::Closed);
        // Without the open-close lock, which an exclusive handle needs to close.
        wait_until(self.options.timeout, || {
            opened = open_at(&self.options, &old.file.place, false);
            let is_refused = matches!(opened, Err(Error::Locked { .. }));
            Ok::<_, Error>(!(waits && is_refused))
        })?;
        let opened = match opened {
            Ok(opened) => opened,
            // Others have it, which says nothing about the name.
            Err(error @ (Error::Locked { .. } | Error::Busy { .. })) => return Err(error),
            Err(error) => match name_target(old)? {
                NameTarget::Another => return Err(old.handle.lose_name(true)),
                NameTarget::Nowhere => return Err(old.handle.lose_name(false)),
                NameTarget::Same | NameTarget::CopiedUp => return Err(error),
            },
        };
        let (before, after) = (old.views.cell.load(), opened.views.cell.load());
        let is_same = opened.handle.locks.id() == old.handle.locks.id()
            && opened.file.header.store_id == old.file.header.store_id
            // Otherwise it is an older copy.
            && after.superblock.sequence >= before.superblock.sequence;
        if !is_same {
            return Err(old.handle.lose_name(true));
        }
        if let (Some(before), Some(after)) = (&before.clock, &after.clock) {
            after.follow(before);
        }
        Ok(opened)
    }

    /// Closes the handle, and reports if its store has lost its name.
    pub(crate) fn close(&self) -> Result<CloseReport> {
        let _one = lock(&self.reopening);
        self.closed.store(true, Ordering::Release);
        let opened = self.opened.load_full();
        // All answers were of their moment nevertheless.
        let copied = matches!(name_target(&opened), Ok(NameTarget::CopiedUp));
        match opened.close() {
            Err(Error::Replaced { .. }) if copied => Ok(CloseReport::default()),
            outcome => outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::open::read_only::open_read_only;
    use crate::shm::locks::{Intention, OpenCloseLock, PresenceLock};
    use crate::shm::place::Place;
    use crate::testing::Options;

    /// However fast writers come and go, a call ends.
    #[test]
    fn a_call_begins_again_so_often_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let options = Options::new()
            .capacity(1000)
            .buffer(crate::testing::LEAST_BUFFER);
        options.create(&path).unwrap().close().unwrap();
        let opened = open_read_only(options.open_options(), &path).unwrap();
        let follower = Follower::of(options.open_options(), opened);
        let mut calls = 0;
        let error = follower.read(|_| {
            calls += 1;
            Err::<(), _>(Error::Ended)
        });
        let error = error.unwrap_err();
        let expected = "writers that open and close the store during each look-up";
        assert!(
            matches!(&error, Error::Busy { what, .. } if *what == expected),
            "{error:?}"
        );
        assert_eq!(calls, 1 + MOST_REOPENINGS);
        let mut left = 3;
        let answer = follower.read(|_| {
            left -= 1;
            match left {
                0 => Ok("an answer"),
                _ => Err(Error::Ended),
            }
        });
        assert_eq!(answer.unwrap(), "an answer");
        follower.close().unwrap();
        let error = follower.read(|_| Err::<(), _>(Error::Ended)).unwrap_err();
        assert!(matches!(error, Error::Closed), "{error:?}");
    }

    /// A handle is alone while it opens and closes the store. What others have written before it must not be missed.
    #[test]
    fn a_handle_that_is_opening_the_store_hides_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let options = Options::new().capacity(1000).timeout(Duration::ZERO);
        options.create(&path).unwrap().close().unwrap();
        let reader = options.clone().follow(true).open_read_only(&path).unwrap();
        assert!(!reader.contains(b"key").unwrap());
        let writer = options.open(&path).unwrap();
        assert!(writer.insert(b"key").unwrap());
        writer.close().unwrap();
        let place = Place::of_existing(&path).unwrap();
        let gate = OpenCloseLock::enter(&place, Intention::Write, Duration::ZERO).unwrap();
        let locks = gate.locks(&place, Intention::Write).unwrap();
        let alone = PresenceLock::alone(&locks).unwrap().unwrap();
        let error = reader.contains(b"key").unwrap_err();
        let expected = "another handle to finish opening or closing the store";
        assert!(
            matches!(&error, Error::Busy { what, .. } if *what == expected),
            "{error:?}"
        );
        drop((alone, gate));
        assert!(reader.contains(b"key").unwrap());
    }
}
