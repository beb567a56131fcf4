//! Doors for the benches in `benches/`, to stages that are not public. Compiled with the feature
//! `stages` alone, which promises nothing to anybody else.

use crate::buffer::{Buffer, COMMITTED, Claim};
use crate::file::pages::WriteWindow;
use crate::file::{Layer, LayerPages};
use crate::page::{self, bloom};
use crate::sizing::Plan;
use crate::sys::sync::AtomicU64;

/// Bytes of a page.
pub const PAGE_BYTES: usize = page::PAGE_BYTES;

/// The write buffer of one process.
#[derive(Debug)]
pub struct Table(Buffer);

impl Table {
    /// A table of about this many bytes.
    ///
    /// # Errors
    /// If there is no such memory.
    pub fn new(bytes: u64) -> std::io::Result<Self> {
        Buffer::private(bytes, 1).map(Self)
    }

    /// The keys it takes.
    pub fn limit(&self) -> u64 {
        self.0.limit()
    }

    /// Fetches what a look-up will touch.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.0.prefetch(hash);
    }

    /// Whether the key is there.
    #[inline]
    pub fn contains(&self, hash: u64) -> bool {
        self.0.contains(hash)
    }

    /// Claims a key and shows it; whether it was absent.
    #[inline]
    pub fn insert(&self, hash: u64) -> bool {
        match self.0.claim(hash) {
            Claim::Claimed(slot) => {
                self.0.publish(slot, COMMITTED);
                true
            }
            _ => false,
        }
    }
}

/// A mapped layer.
#[derive(Debug)]
pub struct Pages {
    pages: LayerPages,
    window: [AtomicU64; WriteWindow::WORDS],
}

impl Pages {
    /// The only layer of a store that was made with this plan.
    ///
    /// # Errors
    /// If it can't be opened and mapped.
    pub fn open(store: &std::path::Path, plan: &Plan) -> std::io::Result<Self> {
        use crate::storage::Storage;
        let file = crate::sys::Disk::default().open(store, false)?;
        let layer = Layer::after(None, plan);
        Ok(Self {
            pages: LayerPages::map(0, &layer, &*file)?,
            window: Default::default(),
        })
    }

    /// Fetches what a look-up will touch first.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.pages.prefetch(hash);
    }

    /// Whether the key tests positive; a damaged page says so of every key.
    #[inline]
    pub fn contains(&self, hash: u64) -> bool {
        let window = WriteWindow::new(&self.window);
        self.pages.contains(hash, window).unwrap_or(true)
    }
}

/// Sets the bits of keys in one page, and answers how many bits are set.
pub fn apply(page: &mut [u8], probes: u32, hashes: &[u64]) -> u32 {
    bloom::apply(page, probes, hashes)
}

/// Writes a page's header.
pub fn seal(number: u64, occupancy: u32, page: &mut [u8]) {
    page::seal(number, 1, occupancy, page);
}

/// Whether a page is what was sealed.
pub fn is_whole(number: u64, page: &[u8]) -> bool {
    page::check(number, page).is_ok()
}
