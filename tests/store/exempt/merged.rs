//! Stores made of others.

use everseen::Kind;
use everseen::testing::Options;

use super::setting::{ABSENT, assert_seen, false_positives, hashes, listed, options};
use crate::support::files::{place, small};

#[test]
fn a_fold_keeps_what_is_exempt() {
    let (folder, path) = place();
    let store = options(Kind::Bloom).foldable(2).create(&path).unwrap();
    store.insert_batch(&hashes(0..8000)).unwrap();
    store.checkpoint().unwrap();
    let wrong = hashes(ABSENT..ABSENT + 1500);
    store.exempt(&wrong).unwrap();
    store.close().unwrap();
    let small_one = folder.path().join("small");
    let merge = || small().fpr(0.5).merge();
    merge().fold(&path, &small_one, 4).unwrap();
    let store = small().open(&small_one).unwrap();
    assert_seen(&store, &wrong, false);
    assert_seen(&store, &hashes(0..8000), true);
    assert_eq!(listed(&store).len(), 1500);
    assert!(store.verify().unwrap().is_ok());
    // And goes on as any.
    assert!(store.insert(wrong[3]).unwrap());
    store.close().unwrap();
    let store = small().open(&small_one).unwrap();
    assert_eq!(store.stats().unwrap().exempt, 1499);
}

#[test]
fn a_union_keeps_what_is_exempt_in_one_and_seen_in_none() {
    for kind in [Kind::Bloom, Kind::Scalable] {
        let (folder, path) = place();
        let options = options(kind);
        let one = options.create(&path).unwrap();
        one.insert_batch(&hashes(0..9000)).unwrap();
        one.checkpoint().unwrap();
        let other_path = folder.path().join("other");
        let like = Options::new().like(&path);
        let like = like
            .buffer(everseen::testing::LEAST_BUFFER)
            .background(false);
        let other = like.create(&other_path).unwrap();
        other.insert_batch(&hashes(5000..14_000)).unwrap();
        other.checkpoint().unwrap();
        let wrong = false_positives(&one, 600);
        one.exempt(&wrong).unwrap();
        let more = false_positives(&other, 50);
        other.exempt(&more).unwrap();
        // What the other has, or takes for its own, is seen in the union.
        let apart = |key: &&u64| !more.contains(key);
        let inserted: Vec<u64> = wrong.iter().filter(apart).take(100).copied().collect();
        other.insert_batch(&inserted).unwrap();
        // They make others wrong in their turn.
        other.checkpoint().unwrap();
        let there = other.contains_batch(&wrong).unwrap();
        let seen_by_one = one.contains_batch(&more).unwrap();
        one.close().unwrap();
        other.close().unwrap();
        let out = folder.path().join("out");
        let merge = small().fpr(0.9).merge();
        merge.union(&out, &[&path, &other_path]).unwrap();
        let store = small().open(&out).unwrap();
        let mut exempt = 0;
        for (key, there) in wrong.iter().zip(there).chain(more.iter().zip(seen_by_one)) {
            // Exempt in both is exempt; seen in one is seen.
            let both = wrong.contains(key) && more.contains(key);
            let seen = there && !both;
            assert_eq!(store.contains(*key).unwrap(), seen, "{kind}");
            exempt += u64::from(!seen);
        }
        let both = wrong.iter().filter(|key| more.contains(key)).count() as u64;
        assert_eq!(store.stats().unwrap().exempt, exempt - both);
        assert!(exempt > 100 && exempt < 600, "{exempt}");
        assert_seen(&store, &hashes(0..14_000), true);
        assert!(store.verify().unwrap().is_ok());
    }
}

#[test]
fn nothing_stays_exempt_that_another_has() {
    for kind in [Kind::Bloom, Kind::Scalable, Kind::Fingerprint] {
        let (folder, path) = place();
        let one = options(kind).create(&path).unwrap();
        one.insert_batch(&hashes(0..9000)).unwrap();
        one.checkpoint().unwrap();
        let wrong = false_positives(&one, 600);
        one.exempt(&wrong).unwrap();
        one.close().unwrap();
        let other_path = folder.path().join("other");
        let other = small().like(&path).create(&other_path).unwrap();
        other.insert_batch(&wrong).unwrap();
        other.close().unwrap();
        let out = folder.path().join("out");
        let merge = || small().fpr(0.9).merge();
        merge().union(&out, &[&path, &other_path]).unwrap();
        let store = small().open(&out).unwrap();
        assert_eq!(store.stats().unwrap().exempt, 0, "{kind}");
        assert_seen(&store, &wrong, true);
        assert_seen(&store, &hashes(0..9000), true);
        assert!(store.verify().unwrap().is_ok());
    }
}
