//! The inserts minus removes of a closed log, per key, in ranges of hashes. They come from the sealed table or, where
//! memory has no room for that table, from the log itself.

use std::ops::RangeInclusive;

use crate::error::Result;
use crate::generation::log_window::LogWindow;
use crate::memtable::Buffer;
use crate::wal::{LogFile, LogReader, RecordKind};

/// Where a checkpoint of a counting store finds its counts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NetSource<'a> {
    Buffer(&'a Buffer),
    Log {
        log: &'a LogFile,
        /// The number of inserts and removes in the log.
        count: u64,
    },
}

/// Takes a source's counts range by range, ascending.
pub(crate) struct NetStream<'a> {
    source: NetSource<'a>,
    window: LogWindow<(u64, i64)>,
    most: u64,
}

impl<'a> NetSource<'a> {
    /// Begins to take counts, with about `most` of them in memory at a time.
    pub(crate) fn stream(self, most: u64) -> NetStream<'a> {
        NetStream {
            source: self,
            window: LogWindow::new(most),
            most,
        }
    }
}

impl NetStream<'_> {
    /// Replaces `out` by the keys in a range whose inserts and removes do not cancel out, sorted, each once, with the
    /// difference.
    pub(crate) fn load(
        &mut self,
        hashes: RangeInclusive<u64>,
        out: &mut Vec<(u64, i64)>,
    ) -> Result<()> {
        out.clear();
        match self.source {
            NetSource::Buffer(buffer) => {
                buffer.collect_nets(hashes, out);
                out.sort_unstable();
            }
            NetSource::Log { log, count } => {
                let most = self.most;
                let read = |range: &_, ahead: &mut _| read_counts(log, range, most, ahead);
                let found = self.window.items(&hashes, count, |(hash, _)| *hash, read)?;
                out.extend_from_slice(found);
            }
        }
        Ok(())
    }
}

/// Reads the counts of a range. A key that occurs repeatedly takes no more memory than one that occurs once.
fn read_counts(
    log: &LogFile,
    range: &RangeInclusive<u64>,
    most: u64,
    ahead: &mut Vec<(u64, i64)>,
) -> Result<()> {
    let mut full = (most as usize).max(64) * 2;
    for_each_operation(log, |hash, by| {
        if range.contains(&hash) {
            ahead.push((hash, by));
            if ahead.len() >= full {
                add_up(ahead, |hash| hash);
                full = full.max(ahead.len() * 2);
            }
        }
    })?;
    add_up(ahead, |hash| hash);
    ahead.retain(|(_, net)| *net != 0);
    Ok(())
}

/// Sorts hashes by what they stand for, and adds up the counts of those that stand for the same.
pub(crate) fn add_up(nets: &mut Vec<(u64, i64)>, by: impl Fn(u64) -> u64) {
    nets.sort_unstable_by_key(|(hash, _)| by(*hash));
    nets.dedup_by(|next, kept| {
        let same = by(next.0) == by(kept.0);
        if same {
            kept.1 += next.1;
        }
        same
    });
    // One that is left twice would be counted twice.
    debug_assert!(nets.is_sorted_by(|one, next| by(one.0) < by(next.0)));
}

/// Calls `each` for the inserts (1) and removes (-1) of a counting store's log, up to the end of its valid records.
pub(crate) fn for_each_operation(log: &LogFile, mut each: impl FnMut(u64, i64)) -> Result<()> {
    let mut reader = LogReader::new(log)?;
    while let Some(record) = reader.next()? {
        let by = match record.kind {
            RecordKind::Cut => break,
            RecordKind::Insert => 1,
            RecordKind::Remove => -1,
            RecordKind::Open | RecordKind::Commit | RecordKind::Exempt | RecordKind::Lost => {
                continue;
            }
        };
        record.hashes().for_each(|hash| each(hash, by));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::tests::log_in_memory;
    use crate::wal::{LogEnd, LogWriter};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The slow twin adds everything up in a sorted map; table and log both give the same.
        #[test]
        fn table_and_log_give_the_same_numbers(
            records in prop::collection::vec((any::<bool>(), prop::collection::vec(0_u64..60, 0..30)), 0..30),
            most in 0_u64..40,
            cuts in prop::collection::vec(any::<u64>(), 0..10),
        ) {
            let (log, _) = log_in_memory();
            let mut at = LogEnd::begin(&log).unwrap();
            let mut scratch = Vec::new();
            let mut writer = LogWriter { log: &log, at: &mut at, scratch: &mut scratch };
            let buffer = Buffer::private(1 << 16, 1).unwrap();
            let mut twin: BTreeMap<u64, i64> = BTreeMap::new();
            let mut count = 0;
            for (up, keys) in &records {
                let hashes: Vec<_> = keys.iter().map(|key| crate::hash::finalise(*key)).collect();
                let by = if *up { 1 } else { -1 };
                match up {
                    true => writer.insert(1, &hashes).unwrap(),
                    false => writer.remove(1, &hashes).unwrap(),
                }
                for hash in hashes {
                    *twin.entry(hash).or_default() += by;
                    buffer.count(buffer.mark(hash).unwrap(), by);
                    count += 1;
                }
            }
            twin.retain(|_, net| *net != 0);
            let twin: Vec<_> = twin.into_iter().collect();
            let mut cuts = cuts;
            cuts.push(u64::MAX);
            cuts.sort_unstable();
            cuts.dedup();
            for source in [NetSource::Buffer(&buffer), NetSource::Log { log: &log, count }] {
                let mut stream = source.stream(most);
                let (mut start, mut got) = (0, Vec::new());
                for end in &cuts {
                    let mut part = vec![(7, 7)];
                    stream.load(start..=*end, &mut part).unwrap();
                    got.append(&mut part);
                    start = end.saturating_add(1);
                }
                prop_assert_eq!(&got, &twin);
            }
        }
    }
}
