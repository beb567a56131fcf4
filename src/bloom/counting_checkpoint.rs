//! The pass of a checkpoint over the pages of a counting store. The pass builds each page that has something to count
//! anew in memory, writes its image to the journal, and only then writes it in place.
//!
//! Counting twice would be wrong, so the generation of a page says whether it is done: pages of this checkpoint bear
//! the generation that it creates.

use std::ops::{Range, RangeInclusive};

use crate::bloom::chunk_writer::{CheckpointTask, ChunkWriter};
use crate::bloom::counting_page;
use crate::bloom::layer_checkpoint::LayerCheckpoint;
use crate::error::{Error, Result};
use crate::file::layout::{FIRST_PAGE, page_offset};
use crate::file::{FormatError, Intent, Journal, Layer, Section, Superblock};
use crate::generation::count_stream::NetSource;
use crate::memtable::Digest;
use crate::page::place::{first_hash_of, last_hash_below};
use crate::page::{Content, PAGE_BYTES};
use crate::page_io::PageAccess;
use crate::page_io::page_checkpoint::{
    ClosedLog, InsertedKeys, InsertedRemover, PageCheckpoint, Written,
};
use crate::storefile::page_scan::Pages;
use crate::storefile::store_file::StoreFile;

/// With at least this many keys per page, pages are read in pieces.
const DENSE_KEYS_PER_PAGE: f64 = 0.25;

/// Repairs the pages of a counting store that an interrupted checkpoint has left torn, before any reader looks at them.
pub(crate) fn replay_journal(file: &StoreFile) -> Result<()> {
    let meta = file.read_meta()?;
    let generation = meta.superblock.generation;
    let intent = meta.intent.filter(|intent| intent.generation == generation);
    let journal = meta.superblock.layers.first().and_then(Journal::of);
    match intent.zip(journal) {
        Some((intent, journal)) => replay(file, &journal, &intent),
        None => Ok(()),
    }
}

/// Writes again what the journal of an interrupted checkpoint holds.
fn replay(file: &StoreFile, journal: &Journal, intent: &Intent) -> Result<()> {
    let failed = |error| Error::io("write journalled pages of", &file.place, error);
    let pages = journal.pages_of(&*file.raw, &file.header, intent);
    let Some(pages) = pages.map_err(failed)? else {
        return Ok(());
    };
    // The process that wrote it was killed before its sync, perhaps, or that sync failed. Then journal and intent are in
    // memory alone, and a page must not reach the disk before them: torn there, it could not be restored.
    journal.write_again(&*file.raw, &pages).map_err(failed)?;
    file.write_intent(intent)?;
    file.sync("sync the journal of")?;
    journal.replay(&*file.raw, &pages).map_err(failed)?;
    file.sync("sync journalled pages of")
}

/// The checkpoint of a counting store.
pub(crate) struct CountingCheckpoint<'a> {
    layers: LayerCheckpoint<'a>,
    nets: NetSource<'a>,
}

impl<'a> CountingCheckpoint<'a> {
    /// `mapped` returns how many layers this handle has mapped.
    pub(crate) fn begin(closed: &'a ClosedLog<'a>, mapped: &'a dyn Fn() -> usize) -> Result<Self> {
        let layers = LayerCheckpoint::begin(closed, mapped)?;
        let from_log = log_nets(closed, layers.count);
        Ok(Self {
            layers,
            nets: closed.buffer.map_or(from_log, NetSource::Buffer),
        })
    }
}

impl PageCheckpoint for CountingCheckpoint<'_> {
    /// The journal lies before the layer.
    fn taken(&self) -> Vec<Range<u64>> {
        let mut taken = self.layers.taken();
        if let Some(layer) = self.layers.layers.first() {
            taken.push(FIRST_PAGE..layer.first_page);
        }
        taken
    }

    fn inserted(&self) -> &dyn InsertedKeys {
        &self.nets
    }

    fn write(&mut self, sections: &[Section]) -> Result<Written> {
        let (closed, nets) = (self.layers.closed, self.nets);
        let fill = |task: &CheckpointTask, layer: &mut Layer| count(closed, task, nets, layer);
        self.layers.write(sections, fill)
    }

    fn publish(&mut self, superblock: Superblock) -> Result<Superblock> {
        self.layers.publish(superblock)
    }
}

