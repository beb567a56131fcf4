//! The sizes that write buffers may have.

use crate::memtable::{Buffer, ShmCorruption, limit_of};

/// The largest buffer that any machine has room for.
pub(crate) const MOST_BUFFER: u64 = 1 << 48;

/// The sizes that the write buffers of a session may have, in bytes of one generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct BufferSizes {
    /// The size of the first buffer, and of each where there is no more memory.
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

    /// Checks that a buffer has one of the sizes. A last buffer has no room for a key.
    pub(crate) fn expect(self, buffer: &Buffer) -> Result<(), ShmCorruption> {
        let limit = buffer.limit();
        let (least, most) = (limit_of(self.least), limit_of(self.most));
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
