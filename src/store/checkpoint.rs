//! Checkpoint: the keys of a closed log go into the pages, and the log goes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use super::engine::{CheckpointState, Engine, Frozen, View};
use super::sweep::Sweep;
use crate::error::{Error, Result};
use crate::file::{LayerPages, Superblock};
use crate::log::file::sync_parent;
use crate::sys::lock;

/// Held by the thread at a checkpoint; when it is dropped, others are let on.
struct Running<'a>(&'a Engine);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let cause = std::io::Error::other("the thread at it panicked");
            self.0
                .poison(Error::io("finish the checkpoint of", &self.0.path, cause));
        }
        lock(&self.0.checkpoint).running = false;
        self.0.checkpoint_done.notify_all();
    }
}

impl Engine {
    /// Has the checkpoint of the frozen buffer run: on its own thread, or here.
    pub(crate) fn start_checkpoint(&self) -> Result<()> {
        if !self.options.background {
            return self.run_checkpoint();
        }
        let Some(engine) = self.itself.upgrade() else {
            return self.run_checkpoint();
        };
        let mut state = lock(&self.checkpoint);
        if state.running || state.frozen.is_none() {
            return Ok(());
        }
        let thread = std::thread::Builder::new().name("everseen-checkpoint".to_owned());
        // The thread takes over: from here on the checkpoint counts as running.
        state.running = true;
        let spawned = thread.spawn(move || {
            // Whoever needs the outcome finds it in the state: the next rotation tries again.
            let _ = engine.finish_checkpoint();
        });
        if spawned.is_err() {
            state.running = false;
            drop(state);
            return self.run_checkpoint();
        }
        Ok(())
    }

    /// Waits until no thread is at a checkpoint, and holds new ones off.
    pub(crate) fn wait_while_running(&self) -> MutexGuard<'_, CheckpointState> {
        let state = lock(&self.checkpoint);
        self.checkpoint_done
            .wait_while(state, |state| state.running)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the checkpoint that is due, if one is and no other thread is at it; waits for one that
    /// is.
    pub(crate) fn run_checkpoint(&self) -> Result<()> {
        let mut state = self.wait_while_running();
        self.check_usable()?;
        if state.frozen.is_none() {
            return Ok(());
        }
        state.running = true;
        drop(state);
        self.finish_checkpoint()
    }

    /// The checkpoint itself, by the thread that set `running`.
    fn finish_checkpoint(&self) -> Result<()> {
        let running = Running(self);
        let (frozen, superblock) = {
            let state = lock(&self.checkpoint);
            (state.frozen.clone(), state.superblock.clone())
        };
        let outcome = match &frozen {
            Some(frozen) => self.apply(frozen, superblock).map(Some),
            None => Ok(None),
        };
        if let Some(superblock) = self.poison_on_failure(outcome)? {
            let mut state = lock(&self.checkpoint);
            self.settled_keys
                .store(superblock.keys(), Ordering::Relaxed);
            state.superblock = superblock;
            state.frozen = None;
        }
        drop(running);
        if let Some(frozen) = frozen {
            self.remove_log(&frozen);
        }
        Ok(())
    }

    /// Moves the keys into the pages; answers the superblock, durable, that says so.
    fn apply(&self, frozen: &Frozen, old: Superblock) -> Result<Superblock> {
        // What is in the pages can't be taken back, so the log must be durable before them.
        frozen.log.sync_to(frozen.log.written())?;
        let mut layers = old.layers.clone();
        let mut mapped = self.view.load().layers.clone();
        if frozen.count > 0 {
            let index = frozen.cut.layer_index as usize;
            let mut layer = frozen.cut.layer;
            if index == mapped.len() {
                mapped.push(self.map_new_layer(frozen)?);
            }
            let mut sweep = Sweep::new(self, frozen, layer);
            let swept = match sweep.run() {
                Ok(swept) => swept,
                Err(error) => {
                    self.note_torn(&sweep);
                    return Err(error);
                }
            };
            self.window.publish(0..0);
            self.window.set_torn(0..0);
            layer.keys = layer.keys.saturating_add(swept.keys);
            layer.all_written |= swept.all_written;
            layers.truncate(index);
            layers.push(layer);
            self.file
                .sync()
                .map_err(|error| Error::sync("sync the pages", &self.path, error))?;
        }
        let superblock = Superblock {
            sequence: old.sequence + 1,
            generation: frozen.log.generation + 1,
            log_expected: !frozen.cut.last,
            commit_sequence: frozen.commit_sequence,
            commits: frozen.commits.clone(),
            layers,
        };
        self.write_superblock(&superblock)?;
        for (pages, layer) in mapped.iter().zip(&superblock.layers) {
            if layer.all_written {
                pages.set_all_written();
            }
        }
        self.view.rcu(|view| View {
            active: Arc::clone(&view.active),
            frozen: None,
            layers: mapped.clone(),
        });
        Ok(superblock)
    }

    /// A sweep that is given up, for want of room, is begun again later: in the pages that it named
    /// last there may be a torn one then, and its intents must not be mistaken for newer ones.
    fn note_torn(&self, sweep: &Sweep<'_>) {
        if let Some(frozen) = lock(&self.checkpoint).frozen.as_mut() {
            frozen.first_intent = sweep.next_intent();
            frozen.torn = sweep.named();
            self.window.set_torn(sweep.named());
        }
    }

    /// Makes the file long enough for a new layer and maps it.
    fn map_new_layer(&self, frozen: &Frozen) -> Result<Arc<LayerPages>> {
        let layer = &frozen.cut.layer;
        let failed = |error| Error::io("make room for a layer in", &self.path, error);
        let length = self.file.length().map_err(failed)?;
        if length < layer.end_offset() {
            self.file.set_length(layer.end_offset()).map_err(failed)?;
        }
        LayerPages::map(frozen.cut.layer_index, layer, &*self.file)
            .map(Arc::new)
            .map_err(|error| Error::io("map a layer of", &self.path, error))
    }

    /// The log has done its service. A failure to remove it loses nothing: the next opener finds
    /// that its generation is past and removes it.
    fn remove_log(&self, frozen: &Frozen) {
        let storage = &*self.options.storage;
        let _ = storage
            .remove(&frozen.log.path)
            .map(|()| sync_parent(storage, &frozen.log.path));
    }

    /// Moves everything committed into the pages, and waits until it is there.
    pub(crate) fn checkpoint_now(&self) -> Result<()> {
        self.check_writable()?;
        let mut writer = self.lock_writer()?;
        if writer.log.is_some() {
            self.rotate(&mut writer, false)?;
        }
        drop(writer);
        self.run_checkpoint()
    }

    /// Ends the handle: what counts goes into the pages, and the file alone is the store.
    pub(crate) fn close(&self) -> Result<()> {
        let mut writer = lock(&self.writer);
        if writer.closed {
            return Ok(());
        }
        if !self.read_only {
            self.check_usable()?;
            if writer.log.is_some() {
                self.rotate(&mut writer, true)?;
            }
            self.run_checkpoint()?;
        }
        writer.closed = true;
        self.closed.store(true, Ordering::Release);
        drop(lock(&self.file_lock).take());
        Ok(())
    }
}
