//! The runs of eight keys, drawn together once: for a prefetch now and for tests a little later.

use super::blocked_probes::{self, HEADER};
use super::uniform_probes::GOLDEN_STEP;
use crate::page::PAYLOAD_BITS;
use crate::sizing::{Cell, LINE_BITS, MAX_PROBES};
use crate::sys::simd::probes_avx512::{Scheme, draw};

pub(crate) use crate::sys::simd::probes_avx512::{EIGHT, draws_eight};

const SCHEME: Scheme = Scheme {
    step: GOLDEN_STEP,
    header: HEADER,
    payload: PAYLOAD_BITS,
    line: LINE_BITS,
};

/// Each run has at least two bits, so at most one bit is single.
const ROWS: usize = MAX_PROBES as usize / 2 + 1;

const _: () = assert!(
    HEADER + PAYLOAD_BITS <= 1 << 16,
    "a bit's number takes 16 bits"
);

/// The number of bits per key and per run.
#[derive(Debug, Clone, Copy)]
struct Runs {
    probes: u32,
    length: u32,
}

impl Runs {
    #[inline]
    fn draw(self, hashes: &[u64; EIGHT], rows: &mut [[u64; EIGHT]]) {
        let is_drawn = match self.length {
            3 => draw::<3>(&SCHEME, hashes, self.probes, rows),
            _ => draw::<2>(&SCHEME, hashes, self.probes, rows),
        };
        if !is_drawn {
            self.draw_each(hashes, rows);
        }
    }

    /// Draws the same, key by key.
    fn draw_each(self, hashes: &[u64; EIGHT], rows: &mut [[u64; EIGHT]]) {
        let runs = (self.probes / self.length) as usize;
        for (key, hash) in hashes.iter().enumerate() {
            if runs * (self.length as usize) < self.probes as usize {
                rows[runs][key] = 0;
            }
            let mut row = 0;
            blocked_probes::each_run_of(*hash, self.length, self.probes, |run| {
                let bits = run
                    .iter()
                    .rev()
                    .fold(0, |word, bit| word << 16 | *bit as u64);
                if row < runs {
                    rows[row][key] = bits;
                } else {
                    rows[runs][key] |= bits << (16 * (row - runs));
                }
                row += 1;
            });
        }
    }
}

/// Draws the first run of each key with `probes` probes: a word with 16 bits for each of the run's bits.
#[inline]
pub(crate) fn first_runs(probes: u32, hashes: &[u64], words: &mut [u64]) {
    debug_assert_eq!(hashes.len(), words.len());
    let length = Cell::Bit.run_length(probes);
    let runs = Runs {
        probes: probes.min(length),
        length,
    };
    for (hashes, words) in hashes.chunks(EIGHT).zip(words.chunks_mut(EIGHT)) {
        let mut eight = [0; EIGHT];
        eight[..hashes.len()].copy_from_slice(hashes);
        let mut row = [[0; EIGHT]];
        runs.draw(&eight, &mut row);
        words.copy_from_slice(&row[0][..words.len()]);
    }
}

/// Returns whether each bit of a [first run](first_runs) passes a test.
#[inline(always)]
pub(crate) fn all_of_first(probes: u32, word: u64, test: impl Fn(usize) -> bool) -> bool {
    let bits = Bits {
        word,
        count: probes.min(Cell::Bit.run_length(probes)),
    };
    bits.fold(true, |all, bit| all & test(bit))
}

/// Returns its first bit.
#[inline(always)]
pub(crate) fn first_of(word: u64) -> usize {
    bit_of(word, 0)
}

/// The runs of eight keys. Each bit is a 16-bit number, counted from the first bit of the page's header.
#[derive(Debug)]
pub(crate) struct Drawn {
    runs: Runs,
    /// One run of each key per row; the row behind the runs holds the single bits.
    rows: [[u64; EIGHT]; ROWS],
}

impl Drawn {
    /// Returns a batch without draws.
    pub(crate) fn new(probes: u32) -> Self {
        // With none, every key would be found in every page.
        debug_assert!((1..=MAX_PROBES).contains(&probes), "{probes}");
        Self {
            runs: Runs {
                probes,
                length: Cell::Bit.run_length(probes),
            },
            rows: [[0; EIGHT]; ROWS],
        }
    }

    /// Draws for eight keys. Where the processor [can't](draws_eight) do that at once, it takes a little longer than
    /// walking the bits of each key.
    #[inline]
    pub(crate) fn draw(&mut self, hashes: &[u64; EIGHT]) {
        self.runs.draw(hashes, &mut self.rows);
    }

