//! Logs under a store's name that no handle has open: of an earlier store of that name, or of a handle that died.

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::file::side_file::LOG;
use crate::shm::place::Place;
use crate::wal::file::RECORDS_OFFSET;
use crate::wal::log_path;

/// How much of a log's records is looked at: the first ones are not all zeros.
const LOOKED_AT: u64 = 64;

/// Logs under a store's name. The caller holds its open-close lock, and no handle has the store.
pub(crate) struct LeftoverLogs {
    /// Those that nothing was ever appended to.
    blank: Vec<PathBuf>,
    /// The first of the others.
    filled: Option<PathBuf>,
}

impl LeftoverLogs {
    pub(crate) fn of(place: &Place) -> Result<Self> {
        let mut found = Self {
            blank: Vec::new(),
            filled: None,
        };
        for number in place.numbers(LOG)? {
            let path = log_path(place, number);
            if !place.is_ours(&path, number)? {
                continue;
            }
            let has_records = has_records(place, &path);
            match has_records.map_err(|error| Error::io("look at", &path, error))? {
                true => found.filled = found.filled.or(Some(path)),
                false => found.blank.push(path),
            }
        }
        Ok(found)
    }

    /// Fails with [`Error::LeftoverLog`] if one of them has records, whatever store they belong to.
    pub(crate) fn expect_blank(self) -> Result<Self> {
        match self.filled {
            Some(path) => Err(Error::LeftoverLog { path }),
            None => Ok(self),
        }
    }

    pub(crate) fn remove_blank(&self, place: &Place) -> Result<()> {
        for path in &self.blank {
            let removed = place.folder().remove(path);
            removed.map_err(|error| Error::io("remove a log without a record", path, error))?;
        }
        Ok(())
    }
}

/// Returns whether anything was ever appended to a log, whatever store it belongs to.
fn has_records(place: &Place, path: &Path) -> io::Result<bool> {
    let mut file = place.folder().open_file(path, false)?;
    let mut first = Vec::new();
    file.seek(SeekFrom::Start(RECORDS_OFFSET))?;
    file.take(LOOKED_AT).read_to_end(&mut first)?;
    Ok(first.iter().any(|byte| *byte != 0))
}
