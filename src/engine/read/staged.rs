//! Looks up many keys in stages, in one table or layer after another. Each key is prefetched a group ahead of its
//! look-up, and no unpredictable branch decides a key.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use crate::bloom::layer_pages::LayerPages;
use crate::bloom::layer_pages::with_keys;
use crate::bloom::probe_batch::EIGHT;
use crate::engine::read::segments::probe_segments;
use crate::engine::view::View;
use crate::engine::view::lookup::closed_says;
use crate::file::FormatError;
use crate::fingerprint::segment::pages::SegmentPages;
use crate::memtable::{Buffer, Presence};
use crate::page::write_window::WriteWindow;
use crate::prefetch::{BATCH, GROUP};
use crate::storefile::section_set::SectionReader;

/// Like [`GROUP`], if all lines of a key are prefetched.
pub(crate) const ALL_GROUP: usize = 4;

/// How many keys of a batch are looked up first, to predict the others.
const FIRST_KEYS: usize = 32;

/// For fewer keys than this, drawing their bits eight at a time does not pay.
const FEW: usize = 32;

/// With at least this many keys per page, in page order, the lines of one key have most likely been fetched for
/// another.
const DENSE: u64 = 16;

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
    fn find<E>(
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
    fn decide<E>(
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
    fn retain<E>(
        &mut self,
        group: usize,
        fetch: impl Fn(usize),
        keep: impl FnMut(usize) -> Result<bool, E>,
    ) -> Result<(), E> {
        self.retain_in(0..self.count, group, fetch, keep)
    }

    /// Like [`retain`](Self::retain), for a range of the places; all others are kept.
    #[inline(always)]
    fn retain_in<E>(
        &mut self,
        range: Range<usize>,
        group: usize,
        fetch: impl Fn(usize),
        mut keep: impl FnMut(usize) -> Result<bool, E>,
    ) -> Result<(), E> {
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

/// Why a batch can't be answered as a whole: it met an untrusted page or section. Retry key by key, so
/// that only the affected key fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NeedsPointLookup;

impl From<FormatError> for NeedsPointLookup {
    fn from(_: FormatError) -> Self {
        NeedsPointLookup
    }
}

/// The order in which keys are looked up.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KeyOrder {
    /// In the order they were given.
    Given,
    /// Roughly in page order, `keys` of them.
    ByPage { keys: u64 },
}

/// The pages to look keys up in.
#[derive(Clone, Copy)]
pub(crate) struct ProbeContext<'a> {
    pub(crate) layers: &'a [Arc<LayerPages>],
    /// Only in a store of fingerprints, which has no layers.
    pub(crate) segments: Option<&'a SegmentPages>,
    pub(crate) exempt: Option<&'a SectionReader>,
    pub(crate) window: WriteWindow<'a>,
    pub(crate) order: KeyOrder,
}

impl<'a> ProbeContext<'a> {
    /// Returns the pages of a view, for keys in the order in which they were given.
    pub(crate) fn of(view: &'a View, window: WriteWindow<'a>) -> Self {
        Self {
            layers: &view.layers,
            segments: view.segments.as_deref(),
            exempt: view.sections.exempt.as_deref(),
            window,
            order: KeyOrder::Given,
        }
    }

    /// Returns whether the lines of one key have most likely been fetched for another.
    fn is_dense(&self, layer: &LayerPages) -> bool {
        match self.order {
            KeyOrder::Given => false,
            KeyOrder::ByPage { keys } => keys / layer.pages() >= DENSE,
        }
    }

    /// Returns whether a layer holds the key and the key is not exempt.
    #[inline]
    fn look(&self, layer: &LayerPages, hash: u64) -> Result<bool, NeedsPointLookup> {
        self.is_key(hash, layer.contains(hash, self.window)?)
    }

    /// Returns whether a key is present, given whether it tests positive.
    #[inline]
    pub(crate) fn is_key(&self, hash: u64, positive: bool) -> Result<bool, NeedsPointLookup> {
        match (positive, self.exempt) {
            (true, Some(exempt)) => match exempt.try_contains(hash) {
                Some(is_exempt) => Ok(!is_exempt),
                None => Err(NeedsPointLookup),
            },
            (found, _) => Ok(found),
        }
    }
}

/// Looks for keys in the buffers, at most [`BATCH`] of them. Sets `found` for each that is present, and drops from
/// `rest` each of which a buffer says whether it is. `says` tells that from what the active buffer says of a key; `None`
/// skips that buffer.
pub(crate) fn probe_buffers(
    view: &View,
    hashes: &[u64],
    says: Option<impl Fn(Presence) -> Option<bool>>,
    rest: &mut SelectionVector,
    found: &mut [bool],
) {
    let active = &view.active.buffer;
    if let Some(says) = says.filter(|_| !active.is_unused()) {
        let look = |hash| says(active.lookup(hash));
        probe_buffer(active, hashes, look, rest, found);
    }
    if let Some(sealed) = &view.sealed {
        let look = |hash| closed_says(sealed.buffer.lookup_closed(hash));
        probe_buffer(&sealed.buffer, hashes, look, rest, found);
    }
}

/// Looks for keys in the pages, of layers or of segments, as [`probe_buffers`] does in the buffers.
///
/// # Errors
/// After an error `found` is meaningless.
pub(crate) fn probe_layers(
    context: &ProbeContext<'_>,
    hashes: &[u64],
    rest: &mut SelectionVector,
    found: &mut [bool],
) -> Result<(), NeedsPointLookup> {
    if let Some(segments) = context.segments {
        return probe_segments(segments, context, hashes, rest, found);
    }
    for layer in with_keys(context.layers) {
        if context.is_dense(layer) {
            let look = |hash| context.look(layer, hash);
            rest.find(hashes, found, GROUP, |hash| layer.prefetch(hash), look)?;
        } else {
            probe_layer(layer, context, hashes, rest, found)?;
        }
    }
    Ok(())
}

fn probe_buffer(
    buffer: &Buffer,
    hashes: &[u64],
    look: impl Fn(u64) -> Option<bool>,
    rest: &mut SelectionVector,
    found: &mut [bool],
) {
    let fetch = |hash| buffer.prefetch(hash);
    let look = |hash| Ok::<_, Infallible>(look(hash));
    let Ok(()) = rest.decide(hashes, found, GROUP, fetch, look);
}

/// Looks up keys in one layer. The first run of bits rules out most absent keys. If it ruled out most keys, the second
/// run rules out most of the rest. The remaining keys are fetched whole, and so are all keys of a batch if most of the
/// first ones are present.
fn probe_layer(
    layer: &LayerPages,
    context: &ProbeContext<'_>,
    hashes: &[u64],
    rest: &mut SelectionVector,
    found: &mut [bool],
) -> Result<(), NeedsPointLookup> {
    let window = context.window;
    let mut perhaps = rest.clone();
    let mut runs = [0; BATCH];
    layer.first_runs(hashes, &mut runs[..hashes.len()]);
    let fetch = |place: usize| layer.prefetch_run(hashes[place], runs[place]);
    let may_begin = |place: usize| layer.may_begin(hashes[place], runs[place], window);
    let tried = rest.count.min(FIRST_KEYS);
    perhaps.retain_in(0..tried, GROUP, fetch, may_begin)?;
    let absent = rest.count - perhaps.count;
    if absent * 2 > tried {
        let others = tried - absent..perhaps.count;
        perhaps.retain_in(others, GROUP, fetch, may_begin)?;
    }
    if perhaps.count * 2 < rest.count {
        let fetch = |place: usize| layer.prefetch_second(hashes[place]);
        let may_be = |place: usize| layer.may_contain(hashes[place], 2, window);
        perhaps.retain(GROUP, fetch, may_be)?;
    }
    let looked_at = perhaps.count;
    if looked_at < FEW {
        let fetch = |hash| layer.prefetch_all(hash);
        let look = |hash| context.look(layer, hash);
        perhaps.find(hashes, found, ALL_GROUP, fetch, look)?;
    } else {
        look_whole(layer, context, hashes, &mut perhaps, found)?;
    }
    if perhaps.count < looked_at {
        rest.drop_if(|place| found[place]);
    }
    Ok(())
}

/// Looks at all bits of the keys at these places, and keeps the places whose keys are not found. Draws the bits of
/// eight keys together, and fetches them while it looks at the previous eight.
fn look_whole(
    layer: &LayerPages,
    context: &ProbeContext<'_>,
    hashes: &[u64],
    rest: &mut SelectionVector,
    found: &mut [bool],
) -> Result<(), NeedsPointLookup> {
    let places = &rest.places[..rest.count];
    let mut drawn = [layer.drawn(), layer.drawn()];
    let mut behind: &[u16] = &[];
    for (turn, ahead) in places.chunks(EIGHT).chain([&[][..]]).enumerate() {
        let [next, now] = &mut drawn;
        let (next, now) = if turn % 2 == 0 {
            (next, now)
        } else {
            (now, next)
        };
        let hash_of = |place: &u16| hashes[usize::from(*place)];
        let mut eight = [0; EIGHT];
        for (hash, place) in eight.iter_mut().zip(ahead) {
            *hash = hash_of(place);
        }
        if !ahead.is_empty() {
            next.draw(&eight);
        }
        for (key, hash) in eight[..ahead.len()].iter().enumerate() {
            layer.prefetch_drawn(*hash, next, key);
        }
        for (key, place) in behind.iter().enumerate() {
            let hash = hash_of(place);
            let positive = layer.contains_drawn(hash, now, key, context.window)?;
            found[usize::from(*place)] = context.is_key(hash, positive)?;
        }
        behind = ahead;
    }
    rest.drop_if(|place| found[place]);
    Ok(())
}
