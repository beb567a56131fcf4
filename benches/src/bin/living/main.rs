//! What it costs to live with a store: few lines into a large one, night after night, billion after billion, and little
//! memory. All through the command, with its default options, on the store that `dedup` makes by itself.
//!
//! `cargo build --release -p everseen-cli && cargo run --release -p everseen-benches --bin living`
//!
//! The defaults take 12 GB of disk and some twenty minutes. A billion lines are asked for with `--only billions`, ten
//! billion in one stream with `--only long --stream 10G`, and ten windows of 10^8 lines with `--only forgetting`.

mod bare;
mod few;
mod forgetting;
mod memory;
mod nights;
mod report;
mod session;
mod streams;

use std::error::Error;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use everseen_benches::machine::Machine;
use everseen_benches::numbers;
use everseen_benches::piped;
use everseen_benches::scratch::Scratch;

use session::Session;

/// Measure what few lines cost a store that holds many
#[derive(Parser)]
struct Args {
    /// Keys of the stores that few lines come to; one or several counts
    #[arg(long, default_value = "100M,500M", value_delimiter = ',', value_parser = numbers::count)]
    keys: Vec<u64>,

    /// Capacity of the Bloom store that few lines come to, of which it holds half
    #[arg(long, default_value = "500M", value_parser = numbers::count)]
    capacity: u64,

    /// Keys of the store that a thousand lines come to each night
    #[arg(long, default_value = "100M", value_parser = numbers::count)]
    nightly: u64,

    /// Nights
    #[arg(long, default_value = "365", value_parser = numbers::count)]
    nights: u64,

    /// Lines of one stream; three of them go into one store
    #[arg(long, default_value = "1000M", value_parser = numbers::count)]
    stream: u64,

    /// Lines within the window of a store that forgets
    #[arg(long, default_value = "100M", value_parser = numbers::count)]
    alive: u64,

    /// Such windows, one after the other
    #[arg(long, default_value = "10", value_parser = numbers::count)]
    windows: u64,

    /// Keys of the store that is larger than its memory
    #[arg(long, default_value = "500M", value_parser = numbers::count)]
    large: u64,

    /// Lines that come to it, once new and once seen
    #[arg(long, default_value = "5M", value_parser = numbers::count)]
    lines: u64,

    /// That memory, in MiB: a control group of its own
    #[arg(long, default_value = "512", value_parser = numbers::count)]
    limit: u64,

    /// The command; else the one that lies beside this program
    #[arg(long, value_name = "FILE")]
    command: Option<PathBuf>,

    /// Rounds, of which the medians are told
    #[arg(long, default_value = "5", value_parser = numbers::count)]
    rounds: u64,

    /// A folder on the disk to measure; else the system's for temporary files
    #[arg(long)]
    dir: Option<PathBuf>,

    /// Small stores, one round: only to see that it works
    #[arg(long)]
    quick: bool,

    /// What to measure
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "few,bloom,nights,memory"
    )]
    only: Vec<Part>,
}

/// A part of the measurements: a table each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Few lines into stores of all sizes
    Few,
    /// Few lines into a Bloom store
    Bloom,
    /// A thousand lines each night for a year
    Nights,
    /// A store that is larger than its memory
    Memory,
    /// Three streams into one store
    Billions,
    /// One stream, then `verify`, then few lines into its store
    Long,
    /// One stream with a small buffer
    Buffer,
    /// A stream through a window, into a store that forgets and one that doesn't
    Forgetting,
}

impl Args {
    fn make_quick(&mut self) {
        self.keys = vec![300_000];
        self.capacity = 300_000;
        self.nightly = 100_000;
        self.nights = 5;
        self.stream = 300_000;
        self.alive = 60_000;
        self.windows = 3;
        self.large = 300_000;
        self.lines = 20_000;
        self.rounds = 1;
        self.only = Part::value_variants().to_vec();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = Args::parse();
    if args.quick {
        args.make_quick();
    }
    let command = piped::command(args.command.take())?;
    let folder = Scratch::new(args.dir.as_deref())?;
    println!("{}", Machine::here(folder.path()));
    println!(
        "Names of 20 bytes through a pipe; medians of {} rounds",
        args.rounds
    );
    let session = Session::new(&command, &folder, args.rounds);
    for part in &args.only {
        match part {
            Part::Few => few::measure(&session, &args.keys)?,
            Part::Bloom => few::measure_bloom(&session, args.capacity)?,
            Part::Nights => nights::measure(&session, args.nightly, args.nights)?,
            Part::Memory => memory::measure(&session, args.large, args.lines, args.limit)?,
            Part::Billions => streams::measure_three(&session, args.stream)?,
            Part::Long => streams::measure_long(&session, args.stream)?,
            Part::Buffer => streams::measure_buffer(&session, args.stream)?,
            Part::Forgetting => forgetting::measure(&session, args.alive, args.windows)?,
        }
        folder.clear()?;
    }
    Ok(())
}
