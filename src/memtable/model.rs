//! Compares the buffer with a sorted map that records each key's fate immediately.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// The fate of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Claimed,
    /// Part of the open transaction with this state.
    Pending(u16),
    Settled,
    Dropped,
}

/// A step of a writer, or of the next one after it.
#[derive(Debug, Clone)]
enum Step {
    Claim(u64),
    /// Publishes all claims, in one of the open transactions or as committed.
    Publish(usize),
    Retract,
    Begin(u64),
    Commit(usize),
    Abort(usize),
    /// Publishes the claims among these keys and retracts the others.
    Repair(Vec<u64>),
    Collect(u64, u64),
}

fn key() -> impl Strategy<Value = u64> {
    // Crowded: high bits from few values, so that buckets overflow.
    (0_u64..250).prop_map(|key| (key % 7) << 61 | key << 20)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => key().prop_map(Step::Claim),
        4 => (0_usize..8).prop_map(Step::Publish),
        1 => Just(Step::Retract),
        4 => (1_u64..9).prop_map(Step::Begin),
        2 => (0_usize..64).prop_map(Step::Commit),
        2 => (0_usize..64).prop_map(Step::Abort),
        1 => prop::collection::vec(key(), 0..4).prop_map(Step::Repair),
        1 => any::<(u64, u64)>().prop_map(|(a, b)| Step::Collect(a.min(b), a.max(b))),
    ]
}

/// The slow twin.
#[derive(Debug, Default)]
struct Twin {
    fates: BTreeMap<u64, Fate>,
    /// The open transactions with their handles.
    open: BTreeMap<u16, u64>,
    claims: Vec<(u64, Slot)>,
}

impl Twin {
    fn presence(&self, key: u64) -> Presence {
        match self.fates.get(&key) {
            None | Some(Fate::Claimed | Fate::Dropped) => Presence::Absent,
            Some(Fate::Settled) => Presence::Settled,
            Some(Fate::Pending(state)) => Presence::Open(self.open[state]),
        }
    }

    fn end(&mut self, state: u16, fate: Fate) {
        self.open.remove(&state);
        for found in self.fates.values_mut() {
            if *found == Fate::Pending(state) {
                *found = fate;
            }
        }
    }

    fn nth_open(&self, index: usize) -> Option<u16> {
        self.open
            .keys()
            .nth(index % self.open.len().max(1))
            .copied()
    }

    fn claim(&mut self, buffer: &Buffer, key: u64) -> Result<(), TestCaseError> {
        let held = self.fates.get(&key) == Some(&Fate::Claimed);
        let presence = self.presence(key);
        prop_assert_eq!(buffer.is_held(key), held || presence != Presence::Absent);
        match buffer.claim(key) {
            Claim::Settled => prop_assert!(held || presence == Presence::Settled),
            Claim::Open(handle) => prop_assert_eq!(presence, Presence::Open(handle)),
            Claim::Claimed(slot) => {
                prop_assert!(!held && presence == Presence::Absent);
                self.fates.insert(key, Fate::Claimed);
                self.claims.push((key, slot));
            }
            other => prop_assert!(false, "{:?}", other),
        }
        Ok(())
    }

    fn repair(&mut self, buffer: &Buffer, logged: &[u64]) -> Result<(), TestCaseError> {
        for key in logged {
            buffer.publish_logged(*key, true, COMMITTED);
        }
        buffer.retract_claimed();
        for (key, _) in self.claims.drain(..) {
            let fate = if logged.contains(&key) {
                Fate::Settled
            } else {
                Fate::Dropped
            };
            self.fates.insert(key, fate);
        }
        let keys = self.fates.keys();
        let present = keys.filter(|key| self.presence(**key) != Presence::Absent);
        prop_assert_eq!(buffer.keys(), present.count() as u64);
        Ok(())
    }

    fn take(&mut self, buffer: &Buffer, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Claim(key) => self.claim(buffer, *key)?,
            Step::Publish(index) => {
                let state = self.nth_open(*index).filter(|_| index % 2 == 0);
                let fate = state.map_or(Fate::Settled, Fate::Pending);
                for (key, slot) in self.claims.drain(..) {
                    buffer.publish(slot, state.unwrap_or(COMMITTED));
                    self.fates.insert(key, fate);
                }
            }
            Step::Retract => {
                for (key, slot) in self.claims.drain(..) {
                    buffer.retract(slot);
                    self.fates.insert(key, Fate::Dropped);
                }
            }
            Step::Begin(handle) => match buffer.begin_transaction(*handle) {
                Some(state) => prop_assert_eq!(self.open.insert(state, *handle), None),
                None => prop_assert_eq!(self.open.len() as u64, buffer.transactions),
            },
            Step::Commit(index) => {
                if let Some(state) = self.nth_open(*index) {
                    buffer.commit_transaction(state);
                    self.end(state, Fate::Settled);
                }
            }
            Step::Abort(index) => {
                if let Some(state) = self.nth_open(*index) {
                    buffer.abort_transaction(state);
                    self.end(state, Fate::Dropped);
                }
            }
            Step::Repair(logged) => self.repair(buffer, logged)?,
            Step::Collect(start, end) => {
                let mut got = Vec::new();
                let closed = ClosedKeys::of(buffer);
                closed.collect(
                    *start..=*end,
                    DecidedBy::LastRecord,
                    &mut got,
                    &mut Vec::new(),
                );
                got.sort_unstable();
                let keys = self.fates.range(*start..=*end).map(|(key, _)| *key);
                let is_settled = |key: &u64| self.presence(*key) == Presence::Settled;
                let expected: Vec<u64> = keys.filter(is_settled).collect();
                prop_assert_eq!(got, expected);
            }
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn equals_a_map_whatever_its_writers_do(steps in prop::collection::vec(step(), 1..600)) {
        let buffer = Buffer::private(0, 1).unwrap();
        let mut twin = Twin::default();
        for step in &steps {
            twin.take(&buffer, step)?;
            prop_assert_eq!(buffer.used(), twin.fates.len() as u64);
        }
        for key in 0..250 {
            let key = (key % 7) << 61 | key << 20;
            prop_assert_eq!(buffer.lookup(key), twin.presence(key));
        }
        let open: BTreeMap<u16, u64> = buffer.open_transactions().collect();
        prop_assert_eq!(open, twin.open);
    }
}
