//! How a handle divides the memory that it is granted.

use crate::store::config::options::{DEFAULT_BUFFER, LEAST_BUFFER, MOST_DEFAULT_BUFFER, Options};
use crate::store::coordination::place::Place;

/// The memory for the keys of a sieve's window, unless the buffer is smaller, or more than four times as large.
const DEFAULT_WINDOW: u64 = 64 << 20;

impl Options {
    /// Returns these options with a buffer that fits a store file of `file` bytes and a disk with `room` free bytes.
    /// Both buffers are files on that disk, and logs and pages need room as well.
    pub(crate) fn fit(&self, file: u64, room: u64) -> Self {
        let mut options = self.clone();
        if !self.granted {
            let buffer = file.clamp(DEFAULT_BUFFER, MOST_DEFAULT_BUFFER);
            options.buffer = buffer.min(room / 4).max(LEAST_BUFFER);
        }
        options
    }

    /// Returns the same for buffers that are files beside the store. The disk does not limit those of an exclusive
    /// handle.
    pub(crate) fn fit_beside(&self, store: &Place, file: u64) -> Self {
        let room = match self.exclusive {
            true => None,
            false => store.folder().room(),
        };
        self.fit(file, room.unwrap_or(u64::MAX))
    }

    /// Returns the bytes of the buffer of one generation. There are two such buffers.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        self.buffer / 16 * 7
    }

    /// Returns the number of pages that a checkpoint holds in memory at a time: half of what the tables leave. The rest
    /// is for the checkpoint's keys, and for a part of a large batch.
    pub(crate) fn chunk_pages(&self) -> u64 {
        (self.buffer / 16 / crate::sizing::PAGE_BYTES).clamp(1, 1024)
    }

    /// Returns the number of keys that a checkpoint holds in memory at a time.
    pub(crate) fn chunk_keys(&self) -> u64 {
        (self.buffer / 32 / 8).clamp(64, 1 << 18)
    }

    /// Returns the number of keys of a large batch that are looked up together. Each takes its hash, its place and
    /// whether it was found.
    pub(crate) fn part_keys(&self) -> usize {
        (self.buffer / 32 / 24).clamp(4096, 1 << 18) as usize
    }

    /// Returns the same where pages come from the disk: everything that tables and a checkpoint leave, for the keys'
    /// places and whether they were found.
    pub(crate) fn sweep_keys(&self) -> usize {
        let tables = 2 * self.buffer_bytes();
        let checkpoint = self.chunk_pages() * crate::sizing::PAGE_BYTES + self.chunk_keys() * 8;
        let room = self.buffer.saturating_sub(tables + checkpoint);
        ((room / 5) as usize).clamp(self.part_keys(), 1 << 28)
    }

    /// Returns the bytes for the keys of a sieve's window, in addition to these options' own.
    pub(crate) fn window_bytes(&self) -> u64 {
        (self.buffer / 4).max(self.buffer.min(DEFAULT_WINDOW))
    }
}
