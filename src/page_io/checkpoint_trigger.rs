//! Why a checkpoint runs or a store is closed small, and what follows from that.

use crate::config::open_options::OpenOptions;
use crate::sys::AddressSpace;

/// How many threads may work on a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workers {
    /// The checkpoint is that of a full buffer, mostly in the background, or the store must not use threads.
    One,
    /// A caller waits for the checkpoint.
    Two,
}

/// Why a checkpoint runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckpointTrigger {
    /// A buffer is full: more keys are coming.
    FullBuffer,
    /// A caller waits, perhaps for the handle to close.
    Awaited,
}

impl CheckpointTrigger {
    /// Returns how many threads may work.
    pub(crate) fn workers(self, options: &OpenOptions) -> Workers {
        match self {
            CheckpointTrigger::Awaited if options.background && !AddressSpace::is_tight() => {
                Workers::Two
            }
            CheckpointTrigger::Awaited | CheckpointTrigger::FullBuffer => Workers::One,
        }
    }
}
