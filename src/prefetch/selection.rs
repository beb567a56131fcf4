//! The keys of a batch that still have to be looked up. Each is prefetched a group ahead of its look-up, and no
//! unpredictable branch decides a key.

use std::convert::Infallible;
use std::ops::Range;

use crate::prefetch::BATCH;

/// The places of a batch whose keys still have to be looked up.
#[derive(Clone)]
pub(crate) struct SelectionVector {
    places: [u16; BATCH],
    count: usize,
}

impl SelectionVector {
    pub(crate) fn all(count: usize) -> Self {
        let mut places = [0; BATCH];
        for (number, place) in (0..).zip(&mut places[..count]) {
            *place = number;
        }
        Self { places, count }
    }

    /// Returns the places, in order.
    pub(crate) fn places(&self) -> &[u16] {
        &self.places[..self.count]
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Drops the places that are done.
    pub(crate) fn drop_if(&mut self, is_done: impl Fn(usize) -> bool) {
        let keep = |place| Ok::<_, Infallible>(!is_done(place));
        let Ok(()) = self.retain(BATCH, |_| {}, keep);
    }

    /// Returns the hashes of the places, in order. `space` is where they may be put.
    pub(crate) fn select<'h>(&self, hashes: &'h [u64], space: &'h mut [u64; BATCH]) -> &'h [u64] {
        if self.count == hashes.len() {
            return hashes;
        }
        debug_assert!(self.count < hashes.len());
        for (hash, place) in space.iter_mut().zip(&self.places[..self.count]) {
            *hash = hashes[usize::from(*place)];
        }
        &space[..self.count]
    }

    /// Sets `found` for all places, of which `is_found` knows by their turns, and drops those that are.
    pub(crate) fn settle(&mut self, found: &mut [bool], is_found: impl Fn(usize) -> bool) {
        let mut turn = 0;
        let keep = |place: usize| {
            found[place] = is_found(turn);
            turn += 1;
            Ok::<_, Infallible>(!found[place])
        };
        let Ok(()) = self.retain(BATCH, |_| {}, keep);
    }

    /// Looks up the key of each place, and keeps the places whose keys are not found.
    pub(crate) fn find<E>(
        &mut self,
        hashes: &[u64],
        found: &mut [bool],
        group: usize,
        fetch: impl Fn(u64),
        look: impl Fn(u64) -> Result<bool, E>,
    ) -> Result<(), E> {
        let look = |hash| Ok(look(hash)?.then_some(true));
        self.decide(hashes, found, group, fetch, look)
    }

    /// Looks up the key of each place, and keeps the places of which `look` says nothing.
    pub(crate) fn decide<E>(
        &mut self,
        hashes: &[u64],
        found: &mut [bool],
        group: usize,
        fetch: impl Fn(u64),
        look: impl Fn(u64) -> Result<Option<bool>, E>,
    ) -> Result<(), E> {
        let fetch = |place: usize| fetch(hashes[place]);
        self.retain(group, fetch, |place| {
            let said = look(hashes[place])?;
            found[place] = said == Some(true);
            Ok(said.is_none())
        })
    }

    /// Calls `keep` for each place, prefetched a group ahead, and drops those for which it returns `false`.
    #[inline(always)]
    pub(crate) fn retain<E>(
        &mut self,
        group: usize,
        fetch: impl Fn(usize),
        keep: impl FnMut(usize) -> Result<bool, E>,
    ) -> Result<(), E> {
        self.retain_in(0..self.count, group, fetch, keep)
    }

    /// Like [`retain`](Self::retain), for a range of the places; all others are kept.
    #[inline(always)]
    pub(crate) fn retain_in<E>(
        &mut self,
        range: Range<usize>,
        group: usize,
        fetch: impl Fn(usize),
        mut keep: impl FnMut(usize) -> Result<bool, E>,
    ) -> Result<(), E> {
        assert!(range.start <= range.end && range.end <= self.count);
        let Range { start, end } = range;
        let group_from = |first: usize| first.min(end)..(first + group).min(end);
        let fetch = |places: &[u16]| places.iter().for_each(|place| fetch(usize::from(*place)));
        fetch(&self.places[group_from(start)]);
        let mut kept = start;
        for first in range.step_by(group) {
            fetch(&self.places[group_from(first + group)]);
            for index in group_from(first) {
                let place = self.places[index];
                let keep = keep(usize::from(place))?;
                self.places[kept] = place;
                kept += usize::from(keep);
            }
        }
        self.places.copy_within(end..self.count, kept);
        self.count -= end - kept;
        Ok(())
    }
}
