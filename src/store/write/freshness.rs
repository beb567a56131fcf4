//! How far a look-up made before taking the writer lock still holds.

use crate::store::view::lookup::AbsentSince;

/// Where a key may be now that was absent when it was looked up without the writer lock. Claiming it searches the
/// active buffer in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// In the active buffer, if it was inserted at all.
    Active,
    /// Or in the buffer that was active then and is sealed now.
    Sealed,
    /// Or in the pages.
    Checkpointed,
}

impl Freshness {
    /// Compares the look-up with the current active generation and with the sealed one that waits for its checkpoint,
    /// if there is one.
    #[inline]
    pub(crate) fn of(absent: AbsentSince, active: u64, sealed: Option<u64>) -> Self {
        match sealed {
            _ if absent.is_of(active) => Self::Active,
            Some(sealed) if absent.is_of(sealed) => Self::Sealed,
            _ => Self::Checkpointed,
        }
    }
}
