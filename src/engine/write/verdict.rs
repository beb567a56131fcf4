//! The verdicts on keys to insert.

use crate::error::Error;

/// The outcome of inserting a key.
///
/// There are three, and a caller should do something about each: so this is not `non_exhaustive`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The key was absent, and is present from now on. Exactly one caller gets this for a key.
    New,
    /// The key was present, or it is one of the few that the filter can't tell from present ones. A key that this same
    /// handle has claimed is present, committed or not.
    Seen,
    /// Another handle has claimed the key and not committed yet. If that handle dies first, the key is absent again:
    /// claim it again to learn which. Only in a transactional store.
    Pending,
}

/// What happens to the keys after one that is [pending](Verdict::Pending).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnPending {
    /// They are claimed.
    GoOn,
    /// They are left alone, and get no verdict.
    Stop,
}

impl OnPending {
    /// Returns whether no verdict follows this one.
    #[inline]
    pub(crate) fn stops_at(self, verdict: Verdict) -> bool {
        self == Self::Stop && verdict == Verdict::Pending
    }

    /// Returns whether no verdict follows these.
    #[inline]
    pub(crate) fn stops_after(self, verdicts: &[Verdict]) -> bool {
        verdicts.last().is_some_and(|last| self.stops_at(*last))
    }

    /// Removes the verdicts after a pending one, from `first` on.
    pub(crate) fn truncate(self, verdicts: &mut Vec<Verdict>, first: usize) {
        let mut new = verdicts[first..].iter();
        if self == Self::Stop
            && let Some(place) = new.position(|verdict| *verdict == Verdict::Pending)
        {
            verdicts.truncate(first + place + 1);
        }
    }
}

/// Why a batch ended early.
pub(crate) struct Stop {
    /// The number of its keys that are done.
    pub(crate) done: usize,
    pub(crate) error: Box<Error>,
}

impl Stop {
    pub(crate) fn at(done: usize) -> impl FnOnce(Error) -> Self {
        move |error| Self {
            done,
            error: Box::new(error),
        }
    }
}
