//! Reads a layer's pages through a map and checks each on first use.

use std::ops::Range;

use super::layout::page_offset;
use super::{FormatError, Layer};
use crate::codec::u64_at;
use crate::page::probe_batch::{Drawn, first_of, first_runs};
use crate::page::{self, Binding, Content, PAGE_BYTES, PAGE_WORDS, PageFault, bloom, counting};
use crate::sys::storage::StorageFile;
use crate::sys::sync::{AtomicBool, AtomicU64, Ordering, fence, yield_now};
use crate::sys::{Map, Region, Words};

/// How often a reader checks a page that is being written, in one window, before it takes the page's bits as they are.
const MAX_READ_RETRIES: usize = if cfg!(all(test, loom)) { 8 } else { 100 };

/// The range of pages that a checkpoint is currently writing, published to readers: a wrong CRC inside it means "try
/// again", not damage. It is a view of words that processes may share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteWindow<'a> {
    version: &'a AtomicU64,
    start: &'a AtomicU64,
    end: &'a AtomicU64,
    /// The range that an interrupted checkpoint left torn, until recovery has repeated the checkpoint.
    torn_start: &'a AtomicU64,
    torn_end: &'a AtomicU64,
}

impl<'a> WriteWindow<'a> {
    /// The number of words.
    pub(crate) const WORDS: usize = 5;

    /// # Panics
    /// Panics if there are fewer words than [`WORDS`](Self::WORDS).
    #[inline]
    pub(crate) fn new(words: &'a [AtomicU64]) -> Self {
        Self {
            version: &words[0],
            start: &words[1],
            end: &words[2],
            torn_start: &words[3],
            torn_end: &words[4],
        }
    }

    /// Publishes the range of pages that an interrupted checkpoint may have left torn.
    pub(crate) fn set_torn(self, pages: Range<u64>) {
        self.change(|| {
            self.torn_start.store(pages.start, Ordering::Release);
            self.torn_end.store(pages.end, Ordering::Release);
        });
    }

    /// Publishes the range that is about to be written; an empty range once writing has ended.
    pub(crate) fn publish(self, pages: Range<u64>) {
        self.change(|| {
            self.start.store(pages.start, Ordering::Release);
            self.end.store(pages.end, Ordering::Release);
        });
        // No write after this fence may become visible before the window does. It pairs with the fence of a reader
        // whose check failed: a reader that sees any of those writes also sees the window.
        fence(Ordering::Release);
    }

    /// Changes a range, with the version odd meanwhile. A writer that is killed in between leaves it odd, and the next
    /// writer repairs that.
    fn change(self, store: impl FnOnce()) {
        let version = self.version.load(Ordering::Acquire) | 1;
        self.version.store(version, Ordering::Release);
        store();
        self.version
            .store(version.wrapping_add(1), Ordering::Release);
    }

    fn version(self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn holds(self, page: u64) -> bool {
        let range = |start: &AtomicU64, end: &AtomicU64| {
            start.load(Ordering::Acquire)..end.load(Ordering::Acquire)
        };
        range(self.start, self.end).contains(&page)
            || range(self.torn_start, self.torn_end).contains(&page)
    }
}

/// Reads page `number` of a file and checks it with `check`, repeatedly while the page may be in the middle of a write.
/// Returns `None` if it still is after a while, because the checkpoint is slow or has failed half way. In that case a
/// durable intent covers the page, and bits are only ever added: the reader finds the keys that were in the page, and
/// the keys being added are still in the sealed buffer.
pub(crate) fn check_patiently(
    window: WriteWindow<'_>,
    number: u64,
    mut check: impl FnMut() -> Result<Content, PageFault>,
) -> Result<Option<Content>, PageFault> {
    let mut rounds = 0;
    while rounds < MAX_READ_RETRIES {
        let before = window.version();
        let fault = match check() {
            Ok(content) => return Ok(Some(content)),
            Err(fault) => fault,
        };
        // The window at the time the page was written, or later.
        fence(Ordering::Acquire);
        let held = window.holds(number);
        // Windows that come and go prove nothing and don't count towards `MAX_READ_RETRIES`.
        if window.version() == before {
            if before.is_multiple_of(2) && !held {
                return Err(fault);
            }
            rounds += 1;
        }
        yield_now();
    }
    Ok(None)
}

/// A layer's pages, mapped for reading.
#[derive(Debug)]
pub(crate) struct LayerPages {
    index: u32,
    binding: Binding,
    first_page: u64,
    pages: u64,
    probes: u32,
    all_written: AtomicBool,
    has_keys: AtomicBool,
    map: Map,
    /// One bit per page: its CRC was checked since this handle was opened.
    checked: Region,
}

impl LayerPages {
    /// Maps a layer. The caller has checked that the file is long enough.
    pub(crate) fn map(
        index: u32,
        layer: &Layer,
        binding: Binding,
        file: &dyn StorageFile,
    ) -> std::io::Result<Self> {
        let map = file.map(
            page_offset(layer.first_page),
            layer.pages * PAGE_BYTES as u64,
        )?;
        Self::of(index, layer, binding, map)
    }

