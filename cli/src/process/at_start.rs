//! The state of the process at its start.

use crate::error::CliError;

/// Refuses to print if standard output was closed.
pub fn check_stdout() -> Result<(), CliError> {
    if stdout::was_open() {
        Ok(())
    } else {
        Err(CliError::NoOutput)
    }
}

/// Before `main`, the standard library opens `/dev/null` for each standard stream that is closed, so that no other file
/// gets its number. Printed lines then go nowhere, without an error, and would be remembered as printed. Afterwards the
/// two cases are indistinguishable: the `/dev/null` of Python and of daemons is open for reading too.
#[cfg(all(target_os = "linux", not(miri)))]
mod stdout {
    use std::sync::atomic::{AtomicBool, Ordering};

    static CLOSED: AtomicBool = AtomicBool::new(false);

    /// Runs before the standard library starts.
    // SAFETY: it uses nothing that needs to be set up first: a system call and an atomic.
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
    /// Returns `true`: no check ran.
    pub fn was_open() -> bool {
        true
    }
}

/// Returns whether the parent process made this one ignore the hangup of its terminal, as `nohup` does, where the
/// system reports that.
pub fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignores(&status, 1)
}

/// Returns whether a process ignores a signal, according to the system's description of the process.
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
