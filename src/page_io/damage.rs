//! A damaged page, as verifying and repairing report it.

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
