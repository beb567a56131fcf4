//! Unions, intersections and differences, compared with those of sets.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use everseen::testing::Options;
use everseen::{Error, Kind, Merge, Store};

use crate::support::forge::{page_crc, u32_at};

fn options() -> Options {
    let options = Options::new().kind(Kind::Fingerprint).buffer(256 << 10);
    options.seed([7; 32]).grows_to(1 << 30).fpr(1e-6)
}

fn store_of(path: &Path, keys: impl IntoIterator<Item = u64>) {
    let store = options().create(path).unwrap();
    let keys: Vec<u64> = keys.into_iter().collect();
    for some in keys.chunks(7000) {
        store.insert_batch(some).unwrap();
        store.checkpoint().unwrap();
    }
    store.close().unwrap();
}

fn holds(path: &Path, keys: &BTreeSet<u64>, all: u64) {
    let store = Store::open(path).unwrap();
    let asked: Vec<u64> = (0..all).collect();
    let found = store.contains_batch(&asked).unwrap();
    for (key, found) in asked.iter().zip(found) {
        assert_eq!(found, keys.contains(key), "key {key}");
    }
    assert_eq!(store.stats().unwrap().keys, keys.len() as u64);
    assert!(store.verify().unwrap().is_ok());
    store.close().unwrap();
}

#[test]
fn a_store_may_be_merged_with_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let one = path("one");
    store_of(&one, 0..3000);
    let set: BTreeSet<u64> = (0..3000).collect();
    let twice = [&one, &one];
    Merge::new().union(path("union"), &twice).unwrap();
    holds(&path("union"), &set, 4000);
    let merge = Merge::new();
    merge.intersection(path("intersection"), &twice).unwrap();
    holds(&path("intersection"), &set, 4000);
    Merge::new().difference(path("difference"), &twice).unwrap();
    holds(&path("difference"), &BTreeSet::new(), 4000);
}

/// What came and what went, asked for at the same time: neither waits for a store that the other has.
#[test]
fn two_merges_of_the_same_stores_in_opposite_order_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["one", "two"].map(|name| folder.path().join(name));
    store_of(&paths[0], 0..10);
    store_of(&paths[1], 5..20);
    let [one, two] = &paths;
    std::thread::scope(|scope| {
        for (inputs, expected) in [([one, two], 5), ([two, one], 10)] {
            scope.spawn(move || {
                for _ in 0..200 {
                    let count = Merge::new().count_difference(&inputs).unwrap();
                    assert_eq!(count, expected);
                }
            });
        }
    });
}

#[test]
fn the_three_operations_are_those_of_sets() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let sets: Vec<BTreeSet<u64>> = [2, 3, 5]
        .map(|step| (0..60_000).step_by(step).collect())
        .to_vec();
    let inputs: Vec<PathBuf> = ["two", "three", "five"].map(path).to_vec();
    for (set, input) in sets.iter().zip(&inputs) {
        store_of(input, set.iter().copied());
    }
    let union: BTreeSet<u64> = sets.iter().flatten().copied().collect();
    let intersection: BTreeSet<u64> = &(&sets[0] & &sets[1]) & &sets[2];
    let difference: BTreeSet<u64> = &(&sets[0] - &sets[1]) - &sets[2];
    assert_eq!(
        Merge::new().count_union(&inputs).unwrap(),
        union.len() as u64
    );
    assert_eq!(
        Merge::new().count_intersection(&inputs).unwrap(),
        intersection.len() as u64
    );
    assert_eq!(
        Merge::new().count_difference(&inputs).unwrap(),
        difference.len() as u64
    );
    let report = Merge::new().union(path("union"), &inputs).unwrap();
    assert_eq!(report.keys, union.len() as u64);
    assert_eq!(report.pages_read, report.pages_read.max(3));
    Merge::new()
        .intersection(path("intersection"), &inputs)
        .unwrap();
    Merge::new()
        .difference(path("difference"), &inputs)
        .unwrap();
    holds(&path("union"), &union, 60_000);
    holds(&path("intersection"), &intersection, 60_000);
    holds(&path("difference"), &difference, 60_000);
    // A result is a store like any other.
    let store = Store::open(path("difference")).unwrap();
    assert!(store.insert(0).unwrap() && !store.insert(2).unwrap());
    store.close().unwrap();
}

