//! The logs of an open store's generations.

use std::io::ErrorKind;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::generation::Generation;
use crate::shm::place::Place;
use crate::sys::storage::Storage;
use crate::wal::{LogBegin, LogError, LogFile, log_path};

/// Opens, creates and removes logs.
#[derive(Debug)]
pub(crate) struct LogFiles {
    pub(crate) place: Place,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) store_id: [u8; 16],
    /// Whether logs are opened for writing.
    pub(crate) writes: bool,
}

impl LogFiles {
    /// Returns the log of a generation.
    pub(crate) fn of<'a>(&self, generation: &'a Generation) -> Result<&'a Arc<LogFile>> {
        generation.log(|| {
            let storage = &*self.storage;
            let id = &self.store_id;
            let number = generation.number();
            let opened = LogFile::open(storage, &self.place, id, number, self.writes)?;
            opened.ok_or_else(|| Error::Log {
                path: log_path(&self.place, number),
                source: LogError::Missing { generation: number },
            })
        })
    }

    /// Creates the log of a generation.
    pub(crate) fn create(&self, begin: LogBegin, length: u64) -> Result<Arc<LogFile>> {
        let generation = begin.generation;
        let storage = &*self.storage;
        let id = &self.store_id;
        let create = || LogFile::create(storage, &self.place, id, begin, length).map(Arc::new);
        match create() {
            // An abandoned rotation created this log, never used it, and could not remove it.
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::AlreadyExists => {
                match LogFile::open(storage, &self.place, id, generation, false) {
                    Err(
                        error @ Error::Log {
                            source: LogError::Foreign { .. },
                            ..
                        },
                    ) => {
                        return Err(error);
                    }
                    _ => self.remove_unused(generation)?,
                }
                create()
            }
            outcome => outcome,
        }
    }

    pub(crate) fn remove_unused(&self, generation: u64) -> Result<()> {
        let path = log_path(&self.place, generation);
        let removed = self.storage.remove(&path);
        removed.map_err(|error| Error::io("remove an unused log", &path, error))
    }
}
