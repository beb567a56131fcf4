//! A disk that calls a function before each call, and in the middle of each write and behind it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everseen::testing::Map;
use everseen::testing::storage::{Storage, StorageFile};

use super::task::Counted;

/// A call to the file system, by what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Write,
    /// It is done, and has not returned.
    Written,
    Sync,
    Remove,
    Other,
}

/// A moment of a call to the file system.
#[derive(Debug, Clone, Copy)]
pub struct Point<'a> {
    pub path: &'a Path,
    pub call: Call,
}

impl Point<'_> {
    pub fn is_log(&self) -> bool {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().contains("-log.")
    }
}

pub type Hook = Arc<dyn Fn(Point<'_>) + Send + Sync>;

#[derive(Clone)]
pub struct Hooked {
    inner: Arc<dyn Storage>,
    hook: Hook,
}

impl Hooked {
    pub fn new(inner: Arc<dyn Storage>, hook: Hook) -> Arc<Self> {
        Arc::new(Self { inner, hook })
    }

    /// Ends the process at the `stop`th of the points that count, or halts it.
    pub fn stopping(inner: Arc<dyn Storage>, counted: Counted, stop: u64) -> Arc<Self> {
        let points = AtomicU64::new(0);
        let hook = move |point: Point<'_>| {
            let counts = match counted {
                Counted::All | Counted::Halt => true,
                Counted::Pages => point.call == Call::Write && !point.is_log(),
                Counted::Records => point.call == Call::Written && point.is_log(),
            };
            if counts && points.fetch_add(1, Ordering::Relaxed) == stop {
                match counted {
                    Counted::Halt => halt(),
                    _ => std::process::abort(),
                }
            }
        };
        Self::new(inner, Arc::new(hook))
    }

    fn at(&self, path: &Path, call: Call) {
        (self.hook)(Point { path, call });
    }

    fn file(&self, inner: Arc<dyn StorageFile>, path: &Path) -> Arc<dyn StorageFile> {
        Arc::new(HookedFile {
            inner,
            hook: Arc::clone(&self.hook),
            path: path.to_owned(),
        })
    }
}

/// Halts this process, until somebody has it go on.
fn halt() {
    let process = std::process::id().to_string();
    let sent = Command::new("kill").args(["-STOP", &process]).status();
    assert!(sent.unwrap().success());
}

impl fmt::Debug for Hooked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Hooked")
    }
}

impl Storage for Hooked {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        self.at(path, Call::Other);
        Ok(self.file(self.inner.create_new(path)?, path))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Arc<dyn StorageFile>> {
        self.at(path, Call::Other);
        Ok(self.file(self.inner.open(path, write)?, path))
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.at(to, Call::Other);
        self.inner.publish(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.at(path, Call::Remove);
        self.inner.remove(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.at(folder, Call::Other);
        self.inner.sync_folder(folder)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.at(path, Call::Other);
        self.inner.exists(path)
    }
}

struct HookedFile {
    inner: Arc<dyn StorageFile>,
    hook: Hook,
    path: PathBuf,
}

impl HookedFile {
    fn at(&self, call: Call) {
        let path = &self.path;
        (self.hook)(Point { path, call });
    }
}

impl fmt::Debug for HookedFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(out)
    }
}

impl StorageFile for HookedFile {
    fn length(&self) -> io::Result<u64> {
        self.at(Call::Other);
        self.inner.length()
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.at(Call::Other);
        self.inner.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.at(Call::Write);
        // Not at half, where a page or a sector may end.
        let cut = bytes.len() / 8 * 5;
        let mut done = 0;
        while done < cut {
            done += self
                .inner
                .write_at(&bytes[done..cut], offset + done as u64)?;
        }
        self.at(Call::Write);
        while done < bytes.len() {
            done += self.inner.write_at(&bytes[done..], offset + done as u64)?;
        }
        self.at(Call::Written);
        Ok(done)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.at(Call::Other);
        self.inner.set_length(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.at(Call::Other);
        self.inner.allocate(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.at(Call::Sync);
        self.inner.sync()
    }

    fn map(&self, offset: u64, length: u64) -> io::Result<Map> {
        self.at(Call::Other);
        self.inner.map(offset, length)
    }
}
