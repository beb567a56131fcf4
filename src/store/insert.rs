//! Inserting: look up without a lock, then claim under it what was absent.

use std::sync::Arc;

use super::Verdict;
use super::engine::{Engine, View};
use super::locks::is_alive;
use super::read::BATCH;
use super::writing::Writing;
use crate::buffer::{COMMITTED, Claim, Slot};
use crate::error::{Error, Result};

/// Keys that are claimed and not yet in the log.
#[derive(Debug, Default)]
struct Claims {
    hashes: Vec<u64>,
    slots: Vec<Slot>,
    /// Where each stands in the batch.
    places: Vec<usize>,
    /// Other handles found alive since the writer lock was taken. To ask takes longer than to claim
    /// dozens of keys, and the answer may be old by the time it is given anyway.
    alive: Vec<u64>,
}

/// Why a batch ended early.
struct Stop {
    /// How many of its keys are done.
    done: usize,
    error: Box<Error>,
}

impl Stop {
    fn at(done: usize) -> impl FnOnce(Error) -> Self {
        move |error| Self {
            done,
            error: Box::new(error),
        }
    }
}

/// What became of one key under the writer lock.
enum Outcome {
    Claimed(Slot),
    Verdict(Verdict),
    NoRoom,
}

impl Engine {
    /// Inserts the keys in order and appends a verdict for each.
    ///
    /// On an error the verdicts are those of the keys before the one that failed, which are done.
    pub(crate) fn claim_each(&self, hashes: &[u64], verdicts: &mut Vec<Verdict>) -> Result<()> {
        self.check_writable()?;
        verdicts.reserve(hashes.len());
        for batch in hashes.chunks(BATCH) {
            let first = verdicts.len();
            if let Err(stop) = self.claim_batch(batch, verdicts) {
                verdicts.truncate(first + stop.done);
                return Err(*stop.error);
            }
        }
        Ok(())
    }

    fn claim_batch(&self, batch: &[u64], verdicts: &mut Vec<Verdict>) -> Result<(), Stop> {
        let first = verdicts.len();
        let view = Arc::clone(&*self.view().map_err(Stop::at(0))?);
        for hash in batch {
            view.prefetch(*hash);
        }
        let mut absent = Vec::with_capacity(batch.len());
        let mut outcome = Ok(());
        for (place, hash) in batch.iter().enumerate() {
            match self.probe_seen(&view, *hash) {
                Ok(true) => {}
                Ok(false) => absent.push(place),
                Err(error) => {
                    // The keys before it are to be claimed all the same.
                    outcome = Err(Stop::at(place)(error));
                    break;
                }
            }
            verdicts.push(Verdict::Seen);
        }
        if let Some(first_absent) = absent.first() {
            let mut writing = self.lock_writer().map_err(Stop::at(*first_absent))?;
            writing.claim_absent(&view, batch, &absent, &mut verdicts[first..])?;
        }
        outcome
    }
}

