//! What the disk itself can do, without anything of Everseen's in between.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, FallocateFlags, OFlags, fadvise, fallocate};

use crate::keys::hash;

/// Room is reserved in steps of this, in bytes, as in a log that has grown long.
const STEP: u64 = 64 << 20;

/// A file to whose end records are appended, each made durable before the next.
#[derive(Debug)]
pub struct Appended {
    file: File,
    end: u64,
    room: u64,
    zeroed: bool,
}

impl Appended {
    /// A new file with room at its end that is only reserved, or with `zeroed` written full of
    /// zeros and durable.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path, zeroed: bool) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        let mut made = Self {
            file,
            end: 0,
            room: 0,
            zeroed,
        };
        made.make_room()?;
        made.file.sync_all()?;
        Ok(made)
    }

    fn make_room(&mut self) -> io::Result<()> {
        if self.zeroed {
            fill(&self.file, self.room, STEP)?;
        } else {
            let flags = FallocateFlags::empty();
            fallocate(&self.file, flags, 0, self.room + STEP)?;
        }
        self.room += STEP;
        Ok(())
    }

    /// Appends a record by one call, and makes it durable by one call.
    ///
    /// # Errors
    /// What the system says.
    pub fn append(&mut self, record: &[u8]) -> io::Result<()> {
        if self.end + record.len() as u64 > self.room {
            self.make_room()?;
        }
        self.file.write_all_at(record, self.end)?;
        self.end += record.len() as u64;
        self.file.sync_data()
    }
}

/// Writes zeros to a range of a file, and makes them durable as it goes: under a limit of memory that
/// the system doesn't hold writers to, too much that waits for the disk ends the process.
///
/// # Errors
/// What the system says.
pub fn fill(file: &File, from: u64, bytes: u64) -> io::Result<()> {
    let zeros = vec![0; LARGE];
    let mut done = 0;
    while done < bytes {
        let part = (bytes - done).min(zeros.len() as u64);
        file.write_all_at(&zeros[..part as usize], from + done)?;
        file.sync_data()?;
        done += part;
    }
    Ok(())
}

/// Reads all of a file, so that as much of it as fits is in the page cache.
///
/// # Errors
/// What the system says.
pub fn read_through(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    let mut bytes = vec![0; LARGE];
    let mut offset = 0;
    loop {
        match file.read_at(&mut bytes, offset)? {
            0 => return Ok(()),
            read => offset += read as u64,
        }
    }
}

/// Writes a file back and drops its pages from the page cache. Those that somebody has mapped stay.
///
/// # Errors
/// What the system says.
pub fn drop_from_cache(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
}

const SMALL: usize = 4096;
const LARGE: usize = 4 << 20;

/// Memory at an address that direct reads and writes can use.
#[derive(Debug)]
struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    fn new(length: usize) -> Self {
        let bytes = vec![0; length + SMALL];
        let start = bytes.as_ptr().align_offset(SMALL);
        Self {
            bytes,
            start,
            length,
        }
    }

    fn get(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

fn open_direct(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(OFlags::DIRECT.bits() as i32)
        .open(path)
}

/// Writes a file of this many bytes from front to end, past the page cache, and makes it durable.
/// Answers bytes a second.
///
/// # Errors
/// What the system says: not every file system can do without the page cache.
pub fn write_sequentially(path: &Path, length: u64) -> io::Result<f64> {
    let file = open_direct(path)?;
    let mut memory = Aligned::new(LARGE);
    for (place, byte) in (0..).zip(memory.get()) {
        *byte = hash(place) as u8;
    }
    let begun = Instant::now();
    for offset in (0..length).step_by(LARGE) {
        file.write_all_at(memory.get(), offset)?;
    }
    file.sync_data()?;
    Ok(length.next_multiple_of(LARGE as u64) as f64 / begun.elapsed().as_secs_f64())
}

/// Reads a file from front to end, past the page cache. Answers bytes a second.
///
/// # Errors
/// What the system says.
pub fn read_sequentially(path: &Path) -> io::Result<f64> {
    let file = open_direct(path)?;
    let length = file.metadata()?.len();
    let mut memory = Aligned::new(LARGE);
    let begun = Instant::now();
    for offset in (0..length).step_by(LARGE) {
        file.read_exact_at(memory.get(), offset)?;
    }
    Ok(length as f64 / begun.elapsed().as_secs_f64())
}

/// Reads pages of a file at random, past the page cache, this many at once, for a time. Answers reads
/// a second.
///
/// # Errors
/// What the system says.
pub fn read_randomly(path: &Path, at_once: u64, time: Duration) -> io::Result<f64> {
    let file = open_direct(path)?;
    let pages = file.metadata()?.len() / SMALL as u64;
    let reads = AtomicU64::new(0);
    let begun = Instant::now();
    let read = || -> io::Result<()> {
        let mut memory = Aligned::new(SMALL);
        while begun.elapsed() < time {
            let draw = hash(reads.fetch_add(1, Ordering::Relaxed));
            file.read_exact_at(memory.get(), draw % pages * SMALL as u64)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..at_once).map(|_| scope.spawn(read)).collect();
        for reader in readers {
            let done = reader.join();
            done.map_err(|_| io::Error::other("a reader panicked"))??;
        }
        Ok(reads.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_aligned_has_its_length() {
        let mut memory = Aligned::new(SMALL);
        assert_eq!(memory.get().len(), SMALL);
        assert_eq!(memory.get().as_ptr() as usize % SMALL, 0);
    }
}
