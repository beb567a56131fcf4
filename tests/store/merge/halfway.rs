//! A page that is half written just as it is read.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use everseen::testing::Map;
use everseen::testing::storage::{Storage, StorageFile, disk};

use super::pages::{Bench, assert_holds, merge};
use crate::support::files::{keys, small};
use crate::support::patience::PATIENCE;

/// Where pages begin, and what of the first one is written before the pause.
const PAGES: u64 = 131_072;
const HALF: usize = 2048;

/// The pause of a write: told when it begins, and ended from outside.
#[derive(Debug)]
struct Pause {
    armed: AtomicBool,
    begun: Sender<()>,
    ended: Mutex<Receiver<()>>,
}

/// A disk that stops in the middle of a page, once.
#[derive(Debug)]
struct Halting {
    disk: Arc<dyn Storage>,
    store: PathBuf,
    pause: Arc<Pause>,
}

#[derive(Debug)]
struct HaltingFile {
    file: Arc<dyn StorageFile>,
    pause: Arc<Pause>,
}

impl Storage for Halting {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        self.disk.create_new(path)
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn StorageFile>> {
        let file = self.disk.open(path, write)?;
        if path != self.store {
            return Ok(file);
        }
        let pause = Arc::clone(&self.pause);
        Ok(Arc::new(HaltingFile { file, pause }))
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.publish(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.disk.sync_folder(folder)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }
}

impl StorageFile for HaltingFile {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if offset >= PAGES && self.pause.armed.swap(false, Ordering::AcqRel) {
            let written = self.file.write_at(&bytes[..HALF], offset)?;
            self.pause.begun.send(()).unwrap();
            self.pause.ended.lock().unwrap().recv().unwrap();
            return Ok(written);
        }
        self.file.write_at(bytes, offset)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_length(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.file.allocate(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn map(&self, offset: u64, length: u64) -> io::Result<Map> {
        self.file.map(offset, length)
    }
}

#[test]
fn a_page_that_is_half_written_has_what_it_had_before() {
    let bench = Bench::new();
    let path = bench.make("one", &small().capacity(20_000).fpr(1e-6), &keys(0..5000));
    let (begun, torn) = channel();
    let (end, ended) = channel();
    let pause = Arc::new(Pause {
        armed: AtomicBool::new(false),
        begun,
        ended: Mutex::new(ended),
    });
    let halting = Halting {
        disk: disk(),
        store: path.clone(),
        pause: Arc::clone(&pause),
    };
    let writer = small().storage(Arc::new(halting)).open(&path).unwrap();
    writer.insert_batch(&keys(5000..6000)).unwrap();
    thread::scope(|scope| {
        let mut waits = true;
        let watched = merge().watch(|_, _| {
            // Everything acknowledged is in the pages, and none has been read yet.
            if std::mem::take(&mut waits) {
                writer.insert_batch(&keys(6000..8000)).unwrap();
                pause.armed.store(true, Ordering::Release);
                scope.spawn(|| writer.checkpoint().unwrap());
                torn.recv_timeout(PATIENCE).unwrap();
            }
            ControlFlow::Continue(())
        });
        let outcome = watched.union(bench.path("out"), &[&path]);
        end.send(()).unwrap();
        outcome.unwrap();
    });
    assert_holds(&bench.path("out"), &keys(0..6000));
    writer.close().unwrap();
    assert_holds(&path, &keys(0..8000));
}
