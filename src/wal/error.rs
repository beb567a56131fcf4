//! What can be wrong with a log.

/// A log's bytes are not what FORMAT.md allows, or a log is missing.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The superblock expects a log, and there is none.
    #[error(
        "the log of generation {generation} is missing: the store was moved without it, or its newest superblock is damaged; put the log back beside the store, or give it up with `repair`"
    )]
    Missing {
        /// The log's generation.
        generation: u64,
    },

    /// The log's own header is damaged.
    #[error(
        "the log's header is damaged; restore store and log from a copy, or give the log's keys up with `repair`"
    )]
    Header,

    /// A later version of the library wrote the log.
    #[error("log version {got}, this program reads version {expected}; use a newer program")]
    UnsupportedVersion {
        /// The version that this library supports.
        expected: u32,
        /// The version of the log.
        got: u32,
    },

    /// The log belongs to another store.
    #[error(
        "the log belongs to store {got}, not to {expected}; move it away and put the right one there, or have `repair` set it aside"
    )]
    Foreign {
        /// This store's id, in hexadecimal.
        expected: String,
        /// The log's store id, in hexadecimal.
        got: String,
    },

    /// The log's name and its header name different generations.
    #[error(
        "the log is of generation {got}, and its name says {expected}; give it its own name, or have `repair` set it aside"
    )]
    WrongGeneration {
        /// The generation of its name.
        expected: u64,
        /// The generation of its header.
        got: u64,
    },

    /// A record is damaged or cut off although the log's note or a later record proves that it had been durable.
    #[error(
        "damaged at byte {offset}, inside what was durable up to byte {durable} at least; restore store and log from a copy, or give up what follows with `repair`"
    )]
    Damaged {
        /// Offset of the damaged record.
        offset: u64,
        /// Offset up to which the log is known to have been durable.
        durable: u64,
    },

    /// The file is shorter than it was made, although no durable record is known to be missing.
    #[error(
        "cut off: the file has {got} bytes, and was made with {expected}; restore store and log from a copy, or give up what is gone with `repair`"
    )]
    Truncated {
        /// The length that the file was made with, in bytes.
        expected: u64,
        /// Its length, in bytes.
        got: u64,
    },

    /// The record that closes the log is missing although the checkpoint of that log had begun.
    #[error(
        "the record that closes the log is missing (valid up to byte {end}) although its checkpoint had begun; restore store and log from a copy"
    )]
    Unsealed {
        /// Offset of the end of the valid records.
        end: u64,
    },

    /// Records that were written but not yet durable have vanished from the page cache after a failed sync. Reopening
    /// the store recovers what is durable.
    #[error("a failed sync has lost what was written from byte {offset} on; reopen the store")]
    Lost {
        /// Offset of the end of the valid records.
        offset: u64,
    },

    /// A record's CRC is right, but its contents are invalid.
    #[error("the record at byte {offset} makes no sense: {reason}")]
    Nonsense {
        /// Offset of the record.
        offset: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
}
