//! How often a counting store holds a key.
//!
//! That number is the value of the counters in the page, adjusted by the key's inserts and removes in the buffers. A
//! sealed buffer must not be counted twice: once its checkpoint has written a page, that page's generation says so. If
//! a sealed buffer has counted a key, the page is therefore read at one moment, as a copy whose CRC matches.

use crate::bloom::counting_page::{STUCK, after};
use crate::bloom::layer_pages::LayerPages;
use crate::file::FormatError;
use crate::generation::Generation;
use crate::page::write_window::WriteWindow;
use crate::page_io::probe::PageLookup;

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
    active: i64,
}

impl KeyCount {
    pub(crate) fn count(self) -> u8 {
        self.count_with(0)
    }

    /// Returns the count after `more` inserts, less removes.
    pub(crate) fn count_with(self, more: i64) -> u8 {
        after(self.checkpointed, self.active + more)
    }
}

/// What the buffers say about a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BufferedCount {
    /// The generation of the active buffer, and that of the sealed one; 0 if there is none.
    generations: (u64, u64),
    /// Inserts minus removes in the sealed buffer, and in the active one.
    sealed: i64,
    active: i64,
}

impl BufferedCount {
    pub(crate) fn of(active: &Generation, sealed: Option<&Generation>, hash: u64) -> Self {
        let sealed = sealed.map(|sealed| (sealed.number(), sealed.buffer.net(hash)));
        let (number, sealed) = sealed.unwrap_or_default();
        Self {
            generations: (active.number(), number),
            sealed,
            active: active.buffer.net(hash),
        }
    }

    /// Returns the key's count where its counters don't matter, nor whether they include the sealed buffer's.
    pub(crate) fn alone(&self) -> KeyCount {
        self.exactly(after(0, self.sealed))
    }

    /// Returns the key's count, given that of everything but the active buffer.
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

/// Looks up what a page and the buffers together say about a key.
pub(crate) struct CountLookup<'a> {
    pub(crate) layer: &'a LayerPages,
    pub(crate) hash: u64,
    pub(crate) buffered: BufferedCount,
    pub(crate) window: WriteWindow<'a>,
    /// Whether the pages may be newer than the buffers: a later writer may have changed those of a snapshot.
    pub(crate) is_late: bool,
}

impl PageLookup for CountLookup<'_> {
    type Answer = KeyCount;

    #[inline]
    fn look(&self) -> Result<KeyCount, FormatError> {
        let buffered = &self.buffered;
        let is_late = self.is_late && buffered.active != 0;
        if buffered.sealed == 0 && !is_late {
            return Ok(buffered.exactly(self.layer.count(self.hash, self.window)?));
        }
        let (active, sealed) = buffered.generations;
        Ok(match self.layer.count_in_copy(self.hash, self.window)? {
            Some((count, made)) if made > sealed => KeyCount {
                active: if made > active { 0 } else { buffered.active },
                ..buffered.exactly(count)
            },
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
