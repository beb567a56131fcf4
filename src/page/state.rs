//! The state of a page, as verifying reports it.

/// What [`Store::verify_pages`](crate::Store::verify_pages) finds in a page, or in each page of a run.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageState {
    /// It has never been written.
    Blank,
    /// It is whole.
    Good {
        /// Its bits that are set, or its counters above 0.
        set: u32,
    },
    /// It is damaged.
    Damaged,
}
