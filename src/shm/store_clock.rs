//! The time of a store that forgets.
//!
//! Time is the store's, and never runs backwards: it is the latest that any handle knows or that a log or superblock has
//! recorded. A handle takes the wall clock once, and goes on by a clock that nobody sets. One that was given a time stands
//! still until it is told of another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::page::ages::{MOST_CLOCK, Window};
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
}

/// Where a handle has its time from.
#[derive(Debug)]
enum OwnTime {
    /// The wall clock when the handle was opened, and what the clock that nobody sets showed then.
    Wall { opened: u64, start: Duration },
    /// What the caller says.
    Told(AtomicU64),
}

impl StoreClock {
    /// Returns that of a handle that is being opened. `told` is the time that the caller has given it.
    pub(crate) fn begin(
        window: Window,
        (shared, tells): (Arc<Coordination>, bool),
        told: Option<SystemTime>,
    ) -> Self {
        let own = match told {
            Some(told) => OwnTime::Told(AtomicU64::new(milliseconds(told))),
            None => OwnTime::Wall {
                opened: milliseconds(SystemTime::now()),
                start: since_start(),
            },
        };
        Self {
            window,
            shared,
            tells,
            own,
        }
    }

    /// Returns the time, in milliseconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        let own = match &self.own {
            OwnTime::Wall { opened, start } => {
                let passed = since_start().saturating_sub(*start).as_millis() as u64;
                opened.saturating_add(passed)
            }
            OwnTime::Told(told) => told.load(Ordering::Relaxed),
        };
        let known = self.shared.clock();
        let (own, known) = (own.min(MOST_CLOCK), known.min(MOST_CLOCK));
        // Within a step it makes no difference, and the word lies in a line that all handles read.
        if self.tells && own > known && self.window.step_of(own) > self.window.step_of(known) {
            self.shared.raise_clock(own);
        }
        own.max(known)
    }

    /// Goes on to a later time.
    pub(crate) fn advance_to(&self, time: SystemTime) {
        let time = milliseconds(time).min(MOST_CLOCK);
        if let OwnTime::Told(told) = &self.own {
            told.fetch_max(time, Ordering::Relaxed);
        }
        if self.tells {
            self.shared.raise_clock(time);
        }
    }

    /// Returns the first step whose keys are still remembered.
    #[inline]
    pub(crate) fn remembered_since(&self) -> u64 {
        self.window.remembered_since(self.now())
    }

    /// Returns whether a time lies before the current step.
    pub(crate) fn is_over(&self, clock: u64) -> bool {
        self.step_of(clock) < self.window.step_of(self.now())
    }

    /// Returns the step of a time that shared memory tells.
    #[inline]
    pub(crate) fn step_of(&self, clock: u64) -> u64 {
        self.window.step_of(clock.min(MOST_CLOCK))
    }
}

/// Returns the milliseconds since 1970; 0 for what was before.
fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
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
        assert_eq!((late.now(), early.now()), (200_000, 200_000));
        early.advance_to(at(150));
        assert_eq!(early.now(), 200_000);
        early.advance_to(at(300));
        assert_eq!((late.now(), late.remembered_since()), (300_000, 285));
        assert!(late.is_over(299_999) && !late.is_over(300_000));
        // One that only reads tells nobody.
        let reader = clock(Some(at(400)), false);
        assert_eq!((reader.now(), late.now()), (400_000, 300_000));
        let wall = clock(None, true);
        assert!(wall.now() >= milliseconds(SystemTime::now()) - 1000);
        assert!(early.now() > 1_600_000_000_000);
        early.advance_to(at(u64::MAX >> 1));
        assert_eq!(late.now(), MOST_CLOCK);
    }
}
