//! Reads input ahead while this process waits for another, so that the process that feeds this one need not wait as
//! well.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::CliError;
use crate::input::feed::{Feed, Next};
use crate::input::keying::Strays;
use crate::input::record_blocks::{BLOCK, Block};
use crate::process::memory;

/// The approximate number of bytes read ahead.
const MAX_READ_AHEAD: usize = 64 << 20;

/// The working side of the reading thread, plus the blocks taken from it ahead of their turn.
pub struct Ahead {
    feed: Feed,
    spool: VecDeque<(Block, Box<Strays>)>,
    /// Bytes held in those blocks.
    held: usize,
    most: usize,
    /// How the input ended, which is reported after everything before it.
    last: Option<Result<(), CliError>>,
    /// Whether the last block belongs to the reading thread, which waits for its return.
    is_lent: bool,
}

impl Ahead {
    pub fn new(feed: Feed) -> Self {
        Ahead {
            feed,
            spool: VecDeque::new(),
            held: 0,
            most: memory::piece(MAX_READ_AHEAD),
            last: None,
            is_lent: false,
        }
    }

    /// Returns what is already available.
    pub fn poll(&mut self) -> Result<Next, CliError> {
        self.next(Feed::poll)
    }

    /// Returns what arrives within some time.
    pub fn wait(&mut self, timeout: Duration) -> Result<Next, CliError> {
        self.next(|feed| feed.wait(timeout))
    }

    fn next(&mut self, from: impl Fn(&Feed) -> Result<Next, CliError>) -> Result<Next, CliError> {
        if let Some((block, strays)) = self.spool.pop_front() {
            self.held -= block.memory();
            self.is_lent = false;
            return Ok(Next::Block(block, strays));
        }
        self.is_lent = true;
        match self.last.take() {
            Some(last) => last.map(|()| Next::End),
            None => from(&self.feed),
        }
    }

    /// Returns the last block to the reading thread.
    pub fn recycle(&self, block: Block) {
        if self.is_lent {
            self.feed.recycle(block);
        }
    }

    /// Waits for some time, and meanwhile reads ahead as far as there is room.
    pub fn read_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return;
            }
            if self.held >= self.most || self.last.is_some() {
                return thread::sleep(rest);
            }
            match self.feed.wait(rest) {
                Ok(Next::Block(block, strays)) => {
                    self.hold(&block, strays);
                    self.feed.recycle(block);
                }
                Ok(Next::Wait) => {}
                Ok(Next::End) => self.last = Some(Ok(())),
                Err(error) => self.last = Some(Err(error)),
            }
        }
    }

    /// Holds a block, merged with the last one where possible: a block may be as small as a line. Each held block comes
    /// from one input, so that it knows the positions of its lines.
    fn hold(&mut self, block: &Block, strays: Box<Strays>) {
        let bytes = block.memory();
        self.held += bytes;
        match self.spool.back_mut() {
            Some((last, before)) if last.memory() + bytes <= BLOCK && last.goes_on_in(block) => {
                last.append(block);
                before.append(*strays);
            }
            _ => {
                let mut copy = Block::default();
                copy.append(block);
                self.spool.push_back((copy, strays));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::own_files::Purpose;
    use crate::input::records::KeyOptions;
    use crate::input::{Input, Items};

    fn purpose() -> Purpose {
        Purpose {
            command: "dedup",
            store: "no store".into(),
        }
    }

    /// Some of the input is read in turn, some ahead. All of it arrives in order and knows its position; then the end
    /// or the error arrives.
    #[test]
    fn what_is_read_ahead_comes_in_its_turn() {
        let mut random = fastrand::Rng::with_seed(5);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let paths = ["first", "second"].map(|name| folder.path().join(name));
        for round in 0..60 {
            let counts = [random.usize(0..2000), random.usize(0..100_000)];
            let [first, lines] = counts.map(|count| -> Vec<u8> {
                (0..count)
                    .flat_map(|number| format!("{number}\n").into_bytes())
                    .collect()
            });
            let is_long = random.bool();
            let long = if is_long { "too long" } else { "" };
            std::fs::write(&paths[0], &first).expect("an input");
            std::fs::write(&paths[1], [&lines, long.as_bytes()].concat()).expect("an input");
            let items = Items {
                files: paths.to_vec(),
                files_from: None,
                given: Vec::new(),
                null: false,
                max_line: 7,
                skip_long: false,
                no_decompress: false,
                long: None,
                keys: KeyOptions::default(),
            };
            let hasher = everseen::hash::KeyHasher::new(everseen::Hash::Xxh3, &[0; 32]);
            let input = Input::open(&items, purpose()).expect("it was just written");
            let mut ahead = Ahead::new(input.start(hasher.clone()).expect("a thread"));
            ahead.most = random.usize(0..2 << 20);
            let mut got = Vec::new();
            let mut stands = paths.iter().zip(counts).flat_map(|(path, count)| {
                let name = path.display().to_string();
                (1..=count as u64).map(move |line| (name.clone(), line))
            });
            let end = loop {
                if random.bool() {
                    ahead.read_for(Duration::from_micros(random.u64(0..500)));
                    // One block may come on top, with a byte, an end and a key for each item.
                    assert!(ahead.held <= ahead.most + 17 * BLOCK, "round {round}");
                }
                match ahead.wait(Duration::from_secs(60)) {
                    Ok(Next::Block(block, _)) => {
                        got.extend_from_slice(block.run(0..block.len()));
                        let keys: Vec<_> = block.items().map(|item| hasher.key(item)).collect();
                        assert_eq!(block.keys(), keys, "round {round}");
                        for item in 0..block.len() {
                            let place = block.place(item);
                            let told = (place.input.display().to_string(), place.line);
                            assert_eq!(Some(told), stands.next(), "round {round}");
                        }
                        ahead.recycle(block);
                    }
                    Ok(Next::Wait) => panic!("nothing came"),
                    Ok(Next::End) => break Ok(()),
                    Err(error) => break Err(error),
                }
            };
            assert!(got == [first, lines].concat(), "round {round}");
            assert_eq!(ahead.held, 0, "round {round}");
            match end {
                Ok(()) => assert!(!is_long, "round {round}"),
                Err(CliError::ItemTooLong { .. }) => assert!(is_long, "round {round}"),
                Err(error) => panic!("{error}"),
            }
        }
    }
}
