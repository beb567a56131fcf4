//! The state of a page, as verifying and repairing report it.

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

/// A page that differs from what was written.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The layer, counted from 0.
    pub layer: u32,
    /// The page within the layer, counted from 0.
    pub page: u64,
    /// The approximate number of keys affected: the layer's keys divided by its pages.
    pub keys: u64,
}
