//! How a closed log changes a set of fingerprints, in ranges of them. The changes come from the sealed table or, where
//! memory has no room for that table, from the log itself.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use crate::error::Result;
use crate::fingerprint::segment::pass::OwnedChanges;
use crate::generation::hash_stream::{CommittedTo, for_each_change, sort_nearly_sorted};
use crate::generation::log_window::LogWindow;
use crate::memtable::{ClosedKeys, DecidedBy, Digest};
use crate::page::fingerprint_space::FingerprintSpace;
use crate::wal::LogFile;

/// So many records are kept before those of one key are joined.
const LEAST_KEPT: usize = 4096;

/// Where a checkpoint finds its changes.
#[derive(Clone)]
pub(crate) enum ChangeSource<'a> {
    Closed {
        keys: ClosedKeys<'a>,
        /// The digest of their log; `None` if no other process can change them.
        logged: Option<Digest>,
    },
    Log {
        log: Arc<LogFile>,
        committed: CommittedTo,
        /// An upper bound of the number of changes in the log.
        count: u64,
    },
    Nothing,
}

impl ChangeSource<'_> {
    /// Returns whether the changes are those of the log, after they were taken. If they aren't, what was taken may be anything.
    /// A word that had another value for a while and has its own again isn't noticed.
    pub(crate) fn is_as_logged(&self) -> bool {
        match self {
            Self::Closed {
                keys,
                logged: Some(logged),
            } => keys.digest() == *logged,
            Self::Closed { logged: None, .. } | Self::Log { .. } | Self::Nothing => true,
        }
    }
}

/// Takes a source's changes range by range, ascending.
pub(crate) struct ChangeStream<'a> {
    source: ChangeSource<'a>,
    space: FingerprintSpace,
    most: u64,
    decided_by: DecidedBy,
    window: LogWindow<Records>,
}

/// What the records of a log have made of a key.
#[derive(Debug, Clone, Copy)]
struct Records {
    canonical: u64,
    /// Inserts less removes.
    sum: i32,
    /// 1 if the last one inserts the key, -1 if it removes it.
    last: i32,
}

impl<'a> ChangeStream<'a> {
    /// Begins to take changes, with about `most` of them in memory at a time.
    pub(crate) fn new(source: ChangeSource<'a>, space: FingerprintSpace, most: u64) -> Self {
        Self {
            source,
            space,
            most,
            decided_by: DecidedBy::LastRecord,
            window: LogWindow::new(most),
        }
    }

    /// Takes those changes that these records decide; without a call, the last ones.
    pub(crate) fn decided_by(self, decided_by: DecidedBy) -> Self {
        Self { decided_by, ..self }
    }

    /// Begins to take the same changes again, on another thread. Returns `None` if that would read the whole of a log more
    /// than once.
    pub(crate) fn another(&self) -> Option<Self> {
        let is_cheap = match &self.source {
            ChangeSource::Closed { .. } | ChangeSource::Nothing => true,
            ChangeSource::Log { count, .. } => *count <= self.most,
        };
        let again = || Self::new(self.source.clone(), self.space, self.most);
        is_cheap.then(|| again().decided_by(self.decided_by))
    }

    pub(crate) fn is_as_logged(&self) -> bool {
        self.source.is_as_logged()
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
            ChangeSource::Nothing => {}
            ChangeSource::Closed { keys, logged } => {
                keys.collect(hashes, self.decided_by, added, removed);
                for list in [added, removed] {
                    for hash in &mut *list {
                        *hash = space.fingerprint(*hash);
                    }
                    sort_nearly_sorted(list, |fingerprint| fingerprint);
                    if logged.is_some() {
                        // A word that changes meanwhile may repeat another, and no list may have a fingerprint twice.
                        list.dedup();
                    }
                }
            }
            ChangeSource::Log {
                log,
                committed,
                count,
            } => {
                let read = |range: &RangeInclusive<u64>, ahead: &mut Vec<Records>| {
                    read_records(log, committed, space, range, ahead)
                };
                let found =
                    self.window
                        .items(&hashes, *count, |records| records.canonical, read)?;
                for records in found {
                    let change = match self.decided_by {
                        DecidedBy::LastRecord => records.last,
                        DecidedBy::Sum => records.sum,
                    };
                    match change {
                        0 => {}
                        1.. => added.push(space.fingerprint(records.canonical)),
                        _ => removed.push(space.fingerprint(records.canonical)),
                    }
                }
            }
        }
        Ok(())
    }
}

