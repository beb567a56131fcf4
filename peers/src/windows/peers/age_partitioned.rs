//! An age-partitioned Bloom filter, written from its paper (Shtul, Baquero, Almeida: "Age-Partitioned Bloom Filters",
//! 2020), in memory.
//!
//! ```text
//!  youngest                                    oldest
//!  slice 0 ... k-1 | k ... k+l-1
//!  a key sets a bit  the bits stay for l more generations, and go with their slice
//!  in each
//! ```
//!
//! With each generation every slice moves on by one place, and the oldest becomes the youngest, empty. A key is seen if
//! its bits are set in k consecutive slices: it has them for l generations at least. Then its oldest slice goes. In half of
//! all cases other keys have set its bit in the slice before its own, and it stays for one more generation, and so on.

use std::f64::consts::LN_2;

use anyhow::Result;
use everseen_benches::keys::hash;
use xxhash_rust::xxh3::xxh3_64;

use super::{Peer, Setup, each};
use crate::windows::stream::STEPS;

/// Generations of a window: as many as Everseen has steps, so that both forget equally exactly.
const GENERATIONS: usize = 15;

pub fn make(setup: &Setup) -> Result<Box<dyn Peer>> {
    let in_generation = setup.live.div_ceil(GENERATIONS as u64);
    let needed = needed_for(GENERATIONS, setup.fpr);
    Ok(Box::new(AgePartitioned::new(
        needed,
        GENERATIONS,
        in_generation,
    )))
}

struct AgePartitioned {
    /// How many consecutive slices a key needs: k.
    needed: usize,
    /// How many generations it is there for: l.
    lasting: usize,
    bits_of_slice: u64,
    /// Slice after slice, each in whole words; k + l of them.
    words: Vec<u64>,
    /// Which of them is the youngest. The next older one follows, and the first follows the last.
    youngest: usize,
    generation: u64,
}

impl AgePartitioned {
    /// A filter for so many keys in each generation.
    fn new(needed: usize, lasting: usize, in_generation: u64) -> Self {
        // A slice takes a bit of each key for k generations, and is half full then.
        let bits = (needed as f64 * in_generation as f64 / LN_2).ceil() as u64;
        let bits_of_slice = bits.next_multiple_of(64);
        Self {
            needed,
            lasting,
            bits_of_slice,
            words: vec![0; (needed + lasting) * (bits_of_slice / 64) as usize],
            youngest: 0,
            generation: 0,
        }
    }

    /// The word and the bit of a key in the slice of an age.
    fn place(&self, key: u64, age: usize) -> (usize, u64) {
        let slices = self.needed + self.lasting;
        let slice = (self.youngest + age) % slices;
        let draw = hash(key.wrapping_add(slice as u64));
        let bit = ((u128::from(draw) * u128::from(self.bits_of_slice)) >> 64) as u64;
        let first = slice * (self.bits_of_slice / 64) as usize;
        (first + (bit / 64) as usize, 1 << (bit % 64))
    }

    fn holds(&self, key: u64, age: usize) -> bool {
        let (word, bit) = self.place(key, age);
        self.words[word] & bit != 0
    }

    fn insert(&mut self, key: u64) {
        for age in 0..self.needed {
            let (word, bit) = self.place(key, age);
            self.words[word] |= bit;
        }
    }

    /// Looks for k consecutive slices, from the oldest ones on. A slice without the key's bit rules out all runs over it:
    /// the next one ends right before it, and what was found there already counts.
    fn contains(&self, key: u64) -> bool {
        let (mut begin, mut found_above) = (self.lasting, 0);
        loop {
            let wanted = self.needed - found_above;
            let found = (begin..begin + wanted)
                .take_while(|age| self.holds(key, *age))
                .count();
            if found == wanted {
                return true;
            }
            let missing = begin + found;
            if missing < self.needed {
                return false;
            }
            (begin, found_above) = (missing - self.needed, found);
        }
    }

    fn shift(&mut self) {
        let slices = self.needed + self.lasting;
        self.youngest = (self.youngest + slices - 1) % slices;
        let words = (self.bits_of_slice / 64) as usize;
        self.words[self.youngest * words..][..words].fill(0);
        self.generation += 1;
    }
}

/// The least k whose rate, right after a shift, is no more than this.
fn needed_for(lasting: usize, fpr: f64) -> usize {
    let fits = |needed: &usize| false_positives(*needed, lasting) <= fpr;
    (1..)
        .find(fits)
        .expect("each further slice lowers the rate")
}

