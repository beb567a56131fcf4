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

use crate::buffer::{Buffer, limit_of};
use crate::error::{Error, Result};
use crate::store::config::memory_budget::{SizeRule, default_share, room_for};
use crate::store::coordination::handle::Access;
use crate::store::coordination::place::Place;
use crate::store::coordination::shm::Coordination;
use crate::store::coordination::shm_files::{buffer_path, remove_if_there, spare_paths};
use crate::store::generation::Generation;
use crate::sys::{Folder, lock, wait_until};

/// How long to wait until a closed buffer is gone. Most look-ups take less.
const SPARE_PATIENCE: Duration = Duration::from_millis(20);

/// Uncommitted keys that are carried over take at most the next buffer's keys divided by this.
const CARRIED_SHARE: u64 = 4;

/// Creates the write buffers of an open store, and decides on their sizes.
#[derive(Debug)]
pub(crate) struct BufferPool {
    pub(crate) place: Place,
    pub(crate) access: Access,
    pub(crate) shared: Arc<Coordination>,
    pub(crate) rule: SizeRule,
    /// Whether a thread of its own runs checkpoints, and makes buffers ahead.
    pub(crate) makes_ahead: bool,
    /// The next buffer of an exclusive handle, created ahead.
    pub(crate) spare: Mutex<Option<Buffer>>,
}

/// What the size of the next buffer follows from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand {
    /// The bytes of the filter.
    pub(crate) filter: u64,
    /// The bytes of the current buffer.
    pub(crate) current: u64,
    /// The uncommitted keys that the next buffer begins with.
    pub(crate) carried: u64,
    /// Whether the caller had to wait for a checkpoint, so that the time that a larger buffer takes is well spent.
    pub(crate) waits: bool,
}

impl Demand {
    /// Returns whether a buffer of `bytes` bytes has ample room for what it begins with. A buffer as large as the
    /// current one has always enough.
    fn fits(self, bytes: u64) -> bool {
        bytes >= self.current || limit_of(bytes) / CARRIED_SHARE >= self.carried
    }
}

impl BufferPool {
    /// Returns the bytes of the next buffer.
    fn next_bytes(&self, demand: Demand) -> u64 {
        let Demand {
            filter, current, ..
        } = demand;
        let sizes = self.shared.buffer_sizes();
        let free = || default_share(room_for(&self.place, self.access == Access::Shared));
        let next = self.rule.next_bytes(sizes, filter, current, free);
        match demand.fits(next) {
            true => next,
            false => next.max(current),
        }
    }

    /// Returns a buffer for a new generation, where the other handles can open it. If memory or the disk has no room
    /// for one of the size that would serve, it has the least size.
    pub(crate) fn make(&self, number: u64, demand: Demand) -> Result<Buffer> {
        let bytes = self.next_bytes(demand);
        if let Some(spare) = self.take_spare(number, demand, bytes) {
            return Ok(spare);
        }
        let least = self.shared.buffer_sizes().least;
        // Otherwise buffers grow where they are made ahead, if they are.
        let bytes = match self.makes_ahead && !demand.waits {
            true => bytes.min(demand.current.max(least)),
            false => bytes,
        };
        match self.make_new(number, bytes) {
            Err(_) if bytes > least && demand.fits(least) => self.make_new(number, least),
            outcome => outcome,
        }
    }

    /// Returns a buffer without room for a key, for the words that the last handle to close needs.
    pub(crate) fn make_last(&self, number: u64) -> Result<Buffer> {
        self.make_new(number, 0)
    }

    fn make_new(&self, number: u64, bytes: u64) -> Result<Buffer> {
        make_buffer(&self.place, self.access == Access::Shared, bytes, number)
    }

    /// Prepares a buffer without a key for many keys.
    pub(crate) fn fill(&self, generation: &Generation) -> Result<()> {
        if self.access != Access::Shared {
            return Ok(());
        }
        generation.buffer.fill().map_err(|error| {
            let path = buffer_path(&self.place, generation.number());
            let bytes = generation.buffer.bytes();
            no_buffer("make room in the write buffer", &path, bytes, error)
        })
    }

