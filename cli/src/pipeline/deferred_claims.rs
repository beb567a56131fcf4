//! How `dedup` claims lines in a store that is not transactional, where whatever is inserted is remembered at once.
//!
//! New lines are held here, not in the store, until they are printed and their output is durable. So a run that is
//! killed leaves the store behind its output, as in a transactional store, and never ahead of it. The price is a second
//! look at each line, and that others can't see what is held: two runs on one store would print the same lines, and so
//! there may be one alone.

use std::collections::HashSet;
use std::path::Path;

use everseen::hash::HashedKey;
use everseen::{Fullness, Kind, Stats, Store, StoreLock, Verdict};

use crate::error::CliError;

/// Most new lines that are held: some 4 MiB of them.
pub const MOST: u64 = 128 << 10;

/// Lines that were printed, or are about to be, and are not in the store yet.
pub struct Deferred {
    /// In the order in which they came, and to be found.
    new: Vec<HashedKey>,
    held: HashSet<HashedKey>,
    /// Keys that the store took when the first of them came.
    room: Fullness,
    /// Whether the store is to be shown the lines that it has, since it counts those that it wrongly has.
    measured: bool,
    /// What the store says, kept for its memory.
    verdicts: Vec<Verdict>,
}

impl Deferred {
    pub fn new(store: &Store, stats: &Stats) -> everseen::Result<Self> {
        Ok(Deferred {
            new: Vec::new(),
            held: HashSet::new(),
            room: store.fullness()?,
            measured: stats.kind != Kind::Counting && store.measured()?.is_some(),
            verdicts: Vec::new(),
        })
    }

    /// Pushes for each line whether it is new to the store and to what is held, and holds those that are. On an error
    /// `keep` tells of the lines before the one that failed.
    pub fn judge(
        &mut self,
        store: &Store,
        items: &[HashedKey],
        keep: &mut Vec<bool>,
    ) -> everseen::Result<()> {
        if self.new.is_empty() {
            self.room = store.fullness()?;
        }
        let mut found = store.contains_hashed(items)?;
        if self.measured {
            self.show(store, items, &mut found)?;
        }
        for (item, found) in items.iter().zip(found) {
            let is_new = !found && !self.held.contains(item);
            if is_new {
                // Not printed what the store would then refuse.
                if self.new.len() as u64 >= self.room.left() {
                    return Err(everseen::Error::Full {
                        capacity: self.room.limit,
                    });
                }
                self.new.push(*item);
                self.held.insert(*item);
            }
            keep.push(is_new);
        }
        Ok(())
    }

    /// Inserts lines that the store has already: of those that it has by mistake it takes note.
    fn show(
        &mut self,
        store: &Store,
        items: &[HashedKey],
        found: &mut [bool],
    ) -> everseen::Result<()> {
        let seen: Vec<_> = (0..items.len()).filter(|at| found[*at]).collect();
        let keys: Vec<_> = seen.iter().map(|at| items[*at]).collect();
        self.verdicts.clear();
        store.claim_unique_hashed(&keys, &mut self.verdicts)?;
        for (at, verdict) in seen.iter().zip(&self.verdicts) {
            // Exempted this very moment.
            found[*at] = *verdict != Verdict::New;
        }
        Ok(())
    }

    /// Puts into the store what was held, now that it is printed.
    pub fn settle(&mut self, store: &Store) -> everseen::Result<()> {
        self.verdicts.clear();
        store.claim_unique_hashed(&self.new, &mut self.verdicts)?;
        self.new.clear();
        self.held.clear();
        Ok(())
    }

    /// The same of a store with what is held.
    pub fn fullness(&self, mut store: Fullness) -> Fullness {
        store.keys += self.new.len() as u64;
        store
    }
}

/// Keeps other runs of `dedup` off a store that is not transactional, until it is dropped.
pub fn alone(store: &Store, path: &Path) -> Result<StoreLock, CliError> {
    store.try_lock()?.ok_or_else(|| CliError::NotAlone {
        path: path.to_owned(),
    })
}
