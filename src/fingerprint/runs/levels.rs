//! Which runs the checkpoint of a log merges, and how far.
//!
//! A checkpoint writes what its log changes as a run of its own, together with the youngest runs that are not much larger:
//! tiered compaction, as RocksDB calls it "universal". A larger run *drains* into the one below once that has at most
//! [`RATIO`] times its entries: each checkpoint merges a slice of the range of fingerprints, as large as its share of the
//! keys that come meanwhile. So no checkpoint pays for keys that others brought, and before a run has drained, no more keys
//! have come than it has itself.

use std::cmp::Reverse;

use crate::file::Run;
use crate::file::run_table::{Draining, MOST_RUNS};

/// A run is merged with what comes once it has less than this many times the entries.
const RATIO: u64 = 8;

/// A run, as far as merging it is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunSize {
    /// Those that count.
    pub(crate) entries: u64,
    pub(crate) draining: Option<Draining>,
}

/// What the changes of a log are merged with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Merging {
    /// With so many of the youngest runs, to a run of its own; the oldest is not among them.
    Young(usize),
    /// With all runs.
    All,
}

/// A run that drains, and how far a checkpoint brings it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Drain {
    /// The number of the run. The oldest is 0, and never one of these.
    pub(crate) run: usize,
    pub(crate) to: Draining,
}

/// What a checkpoint merges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MergePlan {
    pub(crate) merging: Merging,
    /// Among the runs that stay apart, the youngest first. No two of them have a run in common.
    pub(crate) drains: Vec<Drain>,
}

impl MergePlan {
    /// Everything, to one run.
    pub(crate) fn all() -> Self {
        Self {
            merging: Merging::All,
            drains: Vec::new(),
        }
    }
}

impl RunSize {
    /// A run that nothing is drained from.
    pub(crate) fn whole(entries: u64) -> Self {
        Self {
            entries,
            draining: None,
        }
    }

    pub(crate) fn of(run: &Run) -> Self {
        Self {
            entries: run.directory.keys,
            draining: run.draining(),
        }
    }
}

/// What is too little to be kept apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Least {
    /// Entries of a run.
    pub(crate) run: u64,
    /// Keys: a checkpoint that brings fewer merges as much at once as one that brings so many.
    pub(crate) at_once: u64,
}

/// Decides what a log with so many changes merges. `runs` are those of the store, the oldest first.
pub(crate) fn plan(runs: &[RunSize], changes: u64, least: Least) -> MergePlan {
    let most = changes.max(least.at_once).saturating_mul(RATIO);
    let kept = kept(runs, changes, least.run, most);
    match kept {
        // The table has no room for more.
        0 | MOST_KEPT.. => MergePlan::all(),
        _ => MergePlan {
            merging: Merging::Young(runs.len() - kept),
            drains: drains(&runs[..kept], changes, most),
        },
    }
}

/// With so many runs that stay apart, the oldest included, there is no room in the table for one more.
const MOST_KEPT: usize = MOST_RUNS + 1;

/// Returns how many of the oldest runs stay apart from what the changes are written with.
fn kept(runs: &[RunSize], changes: u64, least: u64, most: u64) -> usize {
    let mut entries = changes;
    let mut kept = runs.len();
    while kept > 0 {
        // A run that drains goes with the one that it drains into: without it, it would never reach its end.
        let drains = runs[kept - 1].draining.is_some() && kept > 1;
        let next = kept - 1 - usize::from(drains);
        let group = runs[next..kept].iter().map(|run| run.entries);
        let group = group.fold(0, u64::saturating_add);
        // Once a run of that size comes about, it is compared by its ratio. Before, a night of one line would write all the
        // runs again that are not much larger than the least one.
        let larger = match entries < least {
            true => least,
            false => entries.saturating_mul(RATIO),
        };
        entries = entries.saturating_add(group);
        if group >= larger || entries - changes > most {
            break;
        }
        kept = next;
    }
    kept
}

