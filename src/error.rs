//! What can go wrong, each with what was expected, what was found, and what to do next.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::file::{DeltaError, FormatError};
use crate::log::LogError;
use crate::page::Kind;
use crate::sizing::SizingError;
use crate::sys::{NotAFile, NotOurs};

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation on a [`Store`](crate::Store) was refused or failed.
///
/// Unless a variant says otherwise, the operation changed nothing and the store can be used on.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is nothing at this path. `create` makes a store.
    #[error("{path}: no such store (make one with `create`)", path = path.display())]
    NotFound {
        /// The store's path.
        path: PathBuf,
    },

    /// `create` found something at this path, and never overwrites.
    #[error("{path}: exists already (open it, or choose another name)", path = path.display())]
    AlreadyExists {
        /// The store's path.
        path: PathBuf,
    },

    /// A symbolic link stands at this path, and there is nothing where it leads.
    #[error("{path}: is a link that leads nowhere; remove it, or choose another name", path = path.display())]
    DanglingLink {
        /// The link.
        path: PathBuf,
    },

    /// The folder that should hold the store does not exist.
    #[error("{path}: no such folder (make it first)", path = path.display())]
    MissingFolder {
        /// The folder.
        path: PathBuf,
    },

    /// The path names a folder, not a file.
    #[error("{path}: is a folder, a store is a file", path = path.display())]
    IsFolder {
        /// The path.
        path: PathBuf,
    },

    /// The path names a link, a pipe or a device where a file of Everseen's is expected. Links are followed to the
    /// store itself, and nowhere else.
    #[error("{path}: is not a regular file; rename or remove it", path = path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },

    /// A file that is not Everseen's has a name that this operation needs. It is left as it is.
    #[error("{path}: is not a file of Everseen's, and its name is needed; move it or rename it", path = path.display())]
    InTheWay {
        /// The file.
        path: PathBuf,
    },

    /// Beside a store lies a log that is not its own, and holds keys: of a store that had this name before and was removed
    /// or moved away.
    #[error("{path}: holds keys of another store that had this name; if that store is gone for good, remove this file, else move the store back to it", path = path.display())]
    LeftoverLog {
        /// The log.
        path: PathBuf,
    },

    /// The store's file has several names (hard links). A writer would leave its log beside one of them, where the
    /// others don't find it. Readers may open it.
    #[error("{path}: the file has {names} names (hard links), and only one may be written to; remove the others, or make a copy with `everseen snapshot`", path = path.display())]
    ManyNames {
        /// The path.
        path: PathBuf,
        /// How many names it has.
        names: u64,
    },

    /// Other handles have the store's file open by another name: a hard link, or another mount of it. Or the file
    /// `NAME-shm`, through which they would be joined, was removed.
    #[error("{path}: the store is open under another name (a link, another mount), or its -shm file was removed; use the name by which it was opened, or close it there first", path = path.display())]
    OtherName {
        /// The path.
        path: PathBuf,
    },

    /// A file of an open store was removed, renamed or replaced by somebody else. The handle can't go on: what it
    /// acknowledged since the last checkpoint is in the store's log, if that has its name still.
    #[error("{path}: was removed, renamed or replaced while the store was open; put it back and open the store again", path = path.display())]
    Moved {
        /// The file.
        path: PathBuf,
    },

    /// The operating system denies access.
    #[error("could not {action} {path}: permission denied", path = path.display())]
    PermissionDenied {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
    },

    /// The disk is full. Nothing acknowledged is lost; once there is room the store works on.
    #[error("could not {action} {path}: no space left on the disk; make room and try again", path = path.display())]
    NoSpace {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
    },

    /// The disk has no room for a write buffer, which is a file beside the store while it is open. Nothing
    /// acknowledged is lost.
    #[error("could not make {path}: no space left on the disk for a write buffer of {bytes} bytes; make room, or grant less memory with `--buffer` (`Options::buffer`), of which this is seven sixteenths", path = path.display())]
    NoRoomForBuffer {
        /// The buffer's file.
        path: PathBuf,
        /// How large it was to be.
        bytes: u64,
    },

    /// Any other failure of the operating system.
    #[error("could not {action} {path}: {source}", path = path.display())]
    Io {
        /// What was tried, so that the path can follow.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },

    /// Another handle has the store open.
    #[error("{path}: the store is open in another process or handle; wait until it is closed", path = path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },

    /// Another version of this program has the store open, or of this library: their shared memory is
    /// of another layout.
    #[error("{path}: another version of Everseen has the store open (its shared memory is {got}, this one's {expected}); close the store there first, or use that version here", path = path.display())]
    OtherLayout {
        /// The file of the shared memory.
        path: PathBuf,
        /// Magic and length of this version's.
        expected: String,
        /// Magic and length of what is there.
        got: String,
    },

    /// The store file's own bytes are not what the format allows.
    #[error("{path}: {source}", path = path.display())]
    Format {
        /// The store file.
        path: PathBuf,
        /// What is wrong with them.
        source: FormatError,
    },

    /// The append log's bytes are not what the format allows.
    #[error("{path}: {source}", path = path.display())]
    Log {
        /// The log file.
        path: PathBuf,
        /// What is wrong with them.
        source: LogError,
    },

    /// The memory that handles of the store share (`NAME-shm`, `NAME-shm.G`) is not what they wrote: something else
    /// wrote into these files. All handles must be closed; who opens the store then recovers from its logs.
    #[error("{path}: the memory that its handles share is damaged: {word} is {got}, expected {expected}; close the store everywhere and open it again, which recovers from its logs", path = path.display())]
    SharedMemory {
        /// The store.
        path: PathBuf,
        /// What is wrong.
        word: &'static str,
        /// What it may be.
        expected: String,
        /// What it is.
        got: u64,
    },

    /// A delta's bytes, or the copy it is for, are not what they must be.
    #[error("{path}: {source}", path = path.display())]
    Delta {
        /// The delta, or the copy.
        path: PathBuf,
        /// What is wrong with it.
        source: DeltaError,
    },

    /// The parameters of a new store do not fit together.
    #[error(transparent)]
    Sizing(#[from] SizingError),

    /// An option has a value out of its range.
    #[error("option `{option}`: got {got}, expected {expected}")]
    InvalidOption {
        /// The option's name.
        option: &'static str,
        /// What is allowed.
        expected: String,
        /// What was given.
        got: String,
    },

    /// Two stores can't be merged, because they differ in something that decides where a key's bits
    /// are.
    #[error("{path}: can't be merged with {other}: its {field} is {got}, and not {expected}; make stores that are to be merged with `create --like`", path = path.display(), other = other.display())]
    Mismatch {
        /// The store that does not fit.
        path: PathBuf,
        /// The one that it was to be merged with.
        other: PathBuf,
        /// In what they differ, by its name in FORMAT.md.
        field: &'static str,
        /// What the other one has, or needs.
        expected: String,
        /// What this one has.
        got: String,
    },

    /// Stores of this kind can't be merged, or not be folded.
    #[error("{path}: is of kind {got}, and only {expected} can be {action}", path = path.display())]
    WrongKind {
        /// The store.
        path: PathBuf,
        /// What was asked.
        action: &'static str,
        /// Of which stores that can be asked.
        expected: &'static str,
        /// The store's kind.
        got: Kind,
    },

    /// A store made of others would be wrong more often than they promise. There is no such store
    /// then.
    #[error("{path}: would be wrong at a rate of {rate}, and its bound is {expected:e}: it has too few bits for about {keys} keys; to have it all the same, give {rate} as its bound (fpr)", path = path.display(), rate = rounded_up(*got))]
    Overfull {
        /// The store that was to be made.
        path: PathBuf,
        /// Keys that it would hold, about.
        keys: u64,
        /// The bound of its rate.
        expected: f64,
        /// The least bound that would do.
        got: f64,
    },

    /// A store can only be read, and some of its keys are in its logs, where merging does not look.
    #[error("{path}: {keys} keys are in its log, and it can't be opened for writing, which would bring them into its pages; do `everseen checkpoint` where it can be written to", path = path.display())]
    KeysInLog {
        /// The store.
        path: PathBuf,
        /// Keys in its logs.
        keys: u64,
    },

    /// Only a store of kind counting can do this.
    #[error(
        "only a store of kind counting can {action}, and this one is of kind {kind}; make one with `create --kind counting`"
    )]
    NotCounting {
        /// What was asked.
        action: &'static str,
        /// The store's kind.
        kind: Kind,
    },

    /// The handle was opened read-only.
    #[error("the store was opened read-only; open it for writing")]
    ReadOnly,

    /// A store of fixed capacity holds as many keys as it was made for; keys that it has are still answered.
    #[error(
        "the store is full: it was made for {capacity} keys; make a larger one, or one that grows (kind scalable)"
    )]
    Full {
        /// Keys it was made for.
        capacity: u64,
    },

    /// More operations since the last commit than a handle may have. Commit, then go on.
    #[error("more than {quota} uncommitted keys; commit more often, or open with a larger buffer")]
    TransactionTooLarge {
        /// Keys that a handle may have uncommitted.
        quota: u64,
    },

    /// A commit's tag is longer than the format allows.
    #[error("a tag of {got} bytes; at most {expected} are kept")]
    TagTooLarge {
        /// Most bytes allowed.
        expected: usize,
        /// Bytes given.
        got: usize,
    },

    /// The superblock has no room for one more named writer with its tag.
    #[error(
        "writers and tags need {got} bytes, and the superblock has room for {expected}; use fewer writer names or shorter tags"
    )]
    TooManyWriters {
        /// Bytes there are.
        expected: usize,
        /// Bytes needed.
        got: usize,
    },

    /// An earlier write or sync failed, so this handle no longer knows what is on the disk. Reopen the store: it recovers from what is durable.
    #[error(
        "this handle can't go on after an earlier failure; reopen the store, which recovers what is durable (the failure: {cause})"
    )]
    Poisoned {
        /// The failure.
        cause: Arc<Error>,
    },

    /// Somebody else is at it, and did not come to an end while this handle was willing to wait.
    /// Try again; a process that is stopped is waited for, only a dead one is replaced.
    #[error("{path}: waited too long for {what}{holder}; try again, or with a longer timeout (`--timeout`)", path = path.display(), holder = holder(*process))]
    Busy {
        /// The file whose lock it is.
        path: PathBuf,
        /// What was waited for.
        what: &'static str,
        /// The process that holds it, where that is known. A number, not proof of life.
        process: Option<u64>,
    },

    /// The file system's locks do not keep two handles apart.
    #[error("{path}: locks do not work on this file system; open the store with `exclusive` and see to it that nobody else does, or move it to a local disk", path = path.display())]
    NoLocks {
        /// The lock file.
        path: PathBuf,
    },

    /// Too many handles have the store open.
    #[error("more than {expected} handles have the store open; close some")]
    TooManyHandles {
        /// Most that may.
        expected: usize,
    },

    /// This handle reads what others write, and they have all closed the store or died. Open it
    /// again to see what later ones do.
    #[error("all who had the store open for writing are gone; open it again")]
    Ended,

    /// Whoever watched the progress of a long call had it end early. It has left nothing behind.
    #[error("given up, as asked; nothing was left behind")]
    Cancelled,

    /// The handle was opened by the process that this one was forked from. Its locks belong to the
    /// parent.
    #[error("this handle belongs to the process before the fork; open the store in the child")]
    Forked,

    /// The handle has been closed.
    #[error("the store has been closed; open it again")]
    Closed,
}

