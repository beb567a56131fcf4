//! The next write buffer, created ahead by the thread that has just finished a checkpoint. Filling tens of megabytes
//! with zeros takes longer than the caller that inserts the next key should have to wait.
//!
//! The buffers' memory budget has room for it once the closed buffer is gone. A look-up may still hold that one for a
//! while; then no buffer is created ahead. An exclusive handle keeps the new buffer for itself. Otherwise the buffer is
//! a file, under a name that belongs to no generation, for whichever handle rotates next.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use crate::config::buffer_growth::SizeRule;
use crate::config::memory_budget::{default_share, room_for};
use crate::error::{Error, Result};
use crate::generation::Generation;
use crate::memtable::{Buffer, limit_of};
use crate::page::KeyModel;
use crate::shm::coordination::Coordination;
use crate::shm::handle::Access;
use crate::shm::place::Place;
use crate::shm::shm_files::{buffer_path, remove_if_there, spare_paths};
use crate::sys::{Folder, lock, wait_until};

/// How long to wait until a closed buffer is gone. Most look-ups take less.
const SPARE_PATIENCE: Duration = Duration::from_millis(20);

/// Uncommitted keys that are carried over take at most the next buffer's keys divided by this.
const CARRIED_SHARE: u64 = 4;

/// A buffer that was made ahead may be larger than what serves by now, by that size divided by this.
const SPARE_EXCESS: u64 = 4;

/// Creates the write buffers of an open store, and decides on their sizes.
#[derive(Debug)]
pub(crate) struct BufferPool {
    pub(crate) place: Place,
    pub(crate) access: Access,
    pub(crate) shared: Arc<Coordination>,
    pub(crate) rule: SizeRule,
    /// What the store knows of a key.
    pub(crate) model: KeyModel,
    /// Whether a thread of its own runs checkpoints, and makes buffers ahead.
    pub(crate) makes_ahead: bool,
    /// The next buffer of an exclusive handle, created ahead.
    pub(crate) spare: Mutex<Option<Buffer>>,
}

/// What the size of the next buffer follows from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand {
    /// The bytes of the filter.
    pub(crate) filter: u64,
    /// The bytes of the current buffer.
    pub(crate) current: u64,
    /// The uncommitted keys that the next buffer begins with.
    pub(crate) carried: u64,
    /// Whether the caller had to wait for a checkpoint, or has more keys than the buffer takes, so that the time that a larger
    /// one takes is well spent.
    pub(crate) waits: bool,
}

impl Demand {
    /// Returns whether a buffer of `bytes` bytes has ample room for what it begins with. A buffer as large as the
    /// current one has always enough.
    fn fits(self, bytes: u64) -> bool {
        bytes >= self.current || limit_of(bytes) / CARRIED_SHARE >= self.carried
    }

    /// Returns the sizes that will do if there is no room for `bytes` bytes, the larger one first.
    fn smaller_than(self, bytes: u64, least: u64) -> impl Iterator<Item = u64> {
        let mut sizes = vec![self.current, least];
        sizes.retain(|size| (least..bytes).contains(size) && self.fits(*size));
        sizes.dedup();
        sizes.into_iter()
    }
}

impl BufferPool {
    /// Returns whether a buffer is one of the small ones that a session begins with.
    pub(crate) fn is_small(&self, buffer: &Buffer) -> bool {
        self.rule
            .is_small(self.shared.buffer_sizes(), buffer.bytes())
    }

    /// Returns the bytes of the next buffer.
    fn next_bytes(&self, demand: Demand) -> u64 {
        let Demand {
            filter, current, ..
        } = demand;
        let sizes = self.shared.buffer_sizes();
        let free = || default_share(room_for(&self.place, self.access == Access::Shared), filter);
        let next = self.rule.next_bytes(sizes, filter, current, free);
        match demand.fits(next) {
            true => next,
            false => next.max(current),
        }
    }

    /// Returns a buffer for a new generation, where the other handles can open it. If memory or the disk has no room
    /// for one of the size that would serve, it is as large as the current one, or has the least size.
    pub(crate) fn make(&self, number: u64, demand: Demand) -> Result<Buffer> {
        let bytes = self.next_bytes(demand);
        if let Some(spare) = self.take_spare(number, demand, bytes) {
            return Ok(spare);
        }
        let least = self.shared.buffer_sizes().least;
        // Otherwise buffers grow where they are made ahead, if they are.
        let bytes = match self.makes_ahead && !demand.waits {
            true => bytes.min(demand.current.max(least)),
            false => bytes,
        };
        let mut made = self.make_new(number, bytes);
        for smaller in demand.smaller_than(bytes, least) {
            if made.is_err() {
                made = self.make_new(number, smaller);
            }
        }
        made
    }

    /// Returns a buffer without room for a key, for the words that the last handle to close needs.
    pub(crate) fn make_last(&self, number: u64) -> Result<Buffer> {
        self.make_new(number, 0)
    }

    fn make_new(&self, number: u64, bytes: u64) -> Result<Buffer> {
        let made = make_buffer(&self.place, self.access == Access::Shared, bytes, number);
        made.map(|made| made.holding(self.model))
    }

