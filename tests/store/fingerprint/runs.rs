//! Stores with several runs, compared with the sets that they should be.

use std::collections::BTreeSet;
use std::path::Path;

use everseen::testing::{GivenRun, Options};
use everseen::{Kind, Merge, OnDamage};

use crate::support::fault::FaultStorage;
use crate::support::files::{killed_at_write, place, small};
use crate::support::numbers::Random;
use crate::support::runs::{Runs, compare, hashed, hashes};
use crate::support::segments::{Guard, from, newest};
use crate::support::share::all_or;

fn options() -> Options {
    let options = small().kind(Kind::Fingerprint).capacity(50_000);
    options.fpr(1e-12).segment_pages(2).step_segments(1)
}

/// Whether the newest superblock of a closed store names runs above the oldest one.
fn has_runs(path: &Path) -> bool {
    let file = std::fs::read(path).unwrap();
    newest(&from(&file)).unwrap().has_runs
}

fn each_seed(seeds: impl IntoIterator<Item = u64>, test: impl Fn(u64, &mut Random)) {
    for seed in seeds {
        println!("seed {seed}");
        test(seed, &mut Random::new(seed));
    }
}

/// Inserts and removes some keys.
fn change(store: &everseen::Store, net: &mut BTreeSet<u64>, hashes: &[u64], random: &mut Random) {
    for hash in hashes {
        match random.below(12) {
            0 => assert_eq!(store.insert(hashed(*hash)).unwrap(), net.insert(*hash)),
            1 => assert_eq!(store.remove(hashed(*hash)).unwrap(), net.remove(hash)),
            _ => {}
        }
    }
}

#[test]
fn look_ups_through_any_number_of_runs_are_those_of_a_set() {
    // As many young runs as the seed says.
    let seeds = (0..25).step_by(all_or(1, 4));
    each_seed(seeds, |seed, random| {
        let (_folder, path) = place();
        let all = hashes(3000 + 500 * seed);
        let young = seed as usize;
        let runs = Runs::random(random, &all, young, 12);
        runs.create(&options(), &path);
        assert_eq!(has_runs(&path), young > 0);
        let reader = options().open_read_only(&path).unwrap();
        compare(&reader, &runs.net, &all);
        let report = reader.verify().unwrap();
        assert!(report.is_ok(), "{report:?}");
        assert_eq!(report.fingerprints, runs.net.len() as u64);
        drop(reader);
        let store = options().open(&path).unwrap();
        compare(&store, &runs.net, &all);
        let mut net = runs.net.clone();
        change(&store, &mut net, &all, random);
        compare(&store, &net, &all);
        store.checkpoint().unwrap();
        compare(&store, &net, &all);
        store.close().unwrap();
        // All of it is one run again.
        assert!(!has_runs(&path));
        let reader = options().open_read_only(&path).unwrap();
        compare(&reader, &net, &all);
        assert!(reader.verify().unwrap().is_ok());
    });
}

/// What came in one run and went in the next leaves an empty store, which goes on.
#[test]
fn runs_that_cancel_each_other_leave_an_empty_store() {
    let (_folder, path) = place();
    let store = options().create(&path).unwrap();
    store.close().unwrap();
    let all = hashes(2000);
    let came = GivenRun {
        came: all.clone(),
        ..GivenRun::default()
    };
    let went = GivenRun {
        went: all[1..].to_vec(),
        ..GivenRun::default()
    };
    options().add_runs(&path, &[came, went]).unwrap();
    let store = options().open(&path).unwrap();
    compare(&store, &BTreeSet::from([all[0]]), &all);
    assert!(store.remove(hashed(all[0])).unwrap());
    store.checkpoint().unwrap();
    compare(&store, &BTreeSet::new(), &all);
    assert!(store.insert(hashed(all[5])).unwrap());
    store.checkpoint().unwrap();
    compare(&store, &BTreeSet::from([all[5]]), &all);
    store.close().unwrap();
    let reader = options().open_read_only(&path).unwrap();
    compare(&reader, &BTreeSet::from([all[5]]), &all);
    assert!(reader.verify().unwrap().is_ok());
}

/// A key that came and is below already, or went and isn't, is found though every page is whole.
#[test]
fn verify_names_a_run_that_contradicts_those_below() {
    let all = hashes(3000);
    let run = |came: &[u64], went: &[u64]| GivenRun {
        came: came.to_vec(),
        went: went.to_vec(),
        ..GivenRun::default()
    };
    let sound = [
        run(&all[1000..1500], &all[..10]),
        run(&all[..5], &all[1200..1300]),
    ];
    let twice = run(
        &[&all[1400..1401], &all[2000..2100]].concat(),
        &all[900..950],
    );
    let never = run(&all[2000..2100], &[&all[7..8], &all[900..950]].concat());
    // A look-up can't tell: the counts of the two make up for each other.
    let both = run(&all[1400..1401], &all[7..8]);
    for (number, wrong) in [twice, never, both].into_iter().enumerate() {
        let (_folder, path) = place();
        let store = options().create(&path).unwrap();
        let own: Vec<_> = all[..1000].iter().map(|hash| hashed(*hash)).collect();
        store.insert_batch(&own).unwrap();
        store.close().unwrap();
        options().add_runs(&path, &sound).unwrap();
        let verify = || options().open_read_only(&path).unwrap().verify().unwrap();
        assert!(verify().is_ok());
        options().add_runs(&path, &[wrong]).unwrap();
        let report = verify();
        let reasons: Vec<_> = report.segments.iter().map(|one| &one.reason[..]).collect();
        assert_eq!(reasons.len(), 1, "{number}: {reasons:?}");
        assert!(reasons[0].starts_with("run 3 contradicts the runs below it about fingerprint "));
    }
}

