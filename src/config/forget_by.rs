//! From when on a store that forgets counts the age of a key.

/// From when on the window of a store that [forgets](crate::CreateOptions::forget_after) a key is counted.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ForgetBy {
    /// From when the key was accepted as new: however often it comes, it is new again a window later. For what is to be done
    /// again from time to time, as fetching a page.
    #[default]
    First,
    /// From when the key last came in an insert or a claim: as long as it comes more often than once in a window, it stays. For
    /// what is to be told apart from what is gone, as messages that are sent again and again. Look-ups don't count.
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
}
