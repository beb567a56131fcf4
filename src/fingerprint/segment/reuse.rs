//! When room is written again, and how a reader of an older directory notices.
//!
//! The file has a word, `reused`, that only rises: room that no directory of this version or a later one names may hold
//! anything. A writer raises it, and calls [`before_writing`], before it touches such room. A reader reads what its
//! directory leads to, whatever that is by now, and then asks [`is_stale`]: only if not, was it what its directory
//! names. So nobody waits for readers, and a reader that was stopped for an hour looks again.

use crate::sys::sync::{Ordering, fence};

/// Orders the raised word before all that is written to the room behind it.
pub(crate) fn before_writing() {
    fence(Ordering::SeqCst);
}

/// Returns whether anything that was read up to now may not be what a directory of this version names. `word` reads the
/// word `reused`.
#[inline]
pub(crate) fn is_stale(word: impl FnOnce() -> u64, version: u64) -> bool {
    // Orders the reads above before that of the word.
    fence(Ordering::Acquire);
    word() > version
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_passed_by_a_later_one() {
        before_writing();
        assert!(!is_stale(|| 0, 1));
        assert!(!is_stale(|| 1, 1));
        assert!(is_stale(|| 2, 1));
    }
}
