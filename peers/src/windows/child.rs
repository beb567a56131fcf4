//! A child: one variant and the stream, in a process that has done nothing else. It tells the figures, and then goes on
//! until it is killed.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use everseen_benches::machine::number;
use everseen_benches::worker::{tell, wait_for_start};

use super::clock::Clock;
use super::outcome::Outcome;
use super::peers::{Peer, Setup, Variant};
use super::stream::{Key, STEPS, Stream};
use crate::system;

/// Keys that are handed over at a time.
const PORTION: usize = 4096;
/// Portions of a step, at least.
const PORTIONS: u64 = 8;
/// How long before the end of its window a key is looked up for the first time, in steps.
const EARLY: u64 = 4;

/// What a child is to do.
pub struct Task {
    pub variant: &'static Variant,
    pub stream: Stream,
    /// Steps that are measured.
    pub steps: u64,
    /// The server's number, if there is one.
    pub server: Option<u32>,
    /// Where it notes keys that were called seen when they were new.
    pub refused: PathBuf,
    /// Where it notes when each measured step began, in steps: a server may have fallen behind.
    pub begins: PathBuf,
    pub setup: Setup,
}

/// Keys that are handed over at a time in a stream.
pub fn portion(stream: &Stream) -> usize {
    (stream.asked() / PORTIONS).min(PORTION as u64) as usize
}

/// Does the task, tells the outcome, and goes on.
pub fn work(task: &Task) -> Result<()> {
    wait_for_start()?;
    let before = memory_before(task);
    let peer = (task.variant.make)(&task.setup)?;
    let clock = match task.variant.is_server {
        true => Clock::real(task.setup.window),
        false => Clock::told(),
    };
    let mut run = Run {
        task,
        peer,
        clock,
        refused: HashSet::new(),
        notes: File::create(&task.refused)?,
        tracked: Vec::new(),
        ages: Vec::new(),
        accepted: Vec::new(),
        outcome: Outcome {
            begun: SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64,
            ..Outcome::default()
        },
    };
    for _ in 0..task.steps {
        run.step()?;
    }
    std::fs::write(&task.begins, run.clock.to_lines())?;
    tell(&run.finish(before)?.to_line())?;
    // Time stands still now, so that the one who kills knows what time it is.
    for step in task.steps.. {
        let went_on = run.go_on(step);
        if went_on.is_err() && task.server.is_some() {
            // The server was killed, and this process is next.
            return Ok(());
        }
        went_on?;
    }
    Ok(())
}

/// Bytes of memory that are not the variant's.
fn memory_before(task: &Task) -> u64 {
    if let Some(server) = task.server {
        return server_memory(server, "VmRSS");
    }
    system::reset_peak();
    // A step's keys lie in memory beside the variant.
    drop(task.stream.step(3 * STEPS));
    system::peak().unwrap_or(0)
}

/// Bytes of memory of another process; 0 if unknown.
fn server_memory(process: u32, name: &str) -> u64 {
    number(&format!("/proc/{process}/status"), name).unwrap_or(0) << 10
}

struct Run<'a> {
    task: &'a Task,
    peer: Box<dyn Peer>,
    clock: Clock,
    /// New keys that were called seen, so that nothing is known of them.
    refused: HashSet<Key>,
    notes: File,
    /// Keys that are looked up until they are forgotten.
    tracked: Vec<Key>,
    /// Ages at which they were, in steps.
    ages: Vec<f64>,
    /// Keys that each step has accepted.
    accepted: Vec<u64>,
    outcome: Outcome,
}

fn texts(stream: &Stream, keys: &[Key]) -> Vec<[u8; 20]> {
    keys.iter().map(|key| stream.text(*key)).collect()
}

