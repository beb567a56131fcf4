//! The sizes that write buffers may have.

use crate::memtable::{Buffer, ShmCorruption, limit_of};

/// The largest buffer that any machine has room for.
pub(crate) const MOST_BUFFER: u64 = 1 << 48;

/// A session begins with a buffer of this size where checkpoints write runs, which need not bring many keys: some 73,000.
pub(crate) const SMALL_BUFFER: u64 = 1 << 20;

/// The sizes that the write buffers of a session may have, in bytes of one generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct BufferSizes {
    /// The size of the first buffer, unless a session begins with a small one, and of each where there is no more memory.
    /// What a handle may leave uncommitted follows from it.
    pub(crate) least: u64,
    pub(crate) most: u64,
}

impl BufferSizes {
    /// Returns these sizes; as the error if no session can have them.
    pub(crate) fn possible(least: u64, most: u64) -> Result<Self, Self> {
        let sizes = Self { least, most };
        match least <= most && most <= MOST_BUFFER {
            true => Ok(sizes),
            false => Err(sizes),
        }
    }

    /// Returns the size of a small first buffer.
    pub(crate) fn small(self) -> u64 {
        self.least.min(SMALL_BUFFER)
    }

    /// Checks that a buffer has one of the sizes. A last buffer has no room for a key.
    pub(crate) fn expect(self, buffer: &Buffer) -> Result<(), ShmCorruption> {
        let limit = buffer.limit();
        let (least, most) = (limit_of(self.small()), limit_of(self.most));
        if (least..=most).contains(&limit) || limit == limit_of(0) {
            return Ok(());
        }
        Err(ShmCorruption {
            word: "buffer bytes",
            expected: format!("those of a buffer for {least} to {most} keys"),
            got: buffer.bytes(),
        })
    }
}
