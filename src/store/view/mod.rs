//! What one look-up sees: the buffers, the layers and the sections of one moment.

pub(crate) mod lookup;
pub(crate) mod section_set;

use std::path::Path;
use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, Guard};

use crate::buffer::{Sum, Wrong};
use crate::error::{Error, Result};
use crate::file::layout::MAX_COUNTER;
use crate::file::{LayerPages, Superblock};
use crate::store::coordination::handle::{Access, Handle};
use crate::store::coordination::shm::Coordination;
use crate::store::generation::Generation;
use crate::store::storefile::store_file::StoreFile;
use crate::store::view::section_set::SectionSet;
use crate::sys::lock;
use crate::sys::storage::StorageFile;

/// Bytes of a log that a mark takes, at least.
const LEAST_MARK: u64 = 48;

/// What is mapped of a store file: its layers and its sections.
pub(crate) type Mapped = (Vec<Arc<LayerPages>>, SectionSet);

/// How often a renewal begins again because others went on meanwhile.
const ROUNDS: usize = 1000;

/// What a reader looks at: in this order, the order in which keys flow.
///
/// A view never changes; rotation and the end of a checkpoint put another in its place. Who holds
/// an old one sees all that was there when it began: a buffer is never emptied or used again, and
/// pages only gain keys.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) active: Arc<Generation>,
    pub(crate) frozen: Option<Arc<Generation>>,
    pub(crate) layers: Vec<Arc<LayerPages>>,
    /// Its sections.
    pub(crate) sections: SectionSet,
    /// The newest superblock when the view was made.
    pub(crate) superblock: Superblock,
}

impl View {
    /// Keys in frozen buffer and pages. Between its superblock and its end a checkpoint's keys are
    /// in both, and whoever died there leaves them so.
    pub(crate) fn settled_keys(&self) -> u64 {
        let frozen = self.frozen.as_ref();
        let frozen = frozen.filter(|frozen| self.superblock.generation <= frozen.number());
        let frozen = frozen.map_or(0, |frozen| frozen.buffer.keys());
        self.superblock.keys().saturating_add(frozen)
    }

    /// Whether it shows what is there now.
    #[inline]
    pub(crate) fn is_current(&self, shared: &Coordination) -> bool {
        let settled = match &self.frozen {
            Some(frozen) => frozen.number(),
            None => self.active.number(),
        };
        // A log that memory had no room for is settled without ever having been in a view: then the
        // superblock alone tells that the view is old.
        self.active.number() == shared.active()
            && settled == shared.settled()
            && self.superblock.generation >= settled
    }

    /// The view of these generations, from one before it and a superblock that was read after them;
    /// `None` if that one is older than they are. What the old view does not hold is looked for
    /// with `find`, and the layers with `map`.
    pub(crate) fn next(
        &self,
        active: u64,
        settled: u64,
        superblock: Superblock,
        find: impl Fn(u64) -> Result<Arc<Generation>>,
        map: impl FnOnce(&Superblock) -> Result<Mapped>,
    ) -> Result<Option<Self>> {
        if superblock.generation < settled {
            return Ok(None);
        }
        let find = |number: u64| {
            let mut held = [Some(&self.active), self.frozen.as_ref()]
                .into_iter()
                .flatten();
            match held.find(|held| held.number() == number) {
                Some(held) => Ok(Arc::clone(held)),
                None => find(number),
            }
        };
        let frozen = if settled < active {
            Some(find(settled)?)
        } else {
            None
        };
        let active = find(active)?;
        let (layers, sections) = map(&superblock)?;
        Ok(Some(Self {
            active,
            frozen,
            layers,
            sections,
            superblock,
        }))
    }

    /// Checks which generations the words name, after those of an older view. `active` was the same before
    /// and after `settled` was read.
    pub(crate) fn check_turn(&self, active: u64, settled: u64) -> Result<(), Wrong> {
        Wrong::unless_in("active", self.active.number()..=MAX_COUNTER, active)?;
        Wrong::unless_in("settled", active.saturating_sub(1)..=active, settled)
    }

    /// Checks the number of the last commit, by the holder of the writer lock: no more can have come since the
    /// superblock than the logs have room for.
    pub(crate) fn check_sequence(&self, shared: &Coordination) -> Result<u64, Wrong> {
        let logs = self.frozen.iter().chain([&self.active]);
        let bytes = logs.fold(0_u64, |sum, one| sum.saturating_add(one.buffer.tail().end));
        let least = self.superblock.commit_sequence;
        let most = least.saturating_add(bytes / LEAST_MARK);
        let got = shared.commit_sequence();
        Wrong::unless_in("commit sequence", least..=most.min(MAX_COUNTER - 1), got)?;
        Ok(got)
    }

