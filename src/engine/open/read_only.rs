//! Opening a store for reading: beside its writers, or with what is there.

use std::path::Path;
use std::sync::Arc;

use crate::config::open_options::OpenOptions;
use crate::engine::open::attach::{attach_all, expect_same};
use crate::engine::open::close::Session;
use crate::engine::open::handle::{Arrival, Opening, check_exists};
use crate::engine::open::recover::recover;
use crate::engine::open::recovered_log::RecoveredLog;
use crate::engine::recovery_report::RecoveryReport;
use crate::error::{Error, Result};
use crate::filter::checkpoint::writes_of;
use crate::generation::Generation;
use crate::generation::buffer_pool::make_buffer;
use crate::memtable;
use crate::page_io::map_error::MapError;
use crate::shm::coordination::Coordination;
use crate::shm::handle::Access;
use crate::shm::locks::{Intention, OpenCloseLock, Others, locked};
use crate::shm::place::Place;
use crate::storefile::meta::read_meta_of;
use crate::storefile::unfinished::identify_store;
use crate::sys::wait_until;

pub(crate) fn open_read_only(options: &OpenOptions, path: &Path) -> Result<Session> {
    check_exists(options, path)?;
    let place = Place::of_existing(path)?;
    open_at(options, &place, true)
}

/// Opens the store at a place that was resolved before. `waits` says whether to wait as long as a death takes for a
/// handle that has the store exclusively.
pub(crate) fn open_at(options: &OpenOptions, place: &Place, waits: bool) -> Result<Session> {
    let options = options.within(place);
    let gate = OpenCloseLock::enter(place, Intention::Read, options.timeout)?;
    let locks = gate.locks(place, Intention::Read)?;
    let (file, meta) = identify_store(&options, place, false)?;
    expect_same(&*file, place, &gate)?;
    let opening = Opening {
        options: &options.fit_for_reading(meta.superblock.filter_bytes()),
        place,
        locks: &locks,
        file,
        meta,
    };
    let mut watched = Err(locked(place).into());
    wait_until(options.timeout.min(options.dying), || {
        watched = opening.watch();
        let may_pass = match &watched {
            Err(MapError::Failed(Error::Locked { .. })) => waits,
            Err(MapError::Failed(error)) => {
                matches!(error, Error::OtherName { .. } | Error::OtherLayout { .. })
            }
            Err(MapError::Stale { .. }) => true,
            Ok(_) => false,
        };
        Ok::<_, Error>(!may_pass)
    })?;
    match watched? {
        Some(store) => Ok(store),
        None => Ok(opening.snapshot()?),
    }
}

impl Opening<'_> {
    /// Opens for reading what other handles write. Returns `None` if no handle has the store open for writing, or if
    /// the shared memory can't be read.
    fn watch(&self) -> Result<Option<Session>, MapError> {
        let path = self.place;
        let id = &self.meta.header.store_id;
        match self.locks.others()? {
            Others::None => return Ok(None),
            // Its writes go to private memory.
            Others::Alone => return Err(locked(path).into()),
            Others::Shared => {}
        }
        let shared = Coordination::open(path, id, self.locks.id(), false)
            .map_err(|unfit| unfit.error(path))?;
        let (active, sealed, meta) =
            attach_all(path, &*self.file, &shared, self.key_model(), false)?;
        let again = Opening {
            options: self.options,
            place: path,
            locks: self.locks,
            file: Arc::clone(&self.file),
            meta,
        };
        let engine = again.assemble(Arrival {
            access: Access::Watching,
            handle: 0,
            shared,
            active,
            sealed,
            held: None,
            recovery: RecoveryReport::joined(),
        })?;
        engine.views.renew()?;
        Ok(Some(Session::of(engine)))
    }

    /// Opens for reading what is there now.
    /// The caller holds the open-close lock.
    fn snapshot(mut self) -> Result<Session, MapError> {
        let path = self.place;
        // A writer that was there when it was read may have gone on, and died.
        self.meta = read_meta_of(&*self.file, path)?;
        let mut recovered = recover(self.options, path, &self.meta, false)?;
        let shared = Coordination::private()
            .map_err(|error| Error::io("reserve memory for", path, error))?;
        let found = recovered.sealed.iter().chain(&recovered.active);
        let keys = found.map(|found| found.scan.committed_keys);
        let sizes = self.options.buffer_sizes(writes_of(&self.meta.header));
        let most = keys.max().unwrap_or(0);
        self.begin_words(&shared, &recovered, sizes);
        let load = |found: Option<&mut RecoveredLog>| match found {
            // A read-only handle can't empty a log into the pages, so the log must fit in memory.
            Some(found) => match self.load(found, false, sizes)? {
                None => Err(self.too_small_for(most)),
                loaded => Ok(loaded),
            },
            None => Ok(None),
        };
        let sealed = load(recovered.sealed.as_mut())?;
        let active = match load(recovered.active.as_mut())? {
            Some(active) => active,
            None => {
                let memory = make_buffer(path, false, sizes.least, recovered.number)?;
                Generation::new(memory.holding(self.key_model()))
            }
        };
        let recovery = recovered.report(&self.meta);
        let engine = self.assemble(Arrival {
            access: Access::Snapshot,
            handle: 0,
            shared,
            active,
            sealed,
            held: None,
            recovery,
        })?;
        Ok(Session::of(engine))
    }

    fn too_small_for(&self, keys: u64) -> Error {
        let least = memtable::bytes_for(keys) / 7 * 16 + 4096;
        Error::InvalidOption {
            option: "buffer",
            expected: format!("at least {least} bytes, for the {keys} keys of the log"),
            got: self.options.buffer.to_string(),
        }
    }
}
