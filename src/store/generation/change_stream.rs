//! How a closed log changes a set of fingerprints, in ranges of them. The changes come from the sealed table or, where
//! memory has no room for that table, from the log itself.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use crate::buffer::ClosedKeys;
use crate::error::Result;
use crate::log::LogFile;
use crate::page::space::Space;
use crate::segment::pass::OwnedChanges;
use crate::store::generation::count_stream::add_up;
use crate::store::generation::hash_stream::{CommittedTo, for_each_change, sort_nearly_sorted};
use crate::store::generation::log_window::LogWindow;

/// Where a checkpoint finds its changes.
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
    space: Space,
    window: LogWindow<(u64, i64)>,
}

impl<'a> ChangeStream<'a> {
    /// Begins to take changes, with about `most` of them in memory at a time.
    pub(crate) fn new(source: ChangeSource<'a>, space: Space, most: u64) -> Self {
        Self {
            source,
            space,
            window: LogWindow::new(most),
        }
    }

    /// Returns the keys of the table, if the changes come from one.
    pub(crate) fn closed(&self) -> Option<&ClosedKeys<'a>> {
        match &self.source {
            ChangeSource::Closed(keys) => Some(keys),
            ChangeSource::Log { .. } => None,
        }
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
                let read = |range: &RangeInclusive<u64>, ahead: &mut Vec<(u64, i64)>| {
                    read_nets(log, committed, space, range, ahead)
                };
                let found = self
                    .window
                    .items(&hashes, *count, |(hash, _)| *hash, read)?;
                for (hash, net) in found {
                    match net {
                        0 => {}
                        1.. => added.push(space.fingerprint(*hash)),
                        _ => removed.push(space.fingerprint(*hash)),
                    }
                }
            }
        }
        Ok(())
    }
}

/// Reads by how much each key of a range differs in the end. A key is only inserted where it is absent, and only removed
/// where it is present.
fn read_nets(
    log: &LogFile,
    committed: &CommittedTo,
    space: Space,
    range: &RangeInclusive<u64>,
    nets: &mut Vec<(u64, i64)>,
) -> Result<()> {
    for_each_change(log, committed, |hash, is_insert| {
        let rounded = space.rounded(hash);
        if range.contains(&rounded) {
            nets.push((rounded, if is_insert { 1 } else { -1 }));
        }
    })?;
    add_up(nets, |hash| hash);
    Ok(())
}
