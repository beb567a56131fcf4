//! Renewing keys that are seen, in a store that forgets each by when it last came.

use crate::engine::read::look_ahead::OlderFrom;
use crate::engine::view::lookup::{AbsentSince, Freshness};
use crate::engine::write::Writer;
use crate::engine::write::claim::{Candidates, Purpose};
use crate::engine::write::guard::WriteGuard;
use crate::engine::write::verdict::{OnPending, Stop, Verdict};
use crate::error::{Error, Result};
use crate::memtable::{Claim, Presence, Slot};
use crate::prefetch::BATCH;

/// Keys that are seen and came before this step.
struct Renewable {
    /// Their places in the batch.
    places: Vec<usize>,
    /// When they were there.
    found: AbsentSince,
}

impl Writer<'_> {
    /// Renews those keys of a batch that are seen, at most [`BATCH`] of them: they are as old as this step from then on, in a
    /// transactional store from the commit on. Does nothing in a store that keeps the age that a key had first. `older` is what
    /// a look ahead has found out of the batch.
    pub(crate) fn renew(
        &self,
        batch: &[u64],
        older: Option<OlderFrom<'_>>,
        is_seen: impl Fn(usize) -> bool,
    ) -> Result<()> {
        if !self.file.header.renews() {
            return Ok(());
        }
        let seen: Vec<usize> = (0..batch.len()).filter(|place| is_seen(*place)).collect();
        if seen.is_empty() {
            return Ok(());
        }
        let Some(older) = self.still_older(older)? else {
            return self.renew_found(batch, self.find_renewable(batch, &seen)?);
        };
        let is_known = |at: &usize| older.keys[*at].is_some();
        let (known, rest): (Vec<usize>, Vec<usize>) = seen.into_iter().partition(is_known);
        let is_older = |at: &usize| older.keys[*at] == Some(true);
        let found = Renewable {
            places: known.into_iter().filter(is_older).collect(),
            found: older.found,
        };
        self.renew_found(batch, found)?;
        match rest.is_empty() {
            true => Ok(()),
            false => self.renew_found(batch, self.find_renewable(batch, &rest)?),
        }
    }

    /// Renews keys that were found to be due.
    fn renew_found(&self, batch: &[u64], found: Renewable) -> Result<()> {
        if found.places.is_empty() {
            return Ok(());
        }
        let candidates = Candidates {
            batch,
            places: &found.places,
            absent: found.found,
            on_pending: OnPending::GoOn,
            purpose: Purpose::Renewal,
        };
        // What a batch that claims has to say of each key was said before.
        let mut verdicts = [Verdict::Seen; BATCH];
        let renewed = self.lock()?.claim(candidates, &mut verdicts);
        renewed.map_err(|Stop { error, .. }| *error)
    }

    /// Returns what a look ahead has found, if no step has begun since, and no checkpoint has brought to the pages what is
    /// younger. Pages that come from the disk are read once for it, in their order.
    fn still_older<'a>(&self, older: Option<OlderFrom<'a>>) -> Result<Option<OlderFrom<'a>>> {
        let Some(older) = older else {
            return Ok(None);
        };
        let view = self.views.current()?;
        let is_fresh = Freshness::of(older.found, &view) != Freshness::Checkpointed;
        Ok((is_fresh && older.step == view.this_step()).then_some(older))
    }

    /// Finds those of a batch's keys that are there, but not of this step.
    fn find_renewable(&self, batch: &[u64], seen: &[usize]) -> Result<Renewable> {
        let hashes: Vec<u64> = seen.iter().map(|place| batch[*place]).collect();
        loop {
            let view = self.views.current()?;
            let found = AbsentSince::of(&view);
            // What an open transaction has changed is left to it.
            let is_touched = |presence| (presence != Presence::Absent).then_some(true);
            let is_settled = |presence| match presence {
                Presence::Absent => None,
                presence => Some(presence == Presence::Settled),
            };
            let (this_step, remembered) = (view.this_step(), view.remembered_since());
            let (mut is_new, mut is_there) = ([false; BATCH], [false; BATCH]);
            let new = &mut is_new[..hashes.len()];
            let there = &mut is_there[..hashes.len()];
            let both = self
                .probe_since((&view, this_step), &hashes, is_touched, new)
                .and_then(|()| self.probe_since((&view, remembered), &hashes, is_settled, there));
            let places = match both {
                Ok(()) => {
                    let is_renewable = |at: &usize| is_there[*at] && !is_new[*at];
                    let turns = (0..seen.len()).filter(is_renewable);
                    turns.map(|at| seen[at]).collect()
                }
                // A page can't be read, or was overtaken. A renewal too many costs a record.
                Err(_) => self.look_for_each(batch, seen)?,
            };
            if view.found_holds(self.shared) {
                return Ok(Renewable { places, found });
            }
        }
    }

    fn look_for_each(&self, batch: &[u64], seen: &[usize]) -> Result<Vec<usize>> {
        let mut there = Vec::with_capacity(seen.len());
        for place in seen {
            if self.reader().absent_since(batch[*place])?.is_none() {
                there.push(*place);
            }
        }
        Ok(there)
    }
}

