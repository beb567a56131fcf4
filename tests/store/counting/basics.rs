//! What each call answers, and what is refused.

use everseen::testing::{Appending, Options};
use everseen::{ClaimOptions, Error, Kind, OnDamage, Removal, Store, Verdict};

use crate::support::files::{beside, key, keys, place, small};

pub fn counting(capacity: u64) -> Options {
    small().kind(Kind::Counting).capacity(capacity).fpr(1e-9)
}

fn made(options: &Options) -> (tempfile::TempDir, std::path::PathBuf, Store) {
    let (folder, path) = place();
    let store = options.create(&path).unwrap();
    (folder, path, store)
}

#[test]
fn a_key_is_there_as_often_as_it_was_inserted_and_not_removed() {
    let (_folder, path, store) = made(&counting(1000));
    for round in 0..3 {
        assert_eq!(store.insert(b"twice").unwrap(), round == 0);
        assert_eq!(store.count_estimate(b"twice").unwrap(), round + 1);
    }
    assert!(!store.remove(b"never").unwrap());
    assert!(store.remove(b"twice").unwrap());
    store.checkpoint().unwrap();
    assert_eq!(store.count_estimate(b"twice").unwrap(), 2);
    assert!(store.remove(b"twice").unwrap());
    store.close().unwrap();
    let store = counting(1).open(&path).unwrap();
    assert_eq!(store.count_estimate(b"twice").unwrap(), 1);
    assert!(store.contains(b"twice").unwrap());
    assert!(store.remove(b"twice").unwrap());
    assert!(!store.contains(b"twice").unwrap());
    assert!(!store.remove(b"twice").unwrap());
    assert_eq!(store.stats().unwrap().keys, 0);
    // With nothing in it, pages that were written are looked at all the same.
    store.checkpoint().unwrap();
    assert!(!store.contains(b"twice").unwrap());
    assert!(store.insert(b"twice").unwrap());
    store.checkpoint().unwrap();
    assert!(store.contains(b"twice").unwrap());
    assert!(store.verify().unwrap().is_ok());
}

#[test]
fn keys_of_one_batch_come_one_after_the_other() {
    let (_folder, _, store) = made(&counting(1000));
    let batch = [b"a", b"b", b"a", b"a"];
    assert_eq!(
        store.insert_batch(&batch).unwrap(),
        [true, true, false, false]
    );
    let mut removed = Vec::new();
    let batch = [b"b", b"b", b"a", b"c", b"a"];
    store.remove_into(&batch, &mut removed).unwrap();
    assert_eq!(removed, [true, false, true, false, true]);
    assert_eq!(store.count_estimate(b"a").unwrap(), 1);
    let hashes: Vec<_> = [b"a", b"d", b"d"].map(|key| store.hasher().key(key)).into();
    let verdicts = store
        .claim_batch(&hashes, ClaimOptions::new().if_absent(true))
        .unwrap();
    assert_eq!(verdicts, [Verdict::Seen, Verdict::New, Verdict::Seen]);
    assert_eq!(store.count_estimate(b"d").unwrap(), 1);
    assert_eq!(claim_if_absent(&store, "e"), Verdict::New);
    assert_eq!(claim_if_absent(&store, "e"), Verdict::Seen);
    assert_eq!(store.count_estimate(b"e").unwrap(), 1);
    assert!(store.remove(5).is_ok_and(|removed| !removed));
    assert!(store.insert(5).unwrap());
    assert!(store.remove(5).unwrap());
}

#[test]
fn counters_end_at_fifteen_and_stay() {
    let (_folder, _, store) = made(&counting(1000));
    for _ in 0..20 {
        store.insert(b"often").unwrap();
    }
    assert_eq!(store.count_estimate(b"often").unwrap(), 15);
    // Not in the pages yet, so nothing is stuck.
    for _ in 0..10 {
        assert!(store.remove(b"often").unwrap());
    }
    assert_eq!(store.count_estimate(b"often").unwrap(), 10);
    for _ in 0..10 {
        store.insert(b"often").unwrap();
    }
    store.checkpoint().unwrap();
    for _ in 0..30 {
        assert!(store.remove(b"often").unwrap());
        assert_eq!(store.count_estimate(b"often").unwrap(), 15);
    }
    store.checkpoint().unwrap();
    assert!(store.contains(b"often").unwrap());
}

