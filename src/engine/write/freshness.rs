//! How far a look-up made before taking the writer lock still holds.

use crate::engine::view::View;
use crate::engine::view::lookup::AbsentSince;

/// Where a key may be now that was absent when it was looked up without the writer lock. Claiming it searches the
/// active buffer in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// In the active buffer, if it was inserted at all.
    Active,
    /// Or in the buffer that was active then and is sealed now.
    Sealed,
    /// Or in the pages. Also if a transaction was given up since, by which the look-up had gone.
    Checkpointed,
}

impl Freshness {
    /// Compares the look-up with the generations of the current view.
    #[inline]
    pub(crate) fn of(absent: AbsentSince, view: &View) -> Self {
        if absent.is_of_active(view) {
            return Self::Active;
        }
        match absent.is_of_sealed(view) {
            true => Self::Sealed,
            false => Self::Checkpointed,
        }
    }
}
