//! Opening a store.

use std::path::Path;
use std::sync::Arc;

use crate::config::buffer_growth::SizeRule;
use crate::config::memory_budget::{bytes_for_log, room_for};
use crate::config::open_options::OpenOptions;
use crate::engine::open::attach::{Part, attach_all, expect_same, find_part, refuse_other_names};
use crate::engine::open::close::Session;
use crate::engine::open::recover::{Recovered, Resumption, make_superblock_durable, recover};
use crate::engine::open::recovered_log::RecoveredLog;
use crate::engine::recovery_report::RecoveryReport;
use crate::engine::view::View;
use crate::engine::view::map_all;
use crate::engine::write::Writer;
use crate::engine::{Engine, Parts};
use crate::error::{Error, Result};
use crate::file::draft_mark;
use crate::filter::checkpoint::writes_of;
use crate::filter::replay as filter;
use crate::filter::{PendingFilter, has_segments};
use crate::generation::Generation;
use crate::generation::buffer_pool::{lacks_room, reserve_buffer};
use crate::page::KeyModel;
use crate::page_io::map_error::MapError;
use crate::shm::buffer_sizes::BufferSizes;
use crate::shm::coordination::{Coordination, shared_path};
use crate::shm::handle::Access;
use crate::shm::handle::Held;
use crate::shm::legacy_locks::take_over;
use crate::shm::locks::{HandleSlotLease, Intention, OpenCloseLock, PresenceLock, StoreLocks};
use crate::shm::map_lease::MapLease;
use crate::shm::place::{Place, refuse_dangling};
use crate::shm::shm_files::clear_shared_memory;
use crate::storefile::file_watch::FileWatch;
use crate::storefile::leftovers::remove_abandoned_drafts;
use crate::storefile::meta::{Meta, read_meta_of, room_after};
use crate::storefile::unfinished::identify_store;
use crate::sys::storage::StorageFile;
use crate::wal::file::sync_parent;

pub(crate) fn open(options: &OpenOptions, path: &Path) -> Result<Session> {
    check_exists(options, path)?;
    let place = Place::of_existing(path)?;
    let gate = OpenCloseLock::enter(&place, Intention::Write, options.timeout)?;
    remove_abandoned_drafts(&place);
    // Other handles' checkpoints may write over what this one is just reading. Each time that takes two of
    // them, or two steps of one.
    for _ in 0..MOST_OVERTAKINGS {
        match open_inside(options, &place, &gate) {
            Err(MapError::Stale { .. }) => {}
            outcome => return Ok(outcome?),
        }
    }
    Ok(open_inside(options, &place, &gate)?)
}

/// How often opening begins again because it was overtaken.
const MOST_OVERTAKINGS: u32 = 100;

/// Opens for writing. The caller holds the open/close lock.
pub(crate) fn open_inside(
    options: &OpenOptions,
    place: &Place,
    gate: &OpenCloseLock,
) -> Result<Session, MapError> {
    let place = place.with_owner(Some(gate.state.owner))?;
    let options = options.within(&place);
    let locks = gate.locks(&place, Intention::Write)?;
    let (file, meta) = identify_store(&options, &place, true)?;
    expect_same(&*file, &place, gate)?;
    refuse_other_names(&place, gate)?;
    let part = find_part(&options, &place, &locks, &meta.header.store_id)?;
    // Read it again: handles that were there have gone on meanwhile.
    let mut meta = read_meta_of(&*file, &place)?;
    meta.expect_writable(&place)?;
    if let Part::First(_) = part
        && !meta.header.locks_itself
    {
        take_over(&place, &*file, &mut meta.header)?;
    }
    let opening = Opening {
        options: &options.fit(&place, meta.superblock.filter_bytes()),
        place: &place,
        locks: &locks,
        file,
        meta,
    };
    match part {
        Part::Joining(presence, shared) => opening.join(gate, presence, shared),
        Part::First(alone) if options.exclusive => {
            opening.first(Access::Alone, |_, _| Ok((None, alone)))
        }
        Part::First(alone) => opening.first(Access::Shared, |shared, handle| {
            let lease = HandleSlotLease::among(&locks, shared, handle)?;
            alone.share()?;
            Ok((Some(lease), alone))
        }),
    }
}

