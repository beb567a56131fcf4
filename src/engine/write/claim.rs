//! Claiming keys under the writer lock.

use crate::engine::view::lookup::AbsentSince;
use crate::engine::view::lookup::Freshness;
use crate::engine::write::guard::WriteGuard;
use crate::engine::write::renew::Renewed;
use crate::engine::write::verdict::{OnPending, Stop, Verdict};
use crate::engine::write::write_batch::{BatchOperation, Decision, WriteBatch};
use crate::engine::writer_state::Claims;
use crate::error::{Error, Result};
use crate::memtable::{Claim, Digest, Presence, Slot};
use crate::prefetch::GROUP;
use crate::shm::handle::Handle;

/// Once the keys of a transactional buffer fill the last layer, a checkpoint begins if at least this share of the
/// layer's room is for committed ones.
const LEAST_COMMITTED: u64 = 4;

/// What keys are claimed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// They are absent: those that still are are new.
    Claim,
    /// They are there: those that still are get the age of this step.
    Renewal,
}

/// Keys of a batch to claim.
#[derive(Clone, Copy)]
pub(crate) struct Candidates<'b> {
    pub(crate) batch: &'b [u64],
    /// Their places in the batch.
    pub(crate) places: &'b [usize],
    /// When they were looked for.
    pub(crate) absent: AbsentSince,
    pub(crate) on_pending: OnPending,
    pub(crate) purpose: Purpose,
}

/// The claims of a batch.
struct ClaimBatch<'b> {
    candidates: Candidates<'b>,
    /// For the whole batch.
    verdicts: &'b mut [Verdict],
    claims: Box<Claims>,
    freshness: Freshness,
    /// The state given to keys that are claimed.
    state: u16,
}

/// The outcome for one key.
enum Outcome {
    Claimed(Slot),
    Verdict(Verdict),
    NoRoom,
}

impl BatchOperation for ClaimBatch<'_> {
    #[inline]
    fn turns(&self) -> usize {
        self.candidates.places.len()
    }

    #[inline]
    fn place(&self, turn: usize) -> usize {
        self.candidates.places[turn]
    }

    #[inline]
    fn decide(&mut self, guard: &mut WriteGuard<'_>, turn: usize) -> Result<Decision> {
        let place = self.candidates.places[turn];
        let hash = self.candidates.batch[place];
        if turn.is_multiple_of(GROUP) {
            self.prefetch(guard, turn + GROUP);
        }
        let claims = &mut *self.claims;
        let outcome = match self.candidates.purpose {
            Purpose::Claim => guard.claim_one(hash, self.freshness, claims)?,
            Purpose::Renewal => {
                let pending = claims.slots.len() as u64;
                match guard.renew_one(hash, self.freshness, pending)? {
                    Renewed::Claimed(slot) => Outcome::Claimed(slot),
                    Renewed::LeftAlone => return Ok(Decision::Unchanged),
                    Renewed::NoRoom => Outcome::NoRoom,
                }
            }
        };
        if std::mem::take(&mut claims.gave_up) {
            self.freshness = guard.freshness(self.candidates.absent);
        }
        match outcome {
            Outcome::Verdict(verdict) => {
                self.verdicts[place] = verdict;
                Ok(match self.candidates.on_pending.stops_at(verdict) {
                    true => Decision::Last,
                    false => Decision::Unchanged,
                })
            }
            Outcome::Claimed(slot) => {
                claims.hashes.push(hash);
                claims.slots.push(slot);
                claims.places.push(place);
                Ok(Decision::Reserved)
            }
            Outcome::NoRoom => Ok(Decision::NoRoom),
        }
    }

    #[inline]
    fn first_reserved(&self) -> Option<usize> {
        self.claims.places.first().copied()
    }

    #[inline]
    fn append(&mut self, guard: &mut WriteGuard<'_>) -> Result<()> {
        guard.check_table()?;
        guard.announce()?;
        let hashes = &self.claims.hashes;
        // One that is claimed and not logged would be lost with the process, and the other way round.
        assert_eq!(hashes.len(), self.claims.slots.len());
        assert_eq!(hashes.len(), self.claims.places.len());
        guard.append(|log, handle| log.insert(handle, hashes))
    }

    #[inline]
    fn publish(&mut self, guard: &WriteGuard<'_>) {
        let claims = &mut *self.claims;
        let active = &guard.view.active.buffer;
        for (slot, place) in claims.slots.iter().zip(&claims.places) {
            active.publish_claim(*slot, self.state);
            self.verdicts[*place] = Verdict::New;
        }
        let count = claims.slots.len() as u64;
        active.set_keys(active.keys().saturating_add(count));
        active.set_net_keys(active.net_keys().saturating_add_unsigned(count));
        guard.note_changes(&claims.hashes, 1);
        claims.clear();
    }

    fn abandon(&mut self, guard: &WriteGuard<'_>) {
        for slot in &self.claims.slots {
            guard.view.active.buffer.retract(*slot);
        }
        self.claims.clear();
    }

    fn resume(&mut self, guard: &WriteGuard<'_>, state: u16, turn: usize) {
        self.state = state;
        self.claims.allowance = guard.allowance();
        self.freshness = guard.freshness(self.candidates.absent);
        // The previous prefetch was for the old buffer.
        self.prefetch(guard, turn);
        self.prefetch(guard, turn + GROUP);
    }
}

