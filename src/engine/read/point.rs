//! Looking up one key.

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::Guard;

use crate::engine::read::Reader;
use crate::engine::view::View;
use crate::engine::view::lookup::AbsentSince;
use crate::error::{Error, Result};
use crate::memtable::Presence;
use crate::page_io::probe::{Probe, StaleDirectory};
use crate::shm::coordination::Coordination;
use crate::shm::handle::Access;
use crate::storefile::section_set::SectionReader;

/// The outcome of looking one key up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found<P> {
    Present,
    /// With what that proves.
    Absent(P),
    /// The shared memory has ended, and the last view does not show the key.
    Ended,
    /// Checkpoints overtook every probe.
    Overtaken,
}

/// How many probes of one look-up checkpoints may overtake. Two checkpoints, or two steps of one, must go by during each.
const MAX_OVERTAKEN: usize = 100;

/// Looks up one key: the one loop that answers what is stale. `view` returns the current view, or one with a newer
/// directory than that of a stale probe, `proof` what it proves if a key is not found in a view. `says` tells whether the
/// key is there from what the active buffer says of it, and `probe` searches the rest of the view.
#[inline]
pub(crate) fn look_up<V: Deref<Target = Arc<View>>, P>(
    hash: u64,
    shared: &Coordination,
    view: impl Fn(Option<StaleDirectory>) -> Result<V>,
    proof: impl Fn(&View) -> P,
    says: impl Fn(Presence) -> Option<bool>,
    probe: impl Fn(&View) -> Result<Probe>,
) -> Result<Found<P>> {
    let (mut stale, mut overtaken) = (None, 0);
    loop {
        let view = view(stale)?;
        let proof = proof(&view);
        let active = &view.active.buffer;
        let said = match active.is_unused() {
            true => None,
            false => says(view.active_presence(hash, view.remembered_since())),
        };
        let probed = match said {
            Some(found) => Probe::of(found),
            None => probe(&view)?,
        };
        match probed {
            Probe::Present if view.found_holds(shared) || shared.is_ended() => {
                return Ok(Found::Present);
            }
            Probe::Absent if view.is_active(shared) => return Ok(Found::Absent(proof)),
            Probe::Present | Probe::Absent if shared.is_ended() => return Ok(Found::Ended),
            Probe::Present | Probe::Absent => stale = None,
            Probe::Stale(_) if overtaken == MAX_OVERTAKEN => return Ok(Found::Overtaken),
            Probe::Stale(directory) => {
                stale = Some(directory);
                overtaken += 1;
            }
        }
    }
}

impl Reader<'_> {
    /// Returns whether a key of a set is there.
    #[inline]
    pub(super) fn is_in_set(self, hash: u64) -> Result<bool> {
        self.check_readable(1)?;
        let there = |presence| self.says_there(presence);
        Ok(self.find(hash, |_| (), there)?.is_none())
    }

    /// Looks a key up for an insert: returns since when it is absent, `None` if it is [seen](Self::says_seen).
    #[inline]
    pub(crate) fn absent_since(self, hash: u64) -> Result<Option<AbsentSince>> {
        self.find(hash, AbsentSince::of, |presence| self.says_seen(presence))
    }

    /// Returns what it proves that a key is absent; `None` if it is present.
    #[inline]
    fn find<P>(
        self,
        hash: u64,
        proof: impl Fn(&View) -> P,
        says: impl Fn(Presence) -> Option<bool>,
    ) -> Result<Option<P>> {
        let view = |stale| match stale {
            None => self.views.current().inspect(|view| view.prefetch(hash)),
            Some(stale) => self.view_after(stale),
        };
        let probe = |view: &View| self.probe(view, hash);
        match look_up(hash, self.shared, view, proof, says, probe)? {
            Found::Present => Ok(None),
            Found::Absent(proof) => Ok(Some(proof)),
            // Keys that the view does not show can no longer be looked up.
            Found::Ended => Err(self.ended()),
            Found::Overtaken => Err(Error::Busy {
                path: self.file.place.to_path_buf(),
                what: "checkpoints that overtake each look-up",
                process: None,
            }),
        }
    }

    /// Returns whether a key is there below the active buffer: in the sealed one, or in the pages.
    pub(crate) fn is_below(self, hash: u64) -> Result<bool> {
        Ok(self.find(hash, |_| (), |_| None)?.is_none())
    }

    /// Returns a view with a newer directory.
    #[cold]
    pub(crate) fn view_after(self, stale: StaleDirectory) -> Result<Guard<Arc<View>>> {
        // What this handle was opened with has been written over.
        if self.handle.access == Access::Snapshot {
            return Err(Error::Ended);
        }
        match self.views.renew_past(stale)? {
            Some(view) => Ok(Guard::from_inner(view)),
            // The last writer has closed the store: there is no newer view to look in.
            None => Err(self.ended()),
        }
    }

    /// Probes the sealed buffer and the pages of a view for a key.
    #[inline]
    pub(crate) fn probe(self, view: &View, hash: u64) -> Result<Probe> {
        let since = view.remembered_since();
        if let Some(found) = view.sealed_says(hash, since) {
            return Ok(Probe::of(found));
        }
        let window = self.shared.window();
        let probed = view
            .filter
            .probe((hash, since), window, &|lookup, number, source| {
                self.answer_damaged(view, number, lookup, source)
            })?;
        match (probed, &view.sections.exempt) {
            (Probe::Present, Some(exempt)) => self.unless_exempt(view, exempt, hash),
            (probed, _) => Ok(probed),
        }
    }

    /// Returns whether a key that the pages hold counts.
    fn unless_exempt(self, view: &View, exempt: &SectionReader, hash: u64) -> Result<Probe> {
        let is_exempt = exempt.contains(hash);
        // The room of sections is written again as that of segments is.
        if let Some(stale) = view.filter.stale() {
            return Ok(Probe::Stale(stale));
        }
        match is_exempt {
            Ok(is_exempt) => Ok(Probe::of(!is_exempt)),
            Err(error) => self.answer_without_exemptions(error).map(Probe::of),
        }
    }
}
