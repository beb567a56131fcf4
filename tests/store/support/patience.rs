//! Waiting for what a defect may keep from coming.

use std::time::{Duration, Instant};

/// Far longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// Waits until something is so. A test that waits in vain fails, and doesn't hang.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::yield_now();
    }
}
