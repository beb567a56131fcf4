//! What a command does with items.

use std::ops::Range;
use std::time::{Duration, Instant};

use everseen::Precheck;
use everseen::hash::{HashedKey, KeyHasher};

use crate::pipeline::window::Gather;

/// What a command does with items.
pub trait Job {
    /// Returns the hasher for the items.
    fn hasher(&self) -> KeyHasher;

    /// Pushes for each item whether it is kept. On an error, `keep` covers the items before the one that failed, which
    /// are processed.
    fn judge(&mut self, items: &[HashedKey], keep: &mut Vec<bool>) -> everseen::Result<()>;

    /// Returns which of the items of the last call of [`judge`](Self::judge) are printed, if those are not the kept ones.
    fn shown<'a>(&'a self, keep: &'a [bool]) -> &'a [bool] {
        keep
    }

    /// Does the same for a range of items that were looked up before their turn.
    fn judge_prechecked(
        &mut self,
        items: &[HashedKey],
        range: Range<usize>,
        _precheck: &mut Precheck,
        keep: &mut Vec<bool>,
    ) -> everseen::Result<()> {
        self.judge(&items[range], keep)
    }

    /// Returns how long to wait for items that another process has claimed but not committed.
    fn wait(&self) -> Duration {
        Duration::ZERO
    }

    /// Sets whether `judge` ends before the first pending item, without an error. Otherwise such items are not kept,
    /// and the job remembers that it has passed them by.
    fn stop_at_pending(&mut self, _stop: bool) {}

    /// Returns how many items may be judged before a commit. After a commit, this is at least one.
    fn room(&self) -> usize {
        usize::MAX
    }

    /// Returns since when something has been waiting for a commit.
    fn uncommitted_since(&self) -> Option<Instant> {
        None
    }

    /// Returns whether uncommitted items return after a crash, so that the output has to be durable before a commit.
    fn is_transactional(&self) -> bool {
        false
    }

    fn commit(&mut self) -> everseen::Result<()> {
        Ok(())
    }

    /// Returns the keys of items that wait for others, if any do. `judge` then takes them from there.
    fn sieve(&mut self) -> Option<&mut dyn Gather> {
        None
    }

    /// Returns what the user should learn now, once.
    fn warning(&mut self) -> everseen::Result<Option<String>> {
        Ok(None)
    }
}
