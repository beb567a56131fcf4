//! Recovery: what the logs say, and going on from there (FORMAT.md, "Recovery").

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::Options;
use super::engine::{Engine, Frozen, View, Writer};
use super::keys::{CommittedTo, KeySource, for_each_committed};
use super::open::Identity;
use crate::buffer::{COMMITTED, Claim, FIRST_TRANSACTION, Table};
use crate::error::{Error, Result};
use crate::file::superblock::Commits;
use crate::file::{CommitEntry, LayerPages};
use crate::log::file::sync_parent;
use crate::log::{Cut, LogError, LogFile, LogReader, LogWriter, Mark, RecordKind, log_path};
use crate::sys::storage::Storage;

/// What a log holds, found in one pass over it.
struct Scan {
    log: Arc<LogFile>,
    /// Where valid records end, and the CRC of the last one.
    end: u64,
    previous: u32,
    /// Keys in it, committed or not.
    keys: u64,
    cut: Option<Cut>,
    committed: CommittedTo,
    /// Highest handle seen.
    handle: u64,
}

/// What an engine starts with after its logs have been read.
pub(crate) struct Recovered {
    active: Arc<Table>,
    frozen_table: Option<Arc<Table>>,
    pub(crate) writer: Writer,
    pub(crate) frozen: Option<Frozen>,
    /// The active log has more keys than the buffer takes: they must go into the pages first.
    pub(crate) overflow: Option<KeySource>,
}

impl Recovered {
    pub(crate) fn view(&self, layers: Vec<Arc<LayerPages>>) -> View {
        View {
            active: Arc::clone(&self.active),
            frozen: self.frozen_table.clone(),
            layers,
        }
    }
}

/// Reads the logs of a store that is being opened for writing, and removes what does not count.
pub(crate) fn recover(options: &Options, path: &Path, identity: &Identity) -> Result<Recovered> {
    Recovery {
        options,
        path,
        identity,
        write: true,
    }
    .run()
}

/// Reads the logs of a store that is being opened for reading, and changes nothing.
pub(crate) fn read(options: &Options, path: &Path, identity: &Identity) -> Result<Recovered> {
    Recovery {
        options,
        path,
        identity,
        write: false,
    }
    .run()
}

struct Recovery<'a> {
    options: &'a Options,
    path: &'a Path,
    identity: &'a Identity,
    write: bool,
}

