//! Brings the negative filter up to date with what a checkpoint merges, or makes it.

use std::sync::Arc;

use crate::config::open_options::OpenOptions;
use crate::file::DirectoryRef;
use crate::fingerprint::negative_filter_size::{
    BITS, LEAST_BITS, WORTHLESS_BITS, bytes_for, has_bits, pays,
};
use crate::fingerprint::runs::run_set::RunSet;
use crate::fingerprint::segment::negative_filter::NegativeFilter;
use crate::fingerprint::segment::pass::Origin;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::page_io::checkpoint_trigger::CheckpointTrigger;
use crate::sys::sync::{AtomicBool, Ordering};

/// The filters that may contain all fingerprints once the checkpoint is through.
pub(crate) struct NegativeFilterUpdate {
    /// That of the segments of before. It gets what is new.
    held: Option<Arc<NegativeFilter>>,
    /// One that takes its place, if it gets all fingerprints.
    made: Option<Arc<NegativeFilter>>,
    /// Whether the fingerprints of a segment are not known.
    is_incomplete: AtomicBool,
}

/// What a checkpoint merges, as far as a filter is concerned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Merge {
    /// The oldest run of before.
    pub(crate) directory: DirectoryRef,
    /// The version of the set of runs of before.
    pub(crate) version: u64,
    /// How many changes there are, those of younger runs that are merged included.
    pub(crate) count: u64,
    /// How many of them come from the log.
    pub(crate) brought: u64,
    /// The generation of what is written.
    pub(crate) generation: u64,
    pub(crate) trigger: CheckpointTrigger,
}

/// The filter of segments as this handle has them mapped. Not the map, which would count twice while the steps of a
/// checkpoint make others.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeldFilter {
    version: u64,
    filter: Option<Arc<NegativeFilter>>,
}

impl HeldFilter {
    pub(crate) fn of(segments: &RunSet) -> Self {
        Self {
            version: segments.version(),
            filter: segments.negative_filter().map(Arc::clone),
        }
    }
}

impl NegativeFilterUpdate {
    /// Begins the update of a filter.
    pub(crate) fn begin(
        options: &OpenOptions,
        space: FingerprintSpace,
        merge: &Merge,
        held: HeldFilter,
    ) -> Self {
        // Entries of younger runs are added once more.
        let Self { held, .. } = Self::keeping(merge.version, merge.count, held);
        let has_room = held
            .as_ref()
            .is_some_and(|held| has_bits(held, merge.count, LEAST_BITS));
        let keys = merge.directory.keys.saturating_add(merge.count);
        let made = match !has_room && pays(options, merge, keys) {
            // Without memory for it, look-ups go on with the old one.
            true => NegativeFilter::empty(space, bytes_for(keys, BITS)).ok(),
            false => None,
        };
        Self {
            held,
            made: made.map(Arc::new),
            is_incomplete: AtomicBool::new(false),
        }
    }

    /// Begins the update of the filter of a set of runs, to which so many fingerprints are added, where few of the others are
    /// seen: none is made.
    pub(crate) fn keeping(version: u64, more: u64, held: HeldFilter) -> Self {
        let is_of_these = held.version == version;
        let held = held.filter.filter(|_| is_of_these);
        Self {
            held: held.filter(|held| has_bits(held, more, WORTHLESS_BITS)),
            made: None,
            is_incomplete: AtomicBool::new(false),
        }
    }

    /// Does so, and takes one that has all fingerprints of before.
    pub(crate) fn with_made(self, made: Option<NegativeFilter>) -> Self {
        Self {
            made: made.map(Arc::new),
            ..self
        }
    }

    /// Returns whether there is a filter.
    pub(crate) fn has_filter(&self) -> bool {
        self.held.is_some() || self.made.is_some()
    }

    /// Keeps no filter and makes none.
    pub(crate) fn none() -> Self {
        Self {
            held: None,
            made: None,
            is_incomplete: AtomicBool::new(false),
        }
    }

    /// Adds fingerprints that the new segments may have, sorted.
    pub(crate) fn note(&self, origin: Origin, fingerprints: &[u64]) {
        if let Some(made) = &self.made {
            made.add(fingerprints);
        }
        if let Some(held) = &self.held
            && origin == Origin::New
        {
            held.add(fingerprints);
        }
    }

    /// Returns the filter of the segments of before, which has what was noted so far, and so all of theirs that have
    /// taken that in.
    pub(crate) fn held(&self) -> Option<Arc<NegativeFilter>> {
        self.held.clone()
    }

    /// Returns whether to note all fingerprints, those of segments included that stay as they are.
    pub(crate) fn notes_all(&self) -> bool {
        self.made.is_some()
    }

    /// Takes note that the fingerprints of a segment are not known, since it is damaged.
    pub(crate) fn note_damaged(&self) {
        self.is_incomplete.store(true, Ordering::Relaxed);
    }

