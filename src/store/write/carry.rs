//! Carrying open transactions over into the next generation: its buffer and its log begin with their keys.

use std::collections::BTreeMap;

use crate::buffer::{Buffer, Claim, OpenKeys, RemovalClaim, Wrong};
use crate::error::{Error, Result};
use crate::log::{LogEnd, LogReader, RecordKind};
use crate::store::coordination::handle_slot::HandleSlot;
use crate::store::generation::count_stream::add_up;
use crate::store::write::Writer;
use crate::store::write::guard::WriteGuard;

/// A handle's uncommitted keys, as its records have them.
pub(crate) struct Carried {
    pub(crate) handle: u64,
    pub(crate) keys: OpenKeys,
}

/// What a handle's records since its last commit say, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct OpenRecords {
    /// Hashes, and by how much the number of keys changes with each.
    nets: Vec<(u64, i64)>,
    removes: bool,
}

impl OpenRecords {
    fn add(&mut self, is_insert: bool, hashes: impl Iterator<Item = u64>) {
        let net = if is_insert { 1 } else { -1 };
        self.nets.extend(hashes.map(|hash| (hash, net)));
        self.removes |= !is_insert;
    }

    /// Returns which keys differ in the end. `rounded` returns what the buffer takes for one key.
    fn keys(mut self, rounded: impl Fn(u64) -> u64) -> OpenKeys {
        // Without removes, no key comes twice.
        if self.removes {
            add_up(&mut self.nets, rounded);
        }
        let mut keys = OpenKeys::default();
        for (hash, net) in self.nets {
            match net {
                0 => {}
                1.. => keys.inserted.push(hash),
                _ => keys.removed.push(hash),
            }
        }
        keys
    }
}

impl WriteGuard<'_> {
    /// Carries all keys of open transactions over into the next buffer.
    pub(crate) fn carry(&self, old: &Buffer, next: &Buffer) -> Result<Vec<Carried>> {
        let Writer { shared, file, .. } = *self.writer;
        if !file.header.transactional {
            return Ok(Vec::new());
        }
        let mut slots = Vec::new();
        for (_, handle) in old.open_transactions() {
            let Some(slot) = shared.slot_of(handle) else {
                // The keys of dead handles were given up before.
                return Err(self.writer.handle.distrust(Wrong {
                    word: "transaction",
                    expected: "one of a handle that is there".to_owned(),
                    got: handle,
                }));
            };
            slots.push(shared.slot(slot));
        }
        let mut records = self.open_records(old, &slots)?;
        let mut all = Vec::with_capacity(slots.len());
        for slot in slots {
            let handle = slot.handle();
            let records = records.remove(&handle).unwrap_or_default();
            let keys = records.keys(|hash| old.rounded(hash));
            let handles = self.writer.handle;
            handles.expect_digest(handle, slot.digest(), keys.digest(old))?;
            begin_with(next, handle, &keys)?;
            all.push(Carried { handle, keys });
        }
        Ok(all)
    }

    /// Reads what the active log has of the open transactions of some handles, from where the first of these began.
    fn open_records(
        &self,
        old: &Buffer,
        slots: &[HandleSlot<'_>],
    ) -> Result<BTreeMap<u64, OpenRecords>> {
        let mut open = BTreeMap::new();
        let Some(begin) = slots.iter().map(|slot| slot.transaction_begin()).min() else {
            return Ok(open);
        };
        let log = self.writer.logs.of(&self.view.active)?;
        let first = LogEnd::begin(log)?;
        let tail = LogEnd {
            end: old.tail().end,
            ..first
        };
        let begin = begin.max(first.end);
        let mut reader = LogReader::resume(log, begin, tail)?;
        while reader.end() < tail.end
            && let Some(record) = reader.next()?
        {
            let records: &mut OpenRecords = open.entry(record.handle).or_default();
            match record.kind {
                RecordKind::Insert => records.add(true, record.hashes()),
                RecordKind::Remove => records.add(false, record.hashes()),
                RecordKind::Commit => *records = OpenRecords::default(),
                _ => {}
            }
        }
        Ok(open)
    }
}

/// Lets a handle's transaction begin in a new buffer, with the keys it has already.
fn begin_with(next: &Buffer, handle: u64, keys: &OpenKeys) -> Result<()> {
    let too_large = || Error::TransactionTooLarge {
        quota: keys.count(),
    };
    let state = next.begin_transaction(handle).ok_or_else(too_large)?;
    for hash in &keys.inserted {
        match next.claim(*hash) {
            Claim::Claimed(slot) => next.publish_claim(slot, state),
            Claim::NoRoom => return Err(too_large()),
            _ => {}
        }
    }
    for hash in &keys.removed {
        match next.claim_removal(*hash, true) {
            RemovalClaim::Claimed(slot) => next.publish_claim(slot, state),
            RemovalClaim::NoRoom => return Err(too_large()),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The slow twin counts each key. A transaction inserts only what is absent, and removes only what is there.
        #[test]
        fn what_differs_in_the_end_is_what_counts(
            keys in prop::collection::vec((0_u64..12, any::<u64>()), 0..200),
            there in any::<u16>(),
            removes in any::<bool>(),
        ) {
            let is_there = |key: u64| there >> key & 1 == 1;
            let (mut records, mut nets) = (OpenRecords::default(), BTreeMap::new());
            for (key, low) in keys {
                let net = nets.entry(key).or_insert(0);
                let is_insert = !is_there(key) && *net == 0 || is_there(key) && *net == -1;
                if is_insert || removes {
                    *net += if is_insert { 1 } else { -1 };
                    records.add(is_insert, std::iter::once(key << 60 | low >> 4));
                }
            }
            let found = records.keys(|hash| hash >> 60);
            let expected = |wanted| nets.iter().filter(|(_, net)| **net == wanted).map(|(key, _)| *key).collect::<Vec<_>>();
            for (hashes, wanted) in [(found.inserted, 1), (found.removed, -1)] {
                let mut keys: Vec<u64> = hashes.iter().map(|hash| hash >> 60).collect();
                keys.sort_unstable();
                prop_assert_eq!(keys, expected(wanted));
            }
        }
    }
}