    /// Calls `each` with each bit of one of the keys.
    #[inline(always)]
    pub(crate) fn each(&self, key: usize, mut each: impl FnMut(usize)) {
        self.all_runs(key, |bits| {
            bits.for_each(&mut each);
            true
        });
    }

    /// Calls `each` with the first bit of each of the key's runs and with each single bit.
    #[inline(always)]
    pub(crate) fn each_first(&self, key: usize, mut each: impl FnMut(usize)) {
        let Runs { probes, length } = self.runs;
        let runs = (probes / length) as usize;
        for row in &self.rows[..runs] {
            each(bit_of(row[key], 0));
        }
        for turn in 0..probes % length {
            each(bit_of(self.rows[runs][key], turn));
        }
    }

    /// Returns whether each of the key's bits passes a test, one run at a time like [`blocked_probes::all`].
    #[inline(always)]
    pub(crate) fn all(&self, key: usize, test: impl Fn(usize) -> bool) -> bool {
        self.all_runs(key, |bits| bits.fold(true, |all, bit| all & test(bit)))
    }

    #[inline(always)]
    fn all_runs(&self, key: usize, each: impl FnMut(Bits) -> bool) -> bool {
        match self.runs.length {
            3 => self.walk::<3>(key, each),
            _ => self.walk::<2>(key, each),
        }
    }

    /// Walks the key's runs, then its single bits together, until `each` returns `false`.
    #[inline(always)]
    fn walk<const RUN: u32>(&self, key: usize, mut each: impl FnMut(Bits) -> bool) -> bool {
        let runs = (self.runs.probes / RUN) as usize;
        let run = |row: &[u64; EIGHT], count| Bits {
            word: row[key],
            count,
        };
        self.rows[..runs].iter().all(|row| each(run(row, RUN)))
            && each(run(&self.rows[runs], self.runs.probes % RUN))
    }
}

#[inline(always)]
fn bit_of(word: u64, turn: u32) -> usize {
    (word >> (16 * turn)) as usize & 0xFFFF
}

/// Bits of a run, beginning with the first.
struct Bits {
    word: u64,
    count: u32,
}

impl Iterator for Bits {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        self.count = self.count.checked_sub(1)?;
        let bit = bit_of(self.word, 0);
        self.word >>= 16;
        Some(bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::blocked_probes::twin::bits;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn first_runs_are_those_of_the_twin(
            hashes in prop::collection::vec(any::<u64>(), 0..40),
            probes in 1_u32..=MAX_PROBES,
        ) {
            let mut words = vec![7; hashes.len()];
            first_runs(probes, &hashes, &mut words);
            let length = probes.min(Cell::Bit.run_length(probes)) as usize;
            for (hash, word) in hashes.iter().zip(words) {
                let twin = &bits(*hash, probes)[..length];
                prop_assert_eq!(first_of(word), twin[0]);
                prop_assert!(all_of_first(probes, word, |bit| twin.contains(&bit)));
                for missing in twin {
                    prop_assert!(!all_of_first(probes, word, |bit| bit != *missing));
                }
            }
        }

        #[test]
        fn eight_keys_have_the_bits_of_the_twin(
            hashes in prop::array::uniform8(any::<u64>()),
            before in prop::array::uniform8(any::<u64>()),
            probes in 1_u32..=MAX_PROBES,
        ) {
            let mut drawn = [Drawn::new(probes), Drawn::new(probes)];
            for hashes in [before, hashes] {
                drawn[0].draw(&hashes);
                let Drawn { runs, rows } = &mut drawn[1];
                runs.draw_each(&hashes, rows);
            }
            let length = Cell::Bit.run_length(probes) as usize;
            for drawn in &drawn {
                for (key, hash) in hashes.iter().enumerate() {
                    let twin = bits(*hash, probes);
                    let mut got = Vec::new();
                    drawn.each(key, |bit| got.push(bit));
                    prop_assert_eq!(&got, &twin);
                    let (runs, alone) = twin.split_at(twin.len() / length * length);
                    let firsts: Vec<usize> = runs.iter().step_by(length).chain(alone).copied().collect();
                    let mut got = Vec::new();
                    drawn.each_first(key, |bit| got.push(bit));
                    prop_assert_eq!(&got, &firsts);
                    prop_assert!(drawn.all(key, |bit| twin.contains(&bit)));
                    for missing in &twin {
                        prop_assert!(!drawn.all(key, |bit| bit != *missing));
                    }
                }
            }
        }
    }
}
