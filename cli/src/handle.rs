//! What differs between systems in the handling of files.

use std::fs::{File, Metadata};
use std::io;

/// Another handle on a standard stream, without the buffer and the lock of the one in `std`.
#[cfg(unix)]
pub fn file_of(stream: &impl std::os::fd::AsFd) -> io::Result<File> {
    stream.as_fd().try_clone_to_owned().map(File::from)
}

/// Another handle on a standard stream, without the buffer and the lock of the one in `std`.
#[cfg(windows)]
pub fn file_of(stream: &impl std::os::windows::io::AsHandle) -> io::Result<File> {
    stream.as_handle().try_clone_to_owned().map(File::from)
}

/// Whether two names lead to one file, where the system can tell.
#[cfg(unix)]
pub fn is_same_file(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// Whether two names lead to one file, where the system can tell.
#[cfg(not(unix))]
pub fn is_same_file(_: &Metadata, _: &Metadata) -> bool {
    false
}