/// Returns which of the runs that stay drain, and how far. One that has no more than `most` entries to write goes at once.
fn drains(runs: &[RunSize], changes: u64, most: u64) -> Vec<Drain> {
    let mut drains: Vec<Drain> = Vec::new();
    let begun = |run: &usize| runs[*run].draining.is_some();
    // What has begun goes on. Of others the oldest goes first: younger ones, which come again and again, would keep it waiting
    // until it is larger than the run below.
    let in_turn = (1..runs.len()).filter(begun);
    for run in in_turn.chain((1..runs.len()).filter(|run| !begun(run))) {
        let (own, below) = (runs[run], runs[run - 1]);
        let is_free =
            below.draining.is_none() && drains.iter().all(|one| one.run.abs_diff(run) > 1);
        let is_due = own.entries > 0 && own.entries.saturating_mul(RATIO) >= below.entries;
        let Some(begun) = own.draining.or(is_due.then_some(Draining {
            begun_with: own.entries,
            arrived: 0,
        })) else {
            continue;
        };
        if is_free {
            let mut to = begun.with(changes);
            if begun.rest(own.entries, below.entries) <= most {
                to.arrived = to.begun_with;
            }
            drains.push(Drain { run, to });
        }
    }
    drains.sort_unstable_by_key(|drain| Reverse(drain.run));
    drains
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::open_options::{LEAST_AT_ONCE, LEAST_RUN};

    const LEAST: Least = Least {
        run: LEAST_RUN,
        at_once: LEAST_AT_ONCE,
    };
    /// Entries of a segment of 4 MiB, about.
    const SEGMENT: u64 = 1 << 20;

    /// A store that is only ever added to.
    #[derive(Default)]
    struct Store {
        runs: Vec<RunSize>,
        written: u64,
        most_runs: usize,
    }

    impl Store {
        fn of(keys: u64) -> Self {
            Self {
                runs: vec![RunSize::whole(keys)],
                ..Self::default()
            }
        }

        fn entries(&self) -> u64 {
            self.runs.iter().map(|run| run.entries).sum()
        }

        /// Returns how many entries the checkpoint writes.
        fn checkpoint(&mut self, changes: u64) -> u64 {
            let before = self.entries();
            let plan = plan(&self.runs, changes, LEAST);
            let kept = match plan.merging {
                Merging::Young(count) => self.runs.len() - count,
                Merging::All => 0,
            };
            let merged = self.runs.drain(kept..).map(|run| run.entries);
            let run = changes + merged.sum::<u64>();
            let mut written = run;
            let drains = plan.drains.len();
            let mut last = usize::MAX;
            for drain in plan.drains {
                assert!(drain.run > 0 && drain.run < kept && drain.run + 1 < last);
                last = drain.run;
                written += self.drain(drain);
            }
            self.runs.retain(|run| run.entries > 0);
            self.runs.push(RunSize::whole(run));
            assert_eq!(self.entries(), before + changes);
            self.written += written;
            self.most_runs = self.most_runs.max(self.runs.len());
            assert_bound(written, changes, drains);
            written
        }

        /// Merges what a drain has passed, in whole segments of the run below.
        fn drain(&mut self, Drain { run, to }: Drain) -> u64 {
            let [below, own] = &mut self.runs[run - 1..=run] else {
                unreachable!()
            };
            assert!(below.draining.is_none());
            let gone = to.begun_with - own.entries;
            let passed = match to.arrived == to.begun_with {
                true => to.begun_with,
                false => {
                    let larger = below.entries.max(to.begun_with);
                    let segments = (larger / SEGMENT).max(1);
                    let reached = to.share_of(segments);
                    (reached * to.begun_with / segments).max(gone)
                }
            };
            let slice = passed - gone;
            let share = u128::from(slice) * u128::from(below.entries) / u128::from(to.begun_with);
            own.entries -= slice;
            own.draining = Some(to);
            below.entries += slice;
            slice + share as u64
        }
    }

    /// The entries that a checkpoint writes for each key that it brings, at most.
    const MOST_WRITTEN: u64 = 32;

    /// No checkpoint writes more than the bound that the guide names.
    fn assert_bound(written: u64, changes: u64, drains: usize) {
        let most = MOST_WRITTEN * changes.max(LEAST_AT_ONCE) + drains as u64 * 2 * SEGMENT;
        assert!(
            written <= most,
            "{written} entries for {changes}, {drains} drains"
        );
    }

    #[test]
    fn a_year_of_nights_writes_little_and_leaves_few_runs() {
        let mut store = Store::of(1_000_000_000);
        let longest = (0..365).map(|_| store.checkpoint(1_000)).max();
        assert_eq!(store.entries(), 1_000_365_000);
        assert!(store.most_runs <= 5, "{}", store.most_runs);
        // Entries for each that came.
        assert!(store.written < 15 * 365_000, "{}", store.written);
        assert!(longest < Some(400_000), "{longest:?}");
    }

    #[test]
    fn years_of_nights_never_have_one_that_pays_for_the_others() {
        for (keys, changes) in [
            (500_000_000, 100_000),
            (10_000_000, 3_000),
            (100_000, 1_000),
        ] {
            let mut store = Store::of(keys);
            for _ in 0..5_000 {
                store.checkpoint(changes);
            }
            println!(
                "{keys} {changes}: {} entries a key, {} runs at most",
                store.written / changes / 5000,
                store.most_runs
            );
            assert!(store.most_runs <= 9, "{}", store.most_runs);
        }
    }

    /// A run that stays below a much larger one must not make it drain all at once, and one that is due must not wait for
    /// ever.
    #[test]
    fn batches_that_grow_keep_the_bound_and_the_order_of_sizes() {
        let mut store = Store::of(1_000_000_000);
        let small = 2_000_000;
        store.checkpoint(small);
        let mut sum = 0;
        for _ in 0..34 {
            // As many as are just not merged with the small one.
            let changes = (sum + small) / 8 - 2;
            store.checkpoint(changes);
            sum += changes;
        }
        for _ in 0..8_000 {
            store.checkpoint(20_000);
        }
        let mut store = Store::of(500_000_000);
        for _ in 0..10_000 {
            store.checkpoint(100_000);
            let young: u64 = store.runs[1..].iter().map(|run| run.entries).sum();
            assert!(young < store.runs[0].entries / 4, "{:?}", store.runs);
        }
    }

    #[test]
    fn a_stream_writes_each_key_a_few_times() {
        for (keys, changes, most) in [
            (1_000_000_000, 4_700_000, 16),
            (1_000_000_000, 1_900_000, 20),
        ] {
            let mut store = Store::of(0);
            for _ in 0..keys / changes {
                store.checkpoint(changes);
            }
            println!(
                "{changes}: {} entries a key, {} runs at most",
                store.written / keys,
                store.most_runs
            );
            assert!(store.written / keys < most, "{} of {keys}", store.written);
            assert!(store.most_runs <= 6, "{}", store.most_runs);
        }
    }

    #[test]
    fn one_line_a_night_rewrites_no_more_than_the_youngest_run() {
        let mut store = Store::of(500_000_000);
        for _ in 0..100_000 {
            store.checkpoint(1);
        }
        assert!(store.written / 100_000 < 2 * LEAST_RUN, "{}", store.written);
        assert!(store.most_runs <= 5, "{}", store.most_runs);
    }

    fn merging(runs: &[u64], changes: u64, least: u64) -> Merging {
        let runs: Vec<_> = runs.iter().copied().map(RunSize::whole).collect();
        let least = Least {
            run: least,
            at_once: 4 * least,
        };
        plan(&runs, changes, least).merging
    }

    #[test]
    fn a_small_store_is_one_run() {
        assert_eq!(merging(&[0], 1, LEAST_RUN), Merging::All);
        assert_eq!(merging(&[8191], 1, LEAST_RUN), Merging::All);
        assert_eq!(merging(&[8192], 1, LEAST_RUN), Merging::Young(0));
        assert_eq!(merging(&[80_000, 5], 1, LEAST_RUN), Merging::Young(1));
        assert_eq!(merging(&[80_000, 5], 10_000, LEAST_RUN), Merging::All);
        assert_eq!(merging(&[262_139, 5], 40_000, LEAST_RUN), Merging::All);
        assert_eq!(merging(&[320_000, 5], 40_000, LEAST_RUN), Merging::Young(1));
    }

    #[test]
    fn a_table_without_room_is_merged() {
        let runs: Vec<u64> = (0..=MOST_RUNS as u32)
            .rev()
            .map(|run| 9_u64 << (2 * run))
            .collect();
        assert_eq!(runs.len(), MOST_RUNS + 1);
        assert_eq!(merging(&runs, 1, 1), Merging::All);
        assert_eq!(merging(&runs[1..], 1, 1), Merging::Young(0));
    }

    fn draining(entries: u64, begun_with: u64, arrived: u64) -> RunSize {
        let draining = Some(Draining {
            begun_with,
            arrived,
        });
        RunSize { entries, draining }
    }

    #[test]
    fn a_run_drains_as_fast_as_keys_come() {
        let millions = |runs: &[u64]| -> Vec<_> {
            runs.iter()
                .map(|run| RunSize::whole(run * 1_000_000))
                .collect()
        };
        let drain = |run, begun_with, arrived| Drain {
            run,
            to: Draining {
                begun_with,
                arrived,
            },
        };
        let drains = |runs: &[RunSize], changes| plan(runs, changes, LEAST).drains;
        // It has an eighth.
        assert_eq!(drains(&millions(&[801, 100]), 1_000), []);
        assert_eq!(
            drains(&millions(&[800, 100]), 1_000),
            [drain(1, 100_000_000, 1_000)]
        );
        // Of two that are due and have a run in common, the older one.
        let all = millions(&[800, 100, 20]);
        assert_eq!(drains(&all, 1_000), [drain(1, 100_000_000, 1_000)]);
        let all = millions(&[800, 100, 20, 4]);
        let both = [drain(3, 4_000_000, 1_000), drain(1, 100_000_000, 1_000)];
        assert_eq!(drains(&all, 1_000), both);
        // It goes on, and what is left is done at once where it is little.
        let mut runs = millions(&[800]);
        runs.push(draining(60_000_000, 100_000_000, 40_000_000));
        assert_eq!(
            drains(&runs, 5_000_000),
            [drain(1, 100_000_000, 45_000_000)]
        );
        runs[1] = draining(1_000_000, 100_000_000, 99_000_000);
        assert_eq!(
            drains(&runs, 1_200_000),
            [drain(1, 100_000_000, 100_000_000)]
        );
        // It is merged with what comes, or left, together with the run below it.
        let plan = plan(
            &[
                RunSize::whole(10_000_000),
                RunSize::whole(600),
                draining(90, 200, 100),
            ],
            8_000,
            LEAST,
        );
        assert_eq!(plan.merging, Merging::Young(2));
    }

    proptest! {
        /// Whatever comes, there are no more runs than logarithms allow, each checkpoint keeps its bound, and none of the
        /// keys that others brought makes it longer.
        #[test]
        fn runs_stay_few(logs in prop::collection::vec(1_u64..1 << 22, 1..300), small in 1_u64..100_000) {
            let mut store = Store::of(0);
            for (place, changes) in logs.iter().enumerate() {
                let changes = if place % 3 == 0 { *changes } else { changes % small + 1 };
                store.checkpoint(changes);
                let all = store.entries();
                let levels = 2 * (all / LEAST_RUN + 1).ilog(RATIO) as usize + 3;
                prop_assert!(store.runs.len() <= levels, "{:?}", store.runs);
            }
        }
    }
}
