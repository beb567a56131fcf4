//! Filters larger than memory: Everseen beside bits in a writable map of a file, each in a process
//! with a memory limit of its own.
//!
//! `cargo run --release -p everseen-benches --bin out_of_core`

mod child;
mod filters;
mod report;

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use everseen_benches::cgroup::MemoryGroup;
use everseen_benches::machine::Machine;
use everseen_benches::numbers;
use everseen_benches::raw;
use everseen_benches::scratch::Scratch;
use everseen_benches::worker::Worker;

use child::{INSERTED, Task};
use report::{Disk, Run};

/// Measure filters larger than memory
#[derive(Parser)]
struct Args {
    /// The memory of the process that has the filter, in MiB
    #[arg(long, default_value = "256", value_parser = numbers::count)]
    limit: u64,

    /// The filter's size over that memory, one or several
    #[arg(
        long,
        visible_alias = "ratio",
        default_value = "4",
        value_delimiter = ','
    )]
    ratios: Vec<f64>,

    /// Memory for Everseen's buffers, in MiB; else half of the limit
    #[arg(long, value_parser = numbers::count)]
    buffer: Option<u64>,

    /// New keys to insert; at most half of what the filter is for
    #[arg(long, default_value = "10M", value_parser = numbers::count)]
    keys: u64,

    /// Keys of one call of Everseen's, when inserting
    #[arg(long, default_value = "10M", value_parser = numbers::count)]
    batch: u64,

    /// Absent keys to look up one at a time, and as many in batches
    #[arg(long, default_value = "50k", value_parser = numbers::count)]
    lookups: u64,

    /// The time that each of the four parts of a variant may take, in seconds
    #[arg(long, default_value = "20", value_parser = numbers::count)]
    seconds: u64,

    /// Rounds, of which the medians are told
    #[arg(long, default_value = "3", value_parser = numbers::count)]
    rounds: u64,

    /// A folder on the disk to measure; else the system's for temporary files
    #[arg(long)]
    dir: Option<PathBuf>,

    /// Also write nanoseconds a key to this file, for scripts/plot.py
    #[arg(long)]
    csv: Option<PathBuf>,

    /// Small filters, one round: only to see that it works
    #[arg(long)]
    quick: bool,

    /// Only variants whose name contains this
    #[arg(long, default_value = "")]
    only: String,

    /// What a worker is to do
    #[arg(long, hide = true)]
    work: Option<Task>,
}

/// What has the bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    Everseen { exclusive: bool },
    Mapped { random: bool },
}

const VARIANTS: [(&str, Variant); 4] = [
    ("everseen", Variant::Everseen { exclusive: false }),
    ("everseen, exclusive", Variant::Everseen { exclusive: true }),
    ("mapped", Variant::Mapped { random: false }),
    ("mapped, MADV_RANDOM", Variant::Mapped { random: true }),
];

/// Bytes of the file that the disk's own pace is measured on, at most.
const RAW: u64 = 1 << 30;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = Args::parse();
    if let Some(task) = &args.work {
        return task.run();
    }
    let mut time = Duration::from_secs(args.seconds);
    let mut raw_time = Duration::from_secs(1);
    if args.quick {
        args.limit = args.limit.min(32);
        args.buffer = Some(args.limit / 4);
        args.keys = args.keys.min(100_000);
        args.lookups = args.lookups.min(2_000);
        args.rounds = 1;
        time = Duration::from_millis(200);
        raw_time = Duration::from_millis(100);
    }
    if args
        .ratios
        .iter()
        .any(|ratio| !(0.1..=64.0).contains(ratio))
    {
        return Err("ratios must be from 0.1 to 64".into());
    }
    let folder = Scratch::new(args.dir.as_deref())?;
    let limit = args.limit << 20;
    println!("{}", Machine::here(folder.path()));
    let limited = match MemoryGroup::create(limit) {
        Ok(_) => true,
        Err(why) if args.quick => {
            println!("NO MEMORY LIMIT COULD BE SET, so these figures mean nothing: {why}");
            false
        }
        Err(why) => {
            return Err(format!(
                "no memory limit can be set here, and without one there is nothing to measure \
                 (--quick shows that the rest works): {why}"
            )
            .into());
        }
    };
    let buffer = args.buffer.map_or(limit / 2, |mib| mib << 20);
    println!(
        "{} MiB of memory, buffers of {} MiB, {} keys in batches of {}, {} look-ups, at most {:?} \
         each; medians of {} rounds",
        args.limit,
        buffer >> 20,
        args.keys,
        args.batch,
        args.lookups,
        time,
        args.rounds
    );
    let mut rows = Vec::new();
    for ratio in &args.ratios {
        for (name, variant) in VARIANTS {
            if name.contains(&args.only) {
                let bytes = ((limit as f64 * ratio) as u64).next_multiple_of(1 << 20);
                let task = Task {
                    variant,
                    bytes,
                    buffer,
                    batch: args.batch.max(1),
                    keys: args.keys.min(filters::capacity(bytes) / 2),
                    lookups: args.lookups,
                    time,
                    path: folder.file("filter"),
                };
                rows.push((*ratio, name, task, Vec::new()));
            }
        }
    }
    let mut disks = Vec::new();
    for _ in 0..args.rounds {
        let largest = rows.iter().map(|(_, _, task, _)| task.bytes).max();
        let path = folder.file("raw");
        disks.push(measure_disk(
            &path,
            largest.unwrap_or(0).min(RAW),
            raw_time,
        )?);
        folder.clear()?;
        for (_, _, task, runs) in &mut rows {
            runs.push(measure(task, limited.then_some(limit))?);
            folder.clear()?;
        }
    }
    let rows: Vec<_> = rows
        .into_iter()
        .map(|(ratio, name, task, runs)| report::Row {
            ratio,
            name,
            keys: task.keys,
            lookups: task.lookups,
            runs,
        })
        .collect();
    report::print(&rows, &disks);
    if let Some(path) = &args.csv {
        std::fs::write(path, report::csv(&rows, limit))?;
    }
    Ok(())
}

/// What the disk can do, without a limit and past the page cache.
fn measure_disk(path: &Path, bytes: u64, time: Duration) -> io::Result<Disk> {
    Ok(Disk {
        write: raw::write_sequentially(path, bytes)?,
        read: raw::read_sequentially(path)?,
        one_at_once: raw::read_randomly(path, 1, time)?,
        many_at_once: raw::read_randomly(path, report::AT_ONCE, time)?,
    })
}

/// Runs a task once, in a process and a group of its own.
fn measure(task: &Task, limit: Option<u64>) -> Result<Run, Box<dyn Error>> {
    let group = limit.map(MemoryGroup::create).transpose()?;
    let mut worker = Worker::start(&["--work".to_owned(), task.to_string()])?;
    if let Some(group) = &group {
        group.add(worker.process())?;
    }
    worker.go()?;
    if worker.line()? != INSERTED {
        return Err("a worker said something else".into());
    }
    let memory = group.as_ref().map(MemoryGroup::memory).transpose()?;
    worker.go()?;
    let inserted = worker.numbers()?;
    let looked_up = [worker.numbers()?, worker.numbers()?, worker.numbers()?];
    let run = Run::of(&inserted, &looked_up, memory)?;
    // The group can be removed when nobody is in it.
    drop(worker);
    drop(group);
    Ok(run)
}