fn holder(process: Option<u64>) -> String {
    process.map_or(String::new(), |process| format!(" (process {process})"))
}

/// A rate with two digits, none below the rate.
fn rounded_up(rate: f64) -> String {
    if !(rate > 0.0 && rate < 1.0) {
        return format!("{rate}");
    }
    let exponent = rate.log10().floor();
    let digits = (rate / 10_f64.powf(exponent - 1.0)).ceil();
    format!("{}e{}", digits / 10.0, exponent)
}

impl Error {
    /// Sorts an operating-system error into the variants that a caller may want to act on.
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.get_ref() {
            Some(inner) if inner.is::<NotAFile>() => return Error::NotAFile { path },
            Some(inner) if inner.is::<NotOurs>() => return Error::InTheWay { path },
            _ => {}
        }
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Error::NoSpace { action, path }
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Error::PermissionDenied { action, path }
            }
            io::ErrorKind::IsADirectory => Error::IsFolder { path },
            _ => Error::Io {
                action,
                path,
                source,
            },
        }
    }

    /// A sync that failed. Whatever the reason, and be it a full disk, nobody knows any more what
    /// is durable: never one of the variants that may be tried again.
    pub(crate) fn sync(action: &'static str, path: &Path, source: io::Error) -> Self {
        Error::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }
}