    /// Returns a layer whose pages are in `map`.
    pub(crate) fn of(
        index: u32,
        layer: &Layer,
        binding: Binding,
        map: Map,
    ) -> std::io::Result<Self> {
        // The system allocates memory only for the parts in use.
        let checked = Region::private((map.len() / PAGE_WORDS).div_ceil(64) as u64)?;
        Ok(Self {
            index,
            binding,
            first_page: layer.first_page,
            pages: layer.pages,
            probes: layer.probes,
            all_written: AtomicBool::new(layer.all_written),
            has_keys: AtomicBool::new(layer.keys > 0),
            map,
            checked,
        })
    }

    /// Records that a checkpoint has written the last blank page.
    pub(crate) fn set_all_written(&self) {
        self.all_written.store(true, Ordering::Release);
    }

    /// Returns the number of pages.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// Applies what a newer superblock says about the layer.
    pub(crate) fn update(&self, layer: &Layer) {
        if layer.all_written {
            self.set_all_written();
        }
        if layer.keys > 0 {
            self.has_keys.store(true, Ordering::Release);
        }
    }

    /// Returns whether a checkpoint of the layer has ended. Before that, a reader need not search the layer: all its
    /// keys are in a buffer, and its pages may be holes of the file, which take memory when read.
    #[inline]
    pub(crate) fn has_keys(&self) -> bool {
        self.has_keys.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn page_of(&self, hash: u64) -> u64 {
        page::place::page_of(hash, self.pages)
    }

    /// Requests some pages from the system without waiting for them.
    pub(crate) fn will_need(&self, pages: Range<u64>) {
        let count = pages.end - pages.start;
        self.map.will_need(
            pages.start as usize * PAGE_WORDS,
            count as usize * PAGE_WORDS,
        );
    }

    /// Advises the system that some pages will not be needed soon.
    pub(crate) fn drop_cached(&self, pages: Range<u64>, file: &dyn StorageFile) {
        let count = pages.end - pages.start;
        self.map.drop_cached(
            pages.start as usize * PAGE_WORDS,
            count as usize * PAGE_WORDS,
        );
        let offset = |page| page_offset(self.first_page + page);
        file.leave(offset(pages.start)..offset(pages.end));
    }

    /// Returns the offset in the file of a key's page.
    pub(crate) fn offset_of(&self, hash: u64) -> u64 {
        page_offset(self.number_of(hash))
    }

    /// Prefetches the line of the key's first bits.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        let base = self.page_of(hash) as usize * PAGE_WORDS;
        self.map.prefetch(base + bloom::first_word(hash));
    }

    /// Prefetches the line of the key's second run of bits.
    #[inline]
    pub(crate) fn prefetch_second(&self, hash: u64) {
        let base = self.page_of(hash) as usize * PAGE_WORDS;
        let word = bloom::second_word(hash, self.probes);
        self.map.prefetch(base + word);
    }

