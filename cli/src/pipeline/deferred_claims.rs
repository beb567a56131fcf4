//! Claims lines for `dedup` in a store that is not transactional, which remembers every insert at once.
//!
//! New lines are held here, not in the store, until they are printed and their output is durable. A run that is killed
//! thus leaves the store behind its output, as in a transactional store, and never ahead of it. The price is that other
//! processes can't see what is held: two runs on one store would print the same lines, so only one may run at a time.

mod held_keys;

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use everseen::hash::HashedKey;
use everseen::{
    ClaimOptions, ForgetBy, Fullness, Kind, Measured, Precheck, Sieve, Stats, Store, StoreLock,
    Verdict,
};

use crate::error::CliError;
use held_keys::HeldKeys;

/// Maximum number of new lines held, and how many bytes of memory there must be for each: a line that is held
/// takes some 20 bytes. The fewer commits, the fewer lines are looked up in the buffers that came in since. As many as
/// this fill a set of 8 MiB, which a processor's cache holds.
const MOST_DEFERRED: u64 = 3 << 18;
const MEMORY_FOR_EACH: u64 = 128;
const LEAST_DEFERRED: u64 = 1 << 10;

/// Fewer lines than this are looked up again when they are inserted: what is known of them takes more memory than they.
const LEAST_KNOWN: usize = 64;

/// The places of this many lines in the set of held ones are fetched at once.
const FETCHED: usize = 64;

/// Lines that were printed, or are about to be, but are not in the store yet.
pub struct Deferred {
    /// Ordered by arrival, for insertion; `held` finds them.
    new: Vec<Batch>,
    held: HeldKeys,
    /// The store's fullness when the first of them arrived.
    room: Fullness,
    /// What the store counts of the lines that it has by mistake, for which it must see those that it has.
    measured: Option<Measured>,
    /// Whether the store renews lines that it has.
    renews: bool,
    /// The step of a store that forgets, and when this run has had it count its keys again.
    step: Option<Duration>,
    counted: Option<Instant>,
    /// What the store says of each line, and which lines are new: kept to reuse the allocations.
    found: Vec<bool>,
    places: Vec<usize>,
}

/// New lines, and what a look at them has found out.
struct Batch {
    keys: Vec<HashedKey>,
    precheck: Option<Precheck>,
}

/// Returns how many new lines may be held in a run with this memory.
pub fn most_held(memory: u64) -> u64 {
    (memory / MEMORY_FOR_EACH).clamp(LEAST_DEFERRED, MOST_DEFERRED)
}

