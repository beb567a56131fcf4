//! How old the keys of a store that forgets are, by what its look-ups say at the time of each step.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everseen::{Key, Store};

/// Steps of a window, the default, and how long each is.
pub const STEPS: u64 = 15;
pub const STEP: Duration = Duration::from_secs(4);
pub const WINDOW: Duration = Duration::from_secs(4 * STEPS);
/// The step in which the tests begin.
pub const BEGIN: u64 = 425_000_000;

/// A time within a step.
pub fn within(step: u64) -> SystemTime {
    UNIX_EPOCH + STEP * u32::try_from(step).unwrap() + STEP / 4
}

/// Returns whether a key that came in one step is remembered in another.
pub fn is_remembered(came: u64, now: u64) -> bool {
    came + STEPS >= now
}

/// Returns of each key the step in which it came; `None` if it is not there in the step `now`. The reader's time is at most
/// that, and goes on a window. It is one that only reads, so that this ages nothing for others.
pub fn steps_of(reader: &Store, keys: &[impl Key], now: u64) -> Vec<Option<u64>> {
    let mut came = vec![None; keys.len()];
    // No key is younger than the step, and the last one must find none.
    for step in now..=now + STEPS + 1 {
        reader.advance_to(within(step)).unwrap();
        for (came, found) in came.iter_mut().zip(reader.contains_batch(keys).unwrap()) {
            if found {
                *came = Some(step - STEPS);
            }
        }
    }
    came
}
