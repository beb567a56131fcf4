//! Readers that open the store again by themselves.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use everseen::testing::{LEAST_BUFFER, Options};
use everseen::{Error, Kind, Sieve, Store, Sweep};

use super::{KINDS, kill, options};
use crate::support::files::{held, key, keys, place};
use crate::support::numbers::Random;
use crate::support::share::all_some_or;
use crate::support::unsynced::Unsynced;

const STEPS: u64 = 80;

fn seed() -> u64 {
    let given = std::env::var("EVERSEEN_SEED").ok();
    let seed = given.map_or(0x40_0017, |seed| seed.parse().unwrap());
    println!("EVERSEEN_SEED={seed}");
    seed
}

fn follow(options: &Options, path: &Path) -> Store {
    let options = options.clone().follow(true).buffer(1 << 20);
    options.open_read_only(path).unwrap()
}

fn close(store: Store) {
    store.close().unwrap();
}

/// All numbers below `count` are in the store, and no others.
fn expect_all(reader: &Store, count: u64, random: &mut Random) {
    if count > 0 {
        let last = count - 1;
        assert!(reader.contains(key(last)).unwrap(), "key {last}");
    }
    assert!(!reader.contains(key(count)).unwrap(), "key {count}");
    match random.below(4) {
        0 => assert_eq!(held(reader, &keys(0..count + 100)), count as usize),
        1 => {
            let mut sieve = Sieve::new(reader).sweep(Sweep::Always);
            let hasher = reader.hasher();
            let both = [count.saturating_sub(1), count];
            both.iter()
                .for_each(|number| sieve.push(hasher.key(&key(*number)), *number));
            let each = |number, found| assert_eq!(found, number < count, "key {number}");
            sieve.contains(usize::MAX, each).unwrap();
        }
        2 => assert_eq!(reader.stats().unwrap().keys, count),
        _ => assert!(reader.verify().unwrap().is_ok()),
    }
}

/// Writers open, insert, checkpoint, close and die in any order, also several between two looks.
#[test]
fn what_returned_before_a_call_began_is_seen_whoever_came_and_went() {
    let seed = seed();
    for (number, kind) in (0..).zip(KINDS) {
        let mut random = Random::new(seed + number);
        let (_folder, path) = place();
        let options = options(kind).storage(Unsynced::new());
        options.create(&path).unwrap().close().unwrap();
        let reader = follow(&options, &path);
        let mut writers: Vec<Store> = Vec::new();
        let mut count = 0;
        for step in 0..STEPS {
            let deed = random.below(6);
            println!("{kind}, step {step}: deed {deed} of {}", writers.len());
            match deed {
                0 if writers.len() < 2 => writers.push(options.open(&path).unwrap()),
                1 => writers.pop().into_iter().for_each(close),
                2 => writers.pop().into_iter().for_each(kill),
                3 => writers
                    .first()
                    .into_iter()
                    .for_each(|one| one.checkpoint().unwrap()),
                _ => {
                    if let Some(writer) = writers.last() {
                        let new = 1 + random.below(200);
                        writer.insert_batch(&keys(count..count + new)).unwrap();
                        count += new;
                    }
                }
            }
            if random.below(3) > 0 {
                expect_all(&reader, count, &mut random);
            }
        }
        assert!(count > 0, "nothing was inserted");
        writers.into_iter().for_each(close);
        expect_all(&reader, count, &mut random);
        reader.close().unwrap();
    }
}

/// The next writer goes on with the log that the killed one left, without a superblock.
#[test]
fn a_log_that_goes_on_is_noticed_though_its_writers_are_all_gone() {
    for kind in KINDS {
        let (_folder, path) = place();
        let options = options(kind);
        let store = options.create(&path).unwrap();
        store.insert_batch(&keys(0..10)).unwrap();
        kill(store);
        let reader = follow(&options, &path);
        for round in 1..4 {
            let writer = options.open(&path).unwrap();
            writer
                .insert_batch(&keys(round * 10..round * 10 + 10))
                .unwrap();
            kill(writer);
            assert_eq!(
                held(&reader, &keys(0..100)) as u64,
                round * 10 + 10,
                "{kind}"
            );
        }
        reader.close().unwrap();
    }
}

/// Writers come and go as fast as they can while a reader looks.
#[test]
fn a_long_look_outlasts_all_writers() {
    let rounds = all_some_or(1000, 250, 60);
    for kind in KINDS {
        let (_folder, path) = place();
        let options = options(kind).storage(Unsynced::new());
        let store = options.create(&path).unwrap();
        let steady = keys(0..2000);
        store.insert_batch(&steady).unwrap();
        store.close().unwrap();
        let reader = follow(&options, &path);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                for round in 0..rounds {
                    let writer = options.open(&path).unwrap();
                    let first = 2000 + round * 20;
                    writer.insert_batch(&keys(first..first + 20)).unwrap();
                    writer.close().unwrap();
                }
            });
            let looks = || {
                let mut looks = 0_u64;
                while looks == 0 || !over.load(Ordering::Relaxed) {
                    for part in steady.chunks(500) {
                        assert_eq!(held(&reader, part), part.len(), "{kind}");
                        assert!(reader.contains(&part[0]).unwrap(), "{kind}");
                    }
                    looks += 1;
                }
                looks
            };
            let looking = [scope.spawn(looks), scope.spawn(looks)];
            let written = writing.join();
            over.store(true, Ordering::Relaxed);
            let looks = looking.map(|one| one.join().unwrap());
            println!("{kind}: {looks:?} looks");
            written.unwrap();
            assert!(looks.iter().all(|looks| *looks > 0));
        });
        let all = 2000 + rounds * 20;
        assert_eq!(held(&reader, &keys(0..all)) as u64, all);
        reader.close().unwrap();
    }
}

