//! Several processes share one store: of each key, exactly one of them wins.
//!
//! ```sh
//! cargo run --release --example workers
//! ```

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};

use everseen::CreateOptions;

const WORKERS: usize = 4;
const KEYS: u64 = 200_000;

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1) {
        Some(path) => work(Path::new(&path)),
        None => share(),
    }
}

/// Claims all keys, in batches, and prints how many were new.
fn work(path: &Path) -> Result<(), Box<dyn Error>> {
    let store = CreateOptions::new().open_or_create(path)?;
    let keys: Vec<[u8; 8]> = (0..KEYS).map(u64::to_le_bytes).collect();
    let mut won = 0;
    for batch in keys.chunks(1000) {
        won += store
            .insert_batch(batch)?
            .into_iter()
            .filter(|new| *new)
            .count();
    }
    println!("{won}");
    store.close()?;
    Ok(())
}

/// Starts the workers at the same time, and adds up what they won.
fn share() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("shared.ever");
    let start = || {
        let program = std::env::current_exe()?;
        Command::new(program)
            .arg(&path)
            .stdout(Stdio::piped())
            .spawn()
    };
    let workers: Vec<_> = (0..WORKERS).map(|_| start()).collect::<Result<_, _>>()?;
    let mut sum = 0;
    for worker in workers {
        let output = worker.wait_with_output()?;
        let won: u64 = String::from_utf8(output.stdout)?.trim().parse()?;
        println!("a worker won {won} of {KEYS} keys");
        sum += won;
    }
    // A false positive is a key that nobody wins: at the default rate, one in a million.
    if sum > KEYS || sum + 10 < KEYS {
        return Err(format!("{sum} wins for {KEYS} keys").into());
    }
    println!("{sum} wins: each key once");
    Ok(())
}