/// Returns the `count` inserts and removes of the log itself.
fn log_nets<'a>(closed: &ClosedLog<'a>, count: u64) -> NetSource<'a> {
    let log = &**closed.log;
    NetSource::Log { log, count }
}

/// Counts the inserts and removes of a generation in the pages of a counting store.
fn count(
    closed: &ClosedLog<'_>,
    task: &CheckpointTask,
    nets: NetSource<'_>,
    layer: &mut Layer,
) -> Result<Written> {
    let (access, found) = (closed.access, &closed.found);
    let from_log = log_nets(closed, task.count);
    let mut pass = CountingPass::new(access, task)?;
    pass.run(nets, from_log, found.digest, closed.is_private)
        .inspect_err(|_| access.shared.set_torn(pass.named()))?;
    layer.keys = layer.keys.saturating_add_signed(found.digest.net());
    // The pass turns to the log by itself: what it counted can't be counted again.
    Ok(Written::AsLogged)
}

/// The keys whose count has risen.
impl InsertedKeys for NetSource<'_> {
    fn count_in_log(&self) -> u64 {
        match self {
            NetSource::Log { count, .. } => *count,
            NetSource::Buffer(_) => 0,
        }
    }

    fn remover(&self, most: u64) -> InsertedRemover<'_> {
        if let NetSource::Buffer(buffer) = *self {
            return Box::new(|_, hashes| {
                hashes.retain(|hash| buffer.net(*hash) <= 0);
                Ok(())
            });
        }
        let mut stream = self.stream(most);
        Box::new(move |range: RangeInclusive<u64>, hashes| {
            let mut nets = Vec::new();
            stream.load(range, &mut nets)?;
            let net = |hash: &u64| {
                let place = nets.binary_search_by_key(hash, |(hash, _)| *hash);
                place.map_or(0, |place| nets[place].1)
            };
            hashes.retain(|hash| net(hash) <= 0);
            Ok(())
        })
    }
}

/// A pass over the layer of a counting store.
pub(crate) struct CountingPass<'a> {
    access: PageAccess<'a>,
    task: &'a CheckpointTask,
    out: ChunkWriter<'a>,
    journal: Journal,
    /// The most pages in a chunk.
    chunk: usize,
    /// Keys per page of the layer.
    density: f64,
    /// The numbers in the file of the chunk's pages, and the images of these pages.
    numbers: Vec<u64>,
    images: Vec<u8>,
}

impl<'a> CountingPass<'a> {
    pub(crate) fn new(access: PageAccess<'a>, task: &'a CheckpointTask) -> Result<Self> {
        let layer = task.layer;
        // The superblock was checked, and the cut against it.
        let journal = Journal::of(&layer).ok_or_else(|| {
            access.file.format_error(FormatError::HeaderField {
                field: "kind",
                expected: "a layer behind a journal",
                got: access.file.header.kind.to_string(),
            })
        })?;
        Ok(Self {
            access,
            task,
            out: ChunkWriter::new(access, task),
            journal,
            chunk: journal.room.min(access.options.chunk_pages()) as usize,
            density: task.count as f64 / layer.pages as f64,
            numbers: Vec::new(),
            images: Vec::new(),
        })
    }

    /// Returns the pages that may be torn if the pass ends here.
    pub(crate) fn named(&self) -> Range<u64> {
        self.out.named()
    }

