//! Moves everything acknowledged into the pages and holds the pages unchanged.

use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::checkpoint::run::HeldOff;
use crate::engine::write::Writer;
use crate::engine::write::guard::WriteGuard;
use crate::error::{Error, Result};
use crate::storefile::meta::Meta;
use crate::wal::file::RECORDS_OFFSET;
use crate::wal::{LogReader, RecordKind};

/// How often to look at the store again because a process died during a checkpoint meanwhile.
const MAX_QUIESCE_ATTEMPTS: usize = 100;

/// A store whose pages do not change while this is held.
pub(crate) struct Quiesced<'a> {
    pub(crate) meta: Meta,
    _held_off: HeldOff<'a>,
}

impl WriteGuard<'_> {
    /// Returns whether a key or a commit is in the active log. The log decides, because a death leaves it unchanged.
    fn has_news(&self) -> Result<bool> {
        let active = &self.view.active;
        if !active.has_log() {
            return Ok(false);
        }
        let log = Arc::clone(self.writer.logs.of(active)?);
        let mut reader = LogReader::resume(&log, RECORDS_OFFSET, active.log_end())?;
        while let Some(record) = reader.next()? {
            if record.kind != RecordKind::Open {
                return Ok(true);
            }
        }
        Ok(reader.end() < active.log_end().end)
    }
}

/// Moves everything acknowledged into the pages and holds the pages unchanged.
pub(crate) fn quiesce(engine: &Engine) -> Result<Quiesced<'_>> {
    let writer = Writer::of(engine);
    let checkpointer = writer.checkpointer();
    for _ in 0..MAX_QUIESCE_ATTEMPTS {
        let mut guard = writer.lock()?;
        if guard.has_news()? {
            guard.seal_active(false)?;
        }
        drop(guard);
        checkpointer.checkpoint_all(engine.options.timeout)?;
        let held_off = checkpointer.hold_off()?;
        let meta = engine.file.read_meta()?;
        // Another checkpoint may have begun since, and its process may have died during it.
        if !meta.has_begun() {
            return Ok(Quiesced {
                meta,
                _held_off: held_off,
            });
        }
    }
    Err(Error::Busy {
        path: engine.file.place.to_path_buf(),
        what: "a checkpoint that is about to end",
        process: None,
    })
}
