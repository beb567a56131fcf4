//! Looking up many keys of a counting store together.

use crate::engine::read::Reader;
use crate::engine::view::View;
use crate::error::Result;
use crate::filter::count::KeyCount;
use crate::prefetch::hash_source::HashSource;
use crate::prefetch::{ALL_GROUP, BATCH, GROUP};

impl Reader<'_> {
    /// Sets `found` for each key of a part that a counting store holds.
    pub(super) fn find_counted(self, keys: &dyn HashSource, found: &mut [bool]) -> Result<()> {
        let mut hashes = [0; BATCH];
        for (at, found) in (0..).step_by(BATCH).zip(found.chunks_mut(BATCH)) {
            let batch = &mut hashes[..found.len()];
            keys.hashes_from(at, batch);
            let counted = self.count_batch(batch, |place, key| found[place] = key.count() > 0)?;
            if counted.is_none() {
                // Retry key by key, so that only the affected key fails.
                for (hash, found) in batch.iter().zip(found) {
                    *found = self.is_counted(*hash)?;
                }
            }
        }
        Ok(())
    }

    /// Counts the keys of a batch, prefetching each a group ahead. Returns `None` if it met a damaged page, or if
    /// another handle rotated meanwhile: a buffer that was not searched may have counted the keys.
    pub(crate) fn count_batch(
        self,
        batch: &[u64],
        mut each: impl FnMut(usize, KeyCount),
    ) -> Result<Option<()>> {
        let view = self.views.current()?;
        let group = |first| batch.iter().skip(first).take(GROUP);
        fetch(&view, group(0));
        // A present key needs all its lines. The previous key predicts the next ones.
        let mut was_there = true;
        for (place, hash) in batch.iter().enumerate() {
            if place % GROUP == 0 {
                fetch(&view, group(place + GROUP));
            }
            if was_there
                && place % ALL_GROUP == 0
                && let Ok(layer) = view.filter.counters()
            {
                let next = batch.iter().skip(place + ALL_GROUP).take(ALL_GROUP);
                next.for_each(|hash| layer.prefetch_all_counters(*hash));
            }
            match self.count_by(&view, *hash) {
                Ok(counted) => {
                    was_there = counted.checkpointed > 0;
                    each(place, counted);
                }
                Err(_) => return Ok(None),
            }
        }
        let is_current = view.is_active(self.shared);
        Ok(is_current.then_some(()))
    }
}

/// Prefetches what the look-ups of these keys touch first.
fn fetch<'a>(view: &View, hashes: impl Iterator<Item = &'a u64>) {
    for hash in hashes {
        view.active.buffer.prefetch(*hash);
        if let Some(sealed) = &view.sealed {
            sealed.buffer.prefetch(*hash);
        }
        if let Ok(layer) = view.filter.counters() {
            layer.prefetch_counters(*hash);
        }
    }
}
