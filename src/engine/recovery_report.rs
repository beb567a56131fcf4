//! What opening a store found.

use crate::file::SuperblockFault;

/// What [opening](crate::OpenOptions::open) found, and did about it. For a read-only handle: what the next handle to open
/// the store for writing will do.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecoveryReport {
    /// Whether others had the store open. If so, there was nothing to recover, and all other fields are meaningless.
    pub joined: bool,
    /// The number of logs found: none if the store was closed properly.
    pub logs: u64,
    /// The bytes of their valid records.
    pub log_bytes: u64,
    /// The inserts and removes recovered from them.
    pub keys: u64,
    /// The keys in them that no commit covers, of all runs since the last checkpoint. A transactional store drops them.
    pub dropped: u64,
    /// Whether a checkpoint had been due or running. It continues.
    pub checkpoint: bool,
    /// What is wrong with the superblock that was not used, if anything.
    pub superblock: Option<SuperblockFault>,
}

impl RecoveryReport {
    /// Returns whether the last user closed the store, and nothing is damaged as far as opening checks.
    #[must_use]
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
