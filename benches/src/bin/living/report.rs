//! Tables, a line as soon as its runs are over: some take hours.

use std::io;

use everseen_benches::numbers::median;
use everseen_benches::piped::Usage;

/// Prints a table's head.
pub fn head(title: &str, last: &str) {
    println!("\n{title}\n");
    println!("| a run of | into | s | the longest | dirtied MB | disk MB | {last} |");
    println!("|---|---|---|---|---|---|---|");
}

/// The medians of some runs, as a line.
pub fn line(run: &str, into: &str, runs: &[Usage], last: &str) -> io::Result<()> {
    let seconds = || runs.iter().map(|run| run.seconds);
    let longest = seconds().fold(0.0, f64::max);
    let dirtied = median(runs.iter().map(|run| run.dirtied as f64 / 1e6));
    let disk: Vec<f64> = runs
        .iter()
        .filter_map(|run| Some(run.disk? as f64 / 1e6))
        .collect();
    let disk = match disk.is_empty() {
        true => "–".to_owned(),
        false => format!("{:.2}", median(disk)),
    };
    println!(
        "| {run} | {into} | {:.4} | {longest:.4} | {dirtied:.2} | {disk} | {last} |",
        median(seconds())
    );
    io::Write::flush(&mut io::stdout())
}

/// Bits of a store's file for each key.
pub fn bits(run: &Usage, keys: u64) -> f64 {
    run.file as f64 * 8.0 / keys as f64
}
