//! A damaged page, as verifying and repairing report it.

/// A page that is not what was written.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The layer, counted from 0.
    pub layer: u32,
    /// The page within the layer, counted from 0.
    pub page: u64,
    /// How many keys are concerned, about: the layer's keys over its pages.
    pub keys: u64,
}
