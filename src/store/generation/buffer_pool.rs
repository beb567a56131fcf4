//! The next write buffer, created ahead by the thread that has just finished a checkpoint. Filling tens of megabytes
//! with zeros takes longer than the caller that inserts the next key should have to wait.
//!
//! The buffers' memory budget has room for it once the closed buffer is gone. A look-up may still hold that one for a
//! while; then no buffer is created ahead. An exclusive handle keeps the new buffer for itself. Otherwise the buffer is
//! a file, under a name that belongs to no generation, for whichever handle rotates next.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::store::coordination::handle::Access;
use crate::store::coordination::place::Place;
use crate::store::coordination::shm::Coordination;
use crate::store::coordination::shm_files::{buffer_path, remove_if_there, spare_paths};
use crate::store::generation::Generation;
use crate::sys::{Folder, lock, wait_until};

/// How long to wait until a closed buffer is gone. Most look-ups take less.
const SPARE_PATIENCE: Duration = Duration::from_millis(20);

/// Creates the write buffers of an open store.
#[derive(Debug)]
pub(crate) struct BufferPool {
    pub(crate) place: Place,
    pub(crate) access: Access,
    pub(crate) shared: Arc<Coordination>,
    /// The next buffer of an exclusive handle, created ahead.
    pub(crate) spare: Mutex<Option<Buffer>>,
}

impl BufferPool {
    /// Returns a buffer for a new generation, where the other handles can open it.
    pub(crate) fn make(&self, number: u64, bytes: u64) -> Result<Buffer> {
        if let Some(spare) = self.take_spare(number, bytes) {
            return Ok(spare);
        }
        make_buffer(&self.place, self.access == Access::Shared, bytes, number)
    }

    /// Prepares a buffer without a key for many keys.
    pub(crate) fn fill(&self, generation: &Generation) -> Result<()> {
        if self.access != Access::Shared {
            return Ok(());
        }
        generation.buffer.fill().map_err(|error| {
            let path = buffer_path(&self.place, generation.number());
            let bytes = self.shared.buffer_bytes();
            no_buffer("make room in the write buffer", &path, bytes, error)
        })
    }

    /// Creates the next buffer, if there is none yet and the settled one is gone. The caller holds the checkpoint lock,
    /// so no other handle creates one. On a failure, the next handle that needs the buffer creates it, or reports why
    /// it cannot.
    pub(crate) fn make_spare(&self, settled: &Weak<Generation>) {
        let is_gone = || Ok::<_, Infallible>(settled.strong_count() == 0);
        if wait_until(SPARE_PATIENCE, is_gone) != Ok(true) {
            return;
        }
        let bytes = self.shared.buffer_bytes();
        match self.access {
            Access::Alone => {
                let mut spare = lock(&self.spare);
                if spare.is_none()
                    && let Ok(made) = Buffer::private(bytes, self.shared.active() + 1)
                {
                    made.populate();
                    *spare = Some(made);
                }
            }
            Access::Shared => {
                let [making, spare] = spare_paths(&self.place);
                let folder = self.place.folder();
                // A process that died while it created one may have left a part of it.
                if folder.exists(&spare).is_ok_and(|there| !there)
                    && remove_if_there(&self.place, &making).is_ok()
                    && Buffer::blank(folder, &making, bytes).is_ok()
                {
                    let _ = folder.rename(&making, &spare);
                }
            }
            Access::Watching | Access::Snapshot => {}
        }
    }

    /// Takes the spare buffer as the buffer of a generation, if there is one of that size. The caller holds the writer
    /// lock.
    pub(crate) fn take_spare(&self, number: u64, bytes: u64) -> Option<Buffer> {
        if bytes != self.shared.buffer_bytes() {
            return None;
        }
        if self.access == Access::Alone {
            let spare = lock(&self.spare).take();
            return spare.filter(|spare| spare.generation() == number);
        }
        let [_, spare] = spare_paths(&self.place);
        let path = buffer_path(&self.place, number);
        let folder = self.place.folder();
        folder.rename(&spare, &path).ok()?;
        Buffer::adopt(folder, &path, bytes, number).ok()
    }
}

/// Returns a buffer for a generation that has no log yet, without delay: its first log fills it.
pub(crate) fn reserve_buffer(
    store: &Place,
    shared: bool,
    bytes: u64,
    number: u64,
) -> Result<Buffer> {
    new_buffer(store, shared, bytes, number, Buffer::reserve)
}

/// Returns a buffer for a generation, ready for many keys.
pub(crate) fn make_buffer(store: &Place, shared: bool, bytes: u64, number: u64) -> Result<Buffer> {
    new_buffer(store, shared, bytes, number, Buffer::create)
}

