//! The command `everseen dedup` on a stream of lines, as people run it: the store that it makes by itself beside one
//! that grows in layers and those that were made for their keys, in memory and out of it. Tells time, memory, and what
//! reaches the disk.
//!
//! `cargo build --release -p everseen-cli && cargo run --release -p everseen-benches --bin streams -- --keys 10M,100M`

mod report;
mod scenario;

use std::error::Error;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use clap::Parser;
use everseen_benches::cgroup::MemoryGroup;
use everseen_benches::machine::Machine;
use everseen_benches::numbers;
use everseen_benches::piped::{self, Lines, Piped, Usage};
use everseen_benches::scratch::Scratch;

use report::Row;
use scenario::SCENARIOS;

/// Measure `dedup` on generated lines that come through a pipe
#[derive(Parser)]
struct Args {
    /// Lines, all of them different; one or several counts
    #[arg(long, default_value = "10M", value_delimiter = ',', value_parser = numbers::count)]
    keys: Vec<u64>,

    /// What lines look like: urls of 79 bytes, or names of 20
    #[arg(long, value_enum, default_value = "urls")]
    lines: Lines,

    /// How often the same lines come again after that, when all are seen
    #[arg(long, default_value = "1")]
    again: u64,

    /// The capacity of the store that is made before; else as many keys as come
    #[arg(long, value_parser = numbers::count)]
    capacity: Option<u64>,

    /// More options of `dedup`, such as --buffer=2G; every store is then measured without and with them
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    with: Vec<OsString>,

    /// The memory of the process, in MiB: a control group of its own
    #[arg(long, value_parser = numbers::count)]
    limit: Option<u64>,

    /// The command; else the one that lies beside this program
    #[arg(long, value_name = "FILE")]
    command: Option<PathBuf>,

    /// Rounds, of which the medians are told
    #[arg(long, default_value = "3", value_parser = numbers::count)]
    rounds: u64,

    /// A folder on the disk to measure; else the system's for temporary files
    #[arg(long)]
    dir: Option<PathBuf>,

    /// Also write what reached the disk to this file, for scripts/plot.py
    #[arg(long)]
    csv: Option<PathBuf>,

    /// Few lines, one round: only to see that it works
    #[arg(long)]
    quick: bool,

    /// Only stores whose name contains this
    #[arg(long, default_value = "")]
    only: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = Args::parse();
    if args.quick {
        args.keys = vec![100_000];
        args.rounds = 1;
    }
    let command = piped::command(args.command.take())?;
    let folder = Scratch::new(args.dir.as_deref())?;
    println!("{}", Machine::here(folder.path()));
    println!(
        "{:?} through a pipe, {} MiB of memory, medians of {} rounds",
        args.lines,
        args.limit.map_or("all".to_owned(), |mib| mib.to_string()),
        args.rounds
    );
    let mut rows = rows(&args);
    for _ in 0..args.rounds {
        for row in &mut rows {
            row.runs.push(measure(&args, &command, &folder, row)?);
            folder.clear()?;
        }
    }
    report::print(&rows);
    if let Some(path) = &args.csv {
        std::fs::write(path, report::csv(&rows))?;
    }
    Ok(())
}

/// What is measured, in turn.
fn rows(args: &Args) -> Vec<Row> {
    let mut rows = Vec::new();
    for keys in &args.keys {
        for scenario in SCENARIOS {
            if !scenario.name.contains(&args.only) {
                continue;
            }
            rows.push(Row::new(*keys, scenario, &[]));
            if !args.with.is_empty() {
                rows.push(Row::new(*keys, scenario, &args.with));
            }
        }
    }
    rows
}

/// Runs the command on a new store: once with lines that are new, then with the same ones.
fn measure(args: &Args, command: &Path, folder: &Scratch, row: &Row) -> io::Result<Vec<Usage>> {
    let store = folder.file("store.ever");
    let capacity = args.capacity.unwrap_or(row.keys);
    row.scenario.prepare(command, &store, capacity)?;
    let group = args.limit.map(|mib| MemoryGroup::create(mib << 20));
    let group = group.transpose().map_err(io::Error::other)?;
    let mut usages = Vec::new();
    for turn in 0..=args.again {
        let ran = Piped {
            command,
            subcommand: "dedup",
            options: &row.options,
            store: &store,
            numbers: 0..row.keys,
            lines: args.lines,
            group: group.as_ref(),
        }
        .run()?;
        let expected = if turn == 0 { row.keys } else { 0 };
        if ran.printed > expected || (turn == 0 && ran.printed * 1000 < expected * 999) {
            let wrong = format!("{} of {} lines were new", ran.printed, row.keys);
            return Err(io::Error::other(wrong));
        }
        usages.push(ran);
    }
    Ok(usages)
}
