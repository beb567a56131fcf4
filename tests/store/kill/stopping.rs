//! A disk that stops at a given call and waits there for the process to be killed.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everseen::testing::Map;
use everseen::testing::storage::{Storage, StorageFile};

use super::task::{Pipe, Told};
use crate::support::numbers::finalise;

/// Counts the calls that change something. A write counts twice: before it, and in its middle.
#[derive(Debug)]
struct Counter {
    stop: u64,
    points: AtomicU64,
    halt: Arc<Halt>,
    pipe: Arc<Pipe>,
}

impl Counter {
    fn reached(&self) -> bool {
        self.points.fetch_add(1, Ordering::Relaxed) == self.stop
    }

    fn step(&self) {
        if self.reached() {
            self.wait();
        }
    }

    fn wait(&self) -> ! {
        self.halt.stopped.store(true, Ordering::SeqCst);
        while self.halt.watched.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        self.pipe.tell_forever(Told::Stopped);
    }
}

/// Between the thread that has come to where it was to stop and one that watches it.
#[derive(Debug, Default)]
pub struct Halt {
    stopped: AtomicBool,
    watched: AtomicBool,
}

impl Halt {
    /// Whether a call waits for the kill.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// From now on another thread tells that work has stopped, or no longer does.
    pub fn watch(&self, watched: bool) {
        self.watched.store(watched, Ordering::SeqCst);
    }
}

#[derive(Debug)]
pub struct Stopping {
    inner: Arc<dyn Storage>,
    counter: Arc<Counter>,
}

impl Stopping {
    pub fn new(inner: Arc<dyn Storage>, stop: u64, halt: &Arc<Halt>, pipe: &Arc<Pipe>) -> Self {
        Self {
            inner,
            counter: Arc::new(Counter {
                stop,
                points: AtomicU64::new(0),
                halt: Arc::clone(halt),
                pipe: Arc::clone(pipe),
            }),
        }
    }

    fn wrap(&self, file: Arc<dyn StorageFile>) -> Arc<dyn StorageFile> {
        Arc::new(StoppingFile {
            inner: file,
            counter: Arc::clone(&self.counter),
        })
    }
}

impl Storage for Stopping {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        self.counter.step();
        Ok(self.wrap(self.inner.create_new(path)?))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn StorageFile>> {
        Ok(self.wrap(self.inner.open(path, write)?))
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.counter.step();
        self.inner.publish(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.counter.step();
        self.inner.remove(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.counter.step();
        self.inner.sync_folder(folder)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }
}

#[derive(Debug)]
struct StoppingFile {
    inner: Arc<dyn StorageFile>,
    counter: Arc<Counter>,
}

impl StorageFile for StoppingFile {
    fn length(&self) -> io::Result<u64> {
        self.inner.length()
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.counter.step();
        if self.counter.reached() {
            let cut = cut(bytes.len() as u64, finalise(self.counter.stop + 1)) as usize;
            let mut done = 0;
            while done < cut {
                done += self
                    .inner
                    .write_at(&bytes[done..cut], offset + done as u64)?;
            }
            self.counter.wait();
        }
        self.inner.write_at(bytes, offset)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.counter.step();
        self.inner.set_length(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.counter.step();
        self.inner.allocate(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.counter.step();
        self.inner.sync()
    }

    fn map(&self, offset: u64, length: u64) -> io::Result<Map> {
        self.inner.map(offset, length)
    }
}

/// Where a write of `length` bytes is cut: anywhere, or within the header of one of its pages.
fn cut(length: u64, random: u64) -> u64 {
    let anywhere = random % length.max(1);
    if random >> 63 == 0 {
        return anywhere;
    }
    let header = anywhere - anywhere % 4096 + (random >> 32) % 16;
    header.min(length)
}
