//! Stores on their way out and in, in pieces: SCANDUMP and LOADCHUNK.
//!
//! A dump is a snapshot of the store, so it is of one moment, whatever is written meanwhile. Its file has no name any more
//! while it is read, so nothing is left of it when it is dropped. A load gathers pieces in a file of its own, which gets the
//! store's name when all have come and are right; until then there is no such key.

mod dumps;
mod header;
mod loads;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

pub use self::dumps::Dumps;
pub use self::header::{Header, Kind};
pub use self::loads::{LoadError, Loaded, Loads};

/// What the names of files begin with that are on their way. No store's name has a dot in it.
const PREFIX: &str = ".everseen-server-";

/// Writes a small file, whole or not at all; its name is there for good once its folder is synced. What a killed server leaves
/// of it goes at the next start.
pub fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut draft = tempfile::Builder::new()
        .prefix(PREFIX)
        .tempfile_in(folder)?;
    // Another server on this folder removes those without a lock.
    draft.as_file().lock()?;
    draft.write_all(text.as_bytes())?;
    draft.as_file().sync_all()?;
    draft.persist(path)?;
    Ok(())
}

/// Removes what killed servers left of dumps, loads and drafts. What another server has on its way is locked, and stays.
pub fn remove_left(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(PREFIX.as_bytes())
        {
            continue;
        }
        let is_locked = File::open(entry.path()).is_ok_and(|file| file.try_lock().is_err());
        if !is_locked {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}
