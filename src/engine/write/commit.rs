//! Commit: appends marks to the log and waits until they are durable.

use std::sync::Arc;

use crate::engine::view::View;
use crate::engine::write::Writer;
use crate::engine::write::guard::WriteGuard;
use crate::error::{Error, Result};
use crate::file::label::is_label;
use crate::file::superblock::{Commits, MAX_TAG, WRITERS_ROOM, writer_bytes, writers_bytes};
use crate::generation::Generation;
use crate::generation::log_summary::scan_marks;
use crate::memtable::Digest;
use crate::shm::handle_slot::HandleSlot;
use crate::wal::{LogError, Mark};

/// A writer's last commit.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The writer's name.
    pub writer: String,
    /// Its place among all commits of the store, counted from 1.
    pub sequence: u64,
    /// The bytes that were committed with it; empty for a plain commit.
    pub tag: Vec<u8>,
}

/// How often to read the logs again because another handle rotated or checkpointed meanwhile.
const MAX_READS_OF_COMMITS: usize = 1000;

impl Writer<'_> {
    /// Commits with a tag. When it returns, everything covered is durable.
    pub(crate) fn commit(&self, tag: &[u8]) -> Result<u64> {
        self.handle.check_writable()?;
        if tag.len() > MAX_TAG {
            return Err(Error::TagTooLarge {
                expected: MAX_TAG,
                got: tag.len(),
            });
        }
        let mut has_synced = false;
        let (sequence, active, end) = loop {
            let mut guard = self.lock()?;
            guard.ensure_log_space()?;
            // The commit may cover keys in the log that is being checkpointed. That log must be durable before this one
            // holds a mark, because the mark proves it.
            if let Some(sealed) = guard.view.sealed.clone()
                && sealed.buffer.durable() < sealed.buffer.tail().end
            {
                // Where a step takes no longer than the syncs of a new log, each round would meet another sealed one.
                let held = has_synced.then_some(guard);
                let outcome = self.sync_sealed(&sealed);
                self.handle.poison_on_failure(outcome)?;
                has_synced = true;
                match held {
                    Some(held) => guard = held,
                    None => continue,
                }
            }
            let sequence = guard.mark(tag)?;
            let active = Arc::clone(&guard.view.active);
            let end = guard.local.end.end;
            break (sequence, active, end);
        };
        // Sync without the writer lock: other threads go on inserting, and commits that arrive meanwhile share the next
        // sync.
        let log = self.logs.of(&active)?;
        let outcome = active.sync_commit(log, end);
        self.handle.poison_on_failure(outcome)?;
        // A file that has lost its name loses its contents when its last handle closes.
        self.handle.check_names(Some(log))?;
        Ok(sequence)
    }

    /// Returns how many keys this handle has changed since its last commit.
    pub(crate) fn uncommitted(&self) -> Result<u64> {
        self.handle.check_usable()?;
        // A handle that only reads has no slot, and in a forked process it is the parent's.
        match self.handle.writes() && self.handle.is_own() {
            true => Ok(self.shared.slot(self.handle.slot).uncommitted()),
            false => Ok(0),
        }
    }

    fn sync_sealed(&self, sealed: &Generation) -> Result<()> {
        match self.logs.of(sealed) {
            Ok(log) => sealed.sync_to(log, sealed.buffer.tail().end),
            // Its checkpoint is done, so everything it held is durable.
            Err(Error::Log {
                source: LogError::Missing { .. },
                ..
            }) if self.shared.checkpointed() > sealed.number() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the entries of all writers, from the superblock and the logs after it.
    pub(crate) fn commits(&self) -> Result<Commits> {
        for _ in 0..MAX_READS_OF_COMMITS {
            let view = Arc::clone(&*self.views.current()?);
            match self.commits_of(&view) {
                // A checkpoint finished meanwhile: read again.
                Err(_) if !view.is_current(self.shared) => {}
                outcome => return outcome,
            }
        }
        Err(Error::Busy {
            path: self.file.place.to_path_buf(),
            what: "other handles to make progress",
            process: None,
        })
    }

    fn commits_of(&self, view: &View) -> Result<Commits> {
        let mut commits = view.superblock.commits.clone();
        for generation in view.sealed.iter().chain([&view.active]) {
            if generation.has_log() {
                let log = self.logs.of(generation)?;
                scan_marks(log, generation.buffer.tail().end, &mut commits)?;
            }
        }
        Ok(commits)
    }

    /// Returns the last commit of each writer that commits: of all but the label's.
    pub(crate) fn named_commits(&self) -> Result<Commits> {
        let mut commits = self.commits()?;
        commits.retain(|writer, _| !is_label(&self.file.header, writer));
        Ok(commits)
    }

    /// Returns the last commit of a writer.
    pub(crate) fn last_commit(&self, name: &str) -> Result<Option<Commit>> {
        self.handle.check_usable()?;
        Ok(self.named_commits()?.remove(name).map(|entry| Commit {
            writer: name.to_owned(),
            sequence: entry.sequence,
            tag: entry.tag,
        }))
    }
}

impl WriteGuard<'_> {
    /// Appends the mark that commits this handle's keys.
    fn mark(&mut self, tag: &[u8]) -> Result<u64> {
        let writer = self.writer;
        let last = self.view.check_sequence(writer.shared);
        let sequence = last.map_err(|wrong| writer.handle.poison_shared(wrong))? + 1;
        let needed = writer_bytes(&writer.options.writer, tag.len());
        let (writers_bytes, is_known) = self.writers_bytes_with(needed)?;
        let slot = self.slot();
        if slot.transaction() != 0 {
            self.check_transaction(slot.transaction())?;
        }
        self.announce()?;
        let active = Arc::clone(&self.view.active);
        // Never beyond the log's end.
        let durable = active.buffer.durable().min(self.local.end.end);
        let mark = Mark {
            sequence,
            durable,
            writer: writer.options.writer.clone(),
            tag: tag.to_vec(),
        };
        self.append(|log, handle| log.commit(handle, &mark))?;
        writer.shared.set_commit_sequence(sequence);
        writer.shared.set_writers_bytes(writers_bytes);
        self.local.writer_bytes = Some(needed);
        self.local.all_bytes = is_known.then_some((sequence, writers_bytes));
        finish_commit(&active, self.slot());
        self.set_applied();
        Ok(sequence)
    }

    /// Returns the bytes that all writers need in a superblock if this one needs `needed`. If `needed` exceeds what
    /// this writer used before, there must certainly be room, or the log could no longer be read. In that case the sum
    /// in shared memory is not trusted: a writer that died behind its mark has not raised it. Also returns whether this
    /// handle knows the sum for certain.
    fn writers_bytes_with(&mut self, needed: u64) -> Result<(u64, bool)> {
        let writer = self.writer;
        let last = writer.shared.commit_sequence();
        let own = self
            .local
            .all_bytes
            .filter(|(sequence, _)| *sequence == last);
        let (before, all, is_known) = match (self.local.writer_bytes, own) {
            // No other handle has committed since.
            (Some(before), Some((_, all))) => (before, all, true),
            (Some(before), None) if needed <= before => {
                (before, writer.shared.writers_bytes(), false)
            }
            _ => {
                let commits = writer.commits()?;
                let name = &writer.options.writer;
                let entry = commits.get(name);
                let before = entry.map_or(0, |entry| writer_bytes(name, entry.tag.len()));
                (before, writers_bytes(&commits), true)
            }
        };
        let got = all.saturating_sub(before).saturating_add(needed);
        // A smaller entry is always accepted, so that a writer can recover from this.
        if got > WRITERS_ROOM as u64 && needed > before {
            return Err(Error::TooManyWriters {
                expected: WRITERS_ROOM,
                got: got as usize,
            });
        }
        Ok((got, is_known))
    }
}

