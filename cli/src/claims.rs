//! The job of `dedup` and `add`: to claim items in a store, and to commit the claims.

use std::time::{Duration, Instant};

use everseen::hash::{HashedKey, KeyHasher};
use everseen::{Kind, Store, Verdict};

use crate::error::CliError;
use crate::fullness::Warnings;
use crate::input::Input;
use crate::output::Output;
use crate::pipeline::{self, BATCH, Ending, Job, Outcome};

/// What came of claiming all items of an input.
pub struct Claimed {
    pub outcome: Outcome,
    /// The time it took, until the store was closed.
    pub elapsed: Duration,
    /// Items that another process has claimed and not committed yet.
    pub pending: u64,
}

impl Claimed {
    /// Items that were known.
    pub fn seen(&self) -> u64 {
        let tally = self.outcome.tally;
        tally.items - tally.dropped - tally.kept - self.pending
    }
}

/// Claims all items, prints the new ones, commits after each `commit_every` items and at the end, closes the store.
pub fn claim_all(
    store: Store,
    input: Input,
    output: Output,
    commit_every: u64,
    repeats: Repeats,
) -> Result<Claimed, CliError> {
    let started = Instant::now();
    let mut claims = Claims::new(store, commit_every, repeats)?;
    let outcome = pipeline::run(input, &mut claims, output, "new")?;
    // Unread items are not committed: dropping the store gives them up.
    if outcome.ending != Ending::Unread {
        claims.store.close()?;
    }
    Ok(Claimed {
        outcome,
        elapsed: started.elapsed(),
        pending: claims.pending,
    })
}

/// What a counting store does with an item that it has already. Other kinds do nothing with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    Count,
    LeaveOut,
}

struct Claims {
    store: Store,
    repeats: Repeats,
    transactional: bool,
    commit_every: u64,
    /// Most new items that may be uncommitted.
    quota: u64,
    /// Items, and those among them that are to be committed, since the last commit.
    items: u64,
    new: u64,
    /// When the first of those came.
    since: Option<Instant>,
    pending: u64,
    /// The verdicts of one batch, kept for their memory.
    verdicts: Vec<Verdict>,
    warnings: Warnings,
}

impl Claims {
    fn new(store: Store, commit_every: u64, repeats: Repeats) -> everseen::Result<Self> {
        let stats = store.stats()?;
        Ok(Claims {
            repeats: match stats.kind {
                Kind::Counting => repeats,
                _ => Repeats::LeaveOut,
            },
            transactional: stats.transactional,
            warnings: Warnings::new(&stats),
            quota: store.transaction_quota(),
            store,
            commit_every,
            items: 0,
            new: 0,
            since: None,
            pending: 0,
            verdicts: Vec::new(),
        })
    }
}

impl Job for Claims {
    fn hasher(&self) -> KeyHasher {
        self.store.hasher().clone()
    }

    fn judge(&mut self, items: &[HashedKey], keep: &mut Vec<bool>) -> everseen::Result<()> {
        self.verdicts.clear();
        let claimed = match self.repeats {
            Repeats::Count => self.store.claim_hashed(items, &mut self.verdicts),
            Repeats::LeaveOut => self.store.claim_unique_hashed(items, &mut self.verdicts),
        };
        self.items += self.verdicts.len() as u64;
        for verdict in &self.verdicts {
            let is_new = *verdict == Verdict::New;
            self.new += u64::from(is_new || self.repeats == Repeats::Count);
            self.pending += u64::from(*verdict == Verdict::Pending);
            keep.push(is_new);
        }
        if self.new > 0 && self.since.is_none() {
            self.since = Some(Instant::now());
        }
        claimed
    }

    fn room(&self) -> usize {
        let left = self.quota.saturating_sub(self.new);
        // Batches are not to shrink toward the quota: many a batch brings nothing new.
        let left = if self.new > 0 && left < BATCH as u64 {
            0
        } else {
            left.max(1)
        };
        let room = left.min(self.commit_every.saturating_sub(self.items));
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    fn uncommitted_since(&self) -> Option<Instant> {
        self.since
    }

    fn is_transactional(&self) -> bool {
        self.transactional
    }

    fn commit(&mut self) -> everseen::Result<()> {
        // What others have just added counts as done here too, and may be in the log alone, not yet durable.
        if self.new > 0 || self.items > 0 && self.store.stats()?.log_bytes > 0 {
            self.store.commit()?;
        }
        (self.items, self.new, self.since) = (0, 0, None);
        Ok(())
    }

    fn warning(&mut self) -> everseen::Result<Option<String>> {
        Ok(self.warnings.next(self.store.fullness()?))
    }
}
