//! What a child is to do, and what it tells.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use everseen::Kind;
use everseen::testing::{LEAST_BUFFER, Options};

use crate::support::ages::{STEP, within};

/// Where a child finds its task.
pub const VARIABLE: &str = "EVERSEEN_PROCESS_TASK";

/// Keys of each child that come and go.
const PASSING: u64 = 64;

/// What the child does once the store is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// So many things at random, and an end.
    Random(u64),
    /// All keys in an order of its own until each is in the store, and an end.
    All,
    /// A fixed list of keys that rotates a nearly full buffer, and an end.
    Script,
    /// The keys below this number, and nothing more until it is killed.
    Hold(u64),
}

/// Which calls to the file system are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    All,
    /// Writes to the store file alone.
    Pages,
    /// Writes to a log that are done: between a record and its being shown.
    Records,
    /// All, and the process halts there in place of ending.
    Halt,
}

#[derive(Debug, Clone)]
pub struct Task {
    pub kind: Kind,
    pub transactional: bool,
    pub background: bool,
    /// Whether syncs are real.
    pub synced: bool,
    pub exclusive: bool,
    pub buffer: u64,
    /// Whether buffers may grow from there with the filter.
    pub follows: bool,
    /// The step in which it begins, in a store that forgets: less than a window of 250 passes, so nothing is forgotten.
    pub clock: Option<u64>,
    pub work: Work,
    pub seed: u64,
    /// Keys are numbers below this.
    pub keys: u64,
    /// Which child it is: its writer's name.
    pub slot: usize,
    /// At which call to the file system to end or halt.
    pub stop: Option<(Counted, u64)>,
    pub path: PathBuf,
}

impl Task {
    pub fn new(kind: Kind, transactional: bool, keys: u64, path: &Path) -> Self {
        Self {
            kind,
            transactional,
            background: false,
            synced: false,
            exclusive: false,
            buffer: LEAST_BUFFER,
            follows: false,
            clock: None,
            work: Work::All,
            seed: 1,
            keys,
            slot: 0,
            stop: None,
            path: path.to_owned(),
        }
    }

    pub fn encode(&self) -> String {
        let (work, count) = match self.work {
            Work::Random(count) => ("random", count),
            Work::All => ("all", 0),
            Work::Script => ("script", 0),
            Work::Hold(count) => ("hold", count),
        };
        let (counted, stop) = match self.stop {
            None => ("never", 0),
            Some((Counted::All, stop)) => ("all", stop),
            Some((Counted::Pages, stop)) => ("pages", stop),
            Some((Counted::Records, stop)) => ("records", stop),
            Some((Counted::Halt, stop)) => ("halt", stop),
        };
        format!(
            "{} {} {} {} {} {} {} {} {work} {count} {} {} {} {counted} {stop} {}",
            self.kind,
            self.transactional,
            self.background,
            self.synced,
            self.exclusive,
            self.buffer,
            self.follows,
            self.clock.unwrap_or(0),
            self.seed,
            self.keys,
            self.slot,
            self.path.to_str().unwrap(),
        )
    }

    pub fn decode(text: &str) -> Self {
        let mut fields = text.splitn(16, ' ');
        let mut next = || fields.next().unwrap();
        let kind = next().parse().unwrap();
        let [transactional, background, synced, exclusive] =
            std::array::from_fn(|_| next().parse().unwrap());
        let buffer = next().parse().unwrap();
        let follows = next().parse().unwrap();
        let clock = Some(next().parse().unwrap());
        let (work, count) = (next(), next().parse().unwrap());
        let [seed, keys, slot] = std::array::from_fn(|_| next().parse::<u64>().unwrap());
        let (counted, stop) = (next(), next().parse().unwrap());
        Self {
            kind,
            transactional,
            background,
            synced,
            exclusive,
            buffer,
            follows,
            clock: clock.filter(|step| *step > 0),
            work: match work {
                "random" => Work::Random(count),
                "all" => Work::All,
                "script" => Work::Script,
                _ => Work::Hold(count),
            },
            seed,
            keys,
            slot: slot as usize,
            stop: match counted {
                "never" => None,
                "all" => Some((Counted::All, stop)),
                "records" => Some((Counted::Records, stop)),
                "halt" => Some((Counted::Halt, stop)),
                _ => Some((Counted::Pages, stop)),
            },
            path: next().into(),
        }
    }

