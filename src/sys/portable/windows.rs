//! The calls of Windows that the standard library has no name for.

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{AsRawHandle, RawHandle};
use std::path::Path;

use crate::sys::{FileId, FileState, storage::Owner};

/// The byte that stands for a file: far behind the end of any.
const BYTE: u64 = 1 << 62;

const LOCKFILE_FAIL_IMMEDIATELY: u32 = 1;
const LOCKFILE_EXCLUSIVE_LOCK: u32 = 2;
const ERROR_LOCK_VIOLATION: i32 = 33;
const ERROR_IO_PENDING: i32 = 997;
const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;
const FILE_FLAG_BACKUP_SEMANTICS: u32 = 0x0200_0000;

#[repr(C)]
struct Overlapped {
    internal: usize,
    internal_high: usize,
    offset: u32,
    offset_high: u32,
    event: *mut c_void,
}

/// `BY_HANDLE_FILE_INFORMATION`: a time has two fields of 32 bits.
#[repr(C)]
#[derive(Default)]
struct Information {
    attributes: u32,
    times: [u32; 6],
    volume: u32,
    size: [u32; 2],
    links: u32,
    index_high: u32,
    index_low: u32,
}

#[link(name = "kernel32")]
// SAFETY: these are the signatures that Microsoft documents, and the structs above have the fields of theirs.
unsafe extern "system" {
    fn LockFileEx(
        file: RawHandle,
        flags: u32,
        reserved: u32,
        low: u32,
        high: u32,
        place: *mut Overlapped,
    ) -> i32;
    fn UnlockFileEx(
        file: RawHandle,
        reserved: u32,
        low: u32,
        high: u32,
        place: *mut Overlapped,
    ) -> i32;
    fn GetFileInformationByHandle(file: RawHandle, information: *mut Information) -> i32;
}

fn place() -> Overlapped {
    Overlapped {
        internal: 0,
        internal_high: 0,
        offset: BYTE as u32,
        offset_high: (BYTE >> 32) as u32,
        event: std::ptr::null_mut(),
    }
}

/// Locks the byte, if no other open file has it.
pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    let flags = LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY;
    let mut place = place();
    // SAFETY: the handle is open as long as `file` is borrowed, and was not opened for overlapped calls, so that this one
    // is over when it returns. The struct lives until then.
    let done = unsafe { LockFileEx(file.as_raw_handle(), flags, 0, 1, 0, &raw mut place) };
    if done != 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(ERROR_LOCK_VIOLATION | ERROR_IO_PENDING) => Ok(false),
        _ => Err(error),
    }
}

/// Unlocks the byte, which this open file has locked.
pub(crate) fn unlock(file: &File) {
    let mut place = place();
    // SAFETY: as above. Unlocking what is locked can't fail unless the file is not open.
    let _ = unsafe { UnlockFileEx(file.as_raw_handle(), 0, 1, 0, &raw mut place) };
}

/// Returns what the system tells of an open file. Nothing tells who owns it in numbers.
pub(crate) fn state_of(file: &File) -> io::Result<FileState> {
    let mut found = Information::default();
    // SAFETY: the handle is open as long as `file` is borrowed, and the struct, which the call fills, lives until it
    // returns.
    let done = unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut found) };
    if done == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(FileState {
        id: FileId {
            device: found.volume.into(),
            inode: u64::from(found.index_high) << 32 | u64::from(found.index_low),
        },
        owner: Owner {
            mode: 0o600,
            user: 0,
            group: 0,
        },
        links: found.links.into(),
    })
}

/// Returns the same of what a path names, a link itself rather than where it leads.
pub(crate) fn state_at(path: &Path) -> io::Result<FileState> {
    let mut options = OpenOptions::new();
    // No access at all: that is enough to ask, and keeps no other program from the file.
    options.access_mode(0);
    options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT | FILE_FLAG_BACKUP_SEMANTICS);
    state_of(&options.open(path)?)
}
