//! What one look-up sees: the buffers, the layers and the sections of one moment.
//!
//! Guarantees that a view never changes, and that every key present when the view was created can be found through it.
//! This module only reads. A look-up takes no lock; one thread of a handle at a time renews the view.

pub(crate) mod lookup;

use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, Guard};

use crate::error::{Error, Result};
use crate::file::layout::MAX_COUNTER;
use crate::file::{Header, Superblock};
use crate::filter::{Filter, PendingFilter};
use crate::generation::Generation;
use crate::generation::buffer_pool::Demand;
use crate::memtable::{ShmCorruption, Sum};
use crate::page_io::map_error::MapError;
use crate::page_io::probe::StaleDirectory;
use crate::shm::coordination::Coordination;
use crate::shm::handle::{Access, Handle};
use crate::shm::map_lease::MapLease;
use crate::shm::store_clock::StoreClock;
use crate::storefile::section_set::SectionSet;
use crate::storefile::store_file::StoreFile;
use crate::sys::lock;
use crate::sys::storage::StorageFile;
use crate::wal::LogEnd;
use std::path::Path;

/// The minimum size of a mark in a log, in bytes.
const LEAST_MARK: u64 = 48;

/// How often a renewal starts over because other handles made progress meanwhile.
const MOST_RENEWALS: usize = 1000;

/// What a look-up searches, in this order: the order in which keys flow.
///
/// A view never changes; a rotation or the end of a checkpoint replaces it. An old view still finds every key that was
/// present when the view was created: a buffer is never emptied or reused, and pages only gain keys.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) active: Arc<Generation>,
    pub(crate) sealed: Option<Arc<Generation>>,
    pub(crate) filter: Filter,
    pub(crate) sections: SectionSet,
    /// Keeps the file as long as its maps are. Only in a store of fingerprints. Whoever keeps a map keeps its view.
    pub(crate) lease: Option<MapLease>,
    /// The newest superblock when the view was created.
    pub(crate) superblock: Superblock,
    /// Only in a store that forgets.
    pub(crate) clock: Option<Arc<StoreClock>>,
}

impl View {
    /// Adds the time of a store that forgets.
    pub(crate) fn with_clock(self, clock: Option<Arc<StoreClock>>) -> Self {
        Self { clock, ..self }
    }

    /// Returns the number of keys in the sealed buffer and the pages. Between the superblock of a checkpoint and its
    /// end, its keys are in both. They stay in both if the process dies there.
    pub(crate) fn checkpointed_keys(&self) -> u64 {
        let sealed = self.sealed.as_ref();
        let sealed = sealed.filter(|sealed| self.superblock.generation <= sealed.number());
        let sealed = sealed.map_or(0, |sealed| sealed.buffer.keys());
        self.superblock.keys().saturating_add(sealed)
    }

