//! The walk of a checkpoint over the pages, in their order, in chunks.
//!
//! Before a chunk is written, an intent that names it is durable. An intent names the chunk after
//! it as well, so one sync makes both durable: this chunk's pages and the intent of the next.

use std::ops::Range;
use std::sync::Mutex;

use crate::buffer::Digest;
use crate::error::{Error, Result};
use crate::file::layout::{INTENT_OFFSETS, page_offset};
use crate::file::{FormatError, Intent, Layer};
use crate::log::Cut;
use crate::page::place::{first_hash_of, last_hash_below};
use crate::page::{self, PAGE_BYTES, PageFault, bloom};
use crate::store::check::repair::OnDamage;
use crate::store::engine::Engine;
use crate::store::generation::hash_stream::{KeySource, KeyStream};
use crate::store::storefile::meta::Identity;
use crate::sys::lock;
use crate::sys::storage::{read_exact_at, write_all_at};

/// Pages of the largest piece, 2 MiB, that Linux keeps and maps of a file as one.
const LARGE_PAGES: u64 = (2 << 20) / PAGE_BYTES as u64;

/// From so many keys in a run on, it is worth another thread.
const MANY: usize = 1 << 14;

/// What a sweep has to do.
pub(crate) struct Task {
    /// The generation whose keys go into the pages.
    pub(crate) generation: u64,
    pub(crate) cut: Cut,
    /// How many keys that are.
    pub(crate) count: u64,
    /// The sequence of the first intent: those of a checkpoint that is done again follow those of
    /// the interrupted one.
    pub(crate) first_intent: u64,
    /// Pages that may be torn because a checkpoint of this generation was interrupted.
    pub(crate) torn: Range<u64>,
    /// Whether somebody waits for it, so that two threads may work at it.
    pub(crate) awaited: bool,
}

impl Task {
    pub(crate) fn new(
        identity: &Identity,
        generation: u64,
        cut: Cut,
        count: u64,
        awaited: bool,
    ) -> Self {
        let intent = identity.intent.as_ref();
        let interrupted = intent.filter(|intent| intent.generation == generation);
        Self {
            generation,
            cut,
            count,
            first_intent: interrupted.map_or(0, |intent| intent.sequence.saturating_add(1)),
            torn: interrupted.map_or(0..0, |intent| intent.pages.clone()),
            awaited,
        }
    }
}

/// A sweep over one layer.
pub(crate) struct Sweep<'a> {
    engine: &'a Engine,
    task: &'a Task,
    keys: &'a KeySource<'a>,
    layer: Layer,
    /// Whether enough pages have keys that all are read and written.
    dense: bool,
    /// Whether all keys of the layer are at hand, so that its pages need not be read.
    fresh: bool,
    /// Whether a damaged page is an error, and not to be written anew.
    must_be_whole: bool,
    /// Most pages of a chunk.
    chunk: u64,
    /// The sequence of the next intent.
    next_intent: u64,
    /// The pages that the last intent names, by their numbers in the file.
    named: Range<u64>,
    bytes: Vec<u8>,
}

/// What a sweep has done.
pub(crate) struct Swept {
    pub(crate) keys: u64,
    /// No page of the layer is blank any more.
    pub(crate) all_written: bool,
    /// What they were.
    pub(crate) taken: Digest,
}

impl<'a> Sweep<'a> {
    pub(crate) fn new(engine: &'a Engine, task: &'a Task, keys: &'a KeySource<'a>) -> Self {
        let layer = task.cut.layer;
        let options = &engine.options;
        let keys_a_page = task.count as f64 / layer.pages as f64;
        // The share of pages that get a key, as they come: Poisson.
        let touched = -(-keys_a_page).exp_m1();
        let dense = touched >= 0.25;
        // As many pages as memory has room for, and as many as have keys that it has room for.
        let by_pages = options.chunk_pages() as f64 / if dense { 1.0 } else { touched };
        let by_keys = options.chunk_keys() as f64 / keys_a_page;
        let chunk = by_pages.min(by_keys).max(1.0) as u64;
        Self {
            engine,
            task,
            keys,
            layer,
            dense,
            fresh: layer.keys == 0,
            must_be_whole: options.on_damage == OnDamage::Error,
            chunk: chunk.min(layer.pages),
            next_intent: task.first_intent,
            named: task.torn.clone(),
            bytes: Vec::new(),
        }
    }

