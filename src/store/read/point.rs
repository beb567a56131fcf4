//! Answering without a lock.

use std::ops::Deref;
use std::sync::Arc;

use crate::buffer::Presence;
use crate::error::{Error, Result};
use crate::file::pages::WriteWindow;
use crate::file::{FormatError, Intent, LayerPages};
use crate::store::check::repair::OnDamage;
use crate::store::coordination::handle::Access;
use crate::store::coordination::shm::Coordination;
use crate::store::engine::Engine;
use crate::store::read::batch::{Keys, Rest};
use crate::store::storefile::meta::read_identity;
use crate::store::view::View;

/// How often many keys are looked up together while views change.
const TRIES: usize = 3;

/// The layers in which a key may be, the last one first: it is the largest, so that a key that is
/// there is most likely in it.
pub(crate) fn with_keys(layers: &[Arc<LayerPages>]) -> impl Iterator<Item = &LayerPages> {
    let layers = layers.iter().rev().map(Arc::as_ref);
    layers.filter(|layer| layer.has_keys())
}

impl View {
    /// Fetches what a look-up of one key will touch, so that it waits for all of it at once: all lines of the
    /// layer in which a key that is there most likely is, and the first of each other place.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if !self.active.buffer.is_unused() {
            self.active.buffer.prefetch(hash);
        }
        if let Some(frozen) = &self.frozen {
            frozen.buffer.prefetch(hash);
        }
        let mut layers = with_keys(&self.layers);
        if let Some(largest) = layers.next() {
            largest.prefetch_all(hash);
        }
        for layer in layers {
            layer.prefetch(hash);
        }
    }

    /// Whether the key is in the frozen buffer. What is open there has been carried over into the
    /// active one, and its fate is decided there.
    #[inline]
    pub(crate) fn is_frozen(&self, hash: u64) -> bool {
        let frozen = self.frozen.as_ref();
        frozen.is_some_and(|frozen| frozen.buffer.lookup(hash) == Presence::Settled)
    }

    /// Whether the key is in a buffer, where it is for certain, perhaps not committed.
    pub(crate) fn is_buffered(&self, hash: u64) -> bool {
        self.active.buffer.contains(hash) || self.is_frozen(hash)
    }

    /// Whether the key is in the frozen buffer or the pages. A page that seems to be damaged is looked
    /// into with `again`.
    #[inline]
    pub(crate) fn probe_settled(
        &self,
        hash: u64,
        window: WriteWindow<'_>,
        again: impl Fn(&LayerPages, FormatError) -> Result<bool>,
    ) -> Result<bool> {
        if self.is_frozen(hash) {
            return Ok(true);
        }
        for layer in with_keys(&self.layers) {
            let found = match layer.contains(hash, window) {
                Ok(found) => found,
                Err(source) => again(layer, source)?,
            };
            if found {
                return match &self.kept.exempt {
                    None => Ok(true),
                    Some(exempt) => exempt.has(hash).map(|is_exempt| !is_exempt),
                };
            }
        }
        Ok(false)
    }
}

/// Looks up one key, with `view` for the current view and `settled` for what is not in the active
/// buffer; `None` if the shared memory has ended.
///
/// The answer "absent" counts only if there was no rotation meanwhile: else the key may have been
/// carried over from a buffer that was looked into last to one that was not looked into. A checkpoint
/// makes no difference, since what it brings to the pages was looked for in its buffer.
#[inline]
pub(crate) fn look_up<V: Deref<Target = Arc<View>>>(
    hash: u64,
    shared: &Coordination,
    view: impl Fn() -> Result<V>,
    settled: impl Fn(&View) -> Result<bool>,
) -> Result<Option<bool>> {
    loop {
        let view = view()?;
        let active = &view.active.buffer;
        if !active.is_unused() && active.contains(hash) || settled(&view)? {
            return Ok(Some(true));
        }
        if view.active.number() == shared.active() {
            return Ok(Some(false));
        }
        if shared.is_ended() {
            return Ok(None);
        }
    }
}

impl Engine {
    /// Whether the key is in the frozen buffer or the pages.
    #[inline]
    pub(crate) fn probe_settled(&self, view: &View, hash: u64) -> Result<bool> {
        let probed = view.probe_settled(hash, self.shared.window(), |layer, source| {
            self.probe_damaged(view, layer, hash, source)
        });
        match probed {
            Ok(found) => Ok(found),
            Err(error) => self.answer_without_exemptions(error),
        }
    }

    /// Answers for a key that the pages have, where exemptions are damaged: to who takes damaged pages for
    /// something, none is left.
    #[cold]
    pub(crate) fn answer_without_exemptions(&self, error: Error) -> Result<bool> {
        match error {
            Error::Format {
                source: FormatError::SectionDamaged { .. },
                ..
            } if self.options.on_damage != OnDamage::Error => Ok(true),
            error => Err(error),
        }
    }

    /// Answers for a page that is damaged, or seems so.
    #[cold]
    fn probe_damaged(
        &self,
        view: &View,
        layer: &LayerPages,
        hash: u64,
        source: FormatError,
    ) -> Result<bool> {
        match self.probe_again(view, layer, hash, source) {
            Err(Error::Format { path, source }) => {
                let told = self.answer_for(&source);
                told.ok_or(Error::Format { path, source })
            }
            outcome => outcome,
        }
    }

