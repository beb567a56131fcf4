//! What to do about a damaged page.

use crate::page;
use crate::sizing::Cell;

/// What a handle does when it meets a page that is not what was written.
///
/// A page's keys are lost with it: nobody can tell any more which they were. A crawler had rather
/// fetch them again; who must never act twice on a key had rather skip others with them.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnDamage {
    /// Answer [`FormatError::PageDamaged`](crate::FormatError::PageDamaged), and leave the page as
    /// it is. A checkpoint that must write to the page fails; its keys stay in the log.
    #[default]
    Error,
    /// Take all its keys for never seen. The next checkpoint that brings keys for the page writes
    /// it anew, with those alone.
    NeverSeen,
    /// Take all its keys for seen, those too that never were: about one in so many as the layer has
    /// pages. The next checkpoint that brings keys for the page writes it so.
    Seen,
}

impl OnDamage {
    /// The answer of a damaged page, if there is to be one.
    pub(crate) fn answer(self) -> Option<bool> {
        match self {
            OnDamage::Error => None,
            OnDamage::NeverSeen => Some(false),
            OnDamage::Seen => Some(true),
        }
    }

    /// Makes of a damaged page one that verifies, if there is to be one.
    pub(crate) fn replace(
        self,
        cell: Cell,
        number: u64,
        generation: u64,
        bytes: &mut [u8],
    ) -> bool {
        let Some(seen) = self.answer() else {
            return false;
        };
        page::fill(cell, number, generation, seen, bytes);
        true
    }
}