    pub(crate) fn run(&mut self) -> Result<Swept> {
        let source = self.keys;
        let mut stream = source.stream(self.engine.options.chunk_keys());
        let mut keys = Vec::new();
        let (mut count, mut taken) = (0, Digest::default());
        // The first intent names two chunks.
        let second = self.end_of_chunk(0);
        if second < self.layer.pages {
            self.load(second, &mut stream, &mut keys)?;
        }
        let mut chunk = self.load(0, &mut stream, &mut keys)?;
        self.write_intent(0)?;
        self.sync()?;
        while let Some(pages) = chunk {
            count += keys.len() as u64;
            taken.merge(Digest::of(&keys), 1);
            let (start, end) = (pages.start, pages.end);
            self.for_each_run(pages, &keys, Self::write_run)?;
            // What is not on the disk yet, Linux begins to write when it is told so: the sync has less to wait for.
            self.leave(start..end);
            chunk = None;
            if end < self.layer.pages {
                chunk = self.load(end, &mut stream, &mut keys)?;
                self.write_intent(start)?;
                self.sync()?;
                self.leave(start..end);
            }
        }
        Ok(Swept {
            keys: count,
            all_written: self.dense,
            taken,
        })
    }

    /// Loads the keys of the chunk from page `start`, and checks its pages before an intent names
    /// them: what the intent names is taken for torn, not for damaged, if this ends half way.
    fn load(
        &mut self,
        start: u64,
        stream: &mut KeyStream<'_>,
        keys: &mut Vec<u64>,
    ) -> Result<Option<Range<u64>>> {
        let end = self.end_of_chunk(start);
        let Some(first) = first_hash_of(start, self.layer.pages) else {
            return Ok(None);
        };
        let last = last_hash_below(end, self.layer.pages);
        stream.load_by(first..=last, |hash| self.layer.page_of(hash), keys)?;
        self.for_each_run(start..end, keys, Self::check_run)?;
        Ok(Some(start..end))
    }

    /// Where the chunk from page `start` ends: at a border of the large pieces that the system keeps
    /// a file in, if it reaches one. What is written in whole pieces is mapped and synced in them.
    fn end_of_chunk(&self, start: u64) -> u64 {
        let first = self.layer.first_page;
        let end = start.saturating_add(self.chunk);
        if end >= self.layer.pages {
            return self.layer.pages;
        }
        match ((first + end) / LARGE_PAGES * LARGE_PAGES).checked_sub(first) {
            Some(border) if border > start => border,
            _ => end,
        }
    }

    /// Gives up the memory of pages that are durable, where the filter is larger than memory: the write buffers
    /// are to stay.
    fn leave(&self, pages: Range<u64>) {
        if self.engine.hints.residency.is_tight() {
            let numbers = self.numbers(pages);
            let file = &self.engine.file.raw;
            file.leave(page_offset(numbers.start)..page_offset(numbers.end));
        }
    }

    /// Numbers in the file of pages of the layer.
    fn numbers(&self, pages: Range<u64>) -> Range<u64> {
        self.layer.first_page + pages.start..self.layer.first_page + pages.end
    }

    fn publish(&self, pages: Range<u64>) {
        let numbers = self.numbers(pages);
        self.engine.shared.window().publish(numbers);
    }

    /// Names the chunk from page `start` and the next one.
    fn write_intent(&mut self, start: u64) -> Result<()> {
        let end = self.end_of_chunk(self.end_of_chunk(start));
        let mut pages = self.numbers(start..end);
        // What an interrupted checkpoint left torn stays named until all of it is done again.
        let torn = &self.task.torn;
        if !torn.is_empty() {
            pages = pages.start.min(torn.start)..pages.end.max(torn.end);
        }
        let intent = Intent {
            generation: self.task.generation,
            sequence: self.next_intent,
            pages,
        };
        let offset = INTENT_OFFSETS[(intent.sequence % 2) as usize];
        let bytes = intent.encode(&self.engine.file.header);
        self.write(&bytes, offset)?;
        self.next_intent += 1;
        self.named = intent.pages;
        Ok(())
    }

