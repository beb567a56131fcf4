//! Handles beside each other: what one exempts or inserts holds for all.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use everseen::testing::Options;
use everseen::{Kind, Store};

use super::setting::{assert_seen, false_positives, filled, hashes, options};
use crate::support::files::small;

#[test]
fn what_one_handle_exempts_holds_for_all() {
    for kind in [Kind::Bloom, Kind::Scalable] {
        let options = options(kind);
        let (_folder, path, first) = filled(&options, 10_000);
        let second = options.open(&path).unwrap();
        let watching = Options::new().open_read_only(&path).unwrap();
        let wrong = false_positives(&second, 700);
        second.exempt(&wrong[..300]).unwrap();
        first.exempt(&wrong[300..]).unwrap();
        for store in [&first, &second, &watching] {
            assert_seen(store, &wrong, false);
            assert_eq!(store.stats().unwrap().exempt, 700);
        }
        // One winner among them, and all know.
        assert!(first.insert(wrong[5]).unwrap());
        assert!(!second.insert(wrong[5]).unwrap());
        let new = second.insert_batch(&wrong[..200]).unwrap();
        assert_eq!(new.iter().filter(|new| **new).count(), 199);
        for store in [&first, &second, &watching] {
            assert_seen(store, &wrong[..200], true);
            assert_seen(store, &wrong[200..], false);
        }
        first.checkpoint().unwrap();
        for store in [&first, &second, &watching] {
            assert_seen(store, &wrong[..200], true);
            assert_seen(store, &wrong[200..], false);
            assert_eq!(store.stats().unwrap().exempt, 500);
        }
    }
}

/// A reader of what was there when it was opened sees pages of sections used again and again, and is told by their stamp.
#[test]
fn a_reader_that_others_leave_behind_is_right_about_what_stays_exempt() {
    let options = options(Kind::Bloom);
    let (_folder, path, store) = filled(&options, 20_000);
    let wrong = false_positives(&store, 2400);
    let (stay, go) = wrong.split_at(400);
    store.exempt(&wrong[..1200]).unwrap();
    store.close().unwrap();
    let left_behind = small().open_read_only(&path).unwrap();
    assert_seen(&left_behind, &wrong[..1200], false);
    let store = options.open(&path).unwrap();
    for (round, keys) in go[1000..].chunks(100).enumerate() {
        // Of what was exempt some is inserted, and other keys take its place.
        store.insert_batch(&go[round * 50..][..50]).unwrap();
        store.exempt(keys).unwrap();
        assert_seen(&left_behind, stay, false);
        assert_seen(&store, stay, false);
        assert_seen(&left_behind, &hashes(0..2000), true);
    }
    assert_eq!(store.stats().unwrap().exempt, 1200 - 500 + 1000);
}

/// Threads with handles of their own look up, exempt and insert at once. What stays exempt is never seen, what was inserted
/// always is, and each key has one winner.
#[test]
fn many_at_once() {
    let options = options(Kind::Bloom).background(true);
    let (_folder, path, first) = filled(&options, 20_000);
    let wrong = false_positives(&first, 3000);
    let (stay, go) = wrong.split_at(500);
    first.exempt(&wrong).unwrap();
    let stores: Vec<Store> = std::iter::once(first)
        .chain((0..2).map(|_| options.open(&path).unwrap()))
        .collect();
    let over = AtomicBool::new(false);
    let won: Vec<u64> = std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let reader = Options::new().open_read_only(&path).unwrap();
            let old = hashes(0..3000);
            let mut rounds = 0;
            while !over.load(Ordering::Acquire) || rounds == 0 {
                assert_seen(&reader, stay, false);
                assert_seen(&reader, &old, true);
                rounds += 1;
            }
        });
        let writing: Vec<_> = (0..)
            .zip(&stores)
            .map(|(index, store)| {
                scope.spawn(move || {
                    let mut won = Vec::new();
                    for (round, keys) in go.chunks(250).enumerate() {
                        let new = store.insert_batch(keys).unwrap();
                        let new = keys.iter().zip(new).filter(|(_, new)| *new);
                        won.extend(new.map(|(key, _)| *key));
                        assert_seen(store, keys, true);
                        assert_seen(store, stay, false);
                        match (round + index) % 3 {
                            0 => store.checkpoint().unwrap(),
                            1 => {
                                let own = 1 << 50 | (index as u64) << 20 | round as u64;
                                store.exempt(&[own]).unwrap();
                            }
                            _ => {}
                        }
                    }
                    won
                })
            })
            .collect();
        let won = writing.into_iter().flat_map(|one| one.join().unwrap());
        let won = won.collect();
        over.store(true, Ordering::Release);
        reading.join().unwrap();
        won
    });
    let distinct: HashSet<_> = won.iter().collect();
    assert_eq!((won.len(), distinct.len()), (2500, 2500));
    for store in &stores {
        assert_seen(store, stay, false);
        assert_seen(store, go, true);
    }
}
