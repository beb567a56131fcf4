//! The writer lock of a handle that shares its store with nobody yet: a biased lock.
//!
//! Two calls to the system for the file's lock take longer than all else that the insert of a single key does.
//! So whoever made the shared memory does without while no other writer has joined it. Who joins first
//! revokes that, for as long as the shared memory lives, and then waits until the other is out; from then
//! on all take the file's lock.
//!
//! It is Dekker's way for two: each tells what it is about, then looks at what the other tells, with a
//! fence of all processors in between (`fence(SeqCst)`), so that at least one of them sees the other.
//! Not measured by time: a holder that was stopped is waited for, one that died is known by its liveness
//! lock, and what it left half done is mended by the next holder as ever.

use crate::sys::sync::{AtomicU64, Ordering, fence};

/// The words of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BiasedLock<'a> {
    /// The handle that is inside without the file's lock, or about to look whether it may be.
    inside: &'a AtomicU64,
    revoked: &'a AtomicU64,
}

impl<'a> BiasedLock<'a> {
    pub(crate) fn new(inside: &'a AtomicU64, revoked: &'a AtomicU64) -> Self {
        Self { inside, revoked }
    }

    /// Goes inside, unless that was revoked. For the handle that made the words, one thread at a time.
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

    /// Comes out.
    #[inline]
    pub(crate) fn leave(self) {
        self.inside.store(0, Ordering::Release);
    }

    /// Lets nobody in any more. Who is [`inside`](Self::inside) after that has to be waited for.
    pub(crate) fn revoke(self) {
        self.revoked.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Whether nobody is let in any more.
    pub(crate) fn is_revoked(self) -> bool {
        self.revoked.load(Ordering::Relaxed) != 0
    }

    /// The handle that is inside, perhaps; 0 for none.
    pub(crate) fn inside(self) -> u64 {
        self.inside.load(Ordering::Acquire)
    }
}

/// Every order of the steps of an owner that goes in and out and of another that joins it.
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
        /// Stands for the file's lock.
        file: AtomicU64,
        /// What the lock is for. Read and written apart: without exclusion, or without what it makes
        /// visible, a step is lost.
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