    /// The pages that may be torn if the sweep ends here.
    pub(crate) fn named(&self) -> Range<u64> {
        self.named.clone()
    }

    /// Does something to the pages of a chunk: to all, or to those that get keys and no others.
    /// Keys are sorted by page.
    fn for_each_run(
        &mut self,
        pages: Range<u64>,
        keys: &[u64],
        mut each: impl FnMut(&mut Self, Range<u64>, &[u64]) -> Result<()>,
    ) -> Result<()> {
        if self.dense {
            return each(self, pages, keys);
        }
        let most = self.engine.options.chunk_pages();
        let mut rest = keys;
        while let Some(first) = rest.first() {
            let start = self.layer.page_of(*first);
            let mut end = start + 1;
            let mut taken = 0;
            for key in rest {
                let page = self.layer.page_of(*key);
                if page > end || page - start >= most {
                    break;
                }
                end = page + 1;
                taken += 1;
            }
            let (run, others) = rest.split_at(taken);
            each(self, start..end, run)?;
            rest = others;
        }
        Ok(())
    }

    /// Reads a run of pages and checks each, but for those that may be torn. Where damaged pages are
    /// written anew, it makes no difference whether they are taken for torn before.
    fn check_run(&mut self, pages: Range<u64>, _keys: &[u64]) -> Result<()> {
        if self.fresh && !self.dense {
            return Ok(());
        }
        let bytes = self.read_run(&pages)?;
        if self.must_be_whole && !self.fresh {
            for (page, bytes) in pages.zip(bytes.chunks_exact(PAGE_BYTES)) {
                if !self.may_be_torn(page) {
                    let checked = self.check(page, bytes);
                    checked.map_err(|fault| self.damaged(page, fault))?;
                }
            }
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Reads a run of pages into the scratch memory. Those of a fresh layer are blank, whatever an
    /// interrupted checkpoint may have left in them.
    fn read_run(&mut self, pages: &Range<u64>) -> Result<Vec<u8>> {
        let offset = page_offset(self.layer.first_page + pages.start);
        let length = (pages.end - pages.start) as usize * PAGE_BYTES;
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.resize(length, 0);
        if self.fresh {
            bytes.fill(0);
            return Ok(bytes);
        }
        let path = &self.engine.file.place;
        read_exact_at(&*self.engine.file.raw, &mut bytes, offset)
            .map_err(|error| Error::io("read pages of", path, error))?;
        Ok(bytes)
    }

    /// Applies keys, sorted by page, to a run of pages and writes it.
    fn write_run(&mut self, pages: Range<u64>, keys: &[u64]) -> Result<()> {
        let offset = page_offset(self.layer.first_page + pages.start);
        let mut bytes = match self.dense {
            // The chunk was read to be checked, and nobody else writes pages.
            true => std::mem::take(&mut self.bytes),
            false => self.read_run(&pages)?,
        };
        self.publish(pages.clone());
        // Alone where pages may be repaired: they are told of in their order.
        if self.task.awaited && self.must_be_whole && keys.len() >= MANY {
            self.apply_by_two(pages, &mut bytes, keys)?;
        } else {
            self.apply_run(pages, &mut bytes, keys)?;
        }
        self.write(&bytes, offset)?;
        self.bytes = bytes;
        Ok(())
    }

    /// Applies keys, sorted by page, to a run of pages.
    fn apply_run(&self, pages: Range<u64>, bytes: &mut [u8], keys: &[u64]) -> Result<()> {
        let mut rest = keys;
        for (page, bytes) in pages.zip(bytes.chunks_exact_mut(PAGE_BYTES)) {
            let count = rest.partition_point(|key| self.layer.page_of(*key) == page);
            let (own, others) = rest.split_at(count);
            self.apply(page, bytes, own)?;
            rest = others;
        }
        Ok(())
    }

    /// The same, the second half by another thread if there is one to be had.
    fn apply_by_two(&self, pages: Range<u64>, bytes: &mut [u8], keys: &[u64]) -> Result<()> {
        let Range { start, end } = pages;
        let middle = start + (end - start) / 2;
        let (low, high) = bytes.split_at_mut((middle - start) as usize * PAGE_BYTES);
        let before = keys.partition_point(|key| self.layer.page_of(*key) < middle);
        let (low_keys, high_keys) = keys.split_at(before);
        let high = Mutex::new(Some(high));
        // By whoever comes to it first.
        let second_half = || match lock(&high).take() {
            Some(high) => self.apply_run(middle..end, high, high_keys),
            None => Ok(()),
        };
        std::thread::scope(|scope| {
            let other = std::thread::Builder::new().spawn_scoped(scope, second_half);
            let own = self.apply_run(start..middle, low, low_keys);
            let own = own.and_then(|()| second_half());
            match other.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(other)) => own.and(other),
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                Err(_) => own,
            }
        })
    }