/// Eight parts united are the whole, in every byte of their pages.
#[test]
fn the_union_of_eight_parts_is_the_whole_page_by_page() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: String| folder.path().join(name);
    let parts: Vec<PathBuf> = (0..8).map(|part| path(format!("part{part}"))).collect();
    for (part, input) in (0..).zip(&parts) {
        store_of(input, (part * 20_000)..(part + 1) * 20_000 + 500);
    }
    let whole = path("whole".to_owned());
    store_of(&whole, 0..160_500);
    let united = [path("united".to_owned()), path("packed".to_owned())];
    Merge::new().union(&united[0], &parts).unwrap();
    Merge::new().union(&united[1], &[&whole]).unwrap();
    let pages = united.map(|path| pages_without_crcs(&path));
    assert!(pages[0] == pages[1] && pages[0].len() > 100 * 4096);
}

/// All pages of a store without their CRCs, which are bound to it; those were checked.
fn pages_without_crcs(path: &Path) -> Vec<u8> {
    let file = std::fs::read(path).unwrap();
    let mut pages = file[131_072..].to_vec();
    for (number, page) in (32..).zip(pages.chunks_exact_mut(4096)) {
        assert_eq!(page_crc(&file, number, page), u32_at(page, 0), "{number}");
        page[..4].fill(0);
    }
    pages
}

#[test]
fn stores_that_cannot_be_compared_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    store_of(&path("one"), 0..100);
    let other = options().fpr(1e-5).create(path("other")).unwrap();
    other.close().unwrap();
    let bloom = Options::new().kind(Kind::Bloom).seed([7; 32]).capacity(100);
    bloom.create(path("bloom")).unwrap().close().unwrap();
    let refused = |names: [&str; 2]| {
        let inputs = names.map(path);
        let union = Merge::new().union(path("out"), &inputs).unwrap_err();
        assert!(!path("out").exists());
        union
    };
    let space = refused(["one", "other"]);
    assert!(
        matches!(space, Error::Mismatch { field: "space", .. }),
        "{space}"
    );
    let kind = refused(["one", "bloom"]);
    assert!(
        matches!(kind, Error::Mismatch { field: "kind", .. }),
        "{kind}"
    );
    let bloom = [path("bloom")];
    let counted = Merge::new().count_union(&bloom).unwrap_err();
    assert!(matches!(counted, Error::WrongKind { .. }), "{counted}");
    let intersected = Merge::new().intersection(path("out"), &bloom).unwrap_err();
    assert!(
        matches!(intersected, Error::WrongKind { .. }),
        "{intersected}"
    );
    let folded = Merge::new().fold(path("one"), path("out"), 2).unwrap_err();
    assert!(matches!(folded, Error::WrongKind { .. }), "{folded}");
}

#[test]
fn a_copy_taken_amid_writes_is_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let store = options().create(path("store")).unwrap();
    for round in 0..12_u64 {
        let keys: Vec<u64> = (round * 4000..(round + 1) * 4000).collect();
        store.insert_batch(&keys).unwrap();
        store.checkpoint().unwrap();
    }
    let report = store.snapshot(path("copy")).unwrap();
    assert_eq!(report.keys, 48_000);
    store.insert(1 << 40).unwrap();
    store.close().unwrap();
    holds(&path("copy"), &(0..48_000).collect(), 50_000);
    let copy = Store::open(path("copy")).unwrap();
    assert!(!copy.contains(1 << 40).unwrap());
    assert!(copy.insert(1 << 40).unwrap());
    copy.close().unwrap();
}