    /// Looks into a page that seems to be damaged.
    #[cold]
    fn probe_again(
        &self,
        view: &View,
        layer: &LayerPages,
        hash: u64,
        source: FormatError,
    ) -> Result<bool> {
        let number = layer.number_of(hash);
        // Bits are only ever added, so what was there when this handle was opened is found.
        let torn = || layer.contains_unchecked(hash);
        let whole = || layer.contains(hash, self.shared.window());
        self.look_again(view, number, source, torn, whole)
    }

    /// Answers by a page that seems to be damaged. Writers whose memory this handle does not share may
    /// be at it: those who came after a snapshot, or after those that a reader watched. While an intent
    /// names the page, `torn` answers by what is in it; else `again` looks into it once more.
    #[cold]
    pub(crate) fn look_again<T>(
        &self,
        view: &View,
        number: u64,
        source: FormatError,
        torn: impl FnOnce() -> T,
        mut again: impl FnMut() -> Result<T, FormatError>,
    ) -> Result<T> {
        match self.handle.access {
            Access::Alone | Access::Shared => return Err(self.file.format_error(source)),
            Access::Watching if self.shared.is_ended() => return Err(Error::Ended),
            Access::Watching => return Err(self.file.format_error(source)),
            Access::Snapshot => {}
        }
        let names = |intent: &Intent| {
            intent.generation >= view.superblock.generation && intent.pages.contains(&number)
        };
        let newest = || Ok::<_, Error>(read_identity(&*self.file.raw, &self.file.place)?.intent);
        let mut intent = newest()?;
        loop {
            if intent.as_ref().is_some_and(names) {
                return Ok(torn());
            }
            // Unless it is whole again by now, it is damaged; or those writers have come to it again.
            let source = match again() {
                Ok(told) => return Ok(told),
                Err(source) => source,
            };
            let before = std::mem::replace(&mut intent, newest()?);
            if intent == before {
                return Err(self.file.format_error(source));
            }
        }
    }

    /// Whether a key that the active buffer has is there for good as far as this handle can tell
    /// without the writer lock.
    #[inline]
    pub(crate) fn is_seen(&self, presence: Presence) -> bool {
        match presence {
            Presence::Settled => true,
            Presence::Open(handle) => handle == self.handle.number,
            Presence::Absent => false,
        }
    }

    /// Whether the key is, in the pages too.
    #[inline]
    pub(crate) fn probe_seen(&self, view: &View, hash: u64) -> Result<bool> {
        Ok(self.is_seen(view.active.buffer.lookup(hash)) || self.probe_settled(view, hash)?)
    }

    /// Looks up one key.
    #[inline]
    pub(crate) fn contains(&self, hash: u64) -> Result<bool> {
        if self.file.is_counting() {
            return self.counts_any(hash);
        }
        self.check_readable()?;
        let view = || self.views.current().inspect(|view| view.prefetch(hash));
        let settled = |view: &View| self.probe_settled(view, hash);
        match look_up(hash, &self.shared, view, settled)? {
            Some(found) => Ok(found),
            // What the view does not show can't be looked at any more.
            None => Err(match self.handle.access {
                Access::Watching => Error::Ended,
                _ => Error::Closed,
            }),
        }
    }

    /// Looks up the keys of a part, and appends an answer for each.
    pub(crate) fn contains_each(&self, keys: &dyn Keys, out: &mut Vec<bool>) -> Result<()> {
        self.check_readable()?;
        let done = out.len();
        out.resize(done + keys.count(), false);
        let found = &mut out[done..];
        if self.file.is_counting() {
            return self.counts_each(keys, found);
        }
        if self.contains_part(keys, found) {
            return Ok(());
        }
        // One after the other: a page that is damaged, or seems so, concerns its own keys.
        let keys = Rest { keys, first: 0 };
        let mut outcome = Ok(());
        keys.for_each(|place, hash| {
            if outcome.is_ok() && !found[place] {
                outcome = self.contains(hash).map(|there| found[place] = there);
            }
        });
        outcome
    }

    /// Looks up many keys together; `false` if others rotated again and again meanwhile, or if there is
    /// a page that is damaged, or seems so. Then those that were found are there.
    fn contains_part(&self, keys: &dyn Keys, found: &mut [bool]) -> bool {
        let keys = Rest { keys, first: 0 };
        let there = |presence| presence != Presence::Absent;
        for _ in 0..TRIES {
            match self.probe_part(&keys, Some(there), found) {
                // "Absent" counts if no key can have moved on from where it was looked for last to
                // where it was looked for first.
                Ok(Ok(generation)) if self.shared.active() == generation => return true,
                Ok(Ok(_)) => {}
                Ok(Err(_)) => {
                    found.fill(false);
                    return false;
                }
                Err(_) => return false,
            }
        }
        false
    }

    /// Refuses reading through a handle that is closed or poisoned, or whose writers are all gone,
    /// so that it would not see what later ones do.
    #[inline]
    pub(crate) fn check_readable(&self) -> Result<()> {
        self.handle.check_usable()?;
        if self.handle.access == Access::Watching && self.shared.is_ended() {
            return Err(Error::Ended);
        }
        Ok(())
    }
}