#[test]
fn what_the_buffer_knows_can_be_removed_with_proof() {
    let (_folder, _, store) = made(&counting(1000));
    store.insert(b"old").unwrap();
    store.checkpoint().unwrap();
    store.insert(b"new").unwrap();
    assert_eq!(store.remove_recent(b"new").unwrap(), Removal::Removed);
    assert_eq!(store.remove_recent(b"new").unwrap(), Removal::Absent);
    assert_eq!(store.remove_recent(b"old").unwrap(), Removal::Unproven);
    assert_eq!(store.count_estimate(b"old").unwrap(), 1);
    assert!(store.remove(b"old").unwrap());
}

#[test]
fn a_full_store_takes_no_more_until_something_is_removed() {
    let (_folder, _, store) = made(&counting(100));
    let hundred = keys(0..100);
    store.insert_batch(&hundred).unwrap();
    for round in 0..2 {
        match store.insert(b"one more") {
            Err(Error::Full { capacity: 100 }) => {}
            other => panic!("{round}: {other:?}"),
        }
        store.checkpoint().unwrap();
    }
    let mut verdicts = Vec::new();
    let more = keys(98..110);
    assert!(store.remove(key(0)).unwrap());
    match store.claim_into(&more, &mut verdicts) {
        Err(Error::Full { capacity: 100 }) => assert_eq!(verdicts, [Verdict::Seen]),
        other => panic!("{other:?}"),
    }
    assert!(
        store
            .contains_batch(&hundred[1..])
            .unwrap()
            .iter()
            .all(|found| *found)
    );
}

fn claim_if_absent(store: &Store, key: &str) -> Verdict {
    let options = ClaimOptions::new().if_absent(true);
    store.claim_batch(&[key], options).unwrap()[0]
}

#[test]
fn other_kinds_count_nothing() {
    let (_folder, _, store) = made(&small().capacity(100));
    let refused = |error| match error {
        Error::WrongKind { action, got, .. } => (action, got),
        other => panic!("{other:?}"),
    };
    let remove = ("remove keys", Kind::Bloom);
    assert_eq!(refused(store.remove(b"a").unwrap_err()), remove);
    assert_eq!(refused(store.remove(1).unwrap_err()), remove);
    let proves = ("prove that a key was inserted", Kind::Bloom);
    assert_eq!(refused(store.remove_recent(b"a").unwrap_err()), proves);
    let none: [&[u8]; 0] = [];
    let all = store.remove_batch(&none);
    assert_eq!(refused(*all.unwrap_err().error), remove);
    let count = store.count_estimate(b"a").unwrap_err();
    assert_eq!(refused(count), ("count keys", Kind::Bloom));
    // A set is what they are anyway.
    assert_eq!(claim_if_absent(&store, "a"), Verdict::New);
    assert_eq!(claim_if_absent(&store, "a"), Verdict::Seen);
}

#[test]
fn what_can_not_count_is_not_made() {
    let refused = |options: Options| {
        let (_folder, path) = place();
        match options.create(&path) {
            Err(Error::InvalidOption {
                option, expected, ..
            }) => (option, expected),
            other => panic!("{other:?}"),
        }
    };
    let (option, why) = refused(counting(10).transactional(true));
    assert_eq!(option, "transactional");
    assert!(why.contains("kind counting"), "{why}");
    let (option, why) = refused(small().kind(Kind::Counting));
    assert_eq!(option, "capacity");
    assert!(
        why.contains("can't grow: removing a key from the wrong layer"),
        "{why}"
    );
}

#[test]
fn copies_and_deltas_have_the_counters() {
    let (_folder, path, store) = made(&counting(3000));
    store.insert_batch(&keys(0..2000)).unwrap();
    let [old, new, delta] = ["-old", "-new", "-delta"].map(|name| beside(&path, name));
    store.snapshot(&old).unwrap();
    store.remove_batch(&keys(0..1000)).unwrap();
    store.insert_batch(&keys(1990..2100)).unwrap();
    store.snapshot_since(&delta, &old).unwrap();
    store.snapshot(&new).unwrap();
    Options::new().apply(&delta, &old).unwrap();
    assert!(std::fs::read(&old).unwrap() == std::fs::read(&new).unwrap());
    let copy = Options::new().open(&old).unwrap();
    assert!(copy.verify().unwrap().is_ok());
    for number in 0..2100 {
        let expected = match number {
            0..1000 => 0,
            1990..2000 => 2,
            _ => 1,
        };
        assert_eq!(
            copy.count_estimate(key(number)).unwrap(),
            expected,
            "{number}"
        );
    }
}

