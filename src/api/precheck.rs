//! Looking keys up before their turn, on another thread than the one that claims them.

use std::ops::Range;

use crate::api::batch::{self, BatchError};
use crate::api::claim::ClaimOptions;
use crate::api::store::Store;
use crate::engine::Engine;
use crate::engine::read::Reader;
use crate::engine::read::look_ahead::LookAhead;
use crate::engine::write::Writer;
use crate::engine::write::verdict::Verdict;
use crate::error::Result;
use crate::hash::HashedKey;
use crate::prefetch::hash_source::SourceTail;

/// What was found out about a list of keys before their turn.
///
/// It takes a byte for each key.
#[derive(Debug)]
#[must_use = "the keys are not claimed yet"]
pub struct Precheck {
    keys: usize,
    /// Absent where looking ahead would not help: each batch of keys is then looked up in its turn.
    ahead: Option<LookAhead>,
}

impl Precheck {
    pub(crate) fn of(keys: usize, ahead: Option<LookAhead>) -> Self {
        Self { keys, ahead }
    }

    /// Looks keys up that are going to be [claimed](Self::claim). Takes no lock, and
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
    /// use everseen::{ClaimOptions, CreateOptions, Precheck, Verdict};
    ///
    /// let store = CreateOptions::new().open_or_create(folder.path().join("visited.ever"))?;
    /// let lists = [["a", "b", "a"], ["b", "c", "d"]];
    /// let (send, receive) = std::sync::mpsc::sync_channel(1);
    /// let mut verdicts = Vec::new();
    /// std::thread::scope(|scope| -> everseen::Result<()> {
    ///     let store = &store;
    ///     scope.spawn(move || -> everseen::Result<()> {
    ///         for list in lists {
    ///             let keys = list.map(|key| store.hasher().key(key.as_bytes()));
    ///             let precheck = Precheck::for_claims(store, &keys)?;
    ///             send.send((keys, precheck)).expect("a receiver");
    ///         }
    ///         Ok(())
    ///     });
    ///     for (keys, mut precheck) in receive {
    ///         verdicts.extend(precheck.claim(&store, &keys, 0..3, ClaimOptions::new())?);
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
    pub fn for_claims(store: &Store, keys: &[HashedKey]) -> Result<Self> {
        let look = |engine: &Engine, keys: &SourceTail<'_>| Writer::of(engine).look_ahead(keys);
        store.read(|engine| Self::look(engine, keys, look))
    }

    /// Does the same as [`for_claims`](Self::for_claims), for keys that are first [looked up](Self::contains). Also
    /// searches where `for_claims` leaves it to the claim, so that the answer of a store that is not transactional costs
    /// nothing more unless keys have been inserted since.
    ///
    /// # Errors
    /// The same as [`for_claims`](Self::for_claims).
    pub fn for_lookups(store: &Store, keys: &[HashedKey]) -> Result<Self> {
        let look = |engine: &Engine, keys: &SourceTail<'_>| {
            let reader = Reader::of(engine);
            reader.look_ahead(keys, Some(|presence| reader.says_seen(presence)))
        };
        store.read(|engine| Self::look(engine, keys, look))
    }

    fn look(
        engine: &Engine,
        keys: &[HashedKey],
        look: impl Fn(&Engine, &SourceTail<'_>) -> Result<Option<LookAhead>>,
    ) -> Result<Self> {
        Reader::of(engine).check_readable(keys.len())?;
        let helps = !engine.file.model.has_counts() && !engine.hints.residency.is_likely();
        let ahead = match helps {
            true => look(engine, &SourceTail::all(&keys))?,
            false => None,
        };
        let keys = keys.len();
        Ok(Self { keys, ahead })
    }

    /// Claims a range of these keys, as [`Store::claim_batch`] does. `store` and `keys` are those that were prechecked.
    /// Ranges may come in any order, and after any time: what other threads and processes have inserted since is looked
    /// for. If that takes a new look at the keys, the precheck holds its result afterwards. A key that was removed since
    /// may still be [`Seen`](Verdict::Seen), as if it had been claimed when it was prechecked.
    ///
    /// That the keys are the same is not checked: with others, keys that are absent may be called seen.
    ///
    /// # Errors
    /// The same as [`Store::claim_batch`].
    ///
    /// # Panics
    /// If the range ends after the last key.
    pub fn claim(
        &mut self,
        store: &Store,
        keys: &[HashedKey],
        range: Range<usize>,
        options: ClaimOptions,
    ) -> std::result::Result<Vec<Verdict>, BatchError<Verdict>> {
        if !self.covers(keys, &range) {
            return store.claim_batch(&keys[range], options);
        }
        batch::collect(range.len(), |verdicts| {
            let (writer, on_pending) = (Writer::of(&store.engine), options.on_pending());
            writer.claim_ahead(&keys, range, &mut self.ahead, on_pending, verdicts)
        })
    }

    /// Returns for a range of these keys whether the store has each of them now, as [`Store::contains_batch`] does. So a
    /// program that must first act on what is new looks each key up once ([`for_lookups`](Self::for_lookups)), and
    /// [claims](Self::claim) those that are absent later, with [`select`](Self::select).
    ///
    /// # Errors
    /// The same as [`Store::contains_batch`].
    ///
    /// # Panics
    /// If the range ends after the last key.
    pub fn contains(
        &mut self,
        store: &Store,
        keys: &[HashedKey],
        range: Range<usize>,
    ) -> Result<Vec<bool>> {
        if !self.covers(keys, &range) {
            return store.contains_batch(&keys[range]);
        }
        let mut found = Vec::with_capacity(range.len());
        store.read(|engine| {
            found.clear();
            let (reader, range) = (Reader::of(engine), range.clone());
            reader.contains_ahead(&keys, range, &mut self.ahead, &mut found)
        })?;
        assert_eq!(found.len(), range.len(), "an answer for each key");
        Ok(found)
    }

    /// Returns the same for the keys at these places, in this order, as a list of their own.
    ///
    /// # Panics
    /// If there is no key at one of the places.
    pub fn select(&self, places: &[usize]) -> Precheck {
        // Whether anything was looked at or not.
        assert!(
            places.iter().all(|place| *place < self.keys),
            "{places:?} of {}",
            self.keys
        );
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
