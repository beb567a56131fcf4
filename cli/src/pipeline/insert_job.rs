//! The job of `dedup` and `add`: claims items in a store and commits the claims.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use everseen::hash::{HashedKey, KeyHasher};
use everseen::{BatchError, ClaimOptions, ForgetBy, Kind, Precheck, Sieve, Store, Verdict};

use crate::error::CliError;
use crate::input::Input;
use crate::input::feed::PrecheckFor;
use crate::options::window::Window;
use crate::output::Output;
use crate::output::exact_file::Sink;
use crate::output::progress::Tally;
use crate::pipeline::claimed::Claimed;
use crate::pipeline::deferred_claims::{self, Deferred};
use crate::pipeline::fullness::Warnings;
use crate::pipeline::pending::PassedBy;
use crate::pipeline::window::Gather;
use crate::pipeline::{self, BATCH, Ending, Job};

/// How to claim items.
pub struct Claiming<'a> {
    /// After how many items to commit.
    pub commit_every: u64,
    /// The memory that the run begins with.
    pub memory: u64,
    /// How long to wait for pending items.
    pub wait: Duration,
    pub repeats: Repeats,
    /// Whether the items are printed that were seen before, rather than the new ones.
    pub shows_seen: bool,
    pub sieve: &'a Window,
    /// The store's path.
    pub path: &'a Path,
}

/// Claims all items, prints the new ones, commits after each `commit_every` items and at the end, and closes the store.
///
/// If items are printed, the caller keeps other runs off a store that is not transactional with
/// [`alone`](deferred::alone).
pub fn claim_all(
    store: &Store,
    input: Input,
    output: Output,
    how: &Claiming<'_>,
) -> Result<Claimed, CliError> {
    let started = Instant::now();
    let prints = output.prints();
    let mut claims = Claims::new(store, &output, how)?;
    let window = how.sieve.lines(how.path);
    let precheck = claims.prechecks.then_some((store, claims.prechecks_for()));
    let mut outcome = match pipeline::run(input, &mut claims, output, "new", window, precheck) {
        Ok(outcome) => outcome,
        Err(error) => {
            // The first error is the one to report.
            let _ = claims.end();
            return Err(error);
        }
    };
    // First, because later claims must not be committed with it.
    claims.end()?;
    let pending = claims.settle(&mut outcome.tally, prints)?;
    let sweeps = (claims.sieve.sweeps(), claims.widest);
    let buffer_bytes = claims.store.fullness()?.buffer_bytes;
    // Unread items are not committed: dropping the store abandons them.
    if outcome.ending != Ending::Unread {
        store.close()?;
    }
    Ok(Claimed {
        outcome,
        elapsed: started.elapsed(),
        pending,
        sweeps,
        buffer_bytes,
    })
}

/// What a counting store does with an item that it already has. Other kinds do nothing with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    Count,
    LeaveOut,
}

struct Claims<'s> {
    store: &'s Store,
    /// The keys of items that wait for others.
    sieve: Sieve<'s, ()>,
    /// How many keys its largest window could have: each sweep sets that by the memory that there is.
    widest: usize,
    repeats: Repeats,
    transactional: bool,
    /// Whether the store renews items that were seen.
    renews: bool,
    /// Whether items may be looked up before their turn.
    prechecks: bool,
    /// Present if lines are printed and the store remembers inserts at once.
    deferred: Option<Deferred>,
    /// Present if lines are printed to a named file.
    sink: Option<Sink>,
    commit_every: u64,
    /// Maximum number of new items that may be uncommitted.
    quota: u64,
    /// Items since the last commit, and those among them that need a commit.
    items: u64,
    new: u64,
    /// The time at which the first of the new items arrived.
    since: Option<Instant>,
    wait: Duration,
    /// Whether a pending item ends a batch. Otherwise the job passes it by.
    stops: bool,
    passed_by: PassedBy,
    /// The verdicts of one batch, kept to reuse the allocation.
    verdicts: Vec<Verdict>,
    /// Which items of the last batch were seen before, if those are printed.
    seen: Option<Vec<bool>>,
    warnings: Warnings,
}

impl<'s> Claims<'s> {
    fn new(store: &'s Store, output: &Output, how: &Claiming<'_>) -> everseen::Result<Self> {
        let stats = store.stats()?;
        let defers = output.prints() && !stats.transactional;
        let deferred = defers.then(|| Deferred::new(store, &stats)).transpose()?;
        let sieve = how.sieve.sieve(store);
        Ok(Claims {
            repeats: match stats.kind {
                Kind::Counting => how.repeats,
                _ => Repeats::LeaveOut,
            },
            transactional: stats.transactional,
            renews: stats.forgetting.is_some_and(|how| how.by == ForgetBy::Last),
            prechecks: stats.kind != Kind::Counting,
            warnings: Warnings::new(&stats),
            quota: match deferred {
                Some(_) => deferred_claims::most_held(how.memory),
                None => store.uncommitted()?.most,
            },
            deferred,
            sink: output.sink().cloned(),
            widest: sieve.most_keys(),
            sieve,
            store,
            commit_every: how.commit_every,
            items: 0,
            new: 0,
            since: None,
            wait: how.wait,
            stops: false,
            passed_by: PassedBy::default(),
            verdicts: Vec::new(),
            seen: how.shows_seen.then(Vec::new),
        })
    }

