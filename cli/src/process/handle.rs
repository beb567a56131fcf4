//! File handling that differs between systems.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::Path;
#[cfg(unix)]
use std::time::{Duration, Instant};

/// Returns another handle on a standard stream, without the buffer and the lock of the one in `std`.
#[cfg(unix)]
pub fn file_of(stream: &impl std::os::fd::AsFd) -> io::Result<File> {
    stream.as_fd().try_clone_to_owned().map(File::from)
}

/// Returns another handle on a standard stream, without the buffer and the lock of the one in `std`.
#[cfg(windows)]
pub fn file_of(stream: &impl std::os::windows::io::AsHandle) -> io::Result<File> {
    stream.as_handle().try_clone_to_owned().map(File::from)
}

/// What precedes the position where writing to a regular file begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    Nothing,
    Byte(u8),
    /// There is something, which can't be read.
    Unknown,
}

/// Returns what precedes the position where writing to a regular file begins: its last byte, unless the file is
/// overwritten.
#[cfg(unix)]
pub fn before(file: &File) -> Before {
    use std::io::Seek;
    let appends =
        rustix::fs::fcntl_getfl(file).is_ok_and(|flags| flags.contains(rustix::fs::OFlags::APPEND));
    let place = match appends {
        true => file.metadata().map(|metadata| metadata.len()),
        false => {
            let mut file = file;
            file.stream_position()
        }
    };
    let Ok(place) = place else {
        return Before::Unknown;
    };
    let Some(last) = place.checked_sub(1) else {
        return Before::Nothing;
    };
    let mut byte = [0];
    match reader_of(file).map(|file| read_at(&file, &mut byte, last)) {
        Some(Ok(())) => Before::Byte(byte[0]),
        _ => Before::Unknown,
    }
}

/// Returns what precedes the position where writing to a regular file begins, where the system can tell.
#[cfg(not(unix))]
pub fn before(_: &File) -> Before {
    Before::Nothing
}

/// Returns a handle for reading a file that may have been opened for writing alone, as a shell opens an output.
#[cfg(unix)]
pub fn reader_of(file: &File) -> Option<File> {
    use std::os::fd::AsRawFd;
    let mode = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::WRONLY;
    let flags = rustix::fs::fcntl_getfl(file).ok()?;
    if (flags & mode) != rustix::fs::OFlags::WRONLY {
        return file.try_clone().ok();
    }
    let number = file.as_raw_fd();
    // The first is there without `/dev`, the second on other systems than Linux.
    let names = ["/proc/self/fd", "/dev/fd"].map(|folder| format!("{folder}/{number}"));
    names.iter().find_map(|name| File::open(name).ok())
}

/// Returns a handle for reading, where the system can tell.
#[cfg(not(unix))]
pub fn reader_of(_: &File) -> Option<File> {
    None
}

/// Returns whether two names lead to one file, where the system can tell.
#[cfg(unix)]
pub fn is_same_file(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// Returns whether two names lead to one file, where the system can tell.
#[cfg(not(unix))]
pub fn is_same_file(_: &Metadata, _: &Metadata) -> bool {
    false
}

/// Returns whether a path names a regular file without a byte.
pub fn is_empty_file(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() == 0)
}

/// The identity of a file, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileId {
    pub device: u64,
    pub inode: u64,
}

/// Returns the identity of a file, where the system can tell.
#[cfg(unix)]
pub fn id(file: &Metadata) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt;
    Some(FileId {
        device: file.dev(),
        inode: file.ino(),
    })
}

/// Returns the identity of a file, where the system can tell.
#[cfg(not(unix))]
pub fn id(_: &Metadata) -> Option<FileId> {
    None
}

/// Returns how many names a file has.
#[cfg(unix)]
pub fn links(file: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(file)
}

/// Returns how many names a file has, where the system can tell.
#[cfg(not(unix))]
pub fn links(_: &Metadata) -> u64 {
    1
}

/// Fills `bytes` from a position in a file.
#[cfg(unix)]
pub fn read_at(file: &File, bytes: &mut [u8], place: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, place)
}

