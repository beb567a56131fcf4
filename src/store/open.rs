//! Opening a store.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::coordination::{Coordination, shared_path};
use super::create::beside;
use super::engine::{Access, Engine, Held, Parts, View};
use super::generation::Generation;
use super::identity::{Identity, identify, read_identity};
use super::locks::{Gate, Presence, Seat, lock_error, revoke_bias};
use super::recover::{Found, Recovered, make_superblock_durable, recover};
use super::report::RecoveryReport;
use super::rotate::room_after;
use super::view::{clear_shared_memory, make_buffer, map_all, reserve_buffer};
use super::{Options, Store};
use crate::buffer;
use crate::error::{Error, Result};
use crate::file::FormatError;
use crate::log::file::sync_parent;
use crate::sys::storage::StorageFile;
use crate::sys::{LockFile, wait_until};

pub(crate) fn open(options: &Options, path: &Path) -> Result<Store> {
    check_exists(options, path)?;
    let gate = Gate::enter(path, true, options.timeout)?;
    open_inside(options, path, &gate)
}

/// How a handle comes in.
enum Part {
    /// Nobody else is there.
    First(Presence),
    /// Beside others, whose shared memory it is.
    Joining(Presence, Coordination),
}

/// Opens for writing, inside the gate.
pub(crate) fn open_inside(options: &Options, path: &Path, gate: &Gate) -> Result<Store> {
    let (file, identity) = identify(options, path, true)?;
    let part = find_part(options, path, &identity.header.store_id)?;
    // Read again: those who were there have gone on meanwhile.
    let identity = read_identity(&*file, path)?;
    if identity.header.read_only_compatible != 0 {
        let unknown = identity.header.read_only_compatible;
        return Err(Error::Format {
            path: path.to_owned(),
            source: FormatError::ReadOnlyFeatures { unknown },
        });
    }
    let opening = Opening {
        options: &options.fit_beside(path, identity.superblock.end_offset()),
        path,
        file,
        identity,
    };
    match part {
        Part::Joining(presence, shared) => opening.join(gate, presence, shared),
        Part::First(alone) if options.exclusive => {
            opening.first(Access::Alone, |_, _| Ok((None, alone)))
        }
        Part::First(alone) => opening.first(Access::Shared, |shared, handle| {
            let seat = Seat::among(path, shared, handle)?;
            // Not converted, which is not one step, but let go and joined: the gate keeps others
            // out.
            drop(alone);
            let presence = Presence::join(path)?.ok_or_else(|| locked(path))?;
            Ok((Some(seat), presence))
        }),
    }
}

pub(crate) fn locked(path: &Path) -> Error {
    Error::Locked {
        path: beside(path, "-lock"),
    }
}

/// How long a lock that shuts everybody out is asked for again: a process that is killed lets go of
/// its locks one after the other, and of the gate perhaps first.
const DYING: Duration = Duration::from_secs(1);

/// Finds out whether this handle is the first. Waits for those who are about to go: handles that
/// can't go on after a failed write, and a process that is dying.
fn find_part(options: &Options, path: &Path, store_id: &[u8; 16]) -> Result<Part> {
    let (mut found, mut refused) = (None, false);
    let begun = Instant::now();
    wait_until(options.timeout, || {
        if let Some(alone) = Presence::alone(path)? {
            found = Some(Part::First(alone));
            return Ok(true);
        }
        let presence = Presence::join(path)?;
        let (Some(presence), false) = (presence, options.exclusive) else {
            refused = true;
            return match begun.elapsed() < DYING {
                true => Ok(false),
                false => Err(locked(path)),
            };
        };
        refused = false;
        match Coordination::open(&shared_path(path), store_id, true) {
            Ok(shared) if shared.is_joinable() => {
                found = Some(Part::Joining(presence, shared));
                Ok(true)
            }
            Err(unfit) if unfit.is_other() && begun.elapsed() >= DYING => {
                Err(unfit.error(&shared_path(path)))
            }
            _ => Ok(false),
        }
    })?;
    match found {
        Some(part) => Ok(part),
        None if refused => Err(locked(path)),
        None => Err(Error::Busy {
            path: path.to_owned(),
            what: "handles to close that can't go on after a failed write",
            process: None,
        }),
    }
}

