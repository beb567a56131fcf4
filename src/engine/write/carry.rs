//! Carrying open transactions over into the next generation: its buffer and its log begin with their keys.

use std::collections::BTreeMap;

use crate::engine::write::Writer;
use crate::engine::write::guard::WriteGuard;
use crate::error::{Error, Result};
use crate::memtable::{Buffer, OpenChange, OpenKeys, ShmCorruption};
use crate::shm::handle_slot::HandleSlot;
use crate::wal::{LogEnd, LogReader, RecordKind};

/// A handle's uncommitted keys, as its records have them.
pub(crate) struct Carried {
    pub(crate) handle: u64,
    pub(crate) keys: OpenKeys,
}

/// What a handle's records since its last commit say, in their order: hashes, and whether they are inserted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct OpenRecords {
    hashes: Vec<(u64, bool)>,
    removes: bool,
}

impl OpenRecords {
    fn add(&mut self, is_insert: bool, hashes: impl Iterator<Item = u64>) {
        self.hashes.extend(hashes.map(|hash| (hash, is_insert)));
        self.removes |= !is_insert;
    }

    /// Returns which keys differ in the end, and how: that is in the table, which compares fingerprints, while the records
    /// have whole hashes. `canonical` returns what the table takes for one key, and `change` what it has of that.
    fn keys(
        mut self,
        canonical: impl Fn(u64) -> u64,
        change: impl Fn(u64) -> Option<OpenChange>,
    ) -> OpenKeys {
        let mut keys = OpenKeys::default();
        // Without removes, no key comes twice.
        if !self.removes {
            keys.inserted = self.hashes.into_iter().map(|(hash, _)| hash).collect();
            return keys;
        }
        // A stable sort: the last record of a key stays the last.
        self.hashes.sort_by_key(|(hash, _)| canonical(*hash));
        for same in self
            .hashes
            .chunk_by(|one, next| canonical(one.0) == canonical(next.0))
        {
            let last = |wanted| {
                let of_kind = same.iter().rfind(|(_, is_insert)| *is_insert == wanted);
                of_kind.map_or(same[0].0, |(hash, _)| *hash)
            };
            if let Some(change) = change(same[0].0) {
                keys.add(change, last(true), last(false));
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
        // What is open goes on in the next generation, and in no later one.
        assert_eq!(next.generation(), old.generation() + 1);
        let mut slots = Vec::new();
        for (_, handle) in old.open_transactions() {
            let Some(slot) = shared.slot_of(handle) else {
                // The keys of dead handles were given up before.
                return Err(self.writer.handle.poison_shared(ShmCorruption {
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
            let change = |hash| old.open_change(hash, handle);
            let keys = records.keys(|hash| old.canonical(hash), change);
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
                // None of these is a change that a handle may still commit.
                RecordKind::Open | RecordKind::Cut | RecordKind::Exempt | RecordKind::Lost => {}
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
    for (hashes, is_insert) in keys.records() {
        for hash in hashes {
            next.change_in(*hash, is_insert, state)
                .ok_or_else(too_large)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::memtable::{Digest, Presence};

    const KEYS: u64 = 6;

    proptest! {
        /// A transaction inserts and removes keys in turn, some of which had records before, and a rotation carries it over.
        /// In the next buffer it says the same of each key, and its records have the same sum; of hashes of one key the last
        /// counts.
        #[test]
        fn a_transaction_says_the_same_in_the_next_buffer(
            before in prop::collection::vec((0..KEYS, any::<bool>()), 0..12),
            steps in prop::collection::vec((0..KEYS, 0_u64..4), 0..40),
            below in prop::collection::vec(any::<bool>(), KEYS as usize),
        ) {
            let space = crate::page::fingerprint_space::FingerprintSpace::new(1 << 20).unwrap();
            let [old, next] = [1, 2].map(|number| Buffer::private(0, number).unwrap().holding(crate::page::KeyModel::Set(space)));
            let hash_of = |key: u64, low: u64| space.canonical(crate::hash::finalise(key)) + low;
            for (key, is_insert) in before {
                if old.contains(hash_of(key, 0)) != is_insert {
                    old.apply(hash_of(key, 0), is_insert).unwrap();
                }
            }
            let state = old.begin_transaction(7).unwrap();
            let (mut records, mut sum) = (OpenRecords::default(), Digest::default());
            for (key, low) in steps {
                let is_there = match old.lookup(hash_of(key, 0)) {
                    Presence::Absent => below[key as usize],
                    Presence::Settled | Presence::Open(_) => true,
                    _ => false,
                };
                old.change_in(hash_of(key, low), !is_there, state).unwrap();
                records.add(!is_there, std::iter::once(hash_of(key, low)));
                sum.add(hash_of(key, 0), if is_there { -1 } else { 1 });
            }
            let last: Vec<_> = (0..KEYS).map(|key| {
                let of_key = |record: &&(u64, bool)| space.canonical(record.0) == hash_of(key, 0);
                records.hashes.iter().rfind(of_key).copied()
            }).collect();
            let keys = records.keys(|hash| old.canonical(hash), |hash| old.open_change(hash, 7));
            prop_assert_eq!(keys.digest(&old), sum);
            prop_assert_eq!(keys.digest(&old), OpenKeys::of(&old, 7).digest(&old));
            begin_with(&next, 7, &keys).unwrap();
            let carried: Vec<(u64, bool)> = keys
                .records()
                .flat_map(|(hashes, is_insert)| hashes.iter().map(move |hash| (*hash, is_insert)))
                .collect();
            for key in 0..KEYS {
                let hash = hash_of(key, 0);
                let of_key = |record: &&(u64, bool)| space.canonical(record.0) == hash;
                match old.open_change(hash, 7) {
                    None => prop_assert_eq!(next.lookup(hash), Presence::Absent),
                    Some(_) => prop_assert_eq!(carried.iter().rfind(of_key).copied(), last[key as usize]),
                }
                let said = |buffer: &Buffer| match buffer.lookup(hash) {
                    Presence::Open(handle) => Some((handle, true)),
                    Presence::Removing(handle) | Presence::RemovingBelow(handle) => Some((handle, false)),
                    _ => None,
                };
                prop_assert_eq!(said(&next), said(&old));
            }
            prop_assert_eq!(OpenKeys::of(&next, 7).digest(&next), sum);
        }
    }
}
