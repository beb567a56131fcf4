//! What every user relies on, with buffers so small that checkpoints and growth come often.

use everseen::testing::{Appending, Options};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::Duration;

use everseen::{Error, FormatError, Kind, PageState, Store, Verdict};
use tempfile::TempDir;

/// The smallest buffer, and a given seed, so that each key is in the same page in every run.
fn small() -> Options {
    Options::new()
        .buffer(everseen::testing::LEAST_BUFFER)
        .seed([7; 32])
}

fn key(number: u64) -> Vec<u8> {
    format!("https://example.org/page/{number}").into_bytes()
}

/// The kinds that need no capacity.
const GROWING: [Kind; 2] = [Kind::Scalable, Kind::Fingerprint];

/// A store that nobody described is of fingerprints. Who gives a capacity, or shapes layers, gets what that belongs to.
#[test]
fn what_the_options_say_decides_the_kind() {
    let (prints, layers) = (Kind::Fingerprint, Kind::Scalable);
    // At 1e-9, 2^36 keys would take more than 2^63 fingerprints.
    let most = everseen::FingerprintPlan::most_keys(1e-9);
    for (options, kind, capacity) in [
        (Options::new(), prints, Some(1 << 36)),
        (Options::new().fpr(1e-9), prints, Some(most)),
        (Options::new().grows_to(5000), prints, Some(5000)),
        (Options::new().kind(prints).growth(4), prints, Some(1 << 36)),
        (Options::new().growth(4), layers, None),
        (Options::new().tightening(0.5), layers, None),
        (Options::new().capacity(1000), Kind::Bloom, Some(1000)),
        (Options::new().capacity(1000).kind(layers), layers, None),
    ] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("store");
        let store = options.open_or_create(&path).unwrap();
        assert!(store.insert(b"key").unwrap());
        store.close().unwrap();
        let stats = Store::open(&path).unwrap().stats().unwrap();
        assert_eq!((stats.kind, stats.capacity), (kind, capacity));
        // No options are in the way of a store that exists, whatever its kind.
        let store = Options::new().open_or_create(&path).unwrap();
        assert!(!store.insert(b"key").unwrap());
        assert_eq!(store.stats().unwrap().kind, kind);
    }
    assert!(most < 1 << 36);
}

#[test]
fn inserts_are_remembered_by_the_next_open() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("urls");
    for kind in [Kind::Bloom, Kind::Scalable, Kind::Fingerprint] {
        for transactional in [false, true] {
            let path = path.with_extension(format!("{kind}.{transactional}"));
            let options = small()
                .kind(kind)
                .capacity(20_000)
                .fpr(1e-9)
                .transactional(transactional);
            for round in 0..3 {
                let store = options.open_or_create(&path).unwrap();
                for number in 0..20_000 {
                    let first = store.insert(key(number)).unwrap();
                    assert_eq!(first, round == 0, "{kind} {transactional} {number}");
                    if number % 1000 == 999 {
                        store.commit().unwrap();
                    }
                }
                store.close().unwrap();
                let names: Vec<_> = std::fs::read_dir(folder.path())
                    .unwrap()
                    .map(|entry| entry.unwrap().file_name())
                    .filter(|name| name.to_string_lossy().contains("-log"))
                    .collect();
                assert!(names.is_empty(), "{names:?}");
            }
            let store = small().open_read_only(&path).unwrap();
            let keys: Vec<_> = (0..40_000).map(key).collect();
            let found = store.contains_batch(&keys).unwrap();
            assert!(found[..20_000].iter().all(|found| *found));
            assert!(!found[20_000..].iter().any(|found| *found));
            assert!(store.verify().unwrap().is_ok());
            assert_eq!(store.stats().unwrap().keys, 20_000);
        }
    }
}

#[test]
fn a_batch_has_one_winner_for_each_key() {
    for kind in GROWING {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("store");
        let store = small().kind(kind).fpr(1e-9).create(path).unwrap();
        let keys: Vec<_> = (0..100_000_u64).map(|n| key(n * n % 30_011)).collect();
        let mut seen = HashSet::new();
        let verdicts = store.insert_batch(&keys).unwrap();
        for (key, verdict) in keys.iter().zip(verdicts) {
            assert_eq!(verdict, seen.insert(key), "{kind}");
        }
        assert_eq!(store.stats().unwrap().keys, seen.len() as u64);
    }
}

#[test]
fn what_a_transactional_handle_has_not_committed_never_happened() {
    GROWING.into_iter().for_each(uncommitted_keys_of);
}

fn uncommitted_keys_of(kind: Kind) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let options = small().kind(kind).transactional(true);
    let store = options.create(&path).unwrap();
    for number in 0..5000 {
        assert!(store.insert(key(number)).unwrap());
        if number % 500 == 0 {
            let tag = u64::to_le_bytes(number);
            store.commit_with(&tag).unwrap();
        }
    }
    assert!(store.contains(key(4999)).unwrap());
    store.close().unwrap();
    let store = Store::open(&path).unwrap();
    let last = store.last_commit("default").unwrap().unwrap();
    assert_eq!(last.tag, 4500_u64.to_le_bytes());
    assert_eq!(last.sequence, 10);
    for number in 0..5000 {
        assert_eq!(store.contains(key(number)).unwrap(), number <= 4500);
    }
}

