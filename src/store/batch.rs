//! Looking up many keys in stages: in one table or layer after the other, each key fetched a while
//! before it is looked at, and none of them decided by a branch that can't be foretold.

use std::convert::Infallible;
use std::sync::Arc;

use super::engine::View;
use super::kept::Kept;
use super::read::with_keys;
use crate::buffer::{Buffer, Presence};
use crate::file::pages::WriteWindow;
use crate::file::{FormatError, LayerPages};

/// Keys that are looked up together: enough to keep the memory busy, few enough for the cache.
pub(crate) const BATCH: usize = 512;

/// How many keys ahead of the one looked at are fetched, one cache line each.
pub(crate) const AHEAD: usize = 24;
/// The same where all lines of a key are.
pub(crate) const ALL_AHEAD: usize = 4;

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
        let Ok(()) = self.retain(0, |_| {}, keep);
    }

    /// Looks for the key of each, and keeps those that are not found.
    fn find<E>(
        &mut self,
        hashes: &[u64],
        found: &mut [bool],
        fetch: impl Fn(u64),
        look: impl Fn(u64) -> Result<bool, E>,
    ) -> Result<(), E> {
        let fetch = |place: usize| fetch(hashes[place]);
        self.retain(AHEAD, fetch, |place| {
            found[place] = look(hashes[place])?;
            Ok(!found[place])
        })
    }

    /// Looks at each, fetched before, and keeps those for which `keep` says so.
    #[inline(always)]
    fn retain<E>(
        &mut self,
        ahead: usize,
        fetch: impl Fn(usize),
        mut keep: impl FnMut(usize) -> Result<bool, E>,
    ) -> Result<(), E> {
        let count = std::mem::take(&mut self.count);
        for place in &self.places[..count.min(ahead)] {
            fetch(usize::from(*place));
        }
        for index in 0..count {
            if index + ahead < count {
                fetch(usize::from(self.places[index + ahead]));
            }
            let place = self.places[index];
            let keep = keep(usize::from(place))?;
            self.places[self.count] = place;
            self.count += usize::from(keep);
        }
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
        match (layer.contains(hash, window)?, self.exempt) {
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
            rest.find(hashes, found, |hash| layer.prefetch(hash), look)?;
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
    let Ok(()) = rest.find(hashes, found, fetch, look);
}

/// In stages: most absent keys are known by their first run of bits, and where most were, most of those
/// that are left by the second. What is left then is fetched whole.
fn probe_layer(
    layer: &LayerPages,
    settled: Settled<'_>,
    hashes: &[u64],
    window: WriteWindow<'_>,
    rest: &mut Places,
    found: &mut [bool],
) -> Result<(), Unsure> {
    let mut perhaps = rest.clone();
    let may_be = |place: usize, runs| {
        let may_be = layer.may_contain(hashes[place], runs, window);
        may_be.map_err(Unsure::from)
    };
    let fetch = |place: usize| layer.prefetch(hashes[place]);
    perhaps.retain(AHEAD, fetch, |place| may_be(place, 1))?;
    if perhaps.count * 2 < rest.count {
        let fetch = |place: usize| layer.prefetch_second(hashes[place]);
        perhaps.retain(AHEAD, fetch, |place| may_be(place, 2))?;
    }
    let fetch = |place: usize| layer.prefetch_all(hashes[place]);
    perhaps.retain(ALL_AHEAD, fetch, |place| {
        let hash = hashes[place];
        found[place] = settled.look(layer, hash, window)?;
        Ok::<_, Unsure>(found[place])
    })?;
    if perhaps.count > 0 {
        rest.drop_if(|place| found[place]);
    }
    Ok(())
}
