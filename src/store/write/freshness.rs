//! How far a look-up that was made before the writer lock was taken still holds.

use crate::store::view::lookup::AbsentSince;

/// Where a key may be now that was absent when it was looked up without the writer lock. Claiming it
/// searches the active buffer in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// In the active buffer, if it has come at all.
    Active,
    /// Or in the buffer that was active then, and is sealed.
    Sealed,
    /// Or in the pages.
    Checkpointed,
}

impl Freshness {
    /// From the active generation now, and the sealed one that waits for its checkpoint, if there is one.
    #[inline]
    pub(crate) fn of(absent: AbsentSince, active: u64, sealed: Option<u64>) -> Self {
        match sealed {
            _ if absent.is_of(active) => Self::Active,
            Some(sealed) if absent.is_of(sealed) => Self::Sealed,
            _ => Self::Checkpointed,
        }
    }
}
