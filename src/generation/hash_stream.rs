//! The keys of a closed log, in ranges of hashes. They come from the sealed table or, where memory has no room for that
//! table, from the log itself.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::error::Result;
use crate::generation::log_window::{LogWindow, within};
use crate::memtable::{ClosedKeys, DecidedBy};
use crate::wal::{LogFile, LogReader, Record, RecordKind};

/// The offset in the log up to which each handle's records are committed. `None` where every record counts.
pub(crate) type CommittedTo = Option<BTreeMap<u64, u64>>;

/// Where a checkpoint finds its keys.
#[derive(Debug, Clone)]
pub(crate) enum KeySource<'a> {
    Closed(ClosedKeys<'a>),
    Log {
        log: Arc<LogFile>,
        /// The kind of the records that hold the keys.
        kind: RecordKind,
        committed: CommittedTo,
        /// An upper bound of the number of keys in the log.
        count: u64,
    },
    /// Keys in memory, sorted.
    Sorted(Vec<u64>),
}

/// Takes a source's keys range by range, ascending.
pub(crate) struct KeyStream<'a> {
    source: &'a KeySource<'a>,
    window: LogWindow<u64>,
}

impl KeySource<'_> {
    /// Begins to take keys, with about `most` of them in memory at a time.
    pub(crate) fn stream(&self, most: u64) -> KeyStream<'_> {
        KeyStream {
            source: self,
            window: LogWindow::new(most),
        }
    }
}

impl KeyStream<'_> {
    /// Replaces `out` by the keys in a range, sorted, each once.
    pub(crate) fn load(&mut self, hashes: RangeInclusive<u64>, out: &mut Vec<u64>) -> Result<()> {
        self.load_by(hashes, |hash| hash, out)
    }

    /// Does the same, but sorts by a value that grows with the hash, such as the page. The fewer distinct values it
    /// has, the less there is to sort.
    pub(crate) fn load_by(
        &mut self,
        hashes: RangeInclusive<u64>,
        by: impl Fn(u64) -> u64,
        out: &mut Vec<u64>,
    ) -> Result<()> {
        out.clear();
        match self.source {
            KeySource::Closed(keys) => {
                // A store that removes has a source of its own, of changes.
                keys.collect(hashes, DecidedBy::LastRecord, out, &mut Vec::new());
                sort_nearly_sorted(out, by);
            }
            KeySource::Sorted(keys) => {
                // Where a range begins is looked for by halves.
                debug_assert!(keys.is_sorted());
                out.extend_from_slice(within(keys, &hashes, |hash| *hash));
                out.dedup();
            }
            KeySource::Log {
                log,
                kind,
                committed,
                count,
            } => {
                let read = |range: &RangeInclusive<u64>, ahead: &mut Vec<u64>| {
                    for_each_hash(log, *kind, committed, |hash| {
                        if range.contains(&hash) {
                            ahead.push(hash);
                        }
                    })?;
                    ahead.sort_unstable();
                    ahead.dedup();
                    Ok(())
                };
                let found = self.window.items(&hashes, *count, |hash| *hash, read)?;
                debug_assert!(found.is_sorted_by(|one, next| one < next), "each once");
                out.extend_from_slice(found);
            }
        }
        Ok(())
    }
}

/// Sorts keys that lie near their places already, as keys from a table do: moves each past the few greater ones before
/// it. Falls back to an ordinary sort if there are many after all.
pub(crate) fn sort_nearly_sorted(keys: &mut [u64], by: impl Fn(u64) -> u64) {
    let mut patience = keys.len().saturating_mul(32);
    let mut greatest = 0;
    for end in 0..keys.len() {
        let key = keys[end];
        let rank = by(key);
        if rank >= greatest {
            greatest = rank;
            continue;
        }
        let mut at = end;
        while at > 0 && by(keys[at - 1]) > rank {
            keys[at] = keys[at - 1];
            at -= 1;
        }
        keys[at] = key;
        patience = patience.saturating_sub(end - at);
        if patience == 0 {
            keys.sort_unstable();
            break;
        }
    }
    debug_assert!(keys.is_sorted_by_key(|key| by(*key)));
}

/// Calls `each` for the committed keys of a log, up to the end of its valid records.
pub(crate) fn for_each_committed(
    log: &LogFile,
    committed: &CommittedTo,
    each: impl FnMut(u64),
) -> Result<()> {
    for_each_hash(log, RecordKind::Insert, committed, each)
}

/// Calls `each` for the committed inserts (`true`) and removes (`false`) of a log, in their order.
pub(crate) fn for_each_change(
    log: &LogFile,
    committed: &CommittedTo,
    mut each: impl FnMut(u64, bool),
) -> Result<()> {
    for_each_counting(log, committed, |record| {
        let is_insert = match record.kind {
            RecordKind::Insert => true,
            RecordKind::Remove => false,
            // They change no key, or only how it is answered.
            RecordKind::Open
            | RecordKind::Commit
            | RecordKind::Cut
            | RecordKind::Exempt
            | RecordKind::Lost => return,
        };
        record.hashes().for_each(|hash| each(hash, is_insert));
    })
}

