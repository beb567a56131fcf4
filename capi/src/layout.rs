//! Where the keys of a batch lie: in two arrays, or in a column with offsets of 32 or of 64 bits.

use std::cell::Cell;
use std::ffi::c_void;

use crate::border::In;
use crate::code::{EVERSEEN_ERROR_OFFSETS, EVERSEEN_ERROR_OUT_OF_MEMORY};
use crate::failure::Failure;

pub(crate) trait Layout {
    /// Gathers the keys as the library takes them.
    fn slices(&self) -> Result<Vec<&[u8]>, Failure>;

    fn count(&self) -> usize;

    /// Does some work with the keys.
    fn with_slices<T>(&self, work: impl FnOnce(&[&[u8]]) -> T) -> Result<T, Failure> {
        let slices = self.slices()?;
        let done = work(&slices);
        if slices.capacity() <= MOST_KEPT {
            let _ = ROOM.try_with(|room| room.set(emptied(slices)));
        }
        Ok(done)
    }
}

/// The most keys whose room a thread keeps: 4 MiB of it.
const MOST_KEPT: usize = 1 << 18;

thread_local! {
    /// Room for the keys of the thread's next batch. Fresh room for 100,000 keys takes as long as a tenth of looking them
    /// up, since the system hands it out page by page.
    static ROOM: Cell<Vec<&'static [u8]>> = const { Cell::new(Vec::new()) };
}

/// Returns the same room for keys that live longer or shorter.
fn emptied<'k>(mut slices: Vec<&[u8]>) -> Vec<&'k [u8]> {
    slices.clear();
    // The standard library collects where the items were.
    slices.into_iter().map(|_| unreachable!()).collect()
}

/// Gathers keys up to the first that can't be read.
fn gather<'k>(
    count: usize,
    keys: impl Iterator<Item = Option<&'k [u8]>>,
) -> Result<Vec<&'k [u8]>, Failure> {
    let kept = ROOM.try_with(Cell::take).unwrap_or_default();
    let mut slices = emptied(kept);
    if let Err(error) = slices.try_reserve_exact(count) {
        let text = format!("{count} keys: {error}");
        return Err(Failure::new(EVERSEEN_ERROR_OUT_OF_MEMORY, text));
    }
    slices.extend(keys.map_while(|key| key));
    Ok(slices)
}

/// An array of pointers, and one of lengths.
pub(crate) struct Arrays {
    keys: In<*const c_void>,
    lengths: In<usize>,
    count: usize,
}

impl Arrays {
    pub(crate) fn of(keys: In<*const c_void>, lengths: In<usize>, count: usize) -> Self {
        Self {
            keys,
            lengths,
            count,
        }
    }
}

impl Layout for Arrays {
    fn slices(&self) -> Result<Vec<&[u8]>, Failure> {
        let keys = self.keys.keys(&self.lengths, self.count)?;
        let slices = gather(self.count, keys)?;
        match slices.len() < self.count {
            true => Err(self.keys.unreadable(&self.lengths, slices.len())),
            false => Ok(slices),
        }
    }

    fn count(&self) -> usize {
        self.count
    }
}

/// All keys one behind the other, and where each begins and the last one ends.
pub(crate) struct Column<O> {
    bytes: In<c_void>,
    length: usize,
    offsets: In<O>,
    count: usize,
}

impl<O: Copy + TryInto<usize>> Layout for Column<O> {
    fn slices(&self) -> Result<Vec<&[u8]>, Failure> {
        if self.count == 0 {
            return Ok(Vec::new());
        }
        let bytes = self.bytes.bytes(self.length, "bytes")?;
        // No array has so many that another one is too many: they are refused, too.
        let offsets = self
            .offsets
            .slice(self.count.saturating_add(1), "offsets")?;
        let place = |offset: O| offset.try_into().unwrap_or(usize::MAX);
        let ends = offsets
            .windows(2)
            .map(|ends| (place(ends[0]), place(ends[1])));
        let keys = ends.map(|(begin, end)| bytes.get(begin..end));
        let slices = gather(self.count, keys)?;
        match offsets[slices.len()..] {
            [begin, end, ..] => Err(self.bad_offset(slices.len(), place(begin), place(end))),
            _ => Ok(slices),
        }
    }

    fn count(&self) -> usize {
        self.count
    }
}

impl<O> Column<O> {
    pub(crate) fn of((bytes, length): (In<c_void>, usize), offsets: In<O>, count: usize) -> Self {
        Self {
            bytes,
            length,
            offsets,
            count,
        }
    }

    #[cold]
    fn bad_offset(&self, key: usize, begin: usize, end: usize) -> Failure {
        let length = self.length;
        let name = |place: usize| match place {
            usize::MAX => "a negative offset".to_owned(),
            place => place.to_string(),
        };
        let (begin, end) = (name(begin), name(end));
        Failure::new(
            EVERSEEN_ERROR_OFFSETS,
            format!("offsets: key {key} goes from {begin} to {end}, and there are {length} bytes"),
        )
    }
}
