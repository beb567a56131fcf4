//! Repairing the logs of a store that no handle has open: they are cut off where they are damaged, closed, made again
//! where they are missing, and set aside where they do not belong to the store file.

use std::path::{Path, PathBuf};

use crate::engine::check::offline_repair::Repair;
use crate::engine::check::repair::RepairReport;
use crate::engine::open::close::Session;
use crate::engine::open::handle::open_inside;
use crate::error::{Error, Result};
use crate::file::Header;
use crate::generation::log_summary::scan;
use crate::shm::locks::OpenCloseLock;
use crate::storefile::meta::identify;
use crate::sys::storage::write_all_at;
use crate::wal::file::{RECORDS_OFFSET, sync_parent};
use crate::wal::note::Note;
use crate::wal::{Cut, LogBegin, LogError, LogFile, LogWriter, log_path};

/// The limit on how often logs are truncated: there are two, and each is truncated once.
const CUTS: usize = 4;

impl Repair<'_> {
    /// Opens the store, which moves the keys of its logs into the pages.
    pub(super) fn open(&self, gate: &OpenCloseLock, report: &mut RepairReport) -> Result<Session> {
        let mut cuts = 0;
        while cuts < CUTS {
            match open_inside(self.options, self.place, gate).map_err(Error::from) {
                // Each has another name afterwards, so this ends.
                Err(ref error) if let Some(path) = unfit_log(error) => {
                    report.set_aside.push(self.set_aside(path)?);
                    continue;
                }
                Err(Error::Log {
                    path,
                    source: LogError::Damaged { offset, durable },
                }) => report.log_bytes += self.cut_off(&path, offset)?.max(durable - offset),
                Err(Error::Log {
                    path,
                    source: LogError::Truncated { expected, got },
                }) => {
                    report.log_bytes += expected - got;
                    self.note_end(&path, None)?;
                }
                // What the damage took from its end was the record that closed it.
                Err(Error::Log {
                    source: LogError::Unsealed { .. },
                    ..
                }) if self.is_partly_merged()? => self.close_log()?,
                Err(Error::Log {
                    source: LogError::Missing { generation },
                    ..
                }) if !report.log_missing => {
                    self.begin_anew(generation)?;
                    report.log_missing = true;
                }
                outcome => return outcome,
            }
            cuts += 1;
        }
        Ok(open_inside(self.options, self.place, gate)?)
    }

    fn is_partly_merged(&self) -> Result<bool> {
        let (_, meta) = identify(self.options, self.path, true)?;
        Ok(meta.superblock.partly_merged.is_some())
    }

    /// Closes the log that a checkpoint has merged in part, where it ends now, so that the rest is merged too.
    fn close_log(&self) -> Result<()> {
        let (_, meta) = identify(self.options, self.path, true)?;
        let (generation, id) = (meta.superblock.generation, &meta.header.store_id);
        let storage = &*self.options.storage;
        let Some(log) = LogFile::open(storage, self.place, id, generation, true)? else {
            return Ok(());
        };
        let mut found = scan(&log, &meta.header)?;
        let mut writer = LogWriter {
            log: &log,
            at: &mut found.end,
            scratch: &mut Vec::new(),
        };
        let cut = Cut {
            last: !self.exists(generation + 1)?,
            forgets: false,
            layer_index: 0,
            layer: None,
        };
        writer.cut(found.handle, &cut)?;
        let synced = log.file.sync();
        synced.map_err(|error| Error::sync("sync the log", &log.path, error))
    }

    /// Creates an empty log where one is missing, so that the previous log, which is closed and whole, can be settled.
    fn begin_anew(&self, generation: u64) -> Result<()> {
        let (_, meta) = identify(self.options, self.path, true)?;
        let (storage, id) = (&*self.options.storage, &meta.header.store_id);
        let before = LogFile::open(storage, self.path, id, generation - 1, false)?;
        let clock = before.as_ref().and_then(|log| log.clock);
        let clock = clock.unwrap_or(0).max(meta.superblock.clock);
        let begin = LogBegin {
            generation,
            moment: before.map_or(0, |log| log.next_moment()),
            clock: meta.header.window.map(|_| clock),
        };
        LogFile::create(storage, self.path, id, begin, 0).map(drop)
    }

    /// Sets the log of the superblock's generation aside if it can't be that log. It is then treated as lost.
    pub(super) fn set_aside_unfit(&self, report: &mut RepairReport) -> Result<()> {
        let (_, meta) = identify(self.options, self.path, true)?;
        let superblock = &meta.superblock;
        let storage = &*self.options.storage;
        let id = &meta.header.store_id;
        let expected = superblock.log_expected || meta.has_begun();
        let generation = superblock.generation;
        let is_unfit = match LogFile::open(storage, self.path, id, generation, false) {
            Ok(Some(log)) => log.moment != 0 && log.moment != superblock.moment,
            Ok(None) => false,
            Err(Error::Log { source, .. }) => {
                is_unfit(&source) && (expected || source != LogError::Header)
            }
            Err(error) => return Err(error),
        };
        if is_unfit {
            let path = log_path(self.path, generation);
            report.set_aside.push(self.set_aside(&path)?);
        }
        Ok(())
    }

    /// Gives a log a name under which the store does not look for it. It may be the only place that has its keys.
    fn set_aside(&self, log: &Path) -> Result<PathBuf> {
        let storage = &*self.options.storage;
        let mut number = 1_u64;
        let to = loop {
            let mut name = log.as_os_str().to_owned();
            name.push(match number {
                1 => "-aside".to_owned(),
                _ => format!("-aside{number}"),
            });
            let to = PathBuf::from(name);
            match storage.publish(log, &to) {
                Ok(()) => break to,
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(Error::io("set aside", log, error)),
            }
        };
        sync_parent(storage, &to)?;
        Ok(to)
    }

    /// Returns the moment of a generation whose pages lack the keys of the log before, which is lost: that which the
    /// generation's own log was begun for, or one that no log knows.
    pub(super) fn moment_of(&self, generation: u64, header: &Header) -> Result<u64> {
        let storage = &*self.options.storage;
        let opened = LogFile::open(storage, self.path, &header.store_id, generation, false);
        if let Ok(Some(log)) = opened {
            return Ok(log.moment);
        }
        let mut random = [0; 8];
        getrandom::fill(&mut random)
            .map_err(|error| Error::io("draw a number for", self.path, error.into()))?;
        Ok(u64::from_le_bytes(random).max(1))
    }

    /// Ends a log where a damaged record begins. The records after it can't be trusted without it, so zeros overwrite
    /// them.
    fn cut_off(&self, log: &Path, offset: u64) -> Result<u64> {
        // The head says whose log it is, and stays.
        assert!(offset >= RECORDS_OFFSET, "{offset}");
        let failed = |error| Error::io("cut off", log, error);
        let file = self.options.storage.open(log, true).map_err(failed)?;
        let length = file.length().map_err(failed)?;
        let zeros = vec![0; 1 << 16];
        let mut at = offset;
        while at < length {
            // A hole reads as zeros, and may be of any length.
            let data = file.next_data(at).map_err(failed)?;
            if data.is_empty() {
                break;
            }
            at = at.max(data.start.min(length));
            let length = length.min(data.end);
            let part = (length - at).min(zeros.len() as u64) as usize;
            write_all_at(&*file, &zeros[..part], at).map_err(failed)?;
            at += part as u64;
        }
        let synced = file.sync();
        synced.map_err(|error| Error::sync("sync the log", log, error))?;
        self.note_end(log, Some(offset))?;
        Ok(length - offset)
    }

    /// Notes that a log was durable up to `end` and no further, or as far as it is noted, and that its file is as long as
    /// it is now.
    fn note_end(&self, path: &Path, end: Option<u64>) -> Result<()> {
        let (_, meta) = identify(self.options, self.path, true)?;
        let generation = path
            .extension()
            .and_then(|number| number.to_str()?.parse().ok());
        let storage = &*self.options.storage;
        let id = &meta.header.store_id;
        let Some(log) = LogFile::open(storage, self.path, id, generation.unwrap_or(0), true)?
        else {
            return Ok(());
        };
        let failed = |error| Error::io("write the log's note", path, error);
        let note = Note {
            durable: end.unwrap_or(Note::read(&log)?.durable),
            length: log.file.length().map_err(failed)?,
        };
        note.write(&log).map_err(failed)?;
        let synced = log.file.sync();
        synced.map_err(|error| Error::sync("sync the log", path, error))
    }
}

/// Returns the log that an error names, if it is one that does not belong to the store file or can't be told to.
fn unfit_log(error: &Error) -> Option<&Path> {
    match error {
        Error::LeftoverLog { path } | Error::OtherMoment { path, .. } => Some(path),
        Error::Log { path, source } if is_unfit(source) => Some(path),
        _ => None,
    }
}

fn is_unfit(source: &LogError) -> bool {
    matches!(
        source,
        LogError::Header | LogError::Foreign { .. } | LogError::WrongGeneration { .. }
    )
}