/// Fills `bytes` from a position in a file.
#[cfg(not(unix))]
pub fn read_at(_: &File, _: &mut [u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Writes all bytes at a position in a file.
#[cfg(unix)]
pub fn write_at(file: &File, bytes: &[u8], place: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, place)
}

/// Writes all bytes at a position in a file.
#[cfg(not(unix))]
pub fn write_at(_: &File, _: &[u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Creates a file in a folder that has no name, and is gone when it is closed.
#[cfg(target_os = "linux")]
pub fn unnamed_file(folder: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// Creates a file in a folder that has no name, where the system has such files.
#[cfg(not(target_os = "linux"))]
pub fn unnamed_file(_: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Makes opening a file without a peer, such as a pipe, return instead of waiting for the peer.
#[cfg(unix)]
pub fn without_waiting(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt;
    options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
}

/// Does nothing: no open waits here.
#[cfg(not(unix))]
pub fn without_waiting(_: &mut OpenOptions) {}

/// Makes opening a link an error, and opening a file without a peer not wait.
#[cfg(unix)]
pub fn without_following(options: &mut OpenOptions) {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
}

/// Does nothing: links are rare here.
#[cfg(not(unix))]
pub fn without_following(_: &mut OpenOptions) {}

/// Says what a file is that can't be an output by name.
#[cfg(unix)]
pub fn sort_of(file: &Metadata) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match file.file_type() {
        sort if sort.is_fifo() => "not a regular file but a pipe",
        sort if sort.is_socket() => "not a regular file but a socket",
        sort if sort.is_file() => "a file without a name",
        _ => "not a regular file but a device",
    }
}

/// Says what a file is that can't be an output by name.
#[cfg(not(unix))]
pub fn sort_of(_: &Metadata) -> &'static str {
    "not a regular file"
}

/// Makes the names in a folder durable.
#[cfg(unix)]
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Does nothing: the system makes the names durable itself.
#[cfg(not(unix))]
pub fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// How long a lock of another process is waited for. A run that was killed keeps its locks until the system has taken its
/// memory back.
#[cfg(unix)]
const DYING: Duration = Duration::from_secs(2);

/// Locks a whole file against other processes that ask, for as long as it is open. Returns whether it was unlocked, or
/// became so within [`DYING`].
#[cfg(unix)]
pub fn lock(file: &File) -> io::Result<bool> {
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(std::fs::TryLockError::WouldBlock) if begun.elapsed() < DYING => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(std::fs::TryLockError::WouldBlock) => return Ok(false),
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Takes no lock, since a lock would keep others from reading as well.
#[cfg(not(unix))]
pub fn lock(_: &File) -> io::Result<bool> {
    Ok(true)
}

/// The attribute of a file that identifies the runs that write to it.
#[cfg(target_os = "linux")]
const MARK: &str = "user.everseen.writer";

/// Marks a file. Returns whether the file system keeps such marks.
#[cfg(target_os = "linux")]
pub fn mark(file: &File, mark: &str) -> io::Result<bool> {
    match rustix::fs::fsetxattr(file, MARK, mark.as_bytes(), rustix::fs::XattrFlags::empty()) {
        Err(rustix::io::Errno::NOTSUP | rustix::io::Errno::PERM) => Ok(false),
        done => Ok(done.map(|()| true)?),
    }
}

/// Returns the mark of a file, if it has one of at most this many bytes.
#[cfg(target_os = "linux")]
pub fn mark_of(file: &File, longest: usize) -> Option<String> {
    let mut bytes = vec![0; longest];
    let length = rustix::fs::fgetxattr(file, MARK, &mut bytes[..]).ok()?;
    bytes.truncate(length);
    String::from_utf8(bytes).ok()
}

/// Returns `false`: nothing is known of marks here.
#[cfg(not(target_os = "linux"))]
pub fn mark(_: &File, _: &str) -> io::Result<bool> {
    Ok(false)
}

/// Returns the mark of a file, if it has one.
#[cfg(not(target_os = "linux"))]
pub fn mark_of(_: &File, _: usize) -> Option<String> {
    None
}
