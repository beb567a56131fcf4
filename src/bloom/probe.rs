//! Looks keys up in layers: one key, or many in stages.

use std::path::Path;
use std::sync::Arc;

use crate::bloom::layer_pages::{LayerPages, with_keys};
use crate::bloom::probe_batch::EIGHT;
use crate::error::Result;
use crate::file::{FormatError, Superblock};
use crate::page::Binding;
use crate::page::write_window::WriteWindow;
use crate::page_io::probe::{BatchProbe, KeyOrder, NeedsPointLookup, OnDamaged, PageLookup};
use crate::prefetch::selection::SelectionVector;
use crate::prefetch::{ALL_GROUP, BATCH, GROUP};
use crate::sys::storage::StorageFile;

/// How many keys of a batch are looked up first, to predict the others.
const FIRST_KEYS: usize = 32;

/// For fewer keys than this, drawing their bits eight at a time does not pay.
const FEW: usize = 32;

/// With at least this many keys per page, in page order, the lines of one key have most likely been fetched for
/// another.
const DENSE: u64 = 16;

/// Asks whether a page holds a key.
struct Membership<'a> {
    layer: &'a LayerPages,
    hash: u64,
    window: WriteWindow<'a>,
}

impl PageLookup for Membership<'_> {
    type Answer = bool;

    fn look(&self) -> Result<bool, FormatError> {
        self.layer.contains(self.hash, self.window)
    }

    fn look_torn(&self) -> bool {
        // Writers only add bits, so what was present when this handle was opened is found.
        self.layer.contains_unchecked(self.hash)
    }

    fn assume(&self, seen: bool) -> bool {
        seen
    }
}

/// Maps the layers that a superblock names. Those of `held` stay as they are mapped.
pub(crate) fn map_layers(
    file: &dyn StorageFile,
    path: &Path,
    superblock: &Superblock,
    binding: Binding,
    held: &[Arc<LayerPages>],
) -> Result<Vec<Arc<LayerPages>>> {
    let mut layers = Vec::with_capacity(superblock.layers.len());
    for (index, layer) in (0_u32..).zip(&superblock.layers) {
        let pages = match held.get(index as usize) {
            Some(pages) => Arc::clone(pages),
            None => Arc::new(LayerPages::map(index, layer, binding, (file, path))?),
        };
        pages.update(layer);
        layers.push(pages);
    }
    Ok(layers)
}

/// Prefetches what a look-up of one key touches: every line of the layer that most likely holds a present key, and the
/// first line of each other one.
#[inline]
pub(crate) fn prefetch(layers: &[Arc<LayerPages>], hash: u64) {
    let mut layers = with_keys(layers);
    if let Some(largest) = layers.next() {
        largest.prefetch_all(hash);
    }
    for layer in layers {
        layer.prefetch(hash);
    }
}

/// Returns whether one of the layers holds the key.
#[inline]
pub(crate) fn contains(
    layers: &[Arc<LayerPages>],
    hash: u64,
    window: WriteWindow<'_>,
    on_damaged: OnDamaged<'_>,
) -> Result<bool> {
    for layer in with_keys(layers) {
        let found = match layer.contains(hash, window) {
            Ok(found) => found,
            Err(source) => {
                let lookup = Membership {
                    layer,
                    hash,
                    window,
                };
                on_damaged(&lookup, layer.number_of(hash), source)?
            }
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Looks for keys in the layers, at most [`BATCH`] of them. Sets `found` for each that is present, and drops it from `rest`.
///
/// # Errors
/// After an error `found` is meaningless.
pub(crate) fn probe_layers(
    layers: &[Arc<LayerPages>],
    context: &BatchProbe<'_>,
    hashes: &[u64],
    rest: &mut SelectionVector,
    found: &mut [bool],
) -> Result<(), NeedsPointLookup> {
    for layer in with_keys(layers) {
        if is_dense(context.order, layer) {
            let look = |hash| look(context, layer, hash);
            rest.find(hashes, found, GROUP, |hash| layer.prefetch(hash), look)?;
        } else {
            probe_layer(layer, context, hashes, rest, found)?;
        }
    }
    Ok(())
}

/// Returns whether the lines of one key have most likely been fetched for another.
fn is_dense(order: KeyOrder, layer: &LayerPages) -> bool {
    match order {
        KeyOrder::Given => false,
        KeyOrder::ByPage { keys } => keys / layer.pages() >= DENSE,
        KeyOrder::SharingPages => true,
    }
}

/// Returns whether a layer holds the key and the key is not exempt.
#[inline]
fn look(context: &BatchProbe<'_>, layer: &LayerPages, hash: u64) -> Result<bool, NeedsPointLookup> {
    context.is_key(hash, layer.contains(hash, context.window)?)
}

/// Looks up keys in one layer. The first run of bits rules out most absent keys. If it ruled out most keys, the second
/// run rules out most of the rest. The remaining keys are fetched whole, and so are all keys of a batch if most of the
/// first ones are present.
fn probe_layer(
    layer: &LayerPages,
    context: &BatchProbe<'_>,
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
    let tried = rest.count().min(FIRST_KEYS);
    perhaps.retain_in(0..tried, GROUP, fetch, may_begin)?;
    let absent = rest.count() - perhaps.count();
    if absent * 2 > tried {
        let others = tried - absent..perhaps.count();
        perhaps.retain_in(others, GROUP, fetch, may_begin)?;
    }
    if perhaps.count() * 2 < rest.count() {
        let fetch = |place: usize| layer.prefetch_second(hashes[place]);
        let may_be = |place: usize| layer.may_contain(hashes[place], 2, window);
        perhaps.retain(GROUP, fetch, may_be)?;
    }
    let looked_at = perhaps.count();
    if looked_at < FEW {
        let fetch = |hash| layer.prefetch_all(hash);
        let look = |hash| look(context, layer, hash);
        perhaps.find(hashes, found, ALL_GROUP, fetch, look)?;
    } else {
        look_whole(layer, context, hashes, &mut perhaps, found)?;
    }
    if perhaps.count() < looked_at {
        rest.drop_if(|place| found[place]);
    }
    Ok(())
}

/// Looks at all bits of the keys at these places, and keeps the places whose keys are not found. Draws the bits of
/// eight keys together, and fetches them while it looks at the previous eight.
fn look_whole(
    layer: &LayerPages,
    context: &BatchProbe<'_>,
    hashes: &[u64],
    rest: &mut SelectionVector,
    found: &mut [bool],
) -> Result<(), NeedsPointLookup> {
    let places = rest.places();
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
