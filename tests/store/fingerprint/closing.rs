//! Closing beside look-ups: the file is not cut off under a map, and look-ups follow segments that are moved together.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use everseen::hash::HashedKey;
use everseen::testing::Options;
use everseen::{Error, Kind, Store};

use crate::processes::hooked::{Call, Hooked, Point};
use crate::support::files::{place, small};
use crate::support::numbers::{self, Random};
use crate::support::segments::{Guard, Seen, from, newest};
use crate::support::unsynced::Unsynced;

/// Keys that are there throughout.
const HELD: u64 = 6000;
/// Keys that a look-up asks for.
const ASKED: Range<u64> = HELD - 2000..HELD + 1000;

fn options(seen: &Arc<Seen>) -> Options {
    let options = small().kind(Kind::Fingerprint).capacity(50_000).fpr(1e-12);
    let disk = Guard::telling(Unsynced::new(), seen);
    options.segment_pages(2).step_segments(2).storage(disk)
}

fn key(number: u64) -> [u8; 8] {
    numbers::key(number).to_le_bytes()
}

fn keys(numbers: Range<u64>) -> Vec<[u8; 8]> {
    numbers.map(key).collect()
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

/// Where the pages end that the newest superblock names.
fn end(path: &Path) -> u64 {
    let named = newest(&from(&std::fs::read(path).unwrap())).unwrap();
    named.pages.iter().map(|range| range.end).max().unwrap() * 4096
}

/// A look-up answers right, or says that its handle is closed or can't follow.
fn is_answered(outcome: everseen::Result<Vec<bool>>) -> bool {
    match outcome {
        Ok(found) => {
            for (number, found) in ASKED.zip(found) {
                assert_eq!(found, number < HELD, "key {number}");
            }
            true
        }
        Err(Error::Closed | Error::Ended) => false,
        Err(error) => panic!("{error:?}"),
    }
}

fn looks(store: &Store) -> bool {
    is_answered(store.contains_batch(&keys(ASKED)))
}

/// Fills a store, and empties it of what is not to stay, so that its file is much longer than what it holds.
fn wear_out(store: &Store) {
    for first in (0..HELD).step_by(1000) {
        store.insert_batch(&keys(first..first + 1000)).unwrap();
    }
    store.checkpoint().unwrap();
    for round in 1..4 {
        let passing = keys(round << 20..(round << 20) + 3000);
        store.insert_batch(&passing).unwrap();
        store.checkpoint().unwrap();
        store.remove_batch(&passing).unwrap();
        store.checkpoint().unwrap();
    }
}

/// Changes keys of one range of hashes after the other, so that free room lies in pieces between segments.
fn scatter(store: &Store, seed: u64) {
    let mut random = Random::new(seed);
    let part_of = |number: u64| store.hasher().mix(numbers::key(number)) >> 60;
    for round in 0..24 {
        let part = random.below(16);
        let first = (16 + round) << 20;
        let own = (first..first + 8000).filter(|number| part_of(*number) == part);
        let passing: Vec<_> = own.map(numbers::key).collect();
        store.insert_batch(&passing).unwrap();
        store.checkpoint().unwrap();
        if random.below(2) == 0 {
            let gone = passing
                .iter()
                .map(|raw| HashedKey::from_bits(store.hasher().mix(*raw)));
            store.remove_batch(&Vec::from_iter(gone)).unwrap();
            store.checkpoint().unwrap();
        }
    }
}

/// Opens and closes the store with nobody beside, and expects its file to end where its pages do.
fn expect_cut(path: &Path, before: u64) {
    let store = options(&Arc::default()).open(path).unwrap();
    assert!(looks(&store));
    store.close().unwrap();
    assert_eq!(length(path), end(path));
    assert!(length(path) < before, "{before} bytes are as few as can be");
}

/// A handle that is closed and not dropped has no view. Its views that look-ups keep: `src/store/read/segments.rs`.
#[test]
fn a_closed_handle_keeps_nobody_from_cutting_the_file_off() {
    let (_folder, path) = place();
    let options = options(&Arc::default());
    let store = options.create(&path).unwrap();
    wear_out(&store);
    let other = options.open(&path).unwrap();
    let before = length(&path);
    other.close().unwrap();
    store.close().unwrap();
    assert_eq!(length(&path), end(&path));
    for closed in [&store, &other] {
        assert!(matches!(closed.contains(key(1)), Err(Error::Closed)));
    }
    expect_cut(&path, before);
}

/// A handle that only reads has a view as long as it is open, beside a writer and without one.
#[test]
fn no_file_is_cut_off_under_a_handle_that_reads() {
    for watches in [true, false] {
        let (_folder, path) = place();
        let options = options(&Arc::default());
        let store = options.create(&path).unwrap();
        wear_out(&store);
        let (reader, store) = match watches {
            true => (options.open_read_only(&path).unwrap(), store),
            false => {
                // A reader keeps the file long while nobody writes.
                let keeps = options.open_read_only(&path).unwrap();
                store.close().unwrap();
                let reader = options.open_read_only(&path).unwrap();
                drop(keeps);
                (reader, options.open(&path).unwrap())
            }
        };
        let before = length(&path);
        store.close().unwrap();
        assert!(end(&path) < before);
        assert_eq!(length(&path), before, "cut off under a map");
        // Reads its map, or says that it has been passed.
        looks(&reader);
        // Nor by the next.
        let store = options.open(&path).unwrap();
        store.insert(key(1 << 40)).unwrap();
        store.close().unwrap();
        assert_eq!(length(&path), before, "cut off under a map");
        drop(reader);
        expect_cut(&path, before);
    }
}

/// A disk that has others look at one write of a store, when it is armed.
struct Pause {
    armed: Arc<AtomicBool>,
    /// Says that the write was made, or that there was none.
    arrived: Sender<bool>,
    is_arrived: Receiver<bool>,
    go_on: Sender<()>,
    disk: Arc<Hooked>,
}

impl Pause {
    /// Holds up the write with this number, counted from 0, before it returns.
    fn at(nth: u64, seen: &Arc<Seen>) -> Self {
        let armed = Arc::new(AtomicBool::new(false));
        let (arrived, is_arrived) = channel();
        let (go_on, goes_on) = channel();
        let (is_armed, count) = (Arc::clone(&armed), AtomicU64::new(0));
        let ends = Mutex::new((arrived.clone(), goes_on));
        let hook = move |point: Point<'_>| {
            let counts = point.call == Call::Written && !point.is_log();
            if counts && is_armed.load(Ordering::Acquire) {
                let is_due = count.fetch_add(1, Ordering::Relaxed) == nth;
                let (arrived, goes_on) = &*ends.lock().unwrap();
                if is_due && arrived.send(true).is_ok() {
                    // Without an answer the test has failed.
                    let _ = goes_on.recv();
                }
            }
        };
        let disk = Guard::telling(Unsynced::new(), seen);
        Self {
            armed,
            arrived,
            is_arrived,
            go_on,
            disk: Hooked::new(disk, Arc::new(hook)),
        }
    }
}