#[test]
fn a_full_store_refuses_new_keys_and_answers_on() {
    let folder = TempDir::new().unwrap();
    let store = small()
        .capacity(1000)
        .create(folder.path().join("store"))
        .unwrap();
    let keys: Vec<_> = (0..2000).map(key).collect();
    let mut verdicts = Vec::new();
    let error = store.claim_into(&keys, &mut verdicts).unwrap_err();
    assert!(matches!(error, Error::Full { capacity: 1000 }), "{error}");
    assert_eq!(verdicts, vec![Verdict::New; 1000]);
    assert!(!store.insert(&keys[999]).unwrap());
    assert!(!store.contains(&keys[1000]).unwrap());
    assert!(matches!(store.insert(&keys[1000]), Err(Error::Full { .. })));
}

#[test]
fn a_transaction_larger_than_its_quota_is_refused() {
    GROWING.into_iter().for_each(too_large_a_transaction_of);
}

fn too_large_a_transaction_of(kind: Kind) {
    let folder = TempDir::new().unwrap();
    let options = small().kind(kind).transactional(true);
    let store = options.create(folder.path().join("store")).unwrap();
    let quota = store.uncommitted().unwrap().most;
    for number in 0..quota {
        assert!(store.insert(key(number)).unwrap());
    }
    let error = store.insert(key(quota)).unwrap_err();
    assert!(matches!(error, Error::TransactionTooLarge { quota: got } if got == quota));
    assert!(!store.insert(key(0)).unwrap());
    store.commit().unwrap();
    assert!(store.insert(key(quota)).unwrap());
}

#[test]
fn threads_share_a_handle_and_one_of_them_wins() {
    GROWING.into_iter().for_each(threads_of);
}

fn threads_of(kind: Kind) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let store = small().kind(kind).fpr(1e-9).create(path).unwrap();
    let wins: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4_u64)
            .map(|thread| {
                let store = &store;
                scope.spawn(move || {
                    let mut wins = 0;
                    for number in 0..30_000 {
                        let number = (number * 7919 + thread * 1000) % 30_000;
                        wins += u64::from(store.insert(key(number)).unwrap());
                        assert!(store.contains(key(number)).unwrap());
                        if number % 1000 == 0 {
                            store.commit().unwrap();
                        }
                    }
                    wins
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(wins, 30_000);
}

#[test]
fn keys_before_a_damaged_page_are_done_and_those_after_it_are_not() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let options = small().capacity(50_000).fpr(1e-9);
    let store = options.create(&path).unwrap();
    let old: Vec<_> = (0..20_000).map(key).collect();
    store.insert_batch(&old).unwrap();
    store.close().unwrap();
    // One byte of the third page's payload.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[131_072 + 2 * 4096 + 999] ^= 1;
    std::fs::write(&path, bytes).unwrap();

    let store = options.open(&path).unwrap();
    let new: Vec<_> = (20_000..21_000).map(key).collect();
    let mut verdicts = Vec::new();
    let error = store.claim_into(&new, &mut verdicts).unwrap_err();
    let Error::Format { source, .. } = error else {
        panic!("{error}");
    };
    assert!(
        matches!(
            source,
            FormatError::PageDamaged {
                layer: 0,
                page: 2,
                ..
            }
        ),
        "{source}"
    );
    assert!(!verdicts.is_empty() && verdicts.len() < 1000);
    for (place, verdict) in verdicts.iter().enumerate() {
        assert_eq!(*verdict, Verdict::New);
        assert!(store.contains(&new[place]).unwrap());
    }
    assert!(store.contains(&new[verdicts.len()]).is_err());
    let report = store.verify().unwrap();
    let damaged: Vec<_> = report.damaged.iter().map(|d| (d.layer, d.page)).collect();
    assert_eq!(damaged, [(0, 2)]);

    // Each page is told once, with what it is.
    let (mut next, mut set) = (0, 0);
    let again = store.verify_pages(|layer, pages, state| {
        assert_eq!((layer, pages.start), (0, next));
        next = pages.end;
        match state {
            PageState::Good { set: bits } => set += u64::from(bits),
            PageState::Damaged => assert_eq!(pages, 2..3),
            other => assert_eq!(other, PageState::Blank),
        }
    });
    assert_eq!(again.unwrap(), report);
    assert_eq!((next, set), (report.pages, report.bits_set));
}

#[test]
fn pages_are_told_by_their_layer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = Options::new().kind(Kind::Scalable).capacity(1000);
    let store = options.create(&path).unwrap();
    let keys: Vec<_> = (0..20_000).map(key).collect();
    for some in [&keys[..1000], &keys[1000..]] {
        store.insert_batch(some).unwrap();
        store.checkpoint().unwrap();
    }
    let layers: Vec<u64> = store
        .stats()
        .unwrap()
        .layers
        .iter()
        .map(|l| l.pages)
        .collect();
    assert!(layers.len() > 1, "{layers:?}");
    let mut told = vec![0; layers.len()];
    let report = store.verify_pages(|layer, pages, _| {
        let next = &mut told[layer as usize];
        assert_eq!(pages.start, *next);
        *next = pages.end;
    });
    assert!(report.unwrap().is_ok());
    assert_eq!(told, layers);
}

/// Progress rises to its end, over all runs, and the watcher may end it at any moment.
#[test]
fn a_check_of_all_pages_tells_how_far_it_is() {
    for kind in [Kind::Bloom, Kind::Scalable, Kind::Fingerprint] {
        let folder = tempfile::tempdir().unwrap();
        let options = small().kind(kind).capacity(200_000).least_run(64);
        let store = options.create(folder.path().join("store")).unwrap();
        for some in [0..100_000, 100_000..100_500, 100_500..100_600] {
            let keys: Vec<_> = some.map(key).collect();
            store.insert_batch(&keys).unwrap();
            store.checkpoint().unwrap();
        }
        let report = store.verify().unwrap();
        let mut told = Vec::new();
        let watched = store.verify_watched(|progress| {
            told.push((progress.done, progress.total));
            ControlFlow::Continue(())
        });
        assert_eq!(watched.unwrap(), report, "{kind}");
        let total = told[0].1;
        assert!(told.is_sorted() && told.iter().all(|one| one.1 == total));
        assert_eq!((told[0].0, told.last().unwrap().0), (0, total), "{kind}");
        assert!(total >= report.pages * 4096 / 2, "{kind}: {total}");
        for moment in 0..told.len() {
            let mut calls = 0;
            let ended = store.verify_watched(|_| {
                calls += 1;
                match calls > moment {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
        }
        store.close().unwrap();
    }
}

/// Each finds no store, and one of them makes it.
#[test]
fn of_many_who_open_or_create_at_once_each_comes_in() {
    for _ in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let barrier = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for number in 0_u64..8 {
                let (path, barrier) = (&path, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    let store = Options::new().open_or_create(path).unwrap();
                    assert!(store.insert(number.to_le_bytes()).unwrap());
                    store.close().unwrap();
                });
            }
        });
        let store = Options::new().open(&path).unwrap();
        assert_eq!(store.stats().unwrap().keys, 8);
    }
}

