//! Unions against stores that got the keys of all.

use std::path::{Path, PathBuf};

use everseen::testing::Options;
use everseen::{Hash, Kind, Store};
use proptest::prelude::*;

use super::pages::{Bench, assert_holds, assert_rate, assert_same_pages, false_positives, merge};
use crate::support::files::{key, keys, small};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the sizes, and whether keys are shared or a store is empty.
    #[test]
    fn a_union_is_the_store_of_all_keys(
        ranges in prop::collection::vec((0_u64..6000, 0_u64..3000, 1_u64..7), 1..5),
        capacity in 200_u64..9000,
        hash in prop::sample::select(vec![Hash::Highway, Hash::Xxh3, Hash::Murmur3]),
        smallest in 0_usize..5,
    ) {
        let bench = Bench::new();
        let options = small().capacity(capacity).fpr(0.01).hash(hash);
        let base = bench.make("base", &options, &Vec::<Vec<u8>>::new());
        let smallest = smallest % ranges.len();
        let mut paths = Vec::new();
        let mut all = Vec::new();
        for (number, (start, count, times)) in ranges.iter().enumerate() {
            let times = if number == smallest { 1 } else { *times };
            // As many as fit, for sure.
            let count = (*count).min(capacity / 4);
            let own = keys(*start..start + count);
            paths.push(bench.like(&format!("part{number}"), &base, times, &own));
            all.extend(own);
        }
        // Room for all of them, so that the twin takes them: in it, more would be refused.
        let options = small().fpr(0.9);
        let report = options.merge().union(bench.path("out"), &paths).unwrap();
        let twin = twin(&bench, &base, &all);
        assert_same_pages(&bench.path("out"), &twin);
        assert_holds(&bench.path("out"), &all);
        all.sort();
        all.dedup();
        // False positives are not inserted, so there are a few less than there are keys; and it is an estimate.
        let count = all.len() as u64;
        let about = count * 93 / 100..=count + count / 50 + 5;
        prop_assert!(about.contains(&report.keys), "{} of {count}", report.keys);
        prop_assert_eq!(report.keys, Store::open(bench.path("out")).unwrap().stats().unwrap().keys);
    }
}

/// A store with the pages of `base` and all keys.
fn twin(bench: &Bench, base: &Path, all: &[Vec<u8>]) -> PathBuf {
    bench.like("twin", base, 1, all)
}

#[test]
fn eight_parts_are_the_whole() {
    let bench = Bench::new();
    let all = keys(0..40_000);
    let whole = bench.make("whole", &small().capacity(40_000).fpr(1e-6), &all);
    let parts: Vec<_> = (0..8)
        .map(|part| {
            let own = keys(part * 5000..(part + 1) * 5000);
            bench.like(&format!("part{part}"), &whole, 1, &own)
        })
        .collect();
    let report = merge().union(bench.path("out"), &parts).unwrap();
    assert_same_pages(&bench.path("out"), &whole);
    assert_holds(&bench.path("out"), &all);
    assert_eq!(report.capacity, Some(40_000));
    assert_eq!(report.fpr, 1e-6);
    assert!((39_600..=40_000).contains(&report.keys), "{report:?}");
    assert_eq!(report.pages_read, 8 * report.pages);
    let bytes = std::fs::metadata(bench.path("out")).unwrap().len();
    assert_eq!(report.bytes, bytes);
    let stats = Store::open(bench.path("out")).unwrap().stats().unwrap();
    let planned = Store::open(&whole).unwrap().stats().unwrap();
    assert_eq!(stats.keys, report.keys);
    // The rate by the pages as they are, and by the count of keys: a few pages, and so some luck.
    assert!(
        (report.fpr_now / planned.fpr_now - 1.0).abs() < 0.1,
        "{report:?} {planned:?}"
    );
    assert_ne!(stats.store_id, planned.store_id);
    assert_eq!(stats.commits, []);
}

#[test]
fn a_folded_union_is_wrong_as_often_as_planned() {
    let bench = Bench::new();
    let capacity = 60_000;
    let base = bench.make("base", &small().capacity(capacity).fpr(0.01), &keys(0..0));
    let sizes = [1, 2, 4, 8, 16, 3];
    let parts: Vec<_> = sizes
        .iter()
        .zip((0..).step_by(10_000))
        .map(|(times, from)| {
            let own = keys(from..from + 10_000);
            bench.like(&format!("times{times}"), &base, *times, &own)
        })
        .collect();
    let report = merge().union(bench.path("out"), &parts).unwrap();
    let all = keys(0..capacity);
    assert_same_pages(&bench.path("out"), &twin(&bench, &base, &all));
    assert_holds(&bench.path("out"), &all);
    let count = 400_000;
    let hits = false_positives(&bench.path("out"), count);
    println!("{hits} of {count} absent keys found, {report:?}");
    assert_rate(hits, count, report.fpr_now);
    assert!(report.fpr_now <= 0.0105, "{report:?}");
}

