//! What an exemption does, in stores of each kind.

use everseen::testing::{LEAST_BUFFER, Options};
use everseen::{Error, Kind, Verdict};

use super::setting::{ABSENT, assert_seen, false_positives, filled, hashes, listed, options};
use crate::support::files::{beside, image, small};

const KINDS: [(Kind, bool); 4] = [
    (Kind::Bloom, false),
    (Kind::Bloom, true),
    (Kind::Scalable, false),
    (Kind::Scalable, true),
];

#[test]
fn an_exempt_key_is_not_there_until_it_is_inserted() {
    for (kind, transactional) in KINDS {
        let options = options(kind).transactional(transactional);
        let (_folder, path, store) = filled(&options, 20_000);
        let wrong = false_positives(&store, 900);
        let report = store.exempt(&wrong).unwrap();
        assert_eq!(
            (report.exempted, report.already, report.present),
            (900, 0, 0)
        );
        assert_seen(&store, &wrong, false);
        assert_seen(&store, &hashes(0..20_000), true);
        let mut twin: Vec<u64> = wrong.iter().map(|key| store.hasher().mix(*key)).collect();
        twin.sort_unstable();
        assert_eq!(listed(&store), twin);
        // Some of them now, by each way of inserting.
        assert!(store.insert(wrong[0]).unwrap());
        assert!(!store.insert(wrong[0]).unwrap());
        let new = store.insert_batch(&wrong[..100]).unwrap();
        assert_eq!(new.iter().filter(|new| **new).count(), 99);
        let mut verdicts = Vec::new();
        let keys: Vec<_> = wrong[..300].to_vec();
        for new in store.insert_batch(&keys).unwrap() {
            verdicts.push(if new { Verdict::New } else { Verdict::Seen });
        }
        assert_eq!(verdicts.iter().filter(|v| **v == Verdict::New).count(), 200);
        assert_seen(&store, &wrong[..300], true);
        assert_seen(&store, &wrong[300..], false);
        store.commit().unwrap();
        // Into the pages, by a checkpoint, and by closing.
        store.checkpoint().unwrap();
        assert_seen(&store, &wrong[..300], true);
        assert_seen(&store, &wrong[300..], false);
        assert_eq!(store.stats().unwrap().exempt, 600);
        assert_eq!(listed(&store).len(), 600);
        assert!(store.insert(wrong[300]).unwrap());
        store.commit().unwrap();
        store.close().unwrap();
        let store = options.open(&path).unwrap();
        assert_seen(&store, &wrong[..301], true);
        assert_seen(&store, &wrong[301..], false);
        assert_eq!(store.stats().unwrap().exempt, 599);
        assert!(store.verify().unwrap().is_ok());
        // The last of them: no section is left.
        store.insert_batch(&wrong).unwrap();
        store.commit().unwrap();
        store.close().unwrap();
        let store = Options::new().open_read_only(&path).unwrap();
        assert_eq!(store.stats().unwrap().exempt, 0);
        assert_seen(&store, &wrong, true);
    }
}

#[test]
fn what_is_exempt_already_or_in_a_buffer_is_told_apart() {
    let (_folder, _path, store) = filled(&options(Kind::Bloom), 20_000);
    let wrong = false_positives(&store, 10);
    store.insert(ABSENT * 2).unwrap();
    let before = store.stats().unwrap().generation;
    let report = store.exempt::<u64>(&[]).unwrap();
    assert_eq!(report, Default::default());
    let present = store.exempt(&[ABSENT * 2, ABSENT * 2]).unwrap();
    assert_eq!((present.exempted, present.present), (0, 1));
    // Nothing was to be written.
    assert_eq!(store.stats().unwrap().generation, before);
    let mut twice = wrong.clone();
    twice.extend_from_slice(&wrong[..5]);
    twice.push(ABSENT * 2);
    let report = store.exempt(&twice).unwrap();
    assert_eq!(
        (report.exempted, report.already, report.present),
        (10, 0, 1)
    );
    assert_seen(&store, &[ABSENT * 2], true);
    let again = store.exempt(&wrong).unwrap();
    assert_eq!((again.exempted, again.already, again.present), (0, 10, 0));
    // As bytes, and as what the store's hasher makes of them.
    store.exempt(&["a", "b"]).unwrap();
    let keys = ["b", "c"].map(|key| store.hasher().key(key.as_bytes()));
    let report = store.exempt(&keys).unwrap();
    assert_eq!((report.exempted, report.already), (1, 1));
    assert_eq!(store.stats().unwrap().exempt, 13);
}

/// It is the user's word against the pages, which can't tell.
#[test]
fn a_key_that_was_inserted_long_ago_is_forgotten_when_it_is_exempted() {
    let (_folder, _path, store) = filled(&options(Kind::Scalable), 2000);
    let old = hashes(0..50);
    store.exempt(&old).unwrap();
    assert_seen(&store, &old, false);
    let new = store.insert_batch(&old).unwrap();
    assert!(new.iter().all(|new| *new));
    assert_seen(&store, &old, true);
}

