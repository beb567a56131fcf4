//! What recovery asks, by kind: how a log's records fill a write buffer again, and a repair that it begins with.

use crate::error::Result;
use crate::file::Header;
use crate::generation::count_stream::for_each_operation;
use crate::generation::hash_stream::{CommittedTo, for_each_change, for_each_committed};
use crate::memtable::{self, Buffer, COMMITTED, Claim};
use crate::page::Kind;
use crate::wal::LogFile;

pub(crate) use crate::fingerprint::directory_file::repair_reused;

/// How many keys are prefetched before the first of them is claimed.
const APPEND_AHEAD: usize = 32;

/// Returns whether a buffer of `bytes` bytes may have room for a log with this many keys. Where keys are counted, the same
/// ones may occur many times.
pub(crate) fn may_fit(header: &Header, keys: u64, bytes: u64) -> bool {
    match header.kind {
        Kind::Counting => true,
        Kind::Bloom | Kind::Scalable | Kind::Fingerprint => keys <= memtable::limit_of(bytes),
    }
}

/// Fills an empty buffer with what a log has committed, and returns whether all of it had room.
pub(crate) fn replay(
    header: &Header,
    memory: &Buffer,
    log: &LogFile,
    committed: &CommittedTo,
) -> Result<bool> {
    match header.kind {
        Kind::Bloom | Kind::Scalable => replay_inserts(memory, log, committed),
        Kind::Counting => replay_counts(memory, log),
        Kind::Fingerprint => replay_changes(memory, log, committed),
    }
}

/// Does the same for counters.
fn replay_counts(memory: &Buffer, log: &LogFile) -> Result<bool> {
    let mut fits = true;
    for_each_operation(log, |hash, by| match memory.mark(hash) {
        Some(slot) => memory.count(slot, by),
        None => fits = false,
    })?;
    memory.unmark_all();
    Ok(fits)
}

/// Does the same for a set, with removes.
fn replay_changes(memory: &Buffer, log: &LogFile, committed: &CommittedTo) -> Result<bool> {
    let (mut keys, mut net, mut fits) = (0, 0, true);
    for_each_change(log, committed, |hash, is_insert| {
        match memory.apply(hash, is_insert) {
            Some(change) => {
                keys += change.unsigned_abs();
                net += change;
            }
            None => fits = false,
        }
    })?;
    memory.set_keys(keys);
    memory.set_net_keys(net);
    Ok(fits)
}

/// Fills the buffer with the log's committed keys, and returns whether all had room.
fn replay_inserts(memory: &Buffer, log: &LogFile, committed: &CommittedTo) -> Result<bool> {
    let mut keys = 0;
    let mut fits = true;
    let mut claim = |hash| match memory.claim(hash) {
        Claim::Claimed(slot) => {
            memory.publish(slot, COMMITTED);
            keys += 1;
        }
        // The keys crowd into a few buckets, which does not happen with an honest hash.
        Claim::NoRoom => fits = false,
        _ => {}
    };
    // Prefetch each key some keys before claiming it: the table is larger than any cache.
    let mut ahead = [0; APPEND_AHEAD];
    let mut count = 0;
    for_each_committed(log, committed, |hash| {
        memory.prefetch(hash);
        let before = std::mem::replace(&mut ahead[count % APPEND_AHEAD], hash);
        if count >= APPEND_AHEAD {
            claim(before);
        }
        count += 1;
    })?;
    let rest = count.min(APPEND_AHEAD);
    (count - rest..count).for_each(|place| claim(ahead[place % APPEND_AHEAD]));
    memory.set_keys(keys);
    Ok(fits)
}
