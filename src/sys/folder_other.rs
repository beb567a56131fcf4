//! The same by path, for systems without calls relative to an open folder. A folder that is renamed while a store in it
//! is open is not found again. On Windows owners and permissions stay as the system sets them.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

#[cfg(unix)]
use super::FileId;
use super::{FileState, Owner};

pub(super) type Dir = PathBuf;

pub(super) fn open_folder(path: &Path) -> io::Result<Dir> {
    match path.metadata()?.is_dir() {
        true => Ok(path.to_owned()),
        false => Err(io::ErrorKind::NotADirectory.into()),
    }
}

pub(super) fn clone(dir: &Dir) -> io::Result<Dir> {
    Ok(dir.clone())
}

pub(super) fn room(dir: &Dir) -> io::Result<u64> {
    fs2::available_space(dir)
}

pub(super) fn create(dir: &Dir, name: &OsStr, owned: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    // No other process may open it before its owner and mode are set.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, if owned { 0o600 } else { 0o666 });
    #[cfg(not(unix))]
    let _ = owned;
    options.open(dir.join(name))
}

pub(super) fn open(dir: &Dir, name: &OsStr, write: bool) -> io::Result<File> {
    let path = dir.join(name);
    open_file(&path, &path.symlink_metadata()?, write)
}

pub(super) fn open_path(path: &Path, write: bool) -> io::Result<File> {
    open_file(path, &path.metadata()?, write)
}

/// Opens what was found to be a file: to open a pipe would wait for its other end.
fn open_file(path: &Path, found: &Metadata, write: bool) -> io::Result<File> {
    match found.file_type() {
        kind if kind.is_file() => OpenOptions::new().read(true).write(write).open(path),
        kind if kind.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(super::not_a_file()),
    }
}

#[cfg(unix)]
pub(super) fn set_owner(file: &File, owner: Owner) -> io::Result<()> {
    use std::os::unix::fs::{PermissionsExt, fchown};
    let mut mode = owner.mode & 0o777;
    let held = state_of(file)?.owner;
    if (held.user, held.group) != (owner.user, owner.group) {
        let both = fchown(file, Some(owner.user), Some(owner.group));
        // Only the system's administrator may give files away. A member of a group may set the group, and a permission for
        // one group must not apply to another.
        if both.is_err()
            && held.group != owner.group
            && fchown(file, None, Some(owner.group)).is_err()
        {
            mode &= !0o070;
        }
    }
    file.set_permissions(std::fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
pub(super) fn set_owner(_file: &File, _owner: Owner) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
pub(super) fn state_at(dir: &Dir, name: &OsStr) -> io::Result<FileState> {
    Ok(state(&dir.join(name).symlink_metadata()?))
}

#[cfg(unix)]
pub(super) fn state_of(file: &File) -> io::Result<FileState> {
    Ok(state(&file.metadata()?))
}

#[cfg(windows)]
pub(super) fn state_at(dir: &Dir, name: &OsStr) -> io::Result<FileState> {
    crate::sys::portable::windows::state_at(&dir.join(name))
}

#[cfg(windows)]
pub(super) use crate::sys::portable::windows::state_of;

#[cfg(unix)]
fn state(found: &Metadata) -> FileState {
    use std::os::unix::fs::MetadataExt;
    FileState {
        id: FileId {
            device: found.dev(),
            inode: found.ino(),
        },
        owner: Owner {
            mode: found.mode() & 0o777,
            user: found.uid(),
            group: found.gid(),
        },
        links: found.nlink(),
    }
}

pub(super) fn remove(dir: &Dir, name: &OsStr) -> io::Result<()> {
    std::fs::remove_file(dir.join(name))
}

pub(super) fn rename(dir: &Dir, from: &OsStr, to: &OsStr) -> io::Result<()> {
    std::fs::rename(dir.join(from), dir.join(to))
}

pub(super) fn publish(dir: &Dir, from: &OsStr, to: &OsStr) -> io::Result<()> {
    let temporary = tempfile::TempPath::try_from_path(dir.join(from))?;
    temporary.persist_noclobber(dir.join(to)).map_err(|failed| {
        // Removing the name is up to the caller.
        let _ = failed.path.keep();
        failed.error
    })
}

pub(super) fn names(dir: &Dir, _path: &Path) -> io::Result<Vec<OsString>> {
    let entries = std::fs::read_dir(dir)?;
    entries
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect()
}

#[cfg(unix)]
pub(super) fn sync(dir: &Dir) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Does nothing: a folder can't be opened for a sync, and the file system's own journal has to suffice.
#[cfg(not(unix))]
pub(super) fn sync(_dir: &Dir) -> io::Result<()> {
    Ok(())
}
