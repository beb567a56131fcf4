//! Explores every interleaving of handles that wait for each other, and for one that died. There are no time limits
//! here: a wake-up that gets lost is a deadlock, which the model checker finds.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use ::loom::sync::{Condvar, Mutex};
use ::loom::thread;

use super::writer_lock::{OWNER, Parking, WriterLock};
use crate::sys::explore;
use crate::sys::sync::{AtomicU64, Ordering};

/// Puts threads to sleep as the system does: it compares the word under a lock of its own.
#[derive(Default)]
struct Bed {
    /// The slot of the handle that has died, counted from 1. A sleeper's slice runs out only then.
    dead: Mutex<u64>,
    woken: Condvar,
}

impl Bed {
    fn is_dead(&self, slot: usize) -> bool {
        *self.dead.lock().unwrap() == slot as u64 + 1
    }

    fn set_dead(&self, slot: Option<usize>) {
        *self.dead.lock().unwrap() = slot.map_or(0, |slot| slot as u64 + 1);
        self.woken.notify_all();
    }
}

impl Parking for &Bed {
    fn sleep(&self, word: &AtomicU64, seen: u64, _slice: Duration) {
        let dead = self.dead.lock().unwrap();
        let owner = word.load(Ordering::Relaxed);
        if owner == seen && owner & OWNER != *dead {
            drop(self.woken.wait(dead).unwrap());
        }
    }

    fn wake_one(&self, _word: &AtomicU64) {
        let _dead = self.dead.lock().unwrap();
        self.woken.notify_one();
    }
}

#[derive(Default)]
struct Shared {
    word: AtomicU64,
    bed: Bed,
    /// The data that the lock protects. Reads and writes are separate: without mutual exclusion, or without the
    /// visibility it provides, a step is lost.
    steps: AtomicU64,
}

impl Shared {
    fn lock(&self) -> WriterLock<'_, &Bed> {
        WriterLock::with(&self.word, &self.bed)
    }

    fn step(&self) {
        let steps = self.steps.load(Ordering::Relaxed);
        self.steps.store(steps + 1, Ordering::Relaxed);
    }

    fn use_once(&self, slot: usize) {
        let asks_life = |owner| Ok::<_, Infallible>(!self.bed.is_dead(owner));
        let owned = self.lock().take(slot, Duration::MAX, asks_life).unwrap();
        self.step();
        self.lock().release(owned).unwrap();
    }

    fn spawn(self: &Arc<Self>, slot: usize, times: u64) -> thread::JoinHandle<()> {
        let shared = Arc::clone(self);
        thread::spawn(move || (0..times).for_each(|_| shared.use_once(slot)))
    }
}

#[test]
fn waiting_handles_exclude_each_other_and_are_woken() {
    explore(2, || {
        let shared = Arc::new(Shared::default());
        let others = [1, 2].map(|slot| shared.spawn(slot, 1));
        shared.use_once(0);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(shared.steps.load(Ordering::Relaxed), 3, "two were inside");
    });
}

#[test]
fn two_handles_take_turns() {
    explore(3, || {
        let shared = Arc::new(Shared::default());
        let other = shared.spawn(1, 2);
        (0..2).for_each(|_| shared.use_once(0));
        other.join().unwrap();
        assert_eq!(shared.steps.load(Ordering::Relaxed), 4, "two were inside");
    });
}

#[test]
fn of_those_that_find_a_dead_owner_one_takes_the_lock() {
    explore(2, || {
        let shared = Arc::new(Shared::default());
        let others = [1, 2].map(|slot| shared.spawn(slot, 1));
        // It dies inside, after a step.
        let asks_life = |_| Ok::<_, Infallible>(true);
        let owned = shared.lock().take(0, Duration::MAX, asks_life);
        assert!(owned.is_ok());
        shared.step();
        shared.bed.set_dead(Some(0));
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(shared.steps.load(Ordering::Relaxed), 3, "two were inside");
    });
}

#[test]
fn a_slot_that_is_taken_again_has_a_living_owner() {
    explore(3, || {
        let shared = Arc::new(Shared::default());
        assert!(shared.lock().try_take(0).is_some());
        shared.bed.set_dead(Some(0));
        let other = shared.spawn(1, 1);
        shared.use_once(2);
        // The next handle has the slot of the dead one.
        shared.bed.set_dead(None);
        shared.use_once(0);
        other.join().unwrap();
        assert_eq!(shared.steps.load(Ordering::Relaxed), 3, "two were inside");
    });
}
