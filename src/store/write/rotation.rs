//! Rotation: close the active generation, begin the next.

use std::sync::Arc;

use crate::buffer::{Buffer, Claim, Presence, Wrong};
use crate::error::{Error, Result};
use crate::file::layout::FIRST_PAGE;
use crate::file::{Header, Layer, Superblock};
use crate::log::file::sync_parent;
use crate::log::{Cut, LogEnd, LogError, LogFile, LogReader, log_path};
use crate::page::PAGE_BYTES;
use crate::store::checkpoint::run::Checkpointer;
use crate::store::coordination::shm::MAX_HANDLES;
use crate::store::engine::Engine;
use crate::store::engine::writer_state::Local;
use crate::store::generation::Generation;
use crate::store::write::guard::Writing;
use crate::sys::lock;

/// A new log's length, in bytes, unless the last one was longer.
const LEAST_LOG: u64 = 64 << 10;
const MOST_LOG: u64 = 64 << 20;

/// The keys of a handle that has not committed them.
struct Carried {
    handle: u64,
    keys: Vec<u64>,
}

impl Engine {
    /// Committed keys that the next buffer may take until the last layer is full, when `settling`
    /// keys are on their way into the layer `target`.
    pub(crate) fn room_after(
        &self,
        superblock: &Superblock,
        settling: Option<(u64, &Layer)>,
    ) -> u64 {
        room_after(&self.file.header, superblock, settling)
    }

    /// Makes the generation after `old` the active one, once the log of `old` is closed. Done again
    /// by whoever finds it half done; `made` is the new one if this handle has it.
    pub(crate) fn begin_next(&self, old: &Generation, made: Option<Arc<Generation>>) -> Result<()> {
        let next = old.number() + 1;
        if made.is_some() {
            // Before it is announced: from then on readers look for it.
            *lock(&self.views.renewal) = made;
        }
        if self.shared.active() < next {
            self.shared.set_active(next);
        }
        self.views.renew()?;
        lock(&self.views.renewal).take();
        let active = Arc::clone(&self.views.cell.load().active);
        self.hand_transactions_over(Some(old), &active);
        Ok(())
    }

    /// Tells each handle its transaction in the active buffer, and ends those in the one before.
    pub(crate) fn hand_transactions_over(&self, old: Option<&Generation>, active: &Generation) {
        if !self.file.header.transactional {
            return;
        }
        for index in 0..MAX_HANDLES {
            self.shared.slot(index).set_transaction(0);
        }
        for (state, handle) in active.buffer.open_transactions() {
            match self.shared.slot_of(handle) {
                Some(slot) => self.shared.slot(slot).set_transaction(state),
                // Nobody is left to commit it.
                None => active.buffer.abort_transaction(state),
            }
        }
        // They go on in the next buffer; in the old one they must not be taken for claimed when
        // that one has long given them up.
        if let Some(old) = old {
            for (state, _) in old.buffer.open_transactions() {
                old.buffer.abort_transaction(state);
            }
        }
    }
}