pub(crate) fn open_read_only(options: &Options, path: &Path) -> Result<Store> {
    check_exists(options, path)?;
    // A store that was copied alone has no lock files, and a reader may be unable to make them:
    // then nobody can have it open for writing who could not as well make them.
    let gate = match Gate::enter(path, false, options.timeout) {
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
        Ok(gate) => Some(gate),
    };
    let (file, identity) = identify(options, path, false)?;
    let opening = Opening {
        options: &options.fit(identity.superblock.end_offset(), u64::MAX),
        path,
        file,
        identity,
    };
    if gate.is_some() {
        let mut watched = Err(locked(path));
        wait_until(options.timeout.min(DYING), || {
            watched = opening.watch();
            use Error::{Locked, OtherLayout};
            Ok::<_, Error>(!matches!(watched, Err(Locked { .. } | OtherLayout { .. })))
        })?;
        if let Some(store) = watched? {
            return Ok(store);
        }
    }
    opening.snapshot()
}

/// What a handle brings along, however it came in.
struct Arrival {
    access: Access,
    handle: u64,
    shared: Coordination,
    active: Generation,
    frozen: Option<Generation>,
    writer_lock: Option<LockFile>,
    biased: bool,
    held: Option<Held>,
    recovery: RecoveryReport,
}

struct Opening<'a> {
    options: &'a Options,
    path: &'a Path,
    file: Arc<dyn StorageFile>,
    identity: Identity,
}

