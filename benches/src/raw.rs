//! What the disk itself can do, without anything of Everseen's in between.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};

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

/// Writes zeros to a range of a file.
///
/// # Errors
/// What the system says.
pub fn fill(file: &File, from: u64, bytes: u64) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    let mut done = 0;
    while done < bytes {
        let part = (bytes - done).min(zeros.len() as u64);
        file.write_all_at(&zeros[..part as usize], from + done)?;
        done += part;
    }
    Ok(())
}