    /// Returns the filter of the new segments, if one contains all of their fingerprints.
    pub(crate) fn into_filter(self) -> Option<Arc<NegativeFilter>> {
        let is_incomplete = self.is_incomplete.load(Ordering::Relaxed);
        self.made.filter(|_| !is_incomplete).or(self.held)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tempfile::TempDir;

    use super::*;
    use crate::file::layout::page_offset;
    use crate::hash::HashedKey;
    use crate::sys::storage::write_all_at;
    use crate::testing::{Appending, LEAST_BUFFER, Options};
    use crate::{Kind, Store, Verdict};

    fn options() -> Options {
        let options = Options::new().kind(Kind::Fingerprint).background(false);
        let options = options.capacity(100_000).fpr(1e-12).measured(false);
        let options = options.seed([7; 32]);
        options
            .buffer(LEAST_BUFFER)
            .segment_pages(2)
            .step_segments(2)
            // A filter is made where all keys are merged.
            .least_run(u64::MAX)
            .filtered_from(0)
    }

    fn filter_of(store: &Store) -> Option<Arc<NegativeFilter>> {
        let view = store.engine.views.current().unwrap();
        view.filter.segments()?.negative_filter().map(Arc::clone)
    }

    /// Inserts keys, and checkpoints them.
    fn merge(store: &Store, keys: std::ops::Range<u64>) {
        store.insert_batch(&Vec::from_iter(keys)).unwrap();
        store.checkpoint().unwrap();
    }

    /// Looks for keys one by one and together.
    fn assert_all(store: &Store, keys: std::ops::Range<u64>, expected: bool) {
        let keys = Vec::from_iter(keys);
        for (key, found) in keys.iter().zip(store.contains_batch(&keys).unwrap()) {
            assert_eq!(found, expected, "key {key}");
            assert_eq!(store.contains(*key).unwrap(), expected, "key {key}");
        }
    }

    fn made(path: &Path, keys: u64) -> Store {
        let store = options().create(path).unwrap();
        merge(&store, 0..keys / 2);
        merge(&store, keys / 2..keys);
        assert!(filter_of(&store).is_some());
        store
    }

    #[test]
    fn a_filter_gets_what_is_merged_and_grows_with_it() {
        let folder = TempDir::new().unwrap();
        let store = made(&folder.path().join("store"), 4000);
        assert_all(&store, 0..4000, true);
        assert_all(&store, 4000..8000, false);
        let mut bytes = filter_of(&store).unwrap().bytes();
        let first = bytes;
        for end in (5000..12_000).step_by(1000) {
            merge(&store, end - 1000..end);
            let now = filter_of(&store).unwrap().bytes();
            assert!(now == bytes || now >= bytes * 3 / 2, "{now} after {bytes}");
            assert!(now >= bytes_for(end, LEAST_BITS));
            bytes = now;
            assert_all(&store, 0..end, true);
            assert_all(&store, end..end + 4000, false);
        }
        assert!(bytes >= 2 * first);
    }

    #[test]
    fn few_changes_are_added_and_make_no_new_filter() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("store");
        let store = made(&path, 6000);
        merge(&store, 6000..6003);
        assert!(filter_of(&store).is_some());
        assert_all(&store, 0..6003, true);
        let other = options().open(&path).unwrap();
        merge(&other, 6003..6006);
        assert!(filter_of(&other).is_none());
        assert_all(&other, 0..6006, true);
    }

