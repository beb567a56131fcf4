//! How things stood when the process began.

use crate::error::CliError;

/// Refuses to print where nothing is open to print to.
pub fn check_stdout() -> Result<(), CliError> {
    if stdout::was_open() {
        Ok(())
    } else {
        Err(CliError::NoOutput)
    }
}

/// Before `main`, the standard library opens `/dev/null` for each standard stream that is closed, so that no other file
/// gets its number. What is printed then goes nowhere, without an error, and would be remembered as printed. Afterwards
/// the two can't be told apart: that it is open for reading too is so of the `/dev/null` of Python and of daemons as well.
#[cfg(all(target_os = "linux", not(miri)))]
mod stdout {
    use std::sync::atomic::{AtomicBool, Ordering};

    static CLOSED: AtomicBool = AtomicBool::new(false);

    /// Called before the standard library begins.
    // SAFETY: it uses nothing that has to be set up first: a system call and an atomic.
    #[ctor::ctor(unsafe)]
    fn look() {
        let flags = rustix::io::fcntl_getfd(rustix::stdio::stdout());
        CLOSED.store(flags.is_err(), Ordering::Relaxed);
    }

    pub fn was_open() -> bool {
        !CLOSED.load(Ordering::Relaxed)
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod stdout {
    /// Nobody has looked.
    pub fn was_open() -> bool {
        true
    }
}

/// Whether whoever began this process has it ignore that its terminal is hung up, as `nohup` does, where that can be
/// told.
pub fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignores(&status, 1)
}

/// Whether a signal is among those that a process ignores, by the system's words on it.
fn ignores(status: &str, signal: u32) -> bool {
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        let status =
            |mask: &str| format!("Name:\teverseen\nSigBlk:\tffff\nSigIgn:\t{mask}\nSigCgt:\t0\n");
        assert!(ignores(&status("0000000000000001"), 1));
        assert!(!ignores(&status("0000000000000001"), 2));
        assert!(!ignores(&status("0000000000001000"), 1));
        assert!(ignores(&status("0000000000001000"), 13));
        assert!(!ignores("", 1));
    }
}
