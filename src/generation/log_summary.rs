//! What a log holds, found in one pass over it.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::file::superblock::Commits;
use crate::file::{CommitEntry, Header, Layer};
use crate::generation::hash_stream::CommittedTo;
use crate::generation::sampling::Sampling;
use crate::memtable::Digest;
use crate::page::KeyModel;
use crate::sizing::MAX_LAYERS;
use crate::storefile::meta::Meta;
use crate::wal::{Cut, LogEnd, LogError, LogFile, LogReader, Mark, Record, RecordKind};

/// The outcome of a scan.
#[derive(Debug)]
pub(crate) struct LogSummary {
    /// The end of the valid records.
    pub(crate) end: LogEnd,
    /// The number of inserts and removes in the log, committed or not.
    pub(crate) keys: u64,
    /// The number of committed ones. In a store that is not transactional, all are.
    pub(crate) committed_keys: u64,
    /// The digest of the committed inserts, less that of the committed removes.
    pub(crate) digest: Digest,
    /// The number of hashes in records of exemptions.
    pub(crate) exempt: u64,
    /// The sampled ones among the keys that count, in no order.
    pub(crate) sampled: Vec<u64>,
    /// The content of the records of lost keys.
    pub(crate) lost: Vec<u64>,
    pub(crate) cut: Option<Cut>,
    /// The offset of the cut record.
    pub(crate) cut_offset: u64,
    pub(crate) committed: CommittedTo,
    /// The highest handle in the log.
    pub(crate) handle: u64,
    /// The last commit of each writer that committed in this log.
    pub(crate) commits: Commits,
    /// The highest commit sequence in the log.
    pub(crate) commit_sequence: u64,
}

impl LogSummary {
    /// Returns the summary of a log without a record.
    fn empty(end: LogEnd) -> Self {
        Self {
            end,
            keys: 0,
            committed_keys: 0,
            digest: Digest::default(),
            exempt: 0,
            sampled: Vec::new(),
            lost: Vec::new(),
            cut: None,
            cut_offset: 0,
            committed: None,
            handle: 0,
            commits: Commits::new(),
            commit_sequence: 0,
        }
    }

    /// Returns the time of its log, in a store that forgets, if it counts: something was accepted in it, or it was closed to
    /// drop what is forgotten. A wrong clock does no harm until then.
    pub(crate) fn clock_of(&self, log: &LogFile) -> Option<u64> {
        let is_accepted = self.committed_keys > 0 || self.commit_sequence > 0;
        let forgets = self.cut.as_ref().is_some_and(|cut| cut.forgets);
        log.clock.filter(|_| is_accepted || forgets)
    }

    /// Returns whether the layer that a cut names is the last one of the superblock or follows it.
    pub(crate) fn fits(&self, cut: &Cut, meta: &Meta) -> bool {
        let layers = &meta.superblock.layers;
        let index = cut.layer_index as usize;
        let Some(target) = &cut.layer else {
            return index == 0 && meta.superblock.directory.is_some();
        };
        if meta.superblock.directory.is_some() {
            return false;
        }
        let named = meta.superblock.named();
        let end = named.iter().map(|pages| pages.end).max().unwrap_or(0);
        match layers.get(index) {
            Some(layer) => index + 1 == layers.len() && layer == target,
            None => {
                index == layers.len()
                    && index < MAX_LAYERS as usize
                    && self.is_planned(target, meta)
                    && target.keys == 0
                    && end <= target.first_page
            }
        }
    }
}

impl LogSummary {
    /// Returns whether a growing store may have created this layer: as large at most as the last layer or the keys of
    /// the log call for, and with no more pages than a plan gives that many keys.
    fn is_planned(&self, layer: &Layer, meta: &Meta) -> bool {
        let Some(growth) = meta.header.growth() else {
            return false;
        };
        let layers = &meta.superblock.layers;
        let last = layers.last().map(|last| last.capacity);
        let Ok(most) = growth.next_capacity(last, self.keys) else {
            return false;
        };
        let plan = growth.layer(layers.len() as u32, layer.capacity);
        // A later version may plan a little better.
        layer.capacity <= most && plan.is_ok_and(|plan| layer.pages <= plan.pages.saturating_mul(2))
    }
}

/// Reads a log up to the end of its valid records, or to the record that closes it.
///
/// # Errors
/// [`LogError::Damaged`] if the valid records end before the part that was durable does.
pub(crate) fn scan(log: &LogFile, header: &Header) -> Result<LogSummary> {
    scan_sampling(log, header, None)
}

/// Does the same, and picks the sampled keys.
pub(crate) fn scan_sampling(
    log: &LogFile,
    header: &Header,
    sampling: Option<Sampling>,
) -> Result<LogSummary> {
    let mut reader = LogReader::new(log)?;
    let mut scanner = LogScanner {
        log,
        header,
        sampling,
        model: header.key_model(),
        found: LogSummary::empty(LogEnd::begin(log)?),
        committed: BTreeMap::new(),
        pending: BTreeMap::new(),
        sampled: Vec::new(),
    };
    while scanner.found.cut.is_none() {
        let Some(record) = reader.next()? else {
            break;
        };
        scanner.take(&record)?;
    }
    if scanner.found.cut.is_none() {
        reader.check_tail()?;
    }
    scanner.found.end.end = reader.end();
    scanner.found.end.previous = reader.previous();
    Ok(scanner.finish())
}

