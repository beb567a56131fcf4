//! The time of a store that forgets.
//!
//! Time is the store's, and never runs backwards: it is the latest that any handle knows or that a log or superblock has
//! recorded. A handle takes the wall clock once, and then follows a clock that can't be set. One that was given a time stands
//! still until it is told of another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::memtable::shared_clock::LATEST;
use crate::page::ages::Window;
use crate::shm::coordination::Coordination;
use crate::sys::elapsed::since_start;

/// The time of a store, as one handle has it.
#[derive(Debug)]
pub(crate) struct StoreClock {
    window: Window,
    shared: Arc<Coordination>,
    /// Whether the handle may tell others of its time: not one that only reads.
    tells: bool,
    own: OwnTime,
    /// The latest time that the caller has told the handle of since it was opened.
    least: AtomicU64,
}

/// What a log begins for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFor {
    /// Keys that come now: all handles go by the time of this one from then on.
    Keys,
    /// Anything else.
    Notes,
}

/// Where a handle has its time from.
#[derive(Debug)]
enum OwnTime {
    /// The wall clock when the handle was opened, and what the clock that can't be set showed then.
    Wall { opened: u64, start: Duration },
    /// What the caller said at opening.
    Told(u64),
}

impl StoreClock {
    /// Returns that of a handle that is being opened. `told` is the time that the caller has given it.
    pub(crate) fn begin(
        window: Window,
        (shared, tells): (Arc<Coordination>, bool),
        told: Option<SystemTime>,
    ) -> Self {
        let own = match told {
            Some(told) => OwnTime::Told(milliseconds(told)),
            None => OwnTime::Wall {
                // A clock that is behind the store's time, perhaps until the system has asked for the time, would let that
                // stand still for as long as the handle lives.
                opened: milliseconds(SystemTime::now()).max(shared.clock()),
                start: since_start(),
            },
        };
        Self {
            window,
            shared,
            tells,
            own,
            least: AtomicU64::new(0),
        }
    }

    /// Returns the time, in milliseconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        let own = match &self.own {
            OwnTime::Wall { opened, start } => {
                let passed = since_start().saturating_sub(*start).as_millis() as u64;
                opened.saturating_add(passed)
            }
            OwnTime::Told(told) => *told,
        };
        let least = self.least.load(Ordering::Relaxed);
        own.max(least).max(self.shared.clock()).min(LATEST)
    }

    /// Returns the time at which a log begins, and tells others. A mere look-up keeps its time to itself.
    pub(crate) fn tell(&self) -> u64 {
        let now = self.now();
        // Within a step it makes no difference, and the word lies in a line that all handles read.
        if self.tells && self.is_over(self.shared.clock()) {
            self.shared.raise_clock(now);
        }
        now
    }

    /// Returns the time at which a log begins; `before` is that of the log before it.
    pub(crate) fn at_begin(&self, purpose: LogFor, before: Option<u64>) -> u64 {
        match purpose {
            LogFor::Keys => self.tell(),
            // A handle that only copies or corrects the store must not have others go by its time.
            LogFor::Notes => self.shared.clock().max(before.unwrap_or(0)),
        }
    }

    /// Goes on to a later time.
    pub(crate) fn advance_to(&self, time: SystemTime) {
        let time = milliseconds(time);
        self.least.fetch_max(time, Ordering::Relaxed);
        if self.tells {
            self.shared.raise_clock(time);
        }
    }

    /// Goes on from where a handle was that this one replaces.
    pub(crate) fn follow(&self, before: &Self) {
        self.least.fetch_max(before.now(), Ordering::Relaxed);
    }

    /// Returns the first step whose keys are still remembered.
    #[inline]
    pub(crate) fn remembered_since(&self) -> u64 {
        self.window.remembered_since(self.now())
    }

    /// Returns the current step.
    pub(crate) fn this_step(&self) -> u64 {
        self.window.step_of(self.now())
    }

    /// Returns whether a time lies before the current step.
    pub(crate) fn is_over(&self, clock: u64) -> bool {
        self.step_of(clock) < self.window.step_of(self.now())
    }

    /// Returns whether a time lies in the current step.
    pub(crate) fn is_current(&self, clock: u64) -> bool {
        self.step_of(clock) == self.window.step_of(self.now())
    }

    /// Returns the step of a time that shared memory tells.
    #[inline]
    pub(crate) fn step_of(&self, clock: u64) -> u64 {
        self.window.step_of(clock)
    }
}

/// Returns the milliseconds since 1970, as far as handles tell each other of them; 0 for what was before.
pub(crate) fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH);
    let passed = since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(LATEST)
    });
    passed.min(LATEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn the_latest_time_of_all_handles_counts() {
        let window = Window::new(15_000, 15).unwrap();
        let shared = Arc::new(Coordination::private().unwrap());
        let clock = |told, tells| StoreClock::begin(window, (Arc::clone(&shared), tells), told);
        let early = clock(Some(at(100)), true);
        assert_eq!(early.now(), 100_000);
        let late = clock(Some(at(200)), true);
        assert_eq!((late.now(), early.now()), (200_000, 100_000));
        assert_eq!((late.tell(), early.now()), (200_000, 200_000));
        early.advance_to(at(150));
        assert_eq!(early.now(), 200_000);
        early.advance_to(at(300));
        assert_eq!((late.now(), late.remembered_since()), (300_000, 285));
        assert!(late.is_over(299_999) && !late.is_over(300_000));
        assert!(late.is_current(300_000) && !late.is_current(301_000));
        // One that only reads keeps it to itself.
        let next = clock(None, false);
        next.advance_to(at(1 << 33));
        let reader = clock(Some(at(400)), false);
        assert_eq!((reader.tell(), late.now()), (400_000, 300_000));
        assert_eq!(next.now(), 1000 << 33);
        let follows = clock(Some(at(0)), false);
        follows.follow(&next);
        assert_eq!(follows.now(), 1000 << 33);
        let before = milliseconds(SystemTime::now());
        let wall = clock(None, true);
        assert!(wall.now() >= before - 1000);
        assert!(wall.tell() > 1_600_000_000_000 && early.now() > 1_600_000_000_000);
        // By a clock that is behind, time goes on from where it was.
        let ahead = milliseconds(SystemTime::now()) + 86_400_000;
        shared.raise_clock(ahead);
        let behind = clock(None, true);
        let begun = behind.now();
        while behind.now() == begun {
            std::thread::yield_now();
        }
        assert!(begun >= ahead);
        early.advance_to(at(u64::MAX >> 1));
        assert_eq!(late.now(), LATEST);
    }
}
