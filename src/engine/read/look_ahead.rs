//! One look at many keys, whose answers are used when each key's turn comes.

use std::ops::Range;
use std::sync::Arc;

use crate::engine::read::Reader;
use crate::engine::read::batch::MAX_VIEW_ATTEMPTS;
use crate::engine::read::part_lookup::PartFound;
use crate::engine::view::View;
use crate::engine::view::lookup::AbsentSince;
use crate::engine::view::lookup::probe_buffers;
use crate::error::Result;
use crate::memtable::{KeyBitmap, Presence};
use crate::prefetch::BATCH;
use crate::prefetch::hash_source::{HashSource, SourceTail};
use crate::prefetch::selection::SelectionVector;
use crate::sys::huge_pages;

/// What a look without a lock has found out about the keys of a part, from one of them on.
#[derive(Debug)]
pub(crate) struct LookAhead {
    /// The place of the first of these keys in the part.
    pub(crate) first: usize,
    /// The place from which on the look was brought up to date: of the keys before it, it knows nothing any more.
    pub(crate) fresh_from: usize,
    pub(crate) absent: AbsentSince,
    seen: Vec<bool>,
    /// How much of the log the active buffer had when it was searched; `None` if it was not. The buffer has an insert
    /// before this moves on, and this moves on before the insert returns.
    applied: Option<u64>,
    older: Option<OlderKeys>,
}

/// Which keys of a look ahead are older than its step. It does not know that of keys that it did not find, be it because
/// it skipped the active buffer.
#[derive(Debug)]
struct OlderKeys {
    step: u64,
    found: AbsentSince,
    keys: Vec<Option<bool>>,
}

/// Those from one of them on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OlderFrom<'a> {
    /// The step that they are older than.
    pub(crate) step: u64,
    /// When they were there.
    pub(crate) found: AbsentSince,
    pub(crate) keys: &'a [Option<bool>],
}

impl LookAhead {
    /// Returns which keys from a place on are older than a step, if the look has asked for that.
    pub(crate) fn older_from(&self, place: usize) -> Option<OlderFrom<'_>> {
        let older = self.older.as_ref()?;
        Some(OlderFrom {
            step: older.step,
            found: older.found,
            keys: &older.keys[place - self.first..],
        })
    }

    /// Returns whether the keys from a place on were seen.
    pub(crate) fn seen_from(&self, place: usize) -> &[bool] {
        &self.seen[place - self.first..]
    }

    /// Returns how many keys were absent when they were looked up.
    pub(crate) fn count_absent(&self) -> usize {
        self.seen.iter().filter(|seen| !**seen).count()
    }

    /// Returns the answers for the keys at these places alone; `None` if there is none for one of them.
    pub(crate) fn select(&self, places: &[usize]) -> Option<Self> {
        if places.iter().any(|place| *place < self.fresh_from) {
            return None;
        }
        debug_assert!(self.first <= self.fresh_from);
        let seen = |place: &usize| self.seen[place - self.first];
        let older = self.older.as_ref().map(|older| OlderKeys {
            step: older.step,
            found: older.found,
            keys: places
                .iter()
                .map(|place| older.keys[place - self.first])
                .collect(),
        });
        Some(Self {
            older,
            first: 0,
            fresh_from: 0,
            absent: self.absent,
            applied: self.applied,
            seen: places.iter().map(seen).collect(),
        })
    }

    /// Returns whether the keys inserted since are all in buffers of this view.
    fn is_fresh_in(&self, view: &View) -> bool {
        self.absent.is_of_active(view) || self.absent.is_of_sealed(view)
    }

    /// Returns whether no insert has returned since the look.
    fn is_unchanged_in(&self, view: &View) -> bool {
        let buffer = &view.active.buffer;
        self.absent.is_of_active(view) && self.applied == Some(buffer.applied())
    }
}

