//! Rotation: close the active log and buffer, begin fresh ones.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::engine::{CheckpointState, Engine, Frozen, View, Writer};
use super::keys::KeySource;
use crate::buffer::{Claim, FIRST_TRANSACTION, Table};
use crate::error::{Error, Result};
use crate::file::{Layer, Superblock};
use crate::log::{Cut, LogFile, LogWriter};

/// A new log's length, in bytes, unless the last one was longer.
const LEAST_LOG: u64 = 64 << 10;
const MOST_LOG: u64 = 64 << 20;

impl Engine {
    /// Makes the active log. The superblock tells that it must be there before anything is in it.
    pub(crate) fn start_log(&self, writer: &mut Writer) -> Result<()> {
        let mut state = self.wait_for_checkpoint()?;
        let log = self.create_log(writer.generation, LEAST_LOG)?;
        let superblock = Superblock {
            sequence: state.superblock.sequence + 1,
            log_expected: true,
            ..state.superblock.clone()
        };
        let begun = LogWriter::begin(Arc::clone(&log))
            .and_then(|begun| self.write_superblock(&superblock).map(|()| begun));
        if begun.is_err() {
            // Nobody has written to it, and at the next try the name must be free.
            let _ = self.options.storage.remove(&log.path);
        }
        writer.log = Some(self.poison_on_failure(begun)?);
        writer.announced = false;
        state.superblock = superblock;
        writer.room = self.room_after(&state.superblock, 0, None);
        Ok(())
    }

    fn create_log(&self, generation: u64, length: u64) -> Result<Arc<LogFile>> {
        let storage = &*self.options.storage;
        let id = &self.header.store_id;
        LogFile::create(storage, &self.path, id, generation, length).map(Arc::new)
    }

    /// Announces this handle in the active log, if it hasn't yet.
    pub(crate) fn announce(&self, writer: &mut Writer) -> Result<()> {
        if writer.announced {
            return Ok(());
        }
        if let Some(log) = writer.log.as_mut() {
            let outcome = log.open(writer.handle);
            self.poison_on_failure(outcome)?;
            writer.announced = true;
        }
        Ok(())
    }

    /// A log that is long in spite of few keys, from many commits, is closed early.
    pub(crate) fn log_is_long(&self, writer: &Writer) -> bool {
        let most = (4 * self.options.table_bytes()).max(1 << 20);
        writer.log.as_ref().is_some_and(|log| log.end() > most)
    }

    /// Keys that the active table may take until the last layer is full, when `settling` keys are
    /// on their way into the layer `target`.
    pub(crate) fn room_after(
        &self,
        superblock: &Superblock,
        settling: u64,
        target: Option<(u32, &Layer)>,
    ) -> u64 {
        if !self.grows() {
            return u64::MAX;
        }
        let last = match target {
            Some((_, layer)) if settling > 0 => Some(layer),
            _ => superblock.layers.last(),
        };
        match last.map_or(0, |layer| layer.room().saturating_sub(settling)) {
            // Full, or there is none: the next checkpoint makes a layer as large as it needs.
            0 => u64::MAX,
            room => room,
        }
    }

    /// Closes the active log and buffer and begins new ones, or with `last` none, and has the
    /// checkpoint of the closed ones begin. Waits for the checkpoint before, if there is one still.
    pub(crate) fn rotate(&self, writer: &mut Writer, last: bool) -> Result<()> {
        let active = Arc::clone(&self.view.load().active);
        let open = writer.transaction;
        let mut count = writer.active_keys;
        let mut carried = Vec::new();
        if self.header.transactional {
            count -= writer.uncommitted;
            if !last {
                active.collect(0..=u64::MAX, |state| state == open, &mut carried);
            }
        }
        let keys = KeySource::Table {
            table: active,
            open_transaction: open,
        };
        self.rotate_keys(writer, last, keys, count, &carried)?;
        if last {
            return Ok(());
        }
        self.start_checkpoint()
    }

    /// The same for a recovered log whose keys the active buffer has no room for. The caller has
    /// the checkpoint done before anybody looks for them.
    pub(crate) fn rotate_overflow(&self, writer: &mut Writer, keys: KeySource) -> Result<()> {
        let count = match &keys {
            KeySource::Log { count, .. } => *count,
            KeySource::Table { .. } => writer.active_keys,
        };
        self.rotate_keys(writer, false, keys, count, &[])
    }

