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

/// Returns whether this process ignores a signal. Until it catches that signal itself, the parent process wants it so:
/// `nohup` does, and a shell for what it starts with `&`.
#[cfg(unix)]
#[expect(unsafe_code, reason = "no safe call tells how a signal is handled")]
pub fn ignores(signal: i32) -> bool {
    let mut found = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call changes nothing, and it writes one whole action to the memory it is given.
    let known = unsafe { libc::sigaction(signal, std::ptr::null(), found.as_mut_ptr()) } == 0;
    // SAFETY: an action of zeros is valid, and so is what the call has written.
    known && unsafe { found.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Returns `false`: there are no signals to inherit.
#[cfg(not(unix))]
pub fn ignores(_: i32) -> bool {
    false
}
