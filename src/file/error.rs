//! What can be wrong with the bytes of a filter file.

use super::file_kind::FileKind;

/// The store file's own bytes are not what FORMAT.md allows.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The file does not begin with the magic of a store.
    #[error("{}", no_store(got))]
    NotAStore {
        /// Its first eight bytes.
        got: [u8; 8],
    },

    /// The file is shorter than its header and superblock require.
    #[error("{}", too_short(*expected, *got))]
    Truncated {
        /// The minimum length, in bytes.
        expected: u64,
        /// Length found.
        got: u64,
    },

    /// The header's CRC does not match its bytes.
    #[error(
        "the header is damaged: CRC {got:08x}, expected {expected:08x}; `repair` restores it from a superblock's copy"
    )]
    HeaderChecksum {
        /// The CRC computed from the bytes.
        expected: u32,
        /// The stored CRC.
        got: u32,
    },

    /// A later version of the library created the store.
    #[error("format version {got}, this program reads version {expected}; use a newer program")]
    UnsupportedVersion {
        /// The version that this library supports.
        expected: u32,
        /// The version of the file.
        got: u32,
    },

    /// The store uses unknown features that a reader must understand.
    #[error(
        "the store uses features this program does not know (incompatible bits {unknown:#x}); use a newer program"
    )]
    IncompatibleFeatures {
        /// The unknown bits.
        unknown: u64,
    },

    /// The store uses unknown features that a writer must understand.
    #[error(
        "the store uses features this program can't write (bits {unknown:#x}); open it read-only, or use a newer program"
    )]
    ReadOnlyFeatures {
        /// The unknown bits.
        unknown: u64,
    },

    /// A counter of the store is so near its end that a writer would pass it, and readers believe nothing beyond. Only a
    /// file that was made for that gets there.
    #[error(
        "its {counter} is {got}, near the end of counters (2^60): the store can be read, but not written to; merge it into a new one"
    )]
    WornOut {
        /// The counter, by its name in FORMAT.md.
        counter: &'static str,
        /// Its value.
        got: u64,
    },

    /// A later version of the library wrote to the store: a superblock with a right CRC has flags that this version does
    /// not know.
    #[error(
        "a newer version of Everseen has written to the store (superblock flags {unknown:#x}); use a newer program"
    )]
    SuperblockFlags {
        /// The unknown flags.
        unknown: u32,
    },

    /// A header field is out of its range although the CRC is right.
    #[error("header field `{field}` is {got}, expected {expected}")]
    HeaderField {
        /// The field, by its name in FORMAT.md.
        field: &'static str,
        /// The allowed values.
        expected: &'static str,
        /// The value found.
        got: String,
    },

    /// Neither superblock is usable.
    #[error("{}", no_superblock(a, b))]
    NoSuperblock {
        /// The fault of the first.
        a: SuperblockFault,
        /// The fault of the second.
        b: SuperblockFault,
    },

    /// A delta was being applied to this copy, and the application did not finish.
    #[error(
        "a delta was applied only in part to this copy, from generation {from} to {to}; run `apply` with it again"
    )]
    HalfApplied {
        /// The generation that the delta starts from.
        from: u64,
        /// The generation that the delta leads to.
        to: u64,
    },

    /// A page's CRC does not match its bytes, and no interrupted checkpoint explains it.
    #[error(
        "page {page} of layer {layer} is damaged: CRC {got:08x}, expected {expected:08x}; `verify` lists all damage, `repair` gives up the keys of such pages"
    )]
    PageDamaged {
        /// The layer, counted from 0.
        layer: u32,
        /// The page within the layer, counted from 0.
        page: u64,
        /// The CRC computed from the bytes.
        expected: u32,
        /// The stored CRC.
        got: u32,
    },

    /// A page of fingerprints, of their fences or of the directory does not hold what was written.
    #[error("{reason}; `verify` lists all damage, `repair` gives up the keys of such pages")]
    SegmentDamaged {
        /// The page, by its number in the file.
        page: u64,
        /// What is wrong with it.
        reason: String,
    },

    /// A section (hashes that are kept exactly) does not hold what was written.
    #[error(
        "the section `{section}` is damaged: CRC {got:08x}, expected {expected:08x}; `repair` gives up its {hashes} hashes"
    )]
    SectionDamaged {
        /// The section, by its name in FORMAT.md.
        section: &'static str,
        /// The number of hashes in it.
        hashes: u64,
        /// The CRC computed from the bytes. If the hashes are out of order, it covers only the bytes up to there, and
        /// may equal the stored one.
        expected: u32,
        /// The stored CRC.
        got: u32,
    },
}

/// Describes a file that begins as no store does, perhaps as another file of Everseen.
fn no_store(magic: &[u8; 8]) -> String {
    match FileKind::of_magic(magic) {
        Some(FileKind::Delta) => {
            "is a delta of an Everseen store, no store; apply it to the copy that it was made for"
                .to_owned()
        }
        Some(kind) => format!("is {kind}, no store"),
        None => "not an Everseen store".to_owned(),
    }
}

/// Describes a file that is too short for a magic, and therefore may be anything.
fn too_short(expected: u64, got: u64) -> String {
    match got {
        0 => "not an Everseen store: the file is empty".to_owned(),
        1 => "not an Everseen store: the file has 1 byte".to_owned(),
        2..8 => format!("not an Everseen store: the file has {got} bytes"),
        _ => format!(
            "the file is cut short: {got} bytes, expected at least {expected}; restore it from a copy"
        ),
    }
}

/// Describes superblocks of which neither is usable: they are damaged, or from before keys had their bits in runs.
fn no_superblock(a: &SuperblockFault, b: &SuperblockFault) -> String {
    let is_early = |fault: &SuperblockFault| {
        matches!(
            fault,
            SuperblockFault::Field {
                field: "run_length",
                got: 0,
                ..
            }
        )
    };
    let faults = [a, b];
    let all = faults
        .iter()
        .all(|fault| is_early(fault) || **fault == SuperblockFault::Blank);
    match all && faults.into_iter().any(is_early) {
        true => "an early build created this store and placed the bits of its keys differently; create it again from its keys".to_owned(),
        false => format!(
            "both superblocks are damaged (A: {a}; B: {b}); restore the file from a copy"
        ),
    }
}

/// Why a superblock is unusable.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockFault {
    /// It has never been written.
    #[error("never written")]
    Blank,
    /// It does not begin with its magic.
    #[error("wrong first bytes")]
    Magic {
        /// Its first eight bytes.
        got: [u8; 8],
    },
    /// Its length is out of range.
    #[error("length {got}")]
    Length {
        /// The length it claims.
        got: u32,
    },
    /// Its CRC does not match its bytes.
    #[error("CRC {got:08x}, expected {expected:08x}")]
    Checksum {
        /// The CRC computed from the bytes.
        expected: u32,
        /// The stored CRC.
        got: u32,
    },
    /// Its copy of the header differs from the header.
    #[error("belongs to another header")]
    ForeignHeader,
    /// It has flags that only a later version knows.
    #[error("flags {unknown:#x} of a newer version of Everseen; use a newer program")]
    UnknownFlags {
        /// The unknown flags.
        unknown: u32,
    },
    /// A field is out of its range although the CRC is right.
    #[error("field `{field}` is {got}, expected {expected}")]
    Field {
        /// The field, by its name in FORMAT.md.
        field: &'static str,
        /// The allowed values.
        expected: &'static str,
        /// The value found.
        got: u64,
    },
}
