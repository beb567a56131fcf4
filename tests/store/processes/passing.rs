//! Keys that come and go: each belongs to one child, which inserts and removes it.

use std::collections::BTreeMap;
use std::ops::Range;

use everseen::Store;

use super::task::{Told, key, passing};

#[derive(Debug, Default)]
struct Writer {
    /// What is being done, to which keys.
    changing: Option<(bool, Vec<u64>)>,
    /// What has not been committed.
    open: Vec<(u64, bool)>,
    /// A commit that has not returned, and what it covers.
    committing: Option<(u64, Vec<(u64, bool)>)>,
}

/// What is known of these keys.
#[derive(Debug)]
pub struct Passing {
    transactional: bool,
    /// Whether a key is there; `None` if a child died while it changed it.
    keys: BTreeMap<u64, Option<bool>>,
    writers: Vec<Writer>,
}

impl Passing {
    pub fn new(transactional: bool, writers: usize) -> Self {
        Self {
            transactional,
            keys: BTreeMap::new(),
            writers: (0..writers).map(|_| Writer::default()).collect(),
        }
    }

    /// Watches the passing keys of a store that can remove. None of them is there.
    pub fn watch(&mut self, keys: u64) {
        let all = (0..self.writers.len()).flat_map(|slot| passing(keys, slot));
        self.keys = all.map(|number| (number, Some(false))).collect();
    }

    /// Watches keys that are all there, or all not.
    pub fn watch_all(&mut self, keys: Range<u64>, there: bool) {
        self.keys = keys.map(|number| (number, Some(there))).collect();
    }

    pub fn note(&mut self, slot: usize, told: &Told) {
        let writer = &mut self.writers[slot];
        match told {
            Told::Changing(insert, keys) => writer.changing = Some((*insert, keys.clone())),
            Told::Changed(count) => {
                let (insert, keys) = writer.changing.take().unwrap();
                let done = keys.into_iter().take(*count as usize);
                match self.transactional {
                    true => writer.open.extend(done.map(|number| (number, insert))),
                    false => self.keys.extend(done.map(|number| (number, Some(insert)))),
                }
            }
            Told::Committing(counter) => {
                writer.committing = Some((*counter, std::mem::take(&mut writer.open)));
            }
            Told::Closing => writer.open.clear(),
            _ => {}
        }
    }

    /// The writer's last commit is known to be this one.
    pub fn resolve(&mut self, slot: usize, last: u64) {
        let committing = self.writers[slot].committing.take();
        if let Some((counter, covered)) = committing
            && counter == last
        {
            let changes = covered.into_iter();
            self.keys
                .extend(changes.map(|(number, there)| (number, Some(there))));
        }
    }

    /// A child is gone.
    pub fn gone(&mut self, slot: usize) {
        let writer = &mut self.writers[slot];
        writer.open.clear();
        if let Some((_, keys)) = writer.changing.take()
            && !self.transactional
        {
            self.keys
                .extend(keys.into_iter().map(|number| (number, None)));
        }
    }

    /// Holds a store at which nobody is at work against what is known. Answers how many of the keys are there.
    pub fn check(&mut self, store: &Store) -> u64 {
        let mut held = 0;
        for (number, there) in &mut self.keys {
            let found = store.contains(key(*number)).unwrap();
            assert!(
                there.is_none_or(|there| there == found),
                "passing key {number} is there: {found}"
            );
            *there = Some(found);
            held += u64::from(found);
        }
        held
    }
}
