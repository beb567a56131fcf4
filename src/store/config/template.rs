//! An existing store as the template of a new one.

use crate::file::Header;

/// What a new store takes over from another.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) header: Header,
    pub(crate) measured: bool,
}

impl Template {
    /// Whether the other one keeps a sample of its keys.
    pub(crate) fn is_measured(&self) -> bool {
        self.measured
    }
}
