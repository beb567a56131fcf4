//! How often a key is in a counting store, looked up without a lock.
//!
//! A key's number is that of its counters in the page, and what its inserts and removes in the
//! buffers make of it. A page must not be given what it has had already: its generation tells. So
//! where a frozen buffer has something to say of a key, the page is read as it is at one moment, in a
//! copy whose CRC says so.

use crate::error::{Error, Result};
use crate::file::{FormatError, LayerPages};
use crate::page::Kind;
use crate::page::counting::{STUCK, after};
use crate::store::coordination::handle::Access;
use crate::store::engine::Engine;
use crate::store::view::View;

/// How often a page that is being written is looked up again for its number. A writer that has been
/// stopped in the midst of it is not waited for.
const PATIENCE: u32 = 50;

/// How often a key is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tell {
    /// As far as all but the active buffer knows.
    pub(crate) settled: u8,
    /// It is no less than that, and may be more: its page was being written.
    pub(crate) at_least: bool,
    /// Inserts less removes in the buffers.
    pub(crate) buffered: i64,
    /// Those of the active one alone.
    pub(crate) active: i64,
}

impl Tell {
    pub(crate) fn count(self) -> u8 {
        after(self.settled, self.active)
    }
}

/// What the buffers say of a key.
struct Buffered {
    /// The frozen one's generation, and its inserts less removes.
    number: u64,
    frozen: i64,
    /// Those of the active one.
    active: i64,
}

impl Buffered {
    /// With the number of which only the active buffer does not know.
    fn with(&self, settled: u8, at_least: bool) -> Tell {
        Tell {
            settled,
            at_least,
            buffered: self.frozen.wrapping_add(self.active),
            active: self.active,
        }
    }

    /// With the counters of a page that is being written: each is old or new, and the key is there no less
    /// often than either says.
    fn at_least(&self, counted: u8) -> Tell {
        self.with(after(counted, self.frozen.max(0)), true)
    }
}

impl Engine {
    /// Whether it is a counting store.
    #[inline]
    /// Refuses what only a counting store can do.
    pub(crate) fn check_counting(&self, action: &'static str) -> Result<()> {
        match self.file.header.kind {
            Kind::Counting => Ok(()),
            kind => Err(Error::NotCounting { action, kind }),
        }
    }

    /// Whether the key is there.
    pub(crate) fn counts_any(&self, hash: u64) -> Result<bool> {
        Ok(self.count_patiently(hash, 0)? > 0)
    }

    /// How often the key is there; [`STUCK`] for as often or more.
    pub(crate) fn count_of(&self, hash: u64) -> Result<u8> {
        self.count_patiently(hash, PATIENCE)
    }

    /// The same, looked up again so often where a page is being written.
    fn count_patiently(&self, hash: u64, mut patience: u32) -> Result<u8> {
        self.check_readable()?;
        loop {
            let view = self.views.current()?;
            let told = self.tell(&view, hash)?;
            if told.at_least && patience > 0 {
                patience -= 1;
                continue;
            }
            // Else a buffer that was not looked into may have had a word to say.
            if view.active.number() == self.shared.active() {
                return Ok(told.count());
            }
            if self.shared.is_ended() {
                return Err(match self.handle.access {
                    Access::Watching => Error::Ended,
                    _ => Error::Closed,
                });
            }
        }
    }

    /// How often a key is there, by a view.
    pub(crate) fn tell(&self, view: &View, hash: u64) -> Result<Tell> {
        let frozen = view.frozen.as_ref();
        let frozen = frozen.map(|frozen| (frozen.number(), frozen.buffer.net(hash)));
        let (number, frozen) = frozen.unwrap_or_default();
        let buffered = Buffered {
            number,
            frozen,
            active: view.active.buffer.net(hash),
        };
        let Some(layer) = view.layers.first() else {
            return Ok(buffered.with(0, false));
        };
        if self.is_exempt(view, hash)? {
            // What the page says does not count, nor whether it has had the frozen buffer's.
            return Ok(buffered.with(after(0, frozen), false));
        }
        match self.tell_page(view, layer, hash, &buffered) {
            Ok(told) => Ok(told),
            Err(source) => self.tell_damaged(view, layer, hash, &buffered, source),
        }
    }

    /// The same by the key's page and what the buffers say.
    fn tell_page(
        &self,
        view: &View,
        layer: &LayerPages,
        hash: u64,
        buffered: &Buffered,
    ) -> Result<Tell, FormatError> {
        let window = self.shared.window();
        // A snapshot's buffers may be older than the pages, which a later writer has gone on with.
        let is_late = self.handle.access == Access::Snapshot && buffered.active != 0;
        if buffered.frozen == 0 && !is_late {
            return Ok(buffered.with(layer.count(hash, window)?, false));
        }
        Ok(match layer.count_in_copy(hash, window)? {
            Some((count, made)) if made > buffered.number => {
                let is_past = made > view.active.number();
                let active = if is_past { 0 } else { buffered.active };
                Tell {
                    active,
                    ..buffered.with(count, false)
                }
            }
            Some((count, _)) => buffered.with(after(count, buffered.frozen), false),
            None => buffered.at_least(layer.count_unchecked(hash)),
        })
    }

    /// Whether what the pages say of the key does not count.
    fn is_exempt(&self, view: &View, hash: u64) -> Result<bool> {
        let Some(exempt) = &view.kept.exempt else {
            return Ok(false);
        };
        match exempt.has(hash) {
            Err(error) => self
                .answer_without_exemptions(error)
                .map(|is_there| !is_there),
            outcome => outcome,
        }
    }

    /// Answers for a page that is damaged, or seems so.
    #[cold]
    fn tell_damaged(
        &self,
        view: &View,
        layer: &LayerPages,
        hash: u64,
        buffered: &Buffered,
        source: FormatError,
    ) -> Result<Tell> {
        let torn = || buffered.at_least(layer.count_unchecked(hash));
        let again = || self.tell_page(view, layer, hash, buffered);
        let looked = self.look_again(view, layer.number_of(hash), source, torn, again);
        let Err(Error::Format { path, source }) = looked else {
            return looked;
        };
        let told = |count| buffered.with(after(count, buffered.frozen.max(0)), false);
        match self.answer_for(&source) {
            Some(true) => Ok(told(STUCK)),
            Some(false) => Ok(told(0)),
            None => Err(Error::Format { path, source }),
        }
    }
}
