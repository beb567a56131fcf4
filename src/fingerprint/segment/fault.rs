//! What can be wrong with the bytes of segments and of their directory.

use crate::file::FormatError;
use crate::fingerprint::page::read::FingerprintFault;
use crate::page::{self, Binding, Content, PAGE_BYTES};

/// A page, an entry or a sum that is not what FORMAT.md allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SegmentFault {
    /// The page's CRC does not match its bytes, or the page is blank.
    #[error("page {number} is damaged: CRC {got:08x}, expected {expected:08x}")]
    Checksum {
        number: u64,
        expected: u32,
        got: u32,
    },
    /// The page was written by another checkpoint than what names it.
    #[error("page {number} is of generation {got}, expected {expected}")]
    Generation {
        number: u64,
        expected: u64,
        got: u64,
    },
    /// The page's list is none.
    #[error("page {number} is no list of fingerprints: {fault:?}")]
    List {
        number: u64,
        fault: FingerprintFault,
    },
    /// A page of fences or of the directory holds another number of them, or something behind them.
    #[error(
        "page {number} holds {got} entries, expected {expected}, or more than zeros behind them"
    )]
    Entries {
        number: u64,
        expected: u64,
        got: u64,
    },
    /// Fences don't rise, or leave their segment's range.
    #[error("the first fingerprints on page {number} are not in order")]
    Fences { number: u64 },
    /// A field of a segment's entry is out of range.
    #[error("a segment's {field} is {got}, expected {expected}")]
    Field {
        field: &'static str,
        expected: &'static str,
        got: u64,
    },
    /// A segment holds more or fewer fingerprints than its entry says.
    #[error("a segment holds {got} fingerprints, expected {expected}")]
    Keys { expected: u64, got: u64 },
    /// Two segments share pages.
    #[error("two segments share page {number}")]
    Shared { number: u64 },
}

impl SegmentFault {
    /// Returns the page that is wrong; 0 if it is more than one.
    pub(crate) fn page(&self) -> u64 {
        match *self {
            Self::Checksum { number, .. }
            | Self::Generation { number, .. }
            | Self::List { number, .. }
            | Self::Entries { number, .. }
            | Self::Fences { number }
            | Self::Shared { number } => number,
            Self::Field { .. } | Self::Keys { .. } => 0,
        }
    }
}

impl From<SegmentFault> for FormatError {
    fn from(fault: SegmentFault) -> Self {
        FormatError::SegmentDamaged {
            page: fault.page(),
            reason: fault.to_string(),
        }
    }
}

/// Checks the header of a page that a checkpoint of this generation wrote; returns its occupancy.
pub(crate) fn check_sealed(
    binding: Binding,
    number: u64,
    generation: u64,
    page: &[u8; PAGE_BYTES],
) -> Result<u32, SegmentFault> {
    match binding.check(number, page) {
        Ok(Content::Sealed {
            generation: got,
            occupancy,
        }) => match got == generation {
            true => Ok(occupancy),
            false => Err(SegmentFault::Generation {
                number,
                expected: generation,
                got,
            }),
        },
        Ok(Content::Blank) => Err(SegmentFault::Checksum {
            number,
            expected: binding.checksum(number, page),
            got: 0,
        }),
        Err(fault) => Err(SegmentFault::Checksum {
            number,
            expected: fault.expected,
            got: fault.got,
        }),
    }
}

/// Checks that a page holds this many entries, of `bytes` each, and only zeros behind them.
pub(super) fn check_entries(
    number: u64,
    expected: usize,
    bytes: usize,
    page: &[u8; PAGE_BYTES],
) -> Result<(), SegmentFault> {
    let got = u64::from(page::occupancy(page));
    let rest = &page[page::PAYLOAD_OFFSET + expected * bytes..];
    match got == expected as u64 && rest.iter().all(|byte| *byte == 0) {
        true => Ok(()),
        false => Err(SegmentFault::Entries {
            number,
            expected: expected as u64,
            got,
        }),
    }
}
