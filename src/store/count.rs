//! How often a key is in a counting store, looked up without a lock.
//!
//! A key's number is that of its counters in the page, and what its inserts and removes in the
//! buffers make of it. A page must not be given what it has had already: its generation tells. So
//! where a frozen buffer has something to say of a key, the page is read as it is at one moment, in a
//! copy whose CRC says so.

use super::engine::{Access, Engine, View};
use super::identity::read_identity;
use crate::error::{Error, Result};
use crate::file::{FormatError, LayerPages};
use crate::page::Kind;
use crate::page::counting::{STUCK, after};

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

impl Engine {
    /// Whether it is a counting store.
    #[inline]
    pub(crate) fn is_counting(&self) -> bool {
        self.header.kind == Kind::Counting
    }

    /// Refuses what only a counting store can do.
    pub(crate) fn check_counting(&self, action: &'static str) -> Result<()> {
        match self.header.kind {
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
            let view = self.view()?;
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
                return Err(match self.access {
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
        let (number, net) = frozen.unwrap_or_default();
        let active = view.active.buffer.net(hash);
        let told = |settled, at_least| Tell {
            settled,
            at_least,
            buffered: net + active,
            active,
        };
        let Some(layer) = view.layers.first() else {
            return Ok(told(0, false));
        };
        if self.is_exempt(view, hash)? {
            // What the page says does not count, nor whether it has had the frozen buffer's.
            return Ok(told(after(0, net), false));
        }
        let window = self.shared.window();
        // A snapshot's buffers may be older than the pages, which a later writer has gone on with.
        let is_late = self.access == Access::Snapshot && active != 0;
        if net == 0 && !is_late {
            return match layer.count(hash, window) {
                Ok(count) => Ok(told(count, false)),
                Err(source) => self
                    .count_damaged(view, layer, hash, source)
                    .map(|(count, at_least)| told(count, at_least)),
            };
        }
        match layer.count_in_copy(hash, window) {
            Ok(Some((count, made))) if made > number => Ok(Tell {
                active: if made > view.active.number() {
                    0
                } else {
                    active
                },
                ..told(count, false)
            }),
            Ok(Some((count, _))) => Ok(told(after(count, net), false)),
            // Each of its counters is old or new, and no less than either.
            Ok(None) => Ok(told(after(layer.count_unchecked(hash), net.max(0)), true)),
            Err(source) => self
                .count_damaged(view, layer, hash, source)
                .map(|(count, at_least)| told(after(count, net.max(0)), at_least)),
        }
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

    /// Answers for a page that is damaged, or seems so, and whether that is less than certain.
    #[cold]
    fn count_damaged(
        &self,
        view: &View,
        layer: &LayerPages,
        hash: u64,
        source: FormatError,
    ) -> Result<(u8, bool)> {
        match self.access {
            Access::Watching if self.shared.is_ended() => return Err(Error::Ended),
            Access::Snapshot => {
                // Writers whose memory this handle does not share may be at it.
                let intent = read_identity(&*self.file, &self.place)?.intent;
                let named = intent.is_some_and(|intent| {
                    intent.generation >= view.superblock.generation
                        && intent.pages.contains(&layer.number_of(hash))
                });
                if named {
                    return Ok((layer.count_unchecked(hash), true));
                }
            }
            _ => {}
        }
        match self.answer_for(&source) {
            Some(true) => Ok((STUCK, false)),
            Some(false) => Ok((0, false)),
            None => Err(self.format_error(source)),
        }
    }
}
