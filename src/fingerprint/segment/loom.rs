//! Room that is written again while others read it, in every order (see docs/evidence.md).
//!
//! A write to the file consists of relaxed stores: a reader may see any of them before any other, unless something orders
//! them.

use std::sync::Arc;

use ::loom::thread;

use super::reuse::{before_writing, is_stale};
use crate::sys::explore;
use crate::sys::sync::{AtomicU64, Ordering};

/// What a writer or a reader does in the wrong order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// The word is raised behind the writes.
    RaisedLate,
    /// Nothing orders the raised word before the writes.
    NotOrdered,
    /// The word is asked for before the pages are read.
    AskedEarly,
}

/// A file with room for two directories, which checkpoints write by turns. A directory of version `v` holds the words
/// `10 v` and `10 v + 1`.
struct File {
    reused: AtomicU64,
    /// The version of the directory that both superblocks name.
    named: AtomicU64,
    rooms: [[AtomicU64; 2]; 2],
    mistake: Mistake,
}

impl File {
    fn new(mistake: Mistake) -> Self {
        let room = |version: u64| {
            [
                AtomicU64::new(10 * version),
                AtomicU64::new(10 * version + 1),
            ]
        };
        Self {
            reused: AtomicU64::new(1),
            named: AtomicU64::new(1),
            rooms: [room(0), room(1)],
            mistake,
        }
    }

    fn room(&self, version: u64) -> &[AtomicU64; 2] {
        &self.rooms[version as usize % 2]
    }

    /// Writes the next directory where the newest one does not lie.
    fn checkpoint(&self, version: u64) {
        if self.mistake != Mistake::RaisedLate {
            self.reused.store(version - 1, Ordering::Relaxed);
        }
        if self.mistake != Mistake::NotOrdered {
            before_writing();
        }
        for (word, value) in self.room(version).iter().zip(10 * version..) {
            word.store(value, Ordering::Relaxed);
        }
        if self.mistake == Mistake::RaisedLate {
            self.reused.store(version - 1, Ordering::Relaxed);
        }
        self.named.store(version, Ordering::Release);
    }

    /// Looks up to so often, and returns the version of the directory that it has read.
    fn look(&self, most: usize) -> Option<u64> {
        for _ in 0..most {
            let version = self.named.load(Ordering::Acquire);
            let early = self.reused.load(Ordering::Relaxed);
            let words = self.room(version).each_ref();
            let words = words.map(|word| word.load(Ordering::Relaxed));
            let passed = match self.mistake {
                Mistake::AskedEarly => is_stale(|| early, version),
                _ => is_stale(|| self.reused.load(Ordering::Relaxed), version),
            };
            if !passed {
                assert_eq!(words, [10 * version, 10 * version + 1]);
                return Some(version);
            }
        }
        None
    }
}

/// Two checkpoints beside a reader that looks twice.
fn explore_with(mistake: Mistake) {
    explore(3, move || {
        let file = Arc::new(File::new(mistake));
        let reader = {
            let file = Arc::clone(&file);
            thread::spawn(move || {
                let first = file.look(3);
                let second = file.look(3);
                // A later look never shows an older directory.
                assert!(first.is_none() || second.is_none() || first <= second);
            })
        };
        file.checkpoint(2);
        file.checkpoint(3);
        reader.join().unwrap();
        assert_eq!(file.look(1), Some(3));
    });
}

/// Whatever a reader sees of the writes, what it answers is what its directory named.
#[test]
fn an_answer_is_never_of_room_that_was_written_again() {
    explore_with(Mistake::None);
}

#[test]
#[should_panic(expected = "left == right")]
fn a_word_that_is_raised_behind_the_writes_is_no_use() {
    explore_with(Mistake::RaisedLate);
}

#[test]
#[should_panic(expected = "left == right")]
fn a_word_that_nothing_orders_is_no_use() {
    explore_with(Mistake::NotOrdered);
}

#[test]
#[should_panic(expected = "left == right")]
fn to_ask_before_reading_is_no_use() {
    explore_with(Mistake::AskedEarly);
}
