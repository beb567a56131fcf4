//! Looks for many keys in the buffers of a view.

use std::convert::Infallible;

use crate::engine::view::View;
use crate::engine::view::lookup::closed_says;
use crate::memtable::{Buffer, Presence};
use crate::prefetch::GROUP;
use crate::prefetch::selection::SelectionVector;

/// Looks for keys in the buffers, at most [`BATCH`](crate::prefetch::BATCH) of them. Sets `found` for each that is present, and drops from
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
