//! The parts of an open store that a checkpoint borrows.

use crate::config::open_options::OpenOptions;
use crate::error::{Error, Result};
use crate::page_io::checkpoint_state::CheckpointState;
use crate::prefetch::hints::LookupHints;
use crate::shm::coordination::Coordination;
use crate::storefile::store_file::StoreFile;
use crate::sys::AddressSpace;

/// The parts of an open store that a pass over the pages borrows.
#[derive(Clone, Copy)]
pub(crate) struct PageAccess<'a> {
    pub(crate) options: &'a OpenOptions,
    pub(crate) file: &'a StoreFile,
    pub(crate) shared: &'a Coordination,
    pub(crate) hints: &'a LookupHints,
    pub(crate) state: &'a CheckpointState,
}

impl PageAccess<'_> {
    /// Refuses a checkpoint that reads at most this many pages at once if this process has no address space for it: most
    /// of what it allocates can't fail, and would end the process.
    pub(crate) fn expect_memory(self, pages: u64) -> Result<()> {
        AddressSpace::expect(self.options.checkpoint_bytes(pages))
            .map_err(|error| Error::io("write a checkpoint to", &self.file.place, error))
    }
}