impl Recovery<'_> {
    fn run(&self) -> Result<Recovered> {
        let superblock = &self.identity.superblock;
        let generation = superblock.generation;
        let mut writer = Writer::idle(superblock);
        if self.write {
            // Its checkpoint was done, and the removal of its name not yet durable.
            self.remove_log(generation - 1)?;
        }
        let Some(first) = self.open_first(generation)? else {
            return self.without_log(writer);
        };
        let first = self.scan(first, &mut writer)?;
        let commits_at_cut = (writer.commit_sequence, writer.commits.clone());
        let Some(cut) = first.cut.clone() else {
            self.expect_no_checkpoint(&first)?;
            if self.write {
                // Made by a rotation that did not come to close this one: it never counted.
                self.remove_log(generation + 1)?;
            }
            return self.with_active(writer, first, None);
        };
        let mut frozen = Frozen {
            keys: KeySource::Log {
                log: Arc::clone(&first.log),
                committed: first.committed.clone(),
                count: first.keys,
            },
            count: first.keys,
            commit_sequence: commits_at_cut.0,
            commits: commits_at_cut.1,
            first_intent: 0,
            torn: 0..0,
            log: Arc::clone(&first.log),
            cut,
        };
        if let Some(intent) = self.intent() {
            frozen.first_intent = intent.sequence.saturating_add(1);
            frozen.torn = intent.pages.clone();
        }
        writer.generation = generation + 1;
        if frozen.cut.last {
            return self.with_frozen_alone(writer, frozen);
        }
        let Some(second) = self.open_log(generation + 1)? else {
            return Err(self.missing(generation + 1));
        };
        let second = self.scan(second, &mut writer)?;
        if second.cut.is_some() {
            return Err(Error::Log {
                path: second.log.path.clone(),
                source: LogError::Nonsense {
                    offset: second.end,
                    reason: "it is closed, and the log before it is still there",
                },
            });
        }
        self.with_active(writer, second, Some(frozen))
    }

    fn missing(&self, generation: u64) -> Error {
        Error::Log {
            path: log_path(self.path, generation),
            source: LogError::Missing { generation },
        }
    }

    /// The log of the superblock's own generation.
    fn open_first(&self, generation: u64) -> Result<Option<LogFile>> {
        let expected = self.identity.superblock.log_expected;
        match self.open_log(generation) {
            Ok(None) if expected => Err(self.missing(generation)),
            // Half made when its maker died, which had told nobody yet.
            Err(Error::Log {
                source: LogError::Header,
                ..
            }) if !expected => {
                if self.write {
                    self.remove_log(generation)?;
                }
                Ok(None)
            }
            outcome => outcome,
        }
    }

    fn open_log(&self, generation: u64) -> Result<Option<LogFile>> {
        let storage = &*self.options.storage;
        let id = &self.identity.header.store_id;
        let log = LogFile::open(storage, self.path, id, generation, self.write)?;
        if let Some(log) = &log
            && self.write
        {
            // What a killed process left in the page cache must not count today and be gone
            // tomorrow.
            let synced = log.file.sync();
            synced.map_err(|error| Error::sync("sync the log", &log.path, error))?;
        }
        Ok(log)
    }

    fn remove_log(&self, generation: u64) -> Result<()> {
        let storage: &dyn Storage = &*self.options.storage;
        let path = log_path(self.path, generation);
        let failed = |error| Error::io("remove a log that has done its service", &path, error);
        if storage.exists(&path).map_err(failed)? {
            storage.remove(&path).map_err(failed)?;
            sync_parent(storage, &path)?;
        }
        Ok(())
    }

    /// The intent of an interrupted checkpoint of the superblock's generation.
    fn intent(&self) -> Option<&crate::file::Intent> {
        let generation = self.identity.superblock.generation;
        let intent = self.identity.intent.as_ref();
        intent.filter(|intent| intent.generation == generation)
    }

    /// A checkpoint begins only when the record that closes the log is durable.
    fn expect_no_checkpoint(&self, scan: &Scan) -> Result<()> {
        match self.intent() {
            None => Ok(()),
            Some(_) => Err(Error::Log {
                path: scan.log.path.clone(),
                source: LogError::Unsealed { end: scan.end },
            }),
        }
    }

    /// Reads a log through and keeps its marks in `writer`.
    fn scan(&self, log: LogFile, writer: &mut Writer) -> Result<Scan> {
        let log = Arc::new(log);
        let mut reader = LogReader::new(&log)?;
        let mut committed = BTreeMap::new();
        let mut keys: u64 = 0;
        let mut cut = None;
        let mut handle = 0;
        while cut.is_none() {
            let Some(record) = reader.next()? else {
                break;
            };
            let offset = record.offset;
            let nonsense = |reason| Error::Log {
                path: log.path.clone(),
                source: LogError::Nonsense { offset, reason },
            };
            handle = handle.max(record.handle);
            match record.kind {
                RecordKind::Open => {}
                RecordKind::Insert => keys += record.hashes().len() as u64,
                RecordKind::Commit => {
                    let mark = Mark::decode(record.payload)
                        .ok_or_else(|| nonsense("its commit mark can't be read"))?;
                    committed.insert(record.handle, offset);
                    note(mark, writer);
                }
                RecordKind::Cut => {
                    let found = Cut::decode(record.payload)
                        .ok_or_else(|| nonsense("its cut can't be read"))?;
                    self.check_cut(&found)
                        .then_some(())
                        .ok_or_else(|| nonsense("its layer does not fit the superblock's"))?;
                    cut = Some(found);
                }
            }
        }
        if cut.is_none() {
            reader.check_tail()?;
        }
        let (end, previous) = (reader.end(), reader.previous());
        log.set_written(end);
        Ok(Scan {
            committed: self.identity.header.transactional.then_some(committed),
            log,
            end,
            previous,
            keys,
            cut,
            handle,
        })
    }

    /// Whether the layer that a cut names is the last one or follows it.
    fn check_cut(&self, cut: &Cut) -> bool {
        let layers = &self.identity.superblock.layers;
        let index = cut.layer_index as usize;
        match layers.get(index) {
            Some(layer) => index + 1 == layers.len() && *layer == cut.layer,
            None => {
                index == layers.len()
                    && index < crate::file::layer::MAX_LAYERS
                    && self.identity.header.growth().is_some()
                    && cut.layer.keys == 0
                    && layers
                        .last()
                        .is_none_or(|last| last.end_page() <= cut.layer.first_page)
            }
        }
    }

    fn without_log(&self, writer: Writer) -> Result<Recovered> {
        Ok(Recovered {
            active: Arc::new(self.table(0)?),
            frozen_table: None,
            writer,
            frozen: None,
            overflow: None,
        })
    }

    fn with_frozen_alone(&self, writer: Writer, mut frozen: Frozen) -> Result<Recovered> {
        let frozen_table = self.load_frozen(&mut frozen)?;
        Ok(Recovered {
            active: Arc::new(self.table(0)?),
            frozen_table,
            writer,
            frozen: Some(frozen),
            overflow: None,
        })
    }

    fn with_active(
        &self,
        mut writer: Writer,
        scan: Scan,
        mut frozen: Option<Frozen>,
    ) -> Result<Recovered> {
        let frozen_table = match frozen.as_mut() {
            Some(frozen) => self.load_frozen(frozen)?,
            None => None,
        };
        writer.handle = scan.handle.saturating_add(1);
        if self.write {
            let log = Arc::clone(&scan.log);
            writer.log = Some(LogWriter::resume(log, scan.end, scan.previous)?);
        } else {
            writer.unwritten_log = scan.end;
        }
        let mut overflow = None;
        let mut active = self.table(scan.keys)?;
        if scan.keys > active.limit() {
            overflow = Some(KeySource::Log {
                log: Arc::clone(&scan.log),
                committed: scan.committed,
                count: scan.keys,
            });
            active = self.table(0)?;
        } else {
            fill(&active, &scan.log, &scan.committed)?;
            writer.active_keys = active.used();
        }
        Ok(Recovered {
            active: Arc::new(active),
            frozen_table,
            writer,
            frozen,
            overflow,
        })
    }

    /// Loads the keys of a closed log into a table if that fits the grant.
    fn load_frozen(&self, frozen: &mut Frozen) -> Result<Option<Arc<Table>>> {
        let KeySource::Log { log, committed, .. } = &frozen.keys else {
            return Ok(None);
        };
        let table = self.table(frozen.count)?;
        if frozen.count > table.limit() {
            return Ok(None);
        }
        fill(&table, log, committed)?;
        frozen.count = table.used();
        let table = Arc::new(table);
        frozen.keys = KeySource::Table {
            table: Arc::clone(&table),
            open_transaction: FIRST_TRANSACTION,
        };
        Ok(Some(table))
    }

    /// A table as large as the grant allows. A reader, who can't empty a log into the pages, must
    /// have room for all of its `keys`.
    fn table(&self, keys: u64) -> Result<Table> {
        let bytes = self.options.table_bytes();
        if !self.write && Table::limit_of(bytes) < keys {
            let least = Table::bytes_for(keys) / 7 * 16 + 4096;
            return Err(Error::InvalidOption {
                option: "buffer",
                expected: format!("at least {least} bytes, for the {keys} keys of the log"),
                got: self.options.buffer.to_string(),
            });
        }
        Table::new(bytes).map_err(|error| Error::io("reserve memory for", self.path, error))
    }
}

