//! How long an inserter waits: percentiles of the time that one call takes, apart for calls while no
//! checkpoint is under way, for those beside one, and for those that close a buffer.
//!
//! `cargo run --release -p everseen-benches --bin latency`

mod calls;
mod report;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use clap::Parser;
use everseen::Store;
use everseen::testing::Options;
use everseen_benches::keys::hash;
use everseen_benches::machine::Machine;
use everseen_benches::numbers;
use everseen_benches::scratch::Scratch;

use calls::{Calls, Logs};
use report::Run;

/// Measure how long single calls take while keys are inserted
#[derive(Parser)]
struct Args {
    /// Keys that the store is made for, at a rate of 1e-6, and that come in batches
    #[arg(long, default_value = "30M", value_parser = numbers::count)]
    keys: u64,

    /// Keys inserted one at a time
    #[arg(long, default_value = "6M", value_parser = numbers::count)]
    singles: u64,

    /// Memory for the buffers, in MiB: of all scenarios, and of the second with batches
    #[arg(long, default_value = "64,256", value_delimiter = ',', value_parser = numbers::count)]
    buffers: Vec<u64>,

    /// Rounds, of which the medians are told
    #[arg(long, default_value = "3", value_parser = numbers::count)]
    rounds: u64,

    /// A folder on the disk to measure; else the system's for temporary files
    #[arg(long)]
    dir: Option<PathBuf>,

    /// Few keys, small buffers, one round: only to see that it works
    #[arg(long)]
    quick: bool,

    /// Only scenarios whose name contains this
    #[arg(long, default_value = "")]
    only: String,
}

const BATCH: u64 = 1000;
/// Calls of single keys between two looks at how far the checkpoint is.
const GROUP: u64 = 64;
/// Keys that are never inserted begin here.
const ABSENT: u64 = 1 << 40;

/// Whose time is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Batches,
    Singles,
    /// Of keys that are there and keys that aren't in turn, while another thread inserts batches.
    Contains,
}

#[derive(Clone, Debug)]
struct Scenario {
    name: String,
    what: What,
    exclusive: bool,
    /// In MiB.
    buffer: u64,
}

fn scenarios(buffers: &[u64]) -> Vec<Scenario> {
    let scenario = |name: String, what, exclusive, buffer| Scenario {
        name: format!("{name}, {buffer} MiB"),
        what,
        exclusive,
        buffer,
    };
    let batches = |buffer: &u64| {
        let name = format!("batches of {BATCH}");
        scenario(name, What::Batches, false, *buffer)
    };
    let mut all: Vec<_> = buffers.iter().map(batches).collect();
    let buffer = buffers[0];
    for (name, what, exclusive) in [
        ("single keys", What::Singles, false),
        ("single keys, exclusive", What::Singles, true),
        ("contains beside batches", What::Contains, false),
    ] {
        all.push(scenario(name.to_owned(), what, exclusive, buffer));
    }
    all
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = Args::parse();
    if args.quick {
        args.keys = args.keys.min(300_000);
        args.singles = args.singles.min(100_000);
        args.buffers = vec![2, 4];
        args.rounds = 1;
    }
    let folder = Scratch::new(args.dir.as_deref())?;
    println!("{}", Machine::here(folder.path()));
    println!(
        "a store for {} keys at 1e-6, {} of them for single keys; keys of 8 bytes, all new; \
         medians of {} rounds",
        args.keys, args.singles, args.rounds
    );
    let mut scenarios = scenarios(&args.buffers);
    scenarios.retain(|scenario| scenario.name.contains(&args.only));
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); scenarios.len()];
    for _ in 0..args.rounds {
        for (scenario, runs) in scenarios.iter().zip(&mut runs) {
            runs.push(measure(scenario, &args, &folder.file("store.ever"))?);
            folder.clear()?;
        }
    }
    let names: Vec<_> = scenarios.iter().map(|scenario| &*scenario.name).collect();
    report::print(&names, &runs);
    Ok(())
}

