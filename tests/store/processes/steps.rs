//! What others see at each call to the file system of a rotation, a checkpoint and a close.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everseen::testing::Options;
use everseen::{Error, Kind, Store, Verdict};

use super::hooked::Hooked;
use super::task::{Task, key, keys};
use crate::support::share::all_or;
use crate::support::unsynced::Unsynced;

fn options(kind: Kind, transactional: bool, path: &Path) -> Options {
    let task = Task::new(kind, transactional, 1 << 13, path);
    task.options().storage(Unsynced::new())
}

/// Calls a function at each point of a handle's calls while it is armed.
struct Watch {
    armed: Arc<AtomicBool>,
    points: Arc<AtomicU64>,
}

impl Watch {
    fn new(options: Options, look: impl Fn() + Send + Sync + 'static) -> (Self, Options) {
        let watch = Self {
            armed: Arc::default(),
            points: Arc::default(),
        };
        let (armed, points) = (Arc::clone(&watch.armed), Arc::clone(&watch.points));
        let hook = move |_: super::hooked::Point<'_>| {
            if armed.load(Ordering::Acquire) {
                points.fetch_add(1, Ordering::Relaxed);
                look();
            }
        };
        let disk = Hooked::new(Unsynced::new(), Arc::new(hook));
        (watch, options.storage(disk))
    }

    fn during(&self, run: impl FnOnce()) {
        self.armed.store(true, Ordering::Release);
        run();
        self.armed.store(false, Ordering::Release);
        assert!(self.points.load(Ordering::Relaxed) > 20);
    }
}

#[test]
fn a_pending_key_is_never_seen_while_a_third_handle_rotates() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = options(Kind::Bloom, true, &path);
    let owner = options.clone().writer("owner").create(&path).unwrap();
    let asks = options.clone().timeout(Duration::ZERO).open(&path).unwrap();
    let (watch, hooked) = Watch::new(options.writer("rotates"), move || {
        let verdict = asks.claim(key(1));
        assert!(
            matches!(verdict, Ok(Verdict::Pending) | Err(Error::Busy { .. })),
            "{verdict:?}"
        );
        assert!(asks.contains(key(2)).unwrap());
    });
    let rotates = hooked.open(&path).unwrap();
    // Its transaction is not the first of the buffer.
    assert!(rotates.insert(key(2)).unwrap());
    rotates.commit().unwrap();
    assert!(owner.insert(key(1)).unwrap());
    watch.during(|| rotates.checkpoint().unwrap());
    owner.commit().unwrap();
    watch.armed.store(false, Ordering::Release);
    assert_eq!(rotates.claim(key(1)).unwrap(), Verdict::Seen);
}

#[test]
fn what_is_acknowledged_is_there_at_each_step_of_a_checkpoint() {
    for kind in [Kind::Bloom, Kind::Scalable, Kind::Fingerprint] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let options = options(kind, false, &path);
        let other = options.create(&path).unwrap();
        let reader = options.open_read_only(&path).unwrap();
        let (watch, hooked) = Watch::new(options, move || {
            for store in [&other, &reader] {
                let found = store.contains_batch(&keys(0..600)).unwrap();
                assert!(found.iter().all(|found| *found));
                assert!(!store.contains(key(600)).unwrap());
            }
        });
        let store = hooked.open(&path).unwrap();
        store.insert_batch(&keys(0..300)).unwrap();
        store.checkpoint().unwrap();
        store.insert_batch(&keys(300..600)).unwrap();
        watch.during(|| store.checkpoint().unwrap());
    }
}

/// A reader is in the midst of looking for a key when the last writer closes the store.
#[test]
fn a_reader_does_not_take_the_end_for_an_absence() {
    for kind in [Kind::Bloom, Kind::Scalable, Kind::Fingerprint] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let options = options(kind, false, &path);
        let writer = Arc::new(Mutex::new(Some(options.create(&path).unwrap())));
        let taken = Arc::clone(&writer);
        let (watch, hooked) = Watch::new(options, move || {
            let writer: Option<Store> = taken.lock().unwrap().take();
            if let Some(writer) = writer {
                writer.close().unwrap();
            }
        });
        let reader = hooked.open_read_only(&path).unwrap();
        {
            let held = writer.lock().unwrap();
            let store = held.as_ref().unwrap();
            store.insert_batch(&keys(0..300)).unwrap();
            store.checkpoint().unwrap();
            store.insert_batch(&keys(300..600)).unwrap();
        }
        watch.armed.store(true, Ordering::Release);
        let answer = reader.contains(key(599));
        assert!(writer.lock().unwrap().is_none());
        assert!(matches!(answer, Ok(true) | Err(Error::Ended)), "{answer:?}");
        assert!(matches!(reader.contains(key(599)), Err(Error::Ended)));
    }
}

