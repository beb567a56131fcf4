//! Opening a store of fingerprints while checkpoints write over the directory that is just being read.

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use everseen::hash::HashedKey;
use everseen::testing::storage::{Storage, StorageFile, disk};
use everseen::testing::{Appending, Map, Options};
use everseen::{Kind, Store, Verdict};

use super::steps;
use crate::processes::hooked::{self, Call, Point};
use crate::support::files::place;
use crate::support::numbers::key;
use crate::support::unsynced::Unsynced;

/// Runs once, before the first page is read.
type Hook = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

struct Hooked(Hook);
impl std::fmt::Debug for Hooked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hooked")
    }
}
struct File(Arc<dyn StorageFile>, Hook);
impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("File")
    }
}
impl Storage for Hooked {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        disk().create_new(path)
    }
    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(File(
            disk().open(path, write)?,
            Arc::clone(&self.0),
        )))
    }
    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        disk().publish(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        disk().remove(path)
    }
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        disk().sync_folder(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        disk().exists(path)
    }
}
impl StorageFile for File {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset >= 131_072 {
            let hook = self.1.lock().unwrap().take();
            if let Some(hook) = hook {
                hook();
            }
        }
        self.0.read_at(bytes, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }
    fn set_length(&self, length: u64) -> io::Result<()> {
        self.0.set_length(length)
    }
    fn allocate(&self, length: u64) -> io::Result<()> {
        self.0.allocate(length)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
    fn map(&self, offset: u64, length: u64) -> io::Result<Map> {
        self.0.map(offset, length)
    }
}

/// What a superblock named may have been written over before it was read. That is no damage, but a reason to begin again.
#[test]
fn a_directory_that_is_overtaken_while_it_is_read_is_not_damage() {
    for write in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let options = Options::new().kind(Kind::Fingerprint).buffer(256 << 10);
        let options = options.background(false).measured(false);
        let store = Arc::new(options.create(&path).unwrap());
        let insert = |store: &Store, round: u64| {
            let keys: Vec<u64> = (round * 5000..(round + 1) * 5000).collect();
            store.insert_batch(&keys).unwrap();
            store.checkpoint().unwrap();
        };
        insert(&store, 0);
        let writer = Arc::clone(&store);
        let hook: Hook = Arc::new(Mutex::new(Some(Box::new(move || {
            (1..5).for_each(|round| insert(&writer, round));
        }))));
        let storage = Arc::new(Hooked(Arc::clone(&hook)));
        let hooked = options.clone().storage(storage);
        let opened = match write {
            true => hooked.open(&path).unwrap(),
            false => hooked.open_read_only(&path).unwrap(),
        };
        assert!(hook.lock().unwrap().is_none());
        let keys: Vec<u64> = (0..25_000).collect();
        let found = opened.contains_batch(&keys).unwrap();
        assert!(found.iter().all(|found| *found));
    }
}

/// Lets a checkpoint of another thread write so many times, and then halts it.
#[derive(Default)]
struct Gate(Mutex<Writes>, Condvar);

#[derive(Default)]
struct Writes {
    done: u64,
    allowed: u64,
    waits: bool,
    is_over: bool,
}

impl Gate {
    fn pass(&self) {
        let mut writes = self.0.lock().unwrap();
        while writes.done >= writes.allowed {
            writes.waits = true;
            self.1.notify_all();
            writes = self.1.wait(writes).unwrap();
        }
        writes.done += 1;
    }

    /// Allows more writes, and waits for the one behind them.
    fn allow(&self, more: u64) {
        let mut writes = self.0.lock().unwrap();
        // What closing writes is nothing to wait for.
        writes.allowed = match writes.is_over {
            true => u64::MAX,
            false => writes.done.saturating_add(more),
        };
        writes.waits = false;
        self.1.notify_all();
        let goes_on = |writes: &mut Writes| !writes.waits && !writes.is_over;
        drop(self.1.wait_while(writes, goes_on).unwrap());
    }

    fn end(&self) {
        self.0.lock().unwrap().is_over = true;
        self.1.notify_all();
    }
}

/// Returns a storage all of whose writes but those to logs pass a gate.
fn behind(gate: &Arc<Gate>) -> Arc<hooked::Hooked> {
    let own = Arc::clone(gate);
    let at_gate = move |point: Point<'_>| {
        if point.call == Call::Write && !point.is_log() {
            own.pass();
        }
    };
    hooked::Hooked::new(Unsynced::new(), Arc::new(at_gate))
}

/// Opens the gate at its end, whatever that is.
struct Opening<'a>(&'a Gate);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().allowed = u64::MAX;
        self.0.1.notify_all();
    }
}

