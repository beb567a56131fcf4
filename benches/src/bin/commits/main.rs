//! How many commits of one key each a store makes durable in a second, against a bare loop that
//! writes as many bytes and has them made durable; and how many when threads commit at once.
//!
//! `cargo run --release -p everseen-benches --bin commits`

mod counted;
mod report;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use everseen::Store;
use everseen::testing::Options;
use everseen_benches::histogram::Histogram;
use everseen_benches::keys::hash;
use everseen_benches::machine::Machine;
use everseen_benches::numbers;
use everseen_benches::raw::Appended;
use everseen_benches::scratch::Scratch;

use counted::Counted;
use report::Run;

/// Measure durable commits of one key each
#[derive(Parser)]
struct Args {
    /// Milliseconds that each loop runs in a round
    #[arg(long, default_value = "200", value_parser = numbers::count)]
    ms: u64,

    /// Rounds, of which the medians are told
    #[arg(long, default_value = "31", value_parser = numbers::count)]
    rounds: u64,

    /// A folder on the disk to measure; else the system's for temporary files
    #[arg(long)]
    dir: Option<PathBuf>,

    /// Short loops, two rounds: only to see that it works
    #[arg(long)]
    quick: bool,

    /// Only loops whose name contains this
    #[arg(long, default_value = "")]
    only: String,
}

/// What runs in a loop.
#[derive(Clone, Copy, Debug)]
enum What {
    /// Writes into a file, each made durable.
    Raw { zeroed: bool },
    /// Inserts of a key and commits, by threads that share a handle.
    Commits { threads: u64, exclusive: bool },
}

const fn commits(threads: u64, exclusive: bool) -> What {
    What::Commits { threads, exclusive }
}

const LOOPS: [(&str, What); 7] = [
    ("raw, room reserved", What::Raw { zeroed: false }),
    ("raw, room written before", What::Raw { zeroed: true }),
    ("one thread", commits(1, false)),
    ("one thread, exclusive", commits(1, true)),
    ("2 threads", commits(2, false)),
    ("4 threads", commits(4, false)),
    ("8 threads", commits(8, false)),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = Args::parse();
    if args.quick {
        args.ms = args.ms.min(50);
        args.rounds = 2;
    }
    let folder = Scratch::new(args.dir.as_deref())?;
    println!("{}", Machine::here(folder.path()));
    let numbers = AtomicU64::new(0);
    let disk = Arc::new(Counted::new());
    let open = |name, exclusive| {
        let options = Options::new().storage(Arc::clone(&disk) as _);
        open(&options.exclusive(exclusive), &folder.file(name), &numbers)
    };
    let shared = open("shared.ever", false)?;
    let alone = open("alone.ever", true)?;
    let bytes = bytes_a_commit(&shared, &numbers)?;
    let record: Vec<u8> = (0..bytes).map(|place| hash(place) as u8).collect();
    let mut reserved = Appended::create(&folder.file("reserved"), false)?;
    let mut zeroed = Appended::create(&folder.file("zeroed"), true)?;
    println!(
        "{bytes} bytes a commit; {} ms each, in turn; medians of {} rounds",
        args.ms, args.rounds
    );
    let time = Duration::from_millis(args.ms);
    let chosen: Vec<_> = LOOPS
        .into_iter()
        .filter(|(name, _)| name.contains(&args.only))
        .collect();
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); chosen.len()];
    for _ in 0..args.rounds {
        for ((_, what), runs) in chosen.iter().zip(&mut runs) {
            runs.push(match *what {
                What::Raw { zeroed: false } => append(&mut reserved, &record, time)?,
                What::Raw { zeroed: true } => append(&mut zeroed, &record, time)?,
                What::Commits { threads, exclusive } => {
                    let store = if exclusive { &alone } else { &shared };
                    commit((store, &disk), threads, &numbers, time)?
                }
            });
        }
    }
    for store in [&shared, &alone] {
        if store.stats()?.generation != 1 {
            return Err("a checkpoint came in between".into());
        }
    }
    report::print(&chosen, &runs);
    Ok(())
}

/// A store with room for all keys in its buffer, which has seen a commit.
fn open(options: &Options, path: &Path, numbers: &AtomicU64) -> everseen::Result<Store> {
    let options = options.clone().capacity(10_000_000).buffer(256 << 20);
    let store = options.create(path)?;
    commit_one(&store, numbers)?;
    Ok(store)
}

/// Inserts a new key and makes it durable.
fn commit_one(store: &Store, numbers: &AtomicU64) -> everseen::Result<()> {
    let number = numbers.fetch_add(1, Ordering::Relaxed);
    store.insert(hash(number))?;
    store.commit().map(drop)
}

/// The bytes that a commit of one key adds to the log.
fn bytes_a_commit(store: &Store, numbers: &AtomicU64) -> everseen::Result<u64> {
    const COMMITS: u64 = 16;
    let before = store.stats()?.log_bytes;
    for _ in 0..COMMITS {
        commit_one(store, numbers)?;
    }
    Ok((store.stats()?.log_bytes - before).div_ceil(COMMITS))
}

fn append(file: &mut Appended, record: &[u8], time: Duration) -> std::io::Result<Run> {
    let mut took = Histogram::default();
    let begun = Instant::now();
    let mut last = begun;
    while last - begun < time {
        file.append(record)?;
        let now = Instant::now();
        took.add((now - last).as_nanos() as u64);
        last = now;
    }
    Ok(Run::of(took, last - begun, 0))
}

/// Has threads insert and commit, all at once.
fn commit(
    (store, disk): (&Store, &Counted),
    threads: u64,
    numbers: &AtomicU64,
    time: Duration,
) -> Result<Run, Box<dyn Error>> {
    let before = disk.syncs();
    let start = Barrier::new(threads as usize);
    let work = || -> everseen::Result<(Histogram, Instant, Instant)> {
        let mut took = Histogram::default();
        start.wait();
        let begun = Instant::now();
        let mut last = begun;
        while last - begun < time {
            commit_one(store, numbers)?;
            let now = Instant::now();
            took.add((now - last).as_nanos() as u64);
            last = now;
        }
        Ok((took, begun, last))
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut took = Histogram::default();
        let mut span: Option<(Instant, Instant)> = None;
        for worker in workers {
            let worked = worker.join().map_err(|_| "a thread panicked")?;
            let (times, begun, ended) = worked?;
            took.merge(&times);
            let (first, last) = span.unwrap_or((begun, ended));
            span = Some((first.min(begun), last.max(ended)));
        }
        let span = span.map(|(first, last)| last - first).unwrap_or_default();
        Ok(Run::of(took, span, disk.syncs() - before))
    })
}
