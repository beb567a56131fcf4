//! What a child is to do, and what it tells.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use everseen::testing::Options;
use everseen::{Commit, Kind};

use super::ages::Ages;
use crate::support::ages::{WINDOW, within};
use crate::support::forge::u64_at;
use crate::support::numbers::key;

/// Where a child finds its task.
pub const VARIABLE: &str = "EVERSEEN_KILL_TASK";

/// Most new keys of one batch.
pub const MOST_NEW: u64 = 1024;

/// Threads that insert at most; each has keys of its own.
pub const MOST_WORKERS: usize = 2;

/// What the child does once the store is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Anything, at random, until it is killed.
    Random,
    /// A little of everything, and an end.
    Script,
    /// Next to nothing, and an end: for kills in the recovery before it.
    Short,
}

/// What a child is to do.
#[derive(Debug, Clone)]
pub struct Task {
    pub kind: Kind,
    pub transactional: bool,
    /// Whether its keys have ages, and are forgotten as steps pass.
    pub forgets: bool,
    /// In which step the child begins, and those in which the keys of each worker came.
    pub clock: u64,
    pub ages: [Ages; MOST_WORKERS],
    pub background: bool,
    /// Whether syncs are real.
    pub synced: bool,
    pub workers: usize,
    pub work: Work,
    pub seed: u64,
    /// The first key of each worker that is not in the store.
    pub next: [u64; MOST_WORKERS],
    /// The first key of each worker that has not been removed, where the kind can.
    pub gone: [u64; MOST_WORKERS],
    /// At which call to the file system to stop and wait to be killed.
    pub stop: Option<u64>,
    pub path: PathBuf,
}

impl Task {
    pub fn encode(&self) -> String {
        let work = match self.work {
            Work::Random => "random",
            Work::Script => "script",
            Work::Short => "short",
        };
        let stop = self
            .stop
            .map_or("never".to_owned(), |stop| stop.to_string());
        let [first, second] = self.next;
        let [gone, gone_too] = self.gone;
        let [ages, ages_too] = self.ages.each_ref().map(Ages::encode);
        format!(
            "{} {} {} {} {} {} {work} {} {first} {second} {gone} {gone_too} {stop} {} {ages} {ages_too} {}",
            self.kind,
            self.transactional,
            self.forgets,
            self.background,
            self.synced,
            self.workers,
            self.seed,
            self.clock,
            self.path.to_str().unwrap(),
        )
    }

    pub fn decode(text: &str) -> Self {
        let fields: Vec<_> = text.splitn(17, ' ').collect();
        let [
            kind,
            transactional,
            forgets,
            background,
            synced,
            workers,
            work,
            seed,
            first,
            second,
            gone,
            gone_too,
            stop,
            clock,
            ages,
            ages_too,
            path,
        ] = fields[..]
        else {
            panic!("not a task: {text}");
        };
        Self {
            kind: kind.parse().unwrap(),
            transactional: transactional.parse().unwrap(),
            forgets: forgets.parse().unwrap(),
            background: background.parse().unwrap(),
            synced: synced.parse().unwrap(),
            workers: workers.parse().unwrap(),
            work: match work {
                "random" => Work::Random,
                "script" => Work::Script,
                _ => Work::Short,
            },
            seed: seed.parse().unwrap(),
            next: [first.parse().unwrap(), second.parse().unwrap()],
            gone: [gone.parse().unwrap(), gone_too.parse().unwrap()],
            clock: clock.parse().unwrap(),
            ages: [ages, ages_too].map(Ages::decode),
            stop: (stop != "never").then(|| stop.parse().unwrap()),
            path: path.into(),
        }
    }

    /// Most keys that the store is given.
    pub fn limit(&self) -> u64 {
        match self.work {
            Work::Random => 100_000,
            Work::Script | Work::Short => 13_000,
        }
    }

    /// How the store is made and opened, with the least buffer, so that checkpoints are the rule, or with buffers that
    /// grow from there. The rate is so low that not one false positive is to be expected in all the kills together.
    pub fn options(&self) -> Options {
        let capacity = match self.kind {
            Kind::Scalable => 1000,
            _ => self.limit(),
        };
        let least = everseen::testing::LEAST_BUFFER;
        let options = match self.work == Work::Random && self.seed.is_multiple_of(2) {
            true => Options::new().buffer_between(least, 32 * least),
            false => Options::new().buffer(least),
        };
        self.aged(options)
            .kind(self.kind)
            .capacity(capacity)
            .fpr(match (self.work, self.forgets) {
                (Work::Random, false) => 1e-12,
                // Ages take bits.
                (Work::Random, true) => 1e-11,
                _ => 1e-9,
            })
            .seed([7; 32])
            .segment_pages(2)
            .step_segments(2)
            // Half of the stores have several runs.
            .least_run(if self.transactional { 16 } else { 8192 })
            .least_at_once(if self.transactional { 1 } else { 32_768 })
            .filtered_from(if self.background { 0 } else { u64::MAX })
            .transactional(self.transactional)
            .background(self.background)
    }

