//! The walk of a checkpoint over the pages of a counting store: each page that has something to be
//! counted is made anew in memory, its image goes into the journal, and only then into its place.
//!
//! To count twice would be wrong, so the generation of a page tells whether it has been done: pages of
//! this checkpoint bear the one that it makes.

use std::ops::Range;

use crate::buffer::Digest;
use crate::error::{Error, Result};
use crate::file::layout::{INTENT_OFFSETS, page_offset};
use crate::file::{FormatError, Intent, Journal, Layer};
use crate::page::place::{first_hash_of, last_hash_below};
use crate::page::{self, Content, PAGE_BYTES, counting};
use crate::sizing::Cell;
use crate::store::check::repair::OnDamage;
use crate::store::checkpoint::bloom_pass::Task;
use crate::store::engine::Engine;
use crate::store::generation::count_stream::NetSource;
use crate::store::storefile::meta::read_identity;
use crate::store::storefile::page_scan::Pages;
use crate::sys::storage::write_all_at;

/// From so many keys a page on, pages are read in pieces.
const DENSE: f64 = 0.25;

impl Engine {
    /// Makes the pages of a counting store whole that an interrupted checkpoint has left torn, before
    /// anybody looks at them.
    pub(crate) fn replay_journal(&self) -> Result<()> {
        let identity = read_identity(&*self.file.raw, &self.file.place)?;
        let generation = identity.superblock.generation;
        let intent = identity
            .intent
            .filter(|intent| intent.generation == generation);
        let journal = identity.superblock.layers.first().and_then(Journal::of);
        match intent.zip(journal) {
            Some((intent, journal)) => self.replay(&journal, generation, &intent.pages),
            None => Ok(()),
        }
    }

    /// Writes again what the journal of an interrupted checkpoint of this generation has.
    fn replay(&self, journal: &Journal, generation: u64, intended: &Range<u64>) -> Result<()> {
        let replayed = journal
            .replay(&*self.file.raw, &self.file.header, generation, intended)
            .map_err(|error| Error::io("write journalled pages of", &self.file.place, error))?;
        if replayed > 0 {
            self.file.sync("sync journalled pages of")?;
        }
        Ok(())
    }
}

/// A tally over the layer of a counting store.
pub(crate) struct Tally<'a> {
    engine: &'a Engine,
    task: &'a Task,
    layer: Layer,
    journal: Journal,
    /// Most pages of a chunk.
    chunk: usize,
    /// The sequence of the next intent.
    next_intent: u64,
    /// The pages that the last intent names, by their numbers in the file.
    named: Range<u64>,
    /// The pages of the chunk by their numbers in the file, and their images.
    numbers: Vec<u64>,
    images: Vec<u8>,
}

impl<'a> Tally<'a> {
    pub(crate) fn new(engine: &'a Engine, task: &'a Task) -> Result<Self> {
        let layer = task.cut.layer;
        // The superblock was checked, and the cut against it.
        let journal = Journal::of(&layer).ok_or_else(|| {
            engine.file.format_error(FormatError::HeaderField {
                field: "kind",
                expected: "a layer behind a journal",
                got: engine.file.header.kind.to_string(),
            })
        })?;
        Ok(Self {
            engine,
            task,
            layer,
            journal,
            chunk: journal.room.min(engine.options.chunk_pages()) as usize,
            next_intent: task.first_intent,
            named: task.torn.clone(),
            numbers: Vec::new(),
            images: Vec::new(),
        })
    }

    /// The pages that may be torn if it ends here.
    pub(crate) fn named(&self) -> Range<u64> {
        self.named.clone()
    }

