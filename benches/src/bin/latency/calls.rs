//! How long calls took, and what went on meanwhile.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use everseen_benches::histogram::Histogram;

/// Durations of calls, apart by what went on.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// While no checkpoint was under way.
    pub quiet: Histogram,
    /// While one was, at the beginning of the call or at its end.
    pub beside: Histogram,
    /// Those that closed a buffer, and waited for the checkpoint before if that was not done.
    pub rotating: Histogram,
}

impl Calls {
    /// Adds a call that closed no buffer.
    pub fn add(&mut self, took: Duration, beside: bool) {
        let calls = if beside {
            &mut self.beside
        } else {
            &mut self.quiet
        };
        calls.add(nanoseconds(took));
    }

    /// Times each of a few calls. Of those between which a buffer was closed, the slowest is taken
    /// for the one that did it. Answers the sum of what the calls answer.
    pub fn time(
        &mut self,
        logs: &mut Logs,
        count: usize,
        mut call: impl FnMut(usize) -> everseen::Result<u64>,
    ) -> Result<u64, Box<dyn Error>> {
        let before = logs.under_way();
        let mut sum = 0;
        let mut all = Vec::with_capacity(count);
        for place in 0..count {
            let begun = Instant::now();
            let answer = call(place);
            all.push(begun.elapsed());
            sum += answer?;
        }
        let rotated = logs.look()?;
        if rotated {
            let slowest = (0..count).max_by_key(|place| all[*place]);
            let slowest = slowest.map(|place| all.swap_remove(place));
            self.rotating.add(nanoseconds(slowest.unwrap_or_default()));
        }
        for took in all {
            self.add(took, rotated || before || logs.under_way());
        }
        Ok(sum)
    }
}

fn nanoseconds(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}

/// The logs beside a store tell what goes on: the newest is the active one, and the one before it
/// is there until its checkpoint is done. To ask for two names costs a microsecond or two, where
/// [`Store::stats`](everseen::Store::stats) would read the logs.
#[derive(Debug)]
pub struct Logs {
    store: PathBuf,
    /// The generation of the newest.
    newest: u64,
    under_way: bool,
}

impl Logs {
    /// Those of a new store, of which no buffer has been closed.
    pub fn of(store: &Path) -> Self {
        Self {
            store: store.to_owned(),
            newest: 1,
            under_way: false,
        }
    }

    fn is_there(&self, generation: u64) -> io::Result<bool> {
        let mut name = self.store.clone().into_os_string();
        name.push(format!("-log.{generation}"));
        Path::new(&name).try_exists()
    }

    /// Looks what there is now; answers whether a buffer has been closed since the last time.
    pub fn look(&mut self) -> io::Result<bool> {
        let rotated = self.is_there(self.newest + 1)?;
        if rotated {
            self.newest += 1;
        }
        self.under_way = self.newest > 1 && self.is_there(self.newest - 1)?;
        Ok(rotated)
    }

    /// Whether a checkpoint was under way at the last look.
    pub fn under_way(&self) -> bool {
        self.under_way
    }

    /// How many buffers have been closed.
    pub fn rotations(&self) -> u64 {
        self.newest - 1
    }
}
