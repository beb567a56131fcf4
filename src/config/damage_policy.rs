//! What a handle does about a damaged page.

use crate::page::Binding;
use crate::sizing::Cell;

/// What a handle does when it meets a page that differs from what was written.
///
/// A page's keys are lost with it: which keys they were is no longer known. A crawler would rather fetch them again; a
/// program that must never act twice on a key would rather skip some other keys with them.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnDamage {
    /// Returns [`FormatError::PageDamaged`](crate::FormatError::PageDamaged), and leaves the page as it is. A
    /// checkpoint that must write to the page fails; its keys stay in the log.
    #[default]
    Error,
    /// Treats all of its keys as never seen. The next checkpoint that brings keys for the page rewrites it with only
    /// those keys.
    NeverSeen,
    /// Treats all of its keys as seen, including those that never were: about one key in N, where N is the number of
    /// pages of the layer. The next checkpoint that brings keys for the page writes it so.
    Seen,
}

impl OnDamage {
    /// Returns the answer that a damaged page gives; `None` if it is an error.
    pub(crate) fn answer(self) -> Option<bool> {
        match self {
            OnDamage::Error => None,
            OnDamage::NeverSeen => Some(false),
            OnDamage::Seen => Some(true),
        }
    }

    /// Replaces a damaged page by one that verifies; returns `false` if the policy is [`OnDamage::Error`].
    pub(crate) fn replace(
        self,
        binding: Binding,
        cell: Cell,
        number: u64,
        generation: u64,
        bytes: &mut [u8],
    ) -> bool {
        let Some(seen) = self.answer() else {
            return false;
        };
        binding.fill(cell, number, generation, seen, bytes);
        true
    }
}
