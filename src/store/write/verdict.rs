//! What became of the keys that were to be inserted.

use crate::error::Error;

/// What became of a key that was to be inserted.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It was absent, and is present from now on. One caller gets this for a key.
    New,
    /// It was present, or it is one of the few that the filter can't tell from present ones.
    Seen,
    /// Another handle has claimed it and not committed yet. If that handle dies first, the key is
    /// absent again: claim it again to learn which. Only in a transactional store.
    Pending,
}

/// What becomes of the keys behind one that is [pending](Verdict::Pending).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnPending {
    /// They are claimed.
    GoOn,
    /// They are left alone, and get no verdict.
    Stop,
}

impl OnPending {
    /// Whether no verdict follows this one.
    #[inline]
    pub(crate) fn stops_at(self, verdict: Verdict) -> bool {
        self == Self::Stop && verdict == Verdict::Pending
    }

    /// Whether no verdict follows these.
    #[inline]
    pub(crate) fn stops_after(self, verdicts: &[Verdict]) -> bool {
        verdicts.last().is_some_and(|last| self.stops_at(*last))
    }

    /// Removes the verdicts behind a pending one, from `first` on.
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
    /// How many of its keys are done.
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