/// Calls `each` for the committed hashes in the records of one kind.
fn for_each_hash(
    log: &LogFile,
    kind: RecordKind,
    committed: &CommittedTo,
    mut each: impl FnMut(u64),
) -> Result<()> {
    for_each_counting(log, committed, |record| {
        if record.kind == kind {
            record.hashes().for_each(&mut each);
        }
    })
}

/// Calls `each` for the records that count, up to the one that closes the log.
fn for_each_counting(
    log: &LogFile,
    committed: &CommittedTo,
    mut each: impl FnMut(&Record<'_>),
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
        if counts {
            each(&record);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memtable::{Buffer, COMMITTED, Claim};
    use crate::page::place::page_of;
    use crate::wal::LogEnd;
    use crate::wal::tests::{Wish, log_in_memory, wishes, write};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Takes all keys in ranges that end at `cuts`.
    fn in_ranges(source: &KeySource<'_>, most: u64, mut cuts: Vec<u64>) -> Vec<Vec<u64>> {
        cuts.push(u64::MAX);
        cuts.sort_unstable();
        cuts.dedup();
        let mut stream = source.stream(most);
        let mut start = 0;
        let mut taken = Vec::new();
        for end in cuts {
            let mut keys = vec![7];
            stream.load(start..=end, &mut keys).unwrap();
            assert!(keys.iter().all(|key| (start..=end).contains(key)));
            taken.push(keys);
            start = end.saturating_add(1);
        }
        taken
    }

    proptest! {
        #[test]
        fn what_is_nearly_sorted_and_what_is_not_comes_out_sorted(
            keys in prop::collection::vec(any::<u64>(), 0..300),
            disorder in prop::collection::vec((0_usize..300, 0_usize..12), 0..50),
            shuffled in any::<bool>(),
            pages in 1_u64..200,
            by_page in any::<bool>(),
        ) {
            let by = |hash| if by_page { page_of(hash, pages) } else { hash };
            let mut twin = keys.clone();
            twin.sort_unstable();
            let mut got = if shuffled { keys } else { twin.clone() };
            for (at, by) in disorder {
                if at + by < got.len() {
                    got.swap(at, at + by);
                }
            }
            sort_nearly_sorted(&mut got, by);
            prop_assert!(got.is_sorted_by_key(|key| by(*key)));
            got.sort_unstable_by_key(|key| (by(*key), *key));
            prop_assert_eq!(got, twin);
        }

        /// The slow twin sorts everything that counts.
        #[test]
        fn a_log_gives_its_committed_keys_sorted(
            wishes in wishes(),
            ends in prop::option::of(prop::collection::btree_map(1_u64..6, 0_usize..20, 0..5)),
            most in 0_u64..40,
            cuts in prop::collection::vec(any::<u64>(), 0..10),
        ) {
            let (log, _) = log_in_memory();
            let written = write(&log, &mut LogEnd::begin(&log).unwrap(), &wishes);
            // A handle is committed up to the beginning of some record.
            let committed: CommittedTo = ends.map(|ends| {
                let at = |index: usize| written.get(index).map_or(u64::MAX, |record| record.start);
                ends.into_iter().map(|(handle, index)| (handle, at(index))).collect()
            });
            let mut twin = BTreeSet::new();
            for ((handle, wish), record) in wishes.iter().zip(&written) {
                let counts = match &committed {
                    None => true,
                    Some(to) => to.get(handle).is_some_and(|end| record.start < *end),
                };
                match wish {
                    Wish::Cut(_) => break,
                    Wish::Insert(keys) if counts => twin.extend(keys.iter().copied()),
                    _ => {}
                }
            }
            let count = twin.len() as u64;
            let kind = RecordKind::Insert;
            let source = KeySource::Log { log: Arc::new(log), kind, committed, count };
            let got: Vec<u64> = in_ranges(&source, most, cuts).concat();
            prop_assert_eq!(got, twin.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn a_buffer_gives_its_settled_keys_sorted(
            keys in prop::collection::vec((any::<u64>(), 0_usize..3), 0..200),
            cuts in prop::collection::vec(any::<u64>(), 0..10),
        ) {
            let buffer = Buffer::private(0, 1).unwrap();
            let open = buffer.begin_transaction(1).unwrap();
            let committed = buffer.begin_transaction(2).unwrap();
            let mut twin = BTreeSet::new();
            for (key, state) in keys {
                let state = [COMMITTED, open, committed][state];
                if let Claim::Claimed(slot) = buffer.claim(key) {
                    buffer.publish(slot, state);
                    if state != open {
                        twin.insert(key);
                    }
                }
            }
            buffer.commit_transaction(committed);
            let got: Vec<u64> = in_ranges(&KeySource::Closed(ClosedKeys::of(&buffer)), 1, cuts).concat();
            prop_assert_eq!(got, twin.into_iter().collect::<Vec<_>>());
        }
    }
}
