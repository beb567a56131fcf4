//! Stores that forget: windows of time, and what each handle answers at which time.

mod basics;
mod merges;
mod model;
mod renewals;
mod runs;
mod wrong_clocks;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everseen::testing::Options;

use crate::support::files::small;

/// Milliseconds of a step, and the steps of a window.
const STEP: u64 = 4000;
const STEPS: u64 = 15;
const WINDOW: Duration = Duration::from_millis(STEP * STEPS);

const BEGIN: u64 = 1_700_000_000_000;

/// A time of a simulated clock, in milliseconds.
fn at(clock: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(clock)
}

/// A small store that forgets, without false positives, and a handle with this time.
fn forgetting(clock: u64) -> Options {
    let options = small().forget_after(WINDOW).clock(at(clock));
    options.capacity(1_000_000).fpr(1e-9).segment_pages(2)
}
