//! `--json` and `--quiet`, for every command that sums up what it did.

use std::fmt::Display;

use serde::Serialize;

use crate::error::CliError;
use crate::output::{sum_up, tell_json};

/// The part of the command line that says how to sum up.
#[derive(Clone, Copy, clap::Args)]
pub struct Summing {
    /// Print the summary as one line of JSON on standard error
    ///
    /// docs/json.md describes it.
    #[arg(long, conflicts_with = "quiet")]
    pub json: bool,

    /// Print only errors, and what goes to standard output
    ///
    /// No summary, no progress and no warnings.
    #[arg(short, long)]
    pub quiet: bool,
}

impl Summing {
    /// Prints a summary on standard error: as JSON, as text, or not at all.
    pub fn tell<J: Serialize, T: Display>(
        self,
        json: impl FnOnce() -> J,
        text: impl FnOnce() -> T,
    ) -> Result<(), CliError> {
        match self {
            Summing { json: true, .. } => tell_json(&json()),
            Summing { quiet: true, .. } => Ok(()),
            _ => sum_up(text()),
        }
    }
}
