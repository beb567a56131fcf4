//! What opening a store found.

use crate::file::SuperblockFault;

/// What [opening](crate::Options::open) found, and did about it. Of a read-only handle: what the
/// next one to open it for writing will do.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecoveryReport {
    /// Others had the store open, so there was nothing to recover, and all else here says nothing.
    pub joined: bool,
    /// Logs that were found: none if the store was closed as it should be.
    pub logs: u64,
    /// Bytes of their valid records.
    pub log_bytes: u64,
    /// Keys brought back from them.
    pub keys: u64,
    /// Keys in them that no commit covers, dropped in a transactional store.
    pub dropped: u64,
    /// A checkpoint had been due or under way, and goes on.
    pub checkpoint: bool,
    /// What is wrong with the one of the two superblocks that was not used, if something is.
    pub superblock: Option<SuperblockFault>,
}

impl RecoveryReport {
    /// Whether the last user closed the store, and nothing is damaged as far as opening looks.
    pub fn is_clean(&self) -> bool {
        self.logs == 0 && self.superblock.is_none()
    }

    pub(crate) fn joined() -> Self {
        Self {
            joined: true,
            ..Self::default()
        }
    }
}
