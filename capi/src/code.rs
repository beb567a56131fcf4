//! The codes that functions return, and the numbers that stand for choices. None of them ever changes.

use everseen::Error;

/// How a call ended: `EVERSEEN_OK`, or an error. Later versions may return errors that this header doesn't name.
pub type Code = i32;

/// The call did what it is for.
pub const EVERSEEN_OK: i32 = 0;

/// A pointer is null that must not be.
pub const EVERSEEN_ERROR_NULL_POINTER: i32 = 1;
/// A number stands for no choice, a path or a name is no text, or a pointer leads to the middle of a value.
pub const EVERSEEN_ERROR_INVALID_ARGUMENT: i32 = 2;
/// A length or a count is more than an object in memory can have.
pub const EVERSEEN_ERROR_TOO_LONG: i32 = 3;
/// Offsets decrease, are negative or lead out of the bytes.
pub const EVERSEEN_ERROR_OFFSETS: i32 = 4;
/// The caller's buffer is too small.
pub const EVERSEEN_ERROR_BUFFER_TOO_SMALL: i32 = 5;
/// The store exists, and is less than the options for a new one ask for.
pub const EVERSEEN_ERROR_UNMET_OPTION: i32 = 6;
/// A fault of the library: the call ended in the middle of its work. The handle answers nothing any more; free it.
pub const EVERSEEN_ERROR_PANIC: i32 = 7;
/// An error of the library that has no number of its own.
pub const EVERSEEN_ERROR_OTHER: i32 = 8;