#[test]
fn a_damaged_page_is_named_and_can_be_repaired_either_way() {
    for on in [OnDamage::NeverSeen, OnDamage::Seen] {
        let (_folder, path, store) = made(&counting(3000));
        store.insert_batch(&keys(0..3000)).unwrap();
        store.close().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 1000;
        bytes[last] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let report = counting(1).repair(&path, on).unwrap();
        assert_eq!(report.pages.len(), 1);
        let store = counting(1).open(&path).unwrap();
        assert!(store.verify().unwrap().is_ok());
        let seen = store.contains_batch(&keys(0..3000)).unwrap();
        let there = seen.iter().filter(|seen| **seen).count();
        match on {
            OnDamage::Seen => assert_eq!(there, 3000),
            _ => assert!((1..3000).contains(&there), "{there}"),
        }
        // What is stuck stays: nothing of it is counted down.
        let absent = store.contains_batch(&keys(5000..8000)).unwrap();
        let wrong = absent.iter().filter(|seen| **seen).count();
        assert_eq!(wrong > 0, on == OnDamage::Seen);
        assert!(store.insert(b"more").is_ok() || store.remove(key(7)).unwrap());
    }
}

#[test]
fn readers_see_what_is_counted() {
    let (_folder, path, store) = made(&counting(1000));
    store.insert(b"a").unwrap();
    let watching = counting(1).open_read_only(&path).unwrap();
    assert_eq!(watching.count_estimate(b"a").unwrap(), 1);
    store.insert(b"a").unwrap();
    assert_eq!(watching.count_estimate(b"a").unwrap(), 2);
    store.checkpoint().unwrap();
    assert!(store.remove(b"a").unwrap());
    assert_eq!(watching.count_estimate(b"a").unwrap(), 1);
    match watching.remove(b"a") {
        Err(Error::ReadOnly) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_store_of_its_kind_can_be_made_after_it() {
    let (_folder, path, store) = made(&counting(1000));
    let twin = beside(&path, "-twin");
    let made = small().like(&path).times(2).create(&twin).unwrap();
    assert_eq!(made.stats().unwrap().kind, Kind::Counting);
    assert!(made.insert(b"a").unwrap());
    assert!(made.remove(b"a").unwrap());
    drop(store);
    match everseen::Merge::new().union(beside(&path, "-all"), &[&path, &twin]) {
        Err(Error::WrongKind {
            path: got,
            action: "be merged",
            got: Kind::Counting,
            ..
        }) => assert_eq!(got, path),
        other => panic!("{other:?}"),
    }
}

/// Keys that were never inserted and test positive, of a store with a rate that has some.
fn false_positives(store: &Store, most: usize) -> Vec<Vec<u8>> {
    let seen = |key: &Vec<u8>| store.contains(key).unwrap();
    keys(100_000..110_000)
        .into_iter()
        .filter(seen)
        .take(most)
        .collect()
}

#[test]
fn exemptions_override_what_pages_count_and_nothing_else() {
    let (_folder, path, store) = made(&counting(3000).fpr(0.05));
    store.insert_batch(&keys(0..3000 - 10)).unwrap();
    store.checkpoint().unwrap();
    let wrong = false_positives(&store, 60);
    assert_eq!(wrong.len(), 60);
    let report = store.exempt(&wrong).unwrap();
    assert_eq!((report.exempted, report.present), (60, 0));
    let [inserted, rest @ ..] = &wrong[..] else {
        panic!("there are some");
    };
    let check = |store: &Store, count| {
        assert_eq!(store.count_estimate(inserted).unwrap() > 0, count > 0);
        for key in rest {
            assert!(!store.contains(key).unwrap());
            assert!(!store.remove(key).unwrap());
        }
        let there = store.contains_batch(&keys(0..2990)).unwrap();
        assert!(there.iter().all(|there| *there));
    };
    check(&store, 0);
    assert!(store.insert(inserted).unwrap());
    // In the buffer it is there for certain, and is not exempted.
    assert_eq!(store.exempt(&[inserted]).unwrap().present, 1);
    check(&store, 1);
    store.checkpoint().unwrap();
    assert_eq!(store.stats().unwrap().exempt, 59);
    check(&store, 1);
    store.close().unwrap();
    let store = counting(1).open(&path).unwrap();
    check(&store, 1);
    // One that comes and goes between two checkpoints stays exempt.
    assert!(store.insert(&rest[0]).unwrap());
    assert!(store.remove(&rest[0]).unwrap());
    store.checkpoint().unwrap();
    assert_eq!(store.stats().unwrap().exempt, 59);
    check(&store, 1);
    assert!(store.verify().unwrap().is_ok());
}
