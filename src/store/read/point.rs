//! Looking up one key.

use std::ops::Deref;
use std::sync::Arc;

use crate::buffer::Presence;
use crate::error::Result;
use crate::file::pages::WriteWindow;
use crate::file::{FormatError, LayerPages};
use crate::store::coordination::shm::Coordination;
use crate::store::read::Reader;
use crate::store::read::damaged::PageLookup;
use crate::store::view::View;
use crate::store::view::lookup::AbsentSince;

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

/// Looks up one key. `view` returns the current view, `says` whether the key is there by what the active buffer says of
/// it, and `settled` searches the rest of the view. Returns `None` if the shared memory has ended.
#[inline]
pub(crate) fn look_up<V: Deref<Target = Arc<View>>>(
    hash: u64,
    shared: &Coordination,
    view: impl Fn() -> Result<V>,
    says: impl Fn(Presence) -> Option<bool>,
    settled: impl Fn(&View) -> Result<bool>,
) -> Result<Option<bool>> {
    loop {
        let view = view()?;
        let active = &view.active.buffer;
        let said = match active.is_unused() {
            true => None,
            false => says(active.lookup(hash)),
        };
        let found = match said {
            Some(found) => found,
            None => settled(&view)?,
        };
        if found && (view.found_holds(shared) || shared.is_ended()) {
            return Ok(Some(true));
        }
        if !found && AbsentSince::of(&view).still_holds(shared) {
            return Ok(Some(false));
        }
        if shared.is_ended() {
            return Ok(None);
        }
    }
}

impl Reader<'_> {
    /// Looks up one key.
    #[inline]
    pub(crate) fn contains(self, hash: u64) -> Result<bool> {
        if self.file.is_counting() {
            return self.counts_any(hash);
        }
        self.check_readable()?;
        let view = || self.views.current().inspect(|view| view.prefetch(hash));
        let settled = |view: &View| self.probe_settled(view, hash);
        let says = |presence| self.says_there(presence);
        match look_up(hash, self.shared, view, says, settled)? {
            Some(found) => Ok(found),
            // Keys that the view does not show can no longer be looked up.
            None => Err(self.ended()),
        }
    }

    /// Returns whether the sealed buffer or the pages hold the key.
    #[inline]
    pub(crate) fn probe_settled(self, view: &View, hash: u64) -> Result<bool> {
        if let Some(segments) = &view.segments {
            return self.probe_segments(view, segments, hash);
        }
        view.expect_pages(self.file.header.space())?;
        let window = self.shared.window();
        let probed = view.probe_settled(hash, window, |layer, source| {
            let lookup = Membership {
                layer,
                hash,
                window,
            };
            self.answer_damaged(view, layer.number_of(hash), &lookup, source)
        });
        match probed {
            Ok(found) => Ok(found),
            Err(error) => self.answer_without_exemptions(error),
        }
    }

    /// Returns whether the key is [seen](Self::says_seen) in the active buffer, or is anywhere else.
    #[inline]
    pub(crate) fn probe_seen(self, view: &View, hash: u64) -> Result<bool> {
        match self.says_seen(view.active.buffer.lookup(hash)) {
            Some(seen) => Ok(seen),
            None => self.probe_settled(view, hash),
        }
    }
}
