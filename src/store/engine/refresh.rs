//! Keeping a handle's view up with what other handles do.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::buffer::{Buffer, Wrong};
use crate::error::{Error, Result};
use crate::file::{LayerPages, Superblock};
use crate::log::LogFile;
use crate::store::coordination::locks::{DYING, lock_error, locked};
use crate::store::coordination::place::Place;
use crate::store::coordination::shm::{Coordination, shared_path};
use crate::store::engine::{Access, Engine, View};
use crate::store::generation::buffer_pool::remove_spare;
use crate::store::generation::{Generation, buffer_path};
use crate::store::storefile::meta::read_identity;
use crate::store::view::section_set::KeptAll;
use crate::sys::storage::StorageFile;
use crate::sys::{Folder, lock, wait_until};

/// What is mapped of a store file: its layers and its sections.
pub(crate) type Mapped = (Vec<Arc<LayerPages>>, KeptAll);

/// How often a renewal begins again because others went on meanwhile.
const ROUNDS: usize = 1000;

impl View {
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
        let (layers, kept) = map(&superblock)?;
        Ok(Some(Self {
            active,
            frozen,
            layers,
            kept,
            superblock,
        }))
    }
}

impl Engine {
    /// Whether the view shows what is there now. An old one shows what was there when it was made.
    #[inline]
    pub(crate) fn is_current(&self, view: &View) -> bool {
        view.is_current(&self.shared)
    }

    /// The current view.
    #[inline]
    pub(crate) fn view(&self) -> Result<arc_swap::Guard<Arc<View>>> {
        let view = self.view.load();
        if self.is_current(&view) {
            return Ok(view);
        }
        drop(view);
        self.renew()?;
        Ok(self.view.load())
    }

