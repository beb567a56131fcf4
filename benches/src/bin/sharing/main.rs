//! Processes that share a store: keys a second of one and of two, and what they wait for each other.
//!
//! `cargo run --release -p everseen-benches --bin sharing`

mod child;
mod report;

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use clap::Parser;
use everseen::Options;
use everseen_benches::machine::Machine;
use everseen_benches::numbers;
use everseen_benches::scratch::Scratch;
use everseen_benches::worker::Worker;

use child::Task;
use report::Run;

/// Measure processes that share a store
#[derive(Parser)]
struct Args {
    /// Keys that the processes of one run insert together
    #[arg(long, default_value = "2M", value_parser = numbers::count)]
    keys: u64,

    /// Keys inserted one at a time
    #[arg(long, default_value = "400k", value_parser = numbers::count)]
    singles: u64,

    /// Rounds, of which the medians are told
    #[arg(long, default_value = "7", value_parser = numbers::count)]
    rounds: u64,

    /// A folder on the disk to measure; else the system's for temporary files
    #[arg(long)]
    dir: Option<PathBuf>,

    /// Few keys, one round: only to see that it works
    #[arg(long)]
    quick: bool,

    /// Only scenarios whose name contains this
    #[arg(long, default_value = "")]
    only: String,

    /// What a worker is to do
    #[arg(long, hide = true)]
    work: Option<Task>,
}

/// What the keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Of 79 bytes.
    Urls,
    /// Of the caller's own.
    Hashes,
}

/// Who does what.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub keys: Keys,
    pub processes: u64,
    /// All insert the same keys, each in its own order.
    pub same: bool,
    /// Keys a call.
    pub batch: u64,
}

const BATCH: u64 = 4096;

const fn scenario(
    name: &'static str,
    keys: Keys,
    processes: u64,
    same: bool,
    batch: u64,
) -> Scenario {
    Scenario {
        name,
        keys,
        processes,
        same,
        batch,
    }
}

/// Each is held against the one before it that one process does.
const SCENARIOS: [Scenario; 10] = [
    scenario("urls, one", Keys::Urls, 1, false, BATCH),
    scenario("urls, two, own keys", Keys::Urls, 2, false, BATCH),
    scenario("urls, two, same keys", Keys::Urls, 2, true, BATCH),
    scenario("hashes, one", Keys::Hashes, 1, false, BATCH),
    scenario("hashes, two, own keys", Keys::Hashes, 2, false, BATCH),
    scenario("hashes, two, same keys", Keys::Hashes, 2, true, BATCH),
    scenario("single urls, one", Keys::Urls, 1, false, 1),
    scenario("single urls, two, own keys", Keys::Urls, 2, false, 1),
    scenario("single hashes, one", Keys::Hashes, 1, false, 1),
    scenario("single hashes, two, own keys", Keys::Hashes, 2, false, 1),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = Args::parse();
    if let Some(task) = args.work {
        return task.run();
    }
    if args.quick {
        args.keys = args.keys.min(100_000);
        args.singles = args.singles.min(10_000);
        args.rounds = 1;
    }
    let folder = Scratch::new(args.dir.as_deref())?;
    println!("{}", Machine::here(folder.path()));
    println!(
        "{} keys a run in batches of {BATCH}, {} one at a time; medians of {} rounds",
        args.keys, args.singles, args.rounds
    );
    let chosen: Vec<_> = SCENARIOS
        .iter()
        .filter(|scenario| scenario.name.contains(&args.only))
        .collect();
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); chosen.len()];
    for round in 0..args.rounds {
        for (scenario, runs) in chosen.iter().zip(&mut runs) {
            let keys = if scenario.batch == 1 {
                args.singles
            } else {
                args.keys
            };
            let path = folder.file(&format!("round-{round}.ever"));
            runs.push(measure(scenario, keys, &path)?);
            folder.clear()?;
        }
    }
    report::print(&chosen, &runs);
    Ok(())
}

/// Runs a scenario once, on a store of its own.
fn measure(scenario: &Scenario, keys: u64, path: &Path) -> Result<Run, Box<dyn Error>> {
    // Room enough that nothing is moved to the pages meanwhile.
    let made = Options::new().capacity(keys * 2).create(path)?;
    made.close()?;
    let mut workers = Vec::new();
    for index in 0..scenario.processes {
        let task = Task::new(scenario, keys, index, path);
        workers.push(Worker::start(&["--work".to_owned(), task.to_string()])?);
    }
    for worker in &mut workers {
        worker.go()?;
    }
    let told: Result<Vec<_>, io::Error> = workers.iter_mut().map(Worker::numbers).collect();
    let run = Run::of(&told?)?;
    let expected = if scenario.same { keys } else { run.judged };
    if run.new.abs_diff(expected) > keys / 1000 {
        return Err(format!("{} keys were new, of {expected}", run.new).into());
    }
    // Dropped, they are killed, which spares the checkpoint at closing.
    Ok(run)
}
