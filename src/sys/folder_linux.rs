//! Calls relative to an open folder on Linux.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{self, AtFlags, Gid, Mode, OFlags, RenameFlags, Stat, Uid};
use rustix::io::Errno;

use super::{FileId, FileState, Owner};

pub(super) type Dir = File;

pub(super) fn open_folder(path: &Path) -> io::Result<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = match fs::open(path, flags, Mode::empty()) {
        // A folder that the process may pass through but not list.
        Err(Errno::ACCESS) => fs::open(
            path,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        ),
        opened => opened,
    };
    Ok(File::from(opened?))
}

pub(super) fn clone(dir: &Dir) -> io::Result<Dir> {
    dir.try_clone()
}

/// Opens a folder once more, to list it or to make it durable: one that may only be passed through refuses that now, in words
/// that say so.
fn open_itself(dir: &Dir) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(File::from(fs::openat(dir, ".", flags, Mode::empty())?))
}

pub(super) fn room(dir: &Dir) -> io::Result<u64> {
    let system = fs::fstatvfs(dir)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

pub(super) fn create(dir: &Dir, name: &OsStr, owned: bool) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    // No other process may open it before its owner and mode are set.
    let mode = if owned { 0o600 } else { 0o666 };
    let opened = fs::openat(dir, name, flags | OFlags::CLOEXEC, Mode::from(mode));
    Ok(File::from(opened?))
}

pub(super) fn open(dir: &Dir, name: &OsStr, write: bool) -> io::Result<File> {
    let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
    let careful = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match fs::openat(dir, name, access | careful, Mode::empty()) {
        // A link; a socket, or a device without a driver.
        Err(Errno::LOOP | Errno::NXIO | Errno::NODEV) => Err(super::not_a_file()),
        opened => Ok(File::from(opened?)),
    }
}

pub(super) fn open_path(path: &Path, write: bool) -> io::Result<File> {
    let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
    let careful = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match fs::open(path, access | careful, Mode::empty()) {
        Err(Errno::NXIO | Errno::NODEV) => Err(super::not_a_file()),
        opened => Ok(File::from(opened?)),
    }
}

pub(super) fn set_owner(file: &File, owner: Owner) -> io::Result<()> {
    let mut mode = owner.mode & 0o777;
    let held = fs::fstat(file)?;
    let (user, group) = (Uid::from_raw(owner.user), Gid::from_raw(owner.group));
    if held.st_uid != owner.user || held.st_gid != owner.group {
        let both = fs::fchown(file, Some(user), Some(group));
        // Only the system's administrator may give files away. A member of a group may set the group.
        if both.is_err() && held.st_gid != owner.group {
            let set = fs::fchown(file, None, Some(group));
            if set.is_err() {
                // A permission for one group must not apply to another.
                mode &= !0o070;
            }
        }
    }
    Ok(fs::fchmod(file, Mode::from(mode))?)
}

pub(super) fn state_at(dir: &Dir, name: &OsStr) -> io::Result<FileState> {
    Ok(state(&fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?))
}

pub(super) fn state_of(file: &File) -> io::Result<FileState> {
    Ok(state(&fs::fstat(file)?))
}

#[cfg_attr(
    target_arch = "x86_64",
    expect(
        clippy::useless_conversion,
        reason = "elsewhere the number of links has 32 bits"
    )
)]
fn state(found: &Stat) -> FileState {
    FileState {
        id: FileId {
            device: found.st_dev,
            inode: found.st_ino,
        },
        owner: Owner {
            mode: found.st_mode & 0o777,
            user: found.st_uid,
            group: found.st_gid,
        },
        links: found.st_nlink.into(),
    }
}

pub(super) fn remove(dir: &Dir, name: &OsStr) -> io::Result<()> {
    Ok(fs::unlinkat(dir, name, AtFlags::empty())?)
}

pub(super) fn rename(dir: &Dir, from: &OsStr, to: &OsStr) -> io::Result<()> {
    Ok(fs::renameat(dir, from, dir, to)?)
}

pub(super) fn publish(dir: &Dir, from: &OsStr, to: &OsStr) -> io::Result<()> {
    match fs::renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
        // The file system has no such rename: add the second name, then remove the first.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            fs::linkat(dir, from, dir, to, AtFlags::empty())?;
            // If it stays, the next writer to open the file removes it.
            let _ = fs::unlinkat(dir, from, AtFlags::empty());
            Ok(())
        }
        outcome => Ok(outcome?),
    }
}

pub(super) fn names(dir: &Dir, _path: &Path) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in fs::Dir::new(open_itself(dir)?)? {
        let entry = entry?;
        names.push(OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
    }
    Ok(names)
}

pub(super) fn sync(dir: &Dir) -> io::Result<()> {
    match dir.sync_all() {
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => open_itself(dir)?.sync_all(),
        outcome => outcome,
    }
}
