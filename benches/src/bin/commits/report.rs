//! What the loops managed, as a table.

use std::time::Duration;

use everseen_benches::histogram::Histogram;
use everseen_benches::numbers::median;

use super::What;

/// One run of one loop.
#[derive(Clone, Debug)]
pub struct Run {
    /// A second.
    rate: f64,
    /// How many calls made files durable meanwhile; 0 if nobody counted.
    syncs: u64,
    /// How long each write or commit took its thread.
    took: Histogram,
}

impl Run {
    pub fn of(took: Histogram, span: Duration, syncs: u64) -> Self {
        Self {
            rate: took.total() as f64 / span.as_secs_f64(),
            syncs,
            took,
        }
    }
}

/// Prints a line for each loop. Ratios are the medians of the rounds' own ratios.
pub fn print(loops: &[(&str, What)], runs: &[Vec<Run>]) {
    let of = |wanted: fn(&What) -> bool| {
        let found = loops.iter().position(|(_, what)| wanted(what));
        found.map_or(&[][..], |place| &runs[place])
    };
    let raw = of(|what| matches!(what, What::Raw { zeroed: false }));
    let written = of(|what| matches!(what, What::Raw { zeroed: true }));
    let ratio = |runs: &[Run], others: &[Run]| {
        let ratios = runs.iter().zip(others);
        let ratios: Vec<_> = ratios.map(|(run, other)| run.rate / other.rate).collect();
        match ratios.is_empty() {
            true => String::new(),
            false => format!("{:.2}", median(ratios)),
        }
    };
    println!();
    println!(
        "| loop | durable a second | best | × raw, reserved | × raw, written | × one thread | commits a sync | µs each: 50 % | 99 % |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let one = of(|what| {
        matches!(
            what,
            What::Commits {
                threads: 1,
                exclusive: false
            }
        )
    });
    for ((name, _), runs) in loops.iter().zip(runs) {
        let took = |percent: f64| {
            let all: Vec<_> = runs
                .iter()
                .filter_map(|run| run.took.percentile(percent))
                .collect();
            match all.len() == runs.len() {
                true => format!("{:.0}", median(all.iter().map(|took| *took as f64 / 1e3))),
                false => String::new(),
            }
        };
        let syncs: u64 = runs.iter().map(|run| run.syncs).sum();
        let commits: u64 = runs.iter().map(|run| run.took.total()).sum();
        let shared = match syncs {
            0 => String::new(),
            _ => format!("{:.2}", commits as f64 / syncs as f64),
        };
        println!(
            "| {name} | {:.0} | {:.0} | {} | {} | {} | {} | {} | {} |",
            median(runs.iter().map(|run| run.rate)),
            runs.iter().map(|run| run.rate).fold(0.0, f64::max),
            ratio(runs, raw),
            ratio(runs, written),
            ratio(runs, one),
            shared,
            took(50.0),
            took(99.0),
        );
    }
}
