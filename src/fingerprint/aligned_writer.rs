//! Writes that end where large pages of memory do.
//!
//! Linux caches a new part of a file in as few pieces as the calls that write it allow. What one call writes of an aligned
//! 2 MiB becomes one piece, which one entry of the processor's tables maps. In a filter whose segments are written
//! one by one, across these borders, a look-up spends a fourth of its time on address translation.
//!
//! A part of the file that has been written before is mostly cached still, in the pieces that it has. What goes there need
//! not wait.

use crate::error::Result;

/// The bytes of a large page.
const LARGE_PAGE: u64 = 2 << 20;

/// Writes bytes to a place in the file.
type WriteAt<'a> = Box<dyn FnMut(&[u8], u64) -> Result<()> + 'a>;

/// Writes what follows each other in the file by calls that end at borders of large pages.
pub(crate) struct AlignedWriter<'a> {
    write_at: WriteAt<'a>,
    /// The end of what may have been written before.
    length: u64,
    /// What reaches no border yet, and where it belongs.
    pending: Vec<u8>,
    offset: u64,
}

impl<'a> AlignedWriter<'a> {
    /// Begins to write to a file of so many bytes.
    pub(crate) fn new(length: u64, write_at: impl FnMut(&[u8], u64) -> Result<()> + 'a) -> Self {
        Self {
            write_at: Box::new(write_at),
            length,
            pending: Vec::new(),
            offset: 0,
        }
    }

    /// Writes bytes. In a new part of the file, those behind the last border wait.
    pub(crate) fn write(&mut self, mut bytes: &[u8], mut offset: u64) -> Result<()> {
        if self.end() != offset {
            self.finish()?;
        }
        // What waits ends behind the old part, so nothing waits for this.
        if offset + bytes.len() as u64 <= self.length {
            assert!(self.pending.is_empty());
            return (self.write_at)(bytes, offset);
        }
        if !self.pending.is_empty() {
            let left = LARGE_PAGE - self.end() % LARGE_PAGE;
            let (piece, rest) = bytes.split_at(left.min(bytes.len() as u64) as usize);
            if self.has_memory_for(piece.len()) {
                self.pending.extend_from_slice(piece);
                if !self.end().is_multiple_of(LARGE_PAGE) {
                    return Ok(());
                }
                offset += piece.len() as u64;
                bytes = rest;
            }
            self.finish()?;
        }
        let behind = (offset + bytes.len() as u64) % LARGE_PAGE;
        let whole = (bytes.len() as u64).saturating_sub(behind);
        let (pieces, rest) = bytes.split_at(whole as usize);
        (self.write_at)(pieces, offset)?;
        self.offset = offset + whole;
        if !self.has_memory_for(rest.len()) {
            (self.write_at)(rest, self.offset)?;
            self.offset += rest.len() as u64;
            return Ok(());
        }
        self.pending.extend_from_slice(rest);
        // Otherwise a large page would wait that could be written.
        assert!((self.pending.len() as u64) < LARGE_PAGE);
        Ok(())
    }

    /// Returns whether so many bytes may wait. They need not, where the address space is nearly used up.
    fn has_memory_for(&mut self, bytes: usize) -> bool {
        self.pending.try_reserve_exact(bytes).is_ok()
    }

    /// Writes what is left.
    pub(crate) fn finish(&mut self) -> Result<()> {
        (self.write_at)(&self.pending, self.offset)?;
        self.offset = self.end();
        self.pending.clear();
        Ok(())
    }

    fn end(&self) -> u64 {
        self.offset + self.pending.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writes runs of bytes, given by offset and length, and returns the calls that wrote them.
    fn calls(length: u64, runs: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut calls = Vec::new();
        let mut writer = AlignedWriter::new(length, |bytes, offset| {
            calls.push((offset, bytes.len() as u64));
            Ok(())
        });
        for (offset, length) in runs {
            writer.write(&vec![1; *length as usize], *offset).unwrap();
        }
        writer.finish().unwrap();
        drop(writer);
        calls.retain(|(_, length)| *length > 0);
        calls
    }

    #[test]
    fn new_parts_are_written_up_to_borders_and_old_ones_at_once() {
        const L: u64 = LARGE_PAGE;
        // Three runs that follow each other, from the middle of a large page on.
        let runs = [(L / 2, L), (L * 3 / 2, L), (L * 5 / 2, L / 4)];
        let new = [(L / 2, L / 2), (L, L), (2 * L, L * 3 / 4)];
        assert_eq!(calls(0, &runs), new);
        assert_eq!(calls(4 * L, &runs), runs);
        // The second one reaches beyond the end.
        let both = [runs[0], (L * 3 / 2, L / 2), (2 * L, L * 3 / 4)];
        assert_eq!(calls(2 * L, &runs), both);
        // What waits is written before anything else is.
        let back = [(4 * L, L / 2), (L, L)];
        assert_eq!(calls(3 * L, &back), back);
    }

    proptest! {
        /// The slow twin writes each run by one call.
        #[test]
        fn the_file_is_that_of_plain_writes(
            length in 0_u64..8,
            runs in prop::collection::vec((0_u64..8, 0_u64..4, any::<bool>()), 0..12),
        ) {
            // In quarters of a large page, each a byte here.
            const QUARTER: u64 = LARGE_PAGE / 4;
            let (mut file, mut twin) = (vec![0_u8; 64], vec![0_u8; 64]);
            let mut writer = AlignedWriter::new(length * QUARTER, |bytes, offset| {
                let quarters = bytes.chunks(QUARTER as usize).map(|quarter| quarter[0]);
                for (place, quarter) in ((offset / QUARTER) as usize..).zip(quarters) {
                    file[place] = quarter;
                }
                Ok(())
            });
            let mut end = 0;
            for (number, (offset, quarters, follows)) in (1..).zip(runs) {
                let offset = if follows { end } else { offset };
                end = offset + quarters;
                writer.write(&vec![number; (quarters * QUARTER) as usize], offset * QUARTER).unwrap();
                twin[offset as usize..end as usize].fill(number);
            }
            writer.finish().unwrap();
            drop(writer);
            prop_assert_eq!(file, twin);
        }
    }
}