    /// Makes the view current.
    #[cold]
    pub(crate) fn renew(&self) -> Result<()> {
        let made = lock(&self.renewal);
        for _ in 0..ROUNDS {
            let old = self.view.load_full();
            if self.is_current(&old) {
                return Ok(());
            }
            let (active, settled) = (self.shared.active(), self.shared.settled());
            if active != self.shared.active() {
                continue;
            }
            if !self.shared.is_ended() {
                let checked = Self::check_turn(&old, active, settled);
                checked.map_err(|wrong| self.distrust(wrong))?;
            }
            match self.try_renew(&old, made.as_ref(), active, settled) {
                Ok(Some(view)) => {
                    let current = self.is_current(&view);
                    self.view.store(Arc::new(view));
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
        let newest = read_identity(&*self.file, &self.place)?
            .superblock
            .generation;
        // What is settled is in the newest superblock before it is told here.
        let told = Wrong::unless_in("settled", 0..=newest, settled);
        told.map_err(|wrong| self.distrust(wrong))?;
        Err(Error::Busy {
            path: self.place.to_path_buf(),
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
        let superblock = read_identity(&*self.file, &self.place)?.superblock;
        let find = |number: u64| match made.filter(|made| made.number() == number) {
            Some(made) => Ok(Arc::clone(made)),
            None => {
                let write = self.access == Access::Shared;
                Generation::attach(&self.place, number, write).map(Arc::new)
            }
        };
        let map = |superblock: &Superblock| map_all(&self.file, &self.place, superblock, Some(old));
        old.next(active, settled, superblock, find, map)
    }

    /// A buffer for a new generation, where the others can open it.
    pub(crate) fn make_buffer(&self, number: u64, bytes: u64) -> Result<Buffer> {
        if let Some(spare) = self.take_spare(number, bytes) {
            return Ok(spare);
        }
        make_buffer(&self.place, self.access == Access::Shared, bytes, number)
    }

    /// Makes a buffer without a key ready for many.
    pub(crate) fn fill_buffer(&self, generation: &Generation) -> Result<()> {
        if self.access != Access::Shared {
            return Ok(());
        }
        generation.buffer.fill().map_err(|error| {
            let path = buffer_path(&self.place, generation.number());
            let bytes = self.shared.buffer_bytes();
            no_buffer("make room in the write buffer", &path, bytes, error)
        })
    }

    /// The log of a generation.
    pub(crate) fn log_of<'a>(&self, generation: &'a Generation) -> Result<&'a Arc<LogFile>> {
        generation.log(|| {
            let storage = &*self.options.storage;
            let id = &self.header.store_id;
            let number = generation.number();
            let opened = LogFile::open(storage, &self.place, id, number, self.writes())?;
            opened.ok_or_else(|| Error::Log {
                path: crate::log::log_path(&self.place, number),
                source: crate::log::LogError::Missing { generation: number },
            })
        })
    }
}

/// A buffer for a generation that has no log yet, made without delay: its first log fills it.
pub(crate) fn reserve_buffer(
    store: &Place,
    shared: bool,
    bytes: u64,
    number: u64,
) -> Result<Buffer> {
    new_buffer(store, shared, bytes, number, Buffer::reserve)
}

/// A buffer for a generation, ready for many keys.
pub(crate) fn make_buffer(store: &Place, shared: bool, bytes: u64, number: u64) -> Result<Buffer> {
    new_buffer(store, shared, bytes, number, Buffer::create)
}

/// A buffer of this process, or in a file that `make` makes; what an earlier one left under its name
/// is removed.
fn new_buffer(
    store: &Place,
    shared: bool,
    bytes: u64,
    number: u64,
    make: fn(&Folder, &Path, u64, u64) -> io::Result<Buffer>,
) -> Result<Buffer> {
    if !shared {
        let made = Buffer::private(bytes, number);
        return made.map_err(|error| Error::io("reserve memory for", store, error));
    }
    let path = buffer_path(store, number);
    remove_if_there(store, &path)?;
    let made = make(store.folder(), &path, bytes, number);
    made.map_err(|error| no_buffer("make the write buffer", &path, bytes, error))
}

/// Why there is no buffer of so many bytes.
fn no_buffer(action: &'static str, path: &Path, bytes: u64, error: io::Error) -> Error {
    match Error::io(action, path, error) {
        // The words alone that the last one out needs are no buffer.
        Error::NoSpace { path, .. } if bytes > 0 => Error::NoRoomForBuffer { path, bytes },
        other => other,
    }
}

/// Removes a file of the shared memory. Those hold nothing that must be durable.
pub(crate) fn remove_if_there(store: &Place, path: &Path) -> Result<()> {
    match store.folder().remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove old shared memory", path, error))
        }
        _ => Ok(()),
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
    let held = old.map(|old| &old.kept);
    Ok((layers, KeptAll::of(file, path, superblock, held)?))
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

/// Removes what an earlier session's processes left: it is never believed. For the first one in, whom nobody can
/// have joined.
///
/// # Errors
/// [`Error::Locked`] if handles use it that have another file open, which had this name before.
pub(crate) fn clear_shared_memory(place: &Place, store_id: Option<&[u8; 16]>) -> Result<()> {
    refuse_used(place)?;
    let words = shared_path(place);
    if let Some(id) = store_id
        && let Ok(left) = Coordination::look(place, id, true)
    {
        // Readers may be watching what died without a word.
        left.set_ended();
    }
    remove_if_there(place, &words)?;
    for number in place.numbers("-shm.")? {
        let path = buffer_path(place, number);
        if place.is_ours(&path, number)? {
            remove_if_there(place, &path)?;
        }
    }
    remove_spare(place)
}

/// Refuses a name whose shared memory is in use, and so perhaps its logs: by handles of a file that had this name
/// before.
///
/// # Errors
/// [`Error::Locked`].
pub(crate) fn refuse_used(place: &Place) -> Result<()> {
    let words = shared_path(place);
    let mut in_use = false;
    // A killed process lets go of its files one after the other.
    wait_until(DYING, || {
        in_use = Coordination::is_used_by_anybody(place)?;
        Ok(!in_use)
    })
    .map_err(lock_error(&words))?;
    match in_use {
        true => Err(locked(place)),
        false => Ok(()),
    }
}