/// Makes a handle's keys count in the buffer. Call it once the log holds a mark for them.
pub(crate) fn finish_commit(active: &Generation, slot: HandleSlot<'_>) {
    let state = slot.transaction();
    if state != 0 {
        active.buffer.commit_transaction(state);
        slot.set_transaction(0, 0);
    }
    slot.set_uncommitted(Digest::default(), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Options;

    /// A writer that dies behind its mark leaves the sum in shared memory too low.
    #[test]
    fn a_sum_of_tags_that_is_too_low_admits_no_tag_without_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let options = Options::new().capacity(1000).transactional(true);
        let of = |writer: &str| {
            let options = options.clone().writer(writer);
            options.open_or_create(&path).unwrap()
        };
        let most = WRITERS_ROOM as u64 / writer_bytes("w00", MAX_TAG);
        for number in 1..most {
            let store = of(&format!("w{number:02}"));
            store.commit_with(&[1; MAX_TAG]).unwrap();
            store.close().unwrap();
        }
        let (own, dead) = (of("own"), of("dead"));
        own.commit_with(&[2; 100]).unwrap();
        dead.commit_with(&[3; 4000]).unwrap();
        let writer = Writer::of(&dead.engine);
        let guard = writer.lock().unwrap();
        let shared = guard.writer.shared;
        shared.set_writers_bytes(shared.writers_bytes() - writer_bytes("dead", 4000));
        drop(guard);
        own.commit_with(&[2; 90]).unwrap();
        let refused = own.commit_with(&[2; 3400]);
        assert!(
            matches!(refused, Err(Error::TooManyWriters { .. })),
            "{refused:?}"
        );
        own.commit_with(&[2; 90]).unwrap();
        own.close().unwrap();
        dead.close().unwrap();
        assert_eq!(of("own").stats().unwrap().commits.len() as u64, most + 1);
    }
}
