//! Why a checkpoint runs, and what follows from that.

use crate::store::checkpoint::chunk_writer::Workers;
use crate::store::config::options::Options;

/// Why a checkpoint runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// A buffer is full: more keys are coming.
    FullBuffer,
    /// A caller waits for it. Perhaps the handle is closing.
    Awaited,
}

impl Occasion {
    /// Returns how many threads may work on the checkpoint.
    pub(crate) fn workers(self, options: &Options) -> Workers {
        match self {
            Occasion::Awaited if options.background => Workers::Two,
            Occasion::Awaited | Occasion::FullBuffer => Workers::One,
        }
    }
}