/// A scan in progress.
struct LogScanner<'a> {
    log: &'a LogFile,
    header: &'a Header,
    sampling: Option<Sampling>,
    model: KeyModel,
    found: LogSummary,
    committed: BTreeMap<u64, u64>,
    /// Each handle's keys since its last mark.
    pending: BTreeMap<u64, (u64, Digest)>,
    /// The sampled hashes, each with its handle and the offset of its record.
    sampled: Vec<(u64, u64, u64)>,
}

impl LogScanner<'_> {
    fn take(&mut self, record: &Record<'_>) -> Result<()> {
        let found = &mut self.found;
        found.handle = found.handle.max(record.handle);
        match record.kind {
            RecordKind::Open => {}
            RecordKind::Lost => found.lost.extend(record.hashes()),
            RecordKind::Exempt => found.exempt += record.hashes().len() as u64,
            RecordKind::Insert => self.take_insert(record),
            RecordKind::Remove if self.model.has_removes() => self.take_changes(record, -1),
            RecordKind::Remove => {
                let reason = "keys are removed from a filter that can't remove any";
                return Err(self.nonsense(record, reason));
            }
            RecordKind::Commit => {
                let mark = Mark::decode(record.payload);
                let unreadable = "its commit mark can't be read";
                self.take_mark(
                    record,
                    mark.ok_or_else(|| self.nonsense(record, unreadable))?,
                );
            }
            RecordKind::Cut => {
                let cut = Cut::decode(record.payload);
                // Only a store that forgets is closed to do so.
                let cut = cut.filter(|cut| !cut.forgets || self.header.window.is_some());
                let cut = cut.ok_or_else(|| self.nonsense(record, "its cut can't be read"))?;
                self.found.cut = Some(cut);
                self.found.cut_offset = record.offset;
            }
        }
        Ok(())
    }

    fn take_insert(&mut self, record: &Record<'_>) {
        if let Some(sampling) = self.sampling {
            let hashes = record.hashes().filter(|hash| sampling.has(*hash));
            let placed = hashes.map(|hash| (record.handle, record.offset, hash));
            self.sampled.extend(placed);
        }
        self.take_changes(record, 1);
    }

    /// Notes keys that come, or with `times` of -1 go.
    fn take_changes(&mut self, record: &Record<'_>, times: i64) {
        let count = record.hashes().len() as u64;
        self.found.keys += count;
        let (keys, digest) = self.pending.entry(record.handle).or_default();
        *keys += count;
        let model = self.model;
        digest.add_all(record.hashes().map(|hash| model.canonical(hash)), times);
    }

    fn take_mark(&mut self, record: &Record<'_>, mark: Mark) {
        let before = self.committed.insert(record.handle, record.offset);
        assert!(before.is_none_or(|before| before < record.offset));
        let (keys, digest) = self.pending.remove(&record.handle).unwrap_or_default();
        self.found.committed_keys += keys;
        self.found.digest.merge(digest, 1);
        self.found.commit_sequence = self.found.commit_sequence.max(mark.sequence);
        note(mark, &mut self.found.commits);
    }

    fn nonsense(&self, record: &Record<'_>, reason: &'static str) -> Error {
        Error::Log {
            path: self.log.path.clone(),
            source: LogError::Nonsense {
                offset: record.offset,
                reason,
            },
        }
    }

    fn finish(self) -> LogSummary {
        let (mut found, committed) = (self.found, self.committed);
        let transactional = self.header.transactional;
        let counts = |handle: u64, offset: u64| {
            !transactional || committed.get(&handle).is_some_and(|end| offset < *end)
        };
        let sampled = self.sampled.into_iter();
        let sampled = sampled.filter(|(handle, offset, _)| counts(*handle, *offset));
        found.sampled = sampled.map(|(_, _, hash)| hash).collect();
        if transactional {
            found.committed = Some(committed);
        } else {
            found.committed_keys = found.keys;
            let rest = self.pending.into_values();
            rest.for_each(|(_, digest)| found.digest.merge(digest, 1));
        }
        // By the first mark of its handle that follows it, and by no other.
        assert!(found.committed_keys <= found.keys, "committed twice");
        found
    }
}

/// Adds the marks of a log up to `end` to the earlier commits.
pub(crate) fn scan_marks(log: &LogFile, end: u64, commits: &mut Commits) -> Result<()> {
    let mut reader = LogReader::new(log)?;
    while reader.end() < end
        && let Some(record) = reader.next()?
    {
        if record.kind == RecordKind::Commit
            && let Some(mark) = Mark::decode(record.payload)
        {
            note(mark, commits);
        }
    }
    Ok(())
}

/// Keeps the newest mark of each writer.
fn note(mark: Mark, commits: &mut Commits) {
    let entry = CommitEntry {
        sequence: mark.sequence,
        tag: mark.tag,
    };
    commits.insert(mark.writer, entry);
}
