//! Input that is read ahead while another process is waited for, so that what feeds this one need not wait as well.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::CliError;
use crate::input::record_blocks::{BLOCK, Block};
use crate::input::urls::Strays;
use crate::input::{Feed, Next};

/// So many bytes are read ahead, about.
const MOST: usize = 64 << 20;

/// The working side of the reading thread, and what has been taken from it ahead of its turn.
pub struct Ahead {
    feed: Feed,
    spool: VecDeque<(Block, Strays)>,
    /// Bytes in it.
    held: usize,
    most: usize,
    /// How the input ended, which is told once all before it has been given.
    last: Option<Result<(), CliError>>,
    /// Whether the block given last is the reading thread's, which waits to have it back.
    is_lent: bool,
}

impl Ahead {
    pub fn new(feed: Feed) -> Self {
        Ahead {
            feed,
            spool: VecDeque::new(),
            held: 0,
            most: MOST,
            last: None,
            is_lent: false,
        }
    }

    /// What is there already.
    pub fn poll(&mut self) -> Result<Next, CliError> {
        self.next(Feed::poll)
    }

    /// What comes within some time.
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

    /// Gives the last block back.
    pub fn recycle(&self, block: Block) {
        if self.is_lent {
            self.feed.recycle(block);
        }
    }

    /// Passes some time, and reads ahead meanwhile as far as there is room.
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

    /// Holds a block, in one with the last where they fit: a block may be no more than a line. Each is of one input, so
    /// that it knows where its lines stand.
    fn hold(&mut self, block: &Block, strays: Strays) {
        let bytes = block.memory();
        self.held += bytes;
        match self.spool.back_mut() {
            Some((last, before)) if last.memory() + bytes <= BLOCK && last.goes_on_in(block) => {
                last.append(block);
                before.append(strays);
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
    use crate::input::urls::Urls;
    use crate::input::{Input, Items};

    /// Some is read in turn, some ahead; all of it comes in order, knows where it stood, and then the end comes or the
    /// error.
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
                null: false,
                max_line: 7,
                urls: Urls::default(),
            };
            let hasher = everseen::hash::KeyHasher::new(everseen::Hash::Xxh3, &[0; 32]);
            let input = Input::open(&items).expect("it was just written");
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
                    // One block may come on top, of a byte, an end and a key for each item.
                    assert!(ahead.held <= ahead.most + 17 * BLOCK, "round {round}");
                }
                match ahead.wait(Duration::from_secs(60)) {
                    Ok(Next::Block(block, _)) => {
                        got.extend_from_slice(block.run(0..block.len()));
                        let keys: Vec<_> = block.items().map(|item| hasher.key(item)).collect();
                        assert_eq!(block.keys(), keys, "round {round}");
                        for item in 0..block.len() {
                            let place = block.place(item);
                            let told = (place.input.to_string(), place.line);
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
