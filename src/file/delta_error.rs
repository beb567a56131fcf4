//! What can be wrong with a delta, or with the copy that it is for.

use super::SuperblockFault;

/// Why a delta can't be made since a copy, or can't be applied to one.
///
/// Unless a variant says otherwise, the copy is as it was.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    /// There is nothing at this path.
    #[error("no such delta; `everseen snapshot --since` makes one")]
    Missing,

    /// There is nothing at the path of the copy.
    #[error("no such copy; `everseen snapshot` makes one")]
    MissingCopy,

    /// The file does not begin with the magic of a delta.
    #[error("not a delta of an Everseen store (`everseen snapshot --since` makes one)")]
    NotADelta {
        /// Its first eight bytes, as far as there are so many.
        got: Vec<u8>,
    },

    /// The delta was made by a later version.
    #[error("delta version {got}, this program reads version {expected}; use a newer program")]
    UnsupportedVersion {
        /// The version this library knows.
        expected: u32,
        /// The version of the file.
        got: u32,
    },

    /// The delta is shorter or longer than its header says.
    #[error("the delta has {got} bytes, expected {expected}; was it sent whole? Make it anew")]
    Length {
        /// The length that its header tells, in bytes.
        expected: u64,
        /// Length found.
        got: u64,
    },

    /// A CRC does not fit the delta's bytes.
    #[error(
        "the delta's {part} is damaged: CRC {got:08x}, expected {expected:08x}; send it again, or make it anew"
    )]
    Checksum {
        /// Which part: its header or its content.
        part: &'static str,
        /// The CRC of the bytes there.
        expected: u32,
        /// The CRC that is written.
        got: u32,
    },

    /// A field of the delta is out of its range although the CRC is right.
    #[error("the delta's field `{field}` is {got}, expected {expected}")]
    Field {
        /// The field, by its name in FORMAT.md.
        field: &'static str,
        /// What is allowed.
        expected: &'static str,
        /// What is there.
        got: u64,
    },

    /// The delta's superblock can't be used.
    #[error("the delta's superblock can't be used: {0}")]
    Superblock(SuperblockFault),

    /// The file is a store, but no copy that `snapshot` made.
    #[error(
        "this is no copy that `everseen snapshot` made, so nobody knows what it lacks; take a whole snapshot"
    )]
    NotACopy,

    /// The copy has been written to since it was made, as a store of its own.
    #[error(
        "this copy was written to since it was made (superblock {got}, made with {expected}): its history is its own now; take a whole snapshot"
    )]
    Written {
        /// The sequence of the superblock it was made with.
        expected: u64,
        /// The sequence of its superblock now.
        got: u64,
    },

    /// The copy is of another store.
    #[error("these are two stores: id {}, expected {}", hex(got), hex(expected))]
    WrongStore {
        /// The id of the store that the delta is of.
        expected: [u8; 16],
        /// The id of the copy's store.
        got: [u8; 16],
    },

    /// The delta leads on from another generation than the copy's.
    #[error(
        "the delta leads on from generation {expected}, and this copy is of generation {got}; apply the deltas in their order, each once"
    )]
    WrongGeneration {
        /// The generation that the delta leads on from.
        expected: u64,
        /// The copy's.
        got: u64,
    },

    /// Generation and store are right, and what the pages hold is not what the delta was made for: the store went on
    /// from a backup meanwhile, or the copy is damaged.
    #[error(
        "the pages of this copy are not those that the delta leads on from (digest {got:016x}, expected {expected:016x}); take a whole snapshot"
    )]
    WrongContent {
        /// The digest that was expected.
        expected: u64,
        /// The digest that was found.
        got: u64,
    },

    /// The copy is newer than the store: the store went back to an older backup.
    #[error(
        "this copy is of generation {got}, and the store only at {expected}; was the store restored from an older one? Take a whole snapshot"
    )]
    Newer {
        /// The store's generation.
        expected: u64,
        /// The copy's.
        got: u64,
    },

    /// The copy has a layer that the store, or the delta, does not have so.
    #[error("layer {layer} of this copy is not the store's; take a whole snapshot")]
    Layers {
        /// The first that differs, counted from 0.
        layer: u32,
    },

    /// Another delta has been applied half.
    #[error(
        "another delta was applied half to this copy, from generation {from} to {to}; apply that one again first"
    )]
    Unfinished {
        /// The generation from which that one leads on.
        from: u64,
        /// The generation to which it leads.
        to: u64,
    },
}

fn hex(bytes: &[u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
