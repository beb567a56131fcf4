//! What is known of keys that were looked for before the writer lock was taken.

use crate::store::view::lookup::AbsentSince;

/// Where a key may be that was absent when it was looked for without the writer lock. Claiming looks
/// into the active buffer in any case.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    /// In the buffer that is active still, if it has come at all.
    Active,
    /// Or in the one that was active then, and is frozen.
    Frozen,
    /// Or in the pages.
    Settled,
}

impl Since {
    /// From the active generation now and the one that is still to be settled, if there is one.
    pub(crate) fn of(absent: AbsentSince, active: u64, frozen: Option<u64>) -> Self {
        match active {
            _ if absent.is_of(active) => Self::Active,
            _ if frozen.is_some_and(|frozen| absent.is_of(frozen)) => Self::Frozen,
            _ => Self::Settled,
        }
    }
}
