//! Advisory locks on files of their own.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// A held advisory lock (`flock`), freed when dropped or when the process ends, however it ends.
///
/// The lock file itself is never removed: one that is removed can be held twice.
#[derive(Debug)]
pub(crate) struct FileLock {
    _file: File,
}

impl FileLock {
    /// Takes the lock for itself alone; `None` if somebody else holds it. Makes the file if needed.
    pub(crate) fn try_exclusive(path: &Path) -> io::Result<Option<Self>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        // Not `File::try_lock`, which std has grown since under nearly the same name.
        Self::held(fs2::FileExt::try_lock_exclusive(&file), file)
    }

    /// Shares the lock with other readers; `None` if a writer holds it. The file must exist.
    pub(crate) fn try_shared(path: &Path) -> io::Result<Option<Self>> {
        let file = OpenOptions::new().read(true).open(path)?;
        Self::held(fs2::FileExt::try_lock_shared(&file), file)
    }

    fn held(outcome: io::Result<()>, file: File) -> io::Result<Option<Self>> {
        match outcome {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(error) if error.raw_os_error() == fs2::lock_contended_error().raw_os_error() => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