    fn rotate_keys(
        &self,
        writer: &mut Writer,
        last: bool,
        keys: KeySource,
        count: u64,
        carried: &[u64],
    ) -> Result<()> {
        let mut state = self.wait_for_checkpoint()?;
        self.announce(writer)?;
        let Some(log) = writer.log.as_ref().map(|log| Arc::clone(log.log())) else {
            return Ok(());
        };
        let view = self.view.load_full();
        let (layer_index, layer) =
            target_layer(&self.header, &state.superblock, count, self.key_limit)?;
        let cut = Cut {
            last,
            layer_index,
            layer,
        };
        let table = self.new_table()?;
        for hash in carried {
            if let Claim::Claimed(slot) = table.claim(*hash) {
                table.publish(slot, FIRST_TRANSACTION);
            }
        }
        let room = self.room_after(&state.superblock, count, Some((layer_index, &cut.layer)));
        let next = self.close_log(writer, &cut, carried)?;
        let frozen = Frozen {
            log,
            keys,
            count,
            cut,
            commit_sequence: writer.commit_sequence,
            commits: writer.commits.clone(),
            first_intent: 0,
            torn: 0..0,
        };
        writer.log = next;
        writer.generation += 1;
        writer.transaction = FIRST_TRANSACTION;
        writer.active_keys = carried.len() as u64;
        writer.room = room;
        self.settled_keys.fetch_add(count, Ordering::Relaxed);
        state.frozen = Some(frozen);
        let new_view = View {
            active: Arc::new(table),
            frozen: Some(Arc::clone(&view.active)),
            layers: view.layers.clone(),
        };
        self.view.store(Arc::new(new_view));
        Ok(())
    }

    /// Makes the next log, with the keys carried over, and closes the active one. In this order:
    /// if there is no room for the next one, the active one stays open and nothing has happened;
    /// if a crash comes between, a next log whose predecessor is open doesn't count.
    fn close_log(
        &self,
        writer: &mut Writer,
        cut: &Cut,
        carried: &[u64],
    ) -> Result<Option<LogWriter>> {
        let handle = writer.handle;
        let Some(log) = writer.log.as_mut() else {
            unreachable!("rotation was given up without a log");
        };
        if cut.last {
            let outcome = log.cut(handle, cut);
            return self.poison_on_failure(outcome).map(|()| None);
        }
        let length = log.end().clamp(LEAST_LOG, MOST_LOG);
        let next = self.create_log(writer.generation + 1, length)?;
        let path = next.path.clone();
        let outcome = (|| {
            let mut next = LogWriter::begin(next)?;
            next.open(handle)?;
            next.insert(handle, carried)?;
            log.cut(handle, cut)?;
            Ok(next)
        })();
        if outcome.is_err() {
            // It never counted. Should the removal fail as well, the next opener does it.
            let _ = self.options.storage.remove(&path);
        }
        self.poison_on_failure(outcome).map(Some)
    }

    pub(crate) fn new_table(&self) -> Result<Table> {
        let bytes = self.options.table_bytes();
        Table::new(bytes).map_err(|error| Error::io("reserve memory for", &self.path, error))
    }

    /// Waits until no checkpoint runs and none is due, doing one that failed for want of room.
    pub(crate) fn wait_for_checkpoint(&self) -> Result<std::sync::MutexGuard<'_, CheckpointState>> {
        loop {
            let state = self.wait_while_running();
            self.check_usable()?;
            if state.frozen.is_none() {
                return Ok(state);
            }
            drop(state);
            self.run_checkpoint()?;
        }
    }
}

/// The layer that takes `count` more keys: the last one if it has room, else a new one.
pub(crate) fn target_layer(
    header: &crate::file::Header,
    superblock: &Superblock,
    count: u64,
    key_limit: u64,
) -> Result<(u32, Layer)> {
    let last = superblock.layers.last();
    let index = superblock.layers.len() as u32;
    let Some(growth) = header.growth() else {
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
    let full = |_| Error::Full {
        capacity: key_limit,
    };
    let capacity = growth
        .next_capacity(last.map(|layer| layer.capacity), count)
        .map_err(full)?;
    let plan = growth.layer(index, capacity).map_err(full)?;
    Ok((index, Layer::after(last, &plan)))
}