    /// Returns the bytes of memory that the buffers take.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        let buffers = self.sealed.iter().chain([&self.active]);
        buffers.fold(0, |sum, one| sum.saturating_add(one.buffer.bytes()))
    }

    /// Returns what the buffer after the active one is for, except for what is carried over into it.
    pub(crate) fn demand(&self) -> Demand {
        Demand {
            filter: self.superblock.filter_bytes(),
            current: self.active.buffer.bytes(),
            carried: 0,
            waits: false,
        }
    }

    /// Returns whether the view shows the current state of the store.
    #[inline]
    pub(crate) fn is_current(&self, shared: &Coordination) -> bool {
        let checkpointed = match &self.sealed {
            Some(sealed) => sealed.number(),
            None => self.active.number(),
        };
        // A log that memory had no room for is settled without ever having been in a view. Then only the superblock
        // shows that the view is old.
        self.active.number() == shared.active()
            && checkpointed == shared.checkpointed()
            && self.superblock.generation >= checkpointed
    }

    /// Returns the view that follows this one, with a superblock that was read after the turn; `None` if the superblock
    /// is older than the turn. `find` opens generations that this view does not hold, and `map` maps the layers and
    /// sections.
    pub(crate) fn next(
        &self,
        turn: Turn,
        superblock: Superblock,
        find: impl Fn(u64) -> Result<Arc<Generation>>,
        map: impl FnOnce(&Superblock) -> Result<Mapped, MapError>,
    ) -> Result<Option<Self>, MapError> {
        let checkpointed = turn.checkpointed;
        if superblock.generation < checkpointed {
            return Ok(None);
        }
        let find = |number: u64| {
            let mut held = [Some(&self.active), self.sealed.as_ref()]
                .into_iter()
                .flatten();
            match held.find(|held| held.number() == number) {
                Some(held) => Ok(Arc::clone(held)),
                None => find(number),
            }
        };
        let sealed = if checkpointed < turn.active {
            Some(find(checkpointed)?)
        } else {
            None
        };
        let active = find(turn.active)?;
        // In a buffer of another generation, a key that was inserted would be missed (I1).
        assert_eq!(active.number(), turn.active);
        assert!(sealed.iter().all(|one| one.number() == checkpointed));
        let mapped = map(&superblock)?;
        Ok(Some(Self {
            active,
            sealed,
            filter: mapped.filter,
            sections: mapped.sections,
            lease: self.lease.clone(),
            superblock,
            clock: self.clock.clone(),
        }))
    }

    /// Checks that a turn can follow the one of this view.
    pub(crate) fn check_turn(&self, turn: Turn) -> Result<(), ShmCorruption> {
        let Turn {
            active,
            checkpointed,
        } = turn;
        ShmCorruption::unless_in("active", self.active.number()..=MAX_COUNTER, active)?;
        ShmCorruption::unless_in("settled", active.saturating_sub(1)..=active, checkpointed)
    }

    /// Checks the number of the last commit: since the superblock, there can be no more commits than the logs have room
    /// for. The caller holds the writer lock.
    pub(crate) fn check_sequence(&self, shared: &Coordination) -> Result<u64, ShmCorruption> {
        let logs = self.sealed.iter().chain([&self.active]);
        let bytes = logs.fold(0_u64, |sum, one| sum.saturating_add(one.buffer.tail().end));
        let least = self.superblock.commit_sequence;
        let most = least.saturating_add(bytes / LEAST_MARK);
        let got = shared.commit_sequence();
        ShmCorruption::unless_in("commit sequence", least..=most.min(MAX_COUNTER - 1), got)?;
        Ok(got)
    }

    /// Returns the sum of all words that change only under the writer lock.
    #[inline]
    pub(crate) fn sum(&self, shared: &Coordination) -> u64 {
        self.sum_and_end(shared).0
    }

    /// The same, and the log's end as it went into the sum.
    #[inline]
    pub(crate) fn sum_and_end(&self, shared: &Coordination) -> (u64, LogEnd) {
        let mut sum = Sum::default();
        shared.sum(&mut sum);
        let (tail, allocated) = self.active.buffer.sum(&mut sum);
        let end = LogEnd {
            end: tail.end,
            previous: tail.previous,
            allocated,
        };
        (sum.value(), end)
    }

    /// Stores the sum for the next holder of the writer lock. The caller holds that lock, or is the first to open the
    /// store, or recovers after a crash.
    #[inline]
    pub(crate) fn leave_sum(&self, shared: &Coordination) {
        shared.set_seal(self.sum(shared));
    }
}

/// The generations that the shared words name at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) active: u64,
    /// The first generation that is not in the pages yet: the sealed one, or the active one.
    pub(crate) checkpointed: u64,
}

impl Turn {
    pub(crate) fn of(shared: &Coordination) -> Self {
        Self {
            active: shared.active(),
            checkpointed: shared.checkpointed(),
        }
    }
}

/// The current view of an open store, as far as its handle knows.
#[derive(Debug)]
pub(crate) struct ViewCell {
    pub(crate) cell: ArcSwap<View>,
    /// Locked by the one thread that renews the view. Holds a generation that this handle has just created.
    pub(crate) renewal: Mutex<Option<Arc<Generation>>>,
    pub(crate) pending_filter: PendingFilter,
    pub(crate) file: Arc<StoreFile>,
    pub(crate) handle: Arc<Handle>,
    pub(crate) shared: Arc<Coordination>,
}

impl ViewCell {
    /// Returns the current view.
    #[inline]
    pub(crate) fn current(&self) -> Result<Guard<Arc<View>>> {
        let view = self.cell.load();
        if view.is_current(&self.shared) {
            return Ok(view);
        }
        drop(view);
        self.renew()?;
        Ok(self.cell.load())
    }

    /// Makes the view current.
    #[cold]
    pub(crate) fn renew(&self) -> Result<()> {
        self.renew_until(|view| view.is_current(&self.shared))?;
        Ok(())
    }

    /// Makes the view current, with a directory of segments that is newer than a stale one: a closing handle moves segments
    /// together without a checkpoint, and a large checkpoint publishes them in steps. Returns that view, which the cell may
    /// have lost again by now, or `None` if there will be none since the last writer is gone.
    #[cold]
    pub(crate) fn renew_past(&self, stale: StaleDirectory) -> Result<Option<Arc<View>>> {
        self.renew_until(|view| view.is_current(&self.shared) && view.filter.is_newer_than(stale))
    }

