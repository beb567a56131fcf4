//! Logs beside a store that no crash of it can have left: those of another store, and those of another moment of this
//! one, because the store file was replaced by a copy.
//!
//! Such a log may be the only place that has its keys, so neither a reader nor a writer passes it by in silence.

use std::path::PathBuf;

use crate::config::open_options::OpenOptions;
use crate::engine::open::recover::Recovered;
use crate::error::{Error, Result};
use crate::file::side_file::LOG;
use crate::shm::place::Place;
use crate::storefile::meta::Meta;
use crate::wal::{LogError, LogFile, log_path};

/// Where the folder can't be listed, logs are looked for by name among so many generations after the store's own.
const LOOKED_FOR: u64 = 64;

/// The logs that have the store's name.
pub(crate) struct StrayLogs<'a> {
    pub(crate) options: &'a OpenOptions,
    pub(crate) place: &'a Place,
    pub(crate) meta: &'a Meta,
    pub(crate) write: bool,
}

/// What a log may be whose generation is not one of those that count.
enum Leftover {
    /// Its checkpoint is done, and only the removal of its name is missing.
    Past,
    /// A rotation created it, for this moment, and did not get as far as closing the log before it.
    Unused(u64),
    /// No crash leaves a log of that generation.
    None,
}

impl StrayLogs<'_> {
    /// Refuses to answer, or to begin, beside a stray log.
    pub(crate) fn refuse(&self, recovered: &Recovered) -> Result<()> {
        let counted = recovered.sealed.iter().chain(&recovered.active);
        let counted: Vec<&LogFile> = counted.map(|found| &*found.log).collect();
        for number in self.numbers()? {
            // The log of the superblock's generation was looked at already: it counts, or it is half made.
            let is_first = number == self.meta.superblock.generation;
            if !is_first && counted.iter().all(|log| log.generation != number) {
                self.check(number, counted.first().copied())?;
            }
        }
        Ok(())
    }

    /// Refuses a log that was not begun at this moment although it has the right generation. One that names no moment
    /// is taken for the right one.
    pub(crate) fn expect_moment(&self, log: &LogFile, moment: u64) -> Result<()> {
        match log.moment == 0 || log.moment == moment {
            true => Ok(()),
            false => Err(self.other_moment(log)),
        }
    }

    /// Refuses a log whose keys are not those that the last checkpoint has moved into the pages.
    fn expect_past(&self, log: &LogFile) -> Result<()> {
        let moment = self.meta.superblock.moment;
        let is_unknown = moment == 0 && log.moment == 0;
        match is_unknown || log.next_moment() == moment {
            true => Ok(()),
            false => Err(self.other_moment(log)),
        }
    }

    fn other_moment(&self, log: &LogFile) -> Error {
        Error::OtherMoment {
            path: log.path.clone(),
            store: self.place.to_path_buf(),
            generation: self.meta.superblock.generation,
            log_generation: log.generation,
        }
    }

    /// `first` is the log of the superblock's generation, if there is one.
    fn check(&self, number: u64, first: Option<&LogFile>) -> Result<()> {
        let generation = self.meta.superblock.generation;
        let leftover = match first {
            _ if number.checked_add(1) == Some(generation) => Leftover::Past,
            Some(first) if number == generation + 1 => Leftover::Unused(first.next_moment()),
            _ => Leftover::None,
        };
        let path = log_path(self.place, number);
        match self.place.is_ours(&path, number) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            // A reader needs no such name.
            Err(Error::InTheWay { .. }) if !self.write => return Ok(()),
            Err(error) => return Err(error),
        }
        let storage = &*self.options.storage;
        let id = &self.meta.header.store_id;
        match (
            LogFile::open(storage, self.place, id, number, false),
            leftover,
        ) {
            // A checkpoint of a living handle has removed it since.
            (Ok(None), _) => Ok(()),
            (Ok(Some(log)), Leftover::Past) => self.expect_past(&log),
            (Ok(Some(log)), Leftover::Unused(moment)) => self.expect_moment(&log, moment),
            (Ok(Some(log)), Leftover::None) => Err(self.other_moment(&log)),
            (
                Err(Error::Log {
                    source: LogError::Foreign { .. },
                    ..
                }),
                _,
            ) => Err(Error::LeftoverLog { path }),
            (Err(Error::Log { .. }), Leftover::Past | Leftover::Unused(_)) => Ok(()),
            // What it is can't be told, and a store that had this name may need it.
            (Err(Error::Log { .. }), Leftover::None) => Err(Error::LeftoverLog { path }),
            (Err(error), _) => Err(error),
        }
    }

    /// Returns the generations of all files with the name of a log.
    fn numbers(&self) -> Result<Vec<u64>> {
        match self.place.numbers(LOG) {
            Err(Error::PermissionDenied { .. }) => self.likely_numbers(),
            listed => listed,
        }
    }

    fn likely_numbers(&self) -> Result<Vec<u64>> {
        let generation = self.meta.superblock.generation;
        let mut found = Vec::new();
        for number in generation.saturating_sub(LOOKED_FOR)..generation + LOOKED_FOR {
            let path: PathBuf = log_path(self.place, number);
            let there = self.options.storage.exists(&path);
            if there.map_err(|error| Error::io("look for the log", &path, error))? {
                found.push(number);
            }
        }
        Ok(found)
    }
}
