//! Ctrl-C, `kill` and a closed terminal: the first signal requests an orderly end, the second ends the process at once.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

use crate::error::CliError;
use crate::process::at_start as begun;

/// Each signal that requests an end, and the exit status that reports it: 128 plus the number, by the shells'
/// convention.
const ENDING_SIGNALS: [(i32, u8); 3] = [(SIGHUP, 129), (SIGINT, 130), (SIGTERM, 143)];

/// Makes a write fail that would exceed the limit on the size of files (`ulimit -f`). By default the signal kills the process
/// without a word, in the middle of anything.
pub fn survive_size_limits() -> Result<(), CliError> {
    // A handler that does nothing: then the call returns the error.
    let caught = flag::register(SIGXFSZ, Arc::default());
    caught.map(drop).map_err(|source| CliError::System {
        action: "catch signals",
        source,
    })
}

/// Catches the signals that request an end, from its creation on.
pub struct Signals {
    status: Arc<AtomicUsize>,
}

impl Signals {
    pub fn catch() -> Result<Self, CliError> {
        Self::register().map_err(|source| CliError::System {
            action: "catch signals",
            source,
        })
    }

    fn register() -> io::Result<Self> {
        let again = Arc::new(AtomicBool::new(false));
        let status = Arc::new(AtomicUsize::new(0));
        for (signal, ending) in ENDING_SIGNALS {
            // Under `nohup`, and behind a shell's `&`, the process continues.
            if begun::ignores(signal) {
                continue;
            }
            // In this order: the first signal finds `again` unset, then sets it.
            flag::register_conditional_shutdown(signal, ending.into(), Arc::clone(&again))?;
            flag::register_usize(signal, Arc::clone(&status), ending.into())?;
            flag::register(signal, Arc::clone(&again))?;
        }
        Ok(Signals { status })
    }

    /// Returns whether a long call should continue.
    pub fn go_on(&self) -> ControlFlow<()> {
        match self.ending() {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }

    /// Returns the exit status to end with, once a signal has requested an end.
    pub fn ending(&self) -> Option<u8> {
        let status = self.status.load(Ordering::Relaxed);
        u8::try_from(status).ok().filter(|status| *status != 0)
    }
}