impl Deferred {
    pub fn new(store: &Store, stats: &Stats) -> everseen::Result<Self> {
        Ok(Deferred {
            new: Vec::new(),
            held: HeldKeys::default(),
            room: store.fullness()?,
            measured: stats.measured.filter(|_| stats.kind != Kind::Counting),
            step: stats.forgetting.map(|how| how.window / how.steps),
            counted: None,
            renews: stats.forgetting.is_some_and(|how| how.by == ForgetBy::Last),
            found: Vec::new(),
            places: Vec::new(),
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
        self.begin(store, items.len())?;
        if sieve.is_empty() {
            self.found = store.contains_batch(items)?;
            return self.hold(store, items, 0, None, keep);
        }
        let found = &mut self.found;
        let precheck = sieve.contains_prechecked(items.len(), |(), there| found.push(there))?;
        self.hold(store, items, 0, Some(&precheck), keep)
    }

    /// Does the same for a range of lines that were looked up before their turn.
    pub fn judge_prechecked(
        &mut self,
        store: &Store,
        items: &[HashedKey],
        range: Range<usize>,
        precheck: &mut Precheck,
        keep: &mut Vec<bool>,
    ) -> everseen::Result<()> {
        self.begin(store, range.len())?;
        self.found = precheck.contains(store, items, range.clone())?;
        self.hold(
            store,
            &items[range.clone()],
            range.start,
            Some(precheck),
            keep,
        )
    }

    fn begin(&mut self, store: &Store, items: usize) -> everseen::Result<()> {
        self.found.clear();
        if self.new.is_empty() {
            self.room = store.fullness()?;
        }
        // What is forgotten counts until it is dropped, and a store that is full takes no line that would do that.
        let left = self.room.left().saturating_sub(self.held.len());
        if let Some(step) = self.step
            && left < items as u64
            && self.counted.is_none_or(|counted| counted.elapsed() > step)
        {
            store.checkpoint_full()?;
            (self.room, self.counted) = (store.fullness()?, Some(Instant::now()));
        }
        Ok(())
    }

    /// Holds those lines that are neither found nor held. `first` is the place of the first one in what was looked up
    /// before.
    fn hold(
        &mut self,
        store: &Store,
        items: &[HashedKey],
        first: usize,
        precheck: Option<&Precheck>,
        keep: &mut Vec<bool>,
    ) -> everseen::Result<()> {
        if let Some(measured) = self.measured {
            self.show(store, measured, items)?;
        }
        if self.renews {
            let found = items.iter().zip(&self.found).filter(|(_, found)| **found);
            store.renew_batch(&found.map(|(item, _)| *item).collect::<Vec<_>>())?;
        }
        // Do not print what the store would later refuse.
        let left = self.room.left();
        let mut outcome = Ok(());
        self.places.clear();
        for (place, (item, found)) in items.iter().zip(&self.found).enumerate() {
            if place.is_multiple_of(FETCHED) {
                self.held
                    .fetch(&items[place..items.len().min(place + FETCHED)]);
            }
            let is_new = !found
                && match self.held.len() < left {
                    true => self.held.insert(*item),
                    false if self.held.contains(*item) => false,
                    false => {
                        let capacity = self.room.limit;
                        outcome = Err(everseen::Error::Full { capacity });
                        break;
                    }
                };
            if is_new {
                self.places.push(first + place);
            }
            keep.push(is_new);
        }
        let keys = self.places.iter().map(|place| items[place - first]);
        let known = precheck.filter(|_| self.places.len() >= LEAST_KNOWN);
        match (known, self.new.last_mut()) {
            _ if self.places.is_empty() => {}
            (
                None,
                Some(Batch {
                    keys: last,
                    precheck: None,
                }),
            ) => last.extend(keys),
            _ => self.new.push(Batch {
                keys: keys.collect(),
                precheck: known.map(|known| known.select(&self.places)),
            }),
        }
        outcome
    }

    /// Inserts lines of the sample that the store already has, so that it notes those that it has by mistake.
    fn show(
        &mut self,
        store: &Store,
        measured: Measured,
        items: &[HashedKey],
    ) -> everseen::Result<()> {
        let is_shown = |at: &usize| self.found[*at] && measured.is_sampled(items[*at]);
        let seen: Vec<_> = (0..items.len()).filter(is_shown).collect();
        let keys: Vec<_> = seen.iter().map(|at| items[*at]).collect();
        let verdicts = store.claim_batch(&keys, ClaimOptions::new().if_absent(true))?;
        for (at, verdict) in seen.iter().zip(&verdicts) {
            // The line was exempted at this very moment.
            self.found[*at] = *verdict != Verdict::New;
        }
        Ok(())
    }

    /// Inserts the held lines into the store, now that they are printed.
    pub fn settle(&mut self, store: &Store) -> everseen::Result<()> {
        for Batch { keys, precheck } in &mut self.new {
            let options = ClaimOptions::new().if_absent(true);
            match precheck {
                Some(known) => known.claim(store, keys, 0..keys.len(), options)?,
                None => store.claim_batch(keys, options)?,
            };
        }
        self.new.clear();
        self.held.clear();
        Ok(())
    }

    /// Returns the fullness of a store including what is held.
    pub fn fullness(&self, mut store: Fullness) -> Fullness {
        store.keys += self.held.len();
        store
    }
}

/// Keeps other runs of `dedup` off a store that is not transactional, until the lock is dropped.
pub fn alone(store: &Store, path: &Path) -> Result<StoreLock, CliError> {
    store.try_lock()?.ok_or_else(|| CliError::NotAlone {
        path: path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use everseen::CreateOptions;

    use super::*;

    fn store(folder: &Path, kind: Kind) -> Store {
        let options = CreateOptions::new()
            .capacity(100_000)
            .kind(kind)
            .measured(false);
        options.create(folder.join("store")).expect("a store")
    }

    fn keys(store: &Store, numbers: Range<u64>) -> Vec<HashedKey> {
        let key = |number: u64| store.hasher().key(&number.to_le_bytes());
        numbers.map(key).collect()
    }

    fn judge(deferred: &mut Deferred, store: &Store, items: &[HashedKey]) -> Vec<bool> {
        let (mut precheck, mut keep) = (
            Precheck::for_claims(store, items).expect("a look"),
            Vec::new(),
        );
        let range = 0..items.len();
        let judged = deferred.judge_prechecked(store, items, range, &mut precheck, &mut keep);
        judged.expect("nothing fails");
        keep
    }

    /// A line that was not printed, since the store had it, may be removed before the lines around it are inserted.
    #[test]
    fn what_was_not_printed_is_not_inserted() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path(), Kind::Fingerprint);
        let all = keys(&store, 0..1000);
        let removed = &all[400..500];
        let claimed = store.insert_batch(removed);
        claimed.expect("nothing fails");
        let stats = store.stats().expect("it has some");
        let mut deferred = Deferred::new(&store, &stats).expect("nothing fails");
        let keep = judge(&mut deferred, &store, &all);
        let printed = keep.iter().filter(|is_new| **is_new).count();
        assert_eq!((printed, keep[400..500].contains(&true)), (900, false));
        for number in 400..500_u64 {
            assert!(store.remove(number.to_le_bytes()).expect("removes"));
        }
        deferred.settle(&store).expect("nothing fails");
        let found = store.contains_batch(&all).expect("looks");
        let expected: Vec<_> = (0..1000).map(|at| !(400..500).contains(&at)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn lines_are_held_and_inserted_once_in_pieces_of_any_size() {
        for kind in [Kind::Bloom, Kind::Fingerprint, Kind::Counting] {
            let folder = tempfile::tempdir().expect("a folder");
            let store = store(folder.path(), kind);
            let stats = store.stats().expect("it has some");
            let mut deferred = Deferred::new(&store, &stats).expect("nothing fails");
            let (mut twin, mut next) = (HashSet::new(), 0);
            for (round, size) in [1, 1, 4, 500, 1, 63, 64, 65, 500].into_iter().enumerate() {
                // Half of each piece has come before.
                let first: u64 = next - (size / 2).min(next);
                next = first + size;
                let keep = judge(&mut deferred, &store, &keys(&store, first..next));
                for (number, is_new) in (first..).zip(keep) {
                    assert_eq!(is_new, twin.insert(number), "{kind} {round}: {number}");
                }
                if round == 1 {
                    // Of lines that come alone no look is kept.
                    assert_eq!(deferred.new.len(), 1, "{kind}");
                }
                if round % 3 == 2 {
                    deferred.settle(&store).expect("nothing fails");
                }
            }
            deferred.settle(&store).expect("nothing fails");
            let found = store.contains_batch(&keys(&store, 0..next)).expect("looks");
            assert!(!found.contains(&false), "{kind}");
            let stats = store.stats().expect("it has some");
            assert_eq!(stats.keys, next, "{kind}");
        }
    }
}
