//! Looks up keys in the buffers of a view, and tracks what an absent key proves.

use crate::engine::view::View;
use crate::generation::Generation;
use crate::memtable::{Buffer, Presence};
use crate::prefetch::GROUP;
use crate::prefetch::selection::SelectionVector;
use crate::shm::coordination::Coordination;
use std::convert::Infallible;

/// What a look-up that found nothing proves: while a certain generation was active, the key was in no page and in no
/// buffer. The one exception is that generation's own buffer, if the look-up skipped it. The key may have been inserted
/// since, into that generation or into a later one.
///
/// In a store of fingerprints a look-up for an insert calls a key absent that an open transaction has changed, for the
/// holder of the writer lock to decide, and does not look below. Once such a transaction is given up, it proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AbsentSince {
    generation: u64,
    /// How many transactions of its buffer had been given up; `None` while one was.
    aborts: Option<u64>,
}

impl AbsentSince {
    /// Returns the proof for keys that a look-up through this view does not find. The caller has not looked yet.
    #[inline]
    pub(crate) fn of(view: &View) -> Self {
        Self {
            generation: view.active.number(),
            aborts: aborts_of(&view.active, view),
        }
    }

    /// Returns whether no rotation has happened since.
    #[inline]
    pub(crate) fn still_holds(self, shared: &Coordination) -> bool {
        self.generation == shared.active()
    }

    /// Returns whether its generation is the active one of a view, and no transaction was given up since.
    #[inline]
    pub(crate) fn is_of_active(self, view: &View) -> bool {
        self.is_of(&view.active, view)
    }

    /// Returns whether its generation is the sealed one of a view, and no transaction was given up since.
    #[inline]
    pub(crate) fn is_of_sealed(self, view: &View) -> bool {
        let sealed = view.sealed.as_ref();
        // Transactions go on in the active buffer, which began without one that was given up.
        sealed.is_some_and(|sealed| self.is_of(sealed, view))
            && aborts_of(&view.active, view) == Some(0)
    }

    fn is_of(self, generation: &Generation, view: &View) -> bool {
        self.generation == generation.number()
            && self.aborts.is_some()
            && aborts_of(generation, view) == self.aborts
    }
}

/// Where a key may be now that was absent when it was looked up without the writer lock. Claiming it searches the
/// active buffer in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// In the active buffer, if it was inserted at all.
    Active,
    /// Or in the buffer that was active then and is sealed now.
    Sealed,
    /// Or in the pages. Also if a transaction was given up since, by which the look-up had gone.
    Checkpointed,
}

impl Freshness {
    /// Compares the look-up with the generations of the current view.
    #[inline]
    pub(crate) fn of(absent: AbsentSince, view: &View) -> Self {
        if absent.is_of_active(view) {
            return Self::Active;
        }
        match absent.is_of_sealed(view) {
            true => Self::Sealed,
            false => Self::Checkpointed,
        }
    }
}

/// Returns how many transactions of a generation were given up, where that makes a difference.
#[inline]
fn aborts_of(generation: &Generation, view: &View) -> Option<u64> {
    match view.filter.has_removes() {
        true => generation.buffer.aborts(),
        false => Some(0),
    }
}

/// Returns whether a key is there, by what a sealed buffer says of it; `None` if it is as it is in the pages.
#[inline]
pub(crate) fn closed_says(presence: Presence) -> Option<bool> {
    match presence {
        Presence::Settled => Some(true),
        Presence::Removed => Some(false),
        Presence::Absent
        | Presence::Open(_)
        | Presence::Removing(_)
        | Presence::RemovingBelow(_) => None,
    }
}

impl View {
    /// Returns whether what a look-up has found through this view is there. A rotation carries open transactions over into
    /// the next buffer and ends them in this one, which shows the keys that they have removed from then on. Where no key
    /// is ever removed, what was found stays. The caller has looked before it asks this.
    #[inline]
    pub(crate) fn found_holds(&self, shared: &Coordination) -> bool {
        !self.active.buffer.has_removals() || self.is_active(shared)
    }

    /// Returns whether no rotation has happened since the view was made. After a rotation, a key may have moved from a
    /// buffer that was searched last to one that was not searched. A checkpoint makes no difference: the look-up searched
    /// the buffer of the keys that it brings to the pages. The caller has looked before it asks this.
    #[inline]
    pub(crate) fn is_active(&self, shared: &Coordination) -> bool {
        self.active.number() == shared.active()
    }

