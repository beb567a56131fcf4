//! What a look-up pays for several runs: the same keys in one run and with runs above it, asked in turn.
//!
//! `cargo run --release -p everseen-benches --bin runs -- --keys 100M`

use std::error::Error;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;
use everseen::{CreateOptions, Kind, OpenOptions, Store};
use everseen_benches::filling::insert_in_runs;
use everseen_benches::keys::hash;
use everseen_benches::machine::Machine;
use everseen_benches::numbers;
use everseen_benches::scratch::Scratch;

/// Measure what look-ups pay for runs
#[derive(Parser)]
struct Args {
    /// Keys in each store
    #[arg(long, default_value = "10M", value_parser = numbers::count)]
    keys: u64,

    /// Runs above the oldest one
    #[arg(long, default_value_t = 3)]
    young: u32,

    /// Keys that each round asks for
    #[arg(long, default_value = "2M", value_parser = numbers::count)]
    looks: u64,

    /// Rounds, of which the median counts
    #[arg(long, default_value_t = 7)]
    rounds: usize,

    /// A folder on the disk to measure; else the system's for temporary files
    #[arg(long)]
    dir: Option<PathBuf>,

    /// Few keys: only to see that it works
    #[arg(long)]
    quick: bool,
}

/// From here on nothing was inserted.
const ABSENT: u64 = 1 << 40;
/// Keys that are asked for together.
const BATCH: usize = 4096;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = Args::parse();
    if args.quick {
        (args.keys, args.looks, args.rounds) = (100_000, 20_000, 1);
    }
    let folder = Scratch::new(args.dir.as_deref())?;
    println!("{}\n", Machine::here(folder.path()));
    let mut stores = Vec::new();
    for (name, young) in [("one", 0), ("several", args.young)] {
        let path = folder.file(name);
        let store = CreateOptions::new()
            .kind(Kind::Fingerprint)
            .capacity(args.keys)
            .create(&path)?;
        insert_in_runs(&store, args.keys, young)?;
        store.close()?;
        let bits = path.metadata()?.len() as f64 * 8.0 / args.keys as f64;
        println!("{name}: {bits:.2} bits a key");
        stores.push(OpenOptions::new().open(&path)?);
    }
    println!(
        "\n| {} keys, ns a look | one run | {} above it | ratio |",
        args.keys, args.young
    );
    println!("|---|---|---|---|");
    for (name, is_absent, is_batch) in [
        ("absent, in batches", true, true),
        ("present, in batches", false, true),
        ("absent, one by one", true, false),
        ("present, one by one", false, false),
    ] {
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..args.rounds as u64 {
            let numbers = (0..args.looks).map(|look| {
                let drawn = hash(ABSENT ^ (round * args.looks + look));
                match is_absent {
                    true => ABSENT + (drawn >> 24),
                    false => ((u128::from(drawn) * u128::from(args.keys)) >> 64) as u64,
                }
            });
            let hashes: Vec<u64> = numbers.map(hash).collect();
            for (store, times) in stores.iter().zip(&mut times) {
                let begun = Instant::now();
                look(store, &hashes, is_batch, !is_absent)?;
                times.push(begun.elapsed().as_nanos() as f64 / args.looks as f64);
            }
        }
        let [one, several] = times.map(median);
        println!(
            "| {name} | {one:.1} | {several:.1} | {:.2} |",
            several / one
        );
    }
    for store in stores {
        store.close()?;
    }
    Ok(())
}

fn look(
    store: &Store,
    hashes: &[u64],
    is_batch: bool,
    is_there: bool,
) -> Result<(), everseen::Error> {
    let mut found = 0;
    if is_batch {
        for some in hashes.chunks(BATCH) {
            found += black_box(store.contains_batch(some)?)
                .iter()
                .filter(|is| **is)
                .count();
        }
    } else {
        for hash in hashes {
            found += usize::from(black_box(store.contains(*hash)?));
        }
    }
    // An absent key is found at the store's rate.
    assert!(!is_there || found == hashes.len());
    Ok(())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
