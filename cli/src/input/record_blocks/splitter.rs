//! Cuts a stream of bytes into blocks of whole items.

use std::io::{self, ErrorKind, Read};
use std::iter;

use everseen_keys::columns::CsvCutter;
use memchr::memchr_iter;

use crate::input::record_blocks::{BLOCK, Block};
use crate::process::memory;

#[cfg(test)]
mod tests;

/// Maximum number of dropped items of a block without any other, which bounds the memory.
const MOST_GAPS: usize = 1 << 16;

/// Why a stream could not be cut.
#[derive(Debug, thiserror::Error)]
pub enum SplitError {
    #[error(transparent)]
    Read(#[from] io::Error),
    /// The next item exceeds the maximum length.
    #[error("item too long")]
    ItemTooLong,
    /// The stream ends within a quoted field of CSV.
    #[error("a quote is never closed")]
    OpenQuote,
}

/// Fills blocks from one stream.
pub struct Splitter {
    separator: u8,
    /// See [`BLOCK`].
    block_size: usize,
    /// Maximum length of an item, without its separator.
    longest: usize,
    /// Whether a longer item is dropped. Otherwise it is an error.
    skips_long: bool,
    /// Whether the bytes that come next belong to an item that is too long, and is dropped.
    is_in_long: bool,
    /// Present where separators may be inside of items.
    csv: Option<CsvCutter>,
    block: Block,
}

impl Splitter {
    pub fn new(separator: u8, longest: usize) -> Self {
        Self::with_sizes(separator, memory::piece(BLOCK), longest)
    }

    fn with_sizes(separator: u8, block_size: usize, longest: usize) -> Self {
        Splitter {
            separator,
            block_size,
            longest,
            skips_long: false,
            is_in_long: false,
            csv: None,
            block: Block::default(),
        }
    }

    /// Drops items that are too long.
    pub fn skip_long(self, skips_long: bool) -> Self {
        Splitter { skips_long, ..self }
    }

    /// Cuts CSV records at the line feeds outside of quotes, if there is a delimiter.
    pub fn cut_csv(self, delimiter: Option<u8>) -> Self {
        let csv = delimiter.map(CsvCutter::new);
        let mut splitter = Splitter { csv, ..self };
        splitter.block.csv_delimiter = delimiter;
        splitter
    }

    /// Reads until the block holds a whole item, and stops with the read that completes it. Returns `false` at the end
    /// of the stream, where an item without a separator receives one. Stops after many dropped items, too.
    pub fn fill(&mut self, input: &mut impl Read) -> Result<bool, SplitError> {
        while self.block.ends.is_empty() && self.block.gaps.len() < MOST_GAPS {
            self.refuse_long()?;
            self.make_room()?;
            let block = &mut self.block;
            let until = block.storage.len().min(block.filled + self.block_size);
            let count = match input.read(&mut block.storage[block.filled..until]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            };
            if count == 0 {
                // Also in an item that is dropped: all records behind the quote would go with it.
                if self.csv.as_mut().is_some_and(CsvCutter::is_in_quotes) {
                    return Err(SplitError::OpenQuote);
                }
                if std::mem::take(&mut self.is_in_long) {
                    block.gaps.push(0);
                } else if block.filled > 0 {
                    block.storage[block.filled] = self.separator;
                    block.ends.push(block.filled);
                    block.filled += 1;
                }
                return Ok(false);
            }
            let (start, end) = (block.filled, block.filled + count);
            let (bytes, ends) = (&block.storage[start..end], &mut block.ends);
            match &mut self.csv {
                Some(csv) => csv.cut(bytes, |at| ends.push(start + at)),
                None => ends.extend(memchr_iter(self.separator, bytes).map(|at| start + at)),
            }
            block.filled = end;
            self.drop_long();
        }
        self.refuse_long()?;
        Ok(true)
    }

    /// Drops the items that are too long, if they are to be skipped. Of the last one, which may not be whole yet, the
    /// bytes are dropped as they come.
    fn drop_long(&mut self) {
        if !self.skips_long || self.block.filled <= self.longest && !self.is_in_long {
            return;
        }
        let block = &mut self.block;
        let (mut start, mut kept_until, mut kept) = (0, 0, 0);
        for at in 0..block.ends.len() {
            let end = block.ends[at];
            let is_long = std::mem::take(&mut self.is_in_long) || end - start > self.longest;
            if is_long {
                block.dropped += end + 1 - start;
                block.gaps.push(kept);
            } else {
                block.storage.copy_within(start..=end, kept_until);
                kept_until += end + 1 - start;
                block.ends[kept] = kept_until - 1;
                kept += 1;
            }
            start = end + 1;
        }
        block.ends.truncate(kept);
        let rest = block.filled - start;
        if self.is_in_long || rest > self.longest {
            self.is_in_long = true;
            block.dropped += rest;
        } else {
            block.storage.copy_within(start..block.filled, kept_until);
            kept_until += rest;
        }
        block.filled = kept_until;
    }

    /// Refuses an item that is too long, and everything behind it, once the caller has taken the items before it.
    fn refuse_long(&mut self) -> Result<(), SplitError> {
        if self.skips_long || self.block.filled <= self.longest {
            return Ok(());
        }
        let block = &mut self.block;
        let starts = iter::once(0).chain(block.ends.iter().map(|end| end + 1));
        let ends = block.ends.iter().copied().chain([block.filled]);
        let is_long = |(start, end): (usize, usize)| end - start > self.longest;
        match starts.zip(ends).position(is_long) {
            None => Ok(()),
            Some(0) => Err(SplitError::ItemTooLong),
            Some(before) => {
                block.ends.truncate(before);
                Ok(())
            }
        }
    }

    /// Returns whether there are whole items, or dropped ones.
    pub fn has_lines(&self) -> bool {
        self.block.lines() > 0
    }

    /// Returns the whole items. The rest moves to `next`, whose memory is reused.
    pub fn take(&mut self, mut next: Block) -> Block {
        let whole = self.block.start(self.block.len());
        let rest = &self.block.storage[whole..self.block.filled];
        next.csv_delimiter = self.block.csv_delimiter;
        next.ends.clear();
        next.precheck = None;
        next.dropped = 0;
        next.gaps.clear();
        // A block that grew for one long item is replaced: a new one is smaller, and cheaper than clearing the old one.
        if next.storage.len() < self.block_size || next.storage.len() > 4 * self.block_size {
            next.storage = vec![0; self.block_size];
        }
        if next.storage.len() < rest.len() {
            next.storage.resize(rest.len(), 0);
        }
        next.storage[..rest.len()].copy_from_slice(rest);
        next.filled = rest.len();
        std::mem::replace(&mut self.block, next)
    }

    /// Doubles a full block, so that the moves of a long item cost a constant number per byte. The longest item and its
    /// separator fit.
    fn make_room(&mut self) -> Result<(), SplitError> {
        let storage = &mut self.block.storage;
        if self.block.filled < storage.len() {
            return Ok(());
        }
        let most = self.longest.saturating_add(1).max(self.block_size);
        let size = storage.len().saturating_mul(2).clamp(self.block_size, most);
        // For a moment, both are in memory.
        memory::expect(size)?;
        storage
            .try_reserve_exact(size - storage.len())
            .map_err(|_| io::Error::from(ErrorKind::OutOfMemory))?;
        storage.resize(size, 0);
        Ok(())
    }
}
