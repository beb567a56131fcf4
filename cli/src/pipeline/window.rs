//! A window of lines that wait for each other, so that one sweep over the filter answers them all; and when it closes.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use everseen::Sieve;
use everseen::hash::HashedKey;

use crate::input::line_spool::LineSpool;
use crate::input::record_blocks::{BLOCK, Block};

/// The shortest time without input that counts as a pause, and the longest that is waited for. In between it is a
/// share of the time that the window has been open: a writer that was busy for a second may pause for longer than one
/// that was busy for a millisecond.
const INPUT_PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(50));
const PAUSE_SHARE: u32 = 4;
/// Or, where that is longer, the time that a sweep takes, divided by this, up to the most: a writer that had to wait for a
/// processor should not cost a sweep for few lines.
const SWEEP_SHARE: u32 = 16;
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A block larger than this holds one long line, of which no second copy should be in memory.
const LARGEST_WAITING: usize = 4 * BLOCK;

/// The keys of the lines in a window.
pub trait Gather {
    /// Returns whether lines should wait at all.
    fn gathers(&self) -> everseen::Result<bool>;

    fn push(&mut self, keys: &[HashedKey]);

    /// Returns whether memory has no room for more keys.
    fn is_full(&self) -> bool;

    /// Looks at all keys, in one sweep if that is cheaper.
    fn look(&mut self) -> everseen::Result<()>;

    /// Returns the keys that are not judged yet.
    fn waiting(&self) -> &[HashedKey];

    /// Returns about how long a sweep takes.
    fn sweep_time(&self) -> everseen::Result<Duration>;
}

impl Gather for Sieve<'_, ()> {
    fn gathers(&self) -> everseen::Result<bool> {
        Sieve::gathers(self)
    }

    fn push(&mut self, keys: &[HashedKey]) {
        keys.iter().for_each(|key| Sieve::push(self, *key, ()));
    }

    fn is_full(&self) -> bool {
        Sieve::is_full(self)
    }

    fn look(&mut self) -> everseen::Result<()> {
        self.close_window()
    }

    fn waiting(&self) -> &[HashedKey] {
        Sieve::waiting(self)
    }

    fn sweep_time(&self) -> everseen::Result<Duration> {
        Sieve::sweep_time(self)
    }
}

/// The lines of a window, and its clock. The caller passes all times, so that tests can choose them.
pub struct Window {
    lines: LineSpool,
    /// Whether lines wait even if the input comes no faster than it is answered.
    always: bool,
    max_delay: Option<Duration>,
    /// Whether someone may be waiting for the answers: the input is no file.
    is_stream: bool,
    /// When the first line came.
    opened: Option<Instant>,
}

impl Window {
    /// Creates a window whose lines lie in an unnamed file in `folder`.
    pub fn new(folder: PathBuf, always: bool, max_delay: Option<Duration>) -> Self {
        Window {
            lines: LineSpool::new(folder),
            always,
            max_delay,
            is_stream: true,
            opened: None,
        }
    }

    /// Creates the window of a job whose lines never wait.
    pub fn none() -> Self {
        Self::new(PathBuf::new(), false, None)
    }