impl Opening<'_> {
    /// Opens as the first: recovers, and makes the shared memory.
    fn first(
        self,
        access: Access,
        hold: impl FnOnce(&Coordination, u64) -> Result<(Option<Seat>, Presence)>,
    ) -> Result<Store> {
        let (path, id) = (self.path, self.identity.header.store_id);
        let opened = self.recover(access, hold);
        if opened.is_err() {
            // Nobody has joined. What can't be removed is not believed by the next.
            let _ = clear_shared_memory(path, &id);
        }
        opened
    }

    fn recover(
        mut self,
        access: Access,
        hold: impl FnOnce(&Coordination, u64) -> Result<(Option<Seat>, Presence)>,
    ) -> Result<Store> {
        let path = self.path;
        let is_shared = access == Access::Shared;
        clear_shared_memory(path, &self.identity.header.store_id)?;
        // What a killed process left in the page cache has just been believed: the superblock,
        // and the names of store and logs. None of it may be gone after a power cut, when what
        // it made obsolete has been removed.
        make_superblock_durable(self.options, path, &*self.file, &self.identity)?;
        sync_parent(&*self.options.storage, path)?;
        let mut recovered = recover(self.options, path, &self.identity, true)?;
        self.expect_logs(&recovered)?;
        let words = shared_path(path);
        let shared = if is_shared {
            Coordination::create(&words)
                .map_err(|error| Error::io("make shared memory", &words, error))?
        } else {
            Coordination::private().map_err(|error| Error::io("reserve memory for", path, error))?
        };
        let bytes = self.options.buffer_bytes();
        let frozen = match &mut recovered.frozen {
            Some(found) => found.load(&self.identity, path, is_shared, bytes)?,
            None => None,
        };
        let active = match &mut recovered.active {
            Some(found) => found.load(&self.identity, path, is_shared, bytes)?,
            None => {
                let memory = reserve_buffer(path, is_shared, bytes, recovered.number)?;
                Some(Generation::new(memory))
            }
        };
        self.begin_words(&shared, &recovered, bytes);
        let handle = shared.new_handle();
        let (seat, presence) = hold(&shared, handle)?;
        let seat = match seat {
            Some(seat) => seat,
            None => Seat::alone(&shared, handle),
        };
        let overflow = active.is_none() || (frozen.is_none() && recovered.frozen.is_some());
        let active = match active {
            Some(active) => active,
            // Its keys go from the log into the pages before anybody looks for them.
            None => self.empty_generation(&recovered, is_shared, bytes)?,
        };
        let writer_lock = if is_shared {
            Some(LockFile::open(&words).map_err(lock_error(&words))?)
        } else {
            None
        };
        let held = Some(Held { presence, seat });
        let recovery = RecoveryReport::of(&recovered, &self.identity);
        let engine = self.assemble(Arrival {
            access,
            handle,
            shared,
            active,
            frozen,
            writer_lock,
            biased: is_shared,
            held,
            recovery,
        })?;
        engine.resume(recovered, overflow)?;
        engine.shared.set_ready();
        Ok(Store { engine })
    }

    /// Tells in the superblock that there is a log before anything is added to one whose maker died
    /// before it told.
    fn expect_logs(&mut self, recovered: &Recovered) -> Result<()> {
        let found = recovered.frozen.is_some() || recovered.active.is_some();
        let superblock = &mut self.identity.superblock;
        if found && !superblock.log_expected {
            superblock.sequence += 1;
            superblock.log_expected = true;
            let header = &self.identity.header;
            super::engine::write_superblock(&*self.file, self.path, header, superblock)?;
        }
        Ok(())
    }

    /// Opens beside others, who keep the shared memory.
    fn join(self, _gate: &Gate, presence: Presence, shared: Coordination) -> Result<Store> {
        let path = self.path;
        let words = shared_path(path);
        let handle = shared.new_handle();
        let seat = Seat::among(path, &shared, handle)?;
        revoke_bias(path, &shared, self.options.timeout)?;
        let writer_lock = Some(LockFile::open(&words).map_err(lock_error(&words))?);
        let (active, frozen, identity) = attach_all(path, &*self.file, &shared, true)?;
        let held = Some(Held { presence, seat });
        let joined = Opening { identity, ..self };
        let engine = joined.assemble(Arrival {
            access: Access::Shared,
            handle,
            shared,
            active,
            frozen,
            writer_lock,
            biased: false,
            held,
            recovery: RecoveryReport::joined(),
        })?;
        engine.renew()?;
        // Whoever died since is noticed now, and a checkpoint that died with it goes on.
        engine.lock_writer()?.drop_the_dead()?;
        if engine.shared.settled() < engine.shared.active() {
            engine.resume_checkpoint()?;
        }
        Ok(Store { engine })
    }

    /// Opens for reading what others write; `None` if nobody has the store open for writing, or
    /// the shared memory can't be read.
    fn watch(&self) -> Result<Option<Store>> {
        let path = self.path;
        let id = &self.identity.header.store_id;
        // Without the lock file the store was copied, shared memory and all.
        match LockFile::open(&beside(path, "-lock")) {
            Ok(lock) if lock.try_exclusive().map_err(lock_error(path))? => return Ok(None),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(lock_error(path)(error)),
        }
        // Without: somebody has the store alone, and what is written is in private memory.
        let shared = Coordination::open(&shared_path(path), id, false)
            .map_err(|unfit| unfit.or_locked(path))?;
        let (active, frozen, identity) = attach_all(path, &*self.file, &shared, false)?;
        let again = Opening {
            options: self.options,
            path,
            file: Arc::clone(&self.file),
            identity,
        };
        let engine = again.assemble(Arrival {
            access: Access::Watching,
            handle: 0,
            shared,
            active,
            frozen,
            writer_lock: None,
            biased: false,
            held: None,
            recovery: RecoveryReport::joined(),
        })?;
        engine.renew()?;
        Ok(Some(Store { engine }))
    }

    /// Opens for reading what is there now.
    fn snapshot(self) -> Result<Store> {
        let path = self.path;
        let mut recovered = recover(self.options, path, &self.identity, false)?;
        let shared = Coordination::private()
            .map_err(|error| Error::io("reserve memory for", path, error))?;
        let found = recovered.frozen.iter().chain(&recovered.active);
        let keys = found.map(|found| found.scan.committed_keys);
        let bytes = self.options.buffer_bytes();
        let most = keys.max().unwrap_or(0);
        self.begin_words(&shared, &recovered, bytes);
        let load = |found: Option<&mut Found>| match found {
            // Read-only, a log can't be emptied into the pages: it must have room in memory.
            Some(found) => match found.load(&self.identity, path, false, bytes)? {
                None => Err(self.too_small_for(most)),
                loaded => Ok(loaded),
            },
            None => Ok(None),
        };
        let frozen = load(recovered.frozen.as_mut())?;
        let active = match load(recovered.active.as_mut())? {
            Some(active) => active,
            None => Generation::new(make_buffer(path, false, bytes, recovered.number)?),
        };
        let recovery = RecoveryReport::of(&recovered, &self.identity);
        let engine = self.assemble(Arrival {
            access: Access::Snapshot,
            handle: 0,
            shared,
            active,
            frozen,
            writer_lock: None,
            biased: false,
            held: None,
            recovery,
        })?;
        Ok(Store { engine })
    }

    fn too_small_for(&self, keys: u64) -> Error {
        let least = buffer::bytes_for(keys) / 7 * 16 + 4096;
        Error::InvalidOption {
            option: "buffer",
            expected: format!("at least {least} bytes, for the {keys} keys of the log"),
            got: self.options.buffer.to_string(),
        }
    }

    fn begin_words(&self, shared: &Coordination, recovered: &Recovered, bytes: u64) {
        shared.set_commit_sequence(recovered.commit_sequence);
        shared.set_writers_bytes(recovered.writers_bytes);
        shared.set_next_handle(recovered.next_handle);
        if let Some(found) = &recovered.frozen
            && let Some(intent) = &self.identity.intent
            && intent.generation == found.log.generation
        {
            shared.set_torn(intent.pages.clone());
        }
        let settled = recovered.number - u64::from(recovered.frozen.is_some());
        let id = &self.identity.header.store_id;
        shared.begin(id, bytes, recovered.number, settled);
    }

    /// A generation whose log's keys have no room in its buffer.
    fn empty_generation(
        &self,
        recovered: &Recovered,
        is_shared: bool,
        bytes: u64,
    ) -> Result<Generation> {
        let memory = reserve_buffer(self.path, is_shared, bytes, recovered.number)?;
        let generation = Generation::new(memory);
        if let Some(found) = &recovered.active {
            let end = found.scan.end;
            generation.buffer.set_durable(end.end);
            generation.buffer.set_applied(end.end);
            generation.set_log_end(end);
            generation.set_log(Arc::clone(&found.log));
        }
        let room = room_after(&self.identity.header, &self.identity.superblock, None);
        generation.buffer.set_room(room);
        Ok(generation)
    }

    fn assemble(self, arrival: Arrival) -> Result<Arc<Engine>> {
        let superblock = self.identity.superblock;
        let (layers, kept) = map_all(&self.file, self.path, &superblock, None)?;
        Ok(Engine::new(Parts {
            path: self.path.to_owned(),
            options: self.options.clone(),
            header: self.identity.header,
            view: View {
                active: Arc::new(arrival.active),
                frozen: arrival.frozen.map(Arc::new),
                layers,
                kept,
                superblock,
            },
            file: self.file,
            access: arrival.access,
            handle: arrival.handle,
            shared: arrival.shared,
            writer_lock: arrival.writer_lock,
            biased: arrival.biased,
            held: arrival.held,
            recovery: arrival.recovery,
        }))
    }
}

