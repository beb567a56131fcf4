//! One writer and its readers, in every order (docs/evidence.md says how to run it).
//!
//! A relaxed word stands for the log. The writer stores it before it publishes: a reader that sees the key must see
//! that word, and a reader that does not see the word must not see the key.

use std::sync::Arc;

use ::loom::sync::Mutex;
use ::loom::thread;

use super::*;
use crate::sys::explore;
use crate::sys::sync::AtomicBool;

impl Buffer {
    /// Returns a buffer of four buckets, the first of which is every small key's home, and two transactions.
    pub(crate) fn small(generation: u64) -> Self {
        let shape = Shape {
            transactions: 2,
            homes: 2,
        };
        let region = Region::private(shape.words()).unwrap();
        Self::begin(region, shape, generation)
    }

    /// Claims and publishes a key that is absent.
    pub(crate) fn put(&self, hash: u64, state: u16) {
        let slot = self.claimed(hash);
        self.publish(slot, state);
    }

    fn claimed(&self, hash: u64) -> Slot {
        match self.claim(hash) {
            Claim::Claimed(slot) => slot,
            other => panic!("{hash} is {other:?}"),
        }
    }
}

/// The key that readers look up.
const KEY: u64 = 100;
const OTHER: u64 = 101;
/// A key that is always present.
const OLD: u64 = 1;
const HANDLE: u64 = 7;

struct Scene {
    buffer: Buffer,
    /// The contents of the log, one bit per key.
    logged: AtomicU64,
    /// The writer has returned.
    done: AtomicBool,
    /// A reader has seen the key.
    reported: AtomicBool,
}

impl Scene {
    /// Creates a scene with `OLD` and other keys that precede the next key in its bucket.
    fn with(keys: u64) -> Arc<Self> {
        let buffer = Buffer::small(1);
        for key in OLD..OLD + keys {
            buffer.put(key, COMMITTED);
        }
        Arc::new(Self {
            buffer,
            logged: AtomicU64::new(0),
            done: AtomicBool::new(false),
            reported: AtomicBool::new(false),
        })
    }

    fn log(&self, bit: u64) {
        let logged = self.logged.load(Ordering::Relaxed);
        self.logged.store(logged | bit, Ordering::Relaxed);
    }

    fn is_logged(&self, bit: u64) -> bool {
        self.logged.load(Ordering::Relaxed) & bit != 0
    }

    /// Checks what any reader may demand of the buffer while `KEY` is on its way in.
    fn look(&self) {
        let after = self.done.load(Ordering::Acquire) || self.reported.load(Ordering::Acquire);
        let seen = self.buffer.contains(KEY);
        assert!(seen || !after, "a key that was there is not");
        if seen {
            assert!(self.is_logged(1), "a claim is taken for a key");
            assert!(self.buffer.contains(KEY), "a key was there and is not");
            self.reported.store(true, Ordering::Release);
        }
    }
}

/// Runs the scene with one more thread, and `main` on this one.
fn beside(scene: &Arc<Scene>, other: impl Fn(&Scene) + Send + 'static) -> thread::JoinHandle<()> {
    let scene = Arc::clone(scene);
    thread::spawn(move || other(&scene))
}

fn a_key_comes_in_behind(keys: u64, preemptions: usize) {
    explore(preemptions, move || {
        let scene = Scene::with(keys);
        let readers = [beside(&scene, Scene::look), beside(&scene, Scene::look)];
        let slot = scene.buffer.claimed(KEY);
        scene.log(1);
        scene.buffer.publish(slot, COMMITTED);
        scene.done.store(true, Ordering::Release);
        for reader in readers {
            reader.join().unwrap();
        }
        assert!(scene.buffer.contains(KEY) && scene.buffer.used() == keys + 1);
    });
}

#[test]
fn a_key_is_seen_once_published_and_never_before() {
    a_key_comes_in_behind(0, 3);
}

/// The key's state is in the second state word of the bucket.
#[test]
fn so_is_the_fifth_key_of_a_bucket() {
    a_key_comes_in_behind(4, 3);
}

