//! Lines that another process has claimed but not committed: how long a run waits for them, and which it passes by.
//!
//! Such a line belongs to that process once it commits, and to any process if it dies first. A run that meets one
//! commits what it has itself, so that two runs that wait for each other both continue, and then polls. Meanwhile it
//! claims nothing behind that line: what it printed of it would overtake the line, and what it did not print could not
//! be committed.

use std::time::{Duration, Instant};

use everseen::hash::HashedKey;
use everseen::{BatchError, ClaimOptions, Store, Verdict};

use crate::options::units as size;

/// The exit status of a run that passed lines by.
pub const STATUS: u8 = 3;

/// The first pause between two looks at a line, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// Maximum number of passed-by lines that are checked again at the end.
const MAX_PENDING: usize = 1 << 20;

/// The part of the command line that says how long to wait.
#[derive(clap::Args)]
pub struct Wait {
    /// How long to wait for lines that another run holds
    ///
    /// Such as 500ms, 30s or 5m. See `everseen help wait`.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = size::duration)]
    pub wait: Duration,
}

/// The state of the wait. The caller passes all times, so that tests can choose them.
pub struct Patience {
    wait: Duration,
    state: State,
    /// A wait in vain is reported once.
    told: bool,
    pause: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Whole,
    /// The run waits for a line.
    Waiting {
        until: Instant,
    },
    /// The run waited for a line in vain. Its process may hold any number of lines: waiting for each would never end.
    Spent {
        until: Instant,
    },
}

impl Patience {
    pub fn new(wait: Duration) -> Self {
        Patience {
            wait,
            state: State::Whole,
            told: false,
            pause: PAUSES.0,
        }
    }

    /// Returns whether to wait for a pending line.
    pub fn is_left(&mut self, now: Instant) -> bool {
        match self.state {
            State::Waiting { until } if now >= until => {
                self.state = State::Spent {
                    until: now + self.wait,
                };
            }
            State::Spent { until } if now >= until => self.state = State::Whole,
            _ => {}
        }
        !self.wait.is_zero() && !matches!(self.state, State::Spent { .. })
    }

    pub fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting { .. })
    }

    /// Notes that a line is pending. Returns whether the wait for it has just begun.
    pub fn met(&mut self, now: Instant) -> bool {
        if self.is_waiting() {
            return false;
        }
        let until = now + self.wait;
        self.state = State::Waiting { until };
        self.pause = PAUSES.0;
        true
    }

    /// Notes that the line is no longer pending.
    pub fn over(&mut self) {
        if self.is_waiting() {
            self.state = State::Whole;
        }
    }

    /// Returns how long to leave the line alone.
    pub fn pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = PAUSES.1.min(2 * pause);
        pause
    }

    /// Returns the report of a wait in vain, the first time.
    pub fn notice(&mut self) -> Option<String> {
        if self.told || !matches!(self.state, State::Spent { .. }) {
            return None;
        }
        self.told = true;
        Some(format!(
            "waited {:?} for a line that another process has claimed and not committed; such lines are passed by now",
            self.wait
        ))
    }
}

/// The outcome for lines that were passed by.
pub struct Settled {
    /// Lines whose claiming process has died. They now belong to this run, uncommitted.
    pub new: u64,
    /// Lines that are still pending.
    pub pending: u64,
}

/// Lines that were passed by.
#[derive(Default)]
pub struct PassedBy {
    keys: Vec<HashedKey>,
    /// The number of lines beyond the maximum.
    more: u64,
}

impl PassedBy {
    pub fn push(&mut self, key: HashedKey) {
        if self.keys.len() < MAX_PENDING {
            self.keys.push(key);
        } else {
            self.more += 1;
        }
    }

    /// Claims the lines again and returns the outcome.
    pub fn claim(&self, store: &Store) -> Settled {
        let mut verdicts = Vec::new();
        // Lines that an error leaves without a verdict are still pending.
        let claimed = store.claim_batch(&self.keys, ClaimOptions::new());
        let _ = BatchError::append(claimed, &mut verdicts);
        let count = |wanted| {
            verdicts
                .iter()
                .filter(|verdict| **verdict == wanted)
                .count() as u64
        };
        let (new, seen) = (count(Verdict::New), count(Verdict::Seen));
        Settled {
            new,
            pending: self.keys.len() as u64 + self.more - new - seen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(10);

    #[test]
    fn a_wait_in_vain_is_followed_by_as_long_without() {
        let (mut patience, start) = (Patience::new(WAIT), Instant::now());
        for round in 0..3 {
            let start = start + 3 * round * WAIT;
            assert!(patience.is_left(start));
            assert!(patience.met(start) && !patience.met(start + WAIT / 2));
            assert!(patience.is_left(start + WAIT / 2) && patience.is_waiting());
            assert!(!patience.is_left(start + WAIT) && !patience.is_waiting());
            assert_eq!(patience.notice().is_some(), round == 0);
            assert!(!patience.is_left(start + WAIT + WAIT / 2));
            assert!(patience.is_left(start + 2 * WAIT));
        }
    }

    #[test]
    fn every_line_that_comes_of_it_is_waited_for() {
        let (mut patience, start) = (Patience::new(WAIT), Instant::now());
        for round in 0..10 {
            let now = start + round * WAIT;
            assert!(patience.is_left(now) && patience.met(now));
            patience.over();
        }
        assert_eq!(patience.notice(), None);
    }

    #[test]
    fn no_wait_is_none() {
        assert!(!Patience::new(Duration::ZERO).is_left(Instant::now()));
    }

    #[test]
    fn pauses_grow_and_begin_anew_with_each_line() {
        let (mut patience, now) = (Patience::new(WAIT), Instant::now());
        for _ in 0..2 {
            assert!(patience.met(now));
            let pauses: Vec<_> = (0..9).map(|_| patience.pause()).collect();
            assert!(pauses.is_sorted(), "{pauses:?}");
            assert_eq!((pauses[0], pauses[8]), PAUSES);
            patience.over();
        }
    }
}