/// Returns a private buffer, or one in a file that `make` creates. Removes a file that an earlier process left under
/// its name.
fn new_buffer(
    store: &Place,
    shared: bool,
    bytes: u64,
    number: u64,
    make: fn(&Folder, &Path, u64, u64) -> io::Result<Buffer>,
) -> Result<Buffer> {
    if !shared {
        let made = Buffer::private(bytes, number);
        return made.map_err(|error| Error::io("reserve memory for", store, error));
    }
    let path = buffer_path(store, number);
    remove_if_there(store, &path)?;
    let made = make(store.folder(), &path, bytes, number);
    made.map_err(|error| no_buffer("make the write buffer", &path, bytes, error))
}

/// Returns the error for a buffer of `bytes` bytes that could not be created.
fn no_buffer(action: &'static str, path: &Path, bytes: u64, error: io::Error) -> Error {
    match Error::io(action, path, error) {
        // A size of 0 means the words alone that the last handle to close needs: those are no buffer.
        Error::NoSpace { path, .. } if bytes > 0 => Error::NoRoomForBuffer { path, bytes },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use std::path::PathBuf;

    use super::*;
    use crate::{Options, Store};

    fn at(path: &std::path::Path) -> [PathBuf; 2] {
        spare_paths(&Place::of_new(path).unwrap())
    }

    fn options() -> Options {
        Options::new().capacity(100_000).buffer(1 << 20)
    }

    fn insert(store: &Store, keys: std::ops::Range<u64>) {
        for key in keys {
            assert!(store.insert(&key.to_le_bytes()).unwrap(), "{key}");
        }
    }

    #[test]
    fn it_is_a_file_that_the_next_rotation_takes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.ever");
        let [making, spare] = at(&path);
        let store = options().create(&path).unwrap();
        insert(&store, 0..10);
        std::fs::write(&making, [0; 5000]).unwrap();
        store.engine.buffers.make_spare(&Weak::new());
        assert!(spare.exists() && !making.exists());
        store.checkpoint().unwrap();
        assert!(!spare.exists());
        insert(&store, 10..20);
        store.engine.buffers.make_spare(&Weak::new());
        assert!((0..20).all(|key: u64| store.contains(&key.to_le_bytes()).unwrap()));
        store.close().unwrap();
        assert!(!spare.exists());
    }

    #[test]
    fn one_of_another_size_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.ever");
        let store = options().create(&path).unwrap();
        insert(&store, 0..10);
        let [_, spare] = at(&path);
        std::fs::write(&spare, [0; 4096]).unwrap();
        store.checkpoint().unwrap();
        insert(&store, 10..20);
        assert!(!spare.exists());
    }

    #[test]
    fn what_a_kill_leaves_is_removed_by_the_next_to_open() {
        for exclusive in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store.ever");
            options().create(&path).unwrap().close().unwrap();
            for path in at(&path) {
                std::fs::write(path, [0; 4096]).unwrap();
            }
            let store = Options::new().exclusive(exclusive).open(&path).unwrap();
            assert!(at(&path).iter().all(|path| !path.exists()));
            insert(&store, 0..10);
        }
    }

    #[test]
    fn there_are_never_three() {
        for exclusive in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store.ever");
            let store = options().exclusive(exclusive).create(&path).unwrap();
            insert(&store, 0..10);
            let held = Arc::clone(&store.engine.views.current().unwrap().active);
            store.checkpoint().unwrap();
            insert(&store, 10..20);
            let is_made = || at(&path)[1].exists() || lock(&store.engine.buffers.spare).is_some();
            store.engine.buffers.make_spare(&Arc::downgrade(&held));
            assert!(!is_made());
            let settled = Arc::downgrade(&held);
            drop(held);
            store.engine.buffers.make_spare(&settled);
            assert!(is_made());
        }
    }

    #[test]
    fn an_exclusive_handle_keeps_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.ever");
        let store = options().exclusive(true).create(&path).unwrap();
        insert(&store, 0..10);
        store.engine.buffers.make_spare(&Weak::new());
        assert!(at(&path).iter().all(|path| !path.exists()));
        let number = lock(&store.engine.buffers.spare)
            .as_ref()
            .map(Buffer::generation);
        store.checkpoint().unwrap();
        assert!(lock(&store.engine.buffers.spare).is_none());
        let active = store.engine.views.current().unwrap().active.number();
        assert_eq!(number, Some(active));
        insert(&store, 10..20);
        assert!((0..20).all(|key: u64| store.contains(&key.to_le_bytes()).unwrap()));
    }
}
