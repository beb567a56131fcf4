//! [`Storage`] on the computer's own file systems.

use std::fs::{File, OpenOptions};
use std::io;
#[cfg(not(everseen_portable))]
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use super::append_map::Appending;
#[cfg(not(everseen_portable))]
use super::copy::linux;
use super::folder::open_path;
use super::storage::{Storage, StorageFile};
use super::{Folder, Map};

/// The disk.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    /// The open folder for access to the files directly in it.
    folder: Option<Arc<Folder>>,
}

impl Disk {
    fn folder_with(&self, path: &Path) -> Option<&Folder> {
        self.folder.as_deref().filter(|folder| folder.holds(path))
    }
}

impl Storage for Disk {
    fn within(&self, folder: &Arc<Folder>) -> Option<Arc<dyn Storage>> {
        Some(Arc::new(Disk {
            folder: Some(Arc::clone(folder)),
        }))
    }

    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        let file = match self.folder_with(path) {
            Some(folder) => folder.create(path)?,
            None => {
                let mut options = OpenOptions::new();
                options.read(true).write(true).create_new(true).open(path)?
            }
        };
        Ok(Arc::new(DiskFile::of(file)))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn StorageFile>> {
        let file = match self.folder_with(path) {
            Some(folder) => folder.open_file(path, write)?,
            None => open_path(path, write)?,
        };
        Ok(Arc::new(DiskFile::of(file)))
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        if let (Some(folder), Some(_)) = (self.folder_with(from), self.folder_with(to)) {
            return folder.publish(from, to);
        }
        // Renames without replacing where the system supports that, otherwise links and unlinks.
        let temporary = tempfile::TempPath::try_from_path(from.to_owned())?;
        temporary.persist_noclobber(to).map_err(|failed| {
            // Removing the name is up to the caller.
            let _ = failed.path.keep();
            failed.error
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match self.folder_with(path) {
            Some(folder) => folder.remove(path),
            None => std::fs::remove_file(path),
        }
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        match &self.folder {
            Some(held) if held.path() == folder => held.sync(),
            _ if folder.as_os_str().is_empty() => Folder::open(Path::new("."))?.sync(),
            _ => Folder::open(folder)?.sync(),
        }
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match self.folder_with(path) {
            Some(folder) => folder.exists(path),
            None => path.try_exists(),
        }
    }
}

#[derive(Debug)]
struct DiskFile {
    file: File,
    appending: Appending,
}

impl DiskFile {
    fn of(file: File) -> Self {
        Self {
            file,
            appending: Appending::default(),
        }
    }
}

impl StorageFile for DiskFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    #[cfg(unix)]
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&self.file, bytes, offset)
    }

    #[cfg(windows)]
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(&self.file, bytes, offset)
    }

    #[cfg(unix)]
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::write_at(&self.file, bytes, offset)
    }

    #[cfg(windows)]
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_write(&self.file, bytes, offset)
    }

    fn append_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if bytes.len() < Appending::LARGE && self.appending.store(&self.file, bytes, offset)? {
            return Ok(bytes.len());
        }
        self.write_at(bytes, offset)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        allocate(&self.file, length).map(|_| ())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn start_writing(&self, range: std::ops::Range<u64>) -> io::Result<()> {
        #[cfg(not(everseen_portable))]
        if range.end.saturating_sub(range.start) >= LEAST_STARTED {
            return start_writing(&self.file, range);
        }
        let _ = range;
        Ok(())
    }

    #[cfg(not(everseen_portable))]
    fn next_data(&self, offset: u64) -> io::Result<std::ops::Range<u64>> {
        let length = self.length()?;
        let found = linux::next_data(&self.file, offset, length)?;
        Ok(found.unwrap_or(length.max(offset)..length.max(offset)))
    }

    fn map(&self, offset: u64, length: u64) -> io::Result<Map> {
        Map::new(&self.file, offset, length)
    }

    fn as_file(&self) -> Option<&File> {
        Some(&self.file)
    }
}

/// Reserves room on the disk up to `length`; returns `false` if the file's system can't, in which case the file still
/// has that length.
///
/// It does not use fs2, which takes the error from `errno`, where `posix_fallocate` leaves none: a full disk would look
/// like any other failure.
#[cfg(not(everseen_portable))]
pub(super) fn allocate(file: &File, length: u64) -> io::Result<bool> {
    let flags = rustix::fs::FallocateFlags::empty();
    loop {
        match rustix::fs::fallocate(file, flags, 0, length) {
            Err(rustix::io::Errno::INTR) => {}
            // A file system that can't reserve room reports the lack of it on use.
            Err(rustix::io::Errno::OPNOTSUPP) => return lengthen(file, length).map(|()| false),
            outcome => return Ok(outcome.map(|()| true)?),
        }
    }
}

/// Of fs2's calls, only that of Windows is of use. On macOS it reserves the whole length again, behind what is there; on
/// FreeBSD it fails where the disk has ZFS. There a write reports the lack of room, before its key counts.
#[cfg(everseen_portable)]
pub(super) fn allocate(file: &File, length: u64) -> io::Result<bool> {
    #[cfg(windows)]
    return fs2::FileExt::allocate(file, length).map(|()| true);
    #[cfg(not(windows))]
    lengthen(file, length).map(|()| false)
}