/// Keeps the newest mark of each writer.
fn note(mark: Mark, writer: &mut Writer) {
    writer.commit_sequence = writer.commit_sequence.max(mark.sequence);
    let entry = CommitEntry {
        sequence: mark.sequence,
        tag: mark.tag,
    };
    let commits: &mut Commits = &mut writer.commits;
    commits.insert(mark.writer, entry);
}

fn fill(table: &Table, log: &LogFile, committed: &CommittedTo) -> Result<()> {
    for_each_committed(log, committed, |hash| {
        if let Claim::Claimed(slot) = table.claim(hash) {
            table.publish(slot, COMMITTED);
        }
    })
}

impl Engine {
    /// Goes on with what recovery has found: an interrupted checkpoint in the background, and a log
    /// that memory has no room for before anything else.
    pub(crate) fn resume(&self, overflow: Option<KeySource>) -> Result<()> {
        let mut guard = self.lock_writer()?;
        let writer = &mut *guard;
        let Some(keys) = overflow else {
            let state = crate::sys::lock(&self.checkpoint);
            let target = state
                .frozen
                .as_ref()
                .map(|frozen| (frozen.count, frozen.cut.layer_index, frozen.cut.layer));
            writer.room = match &target {
                Some((count, index, layer)) => {
                    self.room_after(&state.superblock, *count, Some((*index, layer)))
                }
                None => self.room_after(&state.superblock, 0, None),
            };
            let due = state.frozen.as_ref();
            let in_memory = due.is_none_or(|frozen| matches!(frozen.keys, KeySource::Table { .. }));
            drop(state);
            drop(guard);
            return if in_memory {
                self.start_checkpoint()
            } else {
                self.run_checkpoint()
            };
        };
        self.rotate_overflow(writer, keys)?;
        drop(guard);
        self.run_checkpoint()
    }
}