/// At each write of a close that moves segments in several rounds, threads look for keys: of the handle that is closed, and of
/// one that reads beside it.
#[test]
fn look_ups_follow_segments_that_are_moved_together() {
    // What is free where follows from the seed; some have all moved at once.
    let rounds = |seed| close_beside_looks(seed, u64::MAX).0;
    let seeds = (1..100).filter(|seed| rounds(*seed) > 1).take(2);
    let (mut points, mut answers) = (0, [0; 2]);
    for seed in seeds {
        let before = points;
        while let (_, Some(answered)) = close_beside_looks(seed, points - before) {
            points += 1;
            for (count, answered) in answers.iter_mut().zip(answered) {
                *count += u64::from(answered);
            }
        }
        println!("seed {seed}, {points} writes, {answers:?} look-ups answered");
    }
    assert!(points > 20, "{points} writes are few");
    // All of the writes come before the handle has given up its maps.
    assert_eq!(answers, [points; 2]);
}

/// Closes a store whose free room lies in pieces, and looks at the write with this number. Answers how often segments were
/// moved together, and whether the two look-ups were answered, if there was such a write.
fn close_beside_looks(seed: u64, nth: u64) -> (u64, Option<[bool; 2]>) {
    let (_folder, path) = place();
    let seen = Arc::new(Seen::default());
    let pause = Pause::at(nth, &seen);
    let disk = Arc::clone(&pause.disk);
    let store = options(&seen).storage(disk).create(&path).unwrap();
    store.insert_batch(&keys(0..HELD)).unwrap();
    scatter(&store, seed);
    store.insert_batch(&keys(1 << 40..(1 << 40) + 10)).unwrap();
    let reader = options(&seen).open_read_only(&path).unwrap();
    let before = seen.moved.load(Ordering::Relaxed);
    let (arrived, go_on) = (pause.arrived, pause.go_on);
    let is_arrived = pause.is_arrived;
    let answered = std::thread::scope(|scope| {
        let (store, reader) = (&store, &reader);
        let others = scope.spawn(move || {
            let is_paused = is_arrived.recv().unwrap();
            let answered = [looks(store), looks(reader)];
            let _ = go_on.send(());
            is_paused.then_some(answered)
        });
        pause.armed.store(true, Ordering::Release);
        store.close().unwrap();
        // Nobody listens if the write was made.
        let _ = arrived.send(false);
        others.join().unwrap()
    });
    (seen.moved.load(Ordering::Relaxed) - before, answered)
}