    /// Creates the next buffer, if there is none yet and the settled one is gone. The caller holds the checkpoint lock,
    /// so no other handle creates one. On a failure, the next handle that needs the buffer creates it, or reports why
    /// it cannot.
    pub(crate) fn make_spare(&self, settled: &Weak<Generation>, demand: Demand) {
        let is_gone = || Ok::<_, Infallible>(settled.strong_count() == 0);
        if wait_until(SPARE_PATIENCE, is_gone) != Ok(true) {
            return;
        }
        let bytes = self.next_bytes(demand);
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

    /// Takes the spare buffer as the buffer of a generation, if there is one of about the right size. The caller holds
    /// the writer lock.
    fn take_spare(&self, number: u64, demand: Demand, bytes: u64) -> Option<Buffer> {
        let spare = match self.access {
            Access::Alone => lock(&self.spare).take(),
            _ => {
                let [_, spare] = spare_paths(&self.place);
                let path = buffer_path(&self.place, number);
                let folder = self.place.folder();
                folder.rename(&spare, &path).ok()?;
                Buffer::adopt(folder, &path, number).ok()
            }
        };
        // What it was sized by may have changed a little since: what is free, the length of the file.
        let serves = limit_of(bytes / 2)..=limit_of(bytes);
        spare.filter(|spare| {
            spare.generation() == number
                && serves.contains(&spare.limit())
                && demand.fits(spare.bytes())
        })
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
    use crate::{Kind, LEAST_BUFFER, Options, Store};

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

    fn make_spare(store: &Store, settled: &Weak<Generation>) {
        let demand = store.engine.views.current().unwrap().demand();
        store.engine.buffers.make_spare(settled, demand);
    }

    #[test]
    fn it_is_a_file_that_the_next_rotation_takes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.ever");
        let [making, spare] = at(&path);
        let store = options().create(&path).unwrap();
        insert(&store, 0..10);
        std::fs::write(&making, [0; 5000]).unwrap();
        make_spare(&store, &Weak::new());
        assert!(spare.exists() && !making.exists());
        store.checkpoint().unwrap();
        assert!(!spare.exists());
        insert(&store, 10..20);
        make_spare(&store, &Weak::new());
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
            make_spare(&store, &Arc::downgrade(&held));
            assert!(!is_made());
            let settled = Arc::downgrade(&held);
            drop(held);
            make_spare(&store, &settled);
            assert!(is_made());
        }
    }

    #[test]
    fn an_exclusive_handle_keeps_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.ever");
        let store = options().exclusive(true).create(&path).unwrap();
        insert(&store, 0..10);
        make_spare(&store, &Weak::new());
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

    /// The bytes of the active buffer.
    fn active(store: &Store) -> u64 {
        store.engine.views.current().unwrap().active.buffer.bytes()
    }

    fn between() -> Options {
        let options = Options::new().kind(Kind::Scalable).capacity(1_000_000);
        options.buffer_between(LEAST_BUFFER, 32 * LEAST_BUFFER)
    }

