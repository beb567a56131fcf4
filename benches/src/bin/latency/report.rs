//! The percentiles, as a table.

use everseen_benches::histogram::Histogram;
use everseen_benches::numbers::median;

use super::calls::Calls;

/// One run of a scenario.
#[derive(Clone, Debug)]
pub struct Run {
    pub calls: Calls,
    /// Keys inserted, and how long that took.
    pub keys: u64,
    pub seconds: f64,
    /// Buffers that were closed.
    pub rotations: u64,
}

const PERCENT: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

/// Prints a line for each scenario and each thing that may go on meanwhile. Percentiles are the
/// medians of the rounds', the longest is the longest of all.
pub fn print(names: &[&str], runs: &[Vec<Run>]) {
    println!();
    println!("| µs a call | meanwhile | calls | 50 % | 90 % | 99 % | 99.9 % | 99.99 % | longest |");
    println!("|---|---|---|---|---|---|---|---|---|");
    type Part = fn(&Calls) -> &Histogram;
    let parts: [(&str, Part); 3] = [
        ("no checkpoint", |calls| &calls.quiet),
        ("checkpoint", |calls| &calls.beside),
        ("closed a buffer", |calls| &calls.rotating),
    ];
    for (name, runs) in names.iter().zip(runs) {
        for (meanwhile, part) in parts {
            let all: Vec<_> = runs.iter().map(|run| part(&run.calls)).collect();
            let calls: u64 = all.iter().map(|calls| calls.total()).sum();
            if calls == 0 {
                continue;
            }
            let longest = all.iter().map(|calls| calls.max()).max().unwrap_or(0);
            let percentiles = PERCENT.map(|percent| {
                let values = all.iter().filter_map(|calls| calls.percentile(percent));
                let values: Vec<_> = values.map(|value| value as f64 / 1e3).collect();
                // Too few calls in a round to tell.
                if values.len() < all.len() {
                    return String::new();
                }
                digits(median(values))
            });
            println!(
                "| {name} | {meanwhile} | {calls} | {} | {} |",
                percentiles.join(" | "),
                digits(longest as f64 / 1e3)
            );
        }
    }
    println!();
    println!("| scenario | million keys/s | buffers closed a round |");
    println!("|---|---|---|");
    for (name, runs) in names.iter().zip(runs) {
        let rate = |run: &Run| run.keys as f64 / run.seconds / 1e6;
        println!(
            "| {name} | {:.2} | {:.0} |",
            median(runs.iter().map(rate)),
            median(runs.iter().map(|run| run.rotations as f64))
        );
    }
}

/// Three digits that count, more of large numbers.
fn digits(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
