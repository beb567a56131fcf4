//! The keys of a closed log, in ranges of hashes: from the frozen table, or, where memory has no
//! room for that table, from the log itself.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::buffer::{Buffer, Presence};
use crate::error::Result;
use crate::log::{LogFile, LogReader, RecordKind};

/// Up to where each handle's records are committed, by offset in the log. `None` where every
/// record counts.
pub(crate) type CommittedTo = Option<BTreeMap<u64, u64>>;

/// Where a checkpoint finds its keys.
#[derive(Debug, Clone)]
pub(crate) enum KeySource<'a> {
    Buffer(&'a Buffer),
    Log {
        log: Arc<LogFile>,
        committed: CommittedTo,
        /// Keys in the log, at most.
        count: u64,
    },
}

/// Takes a source's keys range after range, ascending.
pub(crate) struct KeyStream<'a> {
    source: &'a KeySource<'a>,
    /// From a log: the keys of a range that was read ahead, sorted.
    ahead: Vec<u64>,
    covered: Option<RangeInclusive<u64>>,
    most: u64,
}

impl KeySource<'_> {
    /// Begins to take keys, some `most` at a time in memory.
    pub(crate) fn stream(&self, most: u64) -> KeyStream<'_> {
        KeyStream {
            source: self,
            ahead: Vec::new(),
            covered: None,
            most,
        }
    }
}

impl KeyStream<'_> {
    /// Replaces `out` by the keys in a range, sorted, each once.
    pub(crate) fn load(&mut self, hashes: RangeInclusive<u64>, out: &mut Vec<u64>) -> Result<()> {
        out.clear();
        match self.source {
            KeySource::Buffer(buffer) => {
                buffer.collect(hashes, |found| found == Presence::Settled, out);
                out.sort_unstable();
            }
            KeySource::Log {
                log,
                committed,
                count,
            } => {
                let held = self.covered.as_ref().is_some_and(|held| {
                    held.contains(hashes.start()) && held.contains(hashes.end())
                });
                if !held {
                    let end = (*hashes.end()).max(read_ahead(*hashes.start(), self.most, *count));
                    let range = *hashes.start()..=end;
                    self.ahead.clear();
                    let ahead = &mut self.ahead;
                    for_each_committed(log, committed, |hash| {
                        if range.contains(&hash) {
                            ahead.push(hash);
                        }
                    })?;
                    ahead.sort_unstable();
                    ahead.dedup();
                    self.covered = Some(range);
                }
                let from = self.ahead.partition_point(|hash| hash < hashes.start());
                let to = self.ahead.partition_point(|hash| hash <= hashes.end());
                out.extend_from_slice(&self.ahead[from..to]);
            }
        }
        Ok(())
    }
}

/// The end of a range from `start` that holds about `most` of `count` evenly spread keys.
fn read_ahead(start: u64, most: u64, count: u64) -> u64 {
    let span = (u128::from(most) << 64) / u128::from(count.max(1));
    let end = u128::from(start).saturating_add(span);
    u64::try_from(end).unwrap_or(u64::MAX)
}

/// Goes through the committed keys of a log, up to where its valid records end.
pub(crate) fn for_each_committed(
    log: &LogFile,
    committed: &CommittedTo,
    mut each: impl FnMut(u64),
) -> Result<()> {
    let mut reader = LogReader::new(log)?;
    while let Some(record) = reader.next()? {
        if record.kind == RecordKind::Cut {
            break;
        }
        let counts = match committed {
            None => true,
            Some(to) => to
                .get(&record.handle)
                .is_some_and(|end| record.offset < *end),
        };
        if record.kind == RecordKind::Insert && counts {
            record.hashes().for_each(&mut each);
        }
    }
    Ok(())
}