/// Two steps of one checkpoint write over a directory too, and leave the generations as they are.
#[test]
fn a_directory_that_two_steps_overtake_is_no_damage_either() {
    let mut overtaken = 0;
    for first in (5..60).step_by(2) {
        let (_folder, path) = place();
        let gate: Arc<Gate> = Arc::default();
        gate.0.lock().unwrap().allowed = u64::MAX;
        let gated = behind(&gate);
        let store = steps::options().storage(gated).create(&path).unwrap();
        steps::insert(&store, 0..steps::OLD);
        store.checkpoint().unwrap();
        let hook: Hook = Arc::default();
        let storage = Arc::new(Hooked(Arc::clone(&hook)));
        let other = steps::options().storage(storage).open(&path).unwrap();
        steps::insert(&store, steps::OLD..steps::OLD + steps::NEW);
        gate.0.lock().unwrap().allowed = 0;
        std::thread::scope(|scope| {
            let checkpoint = scope.spawn(|| {
                let outcome = store.checkpoint();
                gate.end();
                outcome
            });
            let opening = Opening(&gate);
            gate.allow(first);
            let (others, of) = (Arc::clone(&gate), path.clone());
            let versions = Arc::new(Mutex::new(None));
            let seen = Arc::clone(&versions);
            *hook.lock().unwrap() = Some(Box::new(move || {
                let before = steps::named(&of).version;
                others.allow(25);
                *seen.lock().unwrap() = Some((before, steps::named(&of)));
            }));
            // Many keys at once would be looked up once more, one by one.
            assert!(other.contains(key(0)).unwrap(), "at write {first}");
            let all = steps::OLD + steps::NEW;
            assert_eq!(steps::found(&other, 0..all), all, "at write {first}");
            if let Some((before, after)) = versions.lock().unwrap().take()
                && after.is_partly_merged
                && after.version >= before + 4
            {
                overtaken += 1;
            }
            drop(opening);
            checkpoint.join().unwrap().unwrap();
        });
    }
    println!("{overtaken} directories overtaken");
    assert!(overtaken > 5, "{overtaken} are few");
}

/// Two steps overtake a look-up, and before it goes on in a newer view, another handle removes the key and does not commit
/// that. Nothing rotates meanwhile.
#[test]
fn a_look_up_that_was_overtaken_finds_what_another_handle_has_not_yet_removed() {
    /// Keys of which another handle removes every second one.
    const LOOKED_UP: u64 = 16;
    let mut overtaken = 0;
    for first in (5..60).step_by(2) {
        let (_folder, path) = place();
        let gate: Arc<Gate> = Arc::default();
        gate.0.lock().unwrap().allowed = u64::MAX;
        let gated = behind(&gate);
        let options = steps::options()
            .transactional(true)
            .storage(Unsynced::new());
        let store = options.clone().storage(gated).create(&path).unwrap();
        // A transaction has room for so many.
        let insert = |numbers: std::ops::Range<u64>| {
            for first in numbers.step_by(1000) {
                steps::insert(&store, first..first + 1000);
                store.commit().unwrap();
            }
        };
        insert(0..steps::OLD);
        store.checkpoint().unwrap();
        insert(steps::OLD..steps::OLD + steps::NEW);
        let removing = Arc::new(options.open(&path).unwrap());
        let hook: Hook = Arc::default();
        let storage = Arc::new(Hooked(Arc::clone(&hook)));
        let looking = options.clone().storage(storage).open(&path).unwrap();
        gate.0.lock().unwrap().allowed = 0;
        std::thread::scope(|scope| {
            let checkpoint = scope.spawn(|| {
                let outcome = store.checkpoint();
                gate.end();
                outcome
            });
            let opening = Opening(&gate);
            gate.allow(first);
            // Both handles get the view that is going to be stale.
            assert_eq!(steps::found(&looking, 0..LOOKED_UP), LOOKED_UP);
            assert_eq!(steps::found(&removing, 0..LOOKED_UP), LOOKED_UP);
            gate.allow(25);
            let handle = Arc::clone(&removing);
            *hook.lock().unwrap() = Some(Box::new(move || {
                for number in (0..LOOKED_UP).step_by(2) {
                    assert!(handle.remove(key(number)).unwrap(), "at {first}");
                    assert!(!handle.remove(key(number)).unwrap(), "at {first}");
                }
            }));
            assert!(looking.contains(key(0)).unwrap(), "at {first}");
            // Not every view was stale.
            let hook = hook.lock().unwrap().take();
            overtaken += u64::from(hook.is_none());
            hook.into_iter().for_each(|hook| hook());
            for number in 0..LOOKED_UP {
                let is_removed = number % 2 == 0;
                let hash = key(number);
                assert!(looking.contains(hash).unwrap(), "{number} at {first}");
                assert_eq!(removing.contains(hash).unwrap(), !is_removed);
                let (bits, mut verdict) = (looking.hasher().mix(hash), Vec::new());
                let claimed = [HashedKey::from_bits(bits)];
                looking.claim_into(&claimed, &mut verdict).unwrap();
                let expected = match is_removed {
                    true => Verdict::Pending,
                    false => Verdict::Seen,
                };
                assert_eq!(verdict, [expected], "{number} at {first}");
            }
            assert_eq!(steps::found(&looking, 0..LOOKED_UP), LOOKED_UP);
            drop(opening);
            checkpoint.join().unwrap().unwrap();
        });
        removing.commit().unwrap();
        assert_eq!(steps::found(&looking, 0..LOOKED_UP), LOOKED_UP / 2);
    }
    println!("{overtaken} views overtaken");
    assert!(overtaken > 5, "{overtaken} are few");
}
