//! When names are removed. Each has a file of its own beside its store, so that a date costs what it is, and none is lost.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use super::name::Name;
use super::refused;
use super::removal::{remove_if_there, sync};
use super::transfer::write_whole;
use crate::reply::Refusal;

const ENDING: &str = ".expires";

/// For each name that is removed at some time, when that is: milliseconds since 1970.
#[derive(Debug)]
pub struct Expiries(RwLock<HashMap<Name, u64>>);

/// Returns the milliseconds since 1970.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    // Before 1970 nothing expires.
    since.map_or(0, |since| since.as_millis().try_into().unwrap_or(u64::MAX))
}

impl Expiries {
    /// Reads the dates in a folder. A file that says no date is left alone, and means none.
    pub fn load(folder: &Path) -> io::Result<Self> {
        let mut dates = HashMap::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let Some(name) = Name::of_file_ending(&entry.file_name(), ENDING) else {
                continue;
            };
            if !name.path(folder).exists() {
                // The store went by other hands, or half by a kill: the next of its name has no date.
                fs::remove_file(entry.path())?;
                continue;
            }
            match fs::read_to_string(entry.path())?.trim_end().parse() {
                Ok(date) => drop(dates.insert(name, date)),
                Err(_) => eprintln!(
                    "everseen-server: {}: not a date, so its key stays",
                    entry.path().display()
                ),
            }
        }
        Ok(Expiries(RwLock::new(dates)))
    }

    fn dates(&self) -> RwLockReadGuard<'_, HashMap<Name, u64>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, HashMap<Name, u64>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn of(&self, name: &Name) -> Option<u64> {
        self.dates().get(name).copied()
    }

    pub fn is_due(&self, name: &Name) -> bool {
        self.of(name).is_some_and(|date| date <= now())
    }

    /// Returns the names whose time has come.
    pub fn due(&self) -> Vec<Name> {
        let now = now();
        let dates = self.dates();
        let due = dates.iter().filter(|&(_, &date)| date <= now);
        due.map(|(name, _)| name.clone()).collect()
    }

    /// Sets a date, for good before it returns.
    pub fn set(&self, folder: &Path, name: &Name, date: u64) -> Result<(), Refusal> {
        let mut dates = self.change();
        let written = write(folder, name, date).and_then(|()| sync(folder));
        written.map_err(|error| refused(&error))?;
        dates.insert(name.clone(), date);
        Ok(())
    }

    /// Removes a date, for good before it returns.
    pub fn forget(&self, folder: &Path, name: &Name) -> Result<(), Refusal> {
        if self.of(name).is_none() {
            return Ok(());
        }
        let mut dates = self.change();
        // A power cut could bring it back, and it would remove a key that stays.
        let removed = remove(folder, name).and_then(|()| sync(folder));
        removed.map_err(|error| refused(&error))?;
        dates.remove(name);
        Ok(())
    }

    /// Takes note that one name's date, in its file already, is another's.
    pub fn note_renamed(&self, from: &Name, to: &Name) {
        let mut dates = self.change();
        match dates.remove(from) {
            Some(date) => dates.insert(to.clone(), date),
            None => dates.remove(to),
        };
    }
}

/// Writes a name's date. It is there for good once its folder is synced.
pub fn write(folder: &Path, name: &Name, date: u64) -> io::Result<()> {
    write_whole(&name.beside(folder, ENDING), &format!("{date}\n"))
}

/// Removes a name's date, if it has one. It is gone for good once its folder is synced.
pub fn remove(folder: &Path, name: &Name) -> io::Result<()> {
    remove_if_there(&name.beside(folder, ENDING))
}
