//! Which of the engine's syncs one is, told from what was done before it.

use std::collections::BTreeMap;

use super::disk::Inode;

/// Offsets of FORMAT.md, written out: a test that took them from the code would not notice that
/// they moved.
const INTENTS: std::ops::Range<u64> = 4_096..12_288;
const SUPERBLOCKS: std::ops::Range<u64> = 16_384..131_072;
/// The word `reused` of a store of fingerprints, which is no intent and waits for nothing.
const WORD: usize = 8;
const RECORDS: u64 = 4_096;
/// A log's note, which is written behind each sync for a commit and waits for nothing.
const NOTE: u64 = 512;
const RECORD_KIND: usize = 12;
const KIND_COMMIT: u8 = 3;
const KIND_CUT: u8 = 4;

/// A place in the engine that waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Site {
    /// The file of a store that is being made.
    NewStore,
    /// The folder, once that file has its name.
    StoreName,
    /// A new log's header.
    NewLog,
    /// The folder, once there is a new log.
    LogName,
    /// The superblock that tells that there is a log.
    LogExpected,
    /// The log, at a commit.
    Commit,
    /// The closed log before it, at a commit.
    FrozenAtCommit,
    /// The closed log, before its checkpoint.
    CheckpointLog,
    /// The first intent of a checkpoint.
    FirstIntent,
    /// A chunk of pages and the intent for the next one.
    Chunk,
    /// The last pages of a checkpoint.
    Pages,
    /// The superblock that ends a checkpoint.
    Checkpoint,
    /// The folder, once the log of a checkpoint is removed.
    Removal,
    /// A log that was found at opening.
    FoundLog,
    /// The folder, once a log older than the superblock is removed at opening.
    RemovalOfOld,
    /// The folder, once a log that never counted is removed at opening.
    RemovalOfNext,
    /// The folder, once a log without a header is removed at opening.
    RemovalOfHalf,
    /// Nothing was seen that leads to a sync: threads have crossed.
    Unknown,
}

/// What happened to a log since it was last synced.
#[derive(Debug, Default)]
struct Log {
    header: bool,
    last_kind: Option<u8>,
}

/// Watches one process use a store.
#[derive(Debug, Default)]
pub struct Watch {
    intents: bool,
    pages: bool,
    superblock: bool,
    /// An intent of the checkpoint under way is durable.
    sweeping: bool,
    /// The last thing that happened to logs as a whole is that one was made.
    fresh_log: bool,
    logs: BTreeMap<Inode, Log>,
    opened: Vec<String>,
    last_name: Option<Site>,
    asked_for: Option<String>,
    pub committing: bool,
}

pub fn is_log(name: &str) -> bool {
    name.contains("-log.")
}

impl Watch {
    pub fn exists(&mut self, name: &str) {
        self.asked_for = Some(name.to_owned());
    }

    pub fn create(&mut self, name: &str, inode: Inode) {
        if is_log(name) {
            self.fresh_log = true;
            self.last_name = Some(Site::LogName);
            self.logs.insert(inode, Log::default());
        }
    }

    pub fn open(&mut self, name: &str) {
        self.opened.push(name.to_owned());
    }

    pub fn publish(&mut self) {
        self.last_name = Some(Site::StoreName);
    }

    pub fn remove(&mut self, name: &str) {
        // Recovery alone asks first.
        let recovering = self.asked_for.take().is_some_and(|asked| asked == name);
        let removal = if !recovering {
            Site::Removal
        } else if self.opened.iter().any(|opened| opened == name) {
            Site::RemovalOfHalf
        } else if self.opened.iter().any(|opened| is_log(opened)) {
            Site::RemovalOfNext
        } else {
            Site::RemovalOfOld
        };
        if is_log(name) {
            self.last_name = Some(removal);
        }
    }

    pub fn write(&mut self, name: &str, inode: Inode, offset: u64, bytes: &[u8]) {
        self.asked_for = None;
        if is_log(name) {
            let log = self.logs.entry(inode).or_default();
            if offset < RECORDS {
                log.header |= offset < NOTE;
                return;
            }
            let kind = bytes.get(RECORD_KIND).copied();
            log.last_kind = kind;
            if kind == Some(KIND_CUT) {
                self.fresh_log = false;
            }
        } else if INTENTS.contains(&offset) && bytes.len() > WORD {
            self.intents = true;
        } else if SUPERBLOCKS.contains(&offset) {
            self.superblock = true;
        } else if offset >= SUPERBLOCKS.end {
            self.pages = true;
        }
    }

    pub fn sync_folder(&mut self) -> Site {
        self.last_name.take().unwrap_or(Site::Unknown)
    }

    pub fn sync_log(&mut self, inode: Inode, first_of_found: bool) -> Site {
        let checkpointing = std::thread::current().name() == Some("everseen-checkpoint");
        let log = self.logs.entry(inode).or_default();
        if std::mem::take(&mut log.header) {
            Site::NewLog
        } else if first_of_found {
            Site::FoundLog
        } else if checkpointing || !self.committing {
            Site::CheckpointLog
        } else if log.last_kind == Some(KIND_COMMIT) {
            Site::Commit
        } else {
            Site::FrozenAtCommit
        }
    }

    pub fn sync_store(&mut self, name: &str) -> Site {
        let intents = std::mem::take(&mut self.intents);
        let pages = std::mem::take(&mut self.pages);
        let superblock = std::mem::take(&mut self.superblock);
        if name.ends_with("-new") {
            Site::NewStore
        } else if superblock && std::mem::take(&mut self.fresh_log) {
            Site::LogExpected
        } else if superblock {
            self.sweeping = false;
            Site::Checkpoint
        } else if intents && !std::mem::replace(&mut self.sweeping, true) {
            Site::FirstIntent
        } else if intents {
            Site::Chunk
        } else if pages || self.sweeping {
            Site::Pages
        } else {
            Site::Unknown
        }
    }
}
