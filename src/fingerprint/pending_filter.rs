//! A negative filter on its way from the checkpoint that made it to the view that maps its segments.

use std::sync::{Arc, Mutex};

use crate::config::filter_budget::FilterBudget;
use crate::config::open_options::OpenOptions;
use crate::fingerprint::segment::negative_filter::NegativeFilter;
use crate::sys::lock;
use crate::sys::sync::{AtomicU64, Ordering};

/// The filter of the segments of a directory, by its version, that a checkpoint of this handle is about to publish.
#[derive(Debug)]
pub(crate) struct PendingFilter {
    budget: FilterBudget,
    of_version: Mutex<Option<(u64, Arc<NegativeFilter>)>>,
    /// Keys that checkpoints of full buffers have brought since a filter was made by reading.
    streamed: AtomicU64,
}

impl PendingFilter {
    /// Returns none yet, for a handle with these options.
    pub(crate) fn none(options: &OpenOptions) -> Self {
        Self {
            budget: FilterBudget::of(options),
            of_version: Mutex::default(),
            streamed: AtomicU64::new(0),
        }
    }

    /// Returns how much memory filters of this handle may have.
    pub(crate) fn budget(&self) -> FilterBudget {
        self.budget
    }

    /// Takes note of keys that a full buffer brings. Returns how many there have been.
    pub(crate) fn note_streamed(&self, keys: u64) -> u64 {
        let before = self.streamed.fetch_add(keys, Ordering::Relaxed);
        before.saturating_add(keys)
    }

    /// Takes note that what they have brought has paid for a filter.
    pub(crate) fn spend_streamed(&self) {
        self.streamed.store(0, Ordering::Relaxed);
    }

    /// Sets the filter that contains all fingerprints of a directory.
    pub(crate) fn set(&self, version: u64, filter: Option<Arc<NegativeFilter>>) {
        let filter = filter.map(|filter| (version, filter));
        // What was there is dropped without the lock.
        let _ = std::mem::replace(&mut *lock(&self.of_version), filter);
    }

    /// Takes the filter of a directory's segments, if this handle has one. From here on the segments keep it.
    pub(crate) fn take(&self, version: u64) -> Option<Arc<NegativeFilter>> {
        let taken = lock(&self.of_version).take_if(|(of, _)| *of == version);
        taken.map(|(_, filter)| filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Options;

    /// Closing would wait until all of the store is read.
    #[test]
    fn a_filter_is_not_read_for_a_handle_that_is_being_closed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Options::new().create(folder.path().join("store")).unwrap();
        store.insert_batch(&Vec::from_iter(0..100_000_u64)).unwrap();
        store.checkpoint().unwrap();
        let view = store.engine.views.current().unwrap();
        let runs = view.filter.segments().unwrap();
        let checkpoints = &store.engine.checkpoints;
        let read = || runs.read_filter(1 << 20, &|| !checkpoints.is_closing());
        assert!(read().is_some());
        let _closing = checkpoints.note_closing();
        assert!(read().is_none());
    }

    #[test]
    fn what_a_filter_was_paid_with_is_spent() {
        let pending = PendingFilter::none(&OpenOptions::new());
        assert_eq!([pending.note_streamed(5), pending.note_streamed(3)], [5, 8]);
        pending.spend_streamed();
        assert_eq!(pending.note_streamed(2), 2);
    }
}
