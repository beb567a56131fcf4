//! Dumps under way.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Header, Kind, PREFIX};
use crate::database::{Name, OpenStore, refused};
use crate::reply::Refusal;

/// A store of one moment, read piece by piece. Several of one key may be under way.
///
/// A cursor is a number: 0 begins a dump, and 1 is where its first piece behind the header begins. Those after it have the
/// dump's number above the place, so that each goes on with its own dump. Clients that know no integers above 2^53 have room.
#[derive(Debug)]
pub struct Dump {
    number: u64,
    name: Name,
    /// The connection that began it: its cursor 1 means this one.
    owner: u64,
    file: File,
    header: Header,
    used: Mutex<Instant>,
}

/// The dumps of all keys.
#[derive(Debug, Default)]
pub struct Dumps(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: u64,
    /// Dumps whose store is being copied.
    starting: usize,
    dumps: Vec<Arc<Dump>>,
}

/// Bits of a cursor that are a place.
const PLACE_BITS: u32 = 40;
const MOST_NUMBER: u64 = (1 << 12) - 1;

impl Dump {
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the next piece from a place in the file on, of at most so many bytes, and the cursor behind it.
    pub fn read(&self, place: u64, most: usize) -> io::Result<(u64, Vec<u8>)> {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let left = self.header.length.saturating_sub(place);
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(most);
        let mut piece = vec![0; length];
        self.file.read_exact_at(&mut piece, place)?;
        let next = place + length as u64 + 1;
        Ok((self.number << PLACE_BITS | next, piece))
    }

    fn idle(&self) -> Duration {
        self.used
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .elapsed()
    }
}

/// Returns the number of the dump and the place in its file to which a cursor leads: number 0 is whichever the connection
/// began. `None` where no dump's cursor is.
fn parts(cursor: u64) -> Option<(u64, u64)> {
    let (number, place) = (cursor >> PLACE_BITS, cursor & ((1 << PLACE_BITS) - 1));
    let place = place.checked_sub(1)?;
    let is_known = number <= MOST_NUMBER && (number > 0 || place == 0);
    is_known.then_some((number, place))
}

/// Returns where a piece ends in its file, by the cursor that came with it.
pub fn end_of_piece(cursor: i64) -> Option<u64> {
    let cursor = u64::try_from(cursor).ok()?;
    (cursor & ((1 << PLACE_BITS) - 1)).checked_sub(1)
}

impl Dumps {
    /// Dumps at once. Each takes as much of the disk as its store, where the file system can't share it.
    const MOST: usize = 16;
    /// How long one stays without another call.
    const IDLE: Duration = Duration::from_secs(300);

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a dump. One that the same connection began of the same key ends.
    pub fn begin(
        &self,
        folder: &Path,
        name: &Name,
        store: &OpenStore,
        kind: Kind,
        owner: u64,
    ) -> Result<Arc<Dump>, Refusal> {
        let number = self.state().start(name, owner)?;
        let path = folder.join(format!("{PREFIX}dump-{}-{number}", std::process::id()));
        let copied = copied(store, &path);
        let mut state = self.state();
        state.starting -= 1;
        let (file, length, crc) = copied?;
        let dump = Arc::new(Dump {
            number,
            name: name.clone(),
            owner,
            file,
            header: Header { kind, length, crc },
            used: Mutex::new(Instant::now()),
        });
        state.dumps.push(Arc::clone(&dump));
        Ok(dump)
    }

    /// Returns the dump to which a cursor leads, and the place in it. `None` where no dump's cursor is; an error if the dump
    /// has ended.
    pub fn find(
        &self,
        name: &Name,
        cursor: u64,
        owner: u64,
    ) -> Result<Option<(Arc<Dump>, u64)>, Refusal> {
        let Some((number, place)) = parts(cursor) else {
            return Ok(None);
        };
        let state = self.state();
        let mut own = state.dumps.iter().filter(|dump| dump.name == *name);
        let found = match number {
            // Of another connection's, the latest: clients may have several connections.
            0 => own
                .clone()
                .rfind(|dump| dump.owner == owner)
                .or_else(|| own.next_back()),
            number => own.find(|dump| dump.number == number),
        };
        match found {
            Some(dump) => Ok(Some((Arc::clone(dump), place))),
            None => Err(Refusal::new(
                "ERR this dump has ended, or nobody went on with it for too long: begin again with 0",
            )),
        }
    }

    /// Ends a dump.
    pub fn end(&self, dump: &Arc<Dump>) {
        self.state().dumps.retain(|other| !Arc::ptr_eq(other, dump));
    }

    /// Ends those that were left.
    pub fn end_idle(&self) {
        self.state().dumps.retain(|dump| dump.idle() < Self::IDLE);
    }
}

impl State {
    /// Takes a number for a dump that starts now.
    fn start(&mut self, name: &Name, owner: u64) -> Result<u64, Refusal> {
        self.dumps
            .retain(|dump| dump.owner != owner || dump.name != *name);
        if self.dumps.len() + self.starting >= Dumps::MOST {
            return Err(Refusal::of(&format!(
                "ERR {} dumps are under way, and no more may be",
                Dumps::MOST
            )));
        }
        self.starting += 1;
        // Those under way are far fewer than there are numbers.
        loop {
            self.last = self.last % MOST_NUMBER + 1;
            if self.dumps.iter().all(|dump| dump.number != self.last) {
                return Ok(self.last);
            }
        }
    }
}

/// Returns a copy of a store, which has no name any more, with its length and CRC.
fn copied(store: &OpenStore, path: &Path) -> Result<(File, u64, u32), Refusal> {
    store.store.snapshot(path)?;
    let opened = File::open(path);
    fs::remove_file(path).map_err(|error| refused(&error))?;
    let file = opened.map_err(|error| refused(&error))?;
    let (length, crc) = summed(&file).map_err(|error| refused(&error))?;
    match length >> PLACE_BITS {
        0 => Ok((file, length, crc)),
        _ => Err(Refusal::new(
            "ERR the store is too large for a dump: take a snapshot with the command",
        )),
    }
}

/// Returns the length and the CRC of a file.
fn summed(file: &File) -> io::Result<(u64, u32)> {
    let length = file.metadata()?.len();
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < length {
        let piece = usize::try_from(length - at).unwrap_or(usize::MAX);
        let piece = piece.min(buffer.len());
        file.read_exact_at(&mut buffer[..piece], at)?;
        hasher.update(&buffer[..piece]);
        at += piece as u64;
    }
    Ok((length, hasher.finalize()))
}

#[cfg(test)]
mod tests {
    use super::{end_of_piece, parts};

    #[test]
    fn a_cursor_has_the_number_of_its_dump() {
        let high = 7_u64 << 40;
        for (cursor, expected) in [
            (0, None),
            (1, Some((0, 0))),
            (2, None),
            (146, None),
            (high, None),
            (high | 1, Some((7, 0))),
            (high | 4097, Some((7, 4096))),
            (1 << 52 | 1, None),
            (i64::MAX as u64, None),
        ] {
            assert_eq!(parts(cursor), expected, "{cursor}");
        }
        assert_eq!(end_of_piece((7 << 40) + 4097), Some(4096));
        assert_eq!(end_of_piece(0), None);
        assert_eq!(end_of_piece(-1), None);
    }
}
