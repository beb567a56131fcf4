//! Locks on single bytes of a file among the handles of one process.
//!
//! A table of this process has them. As long as it has any of a file's, the process has that [file](process_lock) against
//! all other processes, which find every byte locked. The system frees a file when its process ends, however it ends.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::process_lock;
use crate::sys::clofork::CloforkFile;
use crate::sys::range_lock::Kind;
use crate::sys::{FileId, state_of};

/// A file, opened for its locks.
#[derive(Debug)]
pub(in crate::sys) struct Opened {
    file: CloforkFile,
    key: Key,
    /// Tells it from all others of this process.
    number: u64,
    process: u32,
}

type Key = (u64, u64);

/// A file that this process has.
struct OwnFile {
    /// The open file that has the system's lock. It may outlive the one whose copy it is.
    locked: CloforkFile,
    /// Which of the opened ones that was.
    number: u64,
    bytes: BTreeMap<u64, BTreeMap<u64, Kind>>,
}

struct Table {
    process: u32,
    files: BTreeMap<Key, OwnFile>,
}

static TABLE: Mutex<Table> = Mutex::new(Table {
    process: 0,
    files: BTreeMap::new(),
});

/// Returns the table of this process. A forked child begins with an empty one: what it inherits is its parent's.
fn table() -> MutexGuard<'static, Table> {
    let mut table = crate::sys::lock(&TABLE);
    let process = std::process::id();
    if table.process != process {
        table.process = process;
        table.files.clear();
    }
    table
}

impl Opened {
    pub(in crate::sys) fn open(open: impl FnMut() -> io::Result<File>) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let file = CloforkFile::open(open)?;
        let FileId { device, inode } = state_of(&file)?.id;
        Ok(Self {
            file,
            key: (device, inode),
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            process: std::process::id(),
        })
    }

    /// Returns whether this process opened it. What a forked child has of it is another file, or none.
    fn is_own(&self) -> bool {
        self.process == std::process::id()
    }

    /// Returns whether another open file has the system's lock. Must not be called for the one that has it.
    fn is_locked_elsewhere(&self) -> io::Result<bool> {
        if !self.is_own() {
            return Ok(true);
        }
        let is_free = process_lock::try_lock(&self.file)?;
        if is_free {
            process_lock::unlock(&self.file);
        }
        Ok(!is_free)
    }
}

