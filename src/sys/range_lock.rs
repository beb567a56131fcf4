//! Locks on single bytes of a file, far behind its end: as many locks as are wanted on one file, and so on
//! whatever it is called.
//!
//! They belong to the open file, not to the process (`F_OFD_SETLK`): two handles in one process exclude each
//! other as two processes do, and the system frees them when the file is closed or the process ends, however
//! it ends. By that alone is a death known.

use std::fs::File;
use std::io;
use std::sync::Arc;

/// A file whose bytes are locked. The byte's number is the lock's; that the file has no such byte does not
/// matter.
#[derive(Debug)]
pub(crate) struct LockedFile {
    file: File,
}

/// A lock, held until this is dropped.
#[derive(Debug)]
pub(crate) struct RangeLock {
    file: Arc<LockedFile>,
    byte: u64,
}

/// The lock would go with the file, but for a child that another thread is about to start: until it runs its
/// own program it holds a copy of the open file.
impl Drop for RangeLock {
    fn drop(&mut self) {
        // Unlocking what is locked can't fail but for a file that is not open.
        let _ = system::set(&self.file.file, system::Kind::None, self.byte);
    }
}

impl LockedFile {
    /// Of a file that was opened for this alone: whoever shares the open file shares its locks.
    pub(crate) fn of(file: File) -> Arc<Self> {
        Arc::new(Self { file })
    }

    /// Takes a lock for this open file alone, if no other has it. The file must be open for writing.
    pub(crate) fn try_exclusive(self: &Arc<Self>, byte: u64) -> io::Result<Option<RangeLock>> {
        self.take(system::Kind::Exclusive, byte)
    }

    fn take(self: &Arc<Self>, kind: system::Kind, byte: u64) -> io::Result<Option<RangeLock>> {
        let taken = system::set(&self.file, kind, byte)?;
        Ok(taken.then(|| RangeLock {
            file: Arc::clone(self),
            byte,
        }))
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;

    #[derive(Debug, Clone, Copy)]
    pub(super) enum Kind {
        None,
        Exclusive,
    }

    fn description(kind: Kind, byte: u64) -> io::Result<libc::flock> {
        let kind = match kind {
            Kind::None => libc::F_UNLCK,
            Kind::Exclusive => libc::F_WRLCK,
        };
        let start = i64::try_from(byte).map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok(libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: start,
            l_len: 1,
            l_pid: 0,
        })
    }

    /// Takes the lock or lets go of it; `false` if another open file keeps it from that.
    pub(super) fn set(file: &File, kind: Kind, byte: u64) -> io::Result<bool> {
        let lock = description(kind, byte)?;
        loop {
            // SAFETY: the descriptor is open as long as `file` is borrowed, and the call reads the struct,
            // which lives until it returns, and keeps no pointer to it.
            let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
            if done != -1 {
                return Ok(true);
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EACCES) => return Ok(false),
                Some(libc::EINTR) => {}
                // What a file system without such locks says.
                Some(libc::EINVAL | libc::ENOSYS | libc::ENOLCK | libc::EOPNOTSUPP) => {
                    return Err(io::ErrorKind::Unsupported.into());
                }
                _ => return Err(error),
            }
        }
    }
}

/// Elsewhere there are no locks that belong to an open file's bytes.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::fs::File;
    use std::io;

    #[derive(Debug, Clone, Copy)]
    pub(super) enum Kind {
        None,
        Exclusive,
    }

    pub(super) fn set(_file: &File, _kind: Kind, _byte: u64) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    const BYTE: u64 = 1 << 62;

    fn open_twice() -> (tempfile::TempDir, [Arc<LockedFile>; 2]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        File::create_new(&path).unwrap();
        let open = || {
            let options = File::options().read(true).write(true).open(&path);
            LockedFile::of(options.unwrap())
        };
        let files = [open(), open()];
        (folder, files)
    }

    #[test]
    fn two_open_files_exclude_each_other_whatever_the_file_is_called() {
        let (_folder, [one, other]) = open_twice();
        let held = one.try_exclusive(BYTE).unwrap().unwrap();
        assert!(other.try_exclusive(BYTE).unwrap().is_none());
        assert!(
            other.try_exclusive(BYTE + 1).unwrap().is_some(),
            "another lock"
        );
        drop(held);
        assert!(other.try_exclusive(BYTE).unwrap().is_some());
    }
}
