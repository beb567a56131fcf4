//! The walk of a checkpoint over the pages, in their order, in chunks.
//!
//! Before a chunk is written, an intent that names it is durable. An intent names the chunk after
//! it as well, so one sync makes both durable: this chunk's pages and the intent of the next.

use std::ops::Range;

use super::engine::Engine;
use super::identity::Identity;
use super::keys::KeySource;
use crate::error::{Error, Result};
use crate::file::layout::{INTENT_OFFSETS, page_offset};
use crate::file::{FormatError, Intent, Layer};
use crate::log::Cut;
use crate::page::place::{first_hash_of, last_hash_below};
use crate::page::{self, Content, PAGE_BYTES, PageFault, bloom};
use crate::sys::storage::{read_exact_at, write_all_at};

/// What a sweep has to do.
pub(crate) struct Task {
    /// The generation whose keys go into the pages.
    generation: u64,
    cut: Cut,
    /// How many keys that are.
    count: u64,
    /// The sequence of the first intent: those of a checkpoint that is done again follow those of
    /// the interrupted one.
    first_intent: u64,
    /// Pages that may be torn because a checkpoint of this generation was interrupted.
    pub(crate) torn: Range<u64>,
}

impl Task {
    pub(crate) fn new(identity: &Identity, generation: u64, cut: Cut, count: u64) -> Self {
        let intent = identity.intent.as_ref();
        let interrupted = intent.filter(|intent| intent.generation == generation);
        Self {
            generation,
            cut,
            count,
            first_intent: interrupted.map_or(0, |intent| intent.sequence.saturating_add(1)),
            torn: interrupted.map_or(0..0, |intent| intent.pages.clone()),
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
    /// Pages of a chunk, counted in pages of the layer.
    chunk: u64,
    /// The sequence of the next intent.
    next_intent: u64,
    /// The pages that the last intent names, by their numbers in the file.
    named: Range<u64>,
    /// The pages written since the last sync, by their numbers in the file.
    written: Range<u64>,
    bytes: Vec<u8>,
}

/// What a sweep has done.
pub(crate) struct Swept {
    pub(crate) keys: u64,
    /// No page of the layer is blank any more.
    pub(crate) all_written: bool,
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
            chunk: chunk.min(layer.pages),
            next_intent: task.first_intent,
            named: task.torn.clone(),
            written: 0..0,
            bytes: Vec::new(),
        }
    }

    pub(crate) fn run(&mut self) -> Result<Swept> {
        let source = self.keys;
        let mut stream = source.stream(self.engine.options.chunk_keys());
        let mut keys = Vec::new();
        let mut count = 0;
        self.write_intent(0)?;
        self.sync()?;
        let mut start = 0;
        while start < self.layer.pages {
            let end = (start + self.chunk).min(self.layer.pages);
            let Some(first) = first_hash_of(start, self.layer.pages) else {
                break;
            };
            let last = last_hash_below(end, self.layer.pages);
            stream.load(first..=last, &mut keys)?;
            count += keys.len() as u64;
            if self.dense || !keys.is_empty() {
                self.publish(start..end);
                if self.dense {
                    self.write_run(start..end, &keys)?;
                } else {
                    self.write_touched(&keys)?;
                }
            }
            if end < self.layer.pages {
                self.write_intent(start)?;
                self.sync()?;
                self.written = 0..0;
            }
            start = end;
        }
        Ok(Swept {
            keys: count,
            all_written: self.dense,
        })
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
        let end = start.saturating_add(self.chunk.saturating_mul(2));
        self.name(self.numbers(start..end.min(self.layer.pages)))
    }

    /// Writes an intent for these pages.
    fn name(&mut self, pages: Range<u64>) -> Result<()> {
        // What an interrupted checkpoint left torn stays named until all of it is done again.
        let pages = hull(pages, self.task.torn.clone());
        let intent = Intent {
            generation: self.task.generation,
            sequence: self.next_intent,
            pages,
        };
        let offset = INTENT_OFFSETS[(intent.sequence % 2) as usize];
        let bytes = intent.encode(&self.engine.header);
        self.write(&bytes, offset)?;
        self.next_intent += 1;
        self.named = intent.pages;
        Ok(())
    }