/// What a handle needs to open, whichever way it joins.
pub(super) struct Arrival {
    pub(super) access: Access,
    pub(super) handle: u64,
    pub(super) shared: Coordination,
    pub(super) active: Generation,
    pub(super) sealed: Option<Generation>,
    pub(super) held: Option<Held>,
    pub(super) recovery: RecoveryReport,
}

pub(super) struct Opening<'a> {
    pub(super) options: &'a OpenOptions,
    pub(super) place: &'a Place,
    pub(super) locks: &'a StoreLocks,
    pub(super) file: Arc<dyn StorageFile>,
    pub(super) meta: Meta,
}

impl Opening<'_> {
    /// Opens as the first handle: recovers, and creates the shared memory.
    fn first(
        self,
        access: Access,
        hold: impl FnOnce(&Coordination, u64) -> Result<(Option<HandleSlotLease>, PresenceLock)>,
    ) -> Result<Session, MapError> {
        let (place, id) = (self.place, self.meta.header.store_id);
        let opened = self.recover(access, hold);
        if opened.is_err() {
            // No handle has joined. Files that can't be removed are not trusted by the next opener.
            let _ = clear_shared_memory(place, Some(&id));
        }
        opened
    }

    fn recover(
        mut self,
        access: Access,
        hold: impl FnOnce(&Coordination, u64) -> Result<(Option<HandleSlotLease>, PresenceLock)>,
    ) -> Result<Session, MapError> {
        let path = self.place;
        let is_shared = access == Access::Shared;
        clear_shared_memory(path, Some(&self.meta.header.store_id))?;
        // Recovery has just relied on what a killed process left in the page cache: the superblock, and the names of
        // store and logs. None of it may be lost in a power cut once the files it made obsolete are removed.
        make_superblock_durable(self.options, path, &*self.file, &self.meta)?;
        filter::repair_reused(&*self.file, path, &self.meta.superblock)?;
        sync_parent(&*self.options.storage, path)?;
        clear_draft_mark(&*self.file, path)?;
        let mut recovered = recover(self.options, path, &self.meta, true)?;
        recovered.expect_counters_left(path)?;
        self.expect_logs(&recovered)?;
        let shared = make_shared_memory(path, is_shared)?;
        let (sizes, bytes) = self.buffer_sizes();
        let sealed = match &mut recovered.sealed {
            Some(found) => self.load(found, is_shared, sizes)?,
            None => None,
        };
        let active = match &mut recovered.active {
            Some(found) => self.load(found, is_shared, sizes)?,
            None => {
                let memory = reserve_buffer(path, is_shared, bytes, recovered.number)?;
                Some(Generation::new(memory.holding(self.key_model())))
            }
        };
        self.begin_words(&shared, &recovered, sizes);
        let handle = shared.new_handle();
        let (lease, presence) = hold(&shared, handle)?;
        let lease = lease.unwrap_or_else(|| HandleSlotLease::alone(&shared, handle));
        let overflow = active.is_none() || (sealed.is_none() && recovered.sealed.is_some());
        let active = match active {
            Some(active) => active,
            // Its keys go from the log into the pages before any handle looks for them.
            None => self.empty_generation(&recovered, is_shared, bytes)?,
        };
        let held = Some(Held { presence, lease });
        let recovery = recovered.report(&self.meta);
        let engine = self.assemble(Arrival {
            access,
            handle,
            shared,
            active,
            sealed,
            held,
            recovery,
        })?;
        Resumption::of(&engine).resume(recovered, overflow)?;
        engine.shared.set_ready();
        Ok(Session::of(engine))
    }

    /// Returns the sizes of the session's buffers, and that of its first.
    fn buffer_sizes(&self) -> (BufferSizes, u64) {
        let writes = writes_of(&self.meta.header);
        let sizes = self.options.buffer_sizes(writes);
        let first = SizeRule::of(self.options, writes).first_bytes(sizes);
        (sizes, first)
    }

    /// Returns what the store knows of a key.
    pub(super) fn key_model(&self) -> KeyModel {
        self.meta.header.key_model()
    }

    /// Returns a generation with the keys of a log in its buffer; `None` if there is no memory for one that is large
    /// enough.
    pub(super) fn load(
        &self,
        found: &mut RecoveredLog,
        is_shared: bool,
        sizes: BufferSizes,
    ) -> Result<Option<Generation>> {
        let room = room_for(self.place, is_shared);
        let bytes = bytes_for_log(sizes, found.scan.committed_keys, room);
        let mut load = |bytes| found.load(&self.meta, self.place, is_shared, bytes);
        match load(bytes) {
            // The system had less than it said.
            Err(error) if bytes > sizes.least && lacks_room(&error) => load(sizes.least),
            outcome => outcome,
        }
    }

    /// Records in the superblock that there is a log, before anything is appended to a log whose creator died before
    /// recording it.
    fn expect_logs(&mut self, recovered: &Recovered) -> Result<()> {
        let found = recovered.sealed.is_some() || recovered.active.is_some();
        let superblock = &mut self.meta.superblock;
        if found && !superblock.log_expected {
            superblock.sequence += 1;
            superblock.log_expected = true;
            let header = &self.meta.header;
            crate::storefile::store_file::write_superblock(
                &*self.file,
                self.place,
                header,
                superblock,
            )?;
        }
        Ok(())
    }

    /// Joins other handles, which maintain the shared memory.
    fn join(
        self,
        _gate: &OpenCloseLock,
        presence: PresenceLock,
        shared: Coordination,
    ) -> Result<Session, MapError> {
        let path = self.place;
        let handle = shared.new_handle();
        let checked = shared.check_handle(handle);
        checked.map_err(|wrong| wrong.at(path))?;
        let lease = HandleSlotLease::among(self.locks, &shared, handle)?;
        let attached = attach_all(path, &*self.file, &shared, self.key_model(), true);
        let (active, sealed, meta) = attached.inspect_err(|_| {
            // Nothing was claimed, and the open-close lock is still held.
            shared.slot(lease.index).set_handle(0);
        })?;
        let held = Some(Held { presence, lease });
        let joined = Opening { meta, ..self };
        let engine = joined.assemble(Arrival {
            access: Access::Shared,
            handle,
            shared,
            active,
            sealed,
            held,
            recovery: RecoveryReport::joined(),
        })?;
        if let Err(error) = Self::begin_among_others(&engine) {
            engine.shared.slot(engine.handle.slot).set_handle(0);
            return Err(error.into());
        }
        Ok(Session::of(engine))
    }

    fn begin_among_others(engine: &Engine) -> Result<()> {
        engine.views.renew()?;
        // Handles that have died since are noticed now, and a checkpoint that died with one continues.
        Writer::of(engine).lock()?.reap_dead_handles()?;
        match engine.shared.checkpointed() < engine.shared.active() {
            true => Resumption::of(engine).resume_checkpoint(),
            false => Ok(()),
        }
    }

    pub(super) fn begin_words(
        &self,
        shared: &Coordination,
        recovered: &Recovered,
        sizes: BufferSizes,
    ) {
        shared.set_commit_sequence(recovered.commit_sequence);
        shared.set_writers_bytes(recovered.writers_bytes);
        shared.set_next_handle(recovered.next_handle);
        if let Some(found) = &recovered.sealed
            && let Some(intent) = &self.meta.intent
            && intent.generation == found.log.generation
        {
            shared.set_torn(intent.pages.clone());
        }
        let checkpointed = recovered.number - u64::from(recovered.sealed.is_some());
        // The superblock says which log is due, and what is settled is what it says (I9).
        assert_eq!(checkpointed, self.meta.superblock.generation);
        let id = &self.meta.header.store_id;
        shared.raise_clock(recovered.clock.max(self.meta.superblock.clock));
        let numbers = (recovered.number, checkpointed);
        shared.begin(id, self.locks.id(), sizes, numbers);
    }

    /// Returns a generation for a log whose keys do not fit in its buffer.
    fn empty_generation(
        &self,
        recovered: &Recovered,
        is_shared: bool,
        bytes: u64,
    ) -> Result<Generation> {
        let memory = reserve_buffer(self.place, is_shared, bytes, recovered.number)?;
        let generation = Generation::new(memory.holding(self.key_model()));
        if let Some(found) = &recovered.active {
            generation.adopt_log(Arc::clone(&found.log), found.scan.end);
        }
        let room = room_after(&self.meta.header, &self.meta.superblock, None);
        generation.buffer.set_room(room);
        Ok(generation)
    }

    pub(super) fn assemble(self, arrival: Arrival) -> Result<Arc<Engine>, MapError> {
        let superblock = self.meta.superblock;
        let header = &self.meta.header;
        // A map that reaches beyond the end of a file that became shorter would be a fault.
        let lease = match has_segments(header) {
            true => Some(MapLease::take(self.locks)?),
            false => None,
        };
        let of_file = (&superblock, header);
        let mapped = map_all(
            &self.file,
            self.place,
            of_file,
            None,
            &PendingFilter::none(self.options),
        )?;
        let reads = matches!(arrival.access, Access::Watching | Access::Snapshot);
        let watch = match reads {
            true => Some(watch_of(&self.file, self.place, &arrival)?),
            false => None,
        };
        let reading = if reads {
            self.locks.tell_reading()?
        } else {
            None
        };
        // Two handles with one number would commit each other's keys (I12). A draft has none.
        assert_eq!(arrival.held.is_none(), arrival.handle == 0);
        Ok(Engine::new(Parts {
            place: self.place.clone(),
            locks: self.locks.clone(),
            reading,
            options: self.options.clone(),
            header: self.meta.header,
            view: View {
                active: Arc::new(arrival.active),
                sealed: arrival.sealed.map(Arc::new),
                filter: mapped.filter,
                sections: mapped.sections,
                lease,
                superblock,
                clock: None,
            },
            file: self.file,
            watch,
            access: arrival.access,
            handle: arrival.handle,
            shared: arrival.shared,
            held: arrival.held,
            recovery: arrival.recovery,
        }))
    }
}

