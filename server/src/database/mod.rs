//! The stores of a folder, by the names that clients give them.
//!
//! A store is opened when a command first names it. It is closed when it was out of use for a while, or when more are open
//! than may be; the commands of another program may use it at the same time.

mod claimant;
mod design;
mod entry;
mod expiry;
mod group_commit;
mod name;
mod open_store;
mod removal;
mod renaming;
pub mod transfer;
mod watches;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use everseen::{CreateOptions, Error, OpenOptions, Store};
use tempfile::NamedTempFile;
use tokio::task::block_in_place;

use self::entry::Entry;
use self::expiry::Expiries;
use self::renaming::Renaming;
use self::transfer::{Dumps, Loads};
use crate::reply::Refusal;

pub use self::claimant::Claimant;
pub use self::design::{BloomDesign, CuckooDesign, Design};
pub use self::expiry::now;
pub use self::name::Name;
pub use self::open_store::{CommitCounts, OpenStore};
pub use self::watches::{Watch, Watches};

/// How a folder's stores are opened.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// Stores open at once. Those in use are never closed for this.
    pub open: usize,
    /// How long a store stays open without use.
    pub idle: Duration,
    /// Bytes of memory for the write buffers of one store.
    pub buffer: u64,
}

/// The least memory for the buffers of a store whose items wait for a commit. Half of what they take may be uncommitted.
const LEAST_OF_CLAIMS: u64 = 8 << 20;
/// Fewer uncommitted items than this are few for a connection that claims them.
const FEW_CLAIMS: u64 = 50_000;

/// The stores of one folder.
#[derive(Debug)]
pub struct Database {
    folder: PathBuf,
    opening: Opening,
    entries: Mutex<HashMap<Name, Arc<Entry>>>,
    expiries: Expiries,
    watches: Arc<Watches>,
    dumps: Dumps,
    loads: Loads,
    begun: Instant,
    opened: AtomicU64,
    pub commits: Arc<CommitCounts>,
}

