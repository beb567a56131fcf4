//! A window on a log: the items of one range of hashes, read ahead for the smaller ranges that a checkpoint asks for.

use std::ops::RangeInclusive;

use crate::error::Result;

/// The items of a range of hashes, sorted by hash.
pub(crate) struct LogWindow<T> {
    items: Vec<T>,
    covered: Option<RangeInclusive<u64>>,
    most: u64,
}

impl<T> LogWindow<T> {
    /// Returns an empty window that will hold about `most` items at a time.
    pub(crate) fn new(most: u64) -> Self {
        Self {
            items: Vec::new(),
            covered: None,
            most,
        }
    }

    /// Returns the items of a range. If the window does not cover it, `read` replaces the items by those of a larger
    /// range of a log with `count` items, sorted.
    pub(crate) fn items(
        &mut self,
        hashes: &RangeInclusive<u64>,
        count: u64,
        hash: impl Fn(&T) -> u64,
        read: impl FnOnce(&RangeInclusive<u64>, &mut Vec<T>) -> Result<()>,
    ) -> Result<&[T]> {
        let is_covered = self
            .covered
            .as_ref()
            .is_some_and(|held| held.contains(hashes.start()) && held.contains(hashes.end()));
        if !is_covered {
            // An empty range would cover nothing, and be read again for each item.
            assert!(hashes.start() <= hashes.end(), "{hashes:?}");
            let end = (*hashes.end()).max(read_ahead(*hashes.start(), self.most, count));
            let range = *hashes.start()..=end;
            // A failed read leaves nothing that could be taken for this range.
            self.covered = None;
            self.items.clear();
            read(&range, &mut self.items)?;
            debug_assert!(self.items.is_sorted_by_key(&hash));
            debug_assert!(self.items.iter().all(|item| range.contains(&hash(item))));
            self.covered = Some(range);
        }
        Ok(within(&self.items, hashes, hash))
    }
}

/// Returns those of some sorted items whose hashes are in a range.
pub(crate) fn within<'a, T>(
    sorted: &'a [T],
    hashes: &RangeInclusive<u64>,
    hash: impl Fn(&T) -> u64,
) -> &'a [T] {
    let from = sorted.partition_point(|one| hash(one) < *hashes.start());
    let to = sorted.partition_point(|one| hash(one) <= *hashes.end());
    &sorted[from..to]
}

/// Returns the end of a range from `start` that holds about `most` of `count` evenly spread items.
fn read_ahead(start: u64, most: u64, count: u64) -> u64 {
    let span = (u128::from(most) << 64) / u128::from(count.max(1));
    let end = u128::from(start).saturating_add(span);
    u64::try_from(end).unwrap_or(u64::MAX)
}