#[test]
fn so_is_one_that_overflows_into_the_next_bucket() {
    a_key_comes_in_behind(6, 3);
}

/// Four states share a word: a change to one must not lose the others.
#[test]
fn neighbours_stay_as_they_are() {
    explore(3, || {
        let scene = Scene::with(1);
        let reader = beside(&scene, |scene| {
            assert!(scene.buffer.contains(OLD));
            let seen = [OTHER, KEY].map(|key| scene.buffer.contains(key));
            assert!(!seen[0] || scene.is_logged(2));
            assert!(!seen[1] || scene.is_logged(1));
            assert!(scene.buffer.contains(OLD));
        });
        let slots = [KEY, OTHER].map(|key| scene.buffer.claimed(key));
        assert_eq!(scene.buffer.claim(KEY), Claim::Settled);
        scene.log(1);
        scene.log(2);
        for slot in slots {
            scene.buffer.publish(slot, COMMITTED);
        }
        reader.join().unwrap();
    });
}

/// After a record could not be written, its claims are retracted and the next try succeeds.
#[test]
fn a_claim_given_up_is_never_seen() {
    explore(5, || {
        let scene = Scene::with(1);
        let reader = beside(&scene, Scene::look);
        let slot = scene.buffer.claimed(KEY);
        scene.buffer.retract(slot);
        assert!(!scene.buffer.contains(KEY));
        assert_eq!(scene.buffer.claimed(KEY), slot);
        scene.log(1);
        scene.buffer.publish(slot, COMMITTED);
        scene.done.store(true, Ordering::Release);
        reader.join().unwrap();
    });
}

#[test]
fn a_commit_is_one_step_for_all_its_keys() {
    explore(5, || {
        let scene = Scene::with(0);
        let state = scene.buffer.begin_transaction(HANDLE).unwrap();
        scene.buffer.put(OTHER, state);
        let reader = beside(&scene, |scene| {
            let done = scene.done.load(Ordering::Acquire);
            let first = scene.buffer.lookup(KEY);
            let second = scene.buffer.lookup(OTHER);
            assert_ne!(second, Presence::Absent);
            if first == Presence::Settled {
                assert!(scene.is_logged(1), "settled before its mark was in the log");
                assert_eq!(second, Presence::Settled, "half of a commit");
            }
            assert!(!done || first == Presence::Settled);
        });
        scene.buffer.put(KEY, state);
        scene.log(1);
        scene.buffer.commit_transaction(state);
        scene.done.store(true, Ordering::Release);
        reader.join().unwrap();
    });
}

#[test]
fn what_is_aborted_was_never_settled() {
    explore(5, || {
        let scene = Scene::with(1);
        let reader = beside(&scene, |scene| {
            let done = scene.done.load(Ordering::Acquire);
            let found = scene.buffer.lookup(KEY);
            assert_ne!(found, Presence::Settled);
            assert!(!done || found == Presence::Absent);
            assert_eq!(scene.buffer.lookup(OLD), Presence::Settled);
        });
        let state = scene.buffer.begin_transaction(HANDLE).unwrap();
        scene.buffer.put(KEY, state);
        scene.buffer.abort_transaction(state);
        scene.done.store(true, Ordering::Release);
        reader.join().unwrap();
    });
}

/// There are only two transactions: the third sweeps the table and reuses a number while readers have just read a key's
/// old state.
#[test]
fn a_transaction_used_again_is_not_taken_for_the_one_before() {
    explore(3, || {
        let scene = Scene::with(0);
        let first = scene.buffer.begin_transaction(1).unwrap();
        let second = scene.buffer.begin_transaction(2).unwrap();
        scene.buffer.put(KEY, first);
        scene.buffer.put(OTHER, second);
        scene.buffer.commit_transaction(first);
        scene.buffer.abort_transaction(second);
        let reader = beside(&scene, |scene| {
            assert_eq!(scene.buffer.lookup(KEY), Presence::Settled);
            assert_eq!(scene.buffer.lookup(OTHER), Presence::Absent);
        });
        let again = scene.buffer.begin_transaction(3).unwrap();
        scene.buffer.put(OLD, again);
        let fourth = scene.buffer.begin_transaction(4).unwrap();
        assert_eq!((again, fourth), (first, second));
        scene.buffer.abort_transaction(again);
        scene.buffer.commit_transaction(fourth);
        reader.join().unwrap();
    });
}

