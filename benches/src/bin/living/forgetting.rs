//! A stream through a window: a store that forgets, beside one that keeps all.

use std::ffi::OsString;
use std::io::{self, Write};

use everseen_benches::piped::Usage;

use crate::report;
use crate::session::Session;

/// Runs within a window, an hour apart: as many as the store counts steps.
const RUNS: u64 = 15;
const HOUR: u64 = 3600;
/// When the first one is, in seconds since 1970.
const BEGIN: u64 = 1_767_225_600;

/// So many windows of lines, each of them new: run by run into the one store and into the other. A line for each window.
pub fn measure(session: &Session, alive: u64, windows: u64) -> io::Result<()> {
    println!("\n{alive} lines within a window, {windows} windows, {RUNS} runs in each\n");
    println!(
        "| lines so far | file, bits a live key | disk GB | dirtied GB | M lines/s | of a store that keeps all: M lines/s | \
         : | disk GB | file, bits a key |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let forgets = session.store("forgets")?;
    let keeps = forgets.with_file_name("keeps.ever");
    let lines = alive / RUNS;
    for window in 0..windows {
        let (mut forgetting, mut keeping) = (Vec::new(), Vec::new());
        for run in window * RUNS..(window + 1) * RUNS {
            let at = format!("--at={}", BEGIN + run * HOUR);
            let after = format!("--forget-after={RUNS}h");
            let options = [OsString::from(after), OsString::from(at)];
            forgetting.push(session.dedup_with(&forgets, lines, &options, None)?);
            keeping.push(session.dedup(&keeps, lines)?);
        }
        let so_far = (window + 1) * RUNS * lines;
        line(so_far, RUNS * lines, &forgetting, &keeping)?;
    }
    Ok(())
}

fn line(so_far: u64, lines: u64, forgetting: &[Usage], keeping: &[Usage]) -> io::Result<()> {
    let speed = |runs: &[Usage]| lines as f64 / runs.iter().map(|run| run.seconds).sum::<f64>();
    let bits = |runs: &[Usage], keys| runs.last().map_or(0.0, |run| report::bits(run, keys));
    let disk = |runs: &[Usage]| {
        let bytes: Option<u64> = runs.iter().map(|run| run.disk).sum();
        bytes.map_or("–".to_owned(), |bytes| {
            format!("{:.3}", bytes as f64 / 1e9)
        })
    };
    let dirtied: u64 = forgetting.iter().map(|run| run.dirtied).sum();
    println!(
        "| {so_far} | {:.2} | {} | {:.3} | {:.2} | {:.2} | {:.2} | {} | {:.2} |",
        bits(forgetting, lines),
        disk(forgetting),
        dirtied as f64 / 1e9,
        speed(forgetting) / 1e6,
        speed(keeping) / 1e6,
        speed(forgetting) / speed(keeping),
        disk(keeping),
        bits(keeping, so_far),
    );
    io::stdout().flush()
}
