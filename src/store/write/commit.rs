//! Commit: marks in the log, and waiting until they are durable.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::file::superblock::{Commits, MAX_TAG, WRITERS_ROOM, writer_bytes, writers_bytes};
use crate::log::{LogError, Mark};
use crate::store::api::store::Commit;
use crate::store::engine::Engine;
use crate::store::generation::Generation;
use crate::store::generation::log_summary::scan_marks;
use crate::store::view::View;
use crate::store::write::guard::{Writing, finish_commit};

/// How often the logs are looked into again because others went on meanwhile.
const ROUNDS: usize = 1000;

impl Engine {
    /// Commits with a tag; when it returns, everything covered is durable.
    pub(crate) fn commit(&self, tag: &[u8]) -> Result<u64> {
        self.handle.check_writable()?;
        if tag.len() > MAX_TAG {
            return Err(Error::TagTooLarge {
                expected: MAX_TAG,
                got: tag.len(),
            });
        }
        let (sequence, active, end) = loop {
            let mut writing = self.lock_writer()?;
            writing.make_way()?;
            match writing.view.frozen.clone() {
                // What the commit covers may still lie in the log that is being checkpointed. That
                // one must be durable before there is a mark in this one, which proves it.
                Some(frozen) if frozen.buffer.durable() < frozen.buffer.tail().end => {
                    drop(writing);
                    let outcome = self.sync_frozen(&frozen);
                    self.handle.poison_on_failure(outcome)?;
                }
                _ => {
                    let sequence = writing.mark(tag)?;
                    let active = Arc::clone(&writing.view.active);
                    let end = writing.local.end.end;
                    break (sequence, active, end);
                }
            }
        };
        // Outside of the writer lock: others insert on, and commits that come meanwhile share the
        // next sync.
        let log = self.logs.of(&active)?;
        let outcome = active.sync_to(log, end);
        self.handle.poison_on_failure(outcome)?;
        // What is durable in a file that has lost its name is gone with its last handle.
        self.handle.check_names(Some(log))?;
        Ok(sequence)
    }

    fn sync_frozen(&self, frozen: &Generation) -> Result<()> {
        match self.logs.of(frozen) {
            Ok(log) => frozen.sync_to(log, frozen.buffer.tail().end),
            // Its checkpoint is done, and with it everything in it is durable.
            Err(Error::Log {
                source: LogError::Missing { .. },
                ..
            }) if self.shared.settled() > frozen.number() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The last commit of each writer, from the superblock and the logs since.
    pub(crate) fn commits(&self) -> Result<Commits> {
        for _ in 0..ROUNDS {
            let view = Arc::clone(&*self.views.current()?);
            match self.commits_of(&view) {
                // Settled meanwhile: look again.
                Err(_) if !view.is_current(&self.shared) => {}
                outcome => return outcome,
            }
        }
        Err(Error::Busy {
            path: self.file.place.to_path_buf(),
            what: "other handles to go on",
            process: None,
        })
    }

    fn commits_of(&self, view: &View) -> Result<Commits> {
        let mut commits = view.superblock.commits.clone();
        for generation in view.frozen.iter().chain([&view.active]) {
            if generation.has_log() {
                let log = self.logs.of(generation)?;
                scan_marks(log, generation.buffer.tail().end, &mut commits)?;
            }
        }
        Ok(commits)
    }

    /// The last commit of a writer.
    pub(crate) fn last_commit(&self, name: &str) -> Result<Option<Commit>> {
        self.handle.check_usable()?;
        Ok(self.commits()?.remove(name).map(|entry| Commit {
            writer: name.to_owned(),
            sequence: entry.sequence,
            tag: entry.tag,
        }))
    }
}

impl Writing<'_> {
    /// Sees that there is a log, and that it is not too long.
    fn make_way(&mut self) -> Result<()> {
        if !self.view.active.has_log() {
            self.start_log()
        } else if self.log_is_long() {
            self.rotate()
        } else {
            Ok(())
        }
    }

    /// Appends the mark that commits this handle's keys.
    fn mark(&mut self, tag: &[u8]) -> Result<u64> {
        let engine = self.engine;
        let last = self.view.check_sequence(&engine.shared);
        let sequence = last.map_err(|wrong| engine.handle.distrust(wrong))? + 1;
        let needed = writer_bytes(&engine.options.writer, tag.len());
        let writers_bytes = self.writers_bytes_with(needed)?;
        let slot = self.slot();
        if slot.transaction() != 0 {
            self.check_transaction(slot.transaction())?;
        }
        self.announce()?;
        let active = Arc::clone(&self.view.active);
        // No more than there is of the log.
        let durable = active.buffer.durable().min(self.local.end.end);
        let mark = Mark {
            sequence,
            durable,
            writer: engine.options.writer.clone(),
            tag: tag.to_vec(),
        };
        self.append(|log, handle| log.commit(handle, &mark))?;
        engine.shared.set_commit_sequence(sequence);
        engine.shared.set_writers_bytes(writers_bytes);
        self.local.writer_bytes = Some(needed);
        self.local.all_bytes = Some((sequence, writers_bytes));
        finish_commit(&active, self.slot());
        self.set_applied();
        Ok(sequence)
    }

    /// The bytes that all writers need in a superblock when this one needs so many. More than there were
    /// must have room for certain, or the log could not be read any more: then what others have told of theirs
    /// is not believed.
    fn writers_bytes_with(&mut self, needed: u64) -> Result<u64> {
        let engine = self.engine;
        let last = engine.shared.commit_sequence();
        let own = self
            .local
            .all_bytes
            .filter(|(sequence, _)| *sequence == last);
        let (before, all) = match (self.local.writer_bytes, own) {
            // Nobody has committed since.
            (Some(before), Some((_, all))) => (before, all),
            (Some(before), None) if needed <= before => (before, engine.shared.writers_bytes()),
            _ => {
                let commits = engine.commits()?;
                let name = &engine.options.writer;
                let entry = commits.get(name);
                let before = entry.map_or(0, |entry| writer_bytes(name, entry.tag.len()));
                (before, writers_bytes(&commits))
            }
        };
        let got = all.saturating_sub(before).saturating_add(needed);
        // What gets smaller is let through, so that a way out is left.
        if got > WRITERS_ROOM as u64 && needed > before {
            return Err(Error::TooManyWriters {
                expected: WRITERS_ROOM,
                got: got as usize,
            });
        }
        Ok(got)
    }
}
