//! What `dedup` and `add` have done, and what they say of it.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::error::CliError;
use crate::output::format::{many, thousands};
use crate::output::tell;
use crate::pipeline::summary::Summary;
use crate::pipeline::{Ending, Outcome, pending};
use crate::process::exit_code::ExitCode;

/// The result of claiming all items of an input.
pub struct Claimed {
    pub outcome: Outcome,
    /// The time taken, up to the close of the store.
    pub elapsed: Duration,
    /// Items that another process has claimed and not committed yet.
    pub pending: u64,
    /// How many windows of waiting lines were answered by one sweep each, and the most lines of a window.
    pub(super) sweeps: (u64, usize),
    /// The memory that write buffers took at the end.
    pub buffer_bytes: u64,
}

impl Claimed {
    /// Reports the pending items and returns how the command ends.
    pub fn end(self, store: &Path) -> Result<ExitCode, CliError> {
        if self.pending > 0 {
            tell(format_args!(
                "everseen: {} pending: claimed by another process, and not committed; run this again to be sure \
                 (--wait waits longer)",
                many(self.pending, "line")
            ));
        }
        match self.outcome.ending {
            Ending::Done | Ending::Unread if self.pending > 0 => {
                Ok(ExitCode::from(pending::STATUS))
            }
            _ => self.outcome.end(store),
        }
    }

    /// Returns whether all items were claimed.
    pub fn is_complete(&self) -> bool {
        self.outcome.ending == Ending::Done && self.pending == 0
    }

    /// Returns what a summary says about pending items; nothing if there are none.
    pub fn pending_summary(&self) -> String {
        match self.pending {
            0 => String::new(),
            pending => format!(", {} pending in another process", thousands(pending)),
        }
    }

    /// Returns the summary in JSON.
    pub fn summary(&self, command: &'static str) -> Summary<JsonClaimed> {
        let seconds = self.elapsed.as_secs_f64();
        let claimed = JsonClaimed {
            new: self.outcome.tally.kept,
            seen: self.seen(),
            pending: self.pending,
            seconds,
            sweeps: self.sweeps.0,
        };
        self.outcome.summary(command, claimed)
    }

    /// Returns what a summary says about sweeps; nothing if there were none.
    pub fn sweeps_summary(&self) -> String {
        match self.sweeps {
            (0, _) => String::new(),
            (sweeps, most) => {
                let (sweeps, most) = (many(sweeps, "sweep"), many(most as u64, "line"));
                format!(", {sweeps} for up to {most} each")
            }
        }
    }

    /// Returns how many items were known.
    pub fn seen(&self) -> u64 {
        self.outcome.judged() - self.outcome.tally.kept - self.pending
    }
}

/// What `dedup` and `add` say of the lines.
#[derive(Serialize)]
pub struct JsonClaimed {
    new: u64,
    seen: u64,
    pending: u64,
    seconds: f64,
    sweeps: u64,
}