    /// Returns what items are looked up for before their turn.
    fn prechecks_for(&self) -> PrecheckFor {
        match self.deferred {
            Some(_) => PrecheckFor::Lookups,
            None => PrecheckFor::Claims,
        }
    }

    /// Commits a note that the run left its output in its final state, if everything printed is committed.
    fn end(&mut self) -> Result<(), CliError> {
        let Some(sink) = self.sink.as_ref().filter(|_| self.new == 0) else {
            return Ok(());
        };
        sink.ensure_name()?;
        self.store.commit_with(&sink.tag(true))?;
        sink.ended()
    }
}

impl Claims<'_> {
    /// Claims items, which are the next ones of the sieve if any wait there. The verdict of an item to wait for is left
    /// out.
    fn claim(&mut self, items: &[HashedKey]) -> everseen::Result<()> {
        let (store, verdicts) = (self.store, &mut self.verdicts);
        if !self.sieve.is_empty() {
            self.widest = self.widest.max(self.sieve.most_keys());
            let each = |(), verdict| verdicts.push(verdict);
            return match self.stops {
                true => self.sieve.claim_until_pending(items.len(), each).map(drop),
                false => self.sieve.claim(items.len(), each),
            };
        }
        let options = ClaimOptions::new()
            .until_pending(self.stops)
            .if_absent(self.repeats == Repeats::LeaveOut);
        let claimed = BatchError::append(store.claim_batch(items, options), verdicts);
        self.leave_out_pending();
        claimed
    }

    /// Leaves out the verdict of an item to wait for, which is the last one.
    fn leave_out_pending(&mut self) {
        if self.stops {
            let is_pending = |verdict: &mut Verdict| *verdict == Verdict::Pending;
            self.verdicts.pop_if(is_pending);
        }
    }

    /// Notes the verdicts, and pushes for each item whether it is kept.
    fn note(&mut self, items: &[HashedKey], keep: &mut Vec<bool>) {
        self.items += self.verdicts.len() as u64;
        for (item, verdict) in items.iter().zip(&self.verdicts) {
            let is_new = *verdict == Verdict::New;
            // Where lines are renewed, those that were seen change the store too.
            let changes = is_new || self.repeats == Repeats::Count || self.renews;
            self.new += u64::from(changes);
            if *verdict == Verdict::Pending {
                self.passed_by.push(*item);
            }
            keep.push(is_new);
        }
        if let Some(seen) = &mut self.seen {
            seen.clear();
            // Not those that another process may still give back.
            seen.extend(
                self.verdicts
                    .iter()
                    .map(|verdict| *verdict == Verdict::Seen),
            );
        }
        if self.new > 0 && self.since.is_none() {
            self.since = Some(Instant::now());
        }
    }

    /// Notes which items were held as new.
    fn note_deferred(&mut self, kept: &[bool]) {
        if let Some(seen) = &mut self.seen {
            seen.clear();
            seen.extend(kept.iter().map(|is_new| !is_new));
        }
        self.items += kept.len() as u64;
        self.new += kept.iter().filter(|is_new| **is_new).count() as u64;
        self.since = self.since.or((self.new > 0).then(Instant::now));
    }

    /// Claims the passed-by items again. Returns how many are still uncertain.
    fn settle(&mut self, tally: &mut Tally, prints: bool) -> everseen::Result<u64> {
        let settled = self.passed_by.claim(self.store);
        if prints {
            // Later items have been printed already. Leave these to another run by not committing them.
            return Ok(settled.pending + settled.new);
        }
        if settled.new > 0 {
            self.store.commit()?;
            tally.kept += settled.new;
        }
        Ok(settled.pending)
    }
}