#[test]
fn a_handle_counts_how_often_it_took_the_writer_lock() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Options::new().create(&path).unwrap();
    let taken = || store.stats().unwrap().lock_taken;
    let before = taken();
    store.insert(b"new").unwrap();
    assert_eq!(taken(), before + 1);
    // What is there is found without it.
    store.insert(b"new").unwrap();
    assert_eq!(taken(), before + 1);
    store.commit().unwrap();
    assert_eq!(taken(), before + 2);
    // Nobody else was there.
    assert_eq!(store.stats().unwrap().lock_waited, Duration::ZERO);
}

/// Large batches are looked up in the order of the pages, which nobody may see.
#[test]
fn a_large_batch_is_answered_in_its_own_order() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let options = Options::new().seed([7; 32]).capacity(300_000).fpr(1e-9);
    let store = options.create(&path).unwrap();
    let mut known = HashSet::new();
    for round in 0..4_u64 {
        // Half of them known already, and each third one twice.
        let keys: Vec<_> = (0..60_000_u64)
            .map(|n| key((n * 7919 + round * 30_000) % 60_000 + round * 30_000 + n % 3 % 2))
            .collect();
        let expected: Vec<bool> = keys.iter().map(|key| known.contains(key)).collect();
        assert_eq!(store.contains_batch(&keys).unwrap(), expected);
        let new = store.insert_batch(&keys).unwrap();
        let expected: Vec<bool> = keys.iter().map(|key| known.insert(key.clone())).collect();
        assert_eq!(new, expected);
        if round % 2 == 1 {
            store.checkpoint().unwrap();
        }
    }
}

/// FORMAT.md, "Layers": what lies in the pages of a layer without keys says nothing.
#[test]
fn pages_of_a_layer_without_keys_are_neither_looked_at_nor_kept() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let options = small().capacity(50_000).fpr(1e-9);
    drop(options.create(&path).unwrap());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[131_072..].fill(0xFF);
    std::fs::write(&path, bytes).unwrap();

    let store = options.open(&path).unwrap();
    let keys: Vec<_> = (0..20_000).map(key).collect();
    assert!(store.insert_batch(&keys).unwrap().iter().all(|new| *new));
    store.close().unwrap();
    let store = options.open(&path).unwrap();
    assert_eq!(store.verify().unwrap().damaged, []);
    assert!(
        store
            .contains_batch(&keys)
            .unwrap()
            .iter()
            .all(|found| *found)
    );
    assert!(!store.contains(key(20_000)).unwrap());
}
