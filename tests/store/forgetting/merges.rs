//! Unions, intersections and differences of stores that forget: the younger age counts.

use std::collections::BTreeMap;
use std::path::Path;

use everseen::{Error, Merge, OpenOptions};

use super::{BEGIN, STEP, STEPS, at, forgetting};
use crate::support::files::place;
use crate::support::numbers::{Random, key};

const KEYS: u64 = 6000;

/// The step after the first in which each key came last.
type Steps = BTreeMap<u64, u64>;

/// Makes a closed store to which some keys came in each of its sessions, and of which some went.
fn made(path: &Path, seed: u64, sessions: u64) -> Steps {
    let mut random = Random::new(seed);
    let options = |step| {
        let options = forgetting(BEGIN + step * STEP).seed([9; 32]);
        options.least_run(64).least_at_once(1).background(false)
    };
    options(0).create(path).unwrap().close().unwrap();
    let (mut steps, mut step) = (Steps::new(), 0);
    for _ in 0..sessions {
        step += random.below(4);
        let store = options(step).open(path).unwrap();
        steps.retain(|_, came| *came + STEPS >= step);
        let (first, count) = (random.below(KEYS), random.below(1500));
        for number in (first..first + count).map(|number| number % KEYS) {
            let is_new = store.insert(key(number)).unwrap();
            assert_eq!(is_new, !steps.contains_key(&number));
            steps.entry(number).or_insert(step);
        }
        for number in (0..30).map(|_| random.below(KEYS)) {
            assert_eq!(
                store.remove(key(number)).unwrap(),
                steps.remove(&number).is_some()
            );
        }
        store.close().unwrap();
    }
    steps
}

/// Holds a store against the steps that its keys should have, at each step from one on.
fn check(path: &Path, expected: &Steps, latest: u64) {
    let open = |step| forgetting(BEGIN + step * STEP).open(path).unwrap();
    let keys: Vec<u64> = (0..KEYS).map(key).collect();
    let store = open(latest);
    for step in latest..latest + STEPS + 2 {
        store.advance_to(at(BEGIN + step * STEP)).unwrap();
        let found = store.contains_batch(&keys).unwrap();
        for (number, found) in (0..).zip(found) {
            let is_there = expected
                .get(&number)
                .is_some_and(|came| came + STEPS >= step);
            assert_eq!(found, is_there, "key {number}, step {step}");
        }
    }
    assert!(store.verify().unwrap().is_ok());
}

#[test]
fn the_younger_age_counts() {
    let (folder, path) = place();
    for seed in 0..4 {
        println!("seed {seed}");
        let others = [folder.path().join("a"), folder.path().join("b")];
        let mut inputs = vec![made(&others[0], 10 * seed, 12)];
        inputs.push(made(&others[1], 10 * seed + 1, 7));
        let latest_of = |path: &Path| {
            let store = forgetting(0).open_read_only(path).unwrap();
            let forgetting = store.stats().unwrap().forgetting.unwrap();
            let since = forgetting.latest.unwrap().duration_since(at(BEGIN));
            since.unwrap().as_millis() as u64 / STEP
        };
        let latest = others.iter().map(|path| latest_of(path)).max().unwrap();
        for input in &mut inputs {
            input.retain(|_, came| *came + STEPS >= latest);
        }
        let [a, b] = &inputs[..] else { unreachable!() };
        let younger = |number: &u64| a.get(number).max(b.get(number)).copied();
        let all = a.keys().chain(b.keys());
        let union: Steps = all.filter_map(|one| Some((*one, younger(one)?))).collect();
        let mut both = union.clone();
        both.retain(|one, _| a.contains_key(one) && b.contains_key(one));
        let mut alone = a.clone();
        alone.retain(|one, _| !b.contains_key(one));
        let merge = || Merge::new().open_options(OpenOptions::new());
        for (operation, expected) in [(0, &union), (1, &both), (2, &alone)] {
            let (out, merge) = (path.with_extension(format!("{seed}-{operation}")), merge());
            let report = match operation {
                0 => merge.union(&out, &others).unwrap(),
                1 => merge.intersection(&out, &others).unwrap(),
                _ => merge.difference(&out, &others).unwrap(),
            };
            assert_eq!(report.keys, expected.len() as u64, "{operation}");
            check(&out, expected, latest);
        }
        others
            .iter()
            .for_each(|path| std::fs::remove_file(path).unwrap());
    }
}

#[test]
fn a_chosen_rate_allows_as_many_keys_as_a_creators() {
    let (folder, path) = place();
    let make = |path: &Path, numbers: std::ops::Range<u64>| {
        let store = forgetting(BEGIN).capacity(2000).fpr(1e-3).seed([9; 32]);
        let store = store.create(path).unwrap();
        store
            .insert_batch(&Vec::from_iter(numbers.map(key)))
            .unwrap();
        store.close().unwrap();
    };
    let others = [folder.path().join("a"), folder.path().join("b")];
    make(&others[0], 0..1000);
    make(&others[1], 1000..1900);
    let merge = || Merge::new().open_options(OpenOptions::new()).fpr(1e-3);
    let report = merge().union(&path, &others).unwrap();
    let capacity = report.capacity.unwrap();
    assert!((1999..=2001).contains(&capacity), "{report:?}");
    // One key more is wrong for one of as many fingerprints.
    let expected = report.keys as f64 / (capacity as f64 / 1e-3);
    assert!((report.fpr_now / expected - 1.0).abs() < 1e-2, "{report:?}");
    make(&folder.path().join("c"), 2000..2500);
    let all = [&others[0], &others[1], &folder.path().join("c")];
    let full = merge().union(path.with_extension("full"), &all);
    assert!(matches!(full, Err(Error::Overfull { .. })), "{full:?}");
}