/// There is no store.
pub const EVERSEEN_ERROR_NOT_FOUND: i32 = 20;
/// A file exists where a new store or a copy is to be.
pub const EVERSEEN_ERROR_ALREADY_EXISTS: i32 = 21;
/// The file is empty: no store yet.
pub const EVERSEEN_ERROR_EMPTY_FILE: i32 = 22;
/// The file is empty and was a store, whose log lies beside it.
pub const EVERSEEN_ERROR_EMPTIED: i32 = 23;
/// The path is a link that leads nowhere.
pub const EVERSEEN_ERROR_DANGLING_LINK: i32 = 24;
/// The folder does not exist.
pub const EVERSEEN_ERROR_MISSING_FOLDER: i32 = 25;
/// The path is a folder.
pub const EVERSEEN_ERROR_IS_FOLDER: i32 = 26;
/// The path is neither a file nor a folder.
pub const EVERSEEN_ERROR_NOT_A_FILE: i32 = 27;
/// Something that is no file has the name of a side file.
pub const EVERSEEN_ERROR_IN_THE_WAY: i32 = 28;
/// A log of another store has the name of the new store's own.
pub const EVERSEEN_ERROR_LEFTOVER_LOG: i32 = 29;
/// The log belongs to another moment of the store, as after a restore of the store file alone.
pub const EVERSEEN_ERROR_OTHER_MOMENT: i32 = 30;
/// The file has several names (hard links).
pub const EVERSEEN_ERROR_MANY_NAMES: i32 = 31;
/// The store is open under another name.
pub const EVERSEEN_ERROR_OTHER_NAME: i32 = 32;
/// A file of the open store was removed, renamed or replaced.
pub const EVERSEEN_ERROR_MOVED: i32 = 33;
/// The name of a store that is open for reading leads to another file now.
pub const EVERSEEN_ERROR_REPLACED: i32 = 34;
/// The operating system denies access.
pub const EVERSEEN_ERROR_PERMISSION_DENIED: i32 = 35;
/// The file system can only be read.
pub const EVERSEEN_ERROR_READ_ONLY_DISK: i32 = 36;
/// A side file's name would be too long.
pub const EVERSEEN_ERROR_NAME_TOO_LONG: i32 = 37;
/// The disk is full. Nothing acknowledged is lost; make room and try again.
pub const EVERSEEN_ERROR_NO_SPACE: i32 = 38;
/// The disk has no room for a write buffer.
pub const EVERSEEN_ERROR_NO_ROOM_FOR_BUFFER: i32 = 39;
/// The system gives the process no more memory.
pub const EVERSEEN_ERROR_OUT_OF_MEMORY: i32 = 40;
/// Any other failure of the operating system.
pub const EVERSEEN_ERROR_IO: i32 = 41;
/// Another handle has the store open, and one of the two wants it for itself.
pub const EVERSEEN_ERROR_LOCKED: i32 = 42;
/// Another version of Everseen has the store open.
pub const EVERSEEN_ERROR_OTHER_LAYOUT: i32 = 43;
/// The store file's bytes violate the format: no store, or a damaged one.
pub const EVERSEEN_ERROR_FORMAT: i32 = 44;
/// The log's bytes violate the format.
pub const EVERSEEN_ERROR_LOG: i32 = 45;
/// The memory that handles share was overwritten. Close the store in every process.
pub const EVERSEEN_ERROR_SHARED_MEMORY: i32 = 46;
/// Of deltas, which no function of this version makes or applies.
pub const EVERSEEN_ERROR_DELTA: i32 = 47;
/// The size, rate or kind of a new store can't be had.
pub const EVERSEEN_ERROR_SIZING: i32 = 48;
/// An option's value is out of range.
pub const EVERSEEN_ERROR_INVALID_OPTION: i32 = 49;
/// Of merges, which no function of this version makes.
pub const EVERSEEN_ERROR_MISMATCH: i32 = 50;
/// Stores of this kind can't do this.
pub const EVERSEEN_ERROR_WRONG_KIND: i32 = 51;
/// Only a store that forgets can do this.
pub const EVERSEEN_ERROR_NEVER_FORGETS: i32 = 52;
/// Of merges, which no function of this version makes.
pub const EVERSEEN_ERROR_OVERFULL: i32 = 53;
/// Of deltas and merges, which no function of this version makes.
pub const EVERSEEN_ERROR_KEYS_IN_LOG: i32 = 54;
/// The handle was opened to read.
pub const EVERSEEN_ERROR_READ_ONLY: i32 = 55;
/// The store holds all the keys that it was created for. It still answers.
pub const EVERSEEN_ERROR_FULL: i32 = 56;
/// The handle has as many uncommitted keys as it may have: commit, and go on.
pub const EVERSEEN_ERROR_TRANSACTION_TOO_LARGE: i32 = 57;
/// The tag is longer than `EVERSEEN_MAX_TAG` bytes.
pub const EVERSEEN_ERROR_TAG_TOO_LARGE: i32 = 58;
/// The store has no room for another writer's name and tag.
pub const EVERSEEN_ERROR_TOO_MANY_WRITERS: i32 = 59;
/// An earlier write or sync failed: close the handle and open the store again, which recovers what is durable.
pub const EVERSEEN_ERROR_POISONED: i32 = 60;
/// Another handle did not finish within the timeout: try again.
pub const EVERSEEN_ERROR_BUSY: i32 = 61;
/// File locks do not work on this file system.
pub const EVERSEEN_ERROR_NO_LOCKS: i32 = 62;
/// Too many handles have the store open.
pub const EVERSEEN_ERROR_TOO_MANY_HANDLES: i32 = 63;
/// The writers that this handle read from are gone: open the store again.
pub const EVERSEEN_ERROR_ENDED: i32 = 64;
/// The progress function ended the call.
pub const EVERSEEN_ERROR_CANCELLED: i32 = 65;
/// The process was forked after the handle was opened: open the store again in the child.
pub const EVERSEEN_ERROR_FORKED: i32 = 66;
/// The handle has been closed.
pub const EVERSEEN_ERROR_CLOSED: i32 = 67;

