//! A negative filter on its way from the checkpoint that made it to the view that maps its segments.

use std::sync::{Arc, Mutex};

use crate::fingerprint::segment::negative_filter::NegativeFilter;
use crate::sys::lock;

/// The filter of the segments of a directory, by its version, that a checkpoint of this handle is about to publish.
#[derive(Debug, Default)]
pub(crate) struct PendingFilter(Mutex<Option<(u64, Arc<NegativeFilter>)>>);

impl PendingFilter {
    /// Sets the filter that contains all fingerprints of a directory.
    pub(crate) fn set(&self, version: u64, filter: Option<Arc<NegativeFilter>>) {
        let filter = filter.map(|filter| (version, filter));
        // What was there is dropped without the lock.
        let _ = std::mem::replace(&mut *lock(&self.0), filter);
    }

    /// Takes the filter of a directory's segments, if this handle has one. From here on the segments keep it.
    pub(crate) fn take(&self, version: u64) -> Option<Arc<NegativeFilter>> {
        let taken = lock(&self.0).take_if(|(of, _)| *of == version);
        taken.map(|(_, filter)| filter)
    }
}
