//! What is known of a store's contents from what the children told.

use std::collections::{BTreeSet, HashSet};

use everseen::Store;

use super::passing::Passing;
use super::task::{Told, keys, writer};

#[derive(Debug, Clone, Copy, Default)]
struct Key {
    /// A child was told that it is the first (in a transactional store: and has committed it).
    won: bool,
    /// A child was told that somebody else was.
    seen: bool,
    /// A child died while it claimed it.
    doubtful: bool,
}

#[derive(Debug, Default)]
struct Writer {
    /// Its last commit that returned.
    counter: u64,
    /// A commit that has not returned, with the keys that it covers.
    committing: Option<(u64, Vec<u64>)>,
    /// Keys that are being claimed.
    claiming: Option<Vec<u64>>,
    /// Keys that are claimed and not committed.
    own: BTreeSet<u64>,
}

/// What the store must hold, and what it may.
#[derive(Debug)]
pub struct Model {
    transactional: bool,
    keys: Vec<Key>,
    writers: Vec<Writer>,
    sequences: HashSet<u64>,
    /// Keys that come and go, where the kind can remove.
    pub passing: Passing,
}

impl Model {
    pub fn new(transactional: bool, keys: u64, writers: usize) -> Self {
        Self {
            transactional,
            keys: vec![Key::default(); keys as usize],
            writers: (0..writers).map(|_| Writer::default()).collect(),
            sequences: HashSet::new(),
            passing: Passing::new(transactional, writers),
        }
    }

    /// Takes in what a child told.
    pub fn note(&mut self, slot: usize, told: Told) {
        self.passing.note(slot, &told);
        let writer = &mut self.writers[slot];
        match told {
            Told::Opened(last) => self.resolve(slot, last),
            Told::Begin(keys) => {
                assert_eq!(writer.claiming, None);
                writer.claiming = Some(keys);
            }
            Told::Answer(letters) => {
                let keys = writer.claiming.take().unwrap();
                assert!(letters.len() <= keys.len());
                for (key, letter) in keys.into_iter().zip(letters.chars()) {
                    self.answer(slot, key, letter);
                }
            }
            Told::Committing(counter) => {
                assert_eq!(counter, writer.counter + 1);
                let own = std::mem::take(&mut writer.own);
                writer.committing = Some((counter, own.into_iter().collect()));
            }
            Told::Committed { counter, sequence } => {
                assert!(
                    self.sequences.insert(sequence),
                    "commit {sequence} returned twice"
                );
                assert_eq!(writer.committing.as_ref().map(|open| open.0), Some(counter));
                self.resolve(slot, counter);
            }
            Told::Closing => writer.own.clear(),
            Told::Changing(..) | Told::Changed(_) => {}
            Told::Starting | Told::Done | Told::End => {}
        }
    }

    fn answer(&mut self, slot: usize, number: u64, letter: char) {
        let key = &mut self.keys[number as usize];
        let own = &mut self.writers[slot].own;
        match letter {
            'n' if self.transactional => {
                own.insert(number);
            }
            'n' => {
                assert!(!key.won, "key {number} was new twice");
                key.won = true;
            }
            's' => key.seen |= !own.contains(&number),
            'p' => assert!(self.transactional, "key {number} is pending"),
            _ => panic!("verdict {letter}"),
        }
    }

    /// The writer's last commit is known to be this one.
    fn resolve(&mut self, slot: usize, last: u64) {
        let writer = &mut self.writers[slot];
        let (counter, covered) = match writer.committing.take() {
            Some((counter, covered)) if counter == last => (counter, covered),
            _ => (writer.counter, Vec::new()),
        };
        assert_eq!(last, counter, "the last commit of writer {slot}");
        writer.counter = counter;
        self.passing.resolve(slot, counter);
        for number in covered {
            let key = &mut self.keys[number as usize];
            assert!(!key.won, "key {number} was committed twice");
            key.won = true;
        }
    }

    /// A child is gone, and all it told has been noted.
    pub fn gone(&mut self, slot: usize) {
        self.passing.gone(slot);
        let writer = &mut self.writers[slot];
        writer.own.clear();
        for key in writer.claiming.take().into_iter().flatten() {
            self.keys[key as usize].doubtful = true;
        }
    }

    /// Keys that must be there whatever the children are doing.
    pub fn acknowledged(&self) -> Vec<u64> {
        let numbered = (0..).zip(&self.keys);
        let won = numbered.filter(|(_, key)| key.won || (key.seen && !self.transactional));
        won.map(|(number, _)| number).collect()
    }

    /// Looks for the acknowledged keys in a store at which children are at work.
    pub fn look(&self, store: &Store) -> everseen::Result<()> {
        let there = self.acknowledged();
        let found = store.contains_batch(&keys(there.iter().copied()))?;
        for (number, found) in there.iter().zip(found) {
            assert!(found, "key {number} is lost");
        }
        Ok(())
    }

    /// Holds a store at which nobody is at work against all that is known, and knows more from then on. Answers how
    /// many keys it holds.
    pub fn check(&mut self, store: &Store) -> u64 {
        for slot in 0..self.writers.len() {
            let last = store.last_commit(&writer(slot)).unwrap();
            let last = last.map_or(0, |commit| {
                u64::from_le_bytes(commit.tag.try_into().unwrap())
            });
            self.resolve(slot, last);
        }
        let found = store.contains_batch(&keys(0..self.keys.len() as u64));
        let mut held = 0;
        for (number, (key, found)) in self.keys.iter_mut().zip(found.unwrap()).enumerate() {
            assert!(found || !key.won, "key {number} is lost: {key:?}");
            assert!(
                found || !key.seen,
                "key {number} was seen, and is not there: {key:?}"
            );
            let may = key.won || (key.doubtful && !self.transactional);
            assert!(
                may || !found,
                "key {number} is there, and nobody won it: {key:?}"
            );
            *key = Key {
                won: found,
                seen: false,
                doubtful: false,
            };
            held += u64::from(found);
        }
        let passing = self.passing.check(store);
        let (stats, there) = (store.stats().unwrap(), held + passing);
        // With ages, what went may be counted until runs are merged.
        let is_so = stats.keys == there || stats.forgetting.is_some() && stats.keys > there;
        assert!(is_so, "the count of keys: {} of {there}", stats.keys);
        held
    }
}
