//! Keys that wait for each other, so that one sweep over the pages answers them all.

use std::collections::VecDeque;
use std::time::Duration;

use crate::api::batch::BatchError;
use crate::api::claim::ClaimOptions;
use crate::api::precheck::Precheck;
use crate::api::store::Store;
use crate::engine::Engine;
use crate::engine::read::Reader;
use crate::engine::read::look_ahead::LookAhead;
use crate::engine::write::Writer;
use crate::engine::write::verdict::{OnPending, Verdict};
use crate::error::Result;
use crate::hash::HashedKey;
use crate::page::PAGE_BYTES;
use crate::prefetch::hash_source::SourceTail;
use crate::sys::huge_pages::prefer_huge_pages;

/// The bytes that a key of a full window takes: its hash, its place in the order of the pages, and whether it was seen.
const KEY_BYTES: u64 = 8 + 4 + 1;

/// The most keys of a window, whatever its memory.
const MOST_KEYS: u64 = 1 << 28;

/// When a [`Sieve`] looks at all keys of a window in one sweep over the pages.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sweep {
    /// Where that is cheaper than looking the keys up in batches as they come: pages come from the disk, and there are
    /// enough keys. Both costs are measured.
    #[default]
    Cheaper,
    /// Always, also where all pages are in memory.
    Always,
    /// Never.
    Never,
}

/// Gathers keys, and answers a whole window of them with one sweep over the pages.
///
/// In a filter larger than memory, each key that is looked up by itself costs a read at a random place of the disk. A
/// sweep reads the pages in order, which takes as long for ten million keys as for one. So a stream of keys is answered
/// fastest if many of them wait for each other. A sieve holds the waiting keys, and with each of them an item of the
/// caller's own. Verdicts come in the order of the keys and mean what they mean without a sieve: of equal keys, also
/// within one window, the first is [`New`](Verdict::New). A key that is removed while it waits may still be
/// [`Seen`](Verdict::Seen), as if it had been claimed before.
///
/// A sweep changes nothing in the store. Keys are claimed when their verdicts are handed out, so the caller may commit
/// in the middle of a window, and whatever ends the process there, the rest of the window was never claimed.
///
/// How long a key may wait is the caller's choice. [`is_full`](Self::is_full) says when to wait no longer,
/// [`gathers`](Self::gathers) whether waiting is worthwhile at all: where pages are in memory, it is not.
///
/// Stores of [`Kind::Counting`](crate::Kind::Counting) are answered as without a sieve.
///
/// ```
/// # fn main() -> everseen::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("visited.ever");
/// use everseen::{CreateOptions, Sieve, Verdict};
///
/// let store = CreateOptions::new().open_or_create(&path)?;
/// let mut fresh = Vec::new();
/// let mut sieve = Sieve::new(&store);
/// for line in ["one", "two", "one", "three"] {
///     sieve.push(store.hasher().key(line.as_bytes()), line);
///     if sieve.is_full() || !sieve.gathers()? {
///         sieve.claim(usize::MAX, |line, verdict| {
///             fresh.extend((verdict == Verdict::New).then_some(line));
///         })?;
///     }
/// }
/// // The input has ended: nothing more is worth waiting for.
/// sieve.claim(usize::MAX, |line, verdict| {
///     fresh.extend((verdict == Verdict::New).then_some(line));
/// })?;
/// assert_eq!(fresh, ["one", "two", "three"]);
/// # drop(sieve);
/// # store.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Sieve<'s, T> {
    store: &'s Store,
    sweep: Sweep,
    most: usize,
    /// Whether the caller has set `most`.
    is_set: bool,
    /// All keys of the window, and those behind it.
    keys: Vec<HashedKey>,
    /// The items of the keys that have no verdict yet.
    items: VecDeque<T>,
    /// How many keys have their verdict.
    done: usize,
    /// How many keys the closed window has; 0 while it is open.
    closed: usize,
    ahead: Option<LookAhead>,
    sweeps: u64,
}

impl<'s, T> Sieve<'s, T> {
    /// Returns an empty sieve for a store. In addition to the memory that the store was
    /// [granted](crate::OpenOptions::buffer), its keys take up to as much again, 64 MiB at most, or a fourth where that is
    /// more. If none was granted and the store's pages take more than half of the memory that is available, they take a
    /// fourth of what is available, 4 GiB at most: fewer sweeps are needed. Where the address space is limited, they take a
    /// sixteenth of what is left of it at most.
    pub fn new(store: &'s Store) -> Self {
        let mut sieve = Self {
            store,
            sweep: Sweep::default(),
            most: 0,
            is_set: false,
            keys: Vec::new(),
            items: VecDeque::new(),
            done: 0,
            closed: 0,
            ahead: None,
            sweeps: 0,
        };
        sieve.fit();
        sieve
    }

