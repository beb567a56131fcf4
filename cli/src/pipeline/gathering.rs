//! Gathers blocks of lines into windows, and judges a window whose time has come.

use std::time::Instant;

use crate::error::CliError;
use crate::input::feed::Next;
use crate::input::read_ahead::Ahead;
use crate::input::record_blocks::Block;
use crate::output::progress::Tally;
use crate::pipeline::{Ending, Job, PAUSE, Run};
use crate::process::signals::Signals;

/// What came from the input.
pub struct Arrival {
    pub next: Next,
    /// Whether it came while what was before it was judged.
    pub is_backlog: bool,
    /// Whether nothing came for so long that no line should wait for it.
    pub is_pause: bool,
}

impl<J: Job> Run<'_, J> {
    pub fn show_progress(&mut self) {
        let bytes = self.meter.bytes().unwrap_or(self.tally.bytes);
        self.progress.update(Tally {
            bytes,
            ..self.tally
        });
    }

    /// Returns what comes next, after what comes within some time, or why the input can't be read.
    ///
    /// # Errors
    /// Those of a commit. A commit that failed may not be made again: its output may be lost.
    pub fn arrival(&mut self, feed: &mut Ahead) -> Result<Result<Arrival, CliError>, CliError> {
        let ready = feed.poll();
        if !matches!(ready, Ok(Next::Wait)) {
            return Ok(ready.map(|next| Arrival {
                next,
                is_backlog: true,
                is_pause: false,
            }));
        }
        self.commit_if_due()?;
        let pause = match self.job.sieve() {
            Some(keys) => self.window.pause(keys, Instant::now())?,
            None => None,
        };
        let next = feed.wait(pause.unwrap_or(PAUSE));
        Ok(next.map(|next| Arrival {
            is_pause: pause.is_some() && matches!(next, Next::Wait),
            next,
            is_backlog: false,
        }))
    }

    /// Judges a block, or lets it wait for others.
    pub fn receive(
        &mut self,
        mut block: Block,
        is_backlog: bool,
        feed: &mut Ahead,
        signals: &Signals,
    ) -> Result<Option<Ending>, CliError> {
        let is_taken = match self.job.sieve() {
            Some(keys) => self.window.takes(&block, is_backlog, keys)?,
            None => false,
        };
        if !is_taken {
            if let Some(ending) = self.close_window(feed, signals)? {
                return Ok(Some(ending));
            }
            let ending = self.answer(&mut block, feed, signals)?;
            feed.recycle(block);
            return Ok(ending);
        }
        let now = Instant::now();
        let mut is_due = false;
        if let Some(keys) = self.job.sieve() {
            self.window.push(&block, keys, now);
            is_due = self.window.is_due(keys, now)?;
        }
        feed.recycle(block);
        if is_due {
            return self.close_window(feed, signals);
        }
        self.commit_if_due()?;
        Ok(None)
    }

    /// Judges all lines of the window.
    pub fn close_window(
        &mut self,
        feed: &mut Ahead,
        signals: &Signals,
    ) -> Result<Option<Ending>, CliError> {
        if self.window.is_empty() {
            return Ok(None);
        }
        if self.job.uncommitted_since().is_some() {
            // A sweep takes long, and other processes may be waiting.
            self.commit()?;
        }
        if let Some(keys) = self.job.sieve() {
            keys.look()?;
        }
        loop {
            if let Some(status) = signals.ending() {
                return Ok(Some(Ending::Stopped(status)));
            }
            let Some(mut block) = self.next_waiting()? else {
                return Ok(None);
            };
            if let Some(ending) = self.answer(&mut block, feed, signals)? {
                return Ok(Some(ending));
            }
        }
    }

    fn next_waiting(&mut self) -> Result<Option<Block>, CliError> {
        let Some(keys) = self.job.sieve() else {
            return Ok(None);
        };
        self.window.pop(keys).map_err(|source| CliError::System {
            action: "read back the lines that wait",
            source,
        })
    }

    /// Judges a block, and does what is due after it.
    fn answer(
        &mut self,
        block: &mut Block,
        feed: &mut Ahead,
        signals: &Signals,
    ) -> Result<Option<Ending>, CliError> {
        self.block(block, feed, signals)?;
        if self.refused.is_some() {
            return Ok(Some(Ending::Full));
        }
        self.warn()?;
        if self.job.is_transactional() {
            // Other processes may be waiting for the commit, and the reader of the output may be slow.
            self.commit_if_due()?;
        }
        self.show_progress();
        Ok(None)
    }
}