    /// Prefetches the lines of all the key's bits.
    #[inline]
    pub(crate) fn prefetch_all(&self, hash: u64) {
        let base = self.page_of(hash) as usize * PAGE_WORDS;
        bloom::each_line(hash, self.probes, |word| self.map.prefetch(base + word));
    }

    /// Returns whether the key may test positive in this layer, judged by its first runs of bits.
    #[inline]
    pub(crate) fn may_contain(
        &self,
        hash: u64,
        runs: u32,
        window: WriteWindow<'_>,
    ) -> Result<bool, FormatError> {
        let words = self.checked_words(hash, window)?;
        let word = |index| words.get(index);
        Ok(bloom::begins(word, self.probes, runs, hash))
    }

    /// Returns whether the key tests positive in this layer.
    #[inline]
    pub(crate) fn contains(&self, hash: u64, window: WriteWindow<'_>) -> Result<bool, FormatError> {
        let words = self.checked_words(hash, window)?;
        Ok(bloom::contains(|index| words.get(index), self.probes, hash))
    }

    /// Draws the first runs of keys for this layer.
    #[inline]
    pub(crate) fn first_runs(&self, hashes: &[u64], runs: &mut [u64]) {
        first_runs(self.probes, hashes, runs);
    }

    /// Prefetches the line of a key's first run.
    #[inline]
    pub(crate) fn prefetch_run(&self, hash: u64, run: u64) {
        let base = self.page_of(hash) as usize * PAGE_WORDS;
        self.map.prefetch(base + first_of(run) / 64);
    }

    /// Returns whether the key may test positive in this layer, judged by its first run.
    #[inline]
    pub(crate) fn may_begin(
        &self,
        hash: u64,
        run: u64,
        window: WriteWindow<'_>,
    ) -> Result<bool, FormatError> {
        let words = self.checked_words(hash, window)?;
        Ok(bloom::begins_drawn(
            |index| words.get(index),
            self.probes,
            run,
        ))
    }

    /// Returns a [`Drawn`] that draws the probes of eight keys for this layer.
    pub(crate) fn drawn(&self) -> Drawn {
        Drawn::new(self.probes)
    }

    /// Prefetches the lines of all bits of a key in `drawn`.
    #[inline]
    pub(crate) fn prefetch_drawn(&self, hash: u64, drawn: &Drawn, key: usize) {
        let base = self.page_of(hash) as usize * PAGE_WORDS;
        drawn.each_first(key, |bit| self.map.prefetch(base + bit / 64));
    }

    /// Returns whether a key in `drawn` tests positive in this layer.
    #[inline]
    pub(crate) fn contains_drawn(
        &self,
        hash: u64,
        drawn: &Drawn,
        key: usize,
        window: WriteWindow<'_>,
    ) -> Result<bool, FormatError> {
        let words = self.checked_words(hash, window)?;
        Ok(bloom::contains_drawn(|index| words.get(index), drawn, key))
    }

    /// Returns the words of the key's page, which it checks on first use.
    #[inline(always)]
    fn checked_words(
        &self,
        hash: u64,
        window: WriteWindow<'_>,
    ) -> Result<Words<'_, PAGE_WORDS>, FormatError> {
        let page = self.page_of(hash);
        if !self.is_checked(page) {
            return self.first_use(page, window);
        }
        Ok(self.map.words(page as usize * PAGE_WORDS))
    }

