//! Keys in the order in which they are handed to a variant.

use std::path::Path;

use anyhow::Result;
use everseen_benches::keys::{hash, shuffle};

use crate::list::each_line;

/// Keys in an order.
pub enum Sequence {
    /// They lie in memory one behind the other in this order.
    Listed(Listed),
    /// They are made on the way, which takes two or three nanoseconds each.
    Counted(Counted),
}

/// The bytes of all keys, and where each ends.
#[derive(Default)]
pub struct Listed {
    text: Vec<u8>,
    ends: Vec<usize>,
}

/// Keys of eight bytes, made of numbers: `first + i·step mod within` for each i below `count`.
pub struct Counted {
    first: u64,
    step: u64,
    within: u64,
    count: u64,
}

impl Listed {
    /// The lines of a file, `most` of them at most.
    pub fn read(path: &Path, most: u64) -> Result<Self> {
        let mut keys = Self::default();
        keys.text.reserve(std::fs::metadata(path)?.len() as usize);
        each_line(path, |line| {
            keys.push(line);
            Ok(keys.len() < most)
        })?;
        Ok(keys)
    }

    /// Some of the same keys in another order.
    pub fn shuffled(&self, seed: u64, most: u64) -> Self {
        let mut numbers: Vec<u64> = (0..self.len()).collect();
        shuffle(&mut numbers, seed);
        let mut keys = Self::default();
        keys.text.reserve(self.text.len());
        for number in numbers.into_iter().take(most as usize) {
            let place = number as usize;
            let begin = if place == 0 { 0 } else { self.ends[place - 1] };
            keys.push(&self.text[begin..self.ends[place]]);
        }
        keys
    }

    fn push(&mut self, key: &[u8]) {
        self.text.extend_from_slice(key);
        self.ends.push(self.text.len());
    }

    fn len(&self) -> u64 {
        self.ends.len() as u64
    }
}

impl Counted {
    /// All numbers from `first` on, one after the other.
    pub fn all(first: u64, count: u64) -> Self {
        Self {
            first,
            step: 1,
            within: count,
            count,
        }
    }

    /// `count` of the numbers below `within`, spread evenly and in another order.
    pub fn spread(within: u64, count: u64) -> Self {
        // About the golden ratio of them at a time.
        let mut step = (within as f64 * 0.618_034) as u64 | 1;
        while common_divisor(step, within) != 1 {
            step += 2;
        }
        Self {
            first: 0,
            step: step % within.max(2),
            within,
            count,
        }
    }
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

impl Sequence {
    /// How many keys there are.
    pub fn len(&self) -> u64 {
        match self {
            Self::Listed(keys) => keys.len(),
            Self::Counted(keys) => keys.count,
        }
    }

    /// Hands over all keys, this many at a time, until it must stop.
    pub fn in_portions(
        &self,
        size: usize,
        mut each: impl FnMut(&[&[u8]]) -> Result<bool>,
    ) -> Result<()> {
        match self {
            Self::Listed(keys) => {
                let mut portion: Vec<&[u8]> = Vec::with_capacity(size);
                let mut begin = 0;
                for ends in keys.ends.chunks(size) {
                    portion.clear();
                    for end in ends {
                        portion.push(&keys.text[begin..*end]);
                        begin = *end;
                    }
                    if !each(&portion)? {
                        break;
                    }
                }
            }
            Self::Counted(keys) => {
                let mut bytes = Vec::with_capacity(size);
                let mut number = 0;
                let mut left = keys.count;
                while left > 0 {
                    bytes.clear();
                    for _ in 0..left.min(size as u64) {
                        bytes.push(hash(keys.first + number).to_le_bytes());
                        number += keys.step;
                        if number >= keys.within {
                            number -= keys.within;
                        }
                    }
                    left -= bytes.len() as u64;
                    let portion: Vec<&[u8]> = bytes.iter().map(|key| &key[..]).collect();
                    if !each(&portion)? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(sequence: &Sequence, size: usize) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        sequence
            .in_portions(size, |portion| {
                assert!(portion.len() <= size);
                keys.extend(portion.iter().map(|key| key.to_vec()));
                Ok(true)
            })
            .unwrap();
        assert_eq!(keys.len() as u64, sequence.len());
        keys
    }

    #[test]
    fn another_order_has_the_same_keys() {
        for count in [1, 2, 3, 10, 999, 1000] {
            let all = keys(&Sequence::Counted(Counted::all(0, count)), 7);
            let spread = keys(&Sequence::Counted(Counted::spread(count, count)), 16);
            let absent = keys(&Sequence::Counted(Counted::all(count, count)), 16);
            let mut listed = Listed::default();
            for key in &all {
                listed.push(key);
            }
            let shuffled = keys(&Sequence::Listed(listed.shuffled(1, count)), 3);
            if count > 3 {
                assert_ne!(all, spread, "{count}");
                assert_ne!(all, shuffled, "{count}");
            }
            let sorted = |mut keys: Vec<Vec<u8>>| {
                keys.sort();
                keys
            };
            let all = sorted(all);
            assert_eq!(all, sorted(spread), "{count}");
            assert_eq!(all, sorted(shuffled), "{count}");
            assert!(absent.iter().all(|key| all.binary_search(key).is_err()));
        }
    }

    #[test]
    fn told_to_stop_it_stops() {
        let sequence = Sequence::Counted(Counted::all(0, 100));
        let mut portions = 0;
        sequence
            .in_portions(10, |_| {
                portions += 1;
                Ok(portions < 3)
            })
            .unwrap();
        assert_eq!(portions, 3);
    }
}