    /// Applies its keys to one page. A page without any is left as it is, unless it is blank, or
    /// was when an interrupted checkpoint began to write it.
    fn apply(&self, page: u64, bytes: &mut [u8], keys: &[u64]) -> Result<()> {
        let number = self.layer.first_page + page;
        let torn = self.may_be_torn(page);
        if keys.is_empty() && !torn && !page::is_blank(bytes) {
            return Ok(());
        }
        // Those of a chunk were checked before the intent that names it, and kept.
        let whole = self.fresh || self.dense && self.must_be_whole && !torn;
        if !whole && let Err(fault) = self.check(page, bytes) {
            // Without keys it was blank when it was torn, and has no bits.
            if !torn || keys.is_empty() && page::count_bits(bytes) > 0 {
                self.replace(page, bytes, fault)?;
            }
            // Else half of it is from the interrupted checkpoint: all its bits are ones that belong
            // there, and those still missing are among the keys at hand.
        }
        let occupancy = bloom::apply(bytes, self.layer.probes, keys);
        let generation = self.task.generation + 1;
        page::seal(number, generation, occupancy, bytes);
        Ok(())
    }

    /// Does with a damaged page as the handle was told.
    fn replace(&self, page: u64, bytes: &mut [u8], fault: PageFault) -> Result<()> {
        let number = self.layer.first_page + page;
        let on = self.engine.options.on_damage;
        let cell = self.engine.file.header.kind.cell();
        if !on.replace(cell, number, self.task.generation + 1, bytes) {
            return Err(self.damaged(page, fault));
        }
        let keys = self.layer.keys_a_page();
        let layer = self.task.cut.layer_index;
        self.engine.note_repair(layer, page, keys);
        Ok(())
    }

    /// Whether an interrupted checkpoint may have left the page torn.
    fn may_be_torn(&self, page: u64) -> bool {
        self.task.torn.contains(&(self.layer.first_page + page))
    }

    /// Checks a page as it was read.
    fn check(&self, page: u64, bytes: &[u8]) -> Result<(), PageFault> {
        let number = self.layer.first_page + page;
        page::check_in_layer(number, bytes, || self.layer.all_written).map(drop)
    }

    fn damaged(&self, page: u64, fault: PageFault) -> Error {
        self.engine.file.format_error(FormatError::PageDamaged {
            layer: self.task.cut.layer_index,
            page,
            expected: fault.expected,
            got: fault.got,
        })
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        write_all_at(&*self.engine.file.raw, bytes, offset)
            .map_err(|error| Error::io("write pages of", &self.engine.file.place, error))
    }

    fn sync(&self) -> Result<()> {
        self.engine.file.sync("sync the pages of")
    }
}

#[cfg(test)]
mod tests {
    use crate::Options;
    use crate::file::layout::PAGES_OFFSET;

    /// A thread alone is the slow twin. All keys come in one checkpoint, at closing.
    #[test]
    fn two_threads_write_what_one_does() {
        let made = [true, false].map(|background| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store");
            let options = Options::new().capacity(300_000).fpr(1e-9).seed([7; 32]);
            let store = options.background(background).create(&path).unwrap();
            let keys: Vec<u64> = (0..200_000).collect();
            store.insert_hash_batch(&keys).unwrap();
            store.close().unwrap();
            let bytes = std::fs::read(path).unwrap();
            bytes[PAGES_OFFSET as usize..].to_vec()
        });
        assert!(made[0].len() > 1 << 20);
        assert!(made[0] == made[1]);
    }
}
