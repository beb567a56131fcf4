//! Random inserts and removes against an exact multiset.

use everseen::testing::{Appending, Options};
use everseen::{Kind, Store};

use super::number;
use crate::support::files::place;
use crate::support::numbers::{Random, key};
use crate::support::share::all_or;

/// Operations unless EVERSEEN_OPERATIONS is set, ten for each key; a third of them unless `EVERSEEN_ALL=1` is.
const OPERATIONS: u64 = 300_000;
const SEED: u64 = 11;
/// Not one false positive is to be expected in the long run.
const FPR: f64 = 1e-10;
/// Keys of one call.
const BATCH: usize = 1000;
const HEADER: usize = 16;

struct Multiset {
    store: Store,
    counts: Vec<u8>,
    random: Random,
}

impl Multiset {
    fn keys(numbers: &[usize]) -> Vec<[u8; 8]> {
        let bytes = |number: &usize| key(*number as u64).to_le_bytes();
        numbers.iter().map(bytes).collect()
    }

    /// One batch of one or the other, and what it answers; at times key by key.
    fn count(&mut self, up: bool, numbers: &[usize]) {
        let keys = Self::keys(numbers);
        let before: Vec<_> = numbers
            .iter()
            .map(|number| {
                let count = &mut self.counts[*number];
                let before = *count;
                *count = if up {
                    before + 1
                } else {
                    before.saturating_sub(1)
                };
                before
            })
            .collect();
        let mut answers = Vec::new();
        if keys.len() == 1 {
            answers.push(match up {
                true => self.store.insert(keys[0]).unwrap(),
                false => self.store.remove(keys[0]).unwrap(),
            });
        } else if up {
            answers = self.store.insert_batch(&keys).unwrap();
        } else {
            self.store.remove_into(&keys, &mut answers).unwrap();
        }
        for ((answer, before), number) in answers.iter().zip(before).zip(numbers) {
            assert_eq!(
                *answer,
                (before == 0) == up,
                "key {number}, {up}, there {before}"
            );
        }
        // No false negative, and no count that is not right, whatever the pages have had by now.
        let found = self.store.contains_batch(&keys).unwrap();
        for (place, number) in numbers.iter().enumerate() {
            let count = self.counts[*number];
            assert_eq!(found[place], count > 0, "key {number}");
            if place < 16 {
                let told = self.store.count_estimate(keys[place]).unwrap();
                assert_eq!(told, u64::from(count), "key {number}");
            }
        }
    }

    fn draw(&mut self) -> Vec<usize> {
        let count = match self.random.below(8) {
            0 => 1,
            _ => 1 + self.random.below(BATCH as u64),
        };
        let keys = self.counts.len() as u64;
        let draw = |_| self.random.below(keys) as usize;
        (0..count).map(draw).collect()
    }

    fn check_all(&self) {
        let numbers: Vec<_> = (0..self.counts.len()).collect();
        for part in numbers.chunks(1 << 16) {
            let found = self.store.contains_batch(&Self::keys(part)).unwrap();
            for (number, found) in part.iter().zip(found) {
                assert_eq!(found, self.counts[*number] > 0, "key {number}");
            }
        }
        let sum = self
            .counts
            .iter()
            .map(|count| u64::from(*count))
            .sum::<u64>();
        assert_eq!(self.store.stats().unwrap().keys, sum);
    }
}

/// Invariant I10 without crashes.
#[test]
fn multiset() {
    let operations = number("EVERSEEN_OPERATIONS", all_or(OPERATIONS, OPERATIONS / 3));
    let seed = number("EVERSEEN_SEED", SEED);
    println!("EVERSEEN_OPERATIONS={operations} EVERSEEN_SEED={seed}");
    let keys = operations / 10;
    let (_folder, path) = place();
    let options = Options::new()
        .kind(Kind::Counting)
        .capacity(4 * keys)
        .fpr(FPR)
        .seed([7; 32])
        .buffer((16 * keys).max(everseen::testing::LEAST_BUFFER));
    let mut set = Multiset {
        store: options.create(&path).unwrap(),
        counts: vec![0; keys as usize],
        random: Random::new(seed),
    };
    let mut done = 0;
    let mut checked = 0;
    while done < operations {
        let mut numbers = set.draw();
        let up = set.random.below(2) == 0;
        if up {
            // Counters end at 15.
            numbers.retain(|number| set.counts[*number] < 14);
            numbers.sort_unstable();
            numbers.dedup();
        }
        done += numbers.len() as u64;
        set.count(up, &numbers);
        if done / (operations / 5) > checked {
            checked += 1;
            set.check_all();
            if checked.is_multiple_of(2) {
                set.store.close().unwrap();
                set.store = options.open(&path).unwrap();
                set.check_all();
            }
        }
    }
    let generation = set.store.stats().unwrap().generation;
    assert!(generation > 4, "{generation} checkpoints are few");
    for first in (0..keys as usize).step_by(BATCH) {
        let last = (first + BATCH).min(keys as usize);
        loop {
            let numbers: Vec<_> = (first..last).filter(|key| set.counts[*key] > 0).collect();
            if numbers.is_empty() {
                break;
            }
            set.count(false, &numbers);
        }
    }
    set.check_all();
    set.store.checkpoint().unwrap();
    assert_eq!(set.store.stats().unwrap().keys, 0);
    set.store.close().unwrap();
    let (zero, stuck) = counters(&path);
    println!("{generation} checkpoints, {zero} counters are 0, {stuck} are stuck");
    let counted = 8160 * Options::new().open(&path).unwrap().stats().unwrap().layers[0].pages;
    assert_eq!(zero + stuck, counted, "some counter is neither");
    assert!(stuck * 1000 < counted, "{stuck} are stuck");
}

/// How many counters of a closed store are 0, and how many 15, read as FORMAT.md says.
fn counters(path: &std::path::Path) -> (u64, u64) {
    let bytes = std::fs::read(path).unwrap();
    let newest = [16_384, 73_728].into_iter().max_by_key(|at| {
        let sequence = &bytes[at + 16..at + 24];
        u64::from_le_bytes(sequence.try_into().unwrap())
    });
    let entry = newest.unwrap() + 320;
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let (first, pages) = (word(entry), word(entry + 8));
    let (mut zero, mut stuck) = (0, 0);
    for page in bytes[first * 4096..(first + pages) * 4096].chunks_exact(4096) {
        for byte in &page[HEADER..] {
            for counter in [byte & 15, byte >> 4] {
                zero += u64::from(counter == 0);
                stuck += u64::from(counter == 15);
            }
        }
    }
    (zero, stuck)
}
