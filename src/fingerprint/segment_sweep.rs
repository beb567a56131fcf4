//! Requests whole segments from the system ahead of a walk over nearly all pages, and drops those behind it.

use std::ops::Range;

use crate::file::layout::page_offset;
use crate::fingerprint::runs::run_set::RunSet;
use crate::fingerprint::segment::entry::Segment;
use crate::prefetch::lookup_order::LookupOrder;
use crate::prefetch::{BATCH, BehindWalk, SAMPLE_PAGES};
use crate::sys::storage::StorageFile;

/// The number of pages that are requested ahead of the look-ups: enough to keep a disk busy with large reads.
const SWEPT_AHEAD: u64 = 4096;

/// The segments that one walk over the keys of a part reads.
pub(crate) struct SegmentSweep<'a> {
    runs: &'a RunSet,
    file: &'a dyn StorageFile,
    behind: BehindWalk,
    /// The turn up to which segments were requested.
    asked_to: usize,
    lists: Vec<ListWalk>,
    /// One in so many segments is in the sample.
    every: usize,
    /// The file offsets of some of the requested pages.
    pub(crate) sample: Vec<u64>,
}

/// How far a walk is in a list.
#[derive(Debug, Clone, Default)]
struct ListWalk {
    /// The segments before this were requested.
    asked_to: usize,
    /// The segments that were dropped from memory. What lies before them is another walk's, which may still be there.
    dropped: Option<Range<usize>>,
}

impl<'a> SegmentSweep<'a> {
    pub(crate) fn new(runs: &'a RunSet, file: &'a dyn StorageFile, behind: BehindWalk) -> Self {
        let segments: usize = runs.lists().map(|(list, _)| list.segments().len()).sum();
        Self {
            runs,
            file,
            behind,
            asked_to: 0,
            every: segments.div_ceil(SAMPLE_PAGES as usize).max(1),
            lists: vec![ListWalk::default(); runs.lists().count()],
            sample: Vec::new(),
        }
    }

    /// Requests the segments up to as many turns ahead as the pages ahead have.
    pub(crate) fn advance(&mut self, order: &LookupOrder<'_>, first: usize) {
        let count = order.count();
        let step = (count as u64).saturating_mul(SWEPT_AHEAD) / self.runs.pages().max(1);
        // The order is rough: within a group of keys, a later key may be on an earlier page.
        let bits = order.group_bits();
        let step = (step as usize).max(count >> (bits - 1)).max(BATCH);
        // Not with each batch.
        if first + step / 2 < self.asked_to {
            return;
        }
        self.asked_to = count.min(first + step);
        let group = u64::MAX >> bits;
        let [begin, end] = [(first, 0), (self.asked_to - 1, group)].map(|(turn, rest)| {
            let mut hash = [0];
            order.hashes(turn..turn + 1, &mut hash);
            self.runs.space().fingerprint(hash[0] & !group | rest)
        });
        for (at, (list, least)) in self.runs.lists().enumerate() {
            let segments = list.segments();
            let after = segments.partition_point(|one| one.first <= begin.max(least));
            let passed = after.saturating_sub(1);
            let end = segments.partition_point(|one| one.first <= end);
            self.request(at, &segments[..end], passed);
            self.drop_passed(at, &segments[..passed]);
        }
    }

    /// Requests those of a list's first segments that were not requested before, from `passed` on.
    fn request(&mut self, list: usize, segments: &[Segment], passed: usize) {
        let asked_to = &mut self.lists[list].asked_to;
        let from = passed.max(*asked_to).min(segments.len());
        for (index, segment) in segments.iter().enumerate().skip(from) {
            self.runs.will_need(segment.extent());
            if index % self.every == 0 {
                self.sample.push(page_offset(segment.first_page));
            }
        }
        *asked_to = segments.len().max(*asked_to);
    }

    /// Drops segments from memory that the look-ups have passed. The system would evict them sooner or later if the filter
    /// is larger than memory, but it must not evict a write buffer first.
    fn drop_passed(&mut self, list: usize, segments: &[Segment]) {
        if self.behind == BehindWalk::Kept {
            return;
        }
        let passed = segments.len();
        let dropped = self.lists[list].dropped.get_or_insert(passed..passed);
        for segment in segments.iter().skip(dropped.end) {
            self.runs.drop_cached(segment.extent(), self.file);
        }
        dropped.end = passed.max(dropped.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Kind;
    use crate::prefetch::hash_source::SourceTail;
    use crate::testing::Options;

    #[test]
    fn a_sweep_asks_for_every_segment_and_drops_those_that_it_has_passed() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().kind(Kind::Fingerprint).capacity(1 << 20);
        let options = options.segment_pages(2).least_run(64);
        let store = options.create(folder.path().join("store")).unwrap();
        for keys in [0..100_000_u64, 100_000..110_000] {
            store.insert_batch(&Vec::from_iter(keys)).unwrap();
            store.checkpoint().unwrap();
        }
        let keys: Vec<u64> = (0..100_000)
            .map(|key| store.engine.hasher.mix(key))
            .collect();
        let tail = SourceTail::all(&keys);
        let order = LookupOrder::of(&tail, false);
        let view = store.engine.views.current().unwrap();
        let runs = view.filter.segments().unwrap();
        let lengths: Vec<usize> = runs
            .lists()
            .map(|(list, _)| list.segments().len())
            .collect();
        assert!(
            lengths.len() == 2 && lengths.iter().all(|length| *length > 3),
            "{lengths:?}"
        );
        for behind in [BehindWalk::Kept, BehindWalk::Dropped] {
            let mut sweep = SegmentSweep::new(runs, &*store.engine.file.raw, behind);
            for first in (0..keys.len()).step_by(BATCH) {
                sweep.advance(&order, first);
                let begun = sweep
                    .lists
                    .iter()
                    .all(|list| list.asked_to > list.dropped.as_ref().map_or(0, |all| all.end));
                assert!(begun, "{first}");
            }
            let asked: Vec<usize> = sweep.lists.iter().map(|list| list.asked_to).collect();
            assert_eq!(asked, lengths);
            let drops =
                |list: &ListWalk| list.dropped.as_ref().is_some_and(|all| all.start < all.end);
            assert_eq!(sweep.lists.iter().all(drops), behind == BehindWalk::Dropped);
            assert!((40..70).contains(&sweep.sample.len()), "{:?}", sweep.sample);
        }
        // One that begins in the middle asks for no segment before, and drops none.
        let mut sweep = SegmentSweep::new(runs, &*store.engine.file.raw, BehindWalk::Dropped);
        sweep.advance(&order, keys.len() / 2 / BATCH * BATCH);
        for (list, length) in sweep.lists.iter().zip(lengths) {
            let dropped = list.dropped.clone().unwrap();
            assert!(
                dropped.is_empty() && (length / 3..=length / 2).contains(&dropped.end),
                "{dropped:?} of {length}"
            );
        }
        let half = (20..40).contains(&sweep.sample.len());
        assert!(half, "{:?}", sweep.sample);
    }
}
