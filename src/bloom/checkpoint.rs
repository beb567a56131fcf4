//! The pass of a checkpoint over the pages of a filter of bits, in page order, in chunks.
//!
//! Before a chunk is written, an intent that names it is durable. An intent also names the chunk after it, so one sync
//! makes both durable: this chunk's pages and the intent of the next.

use std::ops::Range;

use crate::bloom;
use crate::bloom::chunk_writer::{CheckpointTask, ChunkWriter};
use crate::config::damage_policy::OnDamage;
use crate::error::{Error, Result};
use crate::file::layout::page_offset;
use crate::generation::hash_stream::{KeySource, KeyStream};
use crate::memtable::Digest;
use crate::page::place::{first_hash_of, last_hash_below};
use crate::page::{self, PAGE_BYTES};
use crate::page_io::PageAccess;
use crate::page_io::checkpoint_trigger::Workers;
use crate::sys::drop_cached;
use crate::sys::storage::read_exact_at;
use crate::sys::two_threads::do_both;

/// Pages in the largest unit, 2 MiB, in which Linux caches and maps a file.
const LARGE_PAGES: u64 = (2 << 20) / PAGE_BYTES as u64;

/// A run with at least this many keys is worth a second thread.
const TWO_WORKERS_KEYS: usize = 1 << 14;

/// If at least this share of the pages gets keys, all pages are read and written.
const DENSE_SHARE: f64 = 0.25;

/// Which pages of a chunk the pass reads and writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Coverage {
    All,
    /// Only the pages that get keys.
    WithKeys,
}

/// The state of the layer's pages before the pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PagesBefore {
    /// Blank, so they need not be read: all keys of the layer are at hand.
    Blank,
    /// Whole: a damaged one is an error.
    Whole,
    /// Whole, or damaged and to be rewritten.
    Repairable,
}

/// Pages that an intent is about to name.
struct Chunk {
    /// Their places in the layer.
    pages: Range<u64>,
    /// All of the pages as they were read and checked, if all are to be written.
    image: Option<Vec<u8>>,
}

/// A pass over one layer.
pub(crate) struct BloomPass<'a> {
    access: PageAccess<'a>,
    task: &'a CheckpointTask,
    keys: &'a KeySource<'a>,
    out: ChunkWriter<'a>,
    coverage: Coverage,
    before: PagesBefore,
    /// The most pages in a chunk.
    chunk: u64,
    /// Memory for the next pages to read.
    scratch: Vec<u8>,
}

/// The result of a pass.
pub(crate) struct Passed {
    pub(crate) keys: u64,
    /// No page of the layer is blank any more.
    pub(crate) all_written: bool,
    /// The digest of the keys.
    pub(crate) taken: Digest,
}

impl<'a> BloomPass<'a> {
    pub(crate) fn new(
        access: PageAccess<'a>,
        task: &'a CheckpointTask,
        keys: &'a KeySource<'a>,
    ) -> Self {
        let layer = task.layer;
        let options = access.options;
        // Without a key there is nothing to write, and chunks would have no bound.
        assert!(task.count > 0 && layer.pages > 0);
        let keys_a_page = task.count as f64 / layer.pages as f64;
        // The share of pages that get a key when keys are spread at random: Poisson.
        let touched = -(-keys_a_page).exp_m1();
        let (coverage, share) = match touched >= DENSE_SHARE {
            true => (Coverage::All, 1.0),
            false => (Coverage::WithKeys, touched),
        };
        // A chunk has as many pages as fit in memory, and as many as have keys that fit in memory.
        let by_pages = options.chunk_pages() as f64 / share;
        let chunk_keys = match keys {
            KeySource::Closed(keys) => options.chunk_keys_beside(keys.buffer().bytes()),
            _ => options.chunk_keys(),
        };
        let by_keys = chunk_keys as f64 / keys_a_page;
        let chunk = by_pages.min(by_keys).max(1.0) as u64;
        Self {
            access,
            task,
            keys,
            out: ChunkWriter::new(access, task),
            coverage,
            before: match options.on_damage {
                _ if layer.keys == 0 => PagesBefore::Blank,
                OnDamage::Error => PagesBefore::Whole,
                _ => PagesBefore::Repairable,
            },
            chunk: chunk.min(layer.pages),
            scratch: Vec::new(),
        }
    }