    /// Prefetches what a look-up of one key touches, so that it waits for everything at once.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if !self.active.buffer.is_unused() {
            self.active.buffer.prefetch(hash);
        }
        if let Some(sealed) = &self.sealed {
            sealed.buffer.prefetch(hash);
        }
        self.filter.prefetch(hash);
    }

    /// Returns the first step whose keys count now; 0 in a store that does not forget.
    #[inline]
    pub(crate) fn remembered_since(&self) -> u64 {
        let clock = self.clock.as_ref();
        clock.map_or(0, |clock| clock.remembered_since())
    }

    /// Returns the step of keys that come now; 0 in a store that does not forget.
    pub(crate) fn this_step(&self) -> u64 {
        self.clock.as_ref().map_or(0, |clock| clock.this_step())
    }

    /// Returns what the active buffer says of a key. Those of forgotten steps are as if they were not there.
    #[inline]
    pub(crate) fn active_presence(&self, hash: u64, since: u64) -> Presence {
        let active = &self.active.buffer;
        self.remembered(active.lookup(hash), active, since)
    }

    /// Returns what the sealed buffer says of a key: whether it is there, or `None` if it is as it is in the pages. Keys
    /// of open transactions have moved on to the active buffer, which decides their fate.
    #[inline]
    pub(crate) fn sealed_says(&self, hash: u64, since: u64) -> Option<bool> {
        let sealed = &self.sealed.as_ref()?.buffer;
        closed_says(self.remembered(sealed.lookup_closed(hash), sealed, since))
    }

    /// Returns what a buffer says of a key if it counts only from a step on. What lies below is older.
    #[inline]
    fn remembered(&self, presence: Presence, buffer: &Buffer, since: u64) -> Presence {
        match presence {
            Presence::Settled | Presence::Removing(_) if self.is_forgotten(buffer, since) => {
                Presence::Absent
            }
            presence => presence,
        }
    }

    /// Returns whether pages or logs may have keys that are forgotten by now.
    pub(crate) fn may_have_forgotten(&self) -> bool {
        let since = self.remembered_since();
        let buffered = self.sealed.iter().chain([&self.active]);
        let mut logs = buffered.filter(|one| one.has_log());
        self.superblock.earliest < since || logs.any(|one| self.is_forgotten(&one.buffer, since))
    }

    #[inline]
    fn is_forgotten(&self, buffer: &Buffer, since: u64) -> bool {
        let Some((clock, told)) = self.clock.as_ref().zip(buffer.clock()) else {
            return false;
        };
        clock.step_of(told) < since
    }

    /// Returns whether the buffers prove that a key was inserted. The answer is exact, but the key may be uncommitted.
    pub(crate) fn proves_insert(&self, hash: u64) -> bool {
        let sealed = self.sealed.as_ref().map(|sealed| &sealed.buffer);
        self.active.buffer.proves_insert(sealed, hash)
    }

    /// Returns the number of keys, those of open transactions included.
    pub(crate) fn keys(&self) -> u64 {
        match self.active.buffer.has_removes() {
            true => self.net_keys(),
            false => self
                .checkpointed_keys()
                .saturating_add(self.active.buffer.keys()),
        }
    }

    /// Returns the number of keys of a store that can remove some: inserts minus removes, at least 0. In a store that forgets
    /// it is an upper bound.
    pub(crate) fn net_keys(&self) -> u64 {
        let sealed = self.sealed.as_ref();
        let sealed = sealed.filter(|sealed| self.superblock.generation <= sealed.number());
        let sealed = sealed.map_or(0, |sealed| sealed.buffer.net_keys());
        let active = match self.clock {
            // A transaction's removes are carried from log to log, while the keys that they take leave the pages.
            Some(_) => self.active.buffer.inserted_keys(),
            None => self.active.buffer.net_keys(),
        };
        let buffered = active.saturating_add(sealed);
        self.superblock.keys().saturating_add_signed(buffered)
    }
}

/// Looks for keys in the buffers, at most [`BATCH`](crate::prefetch::BATCH) of them. Sets `found` for each that is present, and drops from
/// `rest` each that a buffer knows to be present or absent. `says` tells that from what the active buffer says of a key; `None`
/// skips that buffer. Keys count from the step `since` on.
pub(crate) fn probe_buffers(
    (view, since): (&View, u64),
    hashes: &[u64],
    says: Option<impl Fn(Presence) -> Option<bool>>,
    rest: &mut SelectionVector,
    found: &mut [bool],
) {
    let active = &view.active.buffer;
    if let Some(says) = says.filter(|_| !active.is_unused()) {
        let look = |hash| says(view.active_presence(hash, since));
        probe_buffer(active, hashes, look, rest, found);
    }
    if let Some(sealed) = &view.sealed {
        let look = |hash| view.sealed_says(hash, since);
        probe_buffer(&sealed.buffer, hashes, look, rest, found);
    }
}

fn probe_buffer(
    buffer: &Buffer,
    hashes: &[u64],
    look: impl Fn(u64) -> Option<bool>,
    rest: &mut SelectionVector,
    found: &mut [bool],
) {
    let fetch = |hash| buffer.prefetch(hash);
    let look = |hash| Ok::<_, Infallible>(look(hash));
    let Ok(()) = rest.decide(hashes, found, GROUP, fetch, look);
}
