//! How a closed log changes a set of fingerprints, in ranges of them. The changes come from the sealed table or, where
//! memory has no room for that table, from the log itself.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use crate::error::Result;
use crate::fingerprint::segment::pass::OwnedChanges;
use crate::generation::hash_stream::{CommittedTo, for_each_change, sort_nearly_sorted};
use crate::generation::log_window::LogWindow;
use crate::memtable::ClosedKeys;
use crate::page::fingerprint_space::FingerprintSpace;
use crate::wal::LogFile;

/// So many records are kept before those that do not decide are given up.
const LEAST_KEPT: usize = 4096;

/// Where a checkpoint finds its changes.
#[derive(Clone)]
pub(crate) enum ChangeSource<'a> {
    Closed(ClosedKeys<'a>),
    Log {
        log: Arc<LogFile>,
        committed: CommittedTo,
        /// An upper bound of the number of changes in the log.
        count: u64,
    },
}

/// Takes a source's changes range by range, ascending.
pub(crate) struct ChangeStream<'a> {
    source: ChangeSource<'a>,
    space: FingerprintSpace,
    most: u64,
    /// Canonical hashes, and whether the last record of each inserts it.
    window: LogWindow<(u64, bool)>,
}

impl<'a> ChangeStream<'a> {
    /// Begins to take changes, with about `most` of them in memory at a time.
    pub(crate) fn new(source: ChangeSource<'a>, space: FingerprintSpace, most: u64) -> Self {
        Self {
            source,
            space,
            most,
            window: LogWindow::new(most),
        }
    }

    /// Begins to take the same changes again, on another thread. Returns `None` if that would read the whole of a log more
    /// than once.
    pub(crate) fn another(&self) -> Option<Self> {
        let is_cheap = match &self.source {
            ChangeSource::Closed(_) => true,
            ChangeSource::Log { count, .. } => *count <= self.most,
        };
        is_cheap.then(|| Self::new(self.source.clone(), self.space, self.most))
    }

    /// Replaces what `changes` holds by the changes in a range of fingerprints.
    pub(crate) fn load(
        &mut self,
        fingerprints: Range<u64>,
        changes: &mut OwnedChanges,
    ) -> Result<()> {
        let OwnedChanges { added, removed } = changes;
        added.clear();
        removed.clear();
        if fingerprints.is_empty() {
            return Ok(());
        }
        let (space, hashes) = (self.space, self.space.hashes(fingerprints));
        match &self.source {
            ChangeSource::Closed(keys) => {
                keys.collect(hashes, added, removed);
                for list in [added, removed] {
                    for hash in &mut *list {
                        *hash = space.fingerprint(*hash);
                    }
                    sort_nearly_sorted(list, |fingerprint| fingerprint);
                }
            }
            ChangeSource::Log {
                log,
                committed,
                count,
            } => {
                let read = |range: &RangeInclusive<u64>, ahead: &mut Vec<(u64, bool)>| {
                    read_lasts(log, committed, space, range, ahead)
                };
                let found = self
                    .window
                    .items(&hashes, *count, |(hash, _)| *hash, read)?;
                for (hash, is_insert) in found {
                    let list = if *is_insert {
                        &mut *added
                    } else {
                        &mut *removed
                    };
                    list.push(space.fingerprint(*hash));
                }
            }
        }
        Ok(())
    }
}

/// Reads what the last record of each key of a range is. A key that occurs repeatedly takes little more memory than one
/// that occurs once.
fn read_lasts(
    log: &LogFile,
    committed: &CommittedTo,
    space: FingerprintSpace,
    range: &RangeInclusive<u64>,
    lasts: &mut Vec<(u64, bool)>,
) -> Result<()> {
    let mut full = LEAST_KEPT;
    for_each_change(log, committed, |hash, is_insert| {
        let canonical = space.canonical(hash);
        if range.contains(&canonical) {
            lasts.push((canonical, is_insert));
            if lasts.len() >= full {
                keep_last(lasts);
                full = LEAST_KEPT.max(lasts.len() * 2);
            }
        }
    })?;
    keep_last(lasts);
    Ok(())
}