    pub(crate) fn run(&mut self) -> Result<Passed> {
        let source = self.keys;
        let most = self.access.options.chunk_keys();
        let mut stream = source.stream(most.max(self.task.log_keys));
        let mut keys = Vec::new();
        let (mut count, mut taken, mut reached) = (0, Digest::default(), 0);
        // The first intent names two chunks.
        let second = self.end_of_chunk(0);
        if second < self.out.layer.pages {
            let checked = self.load(second, &mut stream, &mut keys)?;
            if let Some(image) = checked.and_then(|chunk| chunk.image) {
                self.scratch = image;
            }
        }
        let mut chunk = self.load(0, &mut stream, &mut keys)?;
        self.write_intent(0)?;
        self.sync()?;
        while let Some(loaded) = chunk {
            count += keys.len() as u64;
            taken.merge(Digest::of(&keys), 1);
            let Range { start, end } = loaded.pages;
            assert_eq!(start, reached, "in order, and each once");
            reached = end;
            self.write_chunk(loaded, &keys)?;
            // Linux begins to write what is not on the disk yet, so the sync has less to wait for.
            self.drop_cached(start..end);
            chunk = None;
            // To ask for the next pages before the sync made checkpoints slower: the disk reads or writes.
            if end < self.out.layer.pages {
                chunk = self.load(end, &mut stream, &mut keys)?;
                self.write_intent(start)?;
                self.sync()?;
                self.drop_cached(start..end);
            }
        }
        assert_eq!(reached, self.out.layer.pages);
        Ok(Passed {
            keys: count,
            all_written: self.coverage == Coverage::All,
            taken,
        })
    }

    /// Loads the keys of the chunk from page `start`, and checks its pages before an intent names them. If the pass is
    /// interrupted, the pages that the intent names are treated as torn, not as damaged.
    fn load(
        &mut self,
        start: u64,
        stream: &mut KeyStream<'_>,
        keys: &mut Vec<u64>,
    ) -> Result<Option<Chunk>> {
        let layer = self.out.layer;
        let end = self.end_of_chunk(start);
        let Some(first) = first_hash_of(start, layer.pages) else {
            return Ok(None);
        };
        let last = last_hash_below(end, layer.pages);
        stream.load_by(first..=last, |hash| layer.page_of(hash), keys)?;
        let pages = start..end;
        debug_assert!(keys.is_sorted_by_key(|key| layer.page_of(*key)));
        let mut ends = keys.first().into_iter().chain(keys.last());
        assert!(ends.all(|key| pages.contains(&layer.page_of(*key))));
        let image = match (self.coverage, self.before) {
            (Coverage::All, _) => Some(self.read_checked(&pages)?),
            (Coverage::WithKeys, PagesBefore::Blank) => None,
            (Coverage::WithKeys, _) => {
                self.for_each_run(keys, |pass, pages, _| {
                    pass.scratch = pass.read_checked(&pages)?;
                    Ok(())
                })?;
                None
            }
        };
        Ok(Some(Chunk { pages, image }))
    }

    /// Returns where the chunk from page `start` ends: at a boundary of the large units in which the system caches a
    /// file, if the chunk reaches one. Whole units that are written are mapped and synced as units.
    fn end_of_chunk(&self, start: u64) -> u64 {
        let layer = &self.out.layer;
        let first = layer.first_page;
        let end = start.saturating_add(self.chunk);
        if end >= layer.pages {
            return layer.pages;
        }
        // The pass goes on as long as chunks end before the layer does.
        assert!(end > start);
        match ((first + end) / LARGE_PAGES * LARGE_PAGES).checked_sub(first) {
            Some(border) if border > start => border,
            _ => end,
        }
    }

    /// Gives up the memory of durable pages if the filter is larger than memory, so that the write buffers stay in
    /// memory.
    fn drop_cached(&self, pages: Range<u64>) {
        if self.access.hints.residency.is_tight() {
            let numbers = self.out.numbers(pages);
            let range = page_offset(numbers.start)..page_offset(numbers.end);
            drop_cached(&*self.access.file.raw, range);
        }
    }