    /// How the store is made and opened. The rate is so low that not one false positive is to be expected in all runs
    /// together. Whoever is stopped is waited for.
    pub fn options(&self) -> Options {
        let capacity = match self.kind {
            Kind::Scalable => 1000,
            _ => self.keys + self.keys / 8,
        };
        let options = match self.follows {
            true => Options::new().buffer_between(self.buffer, 64 * self.buffer),
            false => Options::new().buffer(self.buffer),
        };
        let options = match self.clock {
            Some(step) => options
                .forget_after(STEP * 250)
                .forget_steps(250)
                .clock(within(step)),
            None => options,
        };
        options
            .kind(self.kind)
            .capacity(capacity)
            .fpr(match self.clock {
                // Ages take bits.
                Some(_) => 1e-11,
                None if self.keys > 1 << 15 => 1e-12,
                None => 1e-9,
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
            .exclusive(self.exclusive)
            .writer(&writer(self.slot))
            .timeout(Duration::from_secs(120))
    }
}

/// The name under which a child commits.
pub fn writer(slot: usize) -> String {
    format!("w{slot}")
}

/// The numbers of the keys that come and go, which one child alone inserts and removes.
pub fn passing(keys: u64, slot: usize) -> std::ops::Range<u64> {
    let first = keys + slot as u64 * PASSING;
    first..first + PASSING
}

/// The numbers of keys that a script removes, where the kind can. They are there before it.
pub const LEAVING: std::ops::Range<u64> = 1 << 40..(1 << 40) + 200;

/// The bytes of a key.
pub fn key(number: u64) -> [u8; 8] {
    crate::support::numbers::key(number).to_le_bytes()
}

/// The bytes of keys.
pub fn keys(numbers: impl IntoIterator<Item = u64>) -> Vec<[u8; 8]> {
    numbers.into_iter().map(key).collect()
}

/// What a child tells: a line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// It is about to open the store.
    Starting,
    /// The store is open, and this is the number of its writer's last commit.
    Opened(u64),
    /// It is about to claim these keys.
    Begin(Vec<u64>),
    /// What came of it, a letter a key, in their order: new, seen, pending. Keys beyond the last letter were refused.
    Answer(String),
    /// It is about to insert these passing keys, or to remove them.
    Changing(bool, Vec<u64>),
    /// So many of them are done, the first ones.
    Changed(u64),
    Committing(u64),
    Committed {
        counter: u64,
        sequence: u64,
    },
    /// Something else has returned.
    Done,
    /// It is about to close the store, and to open it again or not.
    Closing,
    /// It has closed the store for good.
    End,
}

impl Told {
    pub fn encode(&self) -> String {
        match self {
            Told::Starting => "S\n".to_owned(),
            Told::Opened(last) => format!("O {last}\n"),
            Told::Begin(keys) => {
                let keys: Vec<_> = keys.iter().map(u64::to_string).collect();
                format!("B {}\n", keys.join(" "))
            }
            Told::Answer(letters) => format!("A {letters}\n"),
            Told::Changing(insert, keys) => {
                let keys: Vec<_> = keys.iter().map(u64::to_string).collect();
                format!("P {} {}\n", u64::from(*insert), keys.join(" "))
            }
            Told::Changed(count) => format!("Q {count}\n"),
            Told::Committing(counter) => format!("C {counter}\n"),
            Told::Committed { counter, sequence } => format!("D {counter} {sequence}\n"),
            Told::Done => "X\n".to_owned(),
            Told::Closing => "R\n".to_owned(),
            Told::End => "E\n".to_owned(),
        }
    }

    pub fn decode(line: &str) -> Self {
        let (letter, rest) = line.split_at(1);
        let rest = rest.trim();
        let numbers = || {
            rest.split_whitespace()
                .map(|word| word.parse::<u64>().unwrap())
        };
        match letter {
            "S" => Told::Starting,
            "O" => Told::Opened(rest.parse().unwrap()),
            "B" => Told::Begin(numbers().collect()),
            "A" => Told::Answer(rest.to_owned()),
            "P" => {
                let mut words = numbers();
                Told::Changing(words.next() == Some(1), words.collect())
            }
            "Q" => Told::Changed(rest.parse().unwrap()),
            "C" => Told::Committing(rest.parse().unwrap()),
            "D" => {
                let both: Vec<_> = numbers().collect();
                Told::Committed {
                    counter: both[0],
                    sequence: both[1],
                }
            }
            "X" => Told::Done,
            "R" => Told::Closing,
            "E" => Told::End,
            _ => panic!("the child told {line}"),
        }
    }
}

/// The child's end of the pipe. A line that a kill cut short has no end, and is not believed.
#[derive(Debug)]
pub struct Pipe(pub File);

impl Pipe {
    /// Tells the parent. Without one there is nothing left to do.
    pub fn tell(&self, told: &Told) {
        if (&self.0).write_all(told.encode().as_bytes()).is_err() {
            std::process::exit(1);
        }
    }
}
