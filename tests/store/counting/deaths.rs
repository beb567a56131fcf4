//! Processes that share a counting store, killed at any instruction.

use std::fs::File;
use std::io::{PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use everseen::testing::{Appending, LEAST_BUFFER, Options};
use everseen::{Kind, Store};

use super::model::{Batch, Counts, Crash, Mark, Model};
use super::number;
use crate::support::files::place;
use crate::support::numbers::{Random, finalise, key};
use crate::support::recorded::Promises;

const VARIABLE: &str = "EVERSEEN_COUNTING_CHILD";
/// Kills unless EVERSEEN_COUNTING_KILLS is set.
const KILLS: u64 = 20;
const SEED: u64 = 5;
const CHILDREN: u64 = 3;
/// Keys of each child.
const KEYS: u32 = 400;

fn options() -> Options {
    Options::new()
        .kind(Kind::Counting)
        .capacity(40_000)
        .fpr(1e-12)
        .seed([7; 32])
        .buffer(LEAST_BUFFER)
}

fn bytes(child: u64, keys: &[u32]) -> Vec<[u8; 8]> {
    let bytes = |number: &u32| key(child << 32 | u64::from(*number)).to_le_bytes();
    keys.iter().map(bytes).collect()
}

fn observe(store: &Store, child: u64) -> Counts {
    let numbers: Vec<_> = (0..KEYS).collect();
    let counted = bytes(child, &numbers);
    let counts = counted.iter().map(|key| store.count_estimate(key).unwrap());
    let there = numbers.iter().zip(counts).filter(|(_, count)| *count > 0);
    there
        .map(|(number, count)| (*number, count as i64))
        .collect()
}

/// What a child does next: both it and its parent know.
fn next(random: &mut Random, held: &Counts) -> Batch {
    let up = held.is_empty() || random.below(2) == 0;
    let count = match random.below(3) {
        0 => 1,
        _ => 1 + random.below(200),
    };
    let mut twin = held.clone();
    let mut keys = Vec::new();
    for _ in 0..count {
        let number = random.below(u64::from(KEYS)) as u32;
        let there = twin.get(&number).copied().unwrap_or(0);
        if up && there < 12 || !up && there > 0 {
            keys.push(number);
            super::model::count(&mut twin, number, if up { 1 } else { -1 });
        }
    }
    Batch { up, keys }
}

#[test]
#[ignore = "not a test: what the other test starts again and kills"]
fn child() {
    let Ok(task) = std::env::var(VARIABLE) else {
        return;
    };
    let [number, seed, path] = task.splitn(3, ' ').collect::<Vec<_>>()[..] else {
        panic!("not a task: {task}");
    };
    let (number, seed): (u64, u64) = (number.parse().unwrap(), seed.parse().unwrap());
    let pipe = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let mut pipe = File::from(pipe);
    let store = options().open(path).unwrap();
    let mut random = Random::new(seed);
    let mut held = observe(&store, number);
    loop {
        let batch = next(&mut random, &held);
        let keys = bytes(number, &batch.keys);
        let mut answers = Vec::new();
        match batch.up {
            true => answers = store.insert_batch(&keys).unwrap(),
            false => store.remove_into(&keys, &mut answers).unwrap(),
        }
        for (key, answer) in batch.keys.iter().zip(answers) {
            let was_there = held.contains_key(key);
            assert_eq!(answer, was_there != batch.up, "child {number}, key {key}");
            super::model::count(&mut held, *key, if batch.up { 1 } else { -1 });
        }
        if pipe.write_all(&[1]).is_err() {
            std::process::exit(1);
        }
        if random.below(40) == 0 {
            store.checkpoint().unwrap();
        }
    }
}

struct Alive {
    child: Child,
    pipe: PipeReader,
    number: u64,
    random: Random,
    model: Model,
}

impl Alive {
    fn start(number: u64, seed: u64, path: &Path, held: Counts) -> Self {
        let (pipe, theirs) = std::io::pipe().unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "counting::deaths::child",
                "--ignored",
                "--nocapture",
            ])
            .env(
                VARIABLE,
                format!("{number} {seed} {}", path.to_str().unwrap()),
            )
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut model = Model::default();
        model.take(&Mark::Opened(held.into()));
        Self {
            child,
            pipe,
            number,
            random: Random::new(seed),
            model,
        }
    }

    /// Does after what the child has told that it did.
    fn follow(&mut self) -> bool {
        if self.pipe.read_exact(&mut [0]).is_err() {
            return false;
        }
        self.model.take(&Mark::Done);
        // A kill takes nothing back that has returned.
        self.model.take(&Mark::Settled);
        // Whether it makes a checkpoint.
        self.random.below(40);
        self.begin();
        true
    }

    fn begin(&mut self) {
        let batch = next(&mut self.random, &self.model.now());
        self.model.take(&Mark::Begun(batch.into()));
    }

    /// Kills it after so many calls, and answers what is there of its keys.
    fn kill(mut self, after: u64, path: &Path) -> Counts {
        self.begin();
        let mut told = 0;
        while told < after && self.follow() {
            told += 1;
        }
        self.child.kill().unwrap();
        while self.follow() {}
        let status = self.child.wait().unwrap();
        assert_eq!(status.signal(), Some(9), "the child failed: {status}");
        // Others may be at it.
        let store = options().open(path).unwrap();
        let found = observe(&store, self.number);
        let checked = self.model.check(&found, Crash::Kill);
        checked.unwrap_or_else(|text| panic!("child {}: {text}", self.number));
        drop(store);
        found
    }
}

/// Invariant I10, several processes.
#[test]
#[cfg_attr(everseen_portable, ignore = "processes share a store on Linux alone")]
fn no_death_among_several_counts_twice_or_loses_a_count() {
    let kills = number("EVERSEEN_COUNTING_KILLS", KILLS).div_ceil(4);
    let seed = number("EVERSEEN_SEED", SEED);
    println!("EVERSEEN_COUNTING_KILLS={} EVERSEEN_SEED={seed}", 4 * kills);
    let (_folder, path) = place();
    options().create(&path).unwrap().close().unwrap();
    let mut random = Random::new(seed);
    let start = |number: u64, turn: u64, held| {
        let seed = finalise(seed ^ number << 32 ^ turn << 16);
        Alive::start(number, seed, &path, held)
    };
    let mut alive: Vec<_> = (0..CHILDREN)
        .map(|number| start(number, 0, Counts::new()))
        .collect();
    for turn in 1..=kills {
        let chosen = alive.remove(random.below(alive.len() as u64) as usize);
        let number = chosen.number;
        let after = random.below(60);
        let found = chosen.kill(after, &path);
        alive.push(start(number, turn, found));
    }
    let found: Vec<_> = alive
        .into_iter()
        .map(|chosen| (chosen.number, chosen.kill(5, &path)))
        .collect();
    // Nobody is left but who opens it now.
    let store = options().open(&path).unwrap();
    assert!(store.verify().unwrap().is_ok());
    let mut sum = 0;
    for (number, counts) in found {
        assert_eq!(observe(&store, number), counts);
        sum += counts.values().sum::<i64>() as u64;
    }
    assert_eq!(store.stats().unwrap().keys, sum);
}
