//! Looking up many keys in stages: in one table or layer after the other, each key fetched a while
//! before it is looked at, and none of them decided by a branch that can't be foretold.

use super::engine::View;
use crate::buffer::{Buffer, Presence};
use crate::file::pages::WriteWindow;
use crate::file::{FormatError, LayerPages};

/// Keys that are looked up together: enough to keep the memory busy, few enough for the cache.
pub(crate) const BATCH: usize = 512;

/// How many keys ahead of the one looked at are fetched, one or two cache lines each.
pub(crate) const AHEAD: usize = 24;
/// The same where all lines of a key are.
const ALL_AHEAD: usize = 4;

/// Places of a batch that are still to be looked at.
#[derive(Clone)]
struct Places {
    places: [u16; BATCH],
    count: usize,
}

impl Places {
    fn all(count: usize) -> Self {
        let mut places = [0; BATCH];
        for (number, place) in (0..).zip(&mut places[..count]) {
            *place = number;
        }
        Self { places, count }
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

impl View {
    /// Looks up some [`BATCH`] keys, at most, and sets `found` for each that is there; what it was
    /// before must be `false`. `counts` tells whether a key that the active buffer has is there;
    /// without it that buffer is not looked into.
    ///
    /// # Errors
    /// A page that is damaged, or seems so. Then `found` means nothing.
    pub(crate) fn probe_batch(
        &self,
        hashes: &[u64],
        window: WriteWindow<'_>,
        counts: Option<impl Fn(Presence) -> bool>,
        found: &mut [bool],
    ) -> Result<(), FormatError> {
        let mut rest = Places::all(hashes.len());
        if let Some(counts) = counts {
            probe_buffer(&self.active.buffer, hashes, counts, &mut rest, found);
        }
        if let Some(frozen) = &self.frozen {
            let settled = |presence| presence == Presence::Settled;
            probe_buffer(&frozen.buffer, hashes, settled, &mut rest, found);
        }
        for layer in self.layers_with_keys() {
            probe_layer(layer, hashes, window, &mut rest, found)?;
        }
        Ok(())
    }
}

fn probe_buffer(
    buffer: &Buffer,
    hashes: &[u64],
    counts: impl Fn(Presence) -> bool,
    rest: &mut Places,
    found: &mut [bool],
) {
    let fetch = |place: usize| buffer.prefetch(hashes[place]);
    let Ok(()) = rest.retain(AHEAD, fetch, |place| {
        let there = counts(buffer.lookup(hashes[place]));
        found[place] = there;
        Ok::<_, std::convert::Infallible>(!there)
    });
}

fn probe_layer(
    layer: &LayerPages,
    hashes: &[u64],
    window: WriteWindow<'_>,
    rest: &mut Places,
    found: &mut [bool],
) -> Result<(), FormatError> {
    let mut perhaps = rest.clone();
    let fetch = |place: usize| layer.prefetch(hashes[place]);
    perhaps.retain(AHEAD, fetch, |place| {
        layer.may_contain(hashes[place], window)
    })?;
    let fetch = |place: usize| layer.prefetch_all(hashes[place]);
    perhaps.retain(ALL_AHEAD, fetch, |place| {
        found[place] = layer.contains(hashes[place], window)?;
        Ok(found[place])
    })?;
    if perhaps.count > 0 {
        let Ok(()) = rest.retain(
            0,
            |_| {},
            |place| Ok::<_, std::convert::Infallible>(!found[place]),
        );
    }
    Ok(())
}