    /// Prepares a buffer without a key for many keys.
    pub(crate) fn fill(&self, generation: &Generation) -> Result<()> {
        if self.access != Access::Shared {
            return Ok(());
        }
        generation.buffer.fill().map_err(|error| {
            let path = buffer_path(&self.place, generation.number());
            let bytes = generation.buffer.bytes();
            no_buffer("make room in the write buffer", &path, bytes, error)
        })
    }

    /// Creates the next buffer, if there is none yet, the settled one is gone, and somebody wants it. The caller holds the
    /// checkpoint lock, so no other handle creates one. On a failure, the next handle that needs the buffer creates it, or
    /// reports why it cannot.
    pub(crate) fn make_spare(
        &self,
        checkpointed: &Weak<Generation>,
        demand: Demand,
        is_wanted: impl FnOnce() -> bool,
    ) {
        let is_gone = || Ok::<_, Infallible>(checkpointed.strong_count() == 0);
        if wait_until(SPARE_PATIENCE, is_gone) != Ok(true) || !is_wanted() {
            return;
        }
        let bytes = self.next_bytes(demand);
        match self.access {
            Access::Alone => {
                let mut spare = lock(&self.spare);
                if spare.is_none()
                    && let Ok(made) = Buffer::private(bytes, self.shared.active() + 1)
                {
                    made.populate();
                    *spare = Some(made);
                }
            }
            Access::Shared => {
                let [making, spare] = spare_paths(&self.place);
                let folder = self.place.folder();
                // A process that died while it created one may have left a part of it.
                if folder.exists(&spare).is_ok_and(|there| !there)
                    && remove_if_there(&self.place, &making).is_ok()
                    && Buffer::blank(folder, &making, bytes).is_ok()
                {
                    let _ = folder.rename(&making, &spare);
                }
            }
            Access::Watching | Access::Snapshot => {}
        }
    }

    /// Takes the spare buffer as the buffer of a generation, if there is one of about the right size. The caller holds
    /// the writer lock.
    fn take_spare(&self, number: u64, demand: Demand, bytes: u64) -> Option<Buffer> {
        let spare = match self.access {
            Access::Alone => lock(&self.spare).take(),
            _ => {
                let [_, spare] = spare_paths(&self.place);
                let path = buffer_path(&self.place, number);
                let folder = self.place.folder();
                folder.rename(&spare, &path).ok()?;
                Buffer::adopt(folder, &path, number).ok()
            }
        };
        // What it was sized by may have changed a little since: what is free, the length of the file. Otherwise every
        // second one would be thrown away wherever what is free is the bound.
        let bound = self.rule.most_of(self.shared.buffer_sizes());
        let most = bytes.saturating_add(bytes / SPARE_EXCESS).min(bound);
        let serves = limit_of(bytes / 2)..=limit_of(most.max(bytes));
        let spare = spare.filter(|spare| {
            spare.generation() == number
                && serves.contains(&spare.limit())
                && demand.fits(spare.bytes())
        });
        spare.map(|spare| spare.holding(self.model))
    }
}

/// Returns a buffer for a generation that has no log yet, without delay, and without memory where the folder's system
/// keeps what is reserved.
pub(crate) fn reserve_buffer(
    store: &Place,
    shared: bool,
    bytes: u64,
    number: u64,
) -> Result<Buffer> {
    new_buffer(store, shared, bytes, number, Buffer::reserve)
}

/// Returns a buffer for a generation, ready for many keys.
pub(crate) fn make_buffer(store: &Place, shared: bool, bytes: u64, number: u64) -> Result<Buffer> {
    new_buffer(store, shared, bytes, number, Buffer::create)
}

/// Returns a private buffer, or one in a file that `make` creates. Removes a file that an earlier process left under
/// its name.
fn new_buffer(
    store: &Place,
    shared: bool,
    bytes: u64,
    number: u64,
    make: fn(&Folder, &Path, u64, u64) -> io::Result<Buffer>,
) -> Result<Buffer> {
    // 0 is the number of a buffer that was made ahead and has no generation yet.
    assert!(number > 0);
    if !shared {
        let made = Buffer::private(bytes, number);
        return made.map_err(|error| Error::io("reserve memory for", store, error));
    }
    let path = buffer_path(store, number);
    remove_if_there(store, &path)?;
    let made = make(store.folder(), &path, bytes, number);
    made.map_err(|error| no_buffer("make the write buffer", &path, bytes, error))
}

/// Returns whether disk or memory had no room for a buffer.
pub(crate) fn lacks_room(error: &Error) -> bool {
    matches!(
        error,
        Error::NoRoomForBuffer { .. } | Error::NoSpace { .. } | Error::OutOfMemory { .. }
    )
}

/// Returns the error for a buffer of `bytes` bytes that could not be created.
fn no_buffer(action: &'static str, path: &Path, bytes: u64, error: io::Error) -> Error {
    match Error::io(action, path, error) {
        // A size of 0 means the words alone that the last handle to close needs: those are no buffer.
        Error::NoSpace { path, .. } if bytes > 0 => Error::NoRoomForBuffer { path, bytes },
        other => other,
    }
}

#[cfg(test)]
mod tests;