#[test]
fn what_an_exclusive_writer_writes_is_seen_once_it_has_closed() {
    for kind in KINDS {
        let (_folder, path) = place();
        let options = options(kind);
        let store = options.create(&path).unwrap();
        store.insert_batch(&keys(0..10)).unwrap();
        store.close().unwrap();
        let reader = follow(&options, &path);
        let alone = options.clone().exclusive(true).open(&path).unwrap();
        alone.insert_batch(&keys(10..20)).unwrap();
        assert_eq!(held(&reader, &keys(0..10)), 10);
        assert!(!reader.contains(key(10)).unwrap());
        alone.close().unwrap();
        assert_eq!(held(&reader, &keys(0..20)), 20);
        reader.close().unwrap();
    }
}

/// An exclusive writer uses the room of what the reader has mapped, so there is nothing left to answer from.
#[test]
fn a_reader_waits_for_an_exclusive_writer_no_longer_than_it_may() {
    let (_folder, path) = place();
    let options = options(Kind::Fingerprint);
    let store = options.create(&path).unwrap();
    store.insert_batch(&keys(0..5000)).unwrap();
    store.close().unwrap();
    let hasty = options.clone().timeout(std::time::Duration::ZERO);
    let reader = follow(&hasty, &path);
    let alone = options.clone().exclusive(true).open(&path).unwrap();
    for round in 1..4 {
        alone
            .insert_batch(&keys(round * 5000..round * 5000 + 500))
            .unwrap();
        alone.checkpoint().unwrap();
    }
    let error = reader.contains(key(1)).unwrap_err();
    assert!(
        matches!(&error, Error::Locked { path: got } if *got == path),
        "{error:?}"
    );
    alone.close().unwrap();
    assert!(reader.contains(key(1)).unwrap());
}

/// What never changes in a store is there whatever was opened again.
#[test]
fn a_reader_that_follows_is_as_any_other() {
    let (_folder, path) = place();
    let options = options(Kind::Fingerprint)
        .buffer(LEAST_BUFFER)
        .label(b"rules");
    let store = options.create(&path).unwrap();
    store.insert(b"key").unwrap();
    kill(store);
    let reader = follow(&options, &path);
    let (hash, recovered) = (reader.hasher().key(b"key"), reader.recovery().clone());
    assert_eq!(recovered.keys, 1);
    options.open(&path).unwrap().close().unwrap();
    assert!(reader.contains_batch(&[hash]).unwrap()[0]);
    assert_eq!(reader.hasher().key(b"key"), hash);
    assert_eq!(*reader.recovery(), recovered);
    assert_eq!(reader.label(), Some(&b"rules"[..]));
    assert_eq!(
        (
            reader.stats().unwrap().exempt,
            reader.fullness().unwrap().keys
        ),
        (0, 1)
    );
    let refused = [
        reader.insert(b"new").unwrap_err(),
        reader.commit().unwrap_err(),
        reader.checkpoint().unwrap_err(),
        reader.exempt(&["key"]).unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(error, Error::ReadOnly), "{error:?}");
    }
    reader.close().unwrap();
    reader.close().unwrap();
    for error in [
        reader.contains(b"key").unwrap_err(),
        reader.contains_batch(&["key"]).unwrap_err(),
        reader.verify().unwrap_err(),
        reader.stats().unwrap_err(),
    ] {
        assert!(matches!(error, Error::Closed), "{error:?}");
    }
    // It holds nothing that keeps others out.
    drop(options.exclusive(true).open(&path).unwrap());
}

/// Without the option, a handle keeps to the moment of its opening, or to the writers that it met.
#[test]
fn a_reader_that_does_not_follow_stays_where_it_is() {
    let (_folder, path) = place();
    let options = options(Kind::Bloom);
    let writer = options.create(&path).unwrap();
    let beside = options.open_read_only(&path).unwrap();
    writer.insert(b"one").unwrap();
    assert!(beside.contains(b"one").unwrap());
    writer.close().unwrap();
    let error = beside.contains(b"one").unwrap_err();
    assert!(matches!(error, Error::Ended), "{error:?}");
    let after = options.open_read_only(&path).unwrap();
    let writer = options.open(&path).unwrap();
    writer.insert(b"two").unwrap();
    assert!(!after.contains(b"two").unwrap());
}
