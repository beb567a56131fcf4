//! Looking keys up before their turn, on another thread than the one that claims them.

use std::ops::Range;

use crate::api::store::Store;
use crate::engine::Engine;
use crate::engine::read::Reader;
use crate::engine::read::look_ahead::LookAhead;
use crate::engine::write::Writer;
use crate::engine::write::verdict::{OnPending, Verdict};
use crate::error::Result;
use crate::hash::HashedKey;
use crate::prefetch::hash_source::SourceTail;

/// What [`Store::precheck`] found out about a list of keys.
///
/// It takes a byte for each key.
#[derive(Debug)]
pub struct Precheck {
    keys: usize,
    /// Absent where looking ahead would not help: each batch of keys is then looked up in its turn.
    ahead: Option<LookAhead>,
}

impl Precheck {
    pub(crate) fn of(keys: usize, ahead: Option<LookAhead>) -> Self {
        Self { keys, ahead }
    }

    /// Returns the same for the keys at these places, in this order, as a list of their own.
    ///
    /// # Panics
    /// If there is no key at one of the places.
    pub fn select(&self, places: &[usize]) -> Precheck {
        let ahead = self.ahead.as_ref().and_then(|ahead| ahead.select(places));
        let keys = places.len();
        Precheck { keys, ahead }
    }

    /// Returns whether there are answers for a range of these keys.
    fn covers(&self, keys: &[HashedKey], range: &Range<usize>) -> bool {
        let covers = |ahead: &LookAhead| self.keys == keys.len() && ahead.fresh_from <= range.start;
        self.ahead.as_ref().is_some_and(covers)
    }
}

impl Store {
    /// Looks keys up that are going to be claimed with [`claim_prechecked`](Self::claim_prechecked). Takes no lock, and
    /// changes nothing in the store.
    ///
    /// Claiming a new key is mostly looking it up, and only claims have to come one after the other. So two threads
    /// claim a stream of keys faster than one: the first prechecks a list of them while the second one claims the list
    /// before it. Where pages come from the disk, this call does nothing, since a [`Sieve`](crate::Sieve) serves better
    /// there; nor does it in a store of [`Kind::Counting`](crate::Kind::Counting).
    ///
    /// ```
    /// # fn main() -> everseen::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// use everseen::{Options, Verdict};
    ///
    /// let store = Options::new().open_or_create(folder.path().join("visited.ever"))?;
    /// let lists = [["a", "b", "a"], ["b", "c", "d"]];
    /// let (send, receive) = std::sync::mpsc::sync_channel(1);
    /// let mut verdicts = Vec::new();
    /// std::thread::scope(|scope| -> everseen::Result<()> {
    ///     let store = &store;
    ///     scope.spawn(move || -> everseen::Result<()> {
    ///         for list in lists {
    ///             let keys = list.map(|key| store.hasher().key(key.as_bytes()));
    ///             let precheck = store.precheck(&keys)?;
    ///             send.send((keys, precheck)).expect("a receiver");
    ///         }
    ///         Ok(())
    ///     });
    ///     for (keys, mut precheck) in receive {
    ///         store.claim_prechecked(&keys, 0..3, &mut precheck, &mut verdicts)?;
    ///     }
    ///     Ok(())
    /// })?;
    /// let new = [true, true, false, false, true, true];
    /// assert!(verdicts.iter().map(|verdict| *verdict == Verdict::New).eq(new));
    /// # store.close()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The handle can't go on. A damaged page is no error before the turn of its keys.
    pub fn precheck(&self, keys: &[HashedKey]) -> Result<Precheck> {
        let look = |engine: &Engine, keys: &SourceTail<'_>| Writer::of(engine).look_ahead(keys);
        self.read(|engine| Self::precheck_in(engine, keys, look))
    }