    /// Names the chunk from page `start` and the next one.
    fn write_intent(&mut self, start: u64) -> Result<()> {
        let end = self.end_of_chunk(self.end_of_chunk(start));
        let mut pages = self.out.numbers(start..end);
        // Pages that an interrupted checkpoint left torn stay named until all of them are rewritten.
        let torn = &self.task.torn;
        if !torn.is_empty() {
            pages = pages.start.min(torn.start)..pages.end.max(torn.end);
        }
        self.out.write_intent(pages.clone())?;
        self.out.set_named(pages);
        Ok(())
    }

    /// Returns the pages that may be torn if the pass ends here.
    pub(crate) fn named(&self) -> Range<u64> {
        self.out.named()
    }

    /// Calls `each` for each run of pages that get keys. Keys are sorted by page.
    fn for_each_run(
        &mut self,
        keys: &[u64],
        mut each: impl FnMut(&mut Self, Range<u64>, &[u64]) -> Result<()>,
    ) -> Result<()> {
        let layer = self.out.layer;
        let most = self.access.options.chunk_pages();
        let mut rest = keys;
        while let Some(first) = rest.first() {
            let start = layer.page_of(*first);
            let mut end = start + 1;
            let mut taken = 0;
            for key in rest {
                let page = layer.page_of(*key);
                if page > end || page - start >= most {
                    break;
                }
                end = page + 1;
                taken += 1;
            }
            let (run, others) = rest.split_at(taken);
            assert!(taken > 0, "keys that are not in the order of their pages");
            each(self, start..end, run)?;
            rest = others;
        }
        Ok(())
    }

    /// Reads a run of pages and checks each, except those that may be torn. Where damaged pages are rewritten, treating
    /// them as torn beforehand makes no difference.
    fn read_checked(&mut self, pages: &Range<u64>) -> Result<Vec<u8>> {
        let bytes = self.read_run(pages)?;
        if self.before == PagesBefore::Whole {
            for (page, bytes) in pages.clone().zip(bytes.chunks_exact(PAGE_BYTES)) {
                if !self.out.may_be_torn(page) {
                    let checked = self.out.check(page, bytes);
                    checked.map_err(|fault| self.out.damaged(page, fault))?;
                }
            }
        }
        Ok(bytes)
    }

    /// Reads a run of pages. The pages of a fresh layer are blank, whatever an interrupted checkpoint may have left in
    /// them.
    fn read_run(&mut self, pages: &Range<u64>) -> Result<Vec<u8>> {
        assert!(pages.start < pages.end, "{pages:?}");
        let length = (pages.end - pages.start) as usize * PAGE_BYTES;
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.resize(length, 0);
        if self.before == PagesBefore::Blank {
            bytes.fill(0);
            return Ok(bytes);
        }
        let file = self.access.file;
        let offset = page_offset(self.out.numbers(pages.clone()).start);
        read_exact_at(&*file.raw, &mut bytes, offset)
            .map_err(|error| Error::io("read pages of", &file.place, error))?;
        Ok(bytes)
    }

    /// Applies the chunk's keys, sorted by page, and writes the chunk.
    fn write_chunk(&mut self, chunk: Chunk, keys: &[u64]) -> Result<()> {
        match chunk.image {
            // The pages were read in order to check them; nothing else writes pages meanwhile.
            Some(bytes) => self.write_run(chunk.pages, bytes, keys),
            None => self.for_each_run(keys, |pass, pages, keys| {
                let bytes = pass.read_run(&pages)?;
                pass.write_run(pages, bytes, keys)
            }),
        }
    }

    /// Applies keys, sorted by page, to a run of pages as it was read, and writes it.
    fn write_run(&mut self, pages: Range<u64>, mut bytes: Vec<u8>, keys: &[u64]) -> Result<()> {
        assert_eq!(
            bytes.len() as u64,
            (pages.end - pages.start) * PAGE_BYTES as u64
        );
        let numbers = self.out.numbers(pages.clone());
        let offset = page_offset(numbers.start);
        self.out.publish(numbers);
        // One thread where pages may be repaired: repairs are recorded in page order.
        let alone = self.task.workers == Workers::One
            || self.before == PagesBefore::Repairable
            || keys.len() < TWO_WORKERS_KEYS;
        match alone {
            true => self.apply_run(pages, &mut bytes, keys)?,
            false => self.apply_by_two(pages, &mut bytes, keys)?,
        }
        self.out.write(&bytes, offset)?;
        self.scratch = bytes;
        Ok(())
    }