    /// Returns the words of the key's page without checking them.
    fn unchecked_words(&self, hash: u64) -> Words<'_, PAGE_WORDS> {
        let base = self.page_of(hash) as usize * PAGE_WORDS;
        if !self.map.spares_holes() {
            return self.map.words(base);
        }
        let mut copy = [0; PAGE_BYTES];
        self.map.copy(base, &mut copy);
        self.map.words_of_copy(base, &copy)
    }

    /// Returns whether the key tests positive in its page, taking the page's bits as they are.
    pub(crate) fn contains_unchecked(&self, hash: u64) -> bool {
        let words = self.unchecked_words(hash);
        bloom::contains(|index| words.get(index), self.probes, hash)
    }

    /// Prefetches the lines of the key's first counters.
    #[inline]
    pub(crate) fn prefetch_counters(&self, hash: u64) {
        let base = self.page_of(hash) as usize * PAGE_WORDS;
        for word in counting::first_words(hash) {
            self.map.prefetch(base + word);
        }
    }

    /// Prefetches the lines of all the key's counters.
    #[inline]
    pub(crate) fn prefetch_all_counters(&self, hash: u64) {
        let base = self.page_of(hash) as usize * PAGE_WORDS;
        counting::each_word(hash, self.probes, |word| self.map.prefetch(base + word));
    }

    /// Returns an upper bound of the key's count in the pages of a counting store.
    pub(crate) fn count(&self, hash: u64, window: WriteWindow<'_>) -> Result<u8, FormatError> {
        let words = self.checked_words(hash, window)?;
        Ok(counting::count(|index| words.get(index), self.probes, hash))
    }

    /// Returns the same bound, taking the page's counters as they are.
    pub(crate) fn count_unchecked(&self, hash: u64) -> u8 {
        let words = self.unchecked_words(hash);
        counting::count(|index| words.get(index), self.probes, hash)
    }

    /// Returns the same bound from a checked copy of the page, whole at one moment, together with the page's
    /// generation. Returns `None` if a write to the page takes longer than a moment.
    pub(crate) fn count_in_copy(
        &self,
        hash: u64,
        window: WriteWindow<'_>,
    ) -> Result<Option<(u8, u64)>, FormatError> {
        let page = self.page_of(hash);
        let mut copy = [0; PAGE_BYTES];
        let checked = check_patiently(window, self.number_of(hash), || self.check(page, &mut copy));
        let generation = match checked.map_err(|fault| self.damaged(page, fault))? {
            None => return Ok(None),
            Some(Content::Blank) => 0,
            Some(Content::Sealed { generation, .. }) => generation,
        };
        let word = |index: usize| u64_at(&copy, index * 8);
        Ok(Some((counting::count(word, self.probes, hash), generation)))
    }

    /// Returns the number of the key's page in the file.
    pub(crate) fn number_of(&self, hash: u64) -> u64 {
        self.first_page + self.page_of(hash)
    }

    #[inline]
    fn is_checked(&self, page: u64) -> bool {
        let word = self.checked.words()[(page / 64) as usize].load(Ordering::Relaxed);
        word & (1 << (page % 64)) != 0
    }

    #[cold]
    fn first_use(
        &self,
        page: u64,
        window: WriteWindow<'_>,
    ) -> Result<Words<'_, PAGE_WORDS>, FormatError> {
        let mut copy = [0; PAGE_BYTES];
        let number = self.first_page + page;
        match check_patiently(window, number, || self.check(page, &mut copy)) {
            // The page may be a hole, and each use must find out whether it still is.
            Ok(Some(Content::Blank)) if self.map.spares_holes() => {}
            Ok(Some(_)) => {
                let bit = 1 << (page % 64);
                self.checked.words()[(page / 64) as usize].fetch_or(bit, Ordering::Relaxed);
            }
            // The page stays unchecked.
            Ok(None) => {}
            Err(fault) => return Err(self.damaged(page, fault)),
        }
        Ok(self.map.words_of_copy(page as usize * PAGE_WORDS, &copy))
    }

    /// Copies a page of this layer and checks the copy.
    fn check(&self, page: u64, copy: &mut [u8; PAGE_BYTES]) -> Result<Content, PageFault> {
        self.map.copy(page as usize * PAGE_WORDS, copy);
        self.check_bytes(self.first_page + page, copy)
    }

    /// Checks the bytes of a page, given its number in the file.
    pub(crate) fn check_bytes(&self, number: u64, bytes: &[u8]) -> Result<Content, PageFault> {
        let all_written = || self.all_written.load(Ordering::Acquire);
        self.binding.check_in_layer(number, bytes, all_written)
    }

    fn damaged(&self, page: u64, fault: PageFault) -> FormatError {
        FormatError::PageDamaged {
            layer: self.index,
            page,
            expected: fault.expected,
            got: fault.got,
        }
    }
}