impl ClaimBatch<'_> {
    /// Prefetches the slots that claiming a group of keys touches.
    #[inline]
    fn prefetch(&self, guard: &WriteGuard<'_>, first: usize) {
        let Candidates { batch, places, .. } = self.candidates;
        for place in places.iter().skip(first).take(GROUP) {
            guard.view.active.buffer.prefetch(batch[*place]);
        }
    }
}

impl WriteGuard<'_> {
    /// Notes for a transaction that keys were inserted, or with `times` of -1 removed.
    #[inline]
    pub(crate) fn note_changes(&self, hashes: &[u64], times: i64) {
        if !self.writer.file.header.transactional {
            return;
        }
        let slot = self.slot();
        let mut changes = Digest::default();
        let canonical = hashes
            .iter()
            .map(|hash| self.view.active.buffer.canonical(*hash));
        changes.add_all(canonical, times);
        let mut digest = slot.digest();
        digest.merge(changes, 1);
        let count = slot.uncommitted().saturating_add(hashes.len() as u64);
        slot.set_uncommitted(digest, count);
    }

    /// Claims the candidates of a batch, appends them to the log, and updates their verdicts. A store that fills up on the way
    /// drops what is forgotten, and goes on if there is room then.
    pub(crate) fn claim(
        &mut self,
        candidates: Candidates<'_>,
        verdicts: &mut [Verdict],
    ) -> Result<(), Stop> {
        let claimed = self.claim_while_there_is_room(candidates, verdicts);
        let full = match claimed {
            Err(stop) if matches!(*stop.error, Error::Full { .. }) => stop,
            claimed => return claimed,
        };
        self.forget().map_err(Stop::at(full.done))?;
        if self.is_full(0) {
            return Err(full);
        }
        let done = candidates
            .places
            .partition_point(|place| *place < full.done);
        let rest = Candidates {
            places: &candidates.places[done..],
            ..candidates
        };
        self.claim_while_there_is_room(rest, verdicts)
    }

    fn claim_while_there_is_room(
        &mut self,
        candidates: Candidates<'_>,
        verdicts: &mut [Verdict],
    ) -> Result<(), Stop> {
        let first = candidates.places.first().copied().unwrap_or(0);
        // In order: of two that are equal, the first is the new one.
        debug_assert!(candidates.places.is_sorted_by(|one, next| one < next));
        let last = candidates.places.last().copied().unwrap_or(0);
        assert!(last < candidates.batch.len().min(verdicts.len()), "{last}");
        let claims = candidates.purpose == Purpose::Claim;
        let freshness = self.freshness(candidates.absent);
        let held = |hash| self.view.active.buffer.is_held(hash);
        if claims
            && freshness == Freshness::Active
            && self.is_full(0)
            && !held(candidates.batch[first])
        {
            // Refuse without even creating a log.
            return Err(Stop::at(first)(self.full()));
        }
        let state = self.begin_claims().map_err(Stop::at(first))?;
        let mut claims = self.local.claims.take().unwrap_or_default();
        claims.clear();
        claims.alive.clear();
        claims.allowance = self.allowance();
        let operation = ClaimBatch {
            freshness: self.freshness(candidates.absent),
            candidates,
            verdicts,
            claims,
            state,
        };
        operation.prefetch(self, 0);
        let mut batch = WriteBatch {
            guard: self,
            operation,
        };
        let outcome = batch.run();
        let claims = batch.operation.claims;
        self.local.claims = Some(claims);
        outcome
    }

    /// Returns where keys that were absent may be now.
    pub(crate) fn freshness(&self, absent: AbsentSince) -> Freshness {
        Freshness::of(absent, &self.view)
    }

    /// Claims one key, if the store may take it, after those that this batch has already claimed.
    #[inline]
    fn claim_one(
        &mut self,
        hash: u64,
        freshness: Freshness,
        claims: &mut Claims,
    ) -> Result<Outcome> {
        let pending = claims.slots.len() as u64;
        let is_below = match freshness {
            Freshness::Active => false,
            Freshness::Sealed => {
                let since = self.view.remembered_since();
                self.view.sealed_says(hash, since) == Some(true)
            }
            Freshness::Checkpointed => self.writer.reader().is_below(hash)?,
        };
        let buffer = &self.view.active.buffer;
        // The buffer decides first: it may have removed what is below.
        if is_below && buffer.lookup(hash) == Presence::Absent {
            return Ok(Outcome::Verdict(Verdict::Seen));
        }
        // A key that is present still gets its answer, and a refused key takes no slot.
        if pending >= claims.allowance
            && let Some(refusal) = self.refusal(pending)
            && !buffer.is_held(hash)
        {
            return refusal;
        }
        match buffer.claim(hash) {
            Claim::Claimed(slot) => Ok(Outcome::Claimed(slot)),
            // Another handle renews what is there anyway.
            Claim::Open(handle)
                if handle != self.writer.handle.number && self.is_being_renewed(hash)? =>
            {
                Ok(Outcome::Verdict(Verdict::Seen))
            }
            Claim::Settled => Ok(Outcome::Verdict(Verdict::Seen)),
            Claim::Open(handle) if handle == self.writer.handle.number => {
                Ok(Outcome::Verdict(Verdict::Seen))
            }
            Claim::Removing(handle) if handle == self.writer.handle.number => {
                Ok(self.take_back(hash, claims))
            }
            Claim::Open(handle) | Claim::Removing(handle) => self.claim_from(handle, hash, claims),
            Claim::NoRoom => Ok(Outcome::NoRoom),
        }
    }

    /// Claims a key that this handle itself has removed in its open transaction.
    fn take_back(&self, hash: u64, claims: &mut Claims) -> Outcome {
        let buffer = &self.view.active.buffer;
        let canonical = buffer.canonical(hash);
        match buffer.slot_of(hash) {
            Some(slot) if !claims.taken_back.contains(&canonical) => {
                claims.taken_back.push(canonical);
                Outcome::Claimed(slot)
            }
            _ => Outcome::Verdict(Verdict::Seen),
        }
    }

    /// Claims a key that another handle has changed and not committed, if that handle is dead.
    #[cold]
    fn claim_from(&mut self, handle: u64, hash: u64, claims: &mut Claims) -> Result<Outcome> {
        let Handle { locks, .. } = self.writer.handle;
        if claims.alive.contains(&handle) {
            return Ok(Outcome::Verdict(Verdict::Pending));
        }
        if locks.is_alive(self.writer.shared, handle)? {
            claims.alive.push(handle);
            return Ok(Outcome::Verdict(Verdict::Pending));
        }
        self.reap_dead_handles()?;
        claims.gave_up = true;
        // If its transaction is still there, it stays.
        claims.alive.push(handle);
        // Whether it is below was not looked for.
        self.claim_one(hash, Freshness::Checkpointed, claims)
    }

    /// Returns why one more key can't be claimed now, when `pending` keys are already being claimed.
    fn refusal(&self, pending: u64) -> Option<Result<Outcome>> {
        if self.is_full(pending) {
            return Some(Err(self.full()));
        }
        let quota = self.writer.quota();
        if self.slot().uncommitted().saturating_add(pending) >= quota {
            return Some(Err(Error::TransactionTooLarge { quota }));
        }
        self.should_rotate(pending).then_some(Ok(Outcome::NoRoom))
    }

    /// Returns the smallest number of pending keys at which there is a [`refusal`](Self::refusal).
    fn allowance(&self) -> u64 {
        if self.should_rotate(0) {
            return 0;
        }
        let file = self.writer.file;
        let buffer = &self.view.active.buffer;
        let held = self.view.keys();
        let room = match file.header.transactional {
            // Pending keys are not committed, so they make no difference.
            true => u64::MAX,
            false => buffer.room().saturating_sub(buffer.keys()),
        };
        let quota = self.writer.quota();
        let quota = quota.saturating_sub(self.slot().uncommitted());
        file.key_limit.saturating_sub(held).min(quota).min(room)
    }

    /// Returns whether the store, including `pending` keys that are being claimed, holds all it may.
    pub(super) fn is_full(&self, pending: u64) -> bool {
        self.view.keys().saturating_add(pending) >= self.writer.file.key_limit
    }

    pub(crate) fn full(&self) -> Error {
        Error::Full {
            capacity: self.writer.file.key_limit,
        }
    }

    /// Returns whether the log is long, or the keys would fill the last layer.
    fn should_rotate(&self, pending: u64) -> bool {
        let buffer = &self.view.active.buffer;
        if self.log_is_long() {
            return true;
        }
        if !self.writer.file.header.transactional {
            return buffer.keys().saturating_add(pending) >= buffer.room();
        }
        // Only committed keys go into the pages. More of them than the layer has room for would all go into a new one, so
        // this does not wait until they fill it, but until they are worth a checkpoint.
        let (keys, room) = (buffer.keys(), buffer.room());
        // A checkpoint without a committed key would leave the buffer as full as it is.
        let least = (room / LEAST_COMMITTED).max(1);
        keys >= room && keys.saturating_sub(self.uncommitted_of_all()) >= least
    }
}
