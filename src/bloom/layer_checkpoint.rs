//! How a closed log's keys go into the last layer of a filter, or into a new one. What filters of bits and of counters
//! share, and the former's part.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use crate::bloom::checkpoint::BloomPass;
use crate::bloom::chunk_writer::CheckpointTask;
use crate::bloom::layer_pages::LayerPages;
use crate::error::{Error, Result};
use crate::file::layout::FIRST_PAGE;
use crate::file::{FormatError, Layer, Section, Superblock};
use crate::generation::hash_stream::KeySource;
use crate::memtable::{ClosedKeys, Digest};
use crate::page::PAGE_BYTES;
use crate::page_io::PageAccess;
use crate::page_io::page_checkpoint::{
    ClosedLog, InsertedKeys, InsertedRemover, PageCheckpoint, Written,
};
use crate::storefile::store_file::StoreFile;
use crate::wal::RecordKind;

/// The layers of a store at a checkpoint.
pub(super) struct LayerCheckpoint<'a> {
    pub(super) closed: &'a ClosedLog<'a>,
    /// Returns how many layers this handle has mapped.
    mapped: &'a dyn Fn() -> usize,
    /// The layers after the checkpoint.
    pub(super) layers: Vec<Layer>,
    /// The number of inserts and removes in the log.
    pub(super) count: u64,
}

impl<'a> LayerCheckpoint<'a> {
    /// Makes room for the layer that takes the keys.
    pub(super) fn begin(closed: &'a ClosedLog<'a>, mapped: &'a dyn Fn() -> usize) -> Result<Self> {
        let ClosedLog { found, cut, .. } = closed;
        let mut layers = closed.meta.superblock.layers.clone();
        let target = target(closed)?;
        let count = found.committed_keys;
        if count > 0 {
            // As its reader has checked: no layer between is left out.
            assert!(cut.layer_index as usize <= layers.len(), "{cut:?}");
            layers.truncate(cut.layer_index as usize);
            layers.push(target);
            make_room(closed.access, target.end_offset())?;
        }
        Ok(Self {
            closed,
            mapped,
            layers,
            count,
        })
    }

    /// Returns the pages of the layers.
    pub(super) fn taken(&self) -> Vec<Range<u64>> {
        self.layers.iter().map(Layer::numbers).collect()
    }

    /// Has `fill` write the keys into the pages of their layer, and makes the pages and the sections durable.
    pub(super) fn write(
        &mut self,
        sections: &[Section],
        fill: impl FnOnce(&CheckpointTask, &mut Layer) -> Result<Written>,
    ) -> Result<Written> {
        let closed = self.closed;
        let PageAccess { file, shared, .. } = closed.access;
        // Without a key, there is no pass over the pages whose sync includes the sections.
        if self.count == 0 {
            if sections != closed.meta.superblock.sections {
                file.sync("sync the sections of")?;
            }
            return Ok(Written::AsLogged);
        }
        let layer = self
            .layers
            .last_mut()
            .expect("where there are keys, a layer takes them");
        let workers = closed.trigger.workers(closed.access.options);
        let target = (closed.cut.layer_index, *layer);
        let generation = closed.log.generation;
        let task = CheckpointTask::new(closed.meta, generation, target, self.count, workers);
        let task = task.with_log_keys(closed.log_keys);
        shared.set_torn(task.torn.clone());
        let written = fill(&task, layer)?;
        file.sync("sync the pages of")?;
        shared.window().publish(0..0);
        shared.set_torn(0..0);
        Ok(written)
    }

    /// Makes the superblock durable, with the layers.
    pub(super) fn publish(&mut self, superblock: Superblock) -> Result<Superblock> {
        let superblock = Superblock {
            layers: std::mem::take(&mut self.layers),
            ..superblock
        };
        let closed = self.closed;
        assert_eq!(superblock.generation, closed.log.generation + 1);
        // A layer that is named stays.
        assert!(superblock.layers.len() >= closed.meta.superblock.layers.len());
        self.try_mapping(&superblock)?;
        self.closed.access.file.write_superblock(&superblock)?;
        Ok(superblock)
    }

    /// Maps the layers that no view has mapped yet. A failure to map them must show before the superblock is written,
    /// not after.
    fn try_mapping(&self, superblock: &Superblock) -> Result<()> {
        let file = self.closed.access.file;
        for (index, layer) in (0..).zip(&superblock.layers).skip((self.mapped)()) {
            LayerPages::map(
                index,
                layer,
                file.header.binding(),
                (&*file.raw, &file.place),
            )?;
        }
        Ok(())
    }
}

/// Returns the layer that a cut names. That there is one was checked when the log was read.
fn target(closed: &ClosedLog<'_>) -> Result<Layer> {
    let file = closed.access.file;
    closed.cut.layer.ok_or_else(|| {
        file.format_error(FormatError::HeaderField {
            field: "kind",
            expected: "a log that is closed for a layer",
            got: file.header.kind.to_string(),
        })
    })
}

/// Extends the file for a new layer.
fn make_room(access: PageAccess<'_>, end: u64) -> Result<()> {
    let file = access.file;
    let failed = |error| Error::io("make room for a layer in", &file.place, error);
    if file.raw.length().map_err(failed)? < end {
        file.raw.set_length(end).map_err(failed)?;
    }
    Ok(())
}