    /// Like [`precheck`](Self::precheck), for keys of which [`contains_prechecked`](Self::contains_prechecked) is asked
    /// before any is claimed. Also searches where `precheck` leaves it to the claim, so that the answer of a store that is
    /// not transactional costs nothing more unless keys have been inserted since.
    ///
    /// # Errors
    /// The same as [`precheck`](Self::precheck).
    pub fn precheck_lookup(&self, keys: &[HashedKey]) -> Result<Precheck> {
        let look = |engine: &Engine, keys: &SourceTail<'_>| {
            let reader = Reader::of(engine);
            reader.look_ahead(keys, Some(|presence| reader.says_seen(presence)))
        };
        self.read(|engine| Self::precheck_in(engine, keys, look))
    }

    fn precheck_in(
        engine: &Engine,
        keys: &[HashedKey],
        look: impl Fn(&Engine, &SourceTail<'_>) -> Result<Option<LookAhead>>,
    ) -> Result<Precheck> {
        Reader::of(engine).check_readable(keys.len())?;
        let helps = !engine.file.header.kind.counts() && !engine.hints.residency.is_likely();
        let ahead = match helps {
            true => look(engine, &SourceTail::all(&keys))?,
            false => None,
        };
        let keys = keys.len();
        Ok(Precheck { keys, ahead })
    }

    /// Like [`claim_hashed`](Self::claim_hashed), for a range of keys, all of which were [prechecked](Self::precheck) by
    /// this handle. Ranges may come in any order, and after any time: what other threads and processes have inserted
    /// since is looked for. If that takes a new look at the keys, `precheck` holds its result afterwards. A key that was
    /// removed since may still be [`Seen`](Verdict::Seen), as if it had been claimed when it was prechecked.
    ///
    /// That the keys are the same is not checked: with others, keys that are absent may be called seen.
    ///
    /// # Errors
    /// The same as [`claim_hashed`](Self::claim_hashed).
    ///
    /// # Panics
    /// If the range ends behind the last key.
    pub fn claim_prechecked(
        &self,
        keys: &[HashedKey],
        range: Range<usize>,
        precheck: &mut Precheck,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<()> {
        self.claim_ahead(keys, range, precheck, OnPending::GoOn, verdicts)
    }

    /// Like [`claim_prechecked`](Self::claim_prechecked), but stops at the first key that is pending, as
    /// [`claim_hashed_until_pending`](Self::claim_hashed_until_pending) does.
    ///
    /// # Errors
    /// The same as [`claim_hashed`](Self::claim_hashed).
    ///
    /// # Panics
    /// If the range ends behind the last key.
    pub fn claim_prechecked_until_pending(
        &self,
        keys: &[HashedKey],
        range: Range<usize>,
        precheck: &mut Precheck,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<()> {
        self.claim_ahead(keys, range, precheck, OnPending::Stop, verdicts)
    }

    /// Returns for a range of [prechecked](Self::precheck) keys whether the store has each of them now, as
    /// [`contains_hashed`](Self::contains_hashed) does: appends the answers to `found`. So a program that must first act on
    /// what is new looks each key up once ([`precheck_lookup`](Self::precheck_lookup)), and
    /// [claims](Self::claim_prechecked) those that are absent later, with [`Precheck::select`].
    ///
    /// # Errors
    /// The same as [`contains_hashed`](Self::contains_hashed). The answers are those of keys before the one that failed.
    ///
    /// # Panics
    /// If the range ends behind the last key.
    pub fn contains_prechecked(
        &self,
        keys: &[HashedKey],
        range: Range<usize>,
        precheck: &mut Precheck,
        found: &mut Vec<bool>,
    ) -> Result<()> {
        if precheck.covers(keys, &range) {
            let first = found.len();
            return self.read(|engine| {
                found.truncate(first);
                let (reader, range) = (Reader::of(engine), range.clone());
                reader.contains_ahead(&keys, range, &mut precheck.ahead, found)
            });
        }
        found.extend(self.contains_hashed(&keys[range])?);
        Ok(())
    }

    fn claim_ahead(
        &self,
        keys: &[HashedKey],
        range: Range<usize>,
        precheck: &mut Precheck,
        on_pending: OnPending,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<()> {
        if precheck.covers(keys, &range) {
            let (writer, ahead) = (Writer::of(&self.engine), &mut precheck.ahead);
            return writer.claim_ahead(&keys, range, ahead, on_pending, verdicts);
        }
        match on_pending {
            OnPending::GoOn => self.claim_hashed(&keys[range], verdicts),
            OnPending::Stop => self.claim_hashed_until_pending(&keys[range], verdicts),
        }
    }
}