/// A death at any write of the merge leaves the same keys: each step moves the cursors of all runs with its segments.
#[test]
fn a_death_at_any_write_of_the_merge_loses_nothing() {
    let all = hashes(6000);
    let mut random = Random::new(7);
    let runs = Runs::random(&mut random, &all, 3, 8);
    let mut partly = 0;
    for nth in 1.. {
        let (_folder, path) = place();
        let storage = FaultStorage::without_syncs();
        let options = options().storage(Guard::new(storage.shared()));
        runs.create(&options, &path);
        let store = options.open(&path).unwrap();
        let mut net = runs.net.clone();
        change(&store, &mut net, &all, &mut Random::new(nth));
        let (_copy, killed, is_over) = killed_at_write(&storage, nth, &path, || store.checkpoint());
        drop(store);
        let file = std::fs::read(&killed).unwrap();
        let named = newest(&from(&file)).unwrap();
        partly += u64::from(named.is_partly_merged && named.has_runs);
        let reader = options.open_read_only(&killed).unwrap();
        compare(&reader, &net, &all);
        let report = reader.verify().unwrap();
        assert!(report.is_ok(), "{nth}: {report:?}");
        drop(reader);
        let store = options.open(&killed).unwrap();
        compare(&store, &net, &all);
        store.checkpoint().unwrap();
        compare(&store, &net, &all);
        assert!(store.verify().unwrap().is_ok());
        store.close().unwrap();
        assert!(!has_runs(&killed));
        if is_over {
            break;
        }
    }
    assert!(partly > 3, "{partly} images between two steps are few");
}

#[test]
fn copies_keep_runs_and_set_algebra_takes_what_they_come_to() {
    each_seed(0..6, |_, random| {
        let (folder, path) = place();
        let all = hashes(4000);
        let runs = Runs::random(random, &all, 4, 8);
        runs.create(&options(), &path);
        let copy = folder.path().join("copy");
        let store = options().open(&path).unwrap();
        assert_eq!(store.snapshot(&copy).unwrap().keys, runs.net.len() as u64);
        store.close().unwrap();
        assert!(has_runs(&copy));
        let reader = options().open_read_only(&copy).unwrap();
        compare(&reader, &runs.net, &all);
        assert!(reader.verify().unwrap().is_ok());
        drop(reader);

        let (other, mut rest) = (folder.path().join("other"), BTreeSet::new());
        let store = options().create(&other).unwrap();
        change(&store, &mut rest, &all, random);
        store.close().unwrap();
        let inputs = &[&copy, &other];
        let union: BTreeSet<u64> = &runs.net | &rest;
        let common: BTreeSet<u64> = &runs.net & &rest;
        let difference: BTreeSet<u64> = &runs.net - &rest;
        let at = |name: &str| folder.path().join(name);
        Merge::new().union(at("union"), inputs).unwrap();
        Merge::new().intersection(at("common"), inputs).unwrap();
        Merge::new().difference(at("difference"), inputs).unwrap();
        for (name, net) in [
            ("union", union),
            ("common", common),
            ("difference", difference),
        ] {
            assert!(!has_runs(&at(name)));
            compare(&options().open_read_only(at(name)).unwrap(), &net, &all);
        }
    });
}

#[test]
fn repair_leaves_one_run() {
    let (_folder, path) = place();
    let all = hashes(4000);
    let runs = Runs::random(&mut Random::new(3), &all, 3, 8);
    runs.create(&options(), &path);
    options().repair(&path, OnDamage::NeverSeen).unwrap();
    let reader = options().open_read_only(&path).unwrap();
    compare(&reader, &runs.net, &all);
    assert!(reader.verify().unwrap().is_ok());
}

/// Deltas lead from one run to several, from these to more, and back to one.
#[test]
fn deltas_carry_runs() {
    each_seed(0..6, |_, random| {
        let (folder, path) = place();
        let all = hashes(4000);
        let runs = Runs::random(random, &all, 4, 8);
        let at = |name: &str| folder.path().join(name);
        let bring = |number: u64, net: &BTreeSet<u64>| {
            let delta = at(&format!("delta-{number}"));
            let store = options().open(&path).unwrap();
            store.snapshot_since(&delta, at("copy")).unwrap();
            store.close().unwrap();
            options().apply(&delta, at("copy")).unwrap();
            assert_eq!(has_runs(&at("copy")), has_runs(&path));
            let reader = options().open_read_only(at("copy")).unwrap();
            compare(&reader, net, &all);
            assert!(reader.verify().unwrap().is_ok());
            std::fs::metadata(&delta).unwrap().len()
        };
        let oldest = Runs {
            oldest: runs.oldest.clone(),
            ..Runs::default()
        };
        oldest.create(&options(), &path);
        let store = options().open(&path).unwrap();
        store.snapshot(at("copy")).unwrap();
        store.close().unwrap();
        options().add_runs(&path, &runs.young).unwrap();
        bring(1, &runs.net);
        let mut net = runs.net.clone();
        let absent = all.iter().copied().filter(|one| !net.contains(one));
        let one = GivenRun {
            came: absent.take(1).collect(),
            ..GivenRun::default()
        };
        net.extend(&one.came);
        options().add_runs(&path, &[one]).unwrap();
        let length = bring(2, &net);
        // The directories of six runs, two pages of a segment, and a superblock.
        assert!(length < 40 << 10, "{length} bytes for a key");
        let store = options().open(&path).unwrap();
        change(&store, &mut net, &all, random);
        store.checkpoint().unwrap();
        store.close().unwrap();
        assert!(!has_runs(&path));
        bring(3, &net);
    });
}