/// Given back to who goes on: a store that takes keys as any other does.
#[test]
fn a_union_goes_on_as_a_store() {
    let bench = Bench::new();
    let base = bench.make("base", &small().capacity(20_000).fpr(1e-4), &keys(0..5000));
    let other = bench.like("other", &base, 2, &keys(5000..10_000));
    merge().union(bench.path("out"), &[base, other]).unwrap();
    let out = small().open(bench.path("out")).unwrap();
    let new = out.insert_batch(&keys(10_000..20_000)).unwrap();
    assert!(new.iter().filter(|new| **new).count() > 9900);
    out.close().unwrap();
    assert_holds(&bench.path("out"), &keys(0..20_000));
    // And into the next union.
    let third = bench.like("third", &bench.path("out"), 1, &keys(20_000..20_100));
    let report = small()
        .fpr(0.01)
        .merge()
        .union(bench.path("out2"), &[bench.path("out"), third]);
    assert!(report.unwrap().keys > 19_000);
    assert_holds(&bench.path("out2"), &keys(0..20_100));
}

#[test]
fn an_empty_union_is_an_empty_store() {
    let bench = Bench::new();
    for kind in [Kind::Bloom, Kind::Scalable] {
        let options = small().kind(kind).capacity(100_000);
        let name = format!("{kind}");
        let one = bench.make(&name, &options, &keys(0..0));
        let two = bench.like(&format!("{kind}2"), &one, 1, &keys(0..0));
        let out = bench.path(&format!("{kind}-out"));
        let report = merge().union(&out, &[one, two]).unwrap();
        assert_eq!((report.keys, report.fpr_now), (0, 0.0));
        assert_eq!(report.pages_read, 0);
        assert_eq!(report.layers, u32::from(kind == Kind::Bloom));
        let store = small().open(&out).unwrap();
        assert!(!store.contains(key(1)).unwrap());
        assert!(store.insert(key(1)).unwrap());
        store.close().unwrap();
        assert_holds(&out, &keys(1..2));
    }
}

/// A copy of one store keeps where its writers stand; a union of two can't tell.
#[test]
fn commits_are_kept_by_a_copy_alone() {
    let bench = Bench::new();
    let path = bench.path("one");
    let options = small().capacity(1000).transactional(true).writer("crawler");
    let store = options.create(&path).unwrap();
    store.insert(b"a").unwrap();
    store.commit_with(b"line 1").unwrap();
    store.close().unwrap();
    let other = small().like(&path).transactional(false);
    let other = bench.make("other", &other, &keys(0..1));
    merge().union(bench.path("copy"), &[&path]).unwrap();
    let copy = Store::open(bench.path("copy")).unwrap();
    let commit = copy.last_commit("crawler").unwrap().unwrap();
    assert_eq!((commit.sequence, &*commit.tag), (1, &b"line 1"[..]));
    assert!(copy.stats().unwrap().transactional);
    merge().union(bench.path("both"), &[path, other]).unwrap();
    let both = Store::open(bench.path("both")).unwrap();
    assert_eq!(both.last_commit("crawler").unwrap(), None);
    // One of them is not.
    assert!(!both.stats().unwrap().transactional);
    let told = small().transactional(true).merge();
    told.union(bench.path("told"), &[bench.path("both")])
        .unwrap();
    let told = Store::open(bench.path("told")).unwrap();
    assert!(told.stats().unwrap().transactional);
}

/// Pieces without a key stay holes of the file.
#[test]
fn a_sparse_union_takes_little_room() {
    let bench = Bench::new();
    let options = Options::new().seed([7; 32]).capacity(50_000_000).fpr(1e-6);
    let one = bench.make("one", &options, &keys(0..1));
    let two = bench.like("two", &one, 1, &keys(1..2));
    let report = merge().union(bench.path("out"), &[one, two]).unwrap();
    assert_eq!(report.keys, 2);
    assert_holds(&bench.path("out"), &keys(0..2));
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let file = std::fs::metadata(bench.path("out")).unwrap();
        assert!(file.len() > 100 << 20);
        assert!(file.blocks() * 512 < 8 << 20, "{} blocks", file.blocks());
    }
}
