//! How often a counting store holds a key, as views follow each other.

use crate::engine::read::Reader;
use crate::engine::view::View;
use crate::error::Result;
use crate::filter::count::{BufferedCount, CountLookup, KeyCount};
use crate::page_io::probe::PageLookup;
use crate::shm::handle::Access;

/// How often to look up a key again while its page is being written. A writer that stopped partway is not waited for.
const RETRIES: u32 = 50;

impl Reader<'_> {
    /// Returns whether a counting store holds the key.
    pub(super) fn is_counted(self, hash: u64) -> Result<bool> {
        Ok(self.count_patiently(hash, 0)? > 0)
    }

    /// Returns how often the store holds the key; [`STUCK`](crate::bloom::counting_page::STUCK) means that often or more.
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
        let layer = view.filter.counters()?;
        let buffered = BufferedCount::of(&view.active, view.sealed.as_deref(), hash);
        if self.is_exempt(view, hash)? {
            return Ok(buffered.alone());
        }
        let lookup = CountLookup {
            layer,
            hash,
            buffered,
            window: self.shared.window(),
            is_late: self.handle.access == Access::Snapshot,
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
