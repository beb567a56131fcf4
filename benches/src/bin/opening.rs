//! How long it takes to open a store: after its only user was killed with all its keys in the log,
//! and after a clean close.
//!
//! `cargo run --release -p everseen-benches --bin opening`

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use everseen::Store;
use everseen::testing::Options;
use everseen_benches::keys::hash;
use everseen_benches::machine::Machine;
use everseen_benches::numbers::{self, median};
use everseen_benches::scratch::Scratch;
use everseen_benches::worker::{Worker, tell, wait_for_start};

/// Measure how long it takes to open a store
#[derive(Parser)]
struct Args {
    /// Keys in the log when its user is killed
    #[arg(long, default_value = "8M", value_parser = numbers::count)]
    keys: u64,

    /// Bytes of pages, in MiB; a store ten times as large is opened empty
    #[arg(long, default_value = "1024", value_parser = numbers::count)]
    mib: u64,

    /// Rounds, of which the medians are told
    #[arg(long, default_value = "3", value_parser = numbers::count)]
    rounds: u64,

    /// A folder on the disk to measure; else the system's for temporary files
    #[arg(long)]
    dir: Option<PathBuf>,

    /// Few keys, one round: only to see that it works
    #[arg(long)]
    quick: bool,

    /// What a worker is to do: `fill`, `open` or `open-empty`
    #[arg(long, hide = true, requires_all = ["path", "buffer"])]
    work: Option<String>,

    #[arg(long, hide = true)]
    path: Option<PathBuf>,

    #[arg(long, hide = true)]
    buffer: Option<u64>,
}

/// The least buffer that a handle takes unless told.
const DEFAULT: u64 = everseen::OpenOptions::DEFAULT_BUFFER;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = Args::parse();
    if let (Some(work), Some(path), Some(buffer)) = (&args.work, &args.path, args.buffer) {
        let options = Options::new().buffer(buffer);
        return match work.as_str() {
            "fill" => fill(&options, path, args.keys),
            "open" => open(&options, path, args.keys),
            _ => open(&options, path, 0),
        };
    }
    if args.quick {
        args.keys = args.keys.min(100_000);
        args.mib = args.mib.min(16);
        args.rounds = 1;
    }
    let folder = Scratch::new(args.dir.as_deref())?;
    println!("{}", Machine::here(folder.path()));
    println!(
        "{} keys in the log, {} MiB of pages; medians of {} rounds",
        args.keys, args.mib, args.rounds
    );
    // Two tables of at least sixteen bytes a key, and room to spare.
    let large = (args.keys * 40).max(DEFAULT);
    let mut rows: Vec<(String, Vec<Opened>)> = Vec::new();
    for round in 0..args.rounds {
        let mut row = 0;
        let mut note = |name: String, opened: Opened| {
            if round == 0 {
                rows.push((name, Vec::new()));
            }
            rows[row].1.push(opened);
            row += 1;
        };
        let path = folder.file("store.ever");
        create(&path, args.mib)?;
        let workers = |work, buffer| start(work, &path, buffer, args.keys);
        workers("fill", large)?.kill()?;
        let keys = args.keys;
        note(
            format!("after a kill, {keys} keys in the log"),
            time(workers("open", large)?)?,
        );
        for buffer in [DEFAULT, large] {
            let name = format!("closed, {} MiB, buffer of {} MiB", args.mib, buffer >> 20);
            note(name, time(workers("open", buffer)?)?);
        }
        let empty = folder.file("empty.ever");
        create(&empty, args.mib * 10)?;
        let name = format!(
            "closed, {} MiB, empty, buffer of {} MiB",
            args.mib * 10,
            DEFAULT >> 20
        );
        note(name, time(start("open-empty", &empty, DEFAULT, keys)?)?);
        folder.clear()?;
    }
    println!();
    println!("| a store | ms until `contains` has answered | best | ms to close it |");
    println!("|---|---|---|---|");
    for (name, opened) in rows {
        let ms = opened.iter().map(|opened| opened.open as f64 / 1e6);
        let close = opened.iter().map(|opened| opened.close as f64 / 1e6);
        let best = ms.clone().fold(f64::INFINITY, f64::min);
        println!(
            "| {name} | {:.1} | {best:.1} | {:.1} |",
            median(ms),
            median(close)
        );
    }
    Ok(())
}

/// Nanoseconds.
struct Opened {
    open: u64,
    close: u64,
}

/// Creates a store with this many MiB of pages.
fn create(path: &Path, mib: u64) -> everseen::Result<()> {
    let keys = (mib << 23) / 32;
    Options::new()
        .capacity(keys)
        .bits_per_key(32.0)
        .create(path)?
        .close()?;
    Ok(())
}

fn start(work: &str, path: &Path, buffer: u64, keys: u64) -> std::io::Result<Worker> {
    let path = path.display().to_string();
    let (buffer, keys) = (buffer.to_string(), keys.to_string());
    let arguments = [
        "--work", work, "--path", &path, "--buffer", &buffer, "--keys", &keys,
    ];
    Worker::start(&arguments.map(str::to_owned))
}

fn time(mut worker: Worker) -> Result<Opened, Box<dyn Error>> {
    worker.go()?;
    match worker.numbers()?[..] {
        [open, close] => Ok(Opened { open, close }),
        _ => Err("a worker told something else".into()),
    }
}

/// In a worker: inserts keys, none of which goes to the pages, and waits to be killed.
fn fill(options: &Options, path: &Path, keys: u64) -> Result<(), Box<dyn Error>> {
    let store = options.open(path)?;
    let mut batch = Vec::new();
    for from in (0..keys).step_by(4096) {
        batch.clear();
        batch.extend((from..keys.min(from + 4096)).map(hash));
        store.insert_batch(&batch)?;
    }
    if store.stats()?.generation != 1 {
        return Err("a checkpoint came in between".into());
    }
    Ok(wait_for_start()?)
}

/// In a worker: opens the store, asks for keys that are there, closes it.
fn open(options: &Options, path: &Path, keys: u64) -> Result<(), Box<dyn Error>> {
    wait_for_start()?;
    let begun = Instant::now();
    let store: Store = options.open(path)?;
    let found = store.contains(hash(0))?;
    let opened = begun.elapsed().as_nanos();
    if found != (keys > 0) {
        return Err("the first key's answer is wrong".into());
    }
    let hashes: Vec<u64> = (0..keys).map(hash).collect();
    if store.contains_batch(&hashes)?.contains(&false) {
        return Err("a key is lost".into());
    }
    let begun = Instant::now();
    store.close()?;
    tell(&format!("{opened} {}", begun.elapsed().as_nanos()))?;
    Ok(())
}