    /// Sets the size of the next windows by memory and pages as they are now.
    fn fit(&mut self) {
        let engine = &self.store.engine;
        // A handle that can't go on says so with the first key.
        let pages = pages(engine).unwrap_or(0).saturating_mul(PAGE_BYTES as u64);
        self.most = keys_of(engine.options.window_bytes(pages));
    }

    /// Sets the bytes of memory for the keys of a window: 13 for each key, which is all that a sieve takes beside the
    /// items.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        (self.most, self.is_set) = (keys_of(bytes), true);
        self
    }

    /// Sets when to sweep.
    #[must_use]
    pub fn sweep(mut self, when: Sweep) -> Self {
        self.sweep = when;
        self
    }

    /// Adds a key that the store's [`hasher`](Store::hasher) has hashed, and what belongs to it.
    ///
    /// A key that is pushed while the window before it is being handed out waits for the next window.
    pub fn push(&mut self, key: HashedKey, item: T) {
        if self.keys.len() == self.keys.capacity() {
            self.keys.reserve(1);
            // A sweep reads them in the order of the pages.
            prefer_huge_pages(&mut self.keys);
        }
        self.keys.push(key);
        self.items.push_back(item);
        // A verdict goes to the item of its own key.
        debug_assert_eq!(self.items.len(), self.keys.len() - self.done);
    }

    /// Returns how many keys wait for their verdicts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether no key waits for its verdict.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the keys that wait for their verdicts, in order.
    #[must_use]
    pub fn waiting(&self) -> &[HashedKey] {
        &self.keys[self.done..]
    }

    /// Returns whether as many keys wait as memory allows.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len() >= self.most
    }

    /// Returns how many keys a full window has. Unless [`memory`](Self::memory) has set that, it follows the memory that is
    /// available, and may change with each sweep.
    #[must_use]
    pub fn most_keys(&self) -> usize {
        self.most
    }

    /// Returns how many sweeps there were. There may be more than windows: if other handles bring keys into the pages
    /// while a window is handed out, the rest of it is swept again.
    #[must_use]
    pub fn sweeps(&self) -> u64 {
        self.sweeps
    }

    /// Returns whether keys should wait for others, because one sweep for a full window is cheaper than its keys in
    /// batches.
    ///
    /// # Errors
    /// The handle can't go on.
    pub fn gathers(&self) -> Result<bool> {
        self.sweeps_for(self.most)
    }

    /// Returns about how long a sweep takes, as far as that was measured.
    ///
    /// # Errors
    /// The handle can't go on.
    pub fn sweep_time(&self) -> Result<Duration> {
        self.store
            .read(|engine| Ok(engine.hints.pace.sweep_time(pages(engine)?)))
    }

    /// Closes the window: looks at all waiting keys in one sweep, if there are enough of them. The methods that hand
    /// out verdicts do it by themselves.
    ///
    /// # Errors
    /// A failing disk; or the handle can't go on. A damaged page is no error before the turn of its keys.
    pub fn close_window(&mut self) -> Result<()> {
        if self.closed > 0 || self.is_empty() {
            return Ok(());
        }
        if self.sweeps_for(self.len())? {
            let keys = self.keys.as_slice();
            self.ahead = self.store.read(|engine| {
                let reader = Reader::of(engine);
                let says = |presence| reader.says_seen(presence);
                reader.look_ahead_to_claim(&SourceTail::all(&keys), Some(says))
            })?;
            self.sweeps += 1;
            if !self.is_set {
                self.fit();
            }
        }
        assert_eq!(self.done, 0, "the last window is handed out");
        self.closed = self.keys.len();
        Ok(())
    }

    /// Inserts the next keys, `most` of them at most, and calls `each` with each key's item and verdict, in order. See
    /// [`Store::claim_batch`].
    ///
    /// # Errors
    /// The same as [`Store::claim_batch`]. Keys without a verdict are not in the store, and still wait.
    pub fn claim(&mut self, most: usize, each: impl FnMut(T, Verdict)) -> Result<()> {
        self.claim_next(most, OnPending::GoOn, each).map(drop)
    }

    /// Like [`claim`](Self::claim), but stops before the first key that is [pending](Verdict::Pending), and returns
    /// whether there is one. That key and those after it still wait. See [`ClaimOptions::until_pending`].
    ///
    /// # Errors
    /// The same as [`claim`](Self::claim).
    pub fn claim_until_pending(
        &mut self,
        most: usize,
        each: impl FnMut(T, Verdict),
    ) -> Result<bool> {
        self.claim_next(most, OnPending::Stop, each)
    }

    fn claim_next(
        &mut self,
        most: usize,
        on_pending: OnPending,
        mut each: impl FnMut(T, Verdict),
    ) -> Result<bool> {
        self.close_window()?;
        let next = self.done..self.closed.min(self.done.saturating_add(most));
        let mut verdicts = Vec::new();
        let claimed = match on_pending {
            _ if self.ahead.is_some() => {
                let writer = Writer::of(&self.store.engine);
                let ahead = &mut self.ahead;
                let first = place_of(ahead);
                let claimed = writer.claim_ahead(
                    &self.keys.as_slice(),
                    next,
                    ahead,
                    on_pending,
                    &mut verdicts,
                );
                self.sweeps += u64::from(place_of(ahead) != first);
                claimed
            }
            _ => {
                let options = ClaimOptions::new().until_pending(on_pending == OnPending::Stop);
                let claimed = self.store.claim_batch(&self.keys[next], options);
                BatchError::append(claimed, &mut verdicts)
            }
        };
        let is_pending = on_pending.stops_after(&verdicts);
        if is_pending {
            verdicts.pop();
        }
        self.hand_out(verdicts, &mut each);
        claimed.map(|()| is_pending)
    }

    /// Looks up the next keys, `most` of them at most, and calls `each` with each key's item and whether the store has
    /// the key, in order. See [`Store::contains_batch`].
    ///
    /// # Errors
    /// The same as [`Store::contains_batch`]. Keys without an answer still wait.
    pub fn contains(&mut self, most: usize, mut each: impl FnMut(T, bool)) -> Result<()> {
        let found = self.find_next(most)?;
        self.hand_out(found, &mut each);
        Ok(())
    }

    /// Like [`contains`](Self::contains), and returns what was found out about these keys, as a list of their own. So
    /// those that are absent can be [claimed](Precheck::claim) later without another look at the pages
    /// ([`Precheck::select`]).
    ///
    /// # Errors
    /// The same as [`contains`](Self::contains).
    pub fn contains_prechecked(
        &mut self,
        most: usize,
        mut each: impl FnMut(T, bool),
    ) -> Result<Precheck> {
        let found = self.find_next(most)?;
        let places: Vec<_> = (self.done..self.done + found.len()).collect();
        let ahead = self.ahead.as_ref().and_then(|ahead| ahead.select(&places));
        self.hand_out(found, &mut each);
        Ok(Precheck::of(places.len(), ahead))
    }

    /// Looks up the next keys.
    fn find_next(&mut self, most: usize) -> Result<Vec<bool>> {
        self.close_window()?;
        let next = self.done..self.closed.min(self.done.saturating_add(most));
        if self.ahead.is_none() {
            return self.store.contains_batch(&self.keys[next]);
        }
        let mut found = Vec::new();
        let (keys, first) = (self.keys.as_slice(), place_of(&self.ahead));
        self.store.read(|engine| {
            found.clear();
            let (reader, next) = (Reader::of(engine), next.clone());
            reader.contains_ahead(&keys, next, &mut self.ahead, &mut found)
        })?;
        self.sweeps += u64::from(place_of(&self.ahead) != first);
        Ok(found)
    }

    /// Hands out the answers for the next keys, and opens the next window after the last key of this one.
    fn hand_out<A>(&mut self, answers: Vec<A>, each: &mut impl FnMut(T, A)) {
        // Each answer goes to the item of its own key, and none is left for a key of the next window.
        assert_eq!(self.items.len(), self.keys.len() - self.done);
        assert!(answers.len() <= self.items.len(), "more answers than keys");
        self.done += answers.len();
        for (item, answer) in self.items.drain(..answers.len()).zip(answers) {
            each(item, answer);
        }
        // Behind the window, no key has been looked at.
        assert!(self.done <= self.closed);
        if self.done == self.closed {
            self.keys.drain(..self.done);
            (self.done, self.closed, self.ahead) = (0, 0, None);
        }
    }

    /// Returns whether to sweep for this many keys.
    fn sweeps_for(&self, keys: usize) -> Result<bool> {
        if self.store.engine.file.model.has_counts() {
            return Ok(false);
        }
        match self.sweep {
            Sweep::Always => Ok(true),
            Sweep::Never => Ok(false),
            Sweep::Cheaper => self
                .store
                .read(|engine| Ok(engine.hints.is_sweep_cheaper(keys, pages(engine)?))),
        }
    }
}

/// Returns how many keys fit into so many bytes.
fn keys_of(bytes: u64) -> usize {
    (bytes / KEY_BYTES).clamp(1, MOST_KEYS) as usize
}

/// Returns how many pages a sweep reads.
fn pages(engine: &Engine) -> Result<u64> {
    let view = engine.views.current()?;
    Ok(view.filter.pages())
}

/// Returns the place of the first key that a look ahead has answers for. It changes when they are looked at once more.
fn place_of(ahead: &Option<LookAhead>) -> Option<usize> {
    ahead.as_ref().map(|ahead| ahead.first)
}
