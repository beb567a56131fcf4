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

/// The byte before the place where writing to a regular file begins: the last one, unless it is written over. `None` if
/// there is none, or it can't be read.
#[cfg(unix)]
pub fn byte_before(file: &File) -> Option<u8> {
    use std::io::Seek;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;
    let flags = rustix::fs::fcntl_getfl(file).ok()?;
    let place = if flags.contains(rustix::fs::OFlags::APPEND) {
        file.metadata().ok()?.len()
    } else {
        let mut file = file;
        file.stream_position().ok()?
    };
    // A file that is only to be appended to has mostly not been opened for reading.
    let again = File::open(format!("/dev/fd/{}", file.as_raw_fd())).ok()?;
    let mut byte = [0];
    again.read_exact_at(&mut byte, place.checked_sub(1)?).ok()?;
    Some(byte[0])
}

/// The byte before the place where writing to a regular file begins, where the system can tell.
#[cfg(not(unix))]
pub fn byte_before(_: &File) -> Option<u8> {
    None
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
