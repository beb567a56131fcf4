//! Locks on single bytes of a file, far behind its end: one file provides any number of locks, whatever its name.
//!
//! The locks belong to the open file, not to the process (`F_OFD_SETLK`): two handles in one process exclude each other
//! like two processes. The system frees them when the file is closed or the process ends, however it ends; only that
//! reveals a death. Unlike with `flock`, a shared lock becomes an exclusive one in one step, or stays what it was.
//!
//! Where there are no such locks, `portable/byte_locks.rs` keeps them for the handles of one process.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::lock::wait_until;
#[cfg(everseen_portable)]
use super::portable::byte_locks as system;

/// A file whose bytes are locked. The number of a byte identifies the lock; the file need not have such a byte.
#[derive(Debug)]
pub(crate) struct LockedFile {
    file: system::Opened,
}

/// What a handle wants of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    None,
    Shared,
    Exclusive,
}

/// A lock, held until this is dropped.
#[derive(Debug)]
pub(crate) struct RangeLock {
    file: Arc<LockedFile>,
    byte: u64,
}

/// The lock would end with the file, except that a child that another thread is about to start holds a copy of the open
/// file until it runs its own program.
impl Drop for RangeLock {
    fn drop(&mut self) {
        // Unlocking a locked file can't fail unless the file is not open.
        let _ = system::set(&self.file.file, Kind::None, self.byte);
    }
}

impl LockedFile {
    /// Opens a file by `open`, which opens it anew at each call: all holders of one open file share its locks.
    pub(crate) fn open(open: impl FnMut() -> io::Result<File>) -> io::Result<Arc<Self>> {
        let file = system::Opened::open(open)?;
        Ok(Arc::new(Self { file }))
    }

    /// Returns the file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Takes a lock exclusively if no other open file has it. The file must be open for writing.
    pub(crate) fn try_exclusive(self: &Arc<Self>, byte: u64) -> io::Result<Option<RangeLock>> {
        self.take(Kind::Exclusive, byte)
    }

    /// Takes a shared lock, unless another open file has it exclusively.
    pub(crate) fn try_shared(self: &Arc<Self>, byte: u64) -> io::Result<Option<RangeLock>> {
        self.take(Kind::Shared, byte)
    }

    /// Takes a lock exclusively, waiting for it until `patience` is over.
    pub(crate) fn exclusive(
        self: &Arc<Self>,
        byte: u64,
        patience: Duration,
    ) -> io::Result<Option<RangeLock>> {
        self.wait(Kind::Exclusive, byte, patience)
    }

    /// Takes a shared lock, waiting for it until `patience` is over.
    pub(crate) fn shared(
        self: &Arc<Self>,
        byte: u64,
        patience: Duration,
    ) -> io::Result<Option<RangeLock>> {
        self.wait(Kind::Shared, byte, patience)
    }

    /// Returns whether another open file has the lock, exclusive or shared. Takes nothing.
    pub(crate) fn is_held_by_another(&self, byte: u64) -> io::Result<bool> {
        system::is_held(&self.file, Kind::Exclusive, byte)
    }

    /// Returns whether another open file has the lock exclusively. Takes nothing.
    pub(crate) fn is_exclusive_elsewhere(&self, byte: u64) -> io::Result<bool> {
        system::is_held(&self.file, Kind::Shared, byte)
    }

    /// Returns whether another process keeps all handles of this one out.
    pub(crate) fn is_of_another_process(&self) -> io::Result<bool> {
        system::is_of_another_process(&self.file)
    }

    /// Returns whether the lock, which another open file has, keeps this one out.
    pub(crate) fn is_excluded(&self, byte: u64) -> io::Result<bool> {
        system::excludes(&self.file, byte)
    }

    fn wait(
        self: &Arc<Self>,
        kind: Kind,
        byte: u64,
        patience: Duration,
    ) -> io::Result<Option<RangeLock>> {
        let mut taken = None;
        wait_until(patience, || {
            taken = self.take(kind, byte)?;
            Ok::<_, io::Error>(taken.is_some())
        })?;
        Ok(taken)
    }

    fn take(self: &Arc<Self>, kind: Kind, byte: u64) -> io::Result<Option<RangeLock>> {
        let taken = system::set(&self.file, kind, byte)?;
        Ok(taken.then(|| RangeLock {
            file: Arc::clone(self),
            byte,
        }))
    }
}

impl RangeLock {
    /// Upgrades a shared lock to an exclusive one; returns `false` if others share it, in which case it stays shared.
    pub(crate) fn upgrade(&self) -> io::Result<bool> {
        system::set(&self.file.file, Kind::Exclusive, self.byte)
    }

    /// Downgrades an exclusive lock to a shared one.
    pub(crate) fn downgrade(&self) -> io::Result<bool> {
        system::set(&self.file.file, Kind::Shared, self.byte)
    }
}

#[cfg(not(everseen_portable))]
mod system {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;

    use super::Kind;

    /// A file, opened for its locks.
    pub(super) type Opened = super::super::clofork::CloforkFile;

