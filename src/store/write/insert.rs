//! Inserting: look up without a lock, then claim under it what was absent.

use std::sync::atomic::Ordering;

use crate::buffer::{Buffer, COMMITTED, Claim, Digest, Presence, Slot};
use crate::error::{Error, Result};
use crate::store::api::store::Verdict;
use crate::store::engine::Engine;
use crate::store::prefetch::hash_source::{HashSource, SourceTail};
use crate::store::prefetch::{BATCH, GROUP};
use crate::store::read::Reader;
use crate::store::read::staged::{ProbeContext, SelectionVector, probe_buffers, probe_layers};
use crate::store::view::View;
use crate::store::view::lookup::AbsentSince;
use crate::store::write::claims::{Behind, Claims, Stop};
use crate::store::write::count::Operation;
use crate::store::write::freshness::Since;
use crate::store::write::guard::Writing;

/// A batch of so many keys tells what the next ones will be like.
const MANY: usize = 64;

/// What is known of the keys of a part from a place on.
struct Probed {
    first: usize,
    absent: AbsentSince,
    seen: Vec<bool>,
}

/// The same of a batch.
struct Looked<'a> {
    absent: AbsentSince,
    seen: &'a [bool],
}

/// What became of one key under the writer lock.
enum Outcome {
    Claimed(Slot),
    Verdict(Verdict),
    NoRoom,
}

impl Engine {
    /// Inserts one key.
    pub(crate) fn claim_single(&self, hash: u64) -> Result<Verdict> {
        if self.file.is_counting() {
            return Ok(self.count_single(Operation::Insert, hash)?.verdict());
        }
        self.handle.check_writable()?;
        let view = self.views.current()?;
        view.prefetch(hash);
        let mut verdict = [Verdict::Seen];
        if Reader::of(self).probe_seen(&view, hash)? {
            self.check_seen(&[hash], &verdict);
            return Ok(Verdict::Seen);
        }
        let mut writing = self.lock_writer()?;
        match writing.claim_absent(
            AbsentSince::of(&view),
            &[hash],
            &[0],
            Behind::Claimed,
            &mut verdict,
        ) {
            Ok(()) => Ok(verdict[0]),
            Err(stop) => Err(*stop.error),
        }
    }

