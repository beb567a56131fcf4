//! Looking up many keys in stages: in one table or layer after the other, each key fetched a group before
//! it is looked at, and none of them decided by a branch that can't be foretold.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use crate::buffer::{Buffer, Presence};
use crate::file::pages::WriteWindow;
use crate::file::{FormatError, LayerPages};
use crate::page::probe_batch::EIGHT;
use crate::store::read::point::with_keys;
use crate::store::view::View;
use crate::store::view::section_set::Kept;

/// Keys that are looked up together: enough to keep the memory busy, few enough for the cache.
pub(crate) const BATCH: usize = 512;

/// So many keys are fetched one after the other, one cache line each, before those fetched before them are looked
/// at. A fetch with each look instead leaves the memory idle during the looks (docs/performance.md).
pub(crate) const GROUP: usize = 32;

/// The same where all lines of a key are fetched.
pub(crate) const ALL_GROUP: usize = 4;

/// Keys of a batch that are looked at to tell what the others are like.
const SAMPLE: usize = 32;

/// For fewer keys than this it does not pay to draw their bits eight at a time.
const FEW: usize = 32;

/// From so many keys a page on, in the order of the pages, the lines of one key are likely to have been
/// fetched for another.
const DENSE: u64 = 16;

/// Places of a batch that are still to be looked at.
#[derive(Clone)]
pub(crate) struct Places {
    places: [u16; BATCH],
    count: usize,
}

impl Places {
    pub(crate) fn all(count: usize) -> Self {
        let mut places = [0; BATCH];
        for (number, place) in (0..).zip(&mut places[..count]) {
            *place = number;
        }
        Self { places, count }
    }

    /// Keeps those that `is_done` does not say so of.
    pub(crate) fn drop_if(&mut self, is_done: impl Fn(usize) -> bool) {
        let keep = |place| Ok::<_, Infallible>(!is_done(place));
        let Ok(()) = self.retain(BATCH, |_| {}, keep);
    }

    /// Looks for the key of each, and keeps those that are not found.
    fn find<E>(
        &mut self,
        hashes: &[u64],
        found: &mut [bool],
        group: usize,
        fetch: impl Fn(u64),
        look: impl Fn(u64) -> Result<bool, E>,
    ) -> Result<(), E> {
        let fetch = |place: usize| fetch(hashes[place]);
        self.retain(group, fetch, |place| {
            found[place] = look(hashes[place])?;
            Ok(!found[place])
        })
    }

    /// Looks at each, fetched a group before, and keeps those for which `keep` says so.
    #[inline(always)]
    fn retain<E>(
        &mut self,
        group: usize,
        fetch: impl Fn(usize),
        keep: impl FnMut(usize) -> Result<bool, E>,
    ) -> Result<(), E> {
        self.retain_in(0..self.count, group, fetch, keep)
    }

    /// The same with some of them; all others are kept.
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

/// How keys are looked up.
pub(crate) struct Stages<'a, C> {
    pub(crate) window: WriteWindow<'a>,
    /// Tells whether a key that the active buffer has is there. Without it that buffer is not looked
    /// into.
    pub(crate) counts: Option<C>,
    /// So many keys come in the order of the pages.
    in_order: u64,
}

impl<'a, C> Stages<'a, C> {
    pub(crate) fn new(window: WriteWindow<'a>, counts: Option<C>) -> Self {
        Self {
            window,
            counts,
            in_order: 0,
        }
    }

    /// The same for so many keys that come in the order of the pages.
    pub(crate) fn in_order(mut self, keys: usize) -> Self {
        self.in_order = keys as u64;
        self
    }
}

impl View {
    pub(crate) fn settled(&self) -> Settled<'_> {
        Settled {
            layers: &self.layers,
            exempt: self.kept.exempt.as_deref(),
        }
    }

    /// Looks for some [`BATCH`] keys, at most, in the buffers; sets `found` for each that is there, and
    /// takes it from the rest.
    pub(crate) fn probe_buffers<C: Fn(Presence) -> bool>(
        &self,
        hashes: &[u64],
        stages: &Stages<'_, C>,
        rest: &mut Places,
        found: &mut [bool],
    ) {
        let active = &self.active.buffer;
        if let Some(counts) = stages.counts.as_ref().filter(|_| !active.is_unused()) {
            probe_buffer(active, hashes, counts, rest, found);
        }
        if let Some(frozen) = &self.frozen {
            let settled = |presence| presence == Presence::Settled;
            probe_buffer(&frozen.buffer, hashes, settled, rest, found);
        }
    }
}