    #[test]
    fn where_runs_stay_apart_a_filter_is_made_by_reading_them() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("store");
        let options = options().least_run(8).least_at_once(1);
        let store = options.create(&path).unwrap();
        (0..6000)
            .step_by(1000)
            .for_each(|first| merge(&store, first..first + 1000));
        store.close().unwrap();
        let store = options.open(&path).unwrap();
        assert!(filter_of(&store).is_none());
        for first in (6000..7000).step_by(100) {
            merge(&store, first..first + 100);
            assert!(filter_of(&store).is_some());
            assert!(store.stats().unwrap().runs.len() > 1);
            assert_all(&store, 0..first + 100, true);
            assert_all(&store, first + 100..9000, false);
        }
    }

    #[test]
    fn a_filter_that_can_not_grow_is_given_up_when_it_is_worth_nothing() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("store");
        made(&path, 4000);
        let store = options().open(&path).unwrap();
        merge(&store, 4000..6000);
        let bytes = filter_of(&store).unwrap().bytes();
        let view = store.engine.views.current().unwrap();
        let space = store.engine.file.header.space().unwrap();
        let directory = view.superblock.directory.unwrap();
        let updated = |keys: u64| {
            let merge = Merge {
                directory,
                version: directory.version,
                count: keys - directory.keys,
                brought: keys - directory.keys,
                generation: 7,
                trigger: CheckpointTrigger::Awaited,
            };
            let held = view.filter.held_filter();
            NegativeFilterUpdate::begin(&OpenOptions::new(), space, &merge, held).into_filter()
        };
        let most = bytes * 8 / WORTHLESS_BITS;
        assert!(updated(most).is_some_and(|kept| kept.bytes() == bytes));
        assert!(updated(most + WORTHLESS_BITS).is_none());
    }

    /// What others merge is not in the filter of this handle.
    #[test]
    fn a_filter_ends_with_a_checkpoint_of_another_handle() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("store");
        let store = made(&path, 4000);
        let other = options().open(&path).unwrap();
        assert!(filter_of(&other).is_none());
        merge(&other, 4000..6000);
        assert!(filter_of(&other).is_some());
        assert!(filter_of(&store).is_none());
        assert_all(&store, 0..6000, true);
        merge(&store, 6000..8000);
        assert!(filter_of(&store).is_some() && filter_of(&other).is_none());
        assert_all(&store, 0..8000, true);
        assert_all(&other, 0..8000, true);
        assert_all(&store, 8000..9000, false);
    }

    #[test]
    fn the_filter_of_another_directory_is_not_updated() {
        let folder = TempDir::new().unwrap();
        let store = made(&folder.path().join("store"), 4000);
        let view = store.engine.views.current().unwrap();
        let mut merge = Merge {
            directory: view.superblock.directory.unwrap(),
            version: view.superblock.set_version(),
            count: 1,
            brought: 1,
            generation: 7,
            trigger: CheckpointTrigger::Awaited,
        };
        let (options, space) = (options(), store.engine.file.header.space().unwrap());
        let held = view.filter.held_filter();
        let updated = |merge: &Merge| {
            NegativeFilterUpdate::begin(options.open_options(), space, merge, held.clone())
                .into_filter()
        };
        assert!(updated(&merge).is_some());
        merge.version += 1;
        assert!(updated(&merge).is_none());
    }

    /// Claims many keys, all of them in the first segment, and merges them.
    fn merge_crowd(store: &Store) {
        let crowd: Vec<_> = (0..1500)
            .map(|hash| HashedKey::from_bits(hash << 40))
            .collect();
        let mut verdicts = Vec::new();
        store.claim_into(&crowd, &mut verdicts).unwrap();
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::New));
        store.checkpoint().unwrap();
        let found = store.contains_batch(&crowd).unwrap();
        assert!(found.iter().all(|found| *found));
    }

    /// Returns a store whose handle has lost its filter.
    fn without_filter(path: &Path) -> Store {
        let store = made(path, 6000);
        merge(&options().open(path).unwrap(), 6000..6003);
        assert!(filter_of(&store).is_none());
        store
    }

    #[test]
    fn a_new_filter_gets_the_keys_of_segments_that_stay() {
        let folder = TempDir::new().unwrap();
        let store = without_filter(&folder.path().join("store"));
        merge_crowd(&store);
        assert!(filter_of(&store).is_some());
        assert_all(&store, 0..6003, true);
        assert_all(&store, 6003..8000, false);
    }

    #[test]
    fn no_filter_comes_of_damaged_segments() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("store");
        let store = without_filter(&path);
        let view = store.engine.views.current().unwrap();
        let mut pages = Vec::new();
        view.filter
            .segments()
            .unwrap()
            .add_pages_of(u64::MAX, &mut pages);
        let last = pages[0];
        drop(view);
        let file = &*store.engine.file.raw;
        write_all_at(file, &[0xAA; 8], page_offset(last) + 4000).unwrap();
        merge_crowd(&store);
        assert!(filter_of(&store).is_none());
    }

    #[test]
    fn removed_keys_stay_in_a_filter_without_harm() {
        let folder = TempDir::new().unwrap();
        let store = made(&folder.path().join("store"), 4000);
        for key in 0..500 {
            assert!(store.remove(key).unwrap());
        }
        store.checkpoint().unwrap();
        assert!(filter_of(&store).is_some());
        assert_all(&store, 0..500, false);
        assert_all(&store, 500..4000, true);
        merge(&store, 0..500);
        assert_all(&store, 0..4000, true);
    }

    /// As many keys come as go.
    #[test]
    fn a_filter_that_removed_keys_fill_is_made_anew() {
        let folder = TempDir::new().unwrap();
        let store = made(&folder.path().join("store"), 4000);
        let first = filter_of(&store).unwrap();
        for round in 0..8 {
            let (gone, come) = (round * 1000, (round + 4) * 1000);
            for key in gone..gone + 1000 {
                assert!(store.remove(key).unwrap());
            }
            merge(&store, come..come + 1000);
            let filter = filter_of(&store).unwrap();
            assert!(
                filter.bytes() * 8 >= filter.added() * LEAST_BITS,
                "round {round}"
            );
            assert_all(&store, gone..gone + 1000, false);
            assert_all(&store, gone + 1000..come + 1000, true);
        }
        assert!(!Arc::ptr_eq(&first, &filter_of(&store).unwrap()));
    }

    /// What is handed over is not kept twice, and nothing outlives the handle's closing.
    #[test]
    fn a_filter_ends_with_its_segments() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("store");
        let store = made(&path, 4000);
        let filter = Arc::downgrade(&filter_of(&store).unwrap());
        let other = options().open(&path).unwrap();
        merge(&other, 4000..6000);
        assert_all(&store, 0..6000, true);
        assert!(filter.upgrade().is_none());
        let filter = Arc::downgrade(&filter_of(&other).unwrap());
        store.close().unwrap();
        other.close().unwrap();
        assert!(filter.upgrade().is_none());
    }
}