/// What becomes of one key.
pub(super) enum Renewed {
    Claimed(Slot),
    /// It is of this step already, or it has gone, or another handle decides of it.
    LeftAlone,
    NoRoom,
}

impl WriteGuard<'_> {
    /// Returns whether a key is there, and another handle's transaction only renews it.
    pub(super) fn is_being_renewed(&self, hash: u64) -> Result<bool> {
        let is_renewal =
            self.writer.file.header.renews() && self.view.active.buffer.is_open_over_below(hash);
        Ok(is_renewal && self.writer.reader().is_below(hash)?)
    }

    /// Returns whether another hash of a key's fingerprint is exempt. An insert record would make all of them seen.
    fn shares_with_exempt(&self, hash: u64) -> Result<bool> {
        let Some(exempt) = &self.view.sections.exempt else {
            return Ok(false);
        };
        let alike = self.writer.file.model.alike(hash);
        let mut found = Vec::new();
        exempt.query(|hashes| hashes.load(alike.clone(), 1, &mut found), ())?;
        Ok(!found.is_empty())
    }

    /// Claims a key for this step that is there, unless it has changed since it was found.
    pub(super) fn renew_one(
        &mut self,
        hash: u64,
        freshness: Freshness,
        pending: u64,
    ) -> Result<Renewed> {
        let since = self.view.remembered_since();
        let is_below = match freshness {
            Freshness::Active => true,
            Freshness::Sealed => self.view.sealed_says(hash, since) != Some(false),
            Freshness::Checkpointed => self.writer.reader().is_below(hash)?,
        };
        let buffer = &self.view.active.buffer;
        let is_as_below = buffer.lookup(hash) == Presence::Absent;
        if !is_below || !is_as_below || self.shares_with_exempt(hash)? {
            return Ok(Renewed::LeftAlone);
        }
        let quota = self.writer.quota();
        if self.slot().uncommitted().saturating_add(pending) >= quota {
            return Err(Error::TransactionTooLarge { quota });
        }
        // A full store takes no key more, but has these.
        if self.log_is_long() {
            return Ok(Renewed::NoRoom);
        }
        Ok(match buffer.claim(hash) {
            Claim::Claimed(slot) => Renewed::Claimed(slot),
            Claim::NoRoom => Renewed::NoRoom,
            Claim::Settled | Claim::Open(_) | Claim::Removing(_) => Renewed::LeftAlone,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use super::*;
    use crate::ForgetBy;
    use crate::prefetch::hash_source::SourceTail;
    use crate::testing::Options;

    fn at(step: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_700_000_000 + 4 * step)
    }

    /// The slow twin looks for the keys of each batch by themselves. They lie in runs, a sealed and an active buffer, some
    /// are forgotten, some removed and some were never there; many are of an earlier step.
    #[test]
    fn a_look_ahead_finds_what_is_to_be_renewed() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().forget_after(Duration::from_secs(60));
        let options = options.forget_by(ForgetBy::Last).capacity(1_000_000);
        let options = options.fpr(1e-9).background(false).least_run(64);
        let options = options.segment_pages(2).clock(at(0));
        let store = options.create(folder.path().join("store")).unwrap();
        let key = |number: u64| store.hasher().key(&number.to_le_bytes());
        let some = |numbers: std::ops::Range<u64>| numbers.map(key).collect::<Vec<_>>();
        for round in 0..20_u64 {
            store.advance_to(at(round)).unwrap();
            let first = round * 700;
            store.insert_batch(&some(first..first + 1000)).unwrap();
            if round % 3 == 1 {
                store.checkpoint().unwrap();
            }
            assert!(store.remove(key(first + 900)).unwrap());
        }
        let writer = Writer::of(&store.engine);
        let keys: Vec<u64> = some(0..16_000).iter().map(|key| key.bits()).collect();
        let look = writer.look_ahead(&SourceTail::all(&keys)).unwrap();
        let look = look.unwrap();
        let mut due = 0;
        for first in (0..keys.len()).step_by(BATCH) {
            let batch = &keys[first..keys.len().min(first + BATCH)];
            let all: Vec<usize> = (0..batch.len()).collect();
            let twin = writer.find_renewable(batch, &all).unwrap().places;
            let older = writer.still_older(look.older_from(first)).unwrap().unwrap();
            let is_older = |at: &usize| older.keys[*at] == Some(true);
            let found: Vec<usize> = all.into_iter().filter(is_older).collect();
            assert_eq!(found, twin, "from {first} on");
            due += found.len();
        }
        assert!(due > 5000 && due < 13_000, "{due}");
        // Of the next step, it knows nothing.
        store.advance_to(at(20)).unwrap();
        assert!(writer.still_older(look.older_from(0)).unwrap().is_none());
    }
}
