//! What the checkpoint of a closed log asks of the pages, whatever their kind, and the parts of an open store that it
//! borrows.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use crate::config::open_options::OpenOptions;
use crate::error::{Error, Result};
use crate::file::{Section, Superblock};
use crate::generation::log_summary::LogSummary;
use crate::memtable::{Buffer, ClosedKeys, Presence};
use crate::page_io::checkpoint_state::CheckpointState;
use crate::page_io::checkpoint_trigger::CheckpointTrigger;
use crate::prefetch::hints::LookupHints;
use crate::shm::coordination::Coordination;
use crate::storefile::meta::Meta;
use crate::storefile::store_file::StoreFile;
use crate::sys::AddressSpace;
use crate::wal::{Cut, LogFile};

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

/// A closed log that is durable, and what its checkpoint works with.
pub(crate) struct ClosedLog<'a> {
    pub(crate) access: PageAccess<'a>,
    /// The header and the superblocks from before the checkpoint.
    pub(crate) meta: &'a Meta,
    pub(crate) log: &'a Arc<LogFile>,
    pub(crate) found: LogSummary,
    pub(crate) cut: Cut,
    /// The log's buffer, if it can be trusted. Otherwise the keys come from the log.
    pub(crate) buffer: Option<&'a Buffer>,
    /// The most keys to hold in memory at a time if they come from the log. 0 where a buffer takes that memory.
    pub(crate) log_keys: u64,
    pub(crate) trigger: CheckpointTrigger,
    /// Whether no other process can change the buffer.
    pub(crate) is_private: bool,
}

impl ClosedLog<'_> {
    /// Returns the time that the log brings, if it brings one.
    pub(crate) fn clock(&self) -> Option<u64> {
        self.found.clock_of(self.log)
    }

    /// Returns whether the log was closed to drop what is forgotten.
    pub(crate) fn forgets(&self) -> bool {
        self.cut.forgets
    }
}

/// Which keys a checkpoint has written.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    AsLogged,
    /// Those of a buffer that changed while they were taken. The log has to be written before a superblock says so.
    Otherwise,
}

/// The steps of a checkpoint that depend on the kind of the pages. The engine calls each of them once at most, in this
/// order.
pub(crate) trait PageCheckpoint {
    /// Returns the pages that hold anything but sections, now or once this checkpoint is through.
    fn taken(&self) -> Vec<Range<u64>>;

    /// Returns the keys that the log inserts.
    fn inserted(&self) -> &dyn InsertedKeys;

    /// Writes the log's keys into the pages. `sections` are those after the checkpoint. They have been written, but not
    /// synced.
    fn write(&mut self, sections: &[Section]) -> Result<Written>;

    /// Makes `superblock` durable, with the pages added that were written. Returns the newest superblock.
    fn publish(&mut self, superblock: Superblock) -> Result<Superblock>;
}

/// The keys that a log inserts, as far as they end exemptions.
pub(crate) trait InsertedKeys {
    /// Returns the most hashes that are read from the log; 0 if they are in memory.
    fn count_in_log(&self) -> u64;

    /// Begins to take these keys out of ranges of hashes, with about `most` of them in memory at a time.
    fn remover(&self, most: u64) -> InsertedRemover<'_>;
}

/// Takes inserted keys out of the sorted hashes of a range. Ranges ascend from call to call: what was read of a log is kept
/// for those that follow.
pub(crate) type InsertedRemover<'a> =
    Box<dyn FnMut(RangeInclusive<u64>, &mut Vec<u64>) -> Result<()> + 'a>;

/// Keys of a closed buffer are looked up there, whatever their kind.
impl InsertedKeys for ClosedKeys<'_> {
    fn count_in_log(&self) -> u64 {
        0
    }

    fn remover(&self, _most: u64) -> InsertedRemover<'_> {
        let buffer = self.buffer();
        Box::new(|_, hashes| {
            hashes.retain(|hash| buffer.lookup(*hash) != Presence::Settled);
            Ok(())
        })
    }
}