/// Reads what the records of each key of a range have made of it. A key that occurs repeatedly takes little more memory than
/// one that occurs once.
fn read_records(
    log: &LogFile,
    committed: &CommittedTo,
    space: FingerprintSpace,
    range: &RangeInclusive<u64>,
    records: &mut Vec<Records>,
) -> Result<()> {
    let mut full = LEAST_KEPT;
    for_each_change(log, committed, |hash, is_insert| {
        let canonical = space.canonical(hash);
        if range.contains(&canonical) {
            let change = if is_insert { 1 } else { -1 };
            records.push(Records {
                canonical,
                sum: change,
                last: change,
            });
            if records.len() >= full {
                join(records);
                full = LEAST_KEPT.max(records.len() * 2);
            }
        }
    })?;
    join(records);
    Ok(())
}

/// Sorts keys whose records are in order, and joins the records of each.
fn join(records: &mut Vec<Records>) {
    records.sort_by_key(|one| one.canonical);
    records.dedup_by(|next, kept| {
        let is_same = next.canonical == kept.canonical;
        if is_same {
            kept.sum = kept.sum.saturating_add(next.sum);
            kept.last = next.last;
        }
        is_same
    });
    debug_assert!(records.is_sorted_by(|one, next| one.canonical < next.canonical));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::memtable::Buffer;
    use crate::page::KeyModel;
    use crate::wal::tests::log_in_memory;
    use crate::wal::{LogEnd, LogWriter};

    /// Returns how each fingerprint changes, from ranges that end at these.
    fn all_of(mut stream: ChangeStream<'_>, ends: &[u64]) -> BTreeMap<u64, i64> {
        let (mut begin, mut got) = (0, BTreeMap::new());
        for end in ends {
            let mut changes = OwnedChanges {
                added: vec![7],
                removed: vec![7],
            };
            stream.load(begin..*end, &mut changes).unwrap();
            let OwnedChanges { added, removed } = changes;
            assert!(added.is_sorted() && removed.is_sorted());
            got.extend(added.iter().map(|fingerprint| (*fingerprint, 1)));
            got.extend(removed.iter().map(|fingerprint| (*fingerprint, -1)));
            begin = *end;
        }
        got
    }

    proptest! {
        /// The slow twin keeps the sum and the last record of each fingerprint in a sorted map. Table and log both give the same.
        #[test]
        fn table_and_log_give_what_the_records_make_of_each_fingerprint(
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
            // The sum of the records of each fingerprint, and the last one.
            let mut twin: BTreeMap<u64, (i64, i64)> = BTreeMap::new();
            let mut count = 0;
            for keys in &records {
                // Each record is of one kind, and takes its turn with each key.
                for kind in [false, true] {
                    let canonical = |key: u64| space.canonical(crate::hash::finalise(key));
                    let turns = |key: &&(u64, u64)| twin.get(&space.fingerprint(canonical(key.0))).map(|(_, last)| *last > 0) != Some(kind);
                    let mut hashes: Vec<u64> = keys.iter().filter(turns).map(|(key, low)| canonical(*key) + low).collect();
                    hashes.sort_unstable();
                    hashes.dedup_by_key(|hash| space.fingerprint(*hash));
                    match kind {
                        true => writer.insert(1, &hashes).unwrap(),
                        false => writer.remove(1, &hashes).unwrap(),
                    }
                    for hash in hashes {
                        let change = if kind { 1 } else { -1 };
                        let records = twin.entry(space.fingerprint(hash)).or_default();
                        *records = (records.0 + change, change);
                        buffer.apply(hash, kind).unwrap();
                        count += 1;
                    }
                }
            }
            let mut cuts: Vec<u64> = cuts.iter().map(|cut| cut % space.count()).collect();
            cuts.push(space.count());
            cuts.sort_unstable();
            let sources = [
                ChangeSource::Closed { keys: ClosedKeys::of(&buffer), logged: None },
                ChangeSource::Log { log: Arc::new(log), committed: None, count },
            ];
            let ways = [DecidedBy::LastRecord, DecidedBy::Sum];
            for (source, way) in sources.into_iter().flat_map(|source| ways.map(|way| (source.clone(), way))) {
                let reads_once = matches!(&source, ChangeSource::Log { count, .. } if *count <= most);
                let is_closed = matches!(source, ChangeSource::Closed { .. });
                let stream = ChangeStream::new(source, space, most).decided_by(way);
                let another = stream.another();
                prop_assert_eq!(another.is_some(), is_closed || reads_once);
                let got = all_of(another.unwrap_or(stream), &cuts);
                let change = |(sum, last): (i64, i64)| if way == DecidedBy::Sum { sum } else { last };
                let changes = twin.iter().map(|(fingerprint, records)| (*fingerprint, change(*records)));
                let expected: BTreeMap<_, _> = changes.filter(|(_, change)| *change != 0).collect();
                prop_assert_eq!(&got, &expected);
            }
        }
    }
}
