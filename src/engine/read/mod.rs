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
#[cfg(all(test, not(loom)))]
mod overtaken;
pub(crate) mod part_lookup;
pub(crate) mod point;

use crate::config::damage_policy::OnDamage;
use crate::engine::Engine;
use crate::engine::view::ViewCell;
use crate::error::{Error, Result};
use crate::memtable::Presence;
use crate::page::KeyModel;
use crate::prefetch::hash_source::HashSource;
use crate::prefetch::hints::LookupHints;
use crate::shm::coordination::Coordination;
use crate::shm::handle::{Access, Handle};
use crate::storefile::store_file::StoreFile;

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

    /// Returns whether a key is present for good, by what the active buffer says of it, as far as this handle can tell
    /// without the writer lock; `None` if what lies below decides.
    #[inline]
    pub(crate) fn says_seen(self, presence: Presence) -> Option<bool> {
        match presence {
            Presence::Settled => Some(true),
            // Whether what another handle has not committed counts, only claiming the key finds out.
            Presence::Open(handle) => Some(handle == self.handle.number),
            Presence::Removed | Presence::Removing(_) | Presence::RemovingBelow(_) => Some(false),
            Presence::Absent => None,
        }
    }

    /// Returns whether a key is there for this handle, by what the active buffer says of it; `None` if what lies below
    /// decides. What other handles have not committed counts where they insert, and not where they remove.
    #[inline]
    pub(crate) fn says_there(self, presence: Presence) -> Option<bool> {
        match presence {
            Presence::Settled | Presence::Open(_) => Some(true),
            Presence::Removed => Some(false),
            Presence::Removing(handle) => Some(handle != self.handle.number),
            Presence::RemovingBelow(handle) if handle == self.handle.number => Some(false),
            Presence::Absent | Presence::RemovingBelow(_) => None,
        }
    }

    /// Refuses to read `keys` keys through a handle that is closed or poisoned, or whose writers are all gone: it would
    /// miss what later writers do. A handle that only reads looks from time to time whether its file still has the
    /// store's name.
    #[inline]
    pub(crate) fn check_readable(self, keys: usize) -> Result<()> {
        self.handle.check_usable()?;
        let Some(watch) = &self.file.watch else {
            return Ok(());
        };
        if self.handle.access == Access::Watching && self.shared.is_ended() {
            return Err(Error::Ended);
        }
        match watch.is_due_after(keys) {
            true => self.expect_name(),
            false => Ok(()),
        }
    }

    /// Fails if the store's name does not lead to the file that is read, before anything else is said about the file.
    #[cold]
    pub(crate) fn expect_name(self) -> Result<()> {
        let known = self.views.cell.load().superblock.sequence;
        self.file.expect_name(self.handle, known)
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

impl Reader<'_> {
    /// Returns whether a key is there.
    #[inline]
    pub(crate) fn contains(self, hash: u64) -> Result<bool> {
        match self.file.model {
            KeyModel::GrowOnlySet | KeyModel::Set(_) => self.is_in_set(hash),
            KeyModel::Multiset => self.is_counted(hash),
        }
    }

    /// Looks up the keys of a part, and appends an answer for each.
    pub(crate) fn contains_each(self, keys: &dyn HashSource, out: &mut Vec<bool>) -> Result<()> {
        self.check_readable(keys.count())?;
        let done = out.len();
        out.resize(done + keys.count(), false);
        let found = &mut out[done..];
        match self.file.model {
            KeyModel::GrowOnlySet | KeyModel::Set(_) => self.find_in_set(keys, found),
            KeyModel::Multiset => self.find_counted(keys, found),
        }
    }

    /// Returns how often the store holds the key; [`STUCK`](crate::bloom::counting_page::STUCK) means that often or more.
    ///
    /// # Errors
    /// The store does not know that.
    pub(crate) fn count_of(self, hash: u64) -> Result<u8> {
        match self.file.model.has_counts() {
            true => self.count_exactly(hash),
            false => Err(self
                .file
                .wrong_kind("count keys", "a store of kind counting")),
        }
    }

    /// Returns whether looking keys up before their turn spares work then. How often a key is there, only its turn tells.
    pub(crate) fn can_look_ahead(self) -> bool {
        match self.file.model {
            KeyModel::GrowOnlySet | KeyModel::Set(_) => true,
            KeyModel::Multiset => false,
        }
    }
}