impl Reader<'_> {
    /// Looks up many keys together. `says` tells whether a key is present from what the active buffer says of it; `None`
    /// skips that buffer. Returns `None` if that would not help, or if the look met a damaged page: each key is then looked
    /// up in its turn.
    pub(crate) fn look_ahead<C: Fn(Presence) -> Option<bool> + Sync>(
        self,
        keys: &SourceTail<'_>,
        says: Option<C>,
    ) -> Result<Option<LookAhead>> {
        self.look_ahead_for(keys, says, false)
    }

    /// The same for keys that are to be claimed. Where those that are seen are renewed, it finds out which are due.
    pub(crate) fn look_ahead_to_claim<C: Fn(Presence) -> Option<bool> + Sync>(
        self,
        keys: &SourceTail<'_>,
        says: Option<C>,
    ) -> Result<Option<LookAhead>> {
        self.look_ahead_for(keys, says, self.file.header.renews())
    }

    fn look_ahead_for<C: Fn(Presence) -> Option<bool> + Sync>(
        self,
        keys: &SourceTail<'_>,
        says: Option<C>,
        renews: bool,
    ) -> Result<Option<LookAhead>> {
        if !self.can_look_ahead() {
            return Ok(None);
        }
        for _ in 0..MAX_VIEW_ATTEMPTS {
            let mut seen = huge_pages::filled(false, keys.count());
            let mut older = vec![None; if renews { keys.count() } else { 0 }];
            let older_keys = renews.then_some((0, &mut older[..]));
            let mut found = PartFound::new(&mut seen, older_keys);
            let before = Arc::clone(&*self.views.current()?);
            let applied = before.active.buffer.applied();
            let probed = self.probe_part(keys, says.as_ref(), &mut found)?;
            let Ok(absent) = probed else {
                return Ok(None);
            };
            let step = found.older.map(|(step, _)| step);
            // A carried removal may have shown again what it removes. The buffer that it was carried into has it too.
            if absent.still_holds(self.shared)
                || !self.views.current()?.active.buffer.has_removals()
            {
                let searched = says.is_some() && absent.is_of_active(&before);
                return Ok(Some(LookAhead {
                    first: keys.first,
                    fresh_from: keys.first,
                    absent,
                    seen,
                    applied: searched.then_some(applied),
                    older: step.map(|step| OlderKeys {
                        step,
                        found: absent,
                        keys: older,
                    }),
                }));
            }
        }
        Ok(None)
    }

    /// Brings a look ahead up to date for the keys from a place on, before the generation that was active then goes into
    /// the pages: keys in its buffer are seen, and the others were still absent when the next generation began. So
    /// keys may wait for their turn through any number of rotations, as long as none is missed.
    pub(crate) fn follow(
        self,
        keys: &dyn HashSource,
        place: usize,
        ahead: &mut LookAhead,
    ) -> Result<()> {
        let view = Arc::clone(&*self.views.current()?);
        if !ahead.absent.is_of_sealed(&view) {
            return Ok(());
        }
        if view.active.buffer.has_removals() {
            // The sealed buffer shows keys that an open transaction has removed.
            return Ok(());
        }
        assert!(ahead.first <= place, "answers that are handed out");
        let absent = AbsentSince::of(&view);
        let mut hashes = [0; BATCH];
        let end = ahead.first + ahead.seen.len();
        let sealed = view.sealed.as_ref().map(|sealed| &sealed.buffer);
        // No key comes into it any more, and most of these are not in it.
        let sealed = sealed.and_then(|sealed| KeyBitmap::for_looks(sealed, end - place));
        for at in (place..end).step_by(BATCH) {
            let hashes = &mut hashes[..BATCH.min(end - at)];
            keys.hashes_from(at, hashes);
            let found = &mut ahead.seen[at - ahead.first..][..hashes.len()];
            let mut rest = SelectionVector::all(hashes.len());
            rest.drop_if(|turn| found[turn]);
            if let Some(sealed) = &sealed {
                rest.drop_if(|turn| !sealed.may_contain(hashes[turn]));
            }
            let sealed_alone = None::<fn(Presence) -> Option<bool>>;
            probe_buffers(
                (&view, view.remembered_since()),
                hashes,
                sealed_alone,
                &mut rest,
                found,
            );
        }
        if ahead.absent.is_of_sealed(&view) {
            // Its successor was not searched.
            (ahead.absent, ahead.applied) = (absent, None);
            ahead.fresh_from = place;
        }
        Ok(())
    }

    /// Appends an answer for each key of a range. What a look ahead has found is present; other keys are searched in
    /// the buffers that may have got them since. Where that is not enough, looks at the rest of the keys anew.
    pub(crate) fn contains_ahead(
        self,
        keys: &dyn HashSource,
        range: Range<usize>,
        ahead: &mut Option<LookAhead>,
        out: &mut Vec<bool>,
    ) -> Result<()> {
        self.check_readable(range.len())?;
        for at in range.clone().step_by(BATCH) {
            // A look that an error ended may have gone further.
            let begins = |look: &LookAhead| look.fresh_from <= at;
            if let Some(look) = ahead
                && begins(look)
                && self.is_unchanged(look)?
            {
                let rest = range.end - at;
                out.extend_from_slice(&look.seen_from(at)[..rest]);
                return Ok(());
            }
            let mut hashes = vec![0; BATCH.min(range.end - at)];
            keys.hashes_from(at, &mut hashes);
            if let Some(look) = ahead
                && begins(look)
            {
                self.follow(keys, at, look)?;
            }
            let view = Arc::clone(&*self.views.current()?);
            if ahead
                .as_ref()
                .is_some_and(|look| !begins(look) || !look.is_fresh_in(&view))
            {
                let rest = SourceTail {
                    source: keys,
                    first: at,
                };
                let says = |presence| self.says_seen(presence);
                *ahead = self.look_ahead(&rest, Some(says))?;
            }
            let first = out.len();
            if let Some(look) = ahead {
                out.extend_from_slice(&look.seen_from(at)[..hashes.len()]);
                if self.find_since(look, &hashes, &mut out[first..])? {
                    continue;
                }
                out.truncate(first);
            }
            self.contains_each(&hashes, out)?;
        }
        Ok(())
    }

    /// Returns whether nothing was inserted since a look ahead. In a transactional store, a key may be there that the look
    /// has left to its claim.
    fn is_unchanged(self, ahead: &LookAhead) -> Result<bool> {
        if self.file.header.transactional {
            return Ok(false);
        }
        Ok(ahead.is_unchanged_in(&*self.views.current()?))
    }

    /// Sets `found` for each key that was inserted since a look ahead. Returns `false` if that look is too old, or if
    /// other handles kept rotating.
    fn find_since(self, ahead: &LookAhead, hashes: &[u64], found: &mut [bool]) -> Result<bool> {
        let there = |presence| self.says_there(presence);
        for _ in 0..MAX_VIEW_ATTEMPTS {
            let view = Arc::clone(&*self.views.current()?);
            if !ahead.is_fresh_in(&view) {
                return Ok(false);
            }
            let mut rest = SelectionVector::all(hashes.len());
            rest.drop_if(|place| found[place]);
            probe_buffers(
                (&view, view.remembered_since()),
                hashes,
                Some(there),
                &mut rest,
                found,
            );
            if view.is_active(self.shared) {
                // A transaction that was given up meanwhile has taken with it what the look had gone by.
                return Ok(ahead.is_fresh_in(&view));
            }
            if !view.found_holds(self.shared) {
                return Ok(false);
            }
        }
        Ok(false)
    }
}