    /// Inserts the keys of a part in order and appends a verdict for each that is to have one.
    ///
    /// On an error the verdicts are those of the keys before the one that failed, which are done.
    pub(crate) fn claim_part(
        &self,
        keys: &dyn HashSource,
        behind: Behind,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<()> {
        if self.file.is_counting() {
            return self.count_verdicts(Operation::Insert, keys, verdicts);
        }
        self.handle.check_writable()?;
        verdicts.reserve(keys.count());
        let mut probed = self.probe(SourceTail::all(keys))?;
        let mut hashes = [0; BATCH];
        for at in (0..keys.count()).step_by(BATCH) {
            if probed.as_ref().is_some_and(|probed| !self.tells(probed)) {
                probed = self.probe(SourceTail {
                    source: keys,
                    first: at,
                })?;
            }
            let batch = &mut hashes[..BATCH.min(keys.count() - at)];
            keys.hashes_from(at, batch);
            let seen = probed.as_ref().map(|probed| Looked {
                absent: probed.absent,
                seen: &probed.seen[at - probed.first..],
            });
            let first = verdicts.len();
            if let Err(stop) = self.claim_batch(batch, seen, behind, verdicts) {
                verdicts.truncate(first + stop.done);
                return Err(*stop.error);
            }
            if behind.ends(&verdicts[first..]) {
                break;
            }
        }
        Ok(())
    }

    /// Looks up many keys at once, for batches of them to be claimed after. `None` if they are too
    /// few for that, or if there is a damaged page, which is to be met in its turn.
    fn probe(&self, keys: SourceTail<'_>) -> Result<Option<Probed>> {
        if keys.count() < MANY {
            return Ok(None);
        }
        let mut seen = vec![false; keys.count()];
        let probed = Reader::of(self).probe_part(&keys, self.counts(), &mut seen)?;
        Ok(probed.ok().map(|absent| Probed {
            first: keys.first,
            absent,
            seen,
        }))
    }

    /// Whether who was absent then, and came since, is in a buffer.
    fn tells(&self, probed: &Probed) -> bool {
        let active = self.shared.active();
        let frozen = Some(self.shared.settled()).filter(|settled| *settled < active);
        Since::of(probed.absent, active, frozen) != Since::Settled
    }

    /// How the active buffer is looked into, ahead of claiming. Who brings new keys finds them absent
    /// from it, and looks there once more to claim them: then once is enough.
    fn counts(&self) -> Option<impl Fn(Presence) -> bool> {
        let looks = !self.hints.mostly_new.load(Ordering::Relaxed);
        looks.then_some(|presence| Reader::of(self).is_seen(presence))
    }

    /// Claims a batch, which may have been looked up.
    fn claim_batch(
        &self,
        batch: &[u64],
        looked: Option<Looked<'_>>,
        behind: Behind,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<(), Stop> {
        let first = verdicts.len();
        let (since, absent, outcome) = match looked {
            Some(Looked {
                absent: since,
                seen,
            }) => {
                let absent = (0..batch.len()).filter(|place| !seen[*place]);
                (since, absent.collect(), Ok(()))
            }
            None => {
                let view = self.views.current().map_err(Stop::at(0))?;
                let (absent, outcome) = self.find_absent(&view, batch);
                (AbsentSince::of(&view), absent, outcome)
            }
        };
        let judged = match &outcome {
            Ok(()) => batch.len(),
            Err(stop) => stop.done,
        };
        verdicts.resize(first + judged, Verdict::Seen);
        if let Some(first_absent) = absent.first() {
            if !self.is_sole_writer() {
                // Others wait for the lock: what it takes to wait for memory is done before.
                let view = self.views.cell.load();
                for place in &absent {
                    view.active.buffer.prefetch(batch[*place]);
                }
            }
            let mut writing = self.lock_writer().map_err(Stop::at(*first_absent))?;
            writing.claim_absent(since, batch, &absent, behind, &mut verdicts[first..])?;
            behind.cut(verdicts, first);
        }
        self.check_seen(batch, &verdicts[first..]);
        let is_new = |verdict: &&Verdict| **verdict == Verdict::New;
        let new = verdicts[first..].iter().filter(is_new).count();
        if batch.len() >= MANY {
            let mostly = new * 4 > batch.len() * 3;
            self.hints.mostly_new.store(mostly, Ordering::Relaxed);
        }
        if behind.ends(&verdicts[first..]) {
            return Ok(());
        }
        outcome
    }

    /// The places of a batch whose keys are not there as far as can be told without the writer
    /// lock; up to the first that can't be looked up, if there is one: the keys before it are to be
    /// claimed all the same.
    fn find_absent(&self, view: &View, batch: &[u64]) -> (Vec<usize>, Result<(), Stop>) {
        let mut seen = [false; BATCH];
        let seen = &mut seen[..batch.len()];
        let mut absent = Vec::with_capacity(batch.len());
        let reader = Reader::of(self);
        let counts = Some(|presence| reader.is_seen(presence));
        let context = ProbeContext::of(view, self.shared.window());
        let mut rest = SelectionVector::all(batch.len());
        probe_buffers(view, batch, counts, &mut rest, seen);
        let probed = probe_layers(&context, batch, &mut rest, seen);
        let mut outcome = Ok(());
        if probed.is_err() {
            for (place, hash) in batch.iter().enumerate() {
                match reader.probe_seen(view, *hash) {
                    Ok(found) => seen[place] = found,
                    Err(error) => {
                        outcome = Err(Stop::at(place)(error));
                        seen[place..].fill(true);
                        break;
                    }
                }
            }
        }
        absent.extend((0..batch.len()).filter(|place| !seen[*place]));
        (absent, outcome)
    }
}

impl Writing<'_> {
    /// Where keys may be that were absent.
    fn since(&self, absent: AbsentSince) -> Since {
        let frozen = self.view.frozen.as_ref().map(|frozen| frozen.number());
        Since::of(absent, self.view.active.number(), frozen)
    }

    /// Claims the keys at the places `absent` of a batch.
    fn claim_absent(
        &mut self,
        looked: AbsentSince,
        batch: &[u64],
        absent: &[usize],
        behind: Behind,
        verdicts: &mut [Verdict],
    ) -> Result<(), Stop> {
        let first = absent.first().copied().unwrap_or(0);
        let held = |hash| self.view.active.buffer.is_held(hash);
        if self.since(looked) == Since::Active && self.is_full(0) && !held(batch[first]) {
            // Refused without so much as a log.
            return Err(Stop::at(first)(self.full()));
        }
        let state = self.begin_claims().map_err(Stop::at(first))?;
        let mut claims = self.local.claims.take().unwrap_or_default();
        claims.clear();
        claims.alive.clear();
        claims.allowance = self.allowance();
        claims.behind = behind;
        let claimed = self.claim_in_turn(batch, absent, looked, state, &mut claims, verdicts);
        self.local.claims = Some(claims);
        claimed
    }

    /// Claims the keys at the places `absent` of a batch, and puts them into the log.
    fn claim_in_turn(
        &mut self,
        batch: &[u64],
        absent: &[usize],
        looked: AbsentSince,
        mut state: u16,
        claims: &mut Claims,
        verdicts: &mut [Verdict],
    ) -> Result<(), Stop> {
        let mut rotated = false;
        let mut since = self.since(looked);
        let fetch_group = |buffer: &Buffer, first| {
            for place in absent.iter().skip(first).take(GROUP) {
                buffer.prefetch(batch[*place]);
            }
        };
        fetch_group(&self.view.active.buffer, 0);
        let mut at = 0;
        let outcome = loop {
            let Some(place) = absent.get(at).copied() else {
                break Ok(());
            };
            let hash = batch[place];
            if at % GROUP == 0 {
                fetch_group(&self.view.active.buffer, at + GROUP);
            }
            match self.claim_one(hash, since, claims) {
                Ok(Outcome::Verdict(verdict)) => {
                    verdicts[place] = verdict;
                    if claims.behind.ends(&verdicts[..=place]) {
                        break Ok(());
                    }
                }
                Ok(Outcome::Claimed(slot)) => {
                    rotated = false;
                    claims.hashes.push(hash);
                    claims.slots.push(slot);
                    claims.places.push(place);
                }
                Ok(Outcome::NoRoom) => {
                    self.append_claims(claims, state, verdicts)?;
                    if rotated {
                        // Even a fresh buffer has no room: what fills it is not committed.
                        let quota = self.slot().uncommitted();
                        break Err(Stop::at(place)(Error::TransactionTooLarge { quota }));
                    }
                    match self.rotate().and_then(|()| self.begin_claims()) {
                        Ok(begun) => state = begun,
                        Err(error) => break Err(Stop::at(place)(error)),
                    }
                    claims.allowance = self.allowance();
                    rotated = true;
                    since = self.since(looked);
                    // What was fetched was the old buffer's.
                    fetch_group(&self.view.active.buffer, at);
                    fetch_group(&self.view.active.buffer, at + GROUP);
                    continue;
                }
                Err(error) => break Err(Stop::at(place)(error)),
            }
            at += 1;
        };
        self.append_claims(claims, state, verdicts)?;
        outcome
    }

    /// Sees that there is a log and, in a transactional store, a transaction; answers the state
    /// that claimed keys are to have.
    pub(crate) fn begin_claims(&mut self) -> Result<u16> {
        if !self.view.active.has_log() {
            self.start_log()?;
        }
        if !self.engine.file.header.transactional {
            return Ok(COMMITTED);
        }
        let slot = self.slot();
        if slot.transaction() == 0 {
            let begun = self
                .view
                .active
                .buffer
                .begin_transaction(self.engine.handle.number);
            // As many as there are states; with as many handles as may be there, most are over.
            let state = begun.ok_or(Error::TransactionTooLarge { quota: 0 })?;
            slot.set_transaction(state);
        }
        self.check_transaction(slot.transaction())
    }

    /// Claims one key, if the store may take it, after those that this batch has claimed already.
    #[inline]
    fn claim_one(&mut self, hash: u64, since: Since, claims: &mut Claims) -> Result<Outcome> {
        let engine = self.engine;
        let pending = claims.slots.len() as u64;
        let settled = match since {
            Since::Active => false,
            Since::Frozen => self.view.is_frozen(hash),
            Since::Settled => Reader::of(engine).probe_settled(&self.view, hash)?,
        };
        if settled {
            return Ok(Outcome::Verdict(Verdict::Seen));
        }
        let buffer = &self.view.active.buffer;
        // A key that is there is answered all the same, and one that is refused takes no slot.
        if pending >= claims.allowance
            && let Some(refusal) = self.refusal(pending)
            && !buffer.is_held(hash)
        {
            return refusal;
        }
        let slot = match buffer.claim(hash) {
            Claim::Settled => return Ok(Outcome::Verdict(Verdict::Seen)),
            Claim::Open(handle) if handle == engine.handle.number => {
                return Ok(Outcome::Verdict(Verdict::Seen));
            }
            Claim::Open(handle) => {
                if claims.alive.contains(&handle) {
                    return Ok(Outcome::Verdict(Verdict::Pending));
                }
                if engine.handle.locks.is_alive(&engine.shared, handle)? {
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

    /// What stands against one more key, with `pending` that are being claimed.
    fn refusal(&self, pending: u64) -> Option<Result<Outcome>> {
        if self.is_full(pending) {
            return Some(Err(self.full()));
        }
        let quota = self.engine.quota();
        if self.slot().uncommitted().saturating_add(pending) >= quota {
            return Some(Err(Error::TransactionTooLarge { quota }));
        }
        self.should_rotate(pending).then_some(Ok(Outcome::NoRoom))
    }

    /// The least number of pending keys with which there is a [`refusal`](Self::refusal).
    fn allowance(&self) -> u64 {
        if self.should_rotate(0) {
            return 0;
        }
        let buffer = &self.view.active.buffer;
        let held = self.view.settled_keys().saturating_add(buffer.keys());
        let room = match self.engine.file.header.transactional {
            // What is pending is not committed, so that it makes no difference.
            true => u64::MAX,
            false => buffer.room().saturating_sub(buffer.keys()),
        };
        self.engine
            .file
            .key_limit
            .saturating_sub(held)
            .min(
                self.engine
                    .quota()
                    .saturating_sub(self.slot().uncommitted()),
            )
            .min(room)
    }

    /// Whether the store holds, with `pending` keys that are being claimed, all that it may.
    fn is_full(&self, pending: u64) -> bool {
        let buffered = self.view.active.buffer.keys().saturating_add(pending);
        self.view.settled_keys().saturating_add(buffered) >= self.engine.file.key_limit
    }

    fn full(&self) -> Error {
        Error::Full {
            capacity: self.engine.file.key_limit,
        }
    }

    /// Whether the log is long, or the keys would fill the last layer.
    fn should_rotate(&self, pending: u64) -> bool {
        let buffer = &self.view.active.buffer;
        if self.log_is_long() {
            return true;
        }
        if !self.engine.file.header.transactional {
            return buffer.keys().saturating_add(pending) >= buffer.room();
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
        if let Err(error) = self.append_inserts(&claims.hashes) {
            // After a failed write the log may have them all the same: then the next holder of the lock decides, as
            // after a death.
            if !self.engine.handle.is_poisoned() {
                for slot in &claims.slots {
                    self.view.active.buffer.retract(*slot);
                }
            }
            return Err(Stop::at(first)(error));
        }
        let active = &self.view.active;
        for (slot, place) in claims.slots.iter().zip(&claims.places) {
            active.buffer.publish(*slot, state);
            verdicts[*place] = Verdict::New;
        }
        let count = claims.slots.len() as u64;
        active
            .buffer
            .set_keys(active.buffer.keys().saturating_add(count));
        if self.engine.file.header.transactional {
            let slot = self.slot();
            let mut digest = slot.digest();
            digest.merge(Digest::of(&claims.hashes), 1);
            slot.set_digest(digest);
        }
        self.set_applied();
        claims.clear();
        Ok(())
    }

    fn append_inserts(&mut self, hashes: &[u64]) -> Result<()> {
        self.check_table()?;
        self.announce()?;
        self.append(|log, handle| log.insert(handle, hashes))
    }
}