    /// Says whether the input is a stream. The lines of files have nobody who waits for them.
    pub fn set_stream(&mut self, is_stream: bool) {
        self.is_stream = is_stream;
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns whether a block may join the window. `is_backlog` says that it came while the lines before it were
    /// judged. If none did, lines are answered as fast as they come, and need not wait.
    pub fn takes(
        &self,
        block: &Block,
        is_backlog: bool,
        keys: &dyn Gather,
    ) -> everseen::Result<bool> {
        if block.memory() > LARGEST_WAITING {
            return Ok(false);
        }
        Ok(!self.is_empty() || (is_backlog || self.always) && keys.gathers()?)
    }

    /// Adds a block.
    pub fn push(&mut self, block: &Block, keys: &mut dyn Gather, now: Instant) {
        self.opened.get_or_insert(now);
        keys.push(block.keys());
        self.lines.push(block);
    }

    /// Returns whether to close the window, whatever is still to come.
    pub fn is_due(&self, keys: &dyn Gather, now: Instant) -> everseen::Result<bool> {
        if self.is_empty() {
            return Ok(false);
        }
        Ok(keys.is_full() || self.lines.is_full() || self.left(keys, now)?.is_zero())
    }

    /// Returns how long the first line may still wait.
    fn left(&self, keys: &dyn Gather, now: Instant) -> everseen::Result<Duration> {
        let Some(opened) = self.opened.filter(|_| self.is_stream) else {
            return Ok(Duration::MAX);
        };
        let most = match self.max_delay {
            Some(most) => most,
            None => keys.sweep_time()?,
        };
        Ok(most.saturating_sub(now.saturating_duration_since(opened)))
    }

    /// Returns how long without input is a pause, which closes the window; `None` if nothing does.
    pub fn pause(&self, keys: &dyn Gather, now: Instant) -> everseen::Result<Option<Duration>> {
        let Some(opened) = self.opened.filter(|_| self.is_stream) else {
            return Ok(None);
        };
        let share = now.saturating_duration_since(opened) / PAUSE_SHARE;
        let sweep = (keys.sweep_time()? / SWEEP_SHARE).min(LONGEST_PAUSE);
        let pause = share.clamp(INPUT_PAUSES.0, INPUT_PAUSES.1).max(sweep);
        Ok(Some(pause.min(self.left(keys, now)?)))
    }

    /// Takes the first block of a window that is being judged, with the keys of its lines.
    pub fn pop(&mut self, keys: &dyn Gather) -> io::Result<Option<Block>> {
        let mut block = self.lines.pop()?;
        if let Some(block) = &mut block {
            block.set_keys(&keys.waiting()[..block.len()]);
        }
        if self.is_empty() {
            self.opened = None;
        }
        Ok(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::record_blocks::Splitter;

    struct Keys {
        gathers: bool,
        sweep_time: Duration,
        most: usize,
        keys: Vec<HashedKey>,
    }

    impl Keys {
        fn new(most: usize) -> Self {
            Keys {
                gathers: true,
                sweep_time: Duration::from_secs(1),
                most,
                keys: Vec::new(),
            }
        }
    }

    impl Gather for Keys {
        fn gathers(&self) -> everseen::Result<bool> {
            Ok(self.gathers)
        }

        fn push(&mut self, keys: &[HashedKey]) {
            self.keys.extend_from_slice(keys);
        }

        fn is_full(&self) -> bool {
            self.keys.len() >= self.most
        }

        fn look(&mut self) -> everseen::Result<()> {
            Ok(())
        }

        fn waiting(&self) -> &[HashedKey] {
            &self.keys
        }

        fn sweep_time(&self) -> everseen::Result<Duration> {
            Ok(self.sweep_time)
        }
    }

    fn block(lines: usize) -> Block {
        let mut splitter = Splitter::new(b'\n', 64 << 20);
        let text = "line\n".repeat(lines);
        splitter.fill(&mut text.as_bytes()).expect("reads");
        let mut block = splitter.take(Block::default());
        let hasher = everseen::hash::KeyHasher::new(everseen::Hash::Xxh3, &[0; 32]);
        block.key_all(&hasher);
        block
    }

    fn window(is_stream: bool, max_delay: Option<Duration>) -> Window {
        let mut window = Window::new(std::env::temp_dir(), false, max_delay);
        window.set_stream(is_stream);
        window
    }

    #[test]
    fn lines_wait_only_behind_others_that_are_being_answered() {
        let (mut window, mut keys) = (window(true, None), Keys::new(100));
        let takes = |window: &Window, keys: &Keys, is_backlog| {
            let taken = window.takes(&block(1), is_backlog, keys);
            taken.expect("nothing fails")
        };
        assert!(!takes(&window, &keys, false));
        assert!(takes(&window, &keys, true));
        keys.gathers = false;
        assert!(!takes(&window, &keys, true));
        // What follows waiting lines waits as well, or it would overtake them.
        window.push(&block(1), &mut keys, Instant::now());
        assert!(takes(&window, &keys, false));
        keys.gathers = true;
        let mut forced = Window::new(std::env::temp_dir(), true, None);
        forced.set_stream(true);
        assert!(takes(&forced, &keys, false));
    }

    #[test]
    fn a_window_closes_when_it_is_full() {
        let (mut window, mut keys) = (window(false, None), Keys::new(100));
        let now = Instant::now();
        window.push(&block(99), &mut keys, now);
        assert!(!window.is_due(&keys, now).expect("nothing fails"));
        window.push(&block(1), &mut keys, now);
        assert!(window.is_due(&keys, now).expect("nothing fails"));
    }

    #[test]
    fn a_window_of_a_stream_closes_when_its_oldest_line_has_waited() {
        for (max_delay, delay) in [(None, 1000), (Some(Duration::from_millis(30)), 30)] {
            let (mut window, mut keys) = (window(true, max_delay), Keys::new(100));
            let first = Instant::now();
            let at = |millis| first + Duration::from_millis(millis);
            window.push(&block(1), &mut keys, first);
            // Later lines don't make the first one wait longer.
            window.push(&block(1), &mut keys, at(delay - 1));
            assert!(!window.is_due(&keys, at(delay - 1)).expect("nothing fails"));
            let pause = window.pause(&keys, at(delay - 1)).expect("nothing fails");
            assert_eq!(pause, Some(Duration::from_millis(1)));
            assert!(window.is_due(&keys, at(delay)).expect("nothing fails"));
            while window.pop(&keys).expect("reads").is_some() {}
            // The next window has a first line of its own.
            window.push(&block(1), &mut keys, at(delay));
            assert!(!window.is_due(&keys, at(delay)).expect("nothing fails"));
        }
    }

    #[test]
    fn a_pause_grows_with_the_time_that_lines_came() {
        let (mut window, mut keys) = (window(true, None), Keys::new(100));
        let first = Instant::now();
        window.push(&block(1), &mut keys, first);
        let shorter = [(0, 10), (40, 10), (100, 25), (110, 27), (120, 30)];
        let longer = [(0, 500), (200, 500), (7000, 500), (7600, 400)];
        let longest = [(0, 1000), (100_000, 1000)];
        let sweeps = [
            (160, &shorter[..]),
            (8000, &longer[..]),
            (600_000, &longest[..]),
        ];
        for (sweep, times) in sweeps {
            keys.sweep_time = Duration::from_millis(sweep);
            for (millis, pause) in times {
                let now = first + Duration::from_millis(*millis);
                let got = window.pause(&keys, now).expect("nothing fails");
                let got = got.map(|pause| pause.as_millis());
                assert_eq!(got, Some(*pause), "{millis} of {sweep}");
            }
        }
    }

    #[test]
    fn nobody_waits_for_the_lines_of_a_file() {
        let (mut window, mut keys) = (window(false, Some(Duration::ZERO)), Keys::new(100));
        let first = Instant::now();
        window.push(&block(1), &mut keys, first);
        let now = first + Duration::from_secs(3600);
        assert!(!window.is_due(&keys, now).expect("nothing fails"));
        assert_eq!(window.pause(&keys, now).expect("nothing fails"), None);
    }
}
