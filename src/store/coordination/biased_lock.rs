//! The writer lock of a handle that does not share its store yet: a biased lock.
//!
//! The two system calls for the file lock take longer than everything else that inserting a single key does. So the
//! handle that created the shared memory skips the file lock as long as no other writer has joined it. The first writer
//! to join revokes the bias for the lifetime of the shared memory, then waits until the owner has left. From then on
//! all handles take the file lock.
//!
//! The protocol is Dekker's algorithm for two parties: each announces its intent, then checks the announcement of the
//! other, with a full fence (`fence(SeqCst)`) in between, so at least one of them sees the other. Nothing depends on
//! timing: a stopped holder is waited for, a dead one is recognized by its liveness lock, and the next holder repairs
//! what it left half done, as always.

use crate::sys::sync::{AtomicU64, Ordering, fence};

/// The shared words of the lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BiasedLock<'a> {
    /// The handle that is inside without the file lock, or is about to check whether it may enter.
    inside: &'a AtomicU64,
    revoked: &'a AtomicU64,
}

impl<'a> BiasedLock<'a> {
    pub(crate) fn new(inside: &'a AtomicU64, revoked: &'a AtomicU64) -> Self {
        Self { inside, revoked }
    }

    /// Enters the lock, unless the bias was revoked. Only the handle that created the words calls this, one thread at a
    /// time.
    #[inline]
    pub(crate) fn enter(self, handle: u64) -> bool {
        if self.is_revoked() {
            return false;
        }
        self.inside.store(handle, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !self.is_revoked() {
            return true;
        }
        self.leave();
        false
    }

    /// Leaves the lock.
    #[inline]
    pub(crate) fn leave(self) {
        self.inside.store(0, Ordering::Release);
    }

    /// Stops further entries. The caller must then wait for the handle that is still [`inside`](Self::inside), if any.
    pub(crate) fn revoke(self) {
        self.revoked.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Returns whether the bias was revoked, so that no handle may enter any more.
    pub(crate) fn is_revoked(self) -> bool {
        self.revoked.load(Ordering::Relaxed) != 0
    }

    /// Returns the handle that may be inside; 0 for none.
    pub(crate) fn inside(self) -> u64 {
        self.inside.load(Ordering::Acquire)
    }
}

/// Explores every interleaving of an owner that enters and leaves with another handle that joins.
#[cfg(all(test, loom))]
mod loom {
    use std::sync::Arc;

    use ::loom::thread;

    use super::*;
    use crate::sys::explore;
    use crate::sys::sync::yield_now;

    const OWNER: u64 = 7;

    #[derive(Default)]
    struct Shared {
        inside: AtomicU64,
        revoked: AtomicU64,
        /// Stands for the file lock.
        file: AtomicU64,
        /// The data that the lock protects. Reads and writes are separate: without mutual exclusion, or without the
        /// visibility it provides, a step is lost.
        steps: AtomicU64,
    }

    impl Shared {
        fn bias(&self) -> BiasedLock<'_> {
            BiasedLock::new(&self.inside, &self.revoked)
        }

        fn step(&self) {
            let steps = self.steps.load(Ordering::Relaxed);
            self.steps.store(steps + 1, Ordering::Relaxed);
        }

        fn step_with_the_file(&self) {
            let lock = || {
                let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
                self.file.compare_exchange(0, 1, acquire, relaxed).is_err()
            };
            while lock() {
                yield_now();
            }
            self.step();
            self.file.store(0, Ordering::Release);
        }

        fn own(&self, times: u64) {
            for _ in 0..times {
                if self.bias().enter(OWNER) {
                    self.step();
                    self.bias().leave();
                } else {
                    self.step_with_the_file();
                }
            }
        }

        fn join(&self) {
            self.bias().revoke();
            while self.bias().inside() != 0 {
                yield_now();
            }
            self.step_with_the_file();
        }
    }

    #[test]
    fn who_joins_and_who_was_alone_exclude_each_other() {
        const TIMES: u64 = 2;
        explore(4, || {
            let shared = Arc::new(Shared::default());
            let joining = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.join())
            };
            shared.own(TIMES);
            joining.join().unwrap();
            let steps = shared.steps.load(Ordering::Relaxed);
            assert_eq!(steps, TIMES + 1, "two were inside at a time");
        });
    }
}