/// Something in the way of looking up many keys together, which is to be met by the one that it
/// concerns: a page that is damaged, or seems so; exemptions that are, or that others have replaced.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unsure;

impl From<FormatError> for Unsure {
    fn from(_: FormatError) -> Self {
        Unsure
    }
}

/// What is looked at of a store file.
#[derive(Clone, Copy)]
pub(crate) struct Settled<'a> {
    pub(crate) layers: &'a [Arc<LayerPages>],
    pub(crate) exempt: Option<&'a Kept>,
}

impl Settled<'_> {
    /// Whether a key is there, as a layer has it.
    #[inline]
    fn look(&self, layer: &LayerPages, hash: u64, window: WriteWindow<'_>) -> Result<bool, Unsure> {
        self.is_key(hash, layer.contains(hash, window)?)
    }

    /// The same, where it was found whether it tests positive.
    #[inline]
    fn is_key(&self, hash: u64, positive: bool) -> Result<bool, Unsure> {
        match (positive, self.exempt) {
            (true, Some(exempt)) => exempt.tells(hash).map(|is| !is).ok_or(Unsure),
            (found, _) => Ok(found),
        }
    }
}

/// The same in the pages.
///
/// # Errors
/// Then `found` means nothing.
pub(crate) fn probe_layers<C>(
    settled: Settled<'_>,
    hashes: &[u64],
    stages: &Stages<'_, C>,
    rest: &mut Places,
    found: &mut [bool],
) -> Result<(), Unsure> {
    for layer in with_keys(settled.layers) {
        if stages.in_order / layer.pages() >= DENSE {
            let look = |hash| settled.look(layer, hash, stages.window);
            rest.find(hashes, found, GROUP, |hash| layer.prefetch(hash), look)?;
        } else {
            probe_layer(layer, settled, hashes, stages.window, rest, found)?;
        }
    }
    Ok(())
}

fn probe_buffer(
    buffer: &Buffer,
    hashes: &[u64],
    counts: impl Fn(Presence) -> bool,
    rest: &mut Places,
    found: &mut [bool],
) {
    let fetch = |hash| buffer.prefetch(hash);
    let look = |hash| Ok::<_, Infallible>(counts(buffer.lookup(hash)));
    let Ok(()) = rest.find(hashes, found, GROUP, fetch, look);
}

/// In stages: most absent keys are known by their first run of bits, and where most were, most of those
/// that are left by the second. What is left then is fetched whole, as are all keys of a batch whose first
/// ones are there more often than not.
fn probe_layer(
    layer: &LayerPages,
    settled: Settled<'_>,
    hashes: &[u64],
    window: WriteWindow<'_>,
    rest: &mut Places,
    found: &mut [bool],
) -> Result<(), Unsure> {
    let mut perhaps = rest.clone();
    let mut runs = [0; BATCH];
    layer.first_runs(hashes, &mut runs[..hashes.len()]);
    let fetch = |place: usize| layer.prefetch_run(hashes[place], runs[place]);
    let may_begin = |place: usize| layer.may_begin(hashes[place], runs[place], window);
    let tried = rest.count.min(SAMPLE);
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
        let look = |hash| settled.look(layer, hash, window);
        perhaps.find(hashes, found, ALL_GROUP, fetch, look)?;
    } else {
        look_whole(layer, settled, hashes, window, &mut perhaps, found)?;
    }
    if perhaps.count < looked_at {
        rest.drop_if(|place| found[place]);
    }
    Ok(())
}

/// Looks at all bits of the keys at these places, and keeps those that are not found. The bits of eight keys are
/// drawn together, and fetched while the eight before are looked at.
fn look_whole(
    layer: &LayerPages,
    settled: Settled<'_>,
    hashes: &[u64],
    window: WriteWindow<'_>,
    rest: &mut Places,
    found: &mut [bool],
) -> Result<(), Unsure> {
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
            let positive = layer.contains_drawn(hash, now, key, window)?;
            found[usize::from(*place)] = settled.is_key(hash, positive)?;
        }
        behind = ahead;
    }
    rest.drop_if(|place| found[place]);
    Ok(())
}
