//! What a handle knows of segments that its own checkpoint publishes.

use std::sync::Arc;

use super::absence_filter::AbsenceFilter;
use super::entry::Segment;

/// Goes from a checkpoint to the views of its handle, beside the directory that it publishes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Handover {
    /// Contains all fingerprints of the directory.
    pub(crate) absence: Option<Arc<AbsenceFilter>>,
    /// Segments of the directory that this checkpoint has written itself: their pages need no check at their first use.
    pub(crate) written: Vec<Segment>,
}
