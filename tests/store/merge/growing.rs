//! Stores that grow, merged layer by layer.

use std::path::Path;

use everseen::sizing::SizingError;
use everseen::testing::Options;
use everseen::{Error, Kind, Stats, Store};

use super::pages::{Bench, assert_holds, assert_rate, false_positives, merge};
use crate::support::files::{keys, small};
use crate::support::share::all_or;

fn growing() -> Options {
    small().kind(Kind::Scalable).capacity(2000).fpr(1e-3)
}

fn stats(path: &Path) -> Stats {
    Store::open(path).unwrap().stats().unwrap()
}

#[test]
fn layers_with_room_become_one() {
    let bench = Bench::new();
    let one = bench.make("one", &growing(), &keys(0..900));
    let two = bench.like("two", &one, 1, &keys(900..1800));
    let report = merge().union(bench.path("out"), &[&one, &two]).unwrap();
    assert_eq!((report.layers, report.fpr), (1, 1e-3));
    assert_holds(&bench.path("out"), &keys(0..1800));
    // The slow obvious twin: a store that got all keys.
    let twin = bench.like("twin", &one, 1, &keys(0..1800));
    super::pages::assert_same_pages(&bench.path("out"), &twin);
    assert!(stats(&twin).keys - report.keys <= 18, "{report:?}");
}

/// Full layers stay as they are, and what the sum of the rates comes to is told.
#[test]
fn full_layers_are_kept_apart_and_the_bound_is_told() {
    let bench = Bench::new();
    let one = bench.make("one", &growing(), &keys(0..9000));
    let two = bench.like("two", &one, 1, &keys(9000..18_000));
    let inputs = [&one, &two];
    let error = merge().union(bench.path("out"), &inputs).unwrap_err();
    let Error::Overfull { expected, got, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(*expected, 1e-3);
    assert!(*got > 1e-3 && *got < 2.5e-3, "{error}");
    assert_eq!(bench.names("out"), [""; 0]);
    let out = bench.path("out");
    let told = small().fpr(*got).merge();
    let report = told.union(&out, &inputs).unwrap();
    assert_eq!(report.fpr, *got);
    assert_holds(&out, &keys(0..18_000));
    let (before, merged) = (stats(&one), stats(&out));
    assert!(merged.layers.len() > before.layers.len());
    assert!(merged.layers.is_sorted_by_key(|layer| layer.capacity));
    // It grows on, and the bound holds over all layers to come.
    let store = small().open(&out).unwrap();
    store.insert_batch(&keys(18_000..150_000)).unwrap();
    store.close().unwrap();
    assert_holds(&out, &keys(0..150_000));
    let grown = stats(&out);
    assert!(grown.layers.len() > merged.layers.len());
    for pair in grown.layers[merged.layers.len() - 1..].windows(2) {
        assert!(pair[1].capacity >= 2 * pair[0].capacity, "{pair:?}");
    }
    assert!(grown.fpr_now <= *got, "{} of {got}", grown.fpr_now);
    let count = all_or(1_000_000, 300_000);
    let hits = false_positives(&out, count);
    println!(
        "{hits} of {count} absent keys found, expected {:.3e}, bound {got:.3e}",
        grown.fpr_now
    );
    assert_rate(hits, count, grown.fpr_now);
}

/// A copy of one store is that store.
#[test]
fn a_union_of_one_has_its_layers() {
    let bench = Bench::new();
    let one = bench.make("one", &growing(), &keys(0..20_000));
    let report = merge().union(bench.path("out"), &[&one]).unwrap();
    let (before, after) = (stats(&one), stats(&bench.path("out")));
    assert_eq!(before.layers, after.layers);
    assert_eq!(report.fpr, before.fpr_target);
    assert!(
        (report.fpr_now / before.fpr_now - 1.0).abs() < 0.1,
        "{report:?} {}",
        before.fpr_now
    );
    super::pages::assert_same_pages(&one, &bench.path("out"));
}

#[test]
fn more_layers_than_the_table_has_room_for() {
    let bench = Bench::new();
    let options = growing().capacity(1000).fpr(1e-9);
    let all: Vec<_> = (0..65)
        .map(|part| {
            let own = keys(part * 1000..(part + 1) * 1000);
            bench.make(&format!("part{part}"), &options, &own)
        })
        .collect();
    let union = |count: usize| {
        let merge = small().fpr(0.1).merge();
        merge.union(bench.path("out"), &all[..count])
    };
    let error = union(65).unwrap_err();
    let many = SizingError::TooManyLayers { index: 64 };
    assert!(
        matches!(&error, Error::Sizing(got) if *got == many),
        "{error:?}"
    );
    assert_eq!(bench.names("out"), [""; 0]);
    assert_eq!(union(64).unwrap().layers, 64);
    assert_holds(&bench.path("out"), &keys(0..64_000));
    // Full for good, and says so; what it has is found.
    let store = small().open(bench.path("out")).unwrap();
    let error = store
        .insert_batch(&keys(64_000..90_000))
        .map_err(Error::from)
        .and_then(|_| store.checkpoint());
    assert!(matches!(error, Err(Error::Full { .. })), "{error:?}");
}
