//! Reads a layer's pages through a map and checks each on first use.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::counting_page;
use super::page as bloom_page;
use crate::bloom::probe_batch::{Drawn, first_of, first_runs};
use crate::codec::u64_at;
use crate::error::{Error, Result};
use crate::file::layout::page_offset;
use crate::file::{FormatError, Layer};
use crate::page::write_window::{WriteWindow, check_patiently};
use crate::page::{Binding, Content, PAGE_BYTES, PAGE_WORDS, PageFault, place};
use crate::sys::storage::StorageFile;
use crate::sys::sync::{AtomicBool, Ordering};
use crate::sys::{Map, Region, Words, drop_cached};

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
        (file, path): (&dyn StorageFile, &Path),
    ) -> Result<Self> {
        let (offset, length) = (
            page_offset(layer.first_page),
            layer.pages * PAGE_BYTES as u64,
        );
        let mapped = file.map(offset, length);
        mapped
            .and_then(|map| Self::of(index, layer, binding, map))
            .map_err(|error| Error::io("map a layer of", path, error))
    }

    /// Returns a layer whose pages are in `map`.
    pub(crate) fn of(
        index: u32,
        layer: &Layer,
        binding: Binding,
        map: Map,
    ) -> std::io::Result<Self> {
        assert_eq!(map.len() as u64, layer.pages * PAGE_WORDS as u64);
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
        place::page_of(hash, self.pages)
    }

    /// Requests some pages from the system without waiting for them.
    pub(crate) fn will_need(&self, pages: Range<u64>) {
        debug_assert!(pages.start <= pages.end && pages.end <= self.pages);
        let count = pages.end - pages.start;
        self.map.will_need(
            pages.start as usize * PAGE_WORDS,
            count as usize * PAGE_WORDS,
        );
    }

    /// Advises the system that some pages will not be needed soon.
    pub(crate) fn drop_cached(&self, pages: Range<u64>, file: &dyn StorageFile) {
        debug_assert!(pages.start <= pages.end && pages.end <= self.pages);
        let count = pages.end - pages.start;
        self.map.drop_cached(
            pages.start as usize * PAGE_WORDS,
            count as usize * PAGE_WORDS,
        );
        let offset = |page| page_offset(self.first_page + page);
        drop_cached(file, offset(pages.start)..offset(pages.end));
    }

    /// Returns the offset in the file of a key's page.
    pub(crate) fn offset_of(&self, hash: u64) -> u64 {
        page_offset(self.number_of(hash))
    }

    /// Prefetches the line of the key's first bits.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        let base = self.page_of(hash) as usize * PAGE_WORDS;
        self.map.prefetch(base + bloom_page::first_word(hash));
    }

    /// Prefetches the line of the key's second run of bits.
    #[inline]
    pub(crate) fn prefetch_second(&self, hash: u64) {
        let base = self.page_of(hash) as usize * PAGE_WORDS;
        let word = bloom_page::second_word(hash, self.probes);
        self.map.prefetch(base + word);
    }

    /// Prefetches the lines of all the key's bits.
    #[inline]
    pub(crate) fn prefetch_all(&self, hash: u64) {
        let base = self.page_of(hash) as usize * PAGE_WORDS;
        bloom_page::each_line(hash, self.probes, |word| self.map.prefetch(base + word));
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
        Ok(bloom_page::begins(word, self.probes, runs, hash))
    }

    /// Returns whether the key tests positive in this layer.
    #[inline]
    pub(crate) fn contains(&self, hash: u64, window: WriteWindow<'_>) -> Result<bool, FormatError> {
        let words = self.checked_words(hash, window)?;
        Ok(bloom_page::contains(
            |index| words.get(index),
            self.probes,
            hash,
        ))
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
        Ok(bloom_page::begins_drawn(
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
        Ok(bloom_page::contains_drawn(
            |index| words.get(index),
            drawn,
            key,
        ))
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
        bloom_page::contains(|index| words.get(index), self.probes, hash)
    }

    /// Prefetches the lines of the key's first counters.
    #[inline]
    pub(crate) fn prefetch_counters(&self, hash: u64) {
        let base = self.page_of(hash) as usize * PAGE_WORDS;
        for word in counting_page::first_words(hash) {
            self.map.prefetch(base + word);
        }
    }

    /// Prefetches the lines of all the key's counters.
    #[inline]
    pub(crate) fn prefetch_all_counters(&self, hash: u64) {
        let base = self.page_of(hash) as usize * PAGE_WORDS;
        counting_page::each_word(hash, self.probes, |word| self.map.prefetch(base + word));
    }

    /// Returns an upper bound of the key's count in the pages of a counting store.
    pub(crate) fn count(&self, hash: u64, window: WriteWindow<'_>) -> Result<u8, FormatError> {
        let words = self.checked_words(hash, window)?;
        Ok(counting_page::count(
            |index| words.get(index),
            self.probes,
            hash,
        ))
    }

    /// Returns the same bound, taking the page's counters as they are.
    pub(crate) fn count_unchecked(&self, hash: u64) -> u8 {
        let words = self.unchecked_words(hash);
        counting_page::count(|index| words.get(index), self.probes, hash)
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
        Ok(Some((
            counting_page::count(word, self.probes, hash),
            generation,
        )))
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

/// Returns the layers that may hold a key, the last one first: it is the largest, so a key that is present is most
/// likely there.
pub(crate) fn with_keys(layers: &[Arc<LayerPages>]) -> impl Iterator<Item = &LayerPages> {
    let layers = layers.iter().rev().map(Arc::as_ref);
    layers.filter(|layer| layer.has_keys())
}
