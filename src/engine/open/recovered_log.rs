//! A log that was found at opening, and the buffer that it fills.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::filter::replay as filter;
use crate::generation::Generation;
use crate::generation::buffer_pool::make_buffer;
use crate::generation::log_summary::LogSummary;
use crate::shm::place::Place;
use crate::storefile::meta::{Meta, room_after};
use crate::wal::file::RECORDS_OFFSET;
use crate::wal::{LogError, LogFile};

/// A generation that was found on disk.
pub(crate) struct RecoveredLog {
    pub(crate) log: Arc<LogFile>,
    pub(crate) scan: LogSummary,
    /// Its keys are in a buffer. Otherwise they must go from the log into the pages.
    pub(super) loaded: bool,
}

impl RecoveredLog {
    pub(super) fn nonsense(&self, reason: &'static str) -> Error {
        Error::Log {
            path: self.log.path.clone(),
            source: LogError::Nonsense {
                offset: self.scan.cut_offset,
                reason,
            },
        }
    }

    /// Returns a generation with the committed keys of the log in its buffer; `None` if a buffer of `bytes` bytes has
    /// no room for them.
    pub(crate) fn load(
        &mut self,
        meta: &Meta,
        path: &Place,
        shared: bool,
        bytes: u64,
    ) -> Result<Option<Generation>> {
        // In two buffers, its keys would count twice.
        assert!(!self.loaded);
        if !filter::may_fit(&meta.header, self.scan.committed_keys, bytes) {
            return Ok(None);
        }
        let memory = make_buffer(path, shared, bytes, self.log.generation)?;
        let memory = memory.holding(meta.header.key_model());
        if !filter::replay(&meta.header, &memory, &self.log, &self.scan.committed)? {
            return Ok(None);
        }
        // The sums of buffer and log are compared by this number.
        assert_eq!(memory.generation(), self.log.generation);
        self.loaded = true;
        memory.set_room(room_after(&meta.header, &meta.superblock, None));
        memory.set_durable(self.scan.end.end);
        memory.set_applied(self.scan.end.end);
        let generation = Generation::new(memory);
        // The next record must not go into the log's own head.
        assert!(self.scan.end.end >= RECORDS_OFFSET, "{:?}", self.scan.end);
        generation.set_log_end(self.scan.end);
        generation.set_log(Arc::clone(&self.log));
        if self.scan.cut.is_some() {
            generation.buffer.set_sealed();
        }
        Ok(Some(generation))
    }
}