    /// Counts what `nets` holds, unless that differs from what `log` holds, whose digest is `logged`. `is_private`
    /// means that no other process can change the buffer of `nets`.
    pub(crate) fn run(
        &mut self,
        nets: NetSource<'_>,
        log: NetSource<'_>,
        logged: Digest,
        is_private: bool,
    ) -> Result<()> {
        let file = self.access.file;
        if let Some(intent) = &self.task.interrupted {
            replay(file, &self.journal, intent)?;
        }
        // A count takes twice a key's memory, and as much again until it is added up.
        let most = self.access.options.chunk_keys();
        let most = most.max(self.task.log_keys / 4);
        let step = (most as f64 / self.density).max(1.0) as u64;
        let mut stream = nets.stream(most);
        // Counting can't be repeated. When a part is counted, it must be what it was when the whole equalled the log.
        let mut digests = Vec::new();
        if let NetSource::Buffer(buffer) = nets
            && !is_private
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
        let mut pages = Pages::new(&*file.raw, &file.place);
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
            self.count_all(&mut pages, &counted)?;
        }
        self.write_chunk()
    }

    /// Returns the first and the last hash of `step` pages at a time.
    fn ranges(&self, step: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let pages = self.out.layer.pages;
        let mut start = 0;
        std::iter::from_fn(move || {
            let first = first_hash_of(start, pages)?;
            start = start.saturating_add(step).min(pages);
            Some((first, last_hash_below(start, pages)))
        })
    }

    /// Counts sorted hashes in their pages.
    fn count_all(&mut self, pages: &mut Pages<'_>, nets: &[(u64, i64)]) -> Result<()> {
        let layer = self.out.layer;
        debug_assert!(nets.is_sorted_by_key(|(hash, _)| *hash));
        let mut rest = nets;
        while let Some((hash, _)) = rest.first() {
            let page = layer.page_of(*hash);
            let own = rest.partition_point(|(hash, _)| layer.page_of(*hash) == page);
            let (own, others) = rest.split_at(own);
            let number = layer.first_page + page;
            let ahead = match self.density >= DENSE_KEYS_PER_PAGE {
                true => layer.end_page(),
                false => number + 1,
            };
            let bytes = pages.page(number, ahead)?;
            self.count(page, bytes, own)?;
            rest = others;
        }
        Ok(())
    }

    /// Builds the new image of a page, unless the page already includes what is to be counted.
    fn count(&mut self, page: u64, bytes: &[u8], nets: &[(u64, i64)]) -> Result<()> {
        let number = self.out.layer.first_page + page;
        let generation = self.out.generation();
        let content = self.out.check(page, bytes);
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
        if let Err(fault) = content
            && let Err(error) = self.out.replace(page, &mut self.images[at..], fault)
        {
            self.images.truncate(at);
            return Err(error);
        }
        // A page that comes twice would be counted from its old bytes the second time.
        assert!(self.numbers.last().is_none_or(|last| *last < number));
        let image = &mut self.images[at..];
        let occupied = counting_page::apply(image, self.out.layer.probes, nets);
        self.out.binding().seal(number, generation, occupied, image);
        self.numbers.push(number);
        Ok(())
    }

    /// Makes the images of a chunk durable in the journal, and then writes its pages.
    fn write_chunk(&mut self) -> Result<()> {
        let (Some(first), Some(last)) = (self.numbers.first(), self.numbers.last()) else {
            return Ok(());
        };
        let file = self.access.file;
        let chunk = *first..*last + 1;
        self.journal
            .write(
                &*file.raw,
                &file.header,
                self.task.generation,
                &self.numbers,
                &self.images,
            )
            .map_err(|error| Error::io("write the journal of", &file.place, error))?;
        self.out.write_intent(chunk.clone())?;
        self.out.sync("sync the journal of")?;
        self.out.set_named(chunk.clone());
        self.out.publish(chunk);
        let mut done = 0;
        for run in self.numbers.chunk_by(|one, next| one + 1 == *next) {
            let bytes = &self.images[done * PAGE_BYTES..][..run.len() * PAGE_BYTES];
            self.out.write(bytes, page_offset(run[0]))?;
            done += run.len();
        }
        // The next chunk's images overwrite this one's.
        file.sync("sync the pages of")?;
        self.numbers.clear();
        self.images.clear();
        Ok(())
    }
}
