//! Processes that share a store: keys a second of one and of two, and what they wait for each other.
//!
//! `cargo run --release -p everseen-benches --bin sharing`

mod child;
mod report;

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use clap::Parser;
use everseen::CreateOptions;
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

    /// So small a buffer that checkpoints come in between
    #[arg(long)]
    checkpoints: bool,

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

/// The processes and their tasks.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub keys: Keys,
    pub processes: u64,
    /// All insert the same keys, each in its own order.
    pub same: bool,
    /// Keys a call.
    pub batch: u64,
    /// Processes that have the store open besides, and do nothing.
    pub idle: u64,
}

impl Scenario {
    /// The same, with one more process that has the store open and does nothing.
    const fn watched(self, name: &'static str) -> Self {
        Self {
            name,
            idle: 1,
            ..self
        }
    }

    /// Whether others are held against it.
    pub fn is_measure(&self) -> bool {
        self.processes == 1 && self.idle == 0
    }
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
        idle: 0,
    }
}

const SINGLE_URLS: Scenario = scenario("single urls, one", Keys::Urls, 1, false, 1);
const SINGLE_HASHES: Scenario = scenario("single hashes, one", Keys::Hashes, 1, false, 1);

/// Each is held against the one before it that one process does alone.
const SCENARIOS: [Scenario; 21] = [
    scenario("urls, one", Keys::Urls, 1, false, BATCH),
    scenario("urls, two, own keys", Keys::Urls, 2, false, BATCH),
    scenario("urls, two, same keys", Keys::Urls, 2, true, BATCH),
    scenario("hashes, one", Keys::Hashes, 1, false, BATCH),
    scenario("hashes, two, own keys", Keys::Hashes, 2, false, BATCH),
    scenario("hashes, two, same keys", Keys::Hashes, 2, true, BATCH),
    SINGLE_URLS,
    SINGLE_URLS.watched("single urls, one, another idle"),
    scenario("single urls, two, own keys", Keys::Urls, 2, false, 1),
    scenario("single urls, four, own keys", Keys::Urls, 4, false, 1),
    SINGLE_HASHES,
    SINGLE_HASHES.watched("single hashes, one, another idle"),
    scenario("single hashes, two, own keys", Keys::Hashes, 2, false, 1),
    scenario("single hashes, four, own keys", Keys::Hashes, 4, false, 1),
    scenario("urls by 16, one", Keys::Urls, 1, false, 16),
    scenario("urls by 16, two, own keys", Keys::Urls, 2, false, 16),
    scenario("urls by 1000, one", Keys::Urls, 1, false, 1000),
    scenario("urls by 1000, two, own keys", Keys::Urls, 2, false, 1000),
    scenario("urls by 1000, four, own keys", Keys::Urls, 4, false, 1000),
    scenario("urls by 16384, one", Keys::Urls, 1, false, 16_384),
    scenario("urls by 16384, two, own keys", Keys::Urls, 2, false, 16_384),
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
        "{} keys a run in batches of {BATCH} unless another size is told, {} one at a time; {} checkpoints; medians of {} rounds",
        args.keys,
        args.singles,
        if args.checkpoints { "with" } else { "without" },
        args.rounds
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
            runs.push(measure(scenario, (keys, args.checkpoints), &path)?);
            folder.clear()?;
        }
    }
    report::print(&chosen, &runs);
    Ok(())
}

/// Runs a scenario once, on a store of its own.
fn measure(
    scenario: &Scenario,
    (keys, checkpoints): (u64, bool),
    path: &Path,
) -> Result<Run, Box<dyn Error>> {
    // Room enough that nothing is moved to the pages meanwhile, unless that is asked for.
    let made = CreateOptions::new().capacity(keys * 2).create(path)?;
    made.close()?;
    let mut workers = Vec::new();
    for index in 0..scenario.processes {
        let task = Task::new(scenario, (keys, checkpoints), index, path);
        workers.push(Worker::start(&["--work".to_owned(), task.to_string()])?);
    }
    // These never hear that they may begin.
    let mut idle = Vec::new();
    for index in 0..scenario.idle {
        let task = Task::idle(keys, scenario.processes + index, path);
        idle.push(Worker::start(&["--work".to_owned(), task.to_string()])?);
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