    /// Returns the view that is enough; `None` if the last writer is gone.
    fn renew_until(&self, is_enough: impl Fn(&View) -> bool) -> Result<Option<Arc<View>>> {
        let made = lock(&self.renewal);
        for _ in 0..MOST_RENEWALS {
            let old = self.cell.load_full();
            if is_enough(&old) {
                return Ok(Some(old));
            }
            old.filter.expect_open()?;
            self.file
                .expect_name(&self.handle, old.superblock.sequence)?;
            let turn = Turn::of(&self.shared);
            if turn.active != self.shared.active() {
                continue;
            }
            if !self.shared.is_ended() {
                let checked = old.check_turn(turn);
                checked.map_err(|wrong| self.handle.poison_shared(wrong))?;
            }
            match self.try_renew(&old, made.as_ref(), turn) {
                Ok(Some(view)) => {
                    let view = Arc::new(view);
                    self.cell.store(Arc::clone(&view));
                    if is_enough(&view) {
                        return Ok(Some(view));
                    }
                }
                Ok(None) => {}
                // Other handles made progress and removed what this one looked for.
                Err(_) if turn != Turn::of(&self.shared) => {}
                // Two steps of one checkpoint went by, or a closing handle has moved segments.
                Err(MapError::Stale { .. }) => {}
                // The last writer is gone, and the shared memory with it.
                Err(_) if self.shared.is_ended() => {}
                Err(error) => return Err(error.into()),
            }
            if self.shared.is_ended() {
                return Ok(None);
            }
            std::thread::yield_now();
        }
        let checkpointed = self.shared.checkpointed();
        let newest = self.file.read_meta()?.superblock.generation;
        // A checkpoint writes its superblock before it publishes what is settled.
        let checked = ShmCorruption::unless_in("settled", 0..=newest, checkpointed);
        checked.map_err(|wrong| self.handle.poison_shared(wrong))?;
        Err(Error::Busy {
            path: self.file.place.to_path_buf(),
            what: "other handles to make progress",
            process: None,
        })
    }

    /// Gives up all maps of a store of fingerprints, for good: look-ups that begin from here on end with
    /// [`Error::Closed`]. Those that are under way keep clones of the lease that this returns. `None` in a store of
    /// another kind, whose file never shrinks, and if the maps were given up before.
    pub(crate) fn give_up_maps(&self) -> Option<MapLease> {
        // A renewal that is under way would bring them back.
        let _renewal = lock(&self.renewal);
        let old = self.cell.load_full();
        let lease = old.lease.clone()?;
        self.pending_filter.set(0, None);
        self.cell.store(Arc::new(View {
            active: Arc::clone(&old.active),
            sealed: old.sealed.clone(),
            filter: Filter::Closed,
            sections: SectionSet::default(),
            lease: None,
            superblock: old.superblock.clone(),
            clock: old.clock.clone(),
        }));
        Some(lease)
    }

    fn try_renew(
        &self,
        old: &View,
        made: Option<&Arc<Generation>>,
        turn: Turn,
    ) -> Result<Option<View>, MapError> {
        let superblock = self.file.read_meta()?.superblock;
        let find = |number: u64| match made.filter(|made| made.number() == number) {
            Some(made) => Ok(Arc::clone(made)),
            None => {
                let write = self.handle.access == Access::Shared;
                let sizes = self.shared.buffer_sizes();
                let model = self.file.model;
                let opened = Generation::attach(&self.file.place, number, sizes, model, write);
                opened.map(Arc::new)
            }
        };
        let map = |superblock: &Superblock| {
            map_all(
                &self.file.raw,
                &self.file.place,
                (superblock, &self.file.header),
                Some(old),
                &self.pending_filter,
            )
        };
        old.next(turn, superblock, find, map)
    }
}

/// What a view maps of a store file.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) filter: Filter,
    pub(crate) sections: SectionSet,
}

/// Maps what a superblock names, and reuses what an older view has mapped.
pub(crate) fn map_all(
    file: &Arc<dyn StorageFile>,
    path: &Path,
    (superblock, header): (&Superblock, &Header),
    old: Option<&View>,
    pending: &PendingFilter,
) -> Result<Mapped, MapError> {
    let held = old.map(|old| &old.filter);
    let filter = Filter::map(&**file, path, (superblock, header), held, pending)?;
    let held = old.map(|old| &old.sections);
    Ok(Mapped {
        filter,
        sections: SectionSet::of(file, path, superblock, held)?,
    })
}
