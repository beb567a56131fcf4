//! What can be wrong with a delta, or with the copy it is for.

use super::SuperblockFault;

/// Why a delta can't be created from a copy, or can't be applied to one.
///
/// Unless a variant says otherwise, the copy is unchanged.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    /// Nothing exists at this path.
    #[error("no such delta; `snapshot_since` makes one")]
    Missing,

    /// Nothing exists at the path of the copy.
    #[error("no such copy; `snapshot` makes one")]
    MissingCopy,

    /// The file does not begin with the magic of a delta.
    #[error("not a delta of an Everseen store (`snapshot_since` makes one)")]
    NotADelta {
        /// Its first eight bytes, or fewer if the file is shorter.
        got: Vec<u8>,
    },

    /// A later version of the library created the delta.
    #[error("delta version {got}, this program reads version {expected}; use a newer program")]
    UnsupportedVersion {
        /// The version that this library supports.
        expected: u32,
        /// The version of the file.
        got: u32,
    },

    /// The delta is shorter or longer than its header says.
    #[error(
        "the delta has {got} bytes, expected {expected}; was all of it copied? Create it again"
    )]
    Length {
        /// The length that its header says, in bytes.
        expected: u64,
        /// Length found.
        got: u64,
    },

    /// A CRC does not match the delta's bytes.
    #[error(
        "the delta's {part} is damaged: CRC {got:08x}, expected {expected:08x}; copy it again, or create a new one"
    )]
    Checksum {
        /// The part: the delta's header or its content.
        part: &'static str,
        /// The CRC computed from the bytes.
        expected: u32,
        /// The stored CRC.
        got: u32,
    },

    /// A field of the delta is out of its range although the CRC is right.
    #[error("the delta's field `{field}` is {got}, expected {expected}")]
    Field {
        /// The field, by its name in FORMAT.md.
        field: &'static str,
        /// The allowed values.
        expected: &'static str,
        /// The value found.
        got: u64,
    },

    /// The delta's superblock can't be used.
    #[error("the delta's superblock can't be used: {0}")]
    Superblock(SuperblockFault),

    /// The file is a store, but not a copy that `snapshot` created.
    #[error(
        "this copy was not made by `snapshot`, so what it lacks is unknown; take a full snapshot"
    )]
    NotACopy,

    /// The copy was written to since its creation, as a store of its own.
    #[error(
        "this copy has been written to since it was made (superblock {got}, made with {expected}) and has a history of its own; take a full snapshot"
    )]
    Written {
        /// The sequence of the superblock that was written when the copy was created.
        expected: u64,
        /// The sequence of its current superblock.
        got: u64,
    },

    /// The copy belongs to another store.
    #[error(
        "delta and copy belong to different stores: id {}, expected {}",
        hex(got),
        hex(expected)
    )]
    WrongStore {
        /// The id of the delta's store.
        expected: [u8; 16],
        /// The id of the copy's store.
        got: [u8; 16],
    },

    /// The delta starts from another generation than the copy's.
    #[error(
        "the delta continues from generation {expected}, and this copy is at generation {got}; apply deltas in order, each once: leave out those that it has"
    )]
    WrongGeneration {
        /// The generation that the delta starts from.
        expected: u64,
        /// The copy's generation.
        got: u64,
    },

    /// Generation and store match, but the pages don't hold what the delta was created for: the store continued from a
    /// backup meanwhile, or the copy is damaged. A copy that was half applied before stays so.
    #[error(
        "the pages of this copy differ from those that the delta continues from (digest {got:016x}, expected {expected:016x}); take a full snapshot"
    )]
    WrongContent {
        /// The expected digest.
        expected: u64,
        /// The digest found.
        got: u64,
    },

    /// The copy is newer than the store: the store was restored from an older backup.
    #[error(
        "this copy is at generation {got}, ahead of the store at {expected}; was the store restored from an older copy? Take a full snapshot"
    )]
    Newer {
        /// The store's generation.
        expected: u64,
        /// The copy's generation.
        got: u64,
    },

    /// The copy has a layer that the store or the delta lacks or describes differently.
    #[error("layer {layer} of this copy differs from the store's; take a full snapshot")]
    Layers {
        /// The first layer that differs, counted from 0.
        layer: u32,
    },

    /// The directory of the delta, or a segment in it, is out of range or damaged although the delta's CRC is right.
    #[error("the delta's segments can't be used: {reason}")]
    SegmentDamaged {
        /// The page, by its number in the store; 0 if it is more than one.
        page: u64,
        /// What is wrong.
        reason: String,
    },

    /// The copy lacks a segment that the delta does not bring.
    #[error(
        "neither this copy nor the delta has the segment that begins with fingerprint {first}; take a full snapshot"
    )]
    SegmentMissing {
        /// The first fingerprint of the first such segment.
        first: u64,
    },

    /// Another delta was partly applied.
    #[error(
        "another delta was applied only in part to this copy, from generation {from} to {to}; apply that one again first"
    )]
    Unfinished {
        /// The generation that the other delta starts from.
        from: u64,
        /// The generation that the other delta leads to.
        to: u64,
    },
}

fn hex(bytes: &[u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