impl Deref for Opened {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl OwnFile {
    /// Returns whether a lock of this kind conflicts with one of another handle.
    fn conflicts(&self, own: u64, kind: Kind, byte: u64) -> bool {
        let mut held = self.bytes.get(&byte).into_iter().flatten();
        held.any(|(number, held)| {
            *number != own && (kind == Kind::Exclusive || *held == Kind::Exclusive)
        })
    }
}

/// Takes or releases the lock; returns `false` if another handle or process prevents that.
pub(in crate::sys) fn set(opened: &Opened, kind: Kind, byte: u64) -> io::Result<bool> {
    let mut table = table();
    if kind == Kind::None {
        table.release(opened, byte);
        return Ok(true);
    }
    if !opened.is_own() {
        return Ok(false);
    }
    let own = match table.files.entry(opened.key) {
        Entry::Occupied(own) => own.into_mut(),
        Entry::Vacant(place) => {
            let locked = CloforkFile::open(|| opened.file.try_clone())?;
            if !process_lock::try_lock(&locked)? {
                return Ok(false);
            }
            place.insert(OwnFile {
                locked,
                number: opened.number,
                bytes: BTreeMap::new(),
            })
        }
    };
    if own.conflicts(opened.number, kind, byte) {
        return Ok(false);
    }
    let held = own.bytes.entry(byte).or_default();
    held.insert(opened.number, kind);
    Ok(true)
}

/// Returns whether another handle or process has a lock that conflicts with one of this kind.
pub(in crate::sys) fn is_held(opened: &Opened, kind: Kind, byte: u64) -> io::Result<bool> {
    let table = table();
    match table.files.get(&opened.key) {
        Some(own) => Ok(own.conflicts(opened.number, kind, byte)),
        None => opened.is_locked_elsewhere(),
    }
}

/// Returns whether another process has the file.
pub(in crate::sys) fn is_of_another_process(opened: &Opened) -> io::Result<bool> {
    let table = table();
    match table.files.contains_key(&opened.key) {
        true => Ok(false),
        false => opened.is_locked_elsewhere(),
    }
}

/// Returns whether a lock of another handle keeps other processes out, too: there are file systems that grant the same
/// lock twice.
pub(in crate::sys) fn excludes(opened: &Opened, byte: u64) -> io::Result<bool> {
    let table = table();
    match table.files.get(&opened.key) {
        Some(own) if own.number == opened.number => Ok(true),
        Some(own) if !own.conflicts(opened.number, Kind::Exclusive, byte) => Ok(false),
        _ => opened.is_locked_elsewhere(),
    }
}

impl Table {
    fn release(&mut self, opened: &Opened, byte: u64) {
        let Some(own) = self.files.get_mut(&opened.key) else {
            return;
        };
        if let Some(held) = own.bytes.get_mut(&byte) {
            held.remove(&opened.number);
            if held.is_empty() {
                own.bytes.remove(&byte);
            }
        }
        if own.bytes.is_empty() {
            process_lock::unlock(&own.locked);
            self.files.remove(&opened.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTE: u64 = 1 << 62;

    fn opened(path: &std::path::Path) -> Opened {
        Opened::open(|| File::options().read(true).write(true).open(path)).unwrap()
    }

    fn file() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        File::create_new(&path).unwrap();
        (folder, path)
    }

    /// Another open file stands for another process: the system makes no difference.
    #[test]
    fn what_another_process_has_is_locked_whatever_the_byte() {
        let (_folder, path) = file();
        let theirs = File::options().read(true).write(true).open(&path).unwrap();
        assert!(process_lock::try_lock(&theirs).unwrap());
        let own = opened(&path);
        for byte in [BYTE, BYTE + 1] {
            assert!(!set(&own, Kind::Shared, byte).unwrap());
            assert!(is_held(&own, Kind::Shared, byte).unwrap());
        }
        assert!(is_of_another_process(&own).unwrap());
        process_lock::unlock(&theirs);
        assert!(!is_of_another_process(&own).unwrap());
        assert!(set(&own, Kind::Shared, BYTE).unwrap());
        assert!(!process_lock::try_lock(&theirs).unwrap());
    }

    #[test]
    fn a_process_keeps_a_file_until_its_last_lock_goes() {
        let (_folder, path) = file();
        let theirs = File::options().read(true).write(true).open(&path).unwrap();
        let [one, other] = [opened(&path), opened(&path)];
        assert!(set(&one, Kind::Exclusive, BYTE).unwrap());
        assert!(excludes(&other, BYTE).unwrap() && !excludes(&other, BYTE + 1).unwrap());
        assert!(set(&other, Kind::Shared, BYTE + 1).unwrap());
        assert!(!is_of_another_process(&other).unwrap());
        set(&one, Kind::None, BYTE).unwrap();
        // Its open file has the system's lock, and is closed.
        drop(one);
        assert!(!process_lock::try_lock(&theirs).unwrap());
        set(&other, Kind::None, BYTE + 1).unwrap();
        assert!(process_lock::try_lock(&theirs).unwrap());
    }

    /// A test of the system's lock finds it free, and leaves it free.
    #[test]
    fn to_ask_takes_nothing() {
        let (_folder, path) = file();
        let theirs = File::options().read(true).write(true).open(&path).unwrap();
        let own = opened(&path);
        assert!(!is_held(&own, Kind::Exclusive, BYTE).unwrap());
        assert!(!excludes(&own, BYTE).unwrap());
        assert!(process_lock::try_lock(&theirs).unwrap());
    }

    /// The number of another process stands for a child's: what it inherits it may neither lock nor free.
    #[test]
    fn a_forked_child_neither_has_nor_frees_its_parents_lock() {
        let (_folder, path) = file();
        let theirs = File::options().read(true).write(true).open(&path).unwrap();
        let own = opened(&path);
        let inherited = Opened {
            process: own.process.wrapping_add(1),
            ..opened(&path)
        };
        assert!(!set(&inherited, Kind::Exclusive, BYTE).unwrap());
        assert!(is_held(&inherited, Kind::Exclusive, BYTE).unwrap());
        assert!(set(&own, Kind::Exclusive, BYTE).unwrap());
        assert!(set(&inherited, Kind::None, BYTE).unwrap());
        assert!(!process_lock::try_lock(&theirs).unwrap());
    }

    #[cfg(unix)]
    #[test]
    fn a_forked_child_keeps_no_lock_of_a_parent_that_ends() {
        use crate::sys::clofork::forked::Child;

        let (_folder, path) = file();
        let theirs = File::options().read(true).write(true).open(&path).unwrap();
        let own = opened(&path);
        assert!(set(&own, Kind::Exclusive, BYTE).unwrap());
        let _child = Child::fork(|| None);
        // As at the end of a killed process: all is closed, and nothing is unlocked.
        drop(table().files.remove(&own.key));
        drop(own);
        Child::wait_until(|| process_lock::try_lock(&theirs).unwrap());
    }
}
