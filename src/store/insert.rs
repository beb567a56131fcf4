//! Inserting: look up without a lock, then claim under it what was absent.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Verdict;
use super::engine::{Engine, View, Writer};
use super::read::BATCH;
use crate::buffer::{COMMITTED, Claim, Slot};
use crate::error::{Error, Result};

/// Keys that are claimed and not yet in the log.
#[derive(Debug, Default)]
struct Claims {
    hashes: Vec<u64>,
    slots: Vec<Slot>,
    /// Where each stands in the batch.
    places: Vec<usize>,
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
        let view = self.view.load_full();
        for hash in batch {
            view.prefetch(*hash);
        }
        let mut absent = Vec::with_capacity(batch.len());
        let mut outcome = Ok(());
        for (place, hash) in batch.iter().enumerate() {
            match self.probe(&view, *hash) {
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
            let mut writer = self.lock_writer().map_err(Stop::at(*first_absent))?;
            self.claim_absent(&mut writer, &view, batch, &absent, &mut verdicts[first..])?;
        }
        outcome
    }

    /// Claims the keys at the places `absent` of a batch, which `seen` did not hold.
    fn claim_absent(
        &self,
        writer: &mut Writer,
        seen: &Arc<View>,
        batch: &[u64],
        absent: &[usize],
        verdicts: &mut [Verdict],
    ) -> Result<(), Stop> {
        let mut view = self.view.load_full();
        // Keys may have moved on since they were looked for outside of the lock.
        let mut look_again = !Arc::ptr_eq(&view, seen);
        let mut claims = Claims::default();
        let mut rotated = false;
        let mut rest = absent.iter().copied();
        let mut next = rest.next();
        let outcome = loop {
            let Some(place) = next else {
                break Ok(());
            };
            let hash = batch[place];
            match self.claim_one(writer, &view, hash, look_again) {
                Ok(Claim::Present) => {}
                Ok(Claim::Claimed(slot)) => {
                    rotated = false;
                    claims.hashes.push(hash);
                    claims.slots.push(slot);
                    claims.places.push(place);
                    writer.active_keys += 1;
                    writer.uncommitted += 1;
                }
                Ok(Claim::NoRoom) => {
                    self.append_claims(writer, &view, &mut claims, verdicts)?;
                    if rotated {
                        // Even an emptied buffer has no room: what fills it is not committed.
                        let quota = writer.uncommitted;
                        break Err(Stop::at(place)(Error::TransactionTooLarge { quota }));
                    }
                    if let Err(error) = self.rotate(writer, false) {
                        break Err(Stop::at(place)(error));
                    }
                    rotated = true;
                    look_again = true;
                    view = self.view.load_full();
                    continue;
                }
                Err(error) => break Err(Stop::at(place)(error)),
            }
            next = rest.next();
        };
        self.append_claims(writer, &view, &mut claims, verdicts)?;
        outcome
    }

    /// Claims one key, if the store may take it. `writer` counts what is claimed.
    #[inline]
    fn claim_one(
        &self,
        writer: &mut Writer,
        view: &View,
        hash: u64,
        look_again: bool,
    ) -> Result<Claim> {
        if look_again && self.probe_settled(view, hash)? {
            return Ok(Claim::Present);
        }
        if writer.log.is_none() {
            self.start_log(writer)?;
        }
        let claim = view.active.claim(hash);
        let Claim::Claimed(slot) = claim else {
            return Ok(claim);
        };
        let keys = self.settled_keys.load(Ordering::Relaxed) + writer.active_keys;
        let refusal = if keys >= self.key_limit {
            Some(Err(Error::Full {
                capacity: self.key_limit,
            }))
        } else if self.header.transactional && writer.uncommitted >= self.quota() {
            Some(Err(Error::TransactionTooLarge {
                quota: self.quota(),
            }))
        } else if self.should_rotate(writer) {
            Some(Ok(Claim::NoRoom))
        } else {
            None
        };
        match refusal {
            Some(refusal) => {
                view.active.retract(slot);
                refusal
            }
            None => Ok(claim),
        }
    }

    /// Whether the log is long, or the keys would fill the last layer.
    fn should_rotate(&self, writer: &Writer) -> bool {
        let settled = if self.header.transactional {
            writer.active_keys - writer.uncommitted
        } else {
            writer.active_keys
        };
        settled >= writer.room || self.log_is_long(writer)
    }

    /// Puts claims into the log, then shows them to readers. Only then are they done.
    fn append_claims(
        &self,
        writer: &mut Writer,
        view: &View,
        claims: &mut Claims,
        verdicts: &mut [Verdict],
    ) -> Result<(), Stop> {
        let Some(first) = claims.places.first().copied() else {
            return Ok(());
        };
        if let Err(error) = self.append_inserts(writer, &claims.hashes) {
            for slot in &claims.slots {
                view.active.retract(*slot);
            }
            writer.active_keys -= claims.slots.len() as u64;
            writer.uncommitted -= claims.slots.len() as u64;
            return Err(Stop::at(first)(error));
        }
        let state = if self.header.transactional {
            writer.transaction
        } else {
            COMMITTED
        };
        for (slot, place) in claims.slots.iter().zip(&claims.places) {
            view.active.publish(*slot, state);
            verdicts[*place] = Verdict::New;
        }
        claims.hashes.clear();
        claims.slots.clear();
        claims.places.clear();
        Ok(())
    }

    fn append_inserts(&self, writer: &mut Writer, hashes: &[u64]) -> Result<()> {
        self.announce(writer)?;
        let handle = writer.handle;
        let Some(log) = writer.log.as_mut() else {
            unreachable!("a claim is made only when there is a log");
        };
        let outcome = log.insert(handle, hashes);
        self.poison_on_failure(outcome)
    }
}
