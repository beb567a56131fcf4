//! What can be wrong with the bytes of a filter file.

/// The store file's own bytes are not what FORMAT.md allows.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The file does not begin with the magic of a store.
    #[error("not an Everseen store")]
    NotAStore {
        /// Its first eight bytes.
        got: [u8; 8],
    },

    /// The file is shorter than its header and superblock say.
    #[error("{}", too_short(*expected, *got))]
    Truncated {
        /// Least length, in bytes.
        expected: u64,
        /// Length found.
        got: u64,
    },

    /// The header's CRC does not fit its bytes.
    #[error(
        "the header is damaged: CRC {got:08x}, expected {expected:08x}; `everseen repair` restores it from a superblock's copy"
    )]
    HeaderChecksum {
        /// The CRC of the bytes there.
        expected: u32,
        /// The CRC that is written.
        got: u32,
    },

    /// The store was made by a later version.
    #[error("format version {got}, this program reads version {expected}; use a newer program")]
    UnsupportedVersion {
        /// The version this library knows.
        expected: u32,
        /// The version of the file.
        got: u32,
    },

    /// The store uses features without which it can't be understood.
    #[error(
        "the store uses features this program does not know (incompatible bits {unknown:#x}); use a newer program"
    )]
    IncompatibleFeatures {
        /// The unknown bits.
        unknown: u64,
    },

    /// The store uses features without which it can't be written.
    #[error(
        "the store uses features this program can't write (bits {unknown:#x}); open it read-only, or use a newer program"
    )]
    ReadOnlyFeatures {
        /// The unknown bits.
        unknown: u64,
    },

    /// A header field is out of its range although the CRC is right.
    #[error("header field `{field}` is {got}, expected {expected}")]
    HeaderField {
        /// The field, by its name in FORMAT.md.
        field: &'static str,
        /// What is allowed.
        expected: &'static str,
        /// What is there.
        got: String,
    },

    /// Neither superblock can be used.
    #[error("both superblocks are damaged (A: {a}; B: {b}); restore the file from a copy")]
    NoSuperblock {
        /// What is wrong with the first.
        a: SuperblockFault,
        /// What is wrong with the second.
        b: SuperblockFault,
    },

    /// A delta was being applied to this copy, and that did not come to an end.
    #[error(
        "a delta was applied half to this copy, from generation {from} to {to}; `everseen apply` it again"
    )]
    HalfApplied {
        /// The generation from which the delta leads on.
        from: u64,
        /// The generation to which it leads.
        to: u64,
    },

    /// A page's CRC does not fit its bytes, and no interrupted checkpoint explains it.
    #[error(
        "page {page} of layer {layer} is damaged: CRC {got:08x}, expected {expected:08x}; `everseen verify` lists all damage, `everseen repair` gives up the keys of such pages"
    )]
    PageDamaged {
        /// The layer, counted from 0.
        layer: u32,
        /// The page within the layer, counted from 0.
        page: u64,
        /// The CRC of the bytes there.
        expected: u32,
        /// The CRC that is written.
        got: u32,
    },

    /// A section, hashes that are kept exactly, is not what was written.
    #[error(
        "the section `{section}` is damaged: CRC {got:08x}, expected {expected:08x}; `everseen repair` gives up its {hashes} hashes"
    )]
    SectionDamaged {
        /// Which one, by its name in FORMAT.md.
        section: &'static str,
        /// How many hashes it had.
        hashes: u64,
        /// The CRC of the bytes there; where hashes do not rise, of those up to there, and it may be the right one.
        expected: u32,
        /// The CRC that is written.
        got: u32,
    },
}

/// One too short for a magic may be anything.
fn too_short(expected: u64, got: u64) -> String {
    match got {
        0 => "not an Everseen store: the file is empty".to_owned(),
        1..8 => format!("not an Everseen store: the file has {got} bytes"),
        _ => format!(
            "the file is cut short: {got} bytes, expected at least {expected}; restore it from a copy"
        ),
    }
}

/// Why a superblock can't be used.
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
    /// Its length is impossible.
    #[error("length {got}")]
    Length {
        /// The length it claims.
        got: u32,
    },
    /// Its CRC does not fit its bytes.
    #[error("CRC {got:08x}, expected {expected:08x}")]
    Checksum {
        /// The CRC of the bytes there.
        expected: u32,
        /// The CRC that is written.
        got: u32,
    },
    /// Its copy of the header differs from the header.
    #[error("belongs to another header")]
    ForeignHeader,
    /// A field is out of its range although the CRC is right.
    #[error("field `{field}` is {got}, expected {expected}")]
    Field {
        /// The field, by its name in FORMAT.md.
        field: &'static str,
        /// What is allowed.
        expected: &'static str,
        /// What is there.
        got: u64,
    },
}