/// The checkpoint of a filter of bits.
pub(crate) struct BloomCheckpoint<'a> {
    layers: LayerCheckpoint<'a>,
    keys: KeySource<'a>,
}

impl<'a> BloomCheckpoint<'a> {
    /// `mapped` returns how many layers this handle has mapped.
    pub(crate) fn begin(closed: &'a ClosedLog<'a>, mapped: &'a dyn Fn() -> usize) -> Result<Self> {
        Ok(Self {
            layers: LayerCheckpoint::begin(closed, mapped)?,
            keys: key_source(closed),
        })
    }
}

impl PageCheckpoint for BloomCheckpoint<'_> {
    fn taken(&self) -> Vec<Range<u64>> {
        self.layers.taken()
    }

    fn inserted(&self) -> &dyn InsertedKeys {
        &self.keys
    }

    fn write(&mut self, sections: &[Section]) -> Result<Written> {
        let (closed, keys) = (self.layers.closed, &self.keys);
        let fill = |task: &CheckpointTask, layer: &mut Layer| set_bits(closed, task, keys, layer);
        self.layers.write(sections, fill)
    }

    fn publish(&mut self, superblock: Superblock) -> Result<Superblock> {
        self.layers.publish(superblock)
    }
}

fn key_source<'a>(closed: &ClosedLog<'a>) -> KeySource<'a> {
    match closed.buffer {
        Some(buffer) => KeySource::Closed(ClosedKeys::of(buffer)),
        None => KeySource::Log {
            log: Arc::clone(closed.log),
            kind: RecordKind::Insert,
            committed: closed.found.committed.clone(),
            count: closed.found.committed_keys,
        },
    }
}

/// Sets the bits of a generation's keys in the pages of a layer.
fn set_bits(
    closed: &ClosedLog<'_>,
    task: &CheckpointTask,
    keys: &KeySource<'_>,
    layer: &mut Layer,
) -> Result<Written> {
    let taken = run_pass(closed.access, task, keys, layer)?;
    let is_sure = !matches!(keys, KeySource::Closed(_)) || closed.is_private;
    Ok(match is_sure || taken == closed.found.digest {
        true => Written::AsLogged,
        // Bits are only ever added, so the pass can run again, as after an interruption.
        false => Written::Otherwise,
    })
}

/// Sets the bits of keys in the pages of a layer, and returns a digest of the keys.
fn run_pass(
    access: PageAccess<'_>,
    task: &CheckpointTask,
    keys: &KeySource<'_>,
    layer: &mut Layer,
) -> Result<Digest> {
    let mut pass = BloomPass::new(access, task, keys);
    // Until the pass is repeated, the pages it named last may be torn.
    let passed = pass
        .run()
        .inspect_err(|_| access.shared.set_torn(pass.named()))?;
    let is_closed = matches!(keys, KeySource::Closed(_));
    // A log says how many it has, each at least once. A buffer that others can damage may have any.
    assert!(is_closed || passed.keys <= task.count, "{}", passed.keys);
    layer.keys = layer.keys.saturating_add(passed.keys);
    layer.all_written |= passed.all_written;
    Ok(passed.taken)
}

impl InsertedKeys for KeySource<'_> {
    fn count_in_log(&self) -> u64 {
        match self {
            KeySource::Log { count, .. } => *count,
            KeySource::Closed(_) | KeySource::Sorted(_) => 0,
        }
    }

    fn remover(&self, most: u64) -> InsertedRemover<'_> {
        if let KeySource::Closed(keys) = self {
            return keys.remover(most);
        }
        let mut stream = self.stream(most);
        Box::new(move |range: RangeInclusive<u64>, hashes| {
            let mut keys = Vec::new();
            stream.load(range, &mut keys)?;
            hashes.retain(|hash| keys.binary_search(hash).is_err());
            Ok(())
        })
    }
}

/// Returns the layer that takes `count` more keys: the last one if it has room, otherwise a new one behind everything
/// ever written, where pages are blank. Pages of removed sections are not blank.
pub(crate) fn target_layer(
    file: &StoreFile,
    superblock: &Superblock,
    count: u64,
) -> Result<(u32, Layer)> {
    let layers = &superblock.layers;
    let last = layers.last();
    let index = layers.len() as u32;
    let Some(growth) = file.header.growth() else {
        let Some(layer) = last else {
            unreachable!("a fixed store has its layer from the beginning");
        };
        return Ok((0, *layer));
    };
    if let Some(layer) = last
        && layer.room() >= count
    {
        return Ok((index - 1, *layer));
    }
    let capacity = file.key_limit;
    let full = |_| Error::Full { capacity };
    let capacity = growth.next_capacity(last.map(|layer| layer.capacity), count);
    let plan = growth.layer(index, capacity.map_err(full)?).map_err(full)?;
    let length = file.raw.length();
    let length = length.map_err(|error| Error::io("measure", &file.place, error))?;
    let end = length.div_ceil(PAGE_BYTES as u64).max(FIRST_PAGE);
    let layer = Layer::behind(end, &plan);
    assert!(layer.room() >= count, "{layer:?} for {count} keys");
    // Pages of its place that are not blank would be taken for its own.
    assert!(last.is_none_or(|last| last.end_page() <= layer.first_page));
    Ok((index, layer))
}