impl Run<'_> {
    /// A step: first the look-ups, then what is brought.
    fn step(&mut self) -> Result<()> {
        let stream = self.task.stream;
        let step = self.clock.begin();
        self.peer.advance(step)?;
        let is_timed = step >= STEPS;
        self.look_at_tracked(step)?;
        self.look_at_absent(step, is_timed)?;
        let brought = stream.step(step);
        let mut new = Vec::with_capacity(brought.len());
        for keys in brought.chunks(portion(&stream)) {
            let (told, took) = self.bring(keys)?;
            if is_timed {
                self.outcome.brought += keys.len() as u64;
                self.outcome.brought_ns += took.as_nanos() as u64;
            }
            new.extend(told);
        }
        self.clock.end();
        self.judge(step, &brought, &new)?;
        // Two windows before the end, what is remembered by then is remembered for longer than by any of them.
        if step + 2 * STEPS < self.task.steps {
            self.tracked.extend(stream.tracked(step));
        }
        Ok(())
    }

    /// Brings keys on, and tells how far it came each time.
    fn go_on(&mut self, step: u64) -> Result<()> {
        let brought = self.task.stream.step(step);
        let portions = brought.chunks(portion(&self.task.stream));
        for (number, keys) in portions.enumerate() {
            let (new, _) = self.bring(keys)?;
            for (key, new) in keys.iter().zip(new) {
                if key.born == step && !new {
                    self.refuse(*key)?;
                }
            }
            tell(&format!("{step} {}", number + 1))?;
        }
        Ok(())
    }

    fn bring(&mut self, keys: &[Key]) -> Result<(Vec<bool>, Duration)> {
        let texts = texts(&self.task.stream, keys);
        let texts: Vec<&[u8]> = texts.iter().map(|text| &text[..]).collect();
        let begun = Instant::now();
        let new = self.peer.insert(&texts)?;
        Ok((new, begun.elapsed()))
    }

    fn refuse(&mut self, key: Key) -> Result<()> {
        self.refused.insert(key);
        let mut note = [0; 16];
        note[..8].copy_from_slice(&key.born.to_le_bytes());
        note[8..].copy_from_slice(&key.place.to_le_bytes());
        Ok(self.notes.write_all(&note)?)
    }

    /// Holds the answers of a step against what they must be.
    fn judge(&mut self, step: u64, brought: &[Key], new: &[bool]) -> Result<()> {
        let window = STEPS as f64;
        let mut accepted = 0;
        for (key, new) in brought.iter().zip(new) {
            accepted += u64::from(*new);
            if key.born == step {
                self.outcome.never += 1;
                if !new {
                    self.outcome.false_seen += 1;
                    self.refuse(*key)?;
                }
            } else if self.refused.contains(key) {
                // What became of it is left open.
            } else if self.clock.oldest(key.born, step) < window {
                self.outcome.under += 1;
                self.outcome.lost += u64::from(*new);
            } else if self.clock.youngest(key.born, step) > window {
                self.outcome.past += 1;
                self.outcome.kept += u64::from(!new);
            }
        }
        self.accepted.push(accepted);
        Ok(())
    }

    fn look_at_tracked(&mut self, step: u64) -> Result<()> {
        let due = |key: &Key| key.born + STEPS - EARLY <= step;
        let (due, not_yet): (Vec<_>, Vec<_>) = self.tracked.drain(..).partition(due);
        self.tracked = not_yet;
        if due.is_empty() {
            return Ok(());
        }
        let texts = texts(&self.task.stream, &due);
        let texts: Vec<&[u8]> = texts.iter().map(|text| &text[..]).collect();
        let seen = self.peer.look_up(&texts)?;
        for (key, seen) in due.into_iter().zip(seen) {
            if seen {
                self.tracked.push(key);
            } else if !self.refused.contains(&key) {
                self.ages.push(self.clock.age(key.born));
            }
        }
        Ok(())
    }

    fn look_at_absent(&mut self, step: u64, is_timed: bool) -> Result<()> {
        let stream = self.task.stream;
        let places: Vec<u64> = (0..stream.absent()).collect();
        for places in places.chunks(portion(&stream)) {
            let texts: Vec<_> = places
                .iter()
                .map(|place| stream.absent_text(step, *place))
                .collect();
            let texts: Vec<&[u8]> = texts.iter().map(|text| &text[..]).collect();
            let begun = Instant::now();
            let seen = self.peer.look_up(&texts)?;
            if is_timed {
                self.outcome.looked_up += texts.len() as u64;
                self.outcome.looked_up_ns += begun.elapsed().as_nanos() as u64;
            }
            self.outcome.never += texts.len() as u64;
            self.outcome.false_seen += seen.iter().map(|seen| u64::from(*seen)).sum::<u64>();
        }
        Ok(())
    }

    /// The figures at the end of the measured steps.
    fn finish(&mut self, before: u64) -> Result<Outcome> {
        let last = self.task.steps - 1;
        let is_live = |step: &u64| self.clock.oldest(*step, last) < STEPS as f64;
        let live = (0..=last).filter(is_live);
        self.outcome.live = live.map(|step| self.accepted[step as usize]).sum();
        let peak = match self.task.server {
            Some(server) => server_memory(server, "VmHWM"),
            None => system::peak().unwrap_or(0),
        };
        self.outcome.peak = peak.saturating_sub(before);
        self.outcome.disk = system::used_disk(&self.task.setup.folder)?;
        self.ages.sort_by(f64::total_cmp);
        let thousandths = |steps: f64| (steps * 1000.0 / STEPS as f64).round() as u64;
        let age = |at: usize| thousandths(self.ages.get(at).copied().unwrap_or(0.0));
        self.outcome.longest_step = thousandths(self.clock.longest_step());
        self.outcome.age_least = age(0);
        self.outcome.age_median = age(self.ages.len() / 2);
        self.outcome.age_most = age(self.ages.len().saturating_sub(1));
        self.outcome.never_forgotten = self.tracked.len() as u64;
        Ok(self.outcome)
    }
}
