//! Claims lines for `dedup` in a store that is not transactional, which remembers every insert at once.
//!
//! New lines are held here, not in the store, until they are printed and their output is durable. A run that is killed
//! thus leaves the store behind its output, as in a transactional store, and never ahead of it. The price is a second
//! look at each line, and that other processes can't see what is held: two runs on one store would print the same
//! lines, so only one may run at a time.

use std::collections::HashSet;
use std::path::Path;

use everseen::hash::HashedKey;
use everseen::{Fullness, Kind, Sieve, Stats, Store, StoreLock, Verdict};

use crate::error::CliError;

/// Maximum number of new lines held: they take some 4 MiB.
pub const MAX_DEFERRED: u64 = 128 << 10;

/// Lines that were printed, or are about to be, but are not in the store yet.
pub struct Deferred {
    /// Ordered by arrival, for insertion; `held` finds them.
    new: Vec<HashedKey>,
    held: HashSet<HashedKey>,
    /// The store's fullness when the first of them arrived.
    room: Fullness,
    /// Whether the store must see the lines that it already has, since it counts those that it has by mistake.
    measured: bool,
    /// The store's verdicts, kept to reuse the allocation.
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

    /// Pushes for each line whether it is new to the store and to what is held, and holds the new lines. The lines are
    /// the next ones of the sieve, if any wait there. On an error, `keep` covers the lines before the one that failed.
    pub fn judge(
        &mut self,
        store: &Store,
        sieve: &mut Sieve<'_, ()>,
        items: &[HashedKey],
        keep: &mut Vec<bool>,
    ) -> everseen::Result<()> {
        if self.new.is_empty() {
            self.room = store.fullness()?;
        }
        let mut found = Vec::with_capacity(items.len());
        if sieve.is_empty() {
            found = store.contains_hashed(items)?;
        } else {
            sieve.contains(items.len(), |(), there| found.push(there))?;
        }
        if self.measured {
            self.show(store, items, &mut found)?;
        }
        for (item, found) in items.iter().zip(found) {
            let is_new = !found && !self.held.contains(item);
            if is_new {
                // Do not print what the store would later refuse.
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

    /// Inserts lines of the sample that the store already has, so that it notes those that it has by mistake.
    fn show(
        &mut self,
        store: &Store,
        items: &[HashedKey],
        found: &mut [bool],
    ) -> everseen::Result<()> {
        let is_shown = |at: &usize| found[*at] && store.is_sampled(items[*at]);
        let seen: Vec<_> = (0..items.len()).filter(is_shown).collect();
        let keys: Vec<_> = seen.iter().map(|at| items[*at]).collect();
        self.verdicts.clear();
        store.claim_unique_hashed(&keys, &mut self.verdicts)?;
        for (at, verdict) in seen.iter().zip(&self.verdicts) {
            // The line was exempted at this very moment.
            found[*at] = *verdict != Verdict::New;
        }
        Ok(())
    }

    /// Inserts the held lines into the store, now that they are printed.
    pub fn settle(&mut self, store: &Store) -> everseen::Result<()> {
        self.verdicts.clear();
        store.claim_unique_hashed(&self.new, &mut self.verdicts)?;
        self.new.clear();
        self.held.clear();
        Ok(())
    }

    /// Returns the fullness of a store including what is held.
    pub fn fullness(&self, mut store: Fullness) -> Fullness {
        store.keys += self.new.len() as u64;
        store
    }
}

/// Keeps other runs of `dedup` off a store that is not transactional, until the lock is dropped.
pub fn alone(store: &Store, path: &Path) -> Result<StoreLock, CliError> {
    store.try_lock()?.ok_or_else(|| CliError::NotAlone {
        path: path.to_owned(),
    })
}
