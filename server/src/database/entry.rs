//! A name's store, open or closed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard, TryLockError, Weak,
};
use std::time::Duration;

use everseen::{OpenOptions, Store};
use tempfile::NamedTempFile;

use super::claimant::Claimant;
use super::open_store::{CommitCounts, OpenStore};
use super::refused;
use super::removal::{self, sync_folder};
use crate::reply::Refusal;

/// A name's store. Who opens, closes, removes or renames it has it alone.
#[derive(Debug)]
pub struct Entry {
    path: PathBuf,
    commits: Arc<CommitCounts>,
    state: RwLock<Option<Arc<OpenStore>>>,
    claimants: Mutex<Vec<Weak<Claimant>>>,
}

impl Entry {
    pub fn new(path: PathBuf, commits: Arc<CommitCounts>) -> Self {
        Entry {
            path,
            commits,
            state: RwLock::default(),
            claimants: Mutex::default(),
        }
    }

    /// Returns the store if it is open, and is neither being opened nor closed, which may take long.
    pub fn store(&self) -> Option<Arc<OpenStore>> {
        match self.state.try_read() {
            Ok(state) => state.clone(),
            Err(TryLockError::Poisoned(state)) => state.into_inner().clone(),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn alone(&self) -> RwLockWriteGuard<'_, Option<Arc<OpenStore>>> {
        // It is always whole: each change of it is one assignment.
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn claimants(&self) -> MutexGuard<'_, Vec<Weak<Claimant>>> {
        self.claimants
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the store is open, or somebody opens or closes it.
    pub fn is_open(&self) -> bool {
        !matches!(self.state.try_read().as_deref(), Ok(None))
    }

    /// Returns when the store was last used; `None` if it is not open, or somebody uses it now.
    pub fn unused_since(&self) -> Option<Duration> {
        let store = self.store()?;
        // The entry has one, and this function another.
        let in_use = Arc::strong_count(&store) > 2 || self.has_claimants();
        (!in_use).then(|| store.used())
    }

    fn has_claimants(&self) -> bool {
        let mut claimants = self.claimants();
        claimants.retain(|claimant| claimant.strong_count() > 0);
        !claimants.is_empty()
    }

    /// Opens the store, unless it is.
    pub fn open(
        &self,
        open: impl FnOnce(&Path) -> everseen::Result<Store>,
    ) -> everseen::Result<Arc<OpenStore>> {
        let mut state = self.alone();
        if let Some(store) = &*state {
            return Ok(Arc::clone(store));
        }
        let store = Arc::new(OpenStore::new(
            open(&self.path)?,
            Arc::clone(&self.commits),
        )?);
        *state = Some(Arc::clone(&store));
        Ok(store)
    }

    /// Opens another handle of the store.
    pub fn claimant(&self, options: &OpenOptions) -> everseen::Result<Arc<Claimant>> {
        // Not while it is being removed.
        let _state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let claimant = Arc::new(Claimant::new(options.open(&self.path)?));
        self.claimants().push(Arc::downgrade(&claimant));
        Ok(claimant)
    }

    /// Commits and closes all handles of the store.
    pub fn close(&self) -> everseen::Result<()> {
        let mut state = self.alone();
        self.close_handles(&mut state)
    }

    /// Closes a store that refuses all work, unless it was closed meanwhile.
    pub fn close_failed(&self, failed: &Arc<OpenStore>) {
        let mut state = self.alone();
        if state
            .as_ref()
            .is_some_and(|store| Arc::ptr_eq(store, failed))
            && let Err(error) = self.close_handles(&mut state)
        {
            eprintln!("everseen-server: a store had failed, and is opened again: {error}");
        }
    }

    fn close_handles(&self, state: &mut Option<Arc<OpenStore>>) -> everseen::Result<()> {
        let claimants: Vec<_> = self.claimants().drain(..).collect();
        let open = claimants.iter().filter_map(Weak::upgrade);
        let outcomes: Vec<_> = open.map(|claimant| claimant.close()).collect();
        let given_back: everseen::Result<()> = outcomes.into_iter().collect();
        match state.take() {
            None => given_back,
            Some(store) => store.close().and(given_back),
        }
    }

    /// Removes the store's file, and returns whether there was one, unless it is to stay by now. Calls `then` before another can
    /// have its name.
    pub fn remove_if(
        &self,
        goes: impl FnOnce() -> bool,
        then: impl FnOnce() -> Result<(), Refusal>,
    ) -> Result<bool, Refusal> {
        let mut state = self.alone();
        if !goes() {
            return Ok(false);
        }
        let was_open = state.is_some();
        // A store that can't be closed in order is removed as well: its logs go with it.
        if let Err(error) = self.close_handles(&mut state) {
            eprintln!("everseen-server: closing a store to remove it: {error}");
        }
        let is_taken = was_open && !self.path.exists();
        let removed = removal::remove(&self.path).map_err(|error| refused(&error))?;
        if is_taken {
            // Somebody else has taken the file from under it: its logs go with its name.
            removal::remove_side_files(&self.path).map_err(|error| refused(&error))?;
        }
        then()?;
        Ok(removed)
    }

    /// Makes a file the store, and returns whether there was none. Calls `before` if there is none.
    pub fn place(
        &self,
        file: NamedTempFile,
        before: impl FnOnce() -> Result<(), Refusal>,
    ) -> Result<bool, Refusal> {
        let _state = self.alone();
        if self.path.exists() {
            return Ok(false);
        }
        before()?;
        match file.persist_noclobber(&self.path) {
            Ok(_) => sync_folder(&self.path).map_err(|error| refused(&error))?,
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => return Err(refused(&error.error)),
        }
        Ok(true)
    }

    /// Closes the store, and that of another entry, whose name it gets by `rename`.
    pub fn rename(
        &self,
        to: &Entry,
        rename: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), Refusal> {
        let mut state = self.alone();
        self.close_handles(&mut state)?;
        let mut target = to.alone();
        let others = removal::side_files(&self.path).map_err(|error| refused(&error))?;
        if !others.is_empty() {
            return Err(Refusal::new(
                "ERR another program has the store open, so it can't be renamed",
            ));
        }
        // One that can't be closed in order gives way as well.
        if let Err(error) = to.close_handles(&mut target) {
            eprintln!("everseen-server: closing a store that gives way to another: {error}");
        }
        rename().map_err(|error| refused(&error))
    }
}
