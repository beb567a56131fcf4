//! Stores of given runs, and the sets of keys that they should be.

use std::collections::BTreeSet;
use std::path::Path;

use everseen::Store;
use everseen::testing::{GivenRun, Options};

use super::numbers::{Random, key};

/// What the oldest run and those above it say, in hashes. What is below a run's `begin` in it is a lie.
#[derive(Debug, Clone, Default)]
pub struct Runs {
    pub oldest: BTreeSet<u64>,
    pub young: Vec<GivenRun>,
    /// The hashes that are there.
    pub net: BTreeSet<u64>,
}

impl Runs {
    /// Returns runs of some of `hashes`: each young one changes an `ith` of what there is. Every other drains, perhaps.
    pub fn random(random: &mut Random, hashes: &[u64], young: usize, ith: u64) -> Self {
        let mut some = |of: u64| random.below(of) == 0;
        let oldest: BTreeSet<u64> = hashes.iter().copied().filter(|_| some(2)).collect();
        let mut runs = Self {
            net: oldest.clone(),
            oldest,
            young: Vec::new(),
        };
        for number in 0..young {
            let has_both = random.below(4) > 0;
            let mut run = GivenRun::default();
            for hash in hashes.iter().copied() {
                if random.below(ith) > 0 {
                    continue;
                }
                match runs.net.contains(&hash) {
                    true if has_both => run.went.push(hash),
                    true => continue,
                    false => run.came.push(hash),
                }
            }
            // A run of nothing is none.
            if run.came.is_empty() {
                let absent = hashes.iter().find(|hash| !runs.net.contains(hash));
                run.came.extend(absent);
            }
            let changes = run.clone();
            runs.apply(&changes);
            runs.young.push(run);
            if number % 2 == 1 && random.below(2) == 0 {
                let at = random.below(run_length(&runs.young[number]));
                runs.drain(number, at, random, hashes);
            }
        }
        runs
    }

    fn apply(&mut self, run: &GivenRun) {
        self.net.extend(&run.came);
        run.went
            .iter()
            .for_each(|hash| assert!(self.net.remove(hash)));
    }

    /// Moves the lower part of a run into the one below, and lies where it was.
    fn drain(&mut self, number: usize, at: u64, random: &mut Random, hashes: &[u64]) {
        let mut run = self.young[number].clone();
        let mut all = [&run.came[..], &run.went].concat();
        all.sort_unstable();
        // Somewhere between two of its entries.
        run.begin = all[at as usize] - random.below(2);
        let below = |list: &[u64]| -> Vec<u64> {
            list.iter()
                .copied()
                .filter(|one| *one < run.begin)
                .collect()
        };
        let (came, went) = (below(&run.came), below(&run.went));
        match number.checked_sub(1) {
            None => {
                self.oldest.extend(&came);
                went.iter().for_each(|hash| {
                    self.oldest.remove(hash);
                });
            }
            Some(lower) => {
                let lower = &mut self.young[lower];
                merge(&mut lower.came, &mut lower.went, &came);
                merge(&mut lower.went, &mut lower.came, &went);
            }
        }
        let end = run.begin;
        for list in [&mut run.came, &mut run.went] {
            list.retain(|one| *one >= end);
        }
        for hash in hashes.iter().copied().filter(|one| *one < end) {
            match self.net.contains(&hash) {
                true if random.below(3) == 0 => run.went.push(hash),
                false if random.below(3) == 0 => run.came.push(hash),
                _ => {}
            }
        }
        self.young[number] = run;
    }

    /// Writes the store.
    pub fn create(&self, options: &Options, path: &Path) {
        let store = options.create(path).unwrap();
        let oldest: Vec<_> = self.oldest.iter().copied().map(hashed).collect();
        store.insert_batch(&oldest).unwrap();
        store.close().unwrap();
        options.add_runs(path, &self.young).unwrap();
    }
}

fn run_length(run: &GivenRun) -> u64 {
    (run.came.len() + run.went.len()) as u64
}

/// Adds what came to `list`, or takes it from the other, where it cancels.
fn merge(list: &mut Vec<u64>, other: &mut Vec<u64>, more: &[u64]) {
    for hash in more {
        match other.iter().position(|one| one == hash) {
            Some(at) => {
                other.swap_remove(at);
            }
            None => list.push(*hash),
        }
    }
}

pub fn hashed(hash: u64) -> everseen::hash::HashedKey {
    everseen::hash::HashedKey::from_bits(hash)
}

/// Hashes of keys, as these options' stores hash them.
pub fn hashes(count: u64) -> Vec<u64> {
    (0..count).map(key).collect()
}

/// Holds all answers of a store against the set that it should be.
#[track_caller]
pub fn compare(store: &Store, net: &BTreeSet<u64>, hashes: &[u64]) {
    let keys: Vec<_> = hashes.iter().copied().map(hashed).collect();
    let found = store.contains_batch(&keys).unwrap();
    for (hash, found) in hashes.iter().zip(found) {
        let expected = net.contains(hash);
        assert_eq!(found, expected, "hash {hash} in a batch");
        let alone = store.contains(hashed(*hash)).unwrap();
        assert_eq!(alone, expected, "hash {hash}");
    }
    assert_eq!(store.stats().unwrap().keys, net.len() as u64);
}
