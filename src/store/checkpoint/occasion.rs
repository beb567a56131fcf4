//! Why a checkpoint runs or a store is closed small, and what follows from that.

use crate::store::checkpoint::chunk_writer::Workers;
use crate::store::config::options::Options;
use crate::sys::AddressSpace;

/// Why a checkpoint runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// A buffer is full: more keys are coming.
    FullBuffer,
    /// A caller waits, perhaps for the handle to close.
    Awaited,
}

impl Occasion {
    /// Returns how many threads may work.
    pub(crate) fn workers(self, options: &Options) -> Workers {
        match self {
            Occasion::Awaited if options.background && !AddressSpace::is_tight() => Workers::Two,
            Occasion::Awaited | Occasion::FullBuffer => Workers::One,
        }
    }
}
