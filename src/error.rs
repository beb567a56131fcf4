//! The errors of this crate. Each says what was expected, what was found, and what to do next.

mod of_system;
mod wording;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use self::wording::{difference, holder, raise, relation, rounded_up, shown};
use crate::escaped::Escaped;
use crate::file::{DeltaError, FormatError};
use crate::page::Kind;
use crate::sizing::SizingError;
use crate::wal::LogError;

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation on a [`Store`](crate::Store) was refused or failed.
///
/// Unless a variant says otherwise, the operation changed nothing and the store remains usable.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no store at this path. `create` creates one.
    #[error("{path}: no such store; create one with `create`", path = shown(path))]
    NotFound {
        /// The store's path.
        path: PathBuf,
    },

    /// `create` found something at this path. It never overwrites.
    #[error("{path}: already exists; open it, or choose another name", path = shown(path))]
    AlreadyExists {
        /// The store's path.
        path: PathBuf,
    },

    /// The file is empty, so it is no store yet. `create` makes it one, in its place.
    #[error("{path}: is an empty file, not a store yet; create one in its place with `create`", path = shown(path))]
    EmptyFile {
        /// The path.
        path: PathBuf,
    },

    /// The file is empty, and a file beside it shows that it was a store: something has cut it to nothing.
    #[error("{path}: is empty, but was a store, as {beside} shows; restore it from a copy, or remove both if the store is gone for good", path = shown(path), beside = shown(beside))]
    Emptied {
        /// The path.
        path: PathBuf,
        /// A log or shared memory of the store that it was.
        beside: PathBuf,
    },

    /// The path is a symbolic link whose target does not exist.
    #[error("{path}: is a link that leads nowhere; remove it, or choose another name", path = shown(path))]
    DanglingLink {
        /// The link.
        path: PathBuf,
    },

    /// The folder that should hold the store does not exist.
    #[error("{path}: no such folder; create it first", path = shown(path))]
    MissingFolder {
        /// The folder.
        path: PathBuf,
    },

    /// The path names a folder, not a file.
    #[error("{path}: is a folder; a store is a file", path = shown(path))]
    IsFolder {
        /// The path.
        path: PathBuf,
    },

    /// The path names a link, a pipe or a device where a file of Everseen's is expected. Links are followed only for
    /// the store itself.
    #[error("{path}: is not a regular file; give the store another name", path = shown(path))]
    NotAFile {
        /// The path.
        path: PathBuf,
    },

    /// A file that is not Everseen's has a name that this operation needs. The file is left unchanged.
    #[error("{path}: Everseen needs this name, and the file is not one of its own; move or rename it", path = shown(path))]
    InTheWay {
        /// The file.
        path: PathBuf,
    },

    /// Beside the store lies a log that belongs to another store and holds keys: that store had this name before and
    /// was removed or moved away.
    #[error("{path}: holds keys of another store that had this name; move that store back, or move this file away", path = shown(path))]
    LeftoverLog {
        /// The log.
        path: PathBuf,
    },

    /// Beside the store lies a log of the same store, but of another moment: the store file was replaced by an older or a
    /// newer copy. The log may be the only place that has its keys, so the store neither answers nor goes on without it.
    #[error(
        "{path}: is a log of generation {log_generation}, and the store file {store} is {relation}: it was replaced by a copy of another moment; put the file back that belongs to the log, or go on without the log's keys: move it away, or have `repair` set it aside",
        path = shown(path), store = shown(store), relation = relation(*generation, *log_generation)
    )]
    OtherMoment {
        /// The log.
        path: PathBuf,
        /// The store.
        store: PathBuf,
        /// The generation that the store file has come to.
        generation: u64,
        /// The generation of the log.
        log_generation: u64,
    },

    /// The store's file has several names (hard links). A writer would leave its log beside one of them, where handles
    /// that use the other names would not find it. Readers may open it.
    #[error("{path}: the file has {names} names (hard links), so its log could be missed; remove the others (keep the one beside which a log lies), or copy it with `snapshot`", path = shown(path))]
    ManyNames {
        /// The path.
        path: PathBuf,
        /// How many names it has.
        names: u64,
    },

    /// Other handles have the store's file open under another name: a hard link, or another mount of it. Or the file
    /// `NAME-shm`, through which this handle would join them, was removed.
    #[error("{path}: the store is open under another name (a link, another mount), or its -shm file was removed; use the name by which it was opened, or close it there first", path = shown(path))]
    OtherName {
        /// The path.
        path: PathBuf,
    },

    /// A file of the open store was removed, renamed or replaced from outside. The handle can't go on. What it
    /// acknowledged since the last checkpoint is in the store's log, if that log still has its name. A handle that only
    /// reads reports this if the store's name is gone, and otherwise [`Replaced`](Self::Replaced).
    #[error("{path}: was removed, renamed or replaced while the store was open; put it back and open the store again", path = shown(path))]
    Moved {
        /// The file.
        path: PathBuf,
    },

    /// The name of a store that is open for reading leads to another file now: somebody replaced the store or wrote over
    /// it, or the store lay in a lower layer of an overlay file system (a container's image), which copies a file when it
    /// is first opened for writing. What the handle has answered is what the old file held.
    #[error("{path}: is not the file any more that was opened for reading: it was replaced, or copied by an overlay file system for its first writer; answers so far are of the old one; open the store again", path = shown(path))]
    Replaced {
        /// The store.
        path: PathBuf,
    },

    /// The operating system denies access.
    #[error("could not {action} {path}: permission denied", path = shown(path))]
    PermissionDenied {
        /// The action that failed.
        action: &'static str,
        /// The file it acted on.
        path: PathBuf,
    },

    /// The file system can only be read, or is mounted so.
    #[error("could not {action} {path}: the disk can only be read", path = shown(path))]
    ReadOnlyDisk {
        /// The action that failed.
        action: &'static str,
        /// The file it acted on.
        path: PathBuf,
    },

    /// The name of a file beside the store would be longer than the file system allows.
    #[error("could not {action} {path}: the name is too long; give the store a shorter name, since the names of its side files are up to 26 bytes longer", path = shown(path))]
    NameTooLong {
        /// The action that failed.
        action: &'static str,
        /// The file it acted on.
        path: PathBuf,
    },

    /// The disk is full. Nothing acknowledged is lost, and the store works again once there is room.
    #[error("could not {action} {path}: no space left on the disk; make room and try again", path = shown(path))]
    NoSpace {
        /// The action that failed.
        action: &'static str,
        /// The file it acted on.
        path: PathBuf,
    },

    /// The disk has no room for a write buffer, which is a file beside the store while it is open. Nothing acknowledged
    /// is lost.
    #[error("could not make {path}: no space left on the disk for a write buffer of {bytes} bytes; make room, or grant less memory with the option `buffer`, of which this is seven sixteenths", path = shown(path))]
    NoRoomForBuffer {
        /// The buffer's file.
        path: PathBuf,
        /// The size it was to have, in bytes.
        bytes: u64,
    },

    /// The system gives this process no more memory, most likely because its address space is limited (`ulimit -v`,
    /// `RLIMIT_AS`). Maps of files count: that of the store and those of its buffers.
    #[error("could not {action} {path}: out of memory{limit}", path = shown(path), limit = raise(*limit))]
    OutOfMemory {
        /// The action that failed.
        action: &'static str,
        /// The file it acted on.
        path: PathBuf,
        /// The limit on this process's address space, in bytes, if there is one.
        limit: Option<u64>,
    },

    /// Any other failure of the operating system.
    #[error("could not {action} {path}: {source}", path = shown(path))]
    Io {
        /// The action that failed, worded so that the path can follow.
        action: &'static str,
        /// The file it acted on.
        path: PathBuf,
        /// The operating system's error.
        r#source: io::Error,
    },

    /// Another handle has the store open, and one of the two wants it for itself: an exclusive handle, `repair`, or
    /// `apply` on a copy. Or another process has it, on a system other than Linux.
    #[error("{path}: the store is open in another process or handle; wait until it is closed", path = shown(path))]
    Locked {
        /// The lock file.
        path: PathBuf,
    },

    /// Another version of this program or library has the store open. Its shared memory has a different layout.
    #[error("{path}: another version of Everseen has the store open (its shared memory is {got}, this one's {expected}); close the store there first, or use that version here", path = shown(path))]
    OtherLayout {
        /// The shared-memory file.
        path: PathBuf,
        /// Magic and length that this version expects.
        expected: String,
        /// Magic and length found in the file.
        got: String,
    },

    /// The store file's bytes violate the format.
    #[error("{path}: {source}", path = shown(path))]
    Format {
        /// The store file.
        path: PathBuf,
        /// The violation.
        r#source: FormatError,
    },

    /// The append log's bytes violate the format.
    #[error("{path}: {source}", path = shown(path))]
    Log {
        /// The log file.
        path: PathBuf,
        /// The violation.
        r#source: LogError,
    },

    /// The memory that the store's handles share (`NAME-shm`, `NAME-shm.G`) is not what they wrote: something else
    /// wrote into these files. All handles must be closed. The next handle to open the store recovers it from its logs.
    #[error("{path}: the shared memory of its handles is damaged: {word} is {got}, expected {expected}; close the store in every process and open it again, which recovers it from its logs", path = shown(path))]
    SharedMemory {
        /// The store.
        path: PathBuf,
        /// The damaged word.
        word: &'static str,
        /// The values it may have.
        expected: String,
        /// The value it has.
        got: u64,
    },

    /// The bytes of a delta, or of the copy it applies to, are invalid.
    #[error("{path}: {source}", path = shown(path))]
    Delta {
        /// The delta, or the copy.
        path: PathBuf,
        /// What is wrong with it.
        r#source: DeltaError,
    },

    /// The parameters of a new store contradict each other.
    #[error(transparent)]
    Sizing(#[from] SizingError),

    /// An option's value is out of range.
    #[error("option `{option}`: got {got}, expected {expected}", got = Escaped(got))]
    InvalidOption {
        /// The option's name.
        option: &'static str,
        /// The values that are allowed.
        expected: String,
        /// The value that was given.
        got: String,
    },

    /// Two stores can't be merged, because they differ in a parameter that decides where a key's bits are.
    #[error("{path}: can't be merged with {other}: {difference}; create stores for merging with the option `like`", path = shown(path), other = shown(other), difference = difference(field, got, expected))]
    Mismatch {
        /// The store that does not fit.
        path: PathBuf,
        /// The store it was to be merged with.
        other: PathBuf,
        /// The parameter in which they differ, by its name in FORMAT.md.
        field: &'static str,
        /// The value that the other store has, or needs.
        expected: String,
        /// The value that this store has.
        got: String,
    },

    /// Stores of this kind can't do this: be merged, be folded, remove keys, count them.
    #[error("{path}: is of kind {got}; only {expected} can {action}", path = shown(path))]
    WrongKind {
        /// The store.
        path: PathBuf,
        /// The requested operation, worded so that it follows "can".
        action: &'static str,
        /// The stores that support it.
        expected: &'static str,
        /// The store's kind.
        got: Kind,
    },

    /// Only a store that forgets can do this.
    #[error("{path}: keeps keys for ever; only stores that forget can {action}", path = shown(path))]
    NeverForgets {
        /// The store.
        path: PathBuf,
        /// The requested operation, worded so that it follows "can".
        action: &'static str,
    },

    /// A store built from others would exceed the bound on its false-positive rate. It was not created.
    #[error("{path}: would have a false positive rate of {rate}, above its bound of {expected:e}: too few bits for about {keys} keys; to create it all the same, raise its bound to {rate} (the option `fpr`)", path = shown(path), rate = rounded_up(*got))]
    Overfull {
        /// The store that was to be created.
        path: PathBuf,
        /// The approximate number of keys it would hold.
        keys: u64,
        /// The bound on its rate.
        expected: f64,
        /// The lowest bound that it would meet.
        got: f64,
    },

    /// A store can only be opened read-only, and some of its keys are in its logs, which merging does not read. Nor does a
    /// [delta](crate::Store::snapshot_since); a [whole copy](crate::Store::snapshot) does.
    #[error("{path}: {keys} keys are still in its log, and it can't be opened for writing to move them into its pages; run `checkpoint` where it can be written", path = shown(path))]
    KeysInLog {
        /// The store.
        path: PathBuf,
        /// The number of keys in its logs.
        keys: u64,
    },

    /// The handle was opened read-only.
    #[error("the store was opened read-only; open it for writing")]
    ReadOnly,

    /// A store of fixed capacity holds all the keys it was created for. It still answers for keys that it holds.
    #[error(
        "the store is full: it was created for {capacity} keys; create a larger one, or one without a capacity, which grows"
    )]
    Full {
        /// The number of keys it was created for.
        capacity: u64,
    },

    /// The handle has more uncommitted operations than it may have. Commit, then go on.
    #[error("more than {quota} uncommitted keys; commit more often, or open with a larger buffer")]
    TransactionTooLarge {
        /// The number of uncommitted keys that a handle may have.
        quota: u64,
    },

    /// The tag of a commit is longer than the format allows.
    #[error("the tag has {got} bytes, and at most {expected} are kept")]
    TagTooLarge {
        /// Most bytes allowed.
        expected: usize,
        /// Bytes given.
        got: usize,
    },

    /// The superblock has no room for another named writer and its tag.
    #[error(
        "writers and tags need {got} bytes, and the superblock has room for {expected}; use fewer writer names or shorter tags"
    )]
    TooManyWriters {
        /// The bytes available.
        expected: usize,
        /// The bytes needed.
        got: usize,
    },

    /// An earlier write or sync failed, so this handle no longer knows what is on the disk. Reopen the store: it
    /// recovers what is durable.
    #[error(
        "this handle can't go on after an earlier failure; reopen the store, which recovers what is durable (the failure: {cause})"
    )]
    Poisoned {
        /// The earlier failure.
        cause: Arc<Error>,
    },

    /// Another handle is busy, and did not finish within this handle's timeout. Try again. A stopped process is waited
    /// for; only a dead one is replaced.
    #[error("{path}: waited too long for {what}{holder}; try again, or wait longer (the option `timeout`)", path = shown(path), holder = holder(*process))]
    Busy {
        /// The file whose lock was waited for.
        path: PathBuf,
        /// The event that was waited for.
        what: &'static str,
        /// The process that holds the lock, if known. It is a number, not proof that the process is alive.
        process: Option<u64>,
    },

    /// The locks of this file system do not exclude other handles.
    #[error("{path}: file locks do not work on this file system; move the store to a local disk, or open it with `exclusive` and make sure that nothing else opens it", path = shown(path))]
    NoLocks {
        /// The lock file.
        path: PathBuf,
    },

    /// Too many handles have the store open.
    #[error("more than {expected} handles have the store open; close some")]
    TooManyHandles {
        /// The largest number of handles allowed.
        expected: usize,
    },

    /// This handle reads what other handles write, and all of those have closed the store or died. Open the store again
    /// to see what later writers do, or let the handle do so: [`OpenOptions::follow`](crate::OpenOptions::follow).
    ///
    /// In a store of fingerprints, the same error ends a read-only handle that shares no memory with writers, since there
    /// were none when it was opened, once a later writer's checkpoint uses the room of the pages that it reads.
    #[error("every process that had the store open for writing is gone; open it again")]
    Ended,

    /// The callback that watched the progress of a long call ended it early. The call has left nothing behind.
    #[error("cancelled; nothing was left behind")]
    Cancelled,

    /// This process was forked after the handle was opened. The handle's locks belong to the parent process.
    #[error("this handle belongs to the parent of this process; open the store again after a fork")]
    Forked,

    /// The handle has been closed.
    #[error("the store has been closed; open it again")]
    Closed,
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    /// Programs print an error with its sources: what a message has said already must not come again.
    #[test]
    fn what_a_message_says_is_not_its_source_too() {
        let path = || PathBuf::from("a.ever");
        let errors = [
            Error::io("read", &path(), io::Error::other("a broken disk")),
            Error::Format {
                path: path(),
                source: FormatError::HalfApplied { from: 1, to: 2 },
            },
            Error::Log {
                path: path(),
                source: LogError::Missing { generation: 1 },
            },
            Error::Delta {
                path: path(),
                source: DeltaError::Missing,
            },
            Error::Poisoned {
                cause: Arc::new(Error::Closed),
            },
        ];
        for error in errors {
            assert!(error.source().is_none(), "{error}");
            assert!(error.to_string().contains(": "), "{error}");
        }
    }
}