impl Job for Claims<'_> {
    fn hasher(&self) -> KeyHasher {
        self.store.hasher().clone()
    }

    fn shown<'a>(&'a self, keep: &'a [bool]) -> &'a [bool] {
        self.seen.as_deref().unwrap_or(keep)
    }

    fn judge(&mut self, items: &[HashedKey], keep: &mut Vec<bool>) -> everseen::Result<()> {
        if let Some(deferred) = &mut self.deferred {
            let first = keep.len();
            let judged = deferred.judge(self.store, &mut self.sieve, items, keep);
            self.note_deferred(&keep[first..]);
            return judged;
        }
        self.verdicts.clear();
        let claimed = self.claim(items);
        self.note(items, keep);
        claimed
    }

    fn judge_prechecked(
        &mut self,
        items: &[HashedKey],
        range: Range<usize>,
        precheck: &mut Precheck,
        keep: &mut Vec<bool>,
    ) -> everseen::Result<()> {
        if let Some(deferred) = &mut self.deferred {
            let first = keep.len();
            let judged = deferred.judge_prechecked(self.store, items, range, precheck, keep);
            self.note_deferred(&keep[first..]);
            return judged;
        }
        let (store, verdicts) = (self.store, &mut self.verdicts);
        verdicts.clear();
        let judged = &items[range.clone()];
        let options = ClaimOptions::new().until_pending(self.stops);
        let claimed = precheck.claim(store, items, range, options);
        let claimed = BatchError::append(claimed, verdicts);
        self.leave_out_pending();
        self.note(judged, keep);
        claimed
    }

    fn wait(&self) -> Duration {
        self.wait
    }

    fn stop_at_pending(&mut self, stop: bool) {
        // Only a transactional store has pending items; a counting one has its own ways of claiming.
        self.stops = stop && self.transactional;
    }

    fn room(&self) -> usize {
        let room =
            room_within(self.quota, self.new).min(self.commit_every.saturating_sub(self.items));
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    fn uncommitted_since(&self) -> Option<Instant> {
        self.since
    }

    fn is_transactional(&self) -> bool {
        self.transactional || self.deferred.is_some()
    }

    fn commit(&mut self) -> everseen::Result<()> {
        // Items that other processes have just added count as done here too, but may be only in the log, not yet
        // durable.
        if self.new > 0 || self.items > 0 && self.store.stats()?.log_bytes > 0 {
            if let Some(deferred) = &mut self.deferred {
                deferred.settle(self.store)?;
            }
            let tag = self.sink.as_ref().map(|sink| sink.tag(false));
            self.store.commit_with(&tag.unwrap_or_default())?;
            if let Some(sink) = &self.sink {
                sink.committed();
            }
        }
        (self.items, self.new, self.since) = (0, 0, None);
        Ok(())
    }

    fn sieve(&mut self) -> Option<&mut dyn Gather> {
        Some(&mut self.sieve)
    }

    fn warning(&mut self) -> everseen::Result<Option<String>> {
        let mut fullness = self.store.fullness()?;
        if let Some(deferred) = &self.deferred {
            fullness = deferred.fullness(fullness);
        }
        Ok(self.warnings.next(fullness))
    }
}

/// Returns how many more items may change the store before a commit, if some of a quota have done so.
pub fn room_within(quota: u64, changed: u64) -> u64 {
    let left = quota.saturating_sub(changed);
    // Batches must not shrink toward the quota: many a batch changes nothing.
    match changed > 0 && left < BATCH as u64 {
        true => 0,
        false => left.max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use everseen::CreateOptions;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        window: Window,
    }

    #[test]
    fn a_plain_store_learns_at_a_commit_what_was_printed_before() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for kind in [Kind::Bloom, Kind::Counting] {
            let options = CreateOptions::new().capacity(1000).kind(kind);
            let path = folder.path().join(kind.to_string());
            let store = options.create(&path).expect("made");
            let output = Output::stdout().expect("tests have one");
            let how = Claiming {
                commit_every: 10,
                memory: 64 << 20,
                wait: Duration::ZERO,
                repeats: Repeats::LeaveOut,
                shows_seen: false,
                sieve: &Line::parse_from(["everseen"]).window,
                path: &path,
            };
            let claims = Claims::new(&store, &output, &how);
            let mut claims = claims.expect("nothing fails");
            // Therefore the output is made durable before the commit.
            assert!(claims.is_transactional());
            let items = [b"a", b"b", b"a"].map(|item| claims.hasher().key(item));
            let mut keep = Vec::new();
            // A thread has looked at the last two before their turn.
            let looked = Precheck::for_claims(&store, &items);
            let mut precheck = looked.expect("nothing fails");
            claims.judge(&items[..1], &mut keep).expect("nothing fails");
            let judged = claims.judge_prechecked(&items, 1..3, &mut precheck, &mut keep);
            judged.expect("nothing fails");
            assert_eq!(keep, [true, true, false]);
            let known =
                |claims: &Claims<'_>| claims.store.contains_batch(&items[..2]).expect("looks");
            assert_eq!(known(&claims), [false, false]);
            assert!(claims.uncommitted_since().is_some());
            claims.commit().expect("nothing fails");
            assert_eq!(known(&claims), [true, true]);
            assert!(claims.uncommitted_since().is_none());
        }
    }
}