/// The probability that a key that was never inserted has its bits in k consecutive slices, right after a shift.
fn false_positives(needed: usize, lasting: usize) -> f64 {
    // Of the keys that are not called seen yet: how probably the last so many slices had their bits.
    let mut in_a_row = vec![0.0; needed];
    in_a_row[0] = 1.0;
    let mut seen = 0.0;
    for age in 0..needed + lasting {
        let full = 1.0 - (-LN_2 * age.min(needed) as f64 / needed as f64).exp();
        let without: f64 = in_a_row.iter().map(|share| share * (1.0 - full)).sum();
        seen += in_a_row[needed - 1] * full;
        for length in (1..needed).rev() {
            in_a_row[length] = in_a_row[length - 1] * full;
        }
        in_a_row[0] = without;
    }
    seen
}

impl Peer for AgePartitioned {
    fn advance(&mut self, step: u64) -> Result<()> {
        while self.generation < step * self.lasting as u64 / STEPS {
            self.shift();
        }
        Ok(())
    }

    fn insert(&mut self, keys: &[&[u8]]) -> Result<Vec<bool>> {
        Ok(each(keys, |key| {
            let key = xxh3_64(key);
            let is_new = !self.contains(key);
            if is_new {
                self.insert(key);
            }
            is_new
        }))
    }

    fn look_up(&mut self, keys: &[&[u8]]) -> Result<Vec<bool>> {
        Ok(each(keys, |key| self.contains(xxh3_64(key))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a filter that is otherwise empty no other key's bits keep it.
    #[test]
    fn a_key_stays_for_l_generations_and_goes_with_the_next() {
        for (needed, lasting) in [(1, 1), (3, 5), (10, 7), (5, 1)] {
            let mut filter = AgePartitioned::new(needed, lasting, 1 << 20);
            assert!(!filter.contains(77));
            filter.insert(77);
            for _ in 0..lasting {
                assert!(filter.contains(77), "{needed} {lasting}");
                filter.shift();
            }
            assert!(filter.contains(77), "{needed} {lasting}");
            filter.shift();
            assert!(!filter.contains(77), "{needed} {lasting}");
        }
    }

    /// Slices that are half full of nothing in particular: the look-up finds what a look at each run finds.
    #[test]
    fn a_look_up_finds_any_run() {
        let mut filter = AgePartitioned::new(4, 9, 1000);
        for (number, word) in filter.words.iter_mut().enumerate() {
            *word = hash(number as u64) | hash(1 << 40 | number as u64);
        }
        filter.youngest = 5;
        let mut seen = 0;
        for key in 0..20_000 {
            let key = hash(key);
            let held: Vec<bool> = (0..13).map(|age| filter.holds(key, age)).collect();
            let expected = held.windows(4).any(|run| run.iter().all(|held| *held));
            assert_eq!(filter.contains(key), expected, "{held:?}");
            seen += usize::from(expected);
        }
        assert!((5_000..19_000).contains(&seen), "{seen}");
    }

    /// For each rate and k these are the most generations, as later works and programs give them after the paper.
    #[test]
    fn rates_are_those_of_the_paper() {
        let pairs = [
            (0.1, [(4, 3), (5, 7), (6, 14), (7, 28), (8, 56)]),
            (0.01, [(7, 5), (8, 8), (9, 14), (10, 25), (11, 46)]),
            (0.001, [(10, 7), (11, 9), (12, 14), (13, 23), (14, 40)]),
            (1e-4, [(14, 11), (15, 15), (16, 22), (17, 36), (18, 63)]),
        ];
        for (fpr, pairs) in pairs {
            for (needed, lasting) in pairs {
                let rate = false_positives(needed, lasting);
                assert!(rate <= fpr, "{needed} {lasting}: {rate}");
                let more = false_positives(needed, lasting + 1);
                assert!(more > fpr, "{needed} {lasting}: {more}");
            }
        }
    }

    /// Twenty generations with their keys, and then keys that never were.
    #[test]
    fn a_full_filter_has_its_rate_and_its_size() {
        let (needed, lasting, in_generation) = (7, 5, 4000);
        let mut filter = AgePartitioned::new(needed, lasting, in_generation);
        for number in 0..20 * in_generation {
            filter.insert(hash(number));
            if (number + 1) % in_generation == 0 {
                filter.shift();
            }
        }
        let asked = 400_000;
        let seen = (0..asked).filter(|number| filter.contains(hash(1 << 50 | number)));
        let seen = seen.count() as f64;
        let expected = false_positives(needed, lasting) * asked as f64;
        // The slices' own fill differs by chance as well.
        assert!((seen / expected - 1.0).abs() < 0.06, "{seen} {expected}");
        // k (k + l) / (l ln 2) bits for each key of the window.
        let bits = filter.words.len() as f64 * 64.0 / (lasting as f64 * in_generation as f64);
        assert!((bits - 24.24).abs() < 0.05, "{bits}");
    }
}
