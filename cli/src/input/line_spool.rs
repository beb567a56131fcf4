//! Lines that wait, in order: a few in memory, the others in a file without a name.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use crate::input::record_blocks::outline::Outline;
use crate::input::record_blocks::{BLOCK, Block};
use crate::process::{disk, handle};

/// Maximum bytes of all lines that wait, 16 for each line included: 260 million lines of 50 bytes, as many as a window has
/// at most.
const MOST_SPOOLED: u64 = 16 << 30;

/// Nor do they take more than what the disk has free when the first of them comes, divided by this: the store needs room too.
const DISK_SHARE: u64 = 4;

/// But as many may always wait.
const LEAST_SPOOLED: u64 = 64 << 20;

/// Maximum bytes of lines in memory where no file can be had.
const MOST_HELD: u64 = 16 << 20;

/// A queue of blocks.
pub struct LineSpool {
    /// Where the file lies, as long as it is needed. A system that can't make one leaves all lines in memory.
    folder: PathBuf,
    file: Option<File>,
    /// Whether there is no file, or it takes no more. It is tried again with the next lines after all have been taken.
    failed: bool,
    entries: VecDeque<Entry>,
    /// Maximum bytes of these lines.
    most: u64,
    /// The bytes of all entries, and of those in memory.
    bytes: u64,
    held: u64,
    /// Up to where the file was written.
    written: u64,
}

enum Entry {
    Held(Block),
    /// The place of its lines in the file.
    Spooled(Outline, u64),
}