/// Returns the code of an error of the library.
pub(crate) fn code_of(error: &Error) -> Code {
    match error {
        Error::NotFound { .. } => EVERSEEN_ERROR_NOT_FOUND,
        Error::AlreadyExists { .. } => EVERSEEN_ERROR_ALREADY_EXISTS,
        Error::EmptyFile { .. } => EVERSEEN_ERROR_EMPTY_FILE,
        Error::Emptied { .. } => EVERSEEN_ERROR_EMPTIED,
        Error::DanglingLink { .. } => EVERSEEN_ERROR_DANGLING_LINK,
        Error::MissingFolder { .. } => EVERSEEN_ERROR_MISSING_FOLDER,
        Error::IsFolder { .. } => EVERSEEN_ERROR_IS_FOLDER,
        Error::NotAFile { .. } => EVERSEEN_ERROR_NOT_A_FILE,
        Error::InTheWay { .. } => EVERSEEN_ERROR_IN_THE_WAY,
        Error::LeftoverLog { .. } => EVERSEEN_ERROR_LEFTOVER_LOG,
        Error::OtherMoment { .. } => EVERSEEN_ERROR_OTHER_MOMENT,
        Error::ManyNames { .. } => EVERSEEN_ERROR_MANY_NAMES,
        Error::OtherName { .. } => EVERSEEN_ERROR_OTHER_NAME,
        Error::Moved { .. } => EVERSEEN_ERROR_MOVED,
        Error::Replaced { .. } => EVERSEEN_ERROR_REPLACED,
        Error::PermissionDenied { .. } => EVERSEEN_ERROR_PERMISSION_DENIED,
        Error::ReadOnlyDisk { .. } => EVERSEEN_ERROR_READ_ONLY_DISK,
        Error::NameTooLong { .. } => EVERSEEN_ERROR_NAME_TOO_LONG,
        Error::NoSpace { .. } => EVERSEEN_ERROR_NO_SPACE,
        Error::NoRoomForBuffer { .. } => EVERSEEN_ERROR_NO_ROOM_FOR_BUFFER,
        Error::OutOfMemory { .. } => EVERSEEN_ERROR_OUT_OF_MEMORY,
        Error::Io { .. } => EVERSEEN_ERROR_IO,
        Error::Locked { .. } => EVERSEEN_ERROR_LOCKED,
        Error::OtherLayout { .. } => EVERSEEN_ERROR_OTHER_LAYOUT,
        Error::Format { .. } => EVERSEEN_ERROR_FORMAT,
        other => code_of_further(other),
    }
}

/// Returns the code of an error that has to do with what is in the store, or with the handle.
fn code_of_further(error: &Error) -> Code {
    match error {
        Error::Log { .. } => EVERSEEN_ERROR_LOG,
        Error::SharedMemory { .. } => EVERSEEN_ERROR_SHARED_MEMORY,
        Error::Delta { .. } => EVERSEEN_ERROR_DELTA,
        Error::Sizing(_) => EVERSEEN_ERROR_SIZING,
        Error::InvalidOption { .. } => EVERSEEN_ERROR_INVALID_OPTION,
        Error::Mismatch { .. } => EVERSEEN_ERROR_MISMATCH,
        Error::WrongKind { .. } => EVERSEEN_ERROR_WRONG_KIND,
        Error::NeverForgets { .. } => EVERSEEN_ERROR_NEVER_FORGETS,
        Error::Overfull { .. } => EVERSEEN_ERROR_OVERFULL,
        Error::KeysInLog { .. } => EVERSEEN_ERROR_KEYS_IN_LOG,
        Error::ReadOnly => EVERSEEN_ERROR_READ_ONLY,
        Error::Full { .. } => EVERSEEN_ERROR_FULL,
        Error::TransactionTooLarge { .. } => EVERSEEN_ERROR_TRANSACTION_TOO_LARGE,
        Error::TagTooLarge { .. } => EVERSEEN_ERROR_TAG_TOO_LARGE,
        Error::TooManyWriters { .. } => EVERSEEN_ERROR_TOO_MANY_WRITERS,
        Error::Poisoned { .. } => EVERSEEN_ERROR_POISONED,
        Error::Busy { .. } => EVERSEEN_ERROR_BUSY,
        Error::NoLocks { .. } => EVERSEEN_ERROR_NO_LOCKS,
        Error::TooManyHandles { .. } => EVERSEEN_ERROR_TOO_MANY_HANDLES,
        Error::Ended => EVERSEEN_ERROR_ENDED,
        Error::Cancelled => EVERSEEN_ERROR_CANCELLED,
        Error::Forked => EVERSEEN_ERROR_FORKED,
        Error::Closed => EVERSEEN_ERROR_CLOSED,
        // The library adds errors in minor versions.
        _ => EVERSEEN_ERROR_OTHER,
    }
}

#[cfg(test)]
mod tests;
