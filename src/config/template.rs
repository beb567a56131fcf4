//! An existing store as the template of a new one.

use crate::file::Header;

/// What a new store takes over from an existing one.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) header: Header,
    pub(crate) measured: bool,
    pub(crate) label: Option<Vec<u8>>,
}

impl Template {
    /// Returns whether the existing store keeps a sample of its keys.
    pub(crate) fn is_measured(&self) -> bool {
        self.measured
    }
}
