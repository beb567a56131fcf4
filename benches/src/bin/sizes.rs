//! How much room closed stores take, and how many pages a look-up reads: where none is in memory, and where memory has room
//! for a quarter of the file.
//!
//! `cargo run --release -p everseen-benches --bin sizes -- --keys 10M,100M`

use std::error::Error;
use std::path::{Path, PathBuf};

use clap::Parser;
use everseen::sizing::PAGE_BYTES;
use everseen::{CreateOptions, Kind, Store};
use everseen_benches::cgroup::MemoryGroup;
use everseen_benches::filling::{insert, insert_in_runs};
use everseen_benches::keys::hash;
use everseen_benches::machine::{Machine, number};
use everseen_benches::numbers;
use everseen_benches::raw::drop_from_cache;
use everseen_benches::scratch::Scratch;
use everseen_benches::worker::{Worker, tell, wait_for_start};

/// Measure the room that closed stores take, and the pages that look-ups read
#[derive(Parser)]
struct Args {
    /// Keys in a store, one or several counts
    #[arg(long, default_value = "10M", value_delimiter = ',', value_parser = numbers::count)]
    keys: Vec<u64>,

    /// The false-positive rate
    #[arg(long, default_value = "1e-6")]
    fpr: f64,

    /// Absent keys that are looked up one by one when the system has dropped the file from memory, and as many when
    /// memory for a quarter of the file is full
    #[arg(long, default_value = "5k", value_parser = numbers::count)]
    looks: u64,

    /// A folder on the disk to measure; else the system's for temporary files
    #[arg(long)]
    dir: Option<PathBuf>,

    /// Few keys: only to see that it works
    #[arg(long)]
    quick: bool,

    /// The store that a worker is to look into
    #[arg(long, hide = true)]
    look_into: Option<PathBuf>,
}

/// From here on nothing was inserted.
const ABSENT: u64 = 1 << 40;
/// The file over the memory that there is for a process.
const FILE_OVER_MEMORY: u64 = 4;
/// Less memory than this is nothing that a process lives in.
const LEAST_MEMORY: u64 = 48 << 20;

/// A store to measure.
struct Variant {
    name: &'static str,
    kind: Kind,
    /// Whether it is created for its keys.
    is_fixed: bool,
    /// Runs above the oldest one, if closing is not to decide.
    young: Option<u32>,
}

const VARIANTS: [Variant; 5] = [
    Variant {
        name: "bloom for its keys",
        kind: Kind::Bloom,
        is_fixed: true,
        young: None,
    },
    Variant {
        name: "scalable",
        kind: Kind::Scalable,
        is_fixed: false,
        young: None,
    },
    Variant {
        name: "fingerprints for their keys",
        kind: Kind::Fingerprint,
        is_fixed: true,
        young: None,
    },
    Variant {
        name: "fingerprints that grow to 2^36",
        kind: Kind::Fingerprint,
        is_fixed: false,
        young: None,
    },
    Variant {
        name: "the same, three runs above the oldest",
        kind: Kind::Fingerprint,
        is_fixed: false,
        young: Some(3),
    },
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = Args::parse();
    if args.quick {
        args.keys = vec![20_000];
        args.looks = 100;
    }
    if let Some(path) = &args.look_into {
        return look_with_memory_full(path, args.looks);
    }
    let folder = Scratch::new(args.dir.as_deref())?;
    println!("{}\n", Machine::here(folder.path()));
    println!(
        "| keys | store | file, bits a key | pages read a look, cold | in a quarter of the memory |"
    );
    println!("|---|---|---|---|---|");
    for keys in &args.keys {
        for variant in &VARIANTS {
            let path = folder.file("store");
            fill(&path, variant, *keys, args.fpr)?;
            let length = path.metadata()?.len();
            let bits = length as f64 * 8.0 / *keys as f64;
            let told = |pages: Option<f64>| match pages {
                Some(pages) => format!("{pages:.2}"),
                None => "not told by the system".to_owned(),
            };
            let cold = told(pages_read_cold(&path, args.looks)?);
            let limited = match length / FILE_OVER_MEMORY {
                ..LEAST_MEMORY => "too little to live in".to_owned(),
                memory => match MemoryGroup::create(memory) {
                    Ok(group) => told(pages_read_in(&group, &path, args.looks)?),
                    Err(why) => format!("no limit: {why}"),
                },
            };
            println!(
                "| {keys} | {} | {bits:.2} | {cold} | {limited} |",
                variant.name
            );
            folder.clear()?;
        }
    }
    Ok(())
}

fn fill(path: &Path, variant: &Variant, keys: u64, fpr: f64) -> Result<(), everseen::Error> {
    let mut options = CreateOptions::new().kind(variant.kind).fpr(fpr);
    if variant.is_fixed {
        options = options.capacity(keys);
    }
    let store = options.create(path)?;
    match variant.young {
        Some(young) => insert_in_runs(&store, keys, young)?,
        None => insert(&store, 0..keys)?,
    }
    store.close()?;
    Ok(())
}

/// Returns how many pages of the disk a look-up of an absent key reads, on average, of those that are the first to look.
fn pages_read_cold(path: &Path, looks: u64) -> Result<Option<f64>, Box<dyn Error>> {
    drop_from_cache(path)?;
    let store = Store::open(path)?;
    let bytes = bytes_read(&store, ABSENT, looks)?;
    store.close()?;
    Ok(bytes.map(|bytes| in_pages(bytes, looks)))
}

fn in_pages(bytes: u64, looks: u64) -> f64 {
    bytes as f64 / PAGE_BYTES as f64 / looks as f64
}

/// Returns how many bytes look-ups of these absent keys read, one by one.
fn bytes_read(store: &Store, first: u64, looks: u64) -> Result<Option<u64>, everseen::Error> {
    let read = || number("/proc/self/io", "read_bytes");
    let before = read();
    for key in first..first + looks {
        store.contains(hash(key))?;
    }
    Ok(before.zip(read()).map(|(before, after)| after - before))
}

/// Returns the same of a process with little memory, when that is full.
fn pages_read_in(
    group: &MemoryGroup,
    path: &Path,
    looks: u64,
) -> Result<Option<f64>, Box<dyn Error>> {
    drop_from_cache(path)?;
    let store = path.to_str().ok_or("a folder whose name is no text")?;
    let arguments = ["--look-into", store, "--looks", &looks.to_string()];
    let mut worker = Worker::start(&arguments.map(str::to_owned))?;
    group.add(worker.process())?;
    worker.go()?;
    let bytes = match worker.line()?.as_str() {
        "" => None,
        bytes => Some(bytes.parse()?),
    };
    Ok(bytes.map(|bytes| in_pages(bytes, looks)))
}

/// In a worker: looks until its memory is full, and then tells what look-ups read.
fn look_with_memory_full(path: &Path, looks: u64) -> Result<(), Box<dyn Error>> {
    wait_for_start()?;
    let store = Store::open(path)?;
    // As many keys as the file has pages bring two thirds of these into memory, which has room for fewer.
    let pages = path.metadata()?.len() / PAGE_BYTES;
    let first = ABSENT + looks;
    for begin in (first..first + pages).step_by(1024) {
        let batch: Vec<u64> = (begin..begin + 1024).map(hash).collect();
        store.contains_batch(&batch)?;
    }
    let bytes = bytes_read(&store, ABSENT, looks)?;
    tell(&bytes.map_or(String::new(), |bytes| bytes.to_string()))?;
    store.close()?;
    Ok(())
}
