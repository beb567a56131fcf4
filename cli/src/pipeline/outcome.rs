//! How a job ended that did not fail.

use std::path::Path;

use crate::error::CliError;
use crate::input::record_blocks::Place;
use crate::output::progress::Tally;
use crate::process::exit_code::ExitCode;

/// Why a job ended that did not fail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The input ended.
    Done,
    /// A signal requested the end; the exit status says which.
    Stopped(u8),
    /// The reader closed the output. What was printed since the last commit is not committed.
    Unread,
    /// The store had no room for an item. All items before it are processed.
    Full,
}

/// The item that the store had no room for.
pub(super) struct Refused {
    pub(super) place: Place,
    pub(super) capacity: u64,
}

/// The result of a job that did not fail.
pub struct Outcome {
    pub ending: Ending,
    pub tally: Tally,
    /// The first item that was skipped because it is too long.
    pub(super) first_long: Option<Place>,
    pub(super) refused: Option<Refused>,
}

impl Outcome {
    /// Returns how the command ends, after everything else has been reported.
    pub fn end(self, store: &Path) -> Result<ExitCode, CliError> {
        if let Some(Refused { place, capacity }) = self.refused {
            return Err(CliError::Full {
                store: store.to_owned(),
                capacity,
                place,
            });
        }
        Ok(match self.ending {
            Ending::Stopped(status) => ExitCode::from(status),
            _ => ExitCode::SUCCESS,
        })
    }
}
