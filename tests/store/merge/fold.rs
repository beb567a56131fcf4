//! Folds against stores that got the keys at the smaller size.

use everseen::sizing::Plan;
use everseen::{Store, sizing};
use proptest::prelude::*;

use super::pages::{Bench, assert_holds, assert_rate, assert_same_pages, false_positives, merge};
use crate::support::files::{keys, small};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_fold_is_the_smaller_store(
        base in 1_u64..8,
        factor in 2_u64..40,
        count in 0_u64..6000,
    ) {
        let bench = Bench::new();
        let bytes = base * sizing::PAGE_BYTES;
        let capacity = Plan::capacity_for_rate_and_size(0.01, bytes).unwrap().capacity;
        let options = small().capacity(capacity).fpr(0.01);
        let empty = bench.make("base", &options, &keys(0..0));
        let count = count.min(capacity);
        let direct = bench.like("direct", &empty, 1, &keys(0..count));
        let large = bench.like("large", &empty, factor, &keys(0..count));
        let report = merge().fold(large, bench.path("out"), factor).unwrap();
        assert_same_pages(&bench.path("out"), &direct);
        assert_holds(&bench.path("out"), &keys(0..count));
        // There is one input, and its count is known.
        let keys = Store::open(bench.path("large")).unwrap().stats().unwrap().keys;
        prop_assert_eq!(report.keys, keys);
        prop_assert_eq!(report.pages, base);
        prop_assert_eq!(report.pages_read, if count > 0 { base * factor } else { 0 });
    }
}

/// Room falls with the pages and the rate stays, as measured.
#[test]
fn a_fold_keeps_its_rate_or_says_which() {
    let bench = Bench::new();
    let options = small().capacity(400_000).fpr(0.01).foldable(3);
    let large = bench.make("large", &options, &keys(0..45_000));
    let pages = Store::open(&large).unwrap().stats().unwrap().layers[0].pages;
    assert_eq!(pages % 8, 0);
    let eighth = bench.path("eighth");
    let report = merge().fold(&large, &eighth, 8).unwrap();
    assert_holds(&eighth, &keys(0..45_000));
    let room = report.capacity.unwrap();
    assert!((50_000..=52_000).contains(&room), "{report:?}");
    assert!(report.fpr_now < 0.01, "{report:?}");
    let count = 400_000;
    assert_rate(false_positives(&eighth, count), count, report.fpr_now);
    // It has the room that it says, and no more than that.
    let store = small().open(&eighth).unwrap();
    let left = room - store.stats().unwrap().keys;
    let mut taken = 0;
    let mut number = 1_000_000;
    let full = loop {
        match store.insert(format!("more {number}").as_bytes()) {
            Ok(new) => taken += u64::from(new),
            Err(error) => break error,
        }
        number += 1;
    };
    assert!(matches!(full, everseen::Error::Full { capacity } if capacity == room));
    assert_eq!(taken, left);
    store.close().unwrap();
    let stats = Store::open(&eighth).unwrap().stats().unwrap();
    assert!(stats.fpr_now <= 0.01, "{stats:?}");
    // Into three pages, and wrong more often than not.
    let more = small().fpr(0.9).merge();
    let least = bench.path("least");
    let report = more.fold(&eighth, &least, pages / 8 / 3).unwrap();
    assert_eq!((report.pages, report.fpr), (3, 0.9));
    assert_holds(&least, &keys(0..45_000));
    let count = 10_000;
    let hits = false_positives(&least, count);
    assert!(
        (0.6..0.9).contains(&(hits as f64 / count as f64)),
        "{hits} of {count}"
    );
}

/// A union of stores of the sizes that a plan gives them.
#[test]
fn foldable_stores_fit_those_of_a_fraction_of_their_pages() {
    let bench = Bench::new();
    let options = small().capacity(100_000).fpr(1e-4).foldable(5);
    let large = bench.make("large", &options, &keys(0..1000));
    for factor in [2, 4, 8, 16, 32] {
        let out = bench.path(&format!("by{factor}"));
        merge().fold(&large, &out, factor).unwrap();
        let both = bench.path(&format!("with{factor}"));
        let report = merge().union(&both, &[&large, &out]).unwrap();
        assert_same_pages(&both, &out);
        // Two inputs: an estimate, and these are all.
        assert!((1000..1010).contains(&report.keys), "{report:?}");
    }
}