    /// Ends the sweep early, and answers which pages may be torn.
    ///
    /// A page that was found damaged is not among them: whoever does the checkpoint again must not
    /// take it for torn, and its bits for those that were there.
    pub(crate) fn give_up(&mut self, error: &Error) -> Range<u64> {
        let is_damage = matches!(
            error,
            Error::Format {
                source: FormatError::PageDamaged { .. },
                ..
            }
        );
        if is_damage {
            let before = self.named.clone();
            let named = self.name(self.written.clone());
            if named.and_then(|()| self.sync()).is_err() {
                self.named = before;
            }
        }
        self.named.clone()
    }

    /// Applies sorted keys to the pages they belong to and no others.
    fn write_touched(&mut self, keys: &[u64]) -> Result<()> {
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
            self.write_run(start..end, run)?;
            rest = others;
        }
        Ok(())
    }

    /// Reads a run of pages, applies sorted keys to it, and writes it.
    fn write_run(&mut self, pages: Range<u64>, keys: &[u64]) -> Result<()> {
        let numbers = self.numbers(pages.clone());
        let offset = page_offset(numbers.start);
        let length = (pages.end - pages.start) as usize * PAGE_BYTES;
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.resize(length, 0);
        let path = &self.engine.path;
        read_exact_at(&*self.engine.file, &mut bytes, offset)
            .map_err(|error| Error::io("read pages of", path, error))?;
        let mut rest = keys;
        for (page, bytes) in pages.zip(bytes.chunks_exact_mut(PAGE_BYTES)) {
            let count = rest.partition_point(|key| self.layer.page_of(*key) == page);
            let (own, others) = rest.split_at(count);
            self.apply(page, bytes, own)?;
            rest = others;
        }
        self.written = hull(self.written.clone(), numbers);
        self.write(&bytes, offset)?;
        self.bytes = bytes;
        Ok(())
    }

    /// Applies its keys to one page. A page without any is left as it is, unless it is blank, or
    /// was when an interrupted checkpoint began to write it.
    fn apply(&self, page: u64, bytes: &mut [u8], keys: &[u64]) -> Result<()> {
        let number = self.layer.first_page + page;
        let torn = self.task.torn.contains(&number);
        if keys.is_empty() && !torn && !page::is_blank(bytes) {
            return Ok(());
        }
        match page::check(number, bytes) {
            Ok(Content::Blank) if self.layer.all_written => {
                let expected = page::checksum(number, bytes);
                self.replace(page, bytes, PageFault { expected, got: 0 })?;
            }
            Ok(_) => {}
            // Half of it is from the interrupted checkpoint: all its bits are ones that belong
            // there, and those still missing are among the keys at hand.
            Err(_) if torn => {
                let occupancy = page::count_bits(bytes);
                page::seal(number, 0, occupancy, bytes);
            }
            Err(fault) => self.replace(page, bytes, fault)?,
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
        if !on.replace(number, self.task.generation + 1, bytes) {
            return Err(self.damaged(page, fault));
        }
        let keys = self.layer.keys_a_page();
        let layer = self.task.cut.layer_index;
        self.engine.note_repair(layer, page, keys);
        Ok(())
    }

    fn damaged(&self, page: u64, fault: PageFault) -> Error {
        self.engine.format_error(FormatError::PageDamaged {
            layer: self.task.cut.layer_index,
            page,
            expected: fault.expected,
            got: fault.got,
        })
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        write_all_at(&*self.engine.file, bytes, offset)
            .map_err(|error| Error::io("write pages of", &self.engine.path, error))
    }

    fn sync(&self) -> Result<()> {
        self.engine.sync_file("sync the pages")
    }
}

/// The least range that holds both; an empty one holds nothing.
fn hull(a: Range<u64>, b: Range<u64>) -> Range<u64> {
    if a.is_empty() {
        b
    } else if b.is_empty() {
        a
    } else {
        a.start.min(b.start)..a.end.max(b.end)
    }
}
