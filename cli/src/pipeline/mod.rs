//! The single loop behind `dedup`, `add` and `check`: reads a block, judges its items, prints those that are kept.
//!
//! Output goes to the system block by block, and is made durable before the job commits. A run that is killed anywhere
//! and started again thus prints an item twice at worst, and loses none.

pub(crate) mod claimed;
pub(crate) mod deferred_claims;
pub(crate) mod fullness;
mod gathering;
pub(crate) mod insert_job;
mod job;
pub(crate) mod outcome;
pub(crate) mod pending;
mod summary;
pub(crate) mod window;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use everseen::Store;

use crate::error::CliError;
use crate::input::Input;
use crate::input::compressed::Meter;
use crate::input::feed::{Next, PrecheckFor};
use crate::input::keying::Strays;
use crate::input::read_ahead::Ahead;
use crate::input::record_blocks::{Block, Place};
use crate::output::Output;
use crate::output::progress::{Progress, Tally};
use crate::pipeline::pending::Patience;
use crate::pipeline::window::Window;
use crate::process::signals::Signals;
pub use job::Job;
use outcome::Refused;
pub use outcome::{Ending, Outcome};

/// Maximum number of items judged at once: enough to hide the latency of memory, few enough for a processor's cache.
pub const BATCH: usize = 16 << 10;

/// The interval of checks for signals while there is no input.
const PAUSE: Duration = Duration::from_millis(50);

/// Without input to continue with, a job commits once something has been uncommitted for this long.
const PATIENCE: Duration = Duration::from_secs(1);

/// Other processes' uncommitted items may leave no room. The job waits this long for those processes.
const CROWDED: Duration = Duration::from_secs(30);

/// Runs a job on all of the input. `label` names kept items on a terminal. Items that wait for others do so in `window`.
/// If there is a store to precheck items in, a thread does so while the items before them are judged.
pub fn run(
    input: Input,
    job: &mut impl Job,
    output: Output,
    label: &'static str,
    mut window: Window,
    precheck: Option<(&Store, PrecheckFor)>,
) -> Result<Outcome, CliError> {
    let signals = Signals::catch()?;
    window.set_stream(input.total.is_none());
    let progress = match input.quiet {
        true => Progress::quiet(),
        false => Progress::new(input.total, label, output.is_stdout()),
    };
    let (reading, longest) = (input.reading.clone(), input.longest);
    let meter = Arc::clone(&input.meter);
    let feed = input.start(job.hasher())?;
    let mut run = Run {
        patience: Patience::new(job.wait()),
        job,
        output,
        progress,
        tally: Tally::default(),
        keep: Vec::new(),
        crowded_since: None,
        refused: None,
        first_long: None,
        window,
        meter,
    };

    let ended = thread::scope(|scope| {
        let feed = match precheck {
            Some((store, how)) => feed.prechecked(scope, store, how)?,
            None => feed,
        };
        run.consume(&mut Ahead::new(feed), &signals)
    });
    let ending = match ended {
        Ok(ending) => run.commit().map(|()| ending),
        // What can't be printed must not be remembered.
        Err(error) if error.is_output() => Err(error),
        Err(error) => {
            // Everything before the failure is processed. If this fails too, the first error is the one to report.
            let _ = run.commit();
            Err(error)
        }
    };
    let ending = match ending {
        Err(error) if error.is_closed_output() => Ending::Unread,
        other => other?,
    };
    run.tell_rest(&reading, longest);
    Ok(Outcome {
        ending,
        tally: run.tally,
        first_long: run.first_long,
        refused: run.refused,
    })
}

struct Run<'a, J> {
    job: &'a mut J,
    output: Output,
    progress: Progress,
    tally: Tally,
    /// The judgement of one batch, kept to reuse the allocation.
    keep: Vec<bool>,
    /// Since when other processes' uncommitted items have taken all the room.
    crowded_since: Option<Instant>,
    patience: Patience,
    /// Once set, nothing more is judged.
    refused: Option<Refused>,
    first_long: Option<Place>,
    /// Items that are not judged yet.
    window: Window,
    meter: Arc<Meter>,
}

