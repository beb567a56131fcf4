//! Commit: marks in the log, and waiting until they are durable.

use std::sync::Arc;

use super::Commit;
use super::engine::{Engine, Writer};
use crate::buffer::{FIRST_TRANSACTION, LAST_TRANSACTION};
use crate::error::{Error, Result};
use crate::file::CommitEntry;
use crate::file::superblock::{MAX_TAG, WRITERS_ROOM, writers_bytes};
use crate::log::{LogFile, Mark};
use crate::sys::lock;

impl Engine {
    /// Commits with a tag; when it returns, everything covered is durable.
    pub(crate) fn commit(&self, tag: &[u8]) -> Result<u64> {
        self.check_writable()?;
        if tag.len() > MAX_TAG {
            return Err(Error::TagTooLarge {
                expected: MAX_TAG,
                got: tag.len(),
            });
        }
        let (sequence, log, end) = self.mark(tag)?;
        // Outside of the writer lock: others insert on, and commits that come meanwhile share the
        // next sync.
        let outcome = self.sync_frozen_log().and_then(|()| log.sync_to(end));
        self.poison_on_failure(outcome)?;
        Ok(sequence)
    }

    /// Appends the mark and answers what has to become durable.
    fn mark(&self, tag: &[u8]) -> Result<(u64, Arc<LogFile>, u64)> {
        let mut guard = self.lock_writer()?;
        let writer = &mut *guard;
        if writer.log.is_none() {
            self.start_log(writer)?;
        } else if self.log_is_long(writer) {
            self.rotate(writer, false)?;
        }
        let sequence = writer.commit_sequence + 1;
        let entry = CommitEntry {
            sequence,
            tag: tag.to_vec(),
        };
        let name = &self.options.writer;
        let previous = writer.commits.insert(name.clone(), entry);
        let appended = self.check_writers_room(writer).and_then(|()| {
            self.announce(writer)?;
            self.append_mark(writer, sequence, tag)
        });
        if let Err(error) = appended {
            match previous {
                Some(entry) => writer.commits.insert(name.clone(), entry),
                None => writer.commits.remove(name),
            };
            return Err(error);
        }
        writer.commit_sequence = sequence;
        writer.uncommitted = 0;
        if self.header.transactional {
            self.next_transaction(writer);
        }
        let Some(log) = &writer.log else {
            unreachable!("the mark was appended to it");
        };
        Ok((sequence, Arc::clone(log.log()), log.end()))
    }

    fn check_writers_room(&self, writer: &Writer) -> Result<()> {
        let got = writers_bytes(&writer.commits);
        if got > WRITERS_ROOM {
            return Err(Error::TooManyWriters {
                expected: WRITERS_ROOM,
                got,
            });
        }
        Ok(())
    }

    fn append_mark(&self, writer: &mut Writer, sequence: u64, tag: &[u8]) -> Result<()> {
        let handle = writer.handle;
        let Some(log) = writer.log.as_mut() else {
            unreachable!("the log was started above");
        };
        let mark = Mark {
            sequence,
            durable: log.log().durable(),
            writer: self.options.writer.clone(),
            tag: tag.to_vec(),
        };
        let outcome = log.commit(handle, &mark);
        self.poison_on_failure(outcome)
    }

    /// Keys claimed from now on belong to the next transaction.
    fn next_transaction(&self, writer: &mut Writer) {
        if writer.transaction == LAST_TRANSACTION {
            self.view.load().active.commit_all();
            writer.transaction = FIRST_TRANSACTION;
        } else {
            writer.transaction += 1;
        }
    }

    /// What a commit covers may still lie in the log that is being checkpointed.
    fn sync_frozen_log(&self) -> Result<()> {
        let frozen = {
            let state = lock(&self.checkpoint);
            state.frozen.as_ref().map(|frozen| Arc::clone(&frozen.log))
        };
        match frozen {
            Some(log) => log.sync_to(log.written()),
            None => Ok(()),
        }
    }

    /// The last commit of a writer.
    pub(crate) fn last_commit(&self, name: &str) -> Option<Commit> {
        let writer = lock(&self.writer);
        let entry = writer.commits.get(name)?;
        Some(Commit {
            writer: name.to_owned(),
            sequence: entry.sequence,
            tag: entry.tag.clone(),
        })
    }
}
