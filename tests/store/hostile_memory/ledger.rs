//! What was acknowledged, by the number of each key.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How often a key is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    pub least: i64,
    pub most: i64,
}

#[derive(Debug, Default)]
pub struct Ledger(pub BTreeMap<u64, Bounds>);

fn file(store: &Path) -> PathBuf {
    store.with_extension("ledger")
}

impl Ledger {
    /// It was acknowledged so often more.
    pub fn add(&mut self, number: u64, times: i64) {
        let bounds = self.0.entry(number).or_default();
        bounds.least += times;
        bounds.most += times;
    }

    /// Nobody was told whether it was added so often.
    pub fn perhaps(&mut self, number: u64, times: i64) {
        let bounds = self.0.entry(number).or_default();
        bounds.least += times.min(0);
        bounds.most += times.max(0);
    }

    pub fn least(&self, number: u64) -> i64 {
        self.0.get(&number).map_or(0, |bounds| bounds.least)
    }

    pub fn save(&self, store: &Path) {
        let line = |(number, bounds): (&u64, &Bounds)| {
            format!("{number} {} {}\n", bounds.least, bounds.most)
        };
        let text: String = self.0.iter().map(line).collect();
        std::fs::write(file(store), text).unwrap();
    }

    pub fn load(store: &Path) -> Self {
        let text = std::fs::read_to_string(file(store)).unwrap();
        let line = |line: &str| {
            let numbers: Vec<i64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
            let bounds = Bounds {
                least: numbers[1],
                most: numbers[2],
            };
            (numbers[0] as u64, bounds)
        };
        Self(text.lines().map(line).collect())
    }
}
