//! How often a counting store holds a key.
//!
//! That number is the value of the counters in the page, adjusted by the key's inserts and removes in the buffers. A
//! sealed buffer must not be counted twice: once its checkpoint has written a page, that page's generation says so. If
//! a sealed buffer has counted a key, the page is therefore read at one moment, as a copy whose CRC matches.

use crate::bloom::counting_page::{STUCK, after};
use crate::bloom::layer_pages::LayerPages;
use crate::engine::read::Reader;
use crate::engine::view::View;
use crate::error::Result;
use crate::file::FormatError;
use crate::page_io::probe::PageLookup;
use crate::shm::handle::Access;

/// How often to look up a key again while its page is being written. A writer that stopped partway is not waited for.
const RETRIES: u32 = 50;

/// How often a store holds a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyCount {
    /// The count according to everything but the active buffer.
    pub(crate) checkpointed: u8,
    /// The count may be higher: the page was being written.
    pub(crate) at_least: bool,
    /// Inserts minus removes in the buffers.
    pub(crate) buffered: i64,
    /// Inserts minus removes in the active buffer alone.
    pub(crate) active: i64,
}

impl KeyCount {
    pub(crate) fn count(self) -> u8 {
        after(self.checkpointed, self.active)
    }
}

/// What the buffers say about a key.
struct Buffered {
    /// The sealed buffer's generation; 0 if there is none.
    number: u64,
    /// Inserts minus removes in the sealed buffer, and in the active one.
    sealed: i64,
    active: i64,
}

impl Buffered {
    fn of(view: &View, hash: u64) -> Self {
        let sealed = view.sealed.as_ref();
        let sealed = sealed.map(|sealed| (sealed.number(), sealed.buffer.net(hash)));
        let (number, sealed) = sealed.unwrap_or_default();
        Self {
            number,
            sealed,
            active: view.active.buffer.net(hash),
        }
    }

    /// Returns the key's count, given the `settled` count of everything but the active buffer.
    fn exactly(&self, checkpointed: u8) -> KeyCount {
        KeyCount {
            checkpointed,
            at_least: false,
            buffered: self.sealed.wrapping_add(self.active),
            active: self.active,
        }
    }

    /// Returns the key's count by the counters of a page that is being written. Each counter is old or new, and the
    /// store holds the key at least as often as either says.
    fn at_least(&self, counted: u8) -> KeyCount {
        KeyCount {
            at_least: true,
            ..self.exactly(after(counted, self.sealed.max(0)))
        }
    }
}

/// What a page and the buffers together say about a key.
struct PageCount<'a> {
    reader: Reader<'a>,
    view: &'a View,
    layer: &'a LayerPages,
    hash: u64,
    buffered: Buffered,
}

impl PageLookup for PageCount<'_> {
    type Answer = KeyCount;

    #[inline]
    fn look(&self) -> Result<KeyCount, FormatError> {
        let window = self.reader.shared.window();
        let buffered = &self.buffered;
        // A snapshot's buffers may be older than the pages: a later writer may have changed the pages.
        let is_late = self.reader.handle.access == Access::Snapshot && buffered.active != 0;
        if buffered.sealed == 0 && !is_late {
            return Ok(buffered.exactly(self.layer.count(self.hash, window)?));
        }
        Ok(match self.layer.count_in_copy(self.hash, window)? {
            Some((count, made)) if made > buffered.number => {
                let is_past = made > self.view.active.number();
                let active = if is_past { 0 } else { buffered.active };
                KeyCount {
                    active,
                    ..buffered.exactly(count)
                }
            }
            Some((count, _)) => buffered.exactly(after(count, buffered.sealed)),
            None => self.look_torn(),
        })
    }

    fn look_torn(&self) -> KeyCount {
        self.buffered
            .at_least(self.layer.count_unchecked(self.hash))
    }

    fn assume(&self, seen: bool) -> KeyCount {
        let count = if seen { STUCK } else { 0 };
        let sealed = self.buffered.sealed.max(0);
        self.buffered.exactly(after(count, sealed))
    }
}

impl Reader<'_> {
    /// Returns whether a counting store holds the key.
    pub(super) fn is_counted(self, hash: u64) -> Result<bool> {
        Ok(self.count_patiently(hash, 0)? > 0)
    }

    /// Returns how often the store holds the key; [`STUCK`] means that often or more.
    pub(super) fn count_exactly(self, hash: u64) -> Result<u8> {
        self.count_patiently(hash, RETRIES)
    }

    /// Like [`count_exactly`](Self::count_exactly), with `retries` retries while the page is being written.
    fn count_patiently(self, hash: u64, mut retries: u32) -> Result<u8> {
        self.check_readable(1)?;
        loop {
            let view = self.views.current()?;
            let counted = self.count_by(&view, hash)?;
            if counted.at_least && retries > 0 {
                retries -= 1;
                continue;
            }
            // After a rotation, a buffer that was not searched may have counted the key.
            if view.is_active(self.shared) {
                return Ok(counted.count());
            }
            if self.shared.is_ended() {
                return Err(self.ended());
            }
        }
    }

    /// Returns how often a view holds the key.
    pub(crate) fn count_by(self, view: &View, hash: u64) -> Result<KeyCount> {
        let buffered = Buffered::of(view, hash);
        let Some(layer) = view.filter.layers().first() else {
            return Ok(buffered.exactly(0));
        };
        if self.is_exempt(view, hash)? {
            // The page's counters don't matter, nor does whether they include the sealed buffer's.
            return Ok(buffered.exactly(after(0, buffered.sealed)));
        }
        let lookup = PageCount {
            reader: self,
            view,
            layer,
            hash,
            buffered,
        };
        match lookup.look() {
            Ok(counted) => Ok(counted),
            Err(source) => self.answer_damaged(view, layer.number_of(hash), &lookup, source),
        }
    }

    /// Returns whether the pages' counters for the key don't matter.
    fn is_exempt(self, view: &View, hash: u64) -> Result<bool> {
        let Some(exempt) = &view.sections.exempt else {
            return Ok(false);
        };
        match exempt.contains(hash) {
            Err(error) => self
                .answer_without_exemptions(error)
                .map(|is_there| !is_there),
            outcome => outcome,
        }
    }
}