    fn description(kind: Kind, byte: u64) -> io::Result<libc::flock> {
        let kind = match kind {
            Kind::None => libc::F_UNLCK,
            Kind::Shared => libc::F_RDLCK,
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

    /// Takes or releases the lock; returns `false` if another open file prevents that.
    pub(super) fn set(file: &File, kind: Kind, byte: u64) -> io::Result<bool> {
        let lock = description(kind, byte)?;
        loop {
            // SAFETY: the descriptor is open as long as `file` is borrowed. The call reads the struct, which lives
            // until it returns, and keeps no pointer to it.
            let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
            if done != -1 {
                return Ok(true);
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EACCES) => return Ok(false),
                Some(libc::EINTR) => {}
                // A file system without such locks returns one of these.
                Some(libc::EINVAL | libc::ENOSYS | libc::ENOLCK | libc::EOPNOTSUPP) => {
                    return Err(io::ErrorKind::Unsupported.into());
                }
                _ => return Err(error),
            }
        }
    }

    /// Returns whether another open file has a lock that conflicts with one of this kind.
    pub(super) fn is_held(file: &File, kind: Kind, byte: u64) -> io::Result<bool> {
        let mut lock = description(kind, byte)?;
        // SAFETY: as above; the call writes to the struct, which is this function's own, until it returns.
        let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
        if done == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(i32::from(lock.l_type) != libc::F_UNLCK)
    }

    /// Returns whether another process has all locks of the file: handles of all processes share them here.
    pub(super) fn is_of_another_process(_: &Opened) -> io::Result<bool> {
        Ok(false)
    }

    /// Returns whether the lock of another handle keeps this one out: there are file systems that grant the same lock
    /// twice.
    pub(super) fn excludes(file: &File, byte: u64) -> io::Result<bool> {
        is_held(file, Kind::Exclusive, byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTE: u64 = 1 << 62;

    fn open_twice() -> (tempfile::TempDir, [Arc<LockedFile>; 2]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        File::create_new(&path).unwrap();
        let open =
            || LockedFile::open(|| File::options().read(true).write(true).open(&path)).unwrap();
        let files = [open(), open()];
        (folder, files)
    }

    #[test]
    fn two_open_files_exclude_each_other_whatever_the_file_is_called() {
        let (_folder, [one, other]) = open_twice();
        let held = one.try_exclusive(BYTE).unwrap().unwrap();
        assert!(other.try_exclusive(BYTE).unwrap().is_none());
        assert!(other.try_shared(BYTE).unwrap().is_none());
        assert!(other.is_exclusive_elsewhere(BYTE).unwrap());
        assert!(
            other.try_exclusive(BYTE + 1).unwrap().is_some(),
            "another lock"
        );
        assert!(!one.is_held_by_another(BYTE).unwrap(), "its own");
        drop(held);
        assert!(other.try_exclusive(BYTE).unwrap().is_some());
    }

    #[test]
    fn a_shared_lock_becomes_exclusive_in_one_step_or_stays() {
        let (_folder, [one, other]) = open_twice();
        let mine = one.try_shared(BYTE).unwrap().unwrap();
        let theirs = other.try_shared(BYTE).unwrap().unwrap();
        assert!(!mine.upgrade().unwrap());
        assert!(other.is_held_by_another(BYTE).unwrap(), "it stays shared");
        assert!(!other.is_exclusive_elsewhere(BYTE).unwrap());
        drop(theirs);
        assert!(mine.upgrade().unwrap());
        assert!(other.try_shared(BYTE).unwrap().is_none());
        assert!(mine.downgrade().unwrap());
        assert!(other.try_shared(BYTE).unwrap().is_some());
    }

    #[cfg(not(everseen_portable))]
    mod forks {
        use super::*;
        use crate::sys::clofork::forked::Child;

        #[test]
        fn a_forked_child_keeps_no_lock_of_a_parent_that_ends() {
            use std::os::fd::AsRawFd;

            let (_folder, [one, other]) = open_twice();
            let held = one.try_exclusive(BYTE).unwrap().unwrap();
            let _child = Child::fork(|| None);
            // As at the end of a killed process: the descriptor is closed, and nothing is unlocked.
            let number = one.file().as_raw_fd();
            std::mem::forget((held, one));
            // SAFETY: its owner was just forgotten.
            assert_eq!(unsafe { libc::close(number) }, 0);
            Child::wait_until(|| other.try_exclusive(BYTE).unwrap().is_some());
        }

        #[test]
        fn a_forked_child_neither_has_nor_frees_its_parents_lock() {
            let (_folder, [one, other]) = open_twice();
            let held = one.try_exclusive(BYTE).unwrap().unwrap();
            let child = Child::fork(|| {
                let seen = one.is_held_by_another(BYTE).unwrap_or(false);
                let taken = system::set(&one.file, Kind::Exclusive, BYTE).unwrap_or(true);
                let freed = system::set(&one.file, Kind::None, BYTE).unwrap_or(false);
                Some(seen && !taken && freed)
            });
            let status = child.wait();
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 1);
            assert!(other.try_exclusive(BYTE).unwrap().is_none());
            drop(held);
            assert!(other.try_exclusive(BYTE).unwrap().is_some());
        }
    }
}