    #[test]
    fn buffers_grow_with_the_filter_and_keep_within_the_bound_of_each_handle() {
        for exclusive in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store.ever");
            let options = between().background(false).exclusive(exclusive);
            let store = options.create(&path).unwrap();
            let mut taken = vec![active(&store)];
            let mut next = 0;
            let mut rotate = |store: &Store, taken: &mut Vec<u64>| {
                insert(store, next..next + 5000);
                store.checkpoint().unwrap();
                assert!((0..next + 5000).all(|key| store.contains(&key.to_le_bytes()).unwrap()));
                next += 5000;
                taken.push(active(store));
            };
            (0..4).for_each(|_| rotate(&store, &mut taken));
            assert!(taken.is_sorted(), "{taken:?}");
            let most = taken[4];
            assert!(
                most > 16 * taken[0] && most <= 14 * LEAST_BUFFER,
                "{taken:?}"
            );
            if exclusive {
                continue;
            }
            // It takes over what there is, and makes only small ones itself.
            let small = Options::new().buffer(2 * LEAST_BUFFER).background(false);
            let joined = small.open(&path).unwrap();
            assert_eq!(active(&joined), most);
            rotate(&joined, &mut taken);
            assert!(
                taken[5] > taken[0] && taken[5] <= 2 * LEAST_BUFFER,
                "{taken:?}"
            );
            assert_eq!(active(&store), taken[5]);
            rotate(&store, &mut taken);
            assert!(taken[6] > taken[5], "{taken:?}");
            joined.close().unwrap();
        }
    }

    #[test]
    fn a_caller_does_not_wait_for_a_larger_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.ever");
        let [_, spare] = at(&path);
        let store = between().create(&path).unwrap();
        let least = active(&store);
        insert(&store, 0..10);
        store.checkpoint().unwrap();
        assert_eq!(active(&store), least);
        // The thread that ends a checkpoint makes one ahead, and it is larger.
        insert(&store, 10..20);
        make_spare(&store, &Weak::new());
        let ahead = std::fs::metadata(&spare).unwrap().len();
        assert!(ahead > 3 * least && ahead <= 4 * least, "{ahead}");
        store.checkpoint().unwrap();
        assert_eq!(active(&store), ahead);
        insert(&store, 20..30);
        assert!((0..30).all(|key: u64| store.contains(&key.to_le_bytes()).unwrap()));
    }

    #[test]
    fn one_that_is_too_small_or_too_large_by_now_is_not_taken() {
        for (made, now) in [(0, 64), (64, 0)] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store.ever");
            let [_, spare] = at(&path);
            let store = between().background(false).create(&path).unwrap();
            let pool = &store.engine.buffers;
            let least = active(&store);
            let demand = |filter, current| Demand {
                filter,
                current: least * current,
                carried: 0,
                waits: false,
            };
            pool.make_spare(&Weak::new(), demand(made << 20, 64));
            assert!(spare.exists());
            let now = demand(now << 20, 64);
            let wanted = pool.next_bytes(now);
            assert!(pool.take_spare(7, now, wanted).is_none());
            assert!(!spare.exists());
        }
    }

    #[test]
    fn what_is_carried_over_has_room() {
        let folder = tempfile::tempdir().unwrap();
        let store = between().create(folder.path().join("store.ever")).unwrap();
        let pool = &store.engine.buffers;
        let least = active(&store);
        let current = 16 * least;
        let carried = limit_of(least);
        // The filter is small again.
        let demand = |carried| Demand {
            waits: false,
            filter: 0,
            current,
            carried,
        };
        assert_eq!(limit_of(pool.next_bytes(demand(0))), limit_of(least));
        assert_eq!(pool.next_bytes(demand(carried)), current);
    }

    #[test]
    fn a_log_of_a_large_buffer_is_recovered_with_a_large_one_or_with_none() {
        for kind in [Kind::Bloom, Kind::Scalable, Kind::Counting] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store.ever");
            let options = between().kind(kind).fpr(1e-9).background(false);
            let store = options.create(&path).unwrap();
            let keys = |from: u64, to: u64| (from..to).map(u64::to_le_bytes).collect::<Vec<_>>();
            store.insert_batch(&keys(0, 30_000)).unwrap();
            store.checkpoint().unwrap();
            store.insert_batch(&keys(30_000, 31_000)).unwrap();
            store.checkpoint().unwrap();
            let limit = limit_of(active(&store));
            assert!(limit > 20_000, "{kind}: {limit}");
            store.insert_batch(&keys(31_000, 51_000)).unwrap();
            store.commit().unwrap();
            for (name, options) in [
                ("large", between()),
                ("small", Options::new().buffer(LEAST_BUFFER)),
            ] {
                let copy = folder.path().join(name);
                std::fs::copy(&path, &copy).unwrap();
                let number = store.stats().unwrap().generation;
                let log = |path: &PathBuf| crate::log::log_path(path, number);
                std::fs::copy(log(&path), log(&copy)).unwrap();
                let opened = options.open(&copy).unwrap();
                assert_eq!(opened.recovery().keys, 20_000);
                let is_large = active(&opened) > 4 * table(LEAST_BUFFER);
                assert_eq!(is_large, name == "large", "{kind}");
                let found = opened.contains_batch(&keys(0, 51_000)).unwrap();
                assert!(found.iter().all(|found| *found), "{kind}, {name}");
                opened.close().unwrap();
            }
        }
    }

    fn table(budget: u64) -> u64 {
        budget / 16 * 7
    }
}