    /// Counts what `nets` has, unless that is not what the log has, of which `logged` is the digest.
    pub(crate) fn run(
        &mut self,
        nets: NetSource<'_>,
        log: NetSource<'_>,
        logged: Digest,
    ) -> Result<()> {
        let engine = self.engine;
        engine.replay(&self.journal, self.task.generation, &self.task.torn)?;
        let most = engine.options.chunk_keys();
        let keys_a_page = self.task.count as f64 / self.layer.pages as f64;
        let step = (most as f64 / keys_a_page).max(1.0) as u64;
        let mut stream = nets.stream(most);
        // What is counted can't be counted again: so each part must be, when it is counted, what it was when all of
        // it was what the log has. Of memory that nobody shares there is no doubt.
        let mut digests = Vec::new();
        if let NetSource::Buffer(buffer) = nets
            && engine.writer.lock.is_some()
        {
            let mut all = Digest::default();
            for (first, last) in self.ranges(step) {
                let digest = buffer.net_digest(first..=last);
                all.merge(digest, 1);
                digests.push(digest);
            }
            if all != logged {
                stream = log.stream(most);
                digests.clear();
            }
        }
        let mut pages = Pages::new(&*engine.file.raw, &engine.file.place);
        let mut counted = Vec::new();
        for (part, (first, last)) in self.ranges(step).enumerate() {
            stream.load(first..=last, &mut counted)?;
            if digests
                .get(part)
                .is_some_and(|before| *before != Digest::of_nets(&counted))
            {
                stream = log.stream(most);
                digests.clear();
                stream.load(first..=last, &mut counted)?;
            }
            let mut rest = &counted[..];
            while let Some((hash, _)) = rest.first() {
                let page = self.layer.page_of(*hash);
                let own = rest.partition_point(|(hash, _)| self.layer.page_of(*hash) == page);
                let (own, others) = rest.split_at(own);
                let number = self.layer.first_page + page;
                let ahead = match keys_a_page >= DENSE {
                    true => self.layer.end_page(),
                    false => number + 1,
                };
                let bytes = pages.page(number, ahead)?;
                self.count(page, bytes, own)?;
                rest = others;
            }
        }
        self.write_chunk()
    }

    /// The first and the last hash of so many pages at a time.
    fn ranges(&self, step: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let pages = self.layer.pages;
        let mut start = 0;
        std::iter::from_fn(move || {
            let first = first_hash_of(start, pages)?;
            start = start.saturating_add(step).min(pages);
            Some((first, last_hash_below(start, pages)))
        })
    }

    /// Makes the new image of a page, unless it has had what is to be counted.
    fn count(&mut self, page: u64, bytes: &[u8], nets: &[(u64, i64)]) -> Result<()> {
        let number = self.layer.first_page + page;
        let generation = self.task.generation + 1;
        let content = page::check_in_layer(number, bytes, || self.layer.all_written);
        if let Ok(Content::Sealed {
            generation: made, ..
        }) = content
            && made == generation
        {
            return Ok(());
        }
        if self.numbers.len() == self.chunk {
            self.write_chunk()?;
        }
        let at = self.images.len();
        self.images.extend_from_slice(bytes);
        if let Err(fault) = content {
            let on = self.engine.options.on_damage;
            let image = &mut self.images[at..];
            if on == OnDamage::Error || !on.replace(Cell::Counter, number, generation, image) {
                self.images.truncate(at);
                return Err(self.engine.file.format_error(FormatError::PageDamaged {
                    layer: self.task.cut.layer_index,
                    page,
                    expected: fault.expected,
                    got: fault.got,
                }));
            }
            let keys = self.layer.keys_a_page();
            let layer = self.task.cut.layer_index;
            self.engine.note_repair(layer, page, keys);
        }
        let image = &mut self.images[at..];
        let occupied = counting::apply(image, self.layer.probes, nets);
        page::seal(number, generation, occupied, image);
        self.numbers.push(number);
        Ok(())
    }

    /// Makes the images of a chunk durable in the journal, and then writes its pages.
    fn write_chunk(&mut self) -> Result<()> {
        let (Some(first), Some(last)) = (self.numbers.first(), self.numbers.last()) else {
            return Ok(());
        };
        let engine = self.engine;
        let chunk = *first..*last + 1;
        let failed = |error| Error::io("write pages of", &engine.file.place, error);
        let (header, generation) = (&engine.file.header, self.task.generation);
        let file = &*engine.file.raw;
        self.journal
            .write(file, header, generation, &self.numbers, &self.images)
            .map_err(|error| Error::io("write the journal of", &engine.file.place, error))?;
        let intent = Intent {
            generation,
            sequence: self.next_intent,
            pages: chunk.clone(),
        };
        let offset = INTENT_OFFSETS[(intent.sequence % 2) as usize];
        write_all_at(file, &intent.encode(header), offset).map_err(failed)?;
        self.next_intent += 1;
        engine.file.sync("sync the journal of")?;
        self.named = chunk.clone();
        engine.shared.window().publish(chunk);
        let mut done = 0;
        for run in self.numbers.chunk_by(|one, next| one + 1 == *next) {
            let bytes = &self.images[done * PAGE_BYTES..][..run.len() * PAGE_BYTES];
            write_all_at(file, bytes, page_offset(run[0])).map_err(failed)?;
            done += run.len();
        }
        // The next chunk takes the place of this one's images.
        engine.file.sync("sync the pages of")?;
        self.numbers.clear();
        self.images.clear();
        Ok(())
    }
}