impl Writing<'_> {
    /// Claims the keys at the places `absent` of a batch, which `seen` did not hold.
    fn claim_absent(
        &mut self,
        seen: &Arc<View>,
        batch: &[u64],
        absent: &[usize],
        verdicts: &mut [Verdict],
    ) -> Result<(), Stop> {
        let first = absent.first().copied().unwrap_or(0);
        if self.is_full(0) && !self.view.active.buffer.is_held(batch[first]) {
            // Refused without so much as a log.
            return Err(Stop::at(first)(self.full()));
        }
        let mut state = self.begin_claims().map_err(Stop::at(first))?;
        // Keys may have moved on since they were looked for outside of the lock.
        let mut look_again = !Arc::ptr_eq(&self.view, seen);
        let mut claims = Claims::default();
        let mut rotated = false;
        let mut rest = absent.iter().copied();
        let mut next = rest.next();
        let outcome = loop {
            let Some(place) = next else {
                break Ok(());
            };
            let hash = batch[place];
            match self.claim_one(hash, look_again, &mut claims) {
                Ok(Outcome::Verdict(verdict)) => verdicts[place] = verdict,
                Ok(Outcome::Claimed(slot)) => {
                    rotated = false;
                    claims.hashes.push(hash);
                    claims.slots.push(slot);
                    claims.places.push(place);
                }
                Ok(Outcome::NoRoom) => {
                    self.append_claims(&mut claims, state, verdicts)?;
                    if rotated {
                        // Even a fresh buffer has no room: what fills it is not committed.
                        let quota = self.slot().uncommitted();
                        break Err(Stop::at(place)(Error::TransactionTooLarge { quota }));
                    }
                    match self.rotate(false).and_then(|()| self.begin_claims()) {
                        Ok(begun) => state = begun,
                        Err(error) => break Err(Stop::at(place)(error)),
                    }
                    rotated = true;
                    look_again = true;
                    continue;
                }
                Err(error) => break Err(Stop::at(place)(error)),
            }
            next = rest.next();
        };
        self.append_claims(&mut claims, state, verdicts)?;
        outcome
    }

    /// Sees that there is a log and, in a transactional store, a transaction; answers the state
    /// that claimed keys are to have.
    fn begin_claims(&mut self) -> Result<u16> {
        if !self.view.active.has_log() {
            self.start_log()?;
        }
        if !self.engine.header.transactional {
            return Ok(COMMITTED);
        }
        let slot = self.slot();
        if slot.transaction() == 0 {
            let begun = self
                .view
                .active
                .buffer
                .begin_transaction(self.engine.handle);
            // As many as there are states; with as many handles as may be there, most are over.
            let state = begun.ok_or(Error::TransactionTooLarge { quota: 0 })?;
            slot.set_transaction(state);
        }
        Ok(slot.transaction())
    }

    /// Claims one key, if the store may take it, after those that this batch has claimed already.
    #[inline]
    fn claim_one(&mut self, hash: u64, look_again: bool, claims: &mut Claims) -> Result<Outcome> {
        let engine = self.engine;
        let pending = claims.slots.len() as u64;
        if look_again && engine.probe_settled(&self.view, hash)? {
            return Ok(Outcome::Verdict(Verdict::Seen));
        }
        let buffer = &self.view.active.buffer;
        let uncommitted = self.slot().uncommitted() + pending;
        let refusal = if self.is_full(pending) {
            Some(Err(self.full()))
        } else if engine.header.transactional && uncommitted >= buffer.limit() / 2 {
            Some(Err(Error::TransactionTooLarge {
                quota: buffer.limit() / 2,
            }))
        } else if self.should_rotate(pending) {
            Some(Ok(Outcome::NoRoom))
        } else {
            None
        };
        // A key that is there is answered all the same, and one that is refused takes no slot.
        if let Some(refusal) = refusal
            && !buffer.is_held(hash)
        {
            return refusal;
        }
        let slot = match buffer.claim(hash) {
            Claim::Settled => return Ok(Outcome::Verdict(Verdict::Seen)),
            Claim::Open(handle) if handle == engine.handle => {
                return Ok(Outcome::Verdict(Verdict::Seen));
            }
            Claim::Open(handle) => {
                if claims.alive.contains(&handle) {
                    return Ok(Outcome::Verdict(Verdict::Pending));
                }
                if is_alive(&engine.path, &engine.shared, handle)? {
                    claims.alive.push(handle);
                    return Ok(Outcome::Verdict(Verdict::Pending));
                }
                self.drop_the_dead()?;
                match self.view.active.buffer.claim(hash) {
                    Claim::Claimed(slot) => slot,
                    _ => return Ok(Outcome::Verdict(Verdict::Pending)),
                }
            }
            Claim::NoRoom => return Ok(Outcome::NoRoom),
            Claim::Claimed(slot) => slot,
        };
        Ok(Outcome::Claimed(slot))
    }

    /// Whether the store holds, with `pending` keys that are being claimed, all that it may.
    fn is_full(&self, pending: u64) -> bool {
        self.view.settled_keys() + self.view.active.buffer.keys() + pending >= self.engine.key_limit
    }

    fn full(&self) -> Error {
        Error::Full {
            capacity: self.engine.key_limit,
        }
    }

    /// Whether the log is long, or the keys would fill the last layer.
    fn should_rotate(&self, pending: u64) -> bool {
        let buffer = &self.view.active.buffer;
        if self.log_is_long() {
            return true;
        }
        if !self.engine.header.transactional {
            return buffer.keys() + pending >= buffer.room();
        }
        // Only what is committed goes to the pages.
        buffer.keys() >= buffer.room()
            && buffer.keys().saturating_sub(self.uncommitted_of_all()) >= buffer.room()
    }

    /// Puts claims into the log, then shows them to readers. Only then are they done.
    fn append_claims(
        &mut self,
        claims: &mut Claims,
        state: u16,
        verdicts: &mut [Verdict],
    ) -> Result<(), Stop> {
        let Some(first) = claims.places.first().copied() else {
            return Ok(());
        };
        let active = Arc::clone(&self.view.active);
        if let Err(error) = self.append_inserts(&claims.hashes) {
            for slot in &claims.slots {
                active.buffer.retract(*slot);
            }
            return Err(Stop::at(first)(error));
        }
        for (slot, place) in claims.slots.iter().zip(&claims.places) {
            active.buffer.publish(*slot, state);
            verdicts[*place] = Verdict::New;
        }
        let count = claims.slots.len() as u64;
        active.buffer.set_keys(active.buffer.keys() + count);
        if self.engine.header.transactional {
            let slot = self.slot();
            slot.set_uncommitted(slot.uncommitted() + count);
        }
        active.buffer.set_applied(active.buffer.tail().end);
        claims.hashes.clear();
        claims.slots.clear();
        claims.places.clear();
        Ok(())
    }

    fn append_inserts(&mut self, hashes: &[u64]) -> Result<()> {
        self.announce()?;
        let engine = self.engine;
        let active = Arc::clone(&self.view.active);
        let log = engine.log_of(&active)?;
        let outcome = active.append(log, &mut self.local.scratch, |log| {
            log.insert(engine.handle, hashes)
        });
        engine.poison_on_failure(outcome)
    }
}
