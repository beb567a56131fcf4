//! Which runs the checkpoint of a log merges: tiered compaction, as RocksDB calls it "universal".
//!
//! A checkpoint writes what its log changes as a run of its own, together with the youngest runs that are not much larger.
//! So each run has [`RATIO`] times as many entries as all younger ones together when they were written, and a fingerprint
//! is written again only when the runs above it have grown to an eighth of its own: some ten times for each factor of a
//! thousand between a log and the store. All younger runs together hold about a seventh of the oldest.

use crate::file::run_table::MOST_RUNS;

/// A run is merged with what comes once it has less than this many times the entries.
const RATIO: u64 = 8;

/// What the changes of a log are merged with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Merging {
    /// With so many of the youngest runs, to a run of its own; the oldest is not among them.
    Young(usize),
    /// With all runs.
    All,
}

/// Decides what a log with so many changes is merged with. `runs` are the entries of each run, the oldest first; a run
/// of fewer than `least` entries is never kept apart.
pub(crate) fn merging(runs: &[u64], changes: u64, least: u64) -> Merging {
    let mut entries = changes;
    for (younger, run) in runs.iter().rev().enumerate() {
        // Once a run of that size comes about, it is compared by its ratio. Before, a night of one line would write all the
        // runs again that are not much larger than the least one.
        let most = match entries < least {
            true => least,
            false => entries.saturating_mul(RATIO),
        };
        if *run >= most {
            // The table has no room for more.
            return match runs.len() - younger > MOST_RUNS {
                true => Merging::All,
                false => Merging::Young(younger),
            };
        }
        entries = entries.saturating_add(*run);
    }
    Merging::All
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::open_options::LEAST_RUN;

    /// A store that is only ever added to.
    #[derive(Default)]
    struct Store {
        runs: Vec<u64>,
        written: u64,
        most_runs: usize,
    }

    impl Store {
        fn of(keys: u64) -> Self {
            Self {
                runs: vec![keys],
                ..Self::default()
            }
        }

        /// Returns how many entries the checkpoint writes.
        fn checkpoint(&mut self, changes: u64) -> u64 {
            let kept = match merging(&self.runs, changes, LEAST_RUN) {
                Merging::Young(count) => self.runs.len() - count,
                Merging::All => 0,
            };
            let written = changes + self.runs.drain(kept..).sum::<u64>();
            self.runs.push(written);
            self.written += written;
            self.most_runs = self.most_runs.max(self.runs.len());
            written
        }
    }

    #[test]
    fn a_year_of_nights_writes_little_and_leaves_few_runs() {
        let mut store = Store::of(1_000_000_000);
        let longest = (0..365).map(|_| store.checkpoint(1_000)).max();
        assert_eq!(store.runs.iter().sum::<u64>(), 1_000_365_000);
        assert!(store.most_runs <= 5, "{}", store.most_runs);
        // Entries for each that came.
        assert!(store.written < 15 * 365_000, "{}", store.written);
        assert!(longest < Some(600_000), "{longest:?}");
    }

    #[test]
    fn a_stream_writes_each_key_a_few_times() {
        for (keys, changes, most) in [
            (1_000_000_000, 4_700_000, 13),
            (1_000_000_000, 1_900_000, 16),
        ] {
            let mut store = Store::of(0);
            for _ in 0..keys / changes {
                store.checkpoint(changes);
            }
            assert!(store.written / keys < most, "{} of {keys}", store.written);
            assert!(store.most_runs <= 4, "{}", store.most_runs);
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

    #[test]
    fn a_small_store_is_one_run() {
        assert_eq!(merging(&[0], 1, LEAST_RUN), Merging::All);
        assert_eq!(merging(&[8191], 1, LEAST_RUN), Merging::All);
        assert_eq!(merging(&[8192], 1, LEAST_RUN), Merging::Young(0));
        assert_eq!(merging(&[80_000, 5], 1, LEAST_RUN), Merging::Young(1));
        assert_eq!(merging(&[80_000, 5], 10_000, LEAST_RUN), Merging::All);
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

    proptest! {
        /// Whatever comes, there are no more runs than logarithms allow, and each is worth its ratio when it is written.
        #[test]
        fn runs_stay_few(logs in prop::collection::vec(1_u64..1 << 22, 1..300), small in 1_u64..100_000) {
            let mut store = Store::of(0);
            for (place, changes) in logs.iter().enumerate() {
                store.checkpoint(if place % 3 == 0 { *changes } else { changes % small + 1 });
                let all: u64 = store.runs.iter().sum();
                let levels = (all / LEAST_RUN + 1).ilog(RATIO) as usize + 3;
                prop_assert!(store.runs.len() <= levels, "{:?}", store.runs);
                for (place, run) in store.runs.iter().enumerate() {
                    let younger: u64 = store.runs[place + 1..].iter().sum();
                    prop_assert!(younger < LEAST_RUN || younger <= 2 * run / (RATIO - 1) + LEAST_RUN, "{:?}", store.runs);
                }
            }
        }
    }
}