/// Checkpoints write the room of a directory again between one call of somebody who opens the store and the next.
#[test]
fn who_opens_a_store_whose_room_is_written_again_finds_it_whole() {
    for (reads, nth) in [false, true]
        .into_iter()
        .flat_map(|reads| (0..40).map(move |nth| (reads, nth)))
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let options = options(Kind::Fingerprint, false, &path);
        let writer = options.create(&path).unwrap();
        writer.insert_batch(&keys(0..300)).unwrap();
        writer.checkpoint().unwrap();
        let calls = AtomicU64::new(0);
        let (watch, hooked) = Watch::new(options, move || {
            if calls.fetch_add(1, Ordering::Relaxed) == nth {
                for first in [300, 310, 320] {
                    writer.insert_batch(&keys(first..first + 10)).unwrap();
                    writer.checkpoint().unwrap();
                }
            }
        });
        watch.armed.store(true, Ordering::Release);
        let store = match reads {
            true => hooked.open_read_only(&path),
            false => hooked.open(&path),
        };
        let store = store.unwrap_or_else(|error| panic!("call {nth}, reads {reads}: {error}"));
        watch.armed.store(false, Ordering::Release);
        let found = store.contains_batch(&keys(0..300)).unwrap();
        assert!(
            found.iter().all(|found| *found),
            "call {nth}, reads {reads}"
        );
    }
}

/// A store grows a layer between one call of somebody who looks at it and the next.
#[test]
fn who_looks_at_a_store_that_grows_finds_it_whole() {
    let mut reached = 0;
    for stop in (0..40).step_by(all_or(1, 3)) {
        for writes in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store");
            let options = options(Kind::Scalable, false, &path);
            let impatient = options.clone().timeout(Duration::ZERO);
            let grows = Arc::new(impatient.create(&path).unwrap());
            let (points, other) = (AtomicU64::new(0), Arc::clone(&grows));
            let (watch, hooked) = Watch::new(options, move || {
                if points.fetch_add(1, Ordering::Relaxed) == stop {
                    // Who opens for writing holds a lock at times.
                    let done = other.checkpoint();
                    assert!(matches!(done, Ok(()) | Err(Error::Busy { .. })), "{done:?}");
                }
            });
            let early = hooked.open_read_only(&path).unwrap();
            grows.insert_batch(&keys(0..300)).unwrap();
            grows.checkpoint().unwrap();
            grows.insert_batch(&keys(300..2000)).unwrap();
            watch.armed.store(true, Ordering::Release);
            let looks = |store: &Store| {
                let found = store.contains_batch(&keys(0..2000)).unwrap();
                assert!(found.iter().all(|found| *found), "at point {stop}");
            };
            if stop % 2 == 0 {
                looks(&early);
            }
            looks(&match writes {
                true => hooked.open(&path).unwrap(),
                false => hooked.open_read_only(&path).unwrap(),
            });
            watch.armed.store(false, Ordering::Release);
            reached += u64::from(watch.points.load(Ordering::Relaxed) > stop);
        }
    }
    assert!(reached > all_or(20, 7), "{reached}");
}

/// A reader opened the store when nobody wrote to it, and looks at it while somebody does.
#[test]
fn a_snapshot_finds_no_damage_while_a_later_writer_is_at_its_pages() {
    for kind in [Kind::Bloom, Kind::Scalable, Kind::Fingerprint] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let options = options(kind, false, &path);
        let store = options.create(&path).unwrap();
        store.insert_batch(&keys(0..700)).unwrap();
        store.close().unwrap();
        // A page is checked at its first use: each reader is good for one look.
        let readers: Vec<_> = (0..200)
            .map(|_| options.open_read_only(&path).unwrap())
            .collect();
        let readers = Mutex::new(readers);
        let (watch, hooked) = Watch::new(options, move || {
            let reader = readers.lock().unwrap().pop();
            if let Some(reader) = reader {
                let found = reader.contains_batch(&keys(0..700)).unwrap();
                assert!(found.iter().all(|found| *found));
                assert!(!reader.contains(key(5000)).unwrap());
            }
        });
        let store = hooked.open(&path).unwrap();
        store.insert_batch(&keys(700..900)).unwrap();
        watch.during(|| store.checkpoint().unwrap());
    }
}

/// The names of a store and its logs, as a process that dies now leaves them.
fn remains(store: &Path) -> Vec<std::ffi::OsString> {
    let beside = ["-shm"];
    let names = std::fs::read_dir(store.parent().unwrap()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names
        .filter(|name| {
            !beside
                .iter()
                .any(|part| name.to_string_lossy().contains(part))
        })
        .collect();
    names.sort();
    names
}

#[test]
fn no_log_outlives_two_deaths_in_a_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = options(Kind::Bloom, false, &path).background(false);
    let store = options.create(&path).unwrap();
    assert!(store.insert(key(1)).unwrap());
    store.commit().unwrap();
    let log = remains(&path)[1].clone();
    let saved = std::fs::read(folder.path().join(&log)).unwrap();
    store.checkpoint().unwrap();
    // Who was at the checkpoint died before it removed the log.
    std::fs::write(folder.path().join(&log), saved).unwrap();

    // And so does the next, at any point of its own.
    let (from, opens) = (path.clone(), options.clone());
    let (watch, hooked) = Watch::new(options, move || {
        let image = tempfile::tempdir().unwrap();
        for name in remains(&from) {
            std::fs::copy(from.with_file_name(&name), image.path().join(&name)).unwrap();
        }
        let path = image.path().join("store");
        let store = opens.open(&path).unwrap();
        assert!(store.contains(key(1)).unwrap() && store.contains(key(2)).unwrap());
        store.close().unwrap();
        assert_eq!(remains(&path), ["store"]);
    });
    let next = hooked.open(&path).unwrap();
    assert!(next.insert(key(2)).unwrap());
    watch.during(|| next.checkpoint().unwrap());
    drop(store);
    next.close().unwrap();
    assert_eq!(remains(&path), ["store"]);
}
