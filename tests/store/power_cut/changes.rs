//! What a session inserts and removes.

use everseen::testing::Appending;
use everseen::{Error, Kind};
use std::sync::Arc;

use everseen::hash::HashedKey;

use super::model::Mark;
use super::session::{Outcome, Session, wrong};
use crate::support::numbers;

impl Session<'_> {
    /// Inserts keys, or removes some where the kind can: mostly some that are there.
    pub fn change(&mut self, numbers: Vec<u32>) -> Outcome {
        if self.setup.kind != Kind::Fingerprint || self.random.below(5) < 3 {
            return self.insert(numbers);
        }
        let count = numbers.len() as u64;
        let top = u64::from(self.model.top);
        if self.setup.bulk > 0 && self.random.below(12) == 0 {
            return self.shrink();
        }
        let first = self.random.below(top + 1) as u32;
        let mut numbers: Vec<u32> = (first..first + count as u32).collect();
        // A key that is there twice is removed once. One call may change no more keys than one transaction.
        if self.random.below(4) == 0 && count + 2 <= self.quota()? {
            numbers.extend(first..first + 2);
        }
        self.remove(numbers)
    }

    /// Gives a store of fingerprints many keys, so that it has several segments.
    pub fn fill(&mut self) -> Outcome {
        let bulk = self.setup.bulk as u32;
        let end = self.model.top + bulk;
        while self.setup.bulk > 0 && self.model.top < end {
            let numbers: Vec<u32> = (self.model.top..end).take(500).collect();
            self.insert(numbers)?;
        }
        if bulk == 0 {
            return Ok(());
        }
        self.commit()?;
        if self.setup.least_run > 16 {
            return Ok(());
        }
        // A run that is large enough to drain, slice by slice.
        for _ in 0..14 {
            let first = self.model.top;
            self.insert((first..first + 80).collect())?;
            self.commit()?;
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Removes most keys, so that segments merge.
    fn shrink(&mut self) -> Outcome {
        let (first, end) = (self.random.below(20) as u32, self.model.top);
        let numbers: Vec<u32> = (first..end).collect();
        for some in numbers.chunks(500) {
            self.remove(some.to_vec())?;
        }
        Ok(())
    }

    /// Removes keys with one call.
    fn remove(&mut self, numbers: Vec<u32>) -> Outcome {
        let count = numbers.len() as u64;
        if self.uncommitted + count > self.quota()? {
            self.commit()?;
        }
        let keys: Vec<_> = numbers
            .iter()
            .map(|number| numbers::key(u64::from(*number)))
            .collect();
        let mut expected = Vec::new();
        let mut left = self.model.done.clone();
        for number in &numbers {
            expected.push(left.contains(*number));
            left.remove(*number);
        }
        let numbers: Arc<[u32]> = numbers.into();
        self.mark(Mark::Remove(Arc::clone(&numbers)));
        let store = self.store()?;
        let removed = match keys.as_slice() {
            [key] => store.remove(*key).map(|removed| vec![removed]),
            keys => {
                let hasher = store.hasher();
                let keys = keys.iter().map(|key| hasher.mix(*key));
                let keys: Vec<_> = keys.map(HashedKey::from_bits).collect();
                let mut removed = Vec::new();
                let outcome = store.remove_into(&keys, &mut removed);
                outcome.map(|()| removed)
            }
        };
        let removed = removed.map_err(|error| self.failed("remove", &error))?;
        if removed != expected {
            return wrong(format!("removing {numbers:?} answered {removed:?}"));
        }
        self.uncommitted += count;
        self.mark(Mark::Removed(numbers));
        Ok(())
    }

    /// Inserts keys with one call.
    pub fn insert(&mut self, numbers: Vec<u32>) -> Outcome {
        let count = numbers.len() as u64;
        if count == 0 {
            return Ok(());
        }
        let full = self.model.may.count() + count > self.setup.capacity;
        if full && self.setup.kind != Kind::Scalable {
            return Ok(());
        }
        let quota = self.quota()?;
        if self.uncommitted + count > quota {
            self.commit()?;
        }
        let hashes: Vec<_> = numbers
            .iter()
            .map(|number| numbers::key(u64::from(*number)))
            .collect();
        let numbers: Arc<[u32]> = numbers.into();
        self.mark(Mark::Insert(Arc::clone(&numbers)));
        let store = self.store()?;
        let verdicts = match hashes.as_slice() {
            [hash] => store.insert(*hash).map(|new| vec![new]),
            hashes => store.insert_batch(hashes).map_err(Error::from),
        };
        let verdicts = verdicts.map_err(|error| self.failed("insert", &error))?;
        for (number, new) in numbers.iter().zip(verdicts) {
            if new == self.model.done.contains(*number) {
                return wrong(format!("insert of key {number} answered {new}"));
            }
        }
        self.uncommitted += count;
        self.mark(Mark::Inserted(numbers));
        Ok(())
    }

    /// Keys to insert: new ones, and at times ones that a crash took or that are there.
    pub fn draw(&mut self, count: u64) -> Vec<u32> {
        let top = self.model.top;
        let mut numbers: Vec<u32> = (top..top + count as u32).collect();
        if top > 0 && self.random.below(3) == 0 {
            let again = self.random.below(u64::from(top)) as u32;
            numbers.extend(again..top.min(again + 5));
        }
        numbers
    }
}
