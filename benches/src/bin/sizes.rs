//! How much room closed stores take, and how many pages a look-up reads where none is in memory.
//!
//! `cargo run --release -p everseen-benches --bin sizes -- --keys 10M,100M`

use std::error::Error;
use std::path::{Path, PathBuf};

use clap::Parser;
use everseen::sizing::PAGE_BYTES;
use everseen::{Kind, Options};
use everseen_benches::keys::hash;
use everseen_benches::machine::{Machine, number};
use everseen_benches::numbers;
use everseen_benches::raw::drop_from_cache;
use everseen_benches::scratch::Scratch;

/// Measure the room that closed stores take, and the pages that look-ups read
#[derive(Parser)]
struct Args {
    /// Keys in a store, one or several counts
    #[arg(long, default_value = "10M", value_delimiter = ',', value_parser = numbers::count)]
    keys: Vec<u64>,

    /// The false-positive rate
    #[arg(long, default_value = "1e-6")]
    fpr: f64,

    /// Absent keys that are looked up one by one when the system has dropped the file from memory
    #[arg(long, default_value = "5k", value_parser = numbers::count)]
    looks: u64,

    /// A folder on the disk to measure; else the system's for temporary files
    #[arg(long)]
    dir: Option<PathBuf>,

    /// Few keys: only to see that it works
    #[arg(long)]
    quick: bool,
}

/// From here on nothing was inserted.
const ABSENT: u64 = 1 << 40;
/// Keys that are inserted together.
const BATCH: u64 = 1 << 16;

/// A store to measure.
struct Variant {
    name: &'static str,
    kind: Kind,
    /// Whether it is created for its keys.
    is_fixed: bool,
}

const VARIANTS: [Variant; 4] = [
    Variant {
        name: "bloom for its keys",
        kind: Kind::Bloom,
        is_fixed: true,
    },
    Variant {
        name: "scalable",
        kind: Kind::Scalable,
        is_fixed: false,
    },
    Variant {
        name: "fingerprints for their keys",
        kind: Kind::Fingerprint,
        is_fixed: true,
    },
    Variant {
        name: "fingerprints that grow to 2^36",
        kind: Kind::Fingerprint,
        is_fixed: false,
    },
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = Args::parse();
    if args.quick {
        args.keys = vec![20_000];
        args.looks = 100;
    }
    let folder = Scratch::new(args.dir.as_deref())?;
    println!("{}\n", Machine::here(folder.path()));
    println!("| keys | store | file, bits a key | pages read a look, cold |");
    println!("|---|---|---|---|");
    for keys in &args.keys {
        for variant in &VARIANTS {
            let path = folder.file("store");
            fill(&path, variant, *keys, args.fpr)?;
            let bits = path.metadata()?.len() as f64 * 8.0 / *keys as f64;
            let pages = match pages_read(&path, args.looks)? {
                Some(pages) => format!("{pages:.2}"),
                None => "not told by the system".to_owned(),
            };
            println!("| {keys} | {} | {bits:.2} | {pages} |", variant.name);
            folder.clear()?;
        }
    }
    Ok(())
}

fn fill(path: &Path, variant: &Variant, keys: u64, fpr: f64) -> Result<(), everseen::Error> {
    let mut options = Options::new().kind(variant.kind).fpr(fpr);
    if variant.is_fixed {
        options = options.capacity(keys);
    }
    let store = options.create(path)?;
    for begin in (0..keys).step_by(BATCH as usize) {
        let end = keys.min(begin + BATCH);
        let batch: Vec<u64> = (begin..end).map(hash).collect();
        store.insert_hash_batch(&batch)?;
    }
    store.close()
}

/// Returns how many pages of the disk a look-up of an absent key reads, on average.
fn pages_read(path: &Path, looks: u64) -> Result<Option<f64>, Box<dyn Error>> {
    drop_from_cache(path)?;
    let store = Options::new().open(path)?;
    let read = || number("/proc/self/io", "read_bytes");
    let before = read();
    for key in ABSENT..ABSENT + looks {
        store.contains_hash(hash(key))?;
    }
    let bytes = before.zip(read()).map(|(before, after)| after - before);
    store.close()?;
    Ok(bytes.map(|bytes| bytes as f64 / PAGE_BYTES as f64 / looks as f64))
}