/// Runs a scenario once, on a store of its own.
fn measure(scenario: &Scenario, args: &Args, path: &Path) -> Result<Run, Box<dyn Error>> {
    let store = Options::new()
        .capacity(args.keys)
        .fpr(1e-6)
        .buffer(scenario.buffer << 20)
        .exclusive(scenario.exclusive)
        .create(path)?;
    let keys = match scenario.what {
        What::Singles => args.singles.min(args.keys),
        _ => args.keys,
    };
    // So that the log is there, and each page of the buffer has been touched.
    let mut new = insert_batch(&store, ABSENT * 2..ABSENT * 2 + BATCH)?;
    let mut calls = Calls::default();
    let mut logs = Logs::of(path);
    let begun = Instant::now();
    let rest = keys.saturating_sub(BATCH);
    match scenario.what {
        What::Batches => {
            for from in (0..rest).step_by(BATCH as usize) {
                let batch = keys_of(from..rest.min(from + BATCH));
                new += calls.time(&mut logs, 1, |_| insert(&store, &batch))?;
            }
        }
        What::Singles => {
            for from in (0..rest).step_by(GROUP as usize) {
                let group = keys_of(from..rest.min(from + GROUP));
                new += calls.time(&mut logs, group.len(), |place| {
                    store.insert(group[place]).map(u64::from)
                })?;
            }
        }
        What::Contains => new += ask_beside_batches(&store, rest, &mut logs, &mut calls)?,
    }
    let seconds = begun.elapsed().as_secs_f64();
    if new.abs_diff(keys) > keys / 1000 {
        return Err(format!("{new} keys were new, of {keys}").into());
    }
    store.close()?;
    Ok(Run {
        calls,
        keys,
        seconds,
        rotations: logs.rotations(),
    })
}

type Key = [u8; 8];

fn keys_of(numbers: std::ops::Range<u64>) -> Vec<Key> {
    numbers.map(|number| hash(number).to_le_bytes()).collect()
}

/// Inserts a batch and answers how many of its keys were new.
fn insert(store: &Store, batch: &[Key]) -> everseen::Result<u64> {
    let answers = store.insert_batch(batch)?;
    Ok(answers.into_iter().map(u64::from).sum())
}

fn insert_batch(store: &Store, numbers: std::ops::Range<u64>) -> everseen::Result<u64> {
    insert(store, &keys_of(numbers))
}

/// Inserts keys in batches, while another thread asks for keys and notes how long it takes. Answers
/// how many keys were new.
fn ask_beside_batches(
    store: &Store,
    keys: u64,
    logs: &mut Logs,
    calls: &mut Calls,
) -> Result<u64, Box<dyn Error>> {
    let inserted = AtomicU64::new(0);
    let under_way = AtomicBool::new(false);
    let ended = AtomicBool::new(false);
    let ask = || -> everseen::Result<Calls> {
        let mut calls = Calls::default();
        for turn in 0.. {
            if ended.load(Ordering::Relaxed) {
                break;
            }
            // Acquire: what is counted there has been inserted.
            let there = inserted.load(Ordering::Acquire);
            let draw = hash(turn ^ (ABSENT * 3));
            let expected = turn % 2 == 0 && there > 0;
            let number = if expected {
                draw % there
            } else {
                ABSENT + turn
            };
            let key = hash(number).to_le_bytes();
            let before = under_way.load(Ordering::Relaxed);
            let begun = Instant::now();
            let found = store.contains(key)?;
            let took = begun.elapsed();
            assert!(found || !expected, "key {number} is lost");
            calls.add(took, before || under_way.load(Ordering::Relaxed));
        }
        Ok(calls)
    };
    let mut insert = || -> Result<u64, Box<dyn Error>> {
        let mut new = 0;
        for from in (0..keys).step_by(BATCH as usize) {
            let end = keys.min(from + BATCH);
            new += insert_batch(store, from..end)?;
            inserted.store(end, Ordering::Release);
            logs.look()?;
            under_way.store(logs.under_way(), Ordering::Relaxed);
        }
        Ok(new)
    };
    thread::scope(|scope| {
        let asker = scope.spawn(ask);
        let new = insert();
        ended.store(true, Ordering::Relaxed);
        match asker.join() {
            Ok(asked) => *calls = asked?,
            Err(_) => return Err("the thread that asked panicked".into()),
        }
        new
    })
}
