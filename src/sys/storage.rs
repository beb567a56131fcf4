//! The one seam between the engine and the disk.
//!
//! Every byte of a store is written through [`Storage`] and [`StorageFile`], and every order that durability depends on
//! is a call here. A test can therefore insert a wrapper that fails the n-th call, or one that keeps a journal of
//! writes and then builds every disk that a power cut may leave.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

pub use super::folder::{FileId, Folder, Owner};
use super::{Disk, LockedFile, Map, RangeLock};

/// A place that holds named files: the disk, unless a test inserts a wrapper.
///
/// Names are durable only after [`sync_folder`](Storage::sync_folder).
pub trait Storage: Send + Sync + Debug {
    /// Returns the same place as seen from an open folder in it: the paths of files directly in that folder keep their
    /// meaning when it is renamed, new files get the store's owner and mode, and only files that Everseen created are
    /// removed. Returns `None` if the place offers no such view; then only paths are available.
    fn within(&self, folder: &Arc<Folder>) -> Option<Arc<dyn Storage>> {
        let _ = folder;
        None
    }

    /// Creates a new file, open for reading and writing.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::AlreadyExists`] if the file exists.
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>>;

    /// Opens an existing file for reading, and with `write` also for writing.
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn StorageFile>>;

    /// Gives the file `from` the name `to`, unless `to` exists.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::AlreadyExists`] if there is a file `to`.
    fn publish(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in the folder durable.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// Returns whether something of this name exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;
}

/// An open file. Any thread may call any method.
pub trait StorageFile: Send + Sync + Debug {
    /// Returns the file's length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Reads into `bytes` from `offset`; may read fewer, and reads 0 only at the end of the file.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes from `bytes` at `offset`; may write fewer.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Does the same as [`write_at`](Self::write_at), within the room that [`allocate`](Self::allocate) has reserved,
    /// for one writer at a time. The resulting contents are the same.
    fn append_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.write_at(bytes, offset)
    }

    /// Sets the length. A new part reads as zeros.
    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Reserves room on the disk up to `length` and makes the file at least that long, so that later writes inside
    /// cannot run out of space.
    fn allocate(&self, length: u64) -> io::Result<()>;

    /// Makes everything written so far durable, with the length needed to find it (`fdatasync`).
    fn sync(&self) -> io::Result<()>;

    /// Asks the system to start to write this range to the disk, so that the next [`sync`](Self::sync) waits for less of
    /// it. The system may do nothing.
    ///
    /// # Errors
    /// The disk failed. What was written may be lost, as after a failed sync, and the next sync may succeed all the same.
    fn start_writing(&self, range: Range<u64>) -> io::Result<()> {
        let _ = range;
        Ok(())
    }

    /// Returns the next range from `offset` on that may hold anything but zeros; an empty one if there is none up to
    /// the end of the file. The range includes whatever the system can't judge.
    fn next_data(&self, offset: u64) -> io::Result<Range<u64>> {
        Ok(offset..u64::MAX)
    }

    /// Maps `length` bytes from `offset` for reading. The range must lie within the file.
    fn map(&self, offset: u64, length: u64) -> io::Result<Map>;

    /// Returns the system's own file if no wrapper lies in between, for copying without reading.
    fn as_file(&self) -> Option<&File> {
        None
    }
}

/// Returns the computer's own file systems.
#[must_use]
pub fn disk() -> Arc<dyn Storage> {
    Arc::new(Disk::default())
}

/// One of the locks of a store file (FORMAT.md, "Locks and concurrent readers"), held exclusively until it is dropped.
/// For this repository's own tests.
#[doc(hidden)]
#[derive(Debug)]
pub struct HeldByte(#[expect(dead_code, reason = "held, not read")] RangeLock);

impl HeldByte {
    /// Takes the lock; returns `None` if another open file has it.
    pub fn take(path: &Path, byte: u64) -> io::Result<Option<Self>> {
        let file = LockedFile::open(|| File::options().read(true).write(true).open(path))?;
        Ok(file.try_exclusive(byte)?.map(Self))
    }
}

/// Fills `bytes` from `offset`, in as many calls as needed.
pub(crate) fn read_exact_at(
    file: &dyn StorageFile,
    mut bytes: &mut [u8],
    mut offset: u64,
) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.read_at(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                bytes = &mut bytes[read..];
                offset += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes all of `bytes` at `offset`, in as many calls as needed.
pub(crate) fn write_all_at(file: &dyn StorageFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    all_at(bytes, offset, |bytes, offset| file.write_at(bytes, offset))
}

/// Writes all of `bytes` within the room that the file has reserved.
pub(crate) fn append_all_at(file: &dyn StorageFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    all_at(bytes, offset, |bytes, offset| file.append_at(bytes, offset))
}

fn all_at(
    mut bytes: &[u8],
    mut offset: u64,
    write: impl Fn(&[u8], u64) -> io::Result<usize>,
) -> io::Result<()> {
    while !bytes.is_empty() {
        match write(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