#[test]
fn what_is_not_committed_leaves_a_key_exempt() {
    for kind in [Kind::Bloom, Kind::Scalable] {
        let options = options(kind).transactional(true);
        let (_folder, path, store) = filled(&options, 5000);
        let wrong = false_positives(&store, 40);
        store.exempt(&wrong).unwrap();
        let new = store.insert_batch(&wrong[..20]).unwrap();
        assert!(new.iter().all(|new| *new));
        // A rotation carries what is open over; it stays exempt for the time after.
        store.checkpoint().unwrap();
        assert_seen(&store, &wrong[..20], true);
        assert_eq!(store.stats().unwrap().exempt, 40);
        drop(store);
        let store = options.open(&path).unwrap();
        assert_seen(&store, &wrong, false);
        assert_eq!(listed(&store).len(), 40);
        // Exempting needs no commit.
        let more = false_positives(&store, 10);
        store.exempt(&more).unwrap();
        drop(store);
        let store = options.open(&path).unwrap();
        assert_seen(&store, &more, false);
        store.insert_batch(&wrong[..20]).unwrap();
        store.commit().unwrap();
        store.insert_batch(&wrong[20..30]).unwrap();
        drop(store);
        let store = options.open(&path).unwrap();
        assert_seen(&store, &wrong[..20], true);
        assert_seen(&store, &wrong[20..], false);
        assert_eq!(store.stats().unwrap().exempt, 30);
    }
}

/// What a kill leaves: records in the log that are yet to go into the section.
#[test]
fn a_killed_store_has_what_was_exempt_and_what_was_inserted_since() {
    for (kind, transactional) in KINDS {
        let options = options(kind).transactional(transactional);
        let (_folder, path, store) = filled(&options, 10_000);
        let wrong = false_positives(&store, 600);
        store.exempt(&wrong[..500]).unwrap();
        store.insert_batch(&wrong[..100]).unwrap();
        store.commit().unwrap();
        let (_killed, left) = image(&path);
        // Read as it lies there, with a buffer, and by a handle that has no room for the log.
        let reader = small().open_read_only(&left).unwrap();
        assert_seen(&reader, &wrong[..100], true);
        assert_seen(&reader, &wrong[100..500], false);
        drop(reader);
        let opened = options.open(&left).unwrap();
        assert_seen(&opened, &wrong[..100], true);
        assert_seen(&opened, &wrong[100..500], false);
        assert_seen(&opened, &wrong[500..], true);
        opened.checkpoint().unwrap();
        assert_eq!(listed(&opened).len(), 400);
        assert!(opened.verify().unwrap().is_ok());
    }
}

/// A log that is longer than memory goes into the pages from the log itself, and out of the section too.
#[test]
fn a_log_without_room_in_memory_takes_keys_out_of_the_section() {
    let large = options(Kind::Bloom).capacity(160_000).buffer(8 << 20);
    let (_folder, path, store) = filled(&large, 100_000);
    let wrong = false_positives(&store, 9000);
    store.exempt(&wrong).unwrap();
    store.insert_batch(&hashes(200_000..240_000)).unwrap();
    store.insert_batch(&wrong[..4000]).unwrap();
    let (_killed, left) = image(&path);
    let opened = small().buffer(LEAST_BUFFER).open(&left).unwrap();
    assert_eq!(opened.stats().unwrap().exempt, 5000);
    assert_seen(&opened, &wrong[..4000], true);
    assert_seen(&opened, &wrong[4000..], false);
}

/// Sections move, and layers grow behind them.
#[test]
fn sections_and_layers_keep_out_of_each_others_way() {
    let options = options(Kind::Scalable).capacity(100).growth(2).fpr(0.3);
    let (_folder, path, store) = filled(&options, 100);
    let mut exempt = Vec::new();
    let mut next = 100;
    for round in 0..40 {
        let more = hashes(ABSENT + round * 60..ABSENT + round * 60 + 60);
        store.exempt(&more).unwrap();
        exempt.extend(more);
        // A few keys, or more than the last layer has room for: a new one, most of whose pages stay blank.
        let count = if round % 4 == 3 { 700 } else { 30 };
        let batch = hashes(next..next + count);
        next += count;
        store.insert_batch(&batch).unwrap();
        store.checkpoint().unwrap();
        assert!(store.verify().unwrap().is_ok(), "round {round}");
        assert_eq!(store.stats().unwrap().exempt, exempt.len() as u64);
    }
    assert!(store.stats().unwrap().layers.len() > 4);
    assert_seen(&store, &exempt, false);
    assert_eq!(store.exempt(&exempt).unwrap().already, 2400);
    store.close().unwrap();
    let store = Options::new().open_read_only(&path).unwrap();
    assert_seen(&store, &exempt, false);
    assert!(store.verify().unwrap().is_ok());
}

#[test]
fn a_store_that_is_empty_may_have_exemptions() {
    let (_folder, path) = crate::support::files::place();
    let options = options(Kind::Scalable);
    let store = options.create(&path).unwrap();
    store.exempt(&hashes(0..600)).unwrap();
    store.close().unwrap();
    let store = options.open(&path).unwrap();
    assert_eq!(listed(&store).len(), 600);
    let new = store.insert_batch(&hashes(0..1000)).unwrap();
    assert!(new.iter().all(|new| *new));
    store.close().unwrap();
    let store = options.open(&path).unwrap();
    assert_seen(&store, &hashes(0..1000), true);
    assert_eq!(store.stats().unwrap().exempt, 0);
    assert!(store.verify().unwrap().is_ok());
}

#[test]
fn exempting_is_for_those_who_may_write() {
    let (_folder, path, store) = filled(&options(Kind::Bloom), 100);
    store.close().unwrap();
    assert!(matches!(store.exempt(&["a"]), Err(Error::Closed)));
    assert!(matches!(
        store.exemptions().next(),
        Some(Err(Error::Closed))
    ));
    let reader = Options::new().open_read_only(&path).unwrap();
    assert!(matches!(reader.exempt(&["a"]), Err(Error::ReadOnly)));
    assert!(!beside(&path, "-log.2").exists());
}
