//! A lock on a file that one process has, however many of its handles have the file open.

/// On Windows a lock also keeps others from reading and writing what it covers, this process's other handles among them. So
/// it covers one byte far behind the end of the file.
#[cfg(windows)]
pub(super) use super::windows::{try_lock, unlock};
#[cfg(not(windows))]
pub(super) use whole_file::{try_lock, unlock};

#[cfg(not(windows))]
mod whole_file {
    use std::fs::File;
    use std::io;

    /// Takes the lock through this open file, if no other open file has it.
    pub(in crate::sys) fn try_lock(file: &File) -> io::Result<bool> {
        match fs2::FileExt::try_lock_exclusive(file) {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == fs2::lock_contended_error().raw_os_error() => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Releases the lock, which this open file has.
    pub(in crate::sys) fn unlock(file: &File) {
        // Unlocking a locked file can't fail unless the file is not open.
        let _ = fs2::FileExt::unlock(file);
    }
}
