//! A clock that can't be set.

use std::time::Duration;

/// Returns how long the system has been running, sleep included. Nothing sets this clock.
#[cfg(not(everseen_portable))]
pub(crate) fn since_start() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the system writes to `time`, which lives until the call returns, and keeps no pointer to it.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) } != 0;
    // Every system that has memory to be wiped in a child has this clock, too.
    assert!(!failed, "there is no clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns how long this process has been running. Systems differ in whether that includes sleep.
#[cfg(everseen_portable)]
pub(crate) fn since_start() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;

    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}
