//! What the runs told, as a table.

use std::ffi::OsString;

use everseen_benches::numbers::median;
use everseen_benches::piped::Usage;

use crate::scenario::Scenario;

/// All runs of one store at one size. Of each round there is a run with new lines, and those with the same lines again.
#[derive(Clone, Debug)]
pub struct Row {
    pub keys: u64,
    pub scenario: Scenario,
    pub options: Vec<OsString>,
    pub runs: Vec<Vec<Usage>>,
}

impl Row {
    pub fn new(keys: u64, scenario: Scenario, options: &[OsString]) -> Self {
        Self {
            keys,
            scenario,
            options: options.to_vec(),
            runs: Vec::new(),
        }
    }

    fn name(&self) -> String {
        let mut name = self.scenario.name.to_owned();
        for option in &self.options {
            name += ", ";
            name += &option.to_string_lossy();
        }
        name
    }

    fn median(&self, turn: usize, of: impl Fn(&Usage) -> f64) -> Option<f64> {
        let values: Vec<f64> = self
            .runs
            .iter()
            .filter_map(|run| run.get(turn))
            .map(of)
            .collect();
        (!values.is_empty()).then(|| median(values))
    }

    /// The bytes for each key that reached the disk, or nothing where there is no disk.
    fn disk(&self, turn: usize) -> Option<f64> {
        let values: Vec<f64> = self
            .runs
            .iter()
            .filter_map(|run| run.get(turn)?.disk)
            .map(|bytes| bytes as f64 / self.keys as f64)
            .collect();
        (!values.is_empty()).then(|| median(values))
    }
}

/// Prints the table. A ratio is that of the time to the last row's of the same size, which is the store made for its keys.
pub fn print(rows: &[Row]) {
    println!(
        "\n| lines | store | | s | million lines/s | of the time of the last | peak MiB | dirtied B/key | disk B/key | \
         file B/key |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    let turns = rows
        .iter()
        .flat_map(|row| &row.runs)
        .map(Vec::len)
        .max()
        .unwrap_or(0);
    for turn in 0..turns {
        for row in rows {
            let last = rows.iter().rfind(|other| other.keys == row.keys);
            let base = last.and_then(|last| last.median(turn, |run| run.seconds));
            let keys = row.keys as f64;
            let Some(seconds) = row.median(turn, |run| run.seconds) else {
                continue;
            };
            let of =
                |value: fn(&Usage) -> u64| row.median(turn, |run| value(run) as f64).unwrap_or(0.0);
            println!(
                "| {keys:.0e} | {} | {} | {seconds:.2} | {:.2} | {:.2} | {:.0} | {:.1} | {} | {:.2} |",
                row.name(),
                if turn == 0 { "new" } else { "seen" },
                keys / seconds / 1e6,
                seconds / base.unwrap_or(seconds),
                of(|run| run.memory) / f64::from(1 << 20),
                of(|run| run.dirtied) / keys,
                row.disk(turn)
                    .map_or("–".to_owned(), |bytes| format!("{bytes:.1}")),
                of(|run| run.file) / keys,
            );
        }
    }
}

/// What was written for each key, over the size of the store's file, as `scripts/plot.py` reads it.
pub fn csv(rows: &[Row]) -> String {
    let mut text = "variant,phase,keys,filter_bytes,memory_bytes,asked,done,value\n".to_owned();
    for row in rows {
        let name = row.name().replace(',', ";");
        let keys = row.keys;
        let (Some(dirtied), Some(file)) = (
            row.median(0, |run| run.dirtied as f64 / keys as f64),
            row.median(0, |run| run.file as f64),
        ) else {
            continue;
        };
        let points = [("dirtied", Some(dirtied)), ("disk", row.disk(0))];
        for (phase, value) in points {
            if let Some(value) = value {
                text += &format!("{name},{phase},{keys},{file},0,{keys},{keys},{value:.3}\n");
            }
        }
    }
    text
}