/// Gives the file at least that length.
#[cfg(not(windows))]
fn lengthen(file: &File, length: u64) -> io::Result<()> {
    let held = file.metadata()?.len();
    file.set_len(held.max(length))
}

/// Returns whether room that was reserved on the file's system is certain to exist when it is written to through a map.
/// Elsewhere the reservation may be a mere check, or a later copy may take the room.
#[cfg(not(everseen_portable))]
pub(super) fn keeps_what_is_reserved(file: &File) -> bool {
    const XFS: u64 = 0x5846_5342;
    if !keeps_it_whatever_is_copied(file) && system_of(file) != Some(XFS) {
        return false;
    }
    // Ext2 and ext3 have the same number as ext4, but can't reserve.
    rustix::fs::fstat(file).is_ok_and(|state| state.st_blocks as u64 * 512 >= state.st_size as u64)
}

/// Returns the same for a file that users may copy meanwhile: where copies share blocks, the next store needs a new
/// block.
#[cfg(not(everseen_portable))]
pub(super) fn keeps_it_whatever_is_copied(file: &File) -> bool {
    const EXT: u64 = 0xEF53;
    system_of(file).is_some_and(|system| [EXT, TMPFS].contains(&system))
}

/// Returns whether reading a hole through a map takes room on the file's system permanently, and ends the process where
/// no room is left. For an overlay this is unknown, since the system below it may be memory.
#[cfg(not(everseen_portable))]
pub(super) fn holes_take_room(file: &File) -> bool {
    const OVERLAY: u64 = 0x794C_7630;
    system_of(file).is_none_or(|system| [TMPFS, OVERLAY].contains(&system))
}

#[cfg(everseen_portable)]
pub(super) fn holes_take_room(_: &File) -> bool {
    false
}

#[cfg(not(everseen_portable))]
const TMPFS: u64 = 0x0102_1994;

#[cfg(not(everseen_portable))]
pub(super) fn system_of(file: &File) -> Option<u64> {
    let system = rustix::fs::fstatfs(file).ok()?;
    Some(system.f_type as u64)
}

/// Writes of fewer bytes are left to the system, which joins them with others.
#[cfg(not(everseen_portable))]
const LEAST_STARTED: u64 = 1 << 20;

/// Starts to write a range of a file.
#[cfg(not(everseen_portable))]
fn start_writing(file: &File, range: std::ops::Range<u64>) -> io::Result<()> {
    let offsets = [range.start, range.end - range.start].map(i64::try_from);
    let [Ok(start), Ok(length)] = offsets else {
        return Ok(());
    };
    // SAFETY: the call takes numbers alone, and the descriptor is open for as long as the file is borrowed.
    let outcome = unsafe {
        libc::sync_file_range(file.as_raw_fd(), start, length, libc::SYNC_FILE_RANGE_WRITE)
    };
    let error = io::Error::last_os_error();
    match outcome != 0 && !is_postponed(&error) {
        true => Err(error),
        false => Ok(()),
    }
}

/// Returns whether a system that was asked to start to write can't do that, or not now, and writes later. All else may be
/// a loss that the next sync does not report.
#[cfg(not(everseen_portable))]
fn is_postponed(error: &io::Error) -> bool {
    const CANT: [i32; 5] = [
        libc::ENOSYS,
        libc::EINVAL,
        libc::EOPNOTSUPP,
        libc::ESPIPE,
        libc::EPERM,
    ];
    const NOT_NOW: [i32; 3] = [libc::EINTR, libc::EAGAIN, libc::ENOMEM];
    let code = error.raw_os_error();
    code.is_some_and(|code| CANT.contains(&code) || NOT_NOW.contains(&code))
}

#[cfg(everseen_portable)]
pub(super) fn keeps_it_whatever_is_copied(_: &File) -> bool {
    false
}

#[cfg(all(test, not(everseen_portable)))]
mod tests {
    use super::*;

    #[test]
    #[cfg(not(everseen_portable))]
    fn a_disk_that_fails_or_is_full_is_no_postponement() {
        let is_postponed = |code| is_postponed(&io::Error::from_raw_os_error(code));
        assert!(
            [libc::ENOSYS, libc::EINVAL, libc::EPERM, libc::EAGAIN].map(is_postponed) == [true; 4]
        );
        assert!(
            [libc::EIO, libc::ENOSPC, libc::EDQUOT, libc::EROFS].map(is_postponed) == [false; 4]
        );
    }

    #[test]
    fn a_start_of_writing_changes_nothing_wherever_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let file = DiskFile::of(File::create_new(folder.path().join("file")).unwrap());
        let bytes = vec![7; 3 << 20];
        file.write_at(&bytes, 0).unwrap();
        for range in [0..1, 0..2 << 20, 1 << 20..1 << 40, 1..u64::MAX, 5..5] {
            file.start_writing(range).unwrap();
        }
        let mut read = vec![0; bytes.len()];
        assert_eq!(file.read_at(&mut read, 0).unwrap(), bytes.len());
        assert!(read == bytes && file.length().unwrap() == bytes.len() as u64);
    }
}