    /// Gives keys ages.
    pub fn aged(&self, options: Options) -> Options {
        match self.forgets {
            true => options.forget_after(WINDOW).clock(within(self.clock)),
            false => options,
        }
    }
}

/// Key number `index` of a worker.
pub fn key_of(worker: usize, index: u64) -> u64 {
    key(index * MOST_WORKERS as u64 + worker as u64)
}

/// The tag of a commit of all keys below `next`, and of the removal of those below `gone`.
pub fn tag(next: u64, gone: u64) -> [u8; 16] {
    let mut tag = [0; 16];
    tag[..8].copy_from_slice(&next.to_le_bytes());
    tag[8..].copy_from_slice(&gone.to_le_bytes());
    tag
}

/// The numbers in the tag of a last commit.
pub fn numbers_of(commit: Option<&Commit>) -> (u64, u64) {
    commit.map_or((0, 0), |commit| {
        (u64_at(&commit.tag, 0), u64_at(&commit.tag, 8))
    })
}

/// What a child tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It is about to open the store.
    Starting,
    Opened,
    /// All keys of the worker below `next` have been inserted.
    Inserted {
        worker: usize,
        next: u64,
    },
    /// All keys of the worker below `next` have been seen in the store, by another thread.
    Seen {
        worker: usize,
        next: u64,
    },
    /// All keys of the worker below `gone` have been removed.
    Removed {
        worker: usize,
        gone: u64,
    },
    /// A commit of all keys below `next` begins, and of the removal of those below `gone`.
    Committing {
        next: u64,
        gone: u64,
    },
    Committed {
        sequence: u64,
    },
    /// This is about to be the step that it is, in a store that forgets.
    Passing {
        step: u64,
    },
    /// Something else has returned.
    Done,
    /// It has come to where it was to stop.
    Stopped,
}

pub const TOLD_BYTES: usize = 24;

impl Told {
    fn encode(self) -> [u8; TOLD_BYTES] {
        let mut other = 0;
        let (kind, worker, number): (u32, usize, u64) = match self {
            Told::Starting => (1, 0, 0),
            Told::Opened => (2, 0, 0),
            Told::Inserted { worker, next } => (3, worker, next),
            Told::Seen { worker, next } => (4, worker, next),
            Told::Committing { next, gone } => {
                other = gone;
                (5, 0, next)
            }
            Told::Removed { worker, gone } => (9, worker, gone),
            Told::Committed { sequence } => (6, 0, sequence),
            Told::Done => (7, 0, 0),
            Told::Stopped => (8, 0, 0),
            Told::Passing { step } => (10, 0, step),
        };
        let mut bytes = [0; TOLD_BYTES];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4] = worker as u8;
        bytes[8..16].copy_from_slice(&number.to_le_bytes());
        bytes[16..].copy_from_slice(&other.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: [u8; TOLD_BYTES]) -> Self {
        let worker = usize::from(bytes[4]);
        let [next, gone] = [8, 16].map(|at| u64_at(&bytes, at));
        match bytes[0] {
            1 => Told::Starting,
            2 => Told::Opened,
            3 => Told::Inserted { worker, next },
            4 => Told::Seen { worker, next },
            5 => Told::Committing { next, gone },
            9 => Told::Removed { worker, gone: next },
            6 => Told::Committed { sequence: next },
            7 => Told::Done,
            8 => Told::Stopped,
            10 => Told::Passing { step: next },
            other => panic!("the child told {other}"),
        }
    }
}

/// The child's end of the pipe. What is told is a single write, so it comes whole or not at all.
#[derive(Debug)]
pub struct Pipe(File);

impl Pipe {
    pub fn new(file: File) -> Self {
        Self(file)
    }

    /// Tells the parent. Without one there is nothing left to do.
    pub fn tell(&self, told: Told) {
        if (&self.0).write_all(&told.encode()).is_err() {
            std::process::exit(1);
        }
    }

    /// Tells it until the kill: the pipe is soon full, and then telling blocks.
    pub fn tell_forever(&self, told: Told) -> ! {
        loop {
            self.tell(told);
        }
    }
}
