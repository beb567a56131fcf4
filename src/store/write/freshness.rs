//! What is known of keys that were looked for before the writer lock was taken.

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
    /// For keys that were absent while a generation was the active one, from the active generation now
    /// and the one that is still to be settled, if there is one.
    pub(crate) fn of(generation: u64, active: u64, frozen: Option<u64>) -> Self {
        match active {
            _ if active == generation => Self::Active,
            _ if frozen == Some(generation) => Self::Frozen,
            _ => Self::Settled,
        }
    }
}