/// Sorts keys whose records are in order, and keeps the last record of each.
fn keep_last(lasts: &mut Vec<(u64, bool)>) {
    lasts.sort_by_key(|(canonical, _)| *canonical);
    lasts.dedup_by(|next, kept| {
        let is_same = next.0 == kept.0;
        if is_same {
            *kept = *next;
        }
        is_same
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::memtable::Buffer;
    use crate::page::key_model::KeyModel;
    use crate::wal::tests::log_in_memory;
    use crate::wal::{LogEnd, LogWriter};

    proptest! {
        /// The slow twin keeps the last record of each fingerprint in a sorted map. Table and log both give the same.
        #[test]
        fn table_and_log_give_the_last_record_of_each_fingerprint(
            records in prop::collection::vec(prop::collection::vec((0_u64..50, 0_u64..3), 0..40), 0..40),
            most in 0_u64..40,
            cuts in prop::collection::vec(any::<u64>(), 0..10),
        ) {
            let space = FingerprintSpace::new(1 << 20).unwrap();
            let (log, _) = log_in_memory();
            let mut at = LogEnd::begin(&log).unwrap();
            let mut scratch = Vec::new();
            let mut writer = LogWriter { log: &log, at: &mut at, scratch: &mut scratch };
            let buffer = Buffer::private(1 << 16, 1).unwrap().holding(KeyModel::Set(space));
            let mut twin: BTreeMap<u64, bool> = BTreeMap::new();
            let mut count = 0;
            for keys in &records {
                // Each record is of one kind, and takes its turn with each key.
                for kind in [false, true] {
                    let canonical = |key: u64| space.canonical(crate::hash::finalise(key));
                    let turns = |key: &&(u64, u64)| twin.get(&space.fingerprint(canonical(key.0))) != Some(&kind);
                    let mut hashes: Vec<u64> = keys.iter().filter(turns).map(|(key, low)| canonical(*key) + low).collect();
                    hashes.sort_unstable();
                    hashes.dedup_by_key(|hash| space.fingerprint(*hash));
                    match kind {
                        true => writer.insert(1, &hashes).unwrap(),
                        false => writer.remove(1, &hashes).unwrap(),
                    }
                    for hash in hashes {
                        twin.insert(space.fingerprint(hash), kind);
                        buffer.apply(hash, kind).unwrap();
                        count += 1;
                    }
                }
            }
            let mut cuts: Vec<u64> = cuts.iter().map(|cut| cut % space.count()).collect();
            cuts.push(space.count());
            cuts.sort_unstable();
            let sources = [
                ChangeSource::Closed(ClosedKeys::of(&buffer)),
                ChangeSource::Log { log: Arc::new(log), committed: None, count },
            ];
            for source in sources {
                let reads_once = matches!(&source, ChangeSource::Log { count, .. } if *count <= most);
                let is_closed = matches!(source, ChangeSource::Closed(_));
                let stream = ChangeStream::new(source, space, most);
                let another = stream.another();
                prop_assert_eq!(another.is_some(), is_closed || reads_once);
                let mut stream = another.unwrap_or(stream);
                let (mut begin, mut got) = (0, BTreeMap::new());
                for end in &cuts {
                    let mut changes = OwnedChanges { added: vec![7], removed: vec![7] };
                    stream.load(begin..*end, &mut changes).unwrap();
                    prop_assert!(changes.added.is_sorted() && changes.removed.is_sorted());
                    got.extend(changes.added.iter().map(|fingerprint| (*fingerprint, true)));
                    got.extend(changes.removed.iter().map(|fingerprint| (*fingerprint, false)));
                    begin = *end;
                }
                prop_assert_eq!(&got, &twin);
            }
        }
    }
}