    /// Applies keys, sorted by page, to a run of pages.
    fn apply_run(&self, pages: Range<u64>, bytes: &mut [u8], keys: &[u64]) -> Result<()> {
        let layer = self.out.layer;
        let mut rest = keys;
        for (page, bytes) in pages.zip(bytes.chunks_exact_mut(PAGE_BYTES)) {
            let count = rest.partition_point(|key| layer.page_of(*key) == page);
            let (own, others) = rest.split_at(count);
            self.apply(page, bytes, own)?;
            rest = others;
        }
        // The log is removed after the pass: a key that is left would be in no page.
        assert!(rest.is_empty(), "{} keys of other pages", rest.len());
        Ok(())
    }

    /// Does the same, with another thread for the second half if one is available.
    fn apply_by_two(&self, pages: Range<u64>, bytes: &mut [u8], keys: &[u64]) -> Result<()> {
        let Range { start, end } = pages;
        let middle = start + (end - start) / 2;
        let (low, high) = bytes.split_at_mut((middle - start) as usize * PAGE_BYTES);
        let before = keys.partition_point(|key| self.out.layer.page_of(*key) < middle);
        let (low_keys, high_keys) = keys.split_at(before);
        let first = || self.apply_run(start..middle, low, low_keys);
        let second = || self.apply_run(middle..end, high, high_keys);
        do_both(first, second).map(drop)
    }

    /// Applies its keys to one page. Leaves a page without keys unchanged, unless it is blank, or was blank when an
    /// interrupted checkpoint began to write it.
    fn apply(&self, page: u64, bytes: &mut [u8], keys: &[u64]) -> Result<()> {
        let number = self.out.layer.first_page + page;
        let torn = self.out.may_be_torn(page);
        if keys.is_empty() && !torn && !page::is_blank(bytes) {
            return Ok(());
        }
        let is_whole = match self.before {
            PagesBefore::Blank => true,
            // The pages of a chunk were checked before the intent that names it, and kept.
            PagesBefore::Whole => self.coverage == Coverage::All && !torn,
            PagesBefore::Repairable => false,
        };
        if !is_whole && let Err(fault) = self.out.check(page, bytes) {
            // A torn page without keys was blank before it was torn, and has no bits.
            if !torn || keys.is_empty() && page::count_bits(bytes) > 0 {
                self.out.replace(page, bytes, fault)?;
            }
            // Otherwise half of the page is from the interrupted checkpoint: all its bits belong there, and the bits
            // still missing belong to the keys at hand.
        }
        let occupancy = bloom::page::apply(bytes, self.out.layer.probes, keys);
        debug_assert!(keys.is_empty() || occupancy > 0);
        let binding = self.out.binding();
        binding.seal(number, self.out.generation(), occupancy, bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.out.sync("sync the pages of")
    }
}

#[cfg(test)]
mod tests {
    use crate::file::layout::PAGES_OFFSET;
    use crate::testing::Options;

    /// A single thread is the slow twin. All keys arrive in one checkpoint, at closing.
    #[test]
    fn two_threads_write_what_one_does() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty");
        let options = Options::new().capacity(300_000).fpr(1e-9).seed([7; 32]);
        options.create(&empty).unwrap().close().unwrap();
        let made = [true, false].map(|background| {
            // Of one id, so that equal pages have equal CRCs.
            let path = folder.path().join(format!("background {background}"));
            std::fs::copy(&empty, &path).unwrap();
            let store = options.clone().background(background);
            let store = store.open(&path).unwrap();
            let keys: Vec<u64> = (0..200_000).collect();
            store.insert_batch(&keys).unwrap();
            store.close().unwrap();
            let bytes = std::fs::read(path).unwrap();
            bytes[PAGES_OFFSET as usize..].to_vec()
        });
        assert!(made[0].len() > 1 << 20);
        assert!(made[0] == made[1]);
    }
}