/// Opens the buffers that others have made.
fn attach_all(
    path: &Path,
    file: &dyn StorageFile,
    shared: &Coordination,
    write: bool,
) -> Result<(Generation, Option<Generation>, Identity)> {
    // A rotation or the end of a checkpoint may come between: then look again.
    for _ in 0..1000 {
        let (active, settled) = (shared.active(), shared.settled());
        let open = |number| Generation::attach(path, number, write);
        let opened = open(active).and_then(|active_one| {
            let frozen = (settled < active).then(|| open(settled)).transpose()?;
            // Read last: its layers hold all that is settled.
            Ok((active_one, frozen, read_identity(file, path)?))
        });
        match opened {
            Ok(opened) if opened.2.superblock.generation < settled => std::thread::yield_now(),
            Ok(opened) => return Ok(opened),
            Err(error) if (active, settled) == (shared.active(), shared.settled()) => {
                return Err(error);
            }
            Err(_) => std::thread::yield_now(),
        }
    }
    Err(Error::Busy {
        path: path.to_owned(),
        what: "other handles to go on",
        process: None,
    })
}

pub(crate) fn check_exists(options: &Options, path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(Error::IsFolder {
            path: path.to_owned(),
        });
    }
    let exists = options.storage.exists(path);
    if !exists.map_err(|error| Error::io("look for", path, error))? {
        return Err(Error::NotFound {
            path: path.to_owned(),
        });
    }
    Ok(())
}
