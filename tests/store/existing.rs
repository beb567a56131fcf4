//! Options for a new store that a store which exists does not follow.

use everseen::hash::Hash;
use everseen::testing::Options;
use everseen::{Kind, Store};
use tempfile::TempDir;

/// The options that `store` does not follow, and whether they are unmet.
fn differences(options: &Options, store: &Store) -> Vec<(&'static str, bool)> {
    let found = options.differences(store).unwrap();
    found
        .into_iter()
        .map(|found| (found.option, found.is_unmet))
        .collect()
}

fn created(options: &Options) -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = options.create(folder.path().join("store")).unwrap();
    (folder, store)
}

#[test]
fn a_store_that_options_have_created_follows_them() {
    let fixed = || Options::new().capacity(1234);
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other");
    let label = fixed().foldable(2).label(b"rules").transactional(true);
    label.create(&other).unwrap();
    for options in [
        Options::new(),
        fixed(),
        fixed().fpr(0.3),
        fixed().fpr(1e-12).foldable(5),
        fixed().bits_per_key(3.0).foldable(3),
        Options::new().capacity(100_000).bits_per_key(17.3),
        fixed().kind(Kind::Counting).measured(true),
        fixed().kind(Kind::Fingerprint).fpr(1e-9),
        fixed().kind(Kind::Scalable).growth(3).tightening(0.5),
        Options::new().growth(4),
        Options::new().grows_to(99).measured(false),
        fixed().seed([7; 32]).hash(Hash::Xxh3).label(b"mine"),
        fixed().transactional(true).measured(true).label(b""),
        Options::new().like(&other),
        Options::new().like(&other).times(4).label(b"own"),
        Options::new().like(&other).transactional(false),
    ] {
        let (_folder, store) = created(&options);
        assert_eq!(differences(&options, &store), [], "{options:?}");
    }
}

#[test]
fn each_option_is_compared() {
    let kept = Options::new().capacity(10_000).fpr(1e-4).label(b"rules");
    let (folder, bloom) = created(&kept);
    let bloom_path = folder.path().join("store");
    let (other, prints) = created(&Options::new().grows_to(5000).transactional(true));
    let (_folder, layers) = created(&Options::new().kind(Kind::Scalable).measured(false));
    let ask = Options::new;
    for (options, store, expected) in [
        (ask().kind(Kind::Counting), &bloom, ("kind", true)),
        (ask().capacity(10_001), &bloom, ("capacity", true)),
        (ask().capacity(9999), &bloom, ("capacity", false)),
        (ask().capacity(5001), &prints, ("capacity", true)),
        (ask().capacity(4999), &prints, ("capacity", false)),
        (ask().capacity(1 << 40), &layers, ("capacity", false)),
        (ask().grows_to(1), &bloom, ("grows_to", true)),
        (ask().grows_to(5001), &prints, ("grows_to", true)),
        (ask().grows_to(4999), &prints, ("grows_to", false)),
        (ask().fpr(0.99e-4), &bloom, ("fpr", true)),
        (ask().fpr(1.01e-4), &bloom, ("fpr", false)),
        (ask().bits_per_key(40.0), &bloom, ("bits_per_key", true)),
        (ask().bits_per_key(4.0), &bloom, ("bits_per_key", false)),
        (ask().bits_per_key(4.0), &prints, ("bits_per_key", true)),
        (ask().growth(3), &bloom, ("growth", true)),
        (ask().growth(3), &layers, ("growth", false)),
        (ask().tightening(0.5), &prints, ("tightening", true)),
        (ask().tightening(0.5), &layers, ("tightening", false)),
        (ask().foldable(12), &bloom, ("foldable", true)),
        (ask().foldable(1), &prints, ("foldable", true)),
        (ask().hash(Hash::Xxh3), &bloom, ("hash", true)),
        (ask().seed([7; 32]), &bloom, ("seed", true)),
        (ask().transactional(true), &bloom, ("transactional", true)),
        (ask().transactional(false), &prints, ("transactional", true)),
        (ask().measured(true), &layers, ("measured", true)),
        (ask().measured(false), &bloom, ("measured", false)),
        (ask().label(b"other"), &bloom, ("label", true)),
        (ask().label(b"rules"), &prints, ("label", true)),
        (ask().label(b""), &bloom, ("label", true)),
        (
            ask().like(other.path().join("store")),
            &bloom,
            ("like", true),
        ),
        (ask().like(&bloom_path).times(2), &bloom, ("times", true)),
    ] {
        assert_eq!(differences(&options, store), [expected], "{options:?}");
    }
    // A template decides what other options say.
    let like = ask().like(&bloom_path).capacity(1 << 40);
    assert_eq!(differences(&like, &bloom), []);
}

#[test]
fn a_difference_says_what_the_store_has() {
    let (_folder, store) = created(&Options::new().capacity(1000).fpr(1e-4));
    let options = Options::new().capacity(5000).fpr(1e-9).transactional(true);
    let found = options.differences(&store).unwrap();
    let has: Vec<_> = found.iter().map(|found| found.has.as_str()).collect();
    assert_eq!(
        has,
        ["a capacity of 1000", "a rate of 1e-4", "no transactions"]
    );
}
