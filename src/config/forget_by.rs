//! Which event of a key starts the window of a store that forgets.

use std::fmt;

/// Which event of a key starts its window in a store that [forgets](crate::CreateOptions::forget_after).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ForgetBy {
    /// Its acceptance as new: however often it comes, it is new again a window later. For work that is due again from time to
    /// time, such as fetching a page.
    #[default]
    First,
    /// The last insert or claim of it: a key that comes at least once in each window stays seen. For repeats that may go on for
    /// any time, such as alerts. Look-ups don't count. A batch that ends with an error may have left out some of the keys that it
    /// calls seen: bring these again.
    Last,
}

impl ForgetBy {
    /// Returns that of a store, by whether inserts renew its keys.
    pub(crate) fn of(renews: bool) -> Self {
        match renews {
            true => Self::Last,
            false => Self::First,
        }
    }

    /// Returns the name: `first` or `last`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Last => "last",
        }
    }
}

impl fmt::Display for ForgetBy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