impl LineSpool {
    pub fn new(folder: PathBuf) -> Self {
        LineSpool {
            folder,
            file: None,
            failed: false,
            entries: VecDeque::new(),
            most: MOST_SPOOLED,
            bytes: 0,
            held: 0,
            written: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.bytes >= self.most || self.held >= MOST_HELD
    }

    /// Adds a copy of a block, merged with the last one where possible: a block may be as small as a line.
    pub fn push(&mut self, block: &Block) {
        let bytes = block.memory() as u64;
        if self.is_empty() {
            let free = disk::free(&self.folder).unwrap_or(u64::MAX);
            self.most = (free / DISK_SHARE).clamp(LEAST_SPOOLED, MOST_SPOOLED);
        }
        if let Some(Entry::Held(last)) = self.entries.back_mut()
            && last.memory() + block.memory() <= BLOCK
            && last.goes_on_in(block)
        {
            last.append(block);
        } else {
            self.spool_last();
            let mut copy = Block::default();
            copy.append(block);
            self.entries.push_back(Entry::Held(copy));
        }
        self.bytes += bytes;
        self.held += bytes;
    }

    /// Moves the last block from memory to the file. If that fails, it stays where it is.
    fn spool_last(&mut self) {
        if self.failed {
            return;
        }
        if let Some(Entry::Held(block)) = self.entries.back() {
            let outline = block.outline();
            let bytes = block.memory() as u64;
            match self.write(block.len(), self.written) {
                Ok(place) => {
                    self.held -= bytes;
                    self.entries.pop_back();
                    self.entries.push_back(Entry::Spooled(outline, place));
                }
                Err(_) => self.failed = true,
            }
        }
    }

    fn write(&mut self, lines: usize, place: u64) -> io::Result<u64> {
        let Some(Entry::Held(block)) = self.entries.back() else {
            return Ok(place);
        };
        if self.file.is_none() {
            self.file = Some(handle::unnamed_file(&self.folder)?);
        }
        let bytes = block.run(0..lines);
        if let Some(file) = &self.file {
            handle::write_at(file, bytes, place)?;
        }
        self.written = place + bytes.len() as u64;
        Ok(place)
    }

    /// Takes the first block. Its items have no keys.
    pub fn pop(&mut self) -> io::Result<Option<Block>> {
        let Some(entry) = self.entries.pop_front() else {
            return Ok(None);
        };
        let block = match entry {
            Entry::Held(block) => block,
            Entry::Spooled(outline, place) => {
                let mut bytes = vec![0; outline.bytes()];
                if let Some(file) = &self.file {
                    handle::read_at(file, &mut bytes, place)?;
                }
                Block::restore(outline, bytes)
            }
        };
        if self.entries.is_empty() {
            self.empty()?;
        }
        Ok(Some(block))
    }

    /// Gives up the room that the lines took.
    fn empty(&mut self) -> io::Result<()> {
        (self.bytes, self.held, self.written, self.failed) = (0, 0, 0, false);
        match &self.file {
            Some(file) => file.set_len(0),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use everseen::hash::KeyHasher;

    use super::*;
    use crate::input::record_blocks::{Keyed, Splitter};

    fn blocks(text: &[u8], sizes: &mut fastrand::Rng) -> Vec<Block> {
        let origin = Arc::new("input".into());
        let hasher = KeyHasher::new(everseen::Hash::Xxh3, &[0; 32]);
        let (mut rest, mut line, mut blocks) = (text, 0, Vec::new());
        while !rest.is_empty() {
            let most = sizes.usize(1..=rest.len().min(300_000));
            let end = rest[..most].iter().rposition(|byte| *byte == b'\n');
            let end = end.unwrap_or_else(|| {
                let next = rest.iter().position(|byte| *byte == b'\n');
                next.expect("the text ends with a line")
            }) + 1;
            let mut splitter = Splitter::new(b'\n', 1000);
            splitter.fill(&mut &rest[..end]).expect("reads");
            let mut block = splitter.take(Block::default());
            let lines = block.len() as u64;
            block.come_from(&origin, line);
            block.key_by(|_, item| {
                (item != b"dropped")
                    .then(|| hasher.key(item))
                    .map_or(Keyed::Dropped, Keyed::Key)
            });
            blocks.push(block);
            (rest, line) = (&rest[end..], line + lines);
        }
        blocks
    }

    /// The twin is the text itself. Some of the lines are dropped, so that places have gaps.
    #[test]
    fn what_is_spooled_comes_back_in_order_with_its_places() {
        let mut random = fastrand::Rng::with_seed(9);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (with_file, without) = (folder.path().to_owned(), folder.path().join("missing"));
        for folder_of_spool in [with_file, without] {
            let mut spool = LineSpool::new(folder_of_spool);
            for round in 0..5 {
                let lines: Vec<String> = (0..random.usize(1..200_000))
                    .map(|number| match random.u8(..9) {
                        0 => "dropped".to_owned(),
                        _ => format!("line {number} of round {round}"),
                    })
                    .collect();
                let text = lines.join("\n") + "\n";
                let pieces = blocks(text.as_bytes(), &mut random);
                let bytes: usize = pieces.iter().map(Block::bytes).sum();
                assert_eq!(bytes, text.len());
                pieces.iter().for_each(|piece| spool.push(piece));
                let (mut got, mut back) = (Vec::new(), 0);
                while let Some(block) = spool.pop().expect("reads") {
                    back += block.bytes();
                    for (at, item) in block.items().enumerate() {
                        got.push((item.to_vec(), block.place(at).line));
                    }
                }
                let kept = (1..).zip(&lines).filter(|(_, line)| *line != "dropped");
                let kept: Vec<_> = kept
                    .map(|(number, line)| (line.clone().into_bytes(), number))
                    .collect();
                assert!(got == kept, "round {round}");
                assert_eq!(back, text.len());
                assert!(spool.is_empty() && !spool.is_full());
                assert_eq!((spool.bytes, spool.held), (0, 0));
            }
            // Nothing is left in the folder, under any name.
            assert_eq!(folder.path().read_dir().expect("a folder").count(), 0);
        }
    }

    #[test]
    fn without_a_file_memory_bounds_the_lines() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut random = fastrand::Rng::with_seed(10);
        let text = "a line of some length\n".repeat(100_000);
        for (place, fills) in [
            (folder.path().join("missing"), true),
            (folder.path().to_owned(), false),
        ] {
            let mut spool = LineSpool::new(place);
            for _ in 0..10 {
                for block in blocks(text.as_bytes(), &mut random) {
                    spool.push(&block);
                }
            }
            assert_eq!(spool.is_full(), fills);
        }
    }
}