/// Returns what a handle that reads keeps of its file. The caller holds the open-close lock.
fn watch_of(file: &Arc<dyn StorageFile>, place: &Place, arrival: &Arrival) -> Result<FileWatch> {
    let mut watch = FileWatch::of(file, place)?;
    let active = &arrival.active;
    if arrival.access == Access::Snapshot
        && let Some(log) = active.recovered_log()
    {
        watch.note_log(log, active.log_end().end)?;
    }
    Ok(watch)
}

/// Takes the mark of a draft from a store, whose name is durable: after a power cut it can't be back under the other one.
fn clear_draft_mark(file: &dyn StorageFile, path: &Path) -> Result<()> {
    let cleared = draft_mark::clear(file);
    cleared.map_err(|error| Error::io("take the mark of a draft from", path, error))?;
    Ok(())
}

fn make_shared_memory(place: &Place, is_shared: bool) -> Result<Coordination> {
    match is_shared {
        true => Coordination::create(place)
            .map_err(|error| Error::io("create shared memory", &shared_path(place), error)),
        false => {
            Coordination::private().map_err(|error| Error::io("reserve memory for", place, error))
        }
    }
}

pub(crate) fn check_exists(options: &OpenOptions, path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(Error::IsFolder {
            path: path.to_owned(),
        });
    }
    refuse_dangling(path)?;
    let exists = options.storage.exists(path);
    if !exists.map_err(|error| Error::io("look for", path, error))? {
        return Err(Error::NotFound {
            path: path.to_owned(),
        });
    }
    Ok(())
}