    /// The sum of all words that change under the writer lock alone.
    #[inline]
    pub(crate) fn sum(&self, shared: &Coordination) -> u64 {
        let mut sum = Sum::default();
        shared.sum(&mut sum);
        self.active.buffer.sum(&mut sum);
        sum.value()
    }

    /// Leaves the sum for the next holder of the lock: by the holder before, or by who has opened the store
    /// first or gone on after a death.
    #[inline]
    pub(crate) fn leave_sum(&self, shared: &Coordination) {
        shared.set_seal(self.sum(shared));
    }
}

/// The view of an open store that is current, as far as its handle knows.
#[derive(Debug)]
pub(crate) struct ViewCell {
    pub(crate) cell: ArcSwap<View>,
    /// Held by the one thread that renews the view; in it, a generation that this handle has just
    /// made.
    pub(crate) renewal: Mutex<Option<Arc<Generation>>>,
    pub(crate) file: Arc<StoreFile>,
    pub(crate) handle: Arc<Handle>,
    pub(crate) shared: Arc<Coordination>,
}

impl ViewCell {
    /// The current view.
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
        let made = lock(&self.renewal);
        for _ in 0..ROUNDS {
            let old = self.cell.load_full();
            if old.is_current(&self.shared) {
                return Ok(());
            }
            let (active, settled) = (self.shared.active(), self.shared.settled());
            if active != self.shared.active() {
                continue;
            }
            if !self.shared.is_ended() {
                let checked = old.check_turn(active, settled);
                checked.map_err(|wrong| self.handle.distrust(wrong))?;
            }
            match self.try_renew(&old, made.as_ref(), active, settled) {
                Ok(Some(view)) => {
                    let current = view.is_current(&self.shared);
                    self.cell.store(Arc::new(view));
                    if current {
                        return Ok(());
                    }
                }
                Ok(None) => {}
                // The others went on, and what was looked for is gone.
                Err(_) if (active, settled) != (self.shared.active(), self.shared.settled()) => {}
                // So is the shared memory, with the last writer.
                Err(_) if self.shared.is_ended() => {}
                Err(error) => return Err(error),
            }
            if self.shared.is_ended() {
                return Ok(());
            }
            std::thread::yield_now();
        }
        let settled = self.shared.settled();
        let newest = self.file.read_meta()?.superblock.generation;
        // What is settled is in the newest superblock before it is told here.
        let told = Wrong::unless_in("settled", 0..=newest, settled);
        told.map_err(|wrong| self.handle.distrust(wrong))?;
        Err(Error::Busy {
            path: self.file.place.to_path_buf(),
            what: "other handles to go on",
            process: None,
        })
    }

    fn try_renew(
        &self,
        old: &View,
        made: Option<&Arc<Generation>>,
        active: u64,
        settled: u64,
    ) -> Result<Option<View>> {
        let superblock = self.file.read_meta()?.superblock;
        let find = |number: u64| match made.filter(|made| made.number() == number) {
            Some(made) => Ok(Arc::clone(made)),
            None => {
                let write = self.handle.access == Access::Shared;
                Generation::attach(&self.file.place, number, write).map(Arc::new)
            }
        };
        let map = |superblock: &Superblock| {
            map_all(&self.file.raw, &self.file.place, superblock, Some(old))
        };
        old.next(active, settled, superblock, find, map)
    }
}

/// Maps what a superblock names, keeping what an older view has mapped.
pub(crate) fn map_all(
    file: &Arc<dyn StorageFile>,
    path: &Path,
    superblock: &Superblock,
    old: Option<&View>,
) -> Result<Mapped> {
    let held = old.map_or(&[][..], |old| &old.layers);
    let layers = map_layers(&**file, path, superblock, held)?;
    let held = old.map(|old| &old.sections);
    Ok((layers, SectionSet::of(file, path, superblock, held)?))
}

fn map_layers(
    file: &dyn StorageFile,
    path: &Path,
    superblock: &Superblock,
    held: &[Arc<LayerPages>],
) -> Result<Vec<Arc<LayerPages>>> {
    let mut layers = Vec::with_capacity(superblock.layers.len());
    for (index, layer) in (0_u32..).zip(&superblock.layers) {
        let pages = match held.get(index as usize) {
            Some(pages) => Arc::clone(pages),
            None => Arc::new(
                LayerPages::map(index, layer, file)
                    .map_err(|error| Error::io("map a layer of", path, error))?,
            ),
        };
        pages.update(layer);
        layers.push(pages);
    }
    Ok(layers)
}