impl Writing<'_> {
    /// Makes the active log. The superblock tells that it must be there before anything is in it.
    pub(crate) fn start_log(&mut self) -> Result<()> {
        let engine = self.engine;
        Checkpointer::of(engine).settle_all(engine.options.timeout)?;
        self.refresh()?;
        let mended = engine.file.mend();
        engine.handle.poison_on_failure(mended)?;
        self.check_view()?;
        let active = Arc::clone(&self.view.active);
        engine.buffers.fill(&active)?;
        let log = self.first_log(active.number())?;
        let superblock = Superblock {
            sequence: self.view.superblock.sequence + 1,
            log_expected: true,
            ..self.view.superblock.clone()
        };
        let begun = LogEnd::begin(&log)
            .and_then(|begun| engine.file.write_superblock(&superblock).map(|()| begun));
        // On a failure the log stays for the next try: what reached the disk may expect it.
        let begun = engine.handle.poison_on_failure(begun)?;
        active.set_log(log);
        active.buffer.set_room(engine.room_after(&superblock, None));
        active.buffer.set_durable(begun.end);
        active.buffer.set_applied(begun.end);
        active.set_log_end(begun);
        self.local.end = begun;
        Ok(())
    }

    /// Begins with a log that another handle made and could not tell of, if there is one.
    pub(crate) fn take_up_log(&mut self) -> Result<()> {
        let active = &self.view.active;
        let engine = self.engine;
        if active.has_log() {
            return Ok(());
        }
        let path = log_path(&engine.file.place, active.number());
        let there = engine.options.storage.exists(&path);
        match there.map_err(|error| Error::io("look for the log", &path, error))? {
            true => self.start_log(),
            false => Ok(()),
        }
    }

    /// The log to begin with: a new one, or one that whoever made it died before it used.
    fn first_log(&self, number: u64) -> Result<Arc<LogFile>> {
        let engine = self.engine;
        let storage = &*engine.options.storage;
        match LogFile::open(
            storage,
            &engine.file.place,
            &engine.file.header.store_id,
            number,
            true,
        ) {
            Ok(Some(log)) => {
                if LogReader::new(&log)?.next()?.is_some() {
                    // The words know of no log, and there are keys in it.
                    return Err(engine.handle.distrust(Wrong {
                        word: "tail",
                        expected: "that of a log with records".to_owned(),
                        got: 0,
                    }));
                }
                // And perhaps before it was durable, in header and name, as a new one is.
                let synced = log.file.sync();
                let synced = synced
                    .map_err(|error| Error::sync("sync the log", &log.path, error))
                    .and_then(|()| sync_parent(storage, &log.path));
                engine.handle.poison_on_failure(synced)?;
                Ok(Arc::new(log))
            }
            Ok(None) => engine.logs.create(number, LEAST_LOG),
            // Half made.
            Err(Error::Log {
                source: LogError::Header,
                ..
            }) => {
                engine.logs.remove_unused(number)?;
                engine.logs.create(number, LEAST_LOG)
            }
            Err(error) => Err(error),
        }
    }

    /// A log that is long in spite of few keys, from many commits, is closed early.
    pub(crate) fn log_is_long(&self) -> bool {
        let bytes = self.engine.shared.buffer_bytes();
        let most = bytes.saturating_mul(4).max(1 << 20);
        self.view.active.buffer.tail().end > most
    }

    /// Keys that no handle has committed.
    pub(crate) fn uncommitted_of_all(&self) -> u64 {
        let shared = &self.engine.shared;
        (0..MAX_HANDLES)
            .map(|index| shared.slot(index).uncommitted())
            .fold(0, u64::saturating_add)
    }

    /// Closes the active log and begins the next generation, and has the checkpoint of the closed one begin.
    pub(crate) fn rotate(&mut self) -> Result<()> {
        if self.turn(false)? {
            Checkpointer::of(self.engine).start_checkpoint()?;
        }
        Ok(())
    }

    /// The rotation without its checkpoint, with `last` to no next generation; answers whether there was anything
    /// to rotate. Waits for the checkpoint before, if there is one still.
    pub(crate) fn turn(&mut self, last: bool) -> Result<bool> {
        let engine = self.engine;
        Checkpointer::of(engine).settle_all(engine.options.timeout)?;
        self.refresh()?;
        if !self.view.active.has_log() {
            return Ok(false);
        }
        engine
            .handle
            .check_names(Some(engine.logs.of(&self.view.active)?))?;
        self.drop_the_dead()?;
        self.announce()?;
        let old = Arc::clone(&self.view.active);
        let next = old.number() + 1;
        // The last one out needs no buffer, only the words of one.
        let bytes = if last {
            0
        } else {
            engine.shared.buffer_bytes()
        };
        self.check_view()?;
        self.check_size(engine.shared.buffer_bytes())?;
        let buffer = engine.buffers.make(next, bytes)?;
        let carried = self.carry(&old.buffer, &buffer)?;
        let moved: u64 = carried.iter().map(|open| open.keys.len() as u64).sum();
        let count = old.buffer.keys().saturating_sub(moved);
        // None takes less than its hash: a layer for more than there are would not be accepted by recovery.
        let count = count.min(self.local.end.end / 8);
        let (layer_index, layer) = self.target_layer(count)?;
        let settling = Some((count, &layer));
        buffer.set_room(engine.room_after(&self.view.superblock, settling));
        buffer.set_keys(moved);
        let made = Arc::new(Generation::new(buffer));
        let cut = Cut {
            last,
            layer_index,
            layer,
        };
        let begun = self.close_log(&old, &made, &cut, &carried)?;
        // From here on it has happened, and whoever comes next makes it complete.
        self.sound = false;
        old.buffer.set_keys(count);
        old.buffer.set_sealed();
        engine.begin_next(&old, Some(made))?;
        self.refresh()?;
        self.local.end = begun;
        self.sound = true;
        if !last {
            self.local.announced = next;
        }
        Ok(true)
    }

    /// The layer that takes `count` more keys: the last one if it has room, else a new one behind all
    /// that was ever written. Pages of a new layer are blank; those of a section that is no more are not.
    fn target_layer(&self, count: u64) -> Result<(u32, Layer)> {
        let engine = self.engine;
        let layers = &self.view.superblock.layers;
        let last = layers.last();
        let index = layers.len() as u32;
        let Some(growth) = engine.file.header.growth() else {
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
        let capacity = engine.file.key_limit;
        let full = |_| Error::Full { capacity };
        let capacity = growth.next_capacity(last.map(|layer| layer.capacity), count);
        let plan = growth.layer(index, capacity.map_err(full)?).map_err(full)?;
        let length = engine.file.raw.length();
        let length = length.map_err(|error| Error::io("measure", &engine.file.place, error))?;
        let end = length.div_ceil(PAGE_BYTES as u64).max(FIRST_PAGE);
        Ok((index, Layer::behind(end, &plan)))
    }

    /// Takes all keys of open transactions over into the next buffer.
    fn carry(&self, old: &Buffer, next: &Buffer) -> Result<Vec<Carried>> {
        if !self.engine.file.header.transactional {
            return Ok(Vec::new());
        }
        let mut all = Vec::new();
        for (_, handle) in old.open_transactions() {
            let Some(slot) = self.engine.shared.slot_of(handle) else {
                // Those of the dead were given up before.
                return Err(self.engine.handle.distrust(Wrong {
                    word: "transaction",
                    expected: "one of a handle that is there".to_owned(),
                    got: handle,
                }));
            };
            let mut keys = Vec::new();
            let own = |found| found == Presence::Open(handle);
            old.collect(0..=u64::MAX, own, &mut keys);
            let logged = self.engine.shared.slot(slot).digest();
            self.engine.handle.expect_keys(handle, logged, &keys)?;
            let quota = keys.len() as u64;
            let too_large = || Error::TransactionTooLarge { quota };
            let state = next.begin_transaction(handle).ok_or_else(too_large)?;
            for hash in &keys {
                match next.claim(*hash) {
                    Claim::Claimed(slot) => next.publish(slot, state),
                    Claim::NoRoom => return Err(too_large()),
                    Claim::Settled | Claim::Open(_) => {}
                }
            }
            all.push(Carried { handle, keys });
        }
        Ok(all)
    }

    /// Makes the next log, with the keys carried over, and closes the active one. In this order:
    /// if there is no room for the next one, the active one stays open and nothing has happened;
    /// if a crash comes between, a next log whose predecessor is open doesn't count.
    fn close_log(
        &mut self,
        old: &Generation,
        made: &Generation,
        cut: &Cut,
        carried: &[Carried],
    ) -> Result<LogEnd> {
        let engine = self.engine;
        let log = Arc::clone(engine.logs.of(old)?);
        let mut next_end = LogEnd::default();
        if !cut.last {
            let length = self.local.end.end.clamp(LEAST_LOG, MOST_LOG);
            let next = engine.logs.create(made.number(), length)?;
            let path = next.path.clone();
            let begun = self.begin_log(made, next, carried);
            if begun.is_err() {
                // It never counted. Should the removal fail as well, the next opener does it.
                let _ = engine.options.storage.remove(&path);
            }
            next_end = engine.handle.poison_on_failure(begun)?;
        }
        let Local { end, scratch, .. } = &mut *self.local;
        let closed = old.append(&log, end, scratch, |log| log.cut(engine.handle.number, cut));
        // After any other failure the cut may have reached the disk, and then this log must be there.
        if matches!(closed, Err(Error::NoSpace { .. })) && !cut.last {
            let path = log_path(&engine.file.place, made.number());
            let _ = engine.options.storage.remove(&path);
        }
        engine.handle.poison_on_failure(closed)?;
        Ok(next_end)
    }

    fn begin_log(
        &mut self,
        made: &Generation,
        log: Arc<LogFile>,
        carried: &[Carried],
    ) -> Result<LogEnd> {
        let engine = self.engine;
        let mut end = LogEnd::begin(&log)?;
        made.buffer.set_durable(end.end);
        made.set_log_end(end);
        made.append(&log, &mut end, &mut self.local.scratch, |log| {
            log.open(engine.handle.number)?;
            carried
                .iter()
                .try_for_each(|open| log.insert(open.handle, &open.keys))
        })?;
        made.buffer.set_applied(end.end);
        made.set_log(log);
        Ok(end)
    }
}

/// Committed keys that a buffer may take until the last layer of a growing store is full.
pub(crate) fn room_after(
    header: &Header,
    superblock: &Superblock,
    settling: Option<(u64, &Layer)>,
) -> u64 {
    if header.growth().is_none() {
        return u64::MAX;
    }
    let room = match settling {
        Some((count, layer)) if count > 0 => layer.room().saturating_sub(count),
        _ => superblock.layers.last().map_or(0, Layer::room),
    };
    // Full, or there is none: the next checkpoint makes a layer as large as it needs.
    if room == 0 { u64::MAX } else { room }
}