/// A holder of the writer lock dies between claims, record and publishing. The next holder continues with
/// [`Buffer::publish_logged`] and [`Buffer::retract_claimed`].
#[test]
fn who_goes_on_after_a_death_shows_what_is_logged_and_no_more() {
    explore(3, || {
        let scene = Scene::with(1);
        let dead = Arc::new(Mutex::new(false));
        let reader = beside(&scene, |scene| {
            scene.look();
            assert!(!scene.buffer.contains(OTHER), "a claim that nobody logged");
        });
        let writer = {
            let dead = Arc::clone(&dead);
            beside(&scene, move |scene| {
                let mut lock = dead.lock().unwrap();
                scene.buffer.claimed(KEY);
                scene.buffer.claimed(OTHER);
                scene.log(1);
                *lock = true;
            })
        };
        let lock = dead.lock().unwrap();
        if *lock {
            scene.buffer.publish_logged(KEY, true, COMMITTED);
            scene.buffer.retract_claimed();
            scene.done.store(true, Ordering::Release);
            assert!(scene.buffer.contains(KEY) && !scene.buffer.contains(OTHER));
            assert_eq!((scene.buffer.used(), scene.buffer.keys()), (3, 2));
        }
        let mended = *lock;
        drop(lock);
        writer.join().unwrap();
        reader.join().unwrap();
        let open = scene.buffer.claim(OTHER) != Claim::Settled;
        assert_eq!(open, mended, "a dead claim is in the way");
    });
}

/// Two writers share the lock and compete for one key: exactly one of them wins it.
#[test]
fn a_key_has_one_winner() {
    explore(3, || {
        let scene = Scene::with(1);
        let lock = Arc::new(Mutex::new(()));
        let insert = |scene: &Scene, lock: &Mutex<()>| {
            if scene.buffer.contains(KEY) {
                return 0;
            }
            let _held = lock.lock().unwrap();
            match scene.buffer.claim(KEY) {
                Claim::Claimed(slot) => {
                    scene.log(1);
                    scene.buffer.publish(slot, COMMITTED);
                    1
                }
                Claim::Settled => 0,
                other => panic!("{other:?}"),
            }
        };
        let other = {
            let (scene, lock) = (Arc::clone(&scene), Arc::clone(&lock));
            thread::spawn(move || insert(&scene, &lock))
        };
        let reader = beside(&scene, Scene::look);
        let won = insert(&scene, &lock);
        assert!(scene.buffer.contains(KEY));
        assert_eq!(won + other.join().unwrap(), 1);
        reader.join().unwrap();
    });
}

/// The thread that syncs reads the tail without the lock: the tail covers what was published before, and never lies
/// ahead of what is written.
#[test]
fn the_tail_covers_what_was_published_and_is_covered_by_what_is_written() {
    explore(2, || {
        let scene = Scene::with(0);
        let published = Arc::new(AtomicU64::new(0));
        let reader = {
            let published = Arc::clone(&published);
            beside(&scene, move |scene| {
                for _ in 0..2 {
                    let least = published.load(Ordering::Acquire);
                    let end = scene.buffer.tail().end;
                    assert!(end >= least, "the tail goes back");
                    assert!(scene.logged.load(Ordering::Relaxed) >= end);
                }
            })
        };
        for end in 1..=3 {
            scene.logged.store(end, Ordering::Relaxed);
            scene.buffer.set_tail(Tail { end, previous: 0 });
            published.store(end, Ordering::Release);
        }
        reader.join().unwrap();
    });
}