impl<J: Job> Run<'_, J> {
    fn consume(&mut self, feed: &mut Ahead, signals: &Signals) -> Result<Ending, CliError> {
        loop {
            if let Some(status) = signals.ending() {
                return Ok(Ending::Stopped(status));
            }
            let arrival = match self.arrival(feed)? {
                Ok(arrival) => arrival,
                // The items before the failure are judged first.
                Err(error) => {
                    let ended = self.close_window(feed, signals)?;
                    return ended.ok_or(error);
                }
            };
            let ending = match arrival.next {
                Next::Block(block, strays) => {
                    self.stray(&strays)?;
                    self.receive(block, arrival.is_backlog, feed, signals)?
                }
                Next::Wait if arrival.is_pause => self.close_window(feed, signals)?,
                Next::Wait => None,
                Next::End => {
                    let ended = self.close_window(feed, signals)?;
                    return Ok(ended.unwrap_or(Ending::Done));
                }
            };
            if let Some(ending) = ending {
                return Ok(ending);
            }
            self.show_progress();
        }
    }

    fn warn(&mut self) -> Result<(), CliError> {
        if let Some(warning) = self.job.warning()? {
            self.progress.tell(&warning);
        }
        Ok(())
    }

    fn stray(&mut self, strays: &Strays) -> Result<(), CliError> {
        for notice in &strays.notices {
            self.progress.tell(notice);
        }
        self.tally.items += strays.dropped + strays.long;
        self.tally.long += strays.long;
        if self.first_long.is_none() {
            self.first_long.clone_from(&strays.first_long);
        }
        self.tally.keyless += strays.keyless;
        self.tally.strays += strays.count;
        self.tally.dropped += strays.dropped;
        match &strays.header {
            Some(header) => self.output.print_header(header),
            None => Ok(()),
        }
    }

    /// Judges a block. While it has to wait for other processes, a signal ends it early.
    fn block(
        &mut self,
        block: &mut Block,
        feed: &mut Ahead,
        signals: &Signals,
    ) -> Result<(), CliError> {
        let mut first = 0;
        while first < block.len() {
            let room = self.job.room();
            if room == 0 {
                self.commit()?;
                continue;
            }
            let stop = self.is_to_stop();
            let most = if self.patience.is_waiting() { 1 } else { BATCH };
            let end = block.len().min(first + room.min(most));
            self.keep.clear();
            self.job.stop_at_pending(stop);
            let judged = match block.prechecked_keys() {
                (keys, None) => self.job.judge(&keys[first..end], &mut self.keep),
                (keys, Some(precheck)) => {
                    let keep = &mut self.keep;
                    self.job.judge_prechecked(keys, first..end, precheck, keep)
                }
            };
            let shown = self.job.shown(&self.keep);
            self.output.print(block, first, shown)?;
            self.tally.items += self.keep.len() as u64;
            self.tally.kept += self.keep.iter().filter(|keep| **keep).count() as u64;
            first += self.keep.len();
            match judged {
                Err(error @ everseen::Error::TransactionTooLarge { .. }) => {
                    if signals.ending().is_some() {
                        return self.output.flush();
                    }
                    self.make_room(error)?;
                }
                Err(everseen::Error::Full { capacity }) => {
                    let place = block.place(first);
                    self.refused = Some(Refused { place, capacity });
                    return self.output.flush();
                }
                judged => {
                    judged?;
                    self.crowded_since = None;
                    if first == end {
                        self.patience.over();
                        continue;
                    }
                    if signals.ending().is_some() {
                        return self.output.flush();
                    }
                    self.wait_for_others(feed)?;
                }
            }
        }
        self.tally.bytes += block.bytes() as u64;
        self.output.flush()
    }

    /// Returns whether to wait for a pending item.
    fn is_to_stop(&mut self) -> bool {
        let is_left = self.patience.is_left(Instant::now());
        if let Some(notice) = self.patience.notice() {
            self.progress.tell(&notice);
        }
        is_left
    }

    /// Gives other processes time to settle what they have claimed. They may be waiting for what is uncommitted here.
    fn wait_for_others(&mut self, feed: &mut Ahead) -> Result<(), CliError> {
        if self.patience.met(Instant::now()) {
            self.commit()?;
        }
        feed.read_for(self.patience.pause());
        Ok(())
    }

    /// Makes room after the uncommitted items of this and other processes have taken all of it.
    fn make_room(&mut self, error: everseen::Error) -> Result<(), CliError> {
        if self.job.uncommitted_since().is_some() {
            self.crowded_since = None;
            return self.commit();
        }
        let since = *self.crowded_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= CROWDED {
            return Err(error.into());
        }
        self.output.flush()?;
        std::thread::sleep(PAUSE);
        Ok(())
    }

    fn commit_if_due(&mut self) -> Result<(), CliError> {
        match self.job.uncommitted_since() {
            Some(since) if since.elapsed() >= PATIENCE => self.commit(),
            _ => Ok(()),
        }
    }

    fn commit(&mut self) -> Result<(), CliError> {
        if self.job.is_transactional() {
            self.output.sync()?;
        } else {
            self.output.flush()?;
        }
        Ok(self.job.commit()?)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use everseen::hash::{HashedKey, KeyHasher};

    use super::*;
    use crate::input::Items;
    use crate::input::own_files::Purpose;
    use crate::input::records::KeyOptions;

    /// Keeps every item, and notes how many items came between commits.
    #[derive(Default)]
    struct Notes {
        room: usize,
        since: Option<Instant>,
        uncommitted: usize,
        commits: Vec<usize>,
        /// Fails at this item.
        last: Option<usize>,
    }

    impl Job for Notes {
        fn hasher(&self) -> KeyHasher {
            KeyHasher::new(everseen::Hash::Xxh3, &[0; 32])
        }

        fn judge(&mut self, items: &[HashedKey], keep: &mut Vec<bool>) -> everseen::Result<()> {
            assert!(items.len() <= self.room(), "more than there was room for");
            let before = self.commits.iter().sum::<usize>() + self.uncommitted;
            let until = self
                .last
                .map_or(items.len(), |last| items.len().min(last - before));
            keep.extend(vec![true; until]);
            self.uncommitted += until;
            if until < items.len() {
                Err(everseen::Error::Full { capacity: 0 })
            } else {
                Ok(())
            }
        }

        fn room(&self) -> usize {
            self.room - self.uncommitted
        }

        fn uncommitted_since(&self) -> Option<Instant> {
            self.since
        }

        fn commit(&mut self) -> everseen::Result<()> {
            self.commits.push(std::mem::take(&mut self.uncommitted));
            self.since = None;
            Ok(())
        }
    }

    fn run_lines(count: usize, job: &mut Notes) -> Result<Outcome, CliError> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("input");
        std::fs::write(&path, "line\n".repeat(count)).expect("a file to read from");
        let items = Items {
            files: vec![path],
            files_from: None,
            given: Vec::new(),
            null: false,
            max_line: 64 << 20,
            skip_long: false,
            no_decompress: false,
            long: None,
            keys: KeyOptions::default(),
        };
        let purpose = Purpose {
            command: "dedup",
            store: folder.path().join("store"),
        };
        run(
            Input::open(&items, purpose)?,
            job,
            Output::none(),
            "new",
            Window::none(),
            None,
        )
    }

    #[test]
    fn a_commit_comes_when_there_is_no_room_and_at_the_end() {
        let mut job = Notes {
            room: 20_000,
            ..Notes::default()
        };
        let outcome = run_lines(50_000, &mut job).expect("nothing fails");
        assert!(outcome.ending == Ending::Done);
        assert_eq!(
            (outcome.tally.items, outcome.tally.kept, outcome.tally.bytes),
            (50_000, 50_000, 250_000)
        );
        assert_eq!(job.commits, [20_000, 20_000, 10_000]);
    }

    #[test]
    fn what_came_before_a_failure_is_committed() {
        let mut job = Notes {
            room: usize::MAX,
            last: Some(30_000),
            ..Notes::default()
        };
        let ended = run_lines(50_000, &mut job).expect("all before is done");
        assert!(ended.ending == Ending::Full);
        match ended.end(Path::new("store")) {
            Err(CliError::Full {
                place, capacity, ..
            }) => assert_eq!((place.line, capacity), (30_001, 0)),
            _ => panic!("no error"),
        }
        assert_eq!(job.commits, [30_000]);
    }

    #[test]
    fn only_what_has_waited_is_committed_in_a_pause() {
        let mut job = Notes {
            uncommitted: 1,
            ..Notes::default()
        };
        for (since, commits) in [
            (None, 0),
            (Some(Instant::now()), 0),
            (Instant::now().checked_sub(PATIENCE), 1),
        ] {
            job.since = since;
            let (output, progress) = (Output::none(), Progress::new(None, "new", false));
            let mut run = Run {
                job: &mut job,
                output,
                progress,
                tally: Tally::default(),
                keep: Vec::new(),
                crowded_since: None,
                patience: Patience::new(Duration::ZERO),
                refused: None,
                first_long: None,
                window: Window::none(),
                meter: Arc::default(),
            };
            run.commit_if_due().expect("nothing fails");
            assert_eq!(job.commits.len(), commits);
        }
    }
}
