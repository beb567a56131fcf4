//! The same by path, for systems without calls relative to an open folder. A folder that is renamed while a store in it
//! is open is not found again, and owners stay as the system sets them.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::{FileId, FileState, Owner};

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

pub(super) fn create(dir: &Dir, name: &OsStr, _owned: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    options.open(dir.join(name))
}

pub(super) fn open(dir: &Dir, name: &OsStr, write: bool) -> io::Result<File> {
    let path = dir.join(name);
    if path.symlink_metadata()?.is_symlink() {
        return Err(super::not_a_file());
    }
    OpenOptions::new().read(true).write(write).open(path)
}

pub(super) fn open_path(path: &Path, write: bool) -> io::Result<File> {
    OpenOptions::new().read(true).write(write).open(path)
}

pub(super) fn set_owner(_file: &File, _owner: Owner) -> io::Result<()> {
    Ok(())
}

pub(super) fn state_at(dir: &Dir, name: &OsStr) -> io::Result<FileState> {
    Ok(state(&dir.join(name).symlink_metadata()?))
}

pub(super) fn state_of(file: &File) -> io::Result<FileState> {
    Ok(state(&file.metadata()?))
}

#[cfg(unix)]
fn state(found: &std::fs::Metadata) -> FileState {
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

/// Nothing distinguishes one file from another.
#[cfg(not(unix))]
fn state(_found: &std::fs::Metadata) -> FileState {
    FileState {
        id: FileId {
            device: 0,
            inode: 0,
        },
        owner: Owner {
            mode: 0o600,
            user: 0,
            group: 0,
        },
        links: 1,
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
