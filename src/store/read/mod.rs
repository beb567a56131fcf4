//! Answers look-ups without a lock.
//!
//! This module promises that a key inserted before the look-up began is found, whatever rotates or checkpoints
//! meanwhile, and that a damaged page answers as the handle's policy says. It writes nothing but the hints.

pub(crate) mod batch;
pub(crate) mod count;
pub(crate) mod count_batch;
pub(crate) mod damaged;
pub(crate) mod look_ahead;
#[cfg(all(test, loom))]
pub(crate) mod loom;
pub(crate) mod point;
pub(crate) mod staged;

use crate::buffer::Presence;
use crate::error::{Error, Result};
use crate::store::config::damage_policy::OnDamage;
use crate::store::coordination::handle::{Access, Handle};
use crate::store::coordination::shm::Coordination;
use crate::store::engine::Engine;
use crate::store::prefetch::hints::LookupHints;
use crate::store::storefile::store_file::StoreFile;
use crate::store::view::ViewCell;

/// The parts of an open store that look-ups need.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) views: &'a ViewCell,
    pub(crate) file: &'a StoreFile,
    pub(crate) handle: &'a Handle,
    pub(crate) shared: &'a Coordination,
    pub(crate) hints: &'a LookupHints,
    pub(crate) on_damage: OnDamage,
}

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) fn of(engine: &'a Engine) -> Self {
        Self {
            views: &engine.views,
            file: &engine.file,
            handle: &engine.handle,
            shared: &engine.shared,
            hints: &engine.hints,
            on_damage: engine.options.on_damage,
        }
    }

    /// Returns whether a key in the active buffer is present for good, as far as this handle can tell without the
    /// writer lock.
    #[inline]
    pub(crate) fn is_seen(self, presence: Presence) -> bool {
        match presence {
            Presence::Settled => true,
            Presence::Open(handle) => handle == self.handle.number,
            Presence::Absent => false,
        }
    }

    /// Refuses to read through a handle that is closed or poisoned, or whose writers are all gone: it would miss what
    /// later writers do.
    #[inline]
    fn check_readable(self) -> Result<()> {
        self.handle.check_usable()?;
        if self.handle.access == Access::Watching && self.shared.is_ended() {
            return Err(Error::Ended);
        }
        Ok(())
    }

    /// Returns the error of a look-up that needs shared memory which has ended.
    #[cold]
    fn ended(self) -> Error {
        match self.handle.access {
            Access::Watching => Error::Ended,
            _ => Error::Closed,
        }
    }
}