impl Database {
    /// Opens a folder. No store is opened yet, whatever their number.
    pub fn open(folder: &Path, opening: Opening) -> io::Result<Self> {
        transfer::remove_left(folder)?;
        removal::finish_all(folder)?;
        renaming::finish_all(folder)?;
        Ok(Database {
            folder: folder.to_owned(),
            opening,
            entries: Mutex::default(),
            expiries: Expiries::load(folder)?,
            watches: Arc::default(),
            dumps: Dumps::default(),
            loads: Loads::default(),
            begun: Instant::now(),
            opened: AtomicU64::new(0),
            commits: Arc::default(),
        })
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Name, Arc<Entry>>> {
        // Nothing panics between two changes of the map.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entry(&self, name: &Name) -> Arc<Entry> {
        let mut entries = self.entries();
        match entries.get(name) {
            Some(entry) => Arc::clone(entry),
            None => {
                let entry = Arc::new(Entry::new(
                    name.path(&self.folder),
                    Arc::clone(&self.commits),
                ));
                entries.insert(name.clone(), Arc::clone(&entry));
                entry
            }
        }
    }

    /// Returns how this folder's stores are opened.
    pub fn open_options(&self) -> OpenOptions {
        OpenOptions::new()
            .writer(OpenStore::WRITER)
            .buffer_between(OpenOptions::LEAST_BUFFER, self.opening.buffer)
    }

    /// Returns the same for a store whose items wait for a commit.
    fn claims_options(&self) -> OpenOptions {
        let least = LEAST_OF_CLAIMS
            .min(self.opening.buffer)
            .max(OpenOptions::LEAST_BUFFER);
        self.open_options()
            .buffer_between(least, self.opening.buffer)
    }

    /// Opens a store again that lets a handle have few uncommitted items. Only an open one tells.
    fn for_claims(&self, path: &Path, store: Store) -> everseen::Result<Store> {
        if store.uncommitted()?.most >= FEW_CLAIMS {
            return Ok(store);
        }
        store.close()?;
        self.claims_options().open(path)
    }

    /// Returns the store of a name, open; `None` if there is none.
    pub fn get(&self, name: &Name) -> Result<Option<Arc<OpenStore>>, Refusal> {
        self.expire(name)?;
        let known = self.entries().get(name).cloned();
        if let Some(entry) = &known
            && let Some(store) = entry.store()
        {
            if !store.has_failed() {
                store.touch(self.begun.elapsed());
                return Ok(Some(store));
            }
            // What was acknowledged is in its logs, from which the next handle goes on.
            block_in_place(|| entry.close_failed(&store));
        }
        if known.is_none() && !name_exists(&self.folder, name) {
            return Ok(None);
        }
        let opened = self.opened(name, |path| self.open_options().open(path));
        match opened {
            Err(Error::NotFound { .. }) => Ok(None),
            other => Ok(Some(other?)),
        }
    }

    /// Returns the store of a name, open; makes one by a design if there is none.
    pub fn get_or_create(&self, name: &Name, design: &Design) -> Result<Arc<OpenStore>, Refusal> {
        match self.get(name)? {
            Some(store) => Ok(store),
            None => {
                // One that went by other hands has left its date, which is not this one's.
                self.expiries.forget(&self.folder, name)?;
                Ok(self.opened(name, |path| {
                    let options = design.create_options().open_options(self.open_options());
                    options.open_or_create(path)
                })?)
            }
        }
    }

    /// Makes the store of a name by a design. `None` if there is one.
    pub fn create(&self, name: &Name, design: &Design) -> Result<Option<Arc<OpenStore>>, Refusal> {
        self.create_with(name, design.create_options())
    }

    /// Makes the store of a name, as options say. `None` if there is one.
    pub fn create_with(
        &self,
        name: &Name,
        options: CreateOptions,
    ) -> Result<Option<Arc<OpenStore>>, Refusal> {
        if self.get(name)?.is_some() {
            return Ok(None);
        }
        self.expiries.forget(&self.folder, name)?;
        let mut is_made = false;
        let created = self.opened(name, |path| {
            is_made = true;
            options.open_options(self.open_options()).create(path)
        });
        match created {
            Err(Error::AlreadyExists { .. }) => Ok(None),
            // Another client has made it since.
            Ok(_) if !is_made => Ok(None),
            other => Ok(Some(other?)),
        }
    }

    fn opened(
        &self,
        name: &Name,
        open: impl FnOnce(&Path) -> everseen::Result<everseen::Store>,
    ) -> everseen::Result<Arc<OpenStore>> {
        // It may recover from logs, and close another store for this one.
        block_in_place(|| {
            let entry = self.entry(name);
            let store = entry.open(|path| self.for_claims(path, open(path)?))?;
            store.touch(self.begun.elapsed());
            self.opened.fetch_add(1, Ordering::Relaxed);
            self.close_unused(Some(self.opening.open));
            Ok(store)
        })
    }

    /// Returns a handle of the store for one connection alone.
    pub fn claimant(&self, name: &Name, writer: &str) -> Result<Option<Arc<Claimant>>, Refusal> {
        match self.get(name)? {
            None => Ok(None),
            Some(_) => {
                let options = self.claims_options().writer(writer);
                let claimant = block_in_place(|| self.entry(name).claimant(&options))?;
                Ok(Some(claimant))
            }
        }
    }

    /// Closes stores that are out of use for too long, and, of more than may be open, those longest out of use.
    pub fn close_unused(&self, most: Option<usize>) {
        self.dumps.end_idle();
        self.loads.end_idle();
        let now = self.begun.elapsed();
        let mut unused = Vec::new();
        {
            let entries = self.entries();
            let mut open: Vec<_> = entries
                .iter()
                // A thread that has an entry may be about to open it.
                .filter(|(_, entry)| Arc::strong_count(entry) == 1)
                .filter_map(|(name, entry)| Some((entry.unused_since()?, name.clone())))
                .collect();
            open.sort();
            let too_many = most.map_or(0, |most| entries.len().saturating_sub(most));
            for (place, (since, name)) in open.into_iter().enumerate() {
                if place < too_many || now.saturating_sub(since) > self.opening.idle {
                    unused.extend(entries.get(&name).cloned());
                }
            }
        }
        // Their entries stay until they are closed: who removes such a store has to wait for that.
        for entry in unused {
            // Nothing acknowledged is lost: the next to open it goes on from its log.
            if let Err(error) = entry.close() {
                eprintln!("everseen-server: closing a store: {error}");
            }
        }
        // What was looked for and not there leaves nothing behind.
        let is_used = |entry: &Arc<Entry>| Arc::strong_count(entry) > 1 || entry.is_open();
        self.entries().retain(|_, entry| is_used(entry));
    }

    /// Removes the store of a name, and returns whether there was one. What clients claim in it is lost to them.
    pub fn remove(&self, name: &Name) -> Result<bool, Refusal> {
        self.expire(name)?;
        self.remove_if(name, || true)
    }

    /// Removes it if a condition holds while no one else has it.
    fn remove_if(&self, name: &Name, goes: impl Fn() -> bool) -> Result<bool, Refusal> {
        let forget = || self.expiries.forget(&self.folder, name);
        let removed = block_in_place(|| self.entry(name).remove_if(goes, forget))?;
        self.watches.note(name);
        Ok(removed)
    }

    /// Of many who find that its time has come one removes it: the others may meet what that one has made since.
    fn remove_if_due(&self, name: &Name) -> Result<bool, Refusal> {
        self.remove_if(name, || self.expiries.is_due(name))
    }

    /// Gives a store another name. What had that name is removed.
    pub fn rename(&self, from: &Name, to: &Name) -> Result<bool, Refusal> {
        self.expire(from)?;
        if !name_exists(&self.folder, from) {
            return Ok(false);
        }
        if from == to {
            return Ok(true);
        }
        block_in_place(|| -> Result<(), Refusal> {
            // What a killed server left in logs moves into the file, which is all that gets the name.
            self.get(from)?;
            let (source, target) = (self.entry(from), self.entry(to));
            source.rename(&target, || {
                let date = self.expiry(from);
                let renaming = Renaming::begin(&self.folder, [from, to], date)?;
                let renaming = renaming.ok_or(io::ErrorKind::NotFound)?;
                renaming.finish(&self.folder).inspect_err(|_| {
                    // What can't be renamed keeps its name. What was is finished at the next start.
                    if name_exists(&self.folder, from) {
                        let _ = renaming.forget(&self.folder);
                    }
                })
            })?;
            self.expiries.note_renamed(from, to);
            Ok(())
        })?;
        Ok(true)
    }

    pub fn exists(&self, name: &Name) -> Result<bool, Refusal> {
        self.expire(name)?;
        Ok(name_exists(&self.folder, name))
    }

    /// Returns the names of all stores in the folder, in no order.
    pub fn names(&self) -> Result<Vec<Name>, Refusal> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(|error| refused(&error))? {
            let entry = entry.map_err(|error| refused(&error))?;
            if let Some(name) = Name::of_file(&entry.file_name())
                && !self.expiries.is_due(&name)
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Returns when a name is removed, in milliseconds since 1970.
    pub fn expiry(&self, name: &Name) -> Option<u64> {
        self.expiries.of(name)
    }

    /// Sets when a name is removed, or that it stays.
    pub fn set_expiry(&self, name: &Name, at: Option<u64>) -> Result<(), Refusal> {
        match at {
            Some(at) => self.expiries.set(&self.folder, name, at),
            None => self.expiries.forget(&self.folder, name),
        }
    }

    fn expire(&self, name: &Name) -> Result<(), Refusal> {
        match self.expiries.is_due(name) {
            true => self.remove_if_due(name).map(drop),
            false => Ok(()),
        }
    }

    pub fn has_expired(&self) -> bool {
        !self.expiries.due().is_empty()
    }

    /// Removes all whose time has come.
    pub fn remove_expired<G>(&self, alone: impl Fn() -> G) -> Result<u64, Refusal> {
        let mut removed = 0;
        for name in self.expiries.due() {
            let _order = alone();
            removed += u64::from(self.remove_if_due(&name)?);
        }
        Ok(removed)
    }

    /// Returns the stores that are open.
    pub fn open_stores(&self) -> Vec<Arc<OpenStore>> {
        let entries = self.entries();
        entries.values().filter_map(|entry| entry.store()).collect()
    }

    /// Returns the stores that are open, with their names.
    pub fn open_names(&self) -> Vec<(Name, Arc<OpenStore>)> {
        let entries = self.entries();
        let open = entries
            .iter()
            .filter_map(|(name, entry)| Some((name.clone(), entry.store()?)));
        open.collect()
    }

    /// Returns how many stores have been opened.
    pub fn opened_in_all(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Commits and closes all stores.
    pub fn close(&self) -> Result<(), Refusal> {
        let entries: Vec<_> = self.entries().drain().collect();
        let outcomes: Vec<_> = entries.iter().map(|(_, entry)| entry.close()).collect();
        outcomes.into_iter().collect::<everseen::Result<()>>()?;
        Ok(())
    }

    /// Makes a file the store of a name, and returns whether there was none.
    pub fn place(&self, name: &Name, file: NamedTempFile) -> Result<bool, Refusal> {
        self.expire(name)?;
        // A store that went by other hands has left its date, which is not this one's.
        let forget = || self.expiries.forget(&self.folder, name);
        self.entry(name).place(file, forget)
    }

    pub fn dumps(&self) -> &Dumps {
        &self.dumps
    }

    pub fn loads(&self) -> &Loads {
        &self.loads
    }

    /// Returns who watches which key.
    pub fn watches(&self) -> &Arc<Watches> {
        &self.watches
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

fn name_exists(folder: &Path, name: &Name) -> bool {
    name.path(folder).exists()
}

/// Returns why a folder could not be read or changed.
fn refused(error: &io::Error) -> Refusal {
    Refusal::of(&format!("ERR the folder of stores: {error}"))
}
