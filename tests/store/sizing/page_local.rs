//! The rate of the page-local filter: of counters against exact twins, of bits against simulation.

use everseen::sizing::{
    Cell, MAX_PAGES, PAGE_BITS, expected_fill, expected_rate, hash_floor, keys_from_bits_set,
};
use proptest::prelude::*;

use super::close;
use crate::support::share::all_or;

/// `E[(X/B)^k]` after 0, 1, … `most` keys of `k` uniform draws among `B` cells, by the exact distribution of the
/// occupancy `X`.
fn exact_page_rates(cells: usize, most: usize, probes: u32) -> Vec<f64> {
    let mut chance = vec![0.0; cells + 1];
    chance[0] = 1.0;
    let (mut low, mut high) = (0, 0); // chances outside are below 1e-40 and taken as 0
    let mut rates = vec![0.0];
    for _ in 0..most {
        for _ in 0..probes {
            high = (high + 1).min(cells);
            for set in (low..=high).rev() {
                let stays = chance[set] * set as f64 / cells as f64;
                let rises = if set == 0 {
                    0.0
                } else {
                    chance[set - 1] * (cells - set + 1) as f64 / cells as f64
                };
                chance[set] = stays + rises;
            }
            while chance[low] < 1e-40 {
                chance[low] = 0.0;
                low += 1;
            }
            while chance[high] < 1e-40 {
                chance[high] = 0.0;
                high -= 1;
            }
        }
        rates.push(
            (low..=high)
                .map(|set| chance[set] * (set as f64 / cells as f64).powi(probes as i32))
                .sum(),
        );
    }
    rates
}

/// The mixture by logarithms of binomial coefficients, each a plain sum, and the exact page rates.
fn twin_rate(keys: u64, pages: u64, probes: u32) -> f64 {
    let counters = Cell::Counter.per_page() as usize;
    let share = 1.0 / pages as f64;
    let mean = keys as f64 * share;
    let most = keys.min((mean + 15.0 * mean.sqrt() + 60.0) as u64);
    let mut ln_choose = 0.0;
    let mut rate = 0.0;
    for (load, page_rate) in exact_page_rates(counters, most as usize, probes)
        .into_iter()
        .enumerate()
    {
        if load > 0 {
            ln_choose += ((keys - load as u64 + 1) as f64).ln() - (load as f64).ln();
        }
        let ln_weight =
            ln_choose + load as f64 * share.ln() + (keys as f64 - load as f64) * (1.0 - share).ln();
        rate += ln_weight.exp() * page_rate;
    }
    rate + hash_floor(keys)
}

/// Some pages of bits, each as its 64 lines: which are set.
struct Simulated {
    pages: Vec<Vec<Vec<bool>>>,
    probes: u32,
    state: u64,
}

impl Simulated {
    fn new(pages: u64, probes: u32) -> Self {
        let lines = || (0..64).map(|line| vec![false; if line == 0 { 384 } else { 512 }]);
        let pages = (0..pages).map(|_| lines().collect()).collect();
        let state = 0x5eed;
        Self {
            pages,
            probes,
            state,
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15); // SplitMix64
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }

    /// A key falls on a page, and sets runs of different bits of a line, and the rest alone.
    fn insert(&mut self) {
        let page = self.below(self.pages.len());
        let length = Cell::Bit.run_length(self.probes);
        let alone = self.probes % length;
        let runs = (0..self.probes / length).map(|_| length);
        for length in runs.chain((0..alone).map(|_| 1)).collect::<Vec<_>>() {
            let (line, size) = match self.below(PAGE_BITS as usize) {
                0..384 => (0, 384),
                bit => ((bit + 128) / 512, 512),
            };
            let mut bits = Vec::new();
            while bits.len() < length as usize {
                let bit = self.below(size);
                if !bits.contains(&bit) {
                    bits.push(bit);
                    self.pages[page][line][bit] = true;
                }
            }
        }
    }

    /// Share of set bits, and the chance that an absent key finds all of its bits set.
    fn fill_and_rate(&self) -> (f64, f64) {
        let length = Cell::Bit.run_length(self.probes);
        let (mut fill, mut rate) = (0.0, 0.0);
        for page in &self.pages {
            let (mut one, mut run) = (0.0, 0.0);
            for line in page {
                let size = line.len() as f64;
                let set = line.iter().filter(|bit| **bit).count() as f64;
                let all =
                    (0..length).map(|turn| (set - f64::from(turn)) / (size - f64::from(turn)));
                one += set / PAGE_BITS as f64;
                run += size / PAGE_BITS as f64 * all.product::<f64>().max(0.0);
            }
            fill += one;
            let runs = (self.probes / length) as i32;
            rate += run.powi(runs) * one.powi((self.probes % length) as i32);
        }
        let pages = self.pages.len() as f64;
        (fill / pages, rate / pages)
    }
}

#[test]
fn one_page_of_counters_against_the_exact_occupancy() {
    let counters = Cell::Counter.per_page() as usize;
    for (probes, tolerance) in [(1, 1e-4), (2, 1e-4), (7, 1e-4), (13, 3e-4), (20, 1e-3)] {
        let most = 2 * counters / probes as usize;
        let exact = exact_page_rates(counters, most, probes);
        for (load, exact) in exact.into_iter().enumerate() {
            let (got, exact) = (
                Cell::Counter.expected_rate(load as u64, 1, probes),
                exact + hash_floor(load as u64),
            );
            assert!(
                close(got, exact, tolerance),
                "k {probes}, {load} keys: {got:e} for {exact:e}"
            );
        }
    }
}

#[test]
fn many_pages_of_counters_against_the_twin() {
    for (keys, pages, probes) in [
        (1_000_000, 1180, 7),
        (1_000_000, 2356, 13),
        (50_000, 2, 1),
        (9_000, 900, 10),
        (1, 2, 3),
    ] {
        let (got, twin) = (
            Cell::Counter.expected_rate(keys, pages, probes),
            twin_rate(keys, pages, probes),
        );
        assert!(
            close(got, twin, 3e-4),
            "{keys} {pages} {probes}: {got:e} for {twin:e}"
        );
    }
}

#[test]
fn one_page_of_bits_against_simulation() {
    simulate_one_page(1);
}

#[test]
#[ignore = "2 minutes; cargo test --release --test store -- --ignored --nocapture long_one_page"]
fn long_one_page_of_bits_against_simulation() {
    simulate_one_page(400);
}

/// Pages that each get exactly as many keys: the rate of one page, to so many times `more` rounds.
fn simulate_one_page(more: u32) {
    // Rounds: that luck is a quarter of the tolerance.
    for (load, probes, rounds, tolerance) in [
        (6700, 3, 60, 0.006),
        (3400, 7, 100, 0.01),
        (2900, 8, 100, 0.01),
        (1125, 20, 150, 0.02),
        (1090, 21, 150, 0.02),
        (300, 7, 400, 0.06),
    ] {
        let rounds = rounds * more;
        let tolerance = tolerance / f64::from(more).sqrt();
        let (mut fill, mut rate) = (0.0, 0.0);
        let mut simulated = Simulated::new(1, probes);
        for _ in 0..rounds {
            simulated = Simulated {
                state: simulated.state,
                ..Simulated::new(1, probes)
            };
            (0..load).for_each(|_| simulated.insert());
            let (of_fill, of_rate) = simulated.fill_and_rate();
            fill += of_fill / f64::from(rounds);
            rate += of_rate / f64::from(rounds);
        }
        let expected = expected_rate(load, 1, probes);
        println!(
            "k {probes}, {load} keys: simulated {rate:.4e}, expected {expected:.4e}, {:+.3} %",
            (rate / expected - 1.0) * 100.0
        );
        assert!(
            close(rate, expected, tolerance),
            "{load} {probes}: {rate:e} for {expected:e}"
        );
        assert!(close(fill, expected_fill(load, 1, probes), tolerance));
    }
}

#[test]
fn simulated_filters_meet_the_expected_rate_and_fill() {
    let settings = [
        (10_000_u64, 3_u64, 7_u32, 150),
        (40, 20, 2, 4000),
        (30_000, 18, 13, 60),
        (12_000, 10, 22, 60),
    ];
    for (keys, pages, probes, rounds) in &settings[..all_or(4, 2)] {
        let (keys, pages, probes, rounds) = (*keys, *pages, *probes, *rounds);
        let (mut rate, mut fill) = (0.0, 0.0);
        let mut simulated = Simulated::new(pages, probes);
        for _ in 0..rounds {
            simulated = Simulated {
                state: simulated.state,
                ..Simulated::new(pages, probes)
            };
            (0..keys).for_each(|_| simulated.insert());
            let (of_fill, of_rate) = simulated.fill_and_rate();
            fill += of_fill / f64::from(rounds);
            rate += of_rate / f64::from(rounds);
        }
        let expected = expected_rate(keys, pages, probes);
        assert!(
            close(rate, expected, 0.02),
            "{keys} {pages} {probes}: simulated {rate:e}, expected {expected:e}"
        );
        assert!(close(fill, expected_fill(keys, pages, probes), 0.002));
    }
}

#[test]
fn page_functions_at_the_edges() {
    assert_eq!((expected_rate(0, 0, 0), expected_rate(0, 5, 7)), (0.0, 0.0));
    assert_eq!((expected_rate(1, 0, 7), expected_rate(1, 5, 0)), (1.0, 1.0));
    assert_eq!(
        (expected_rate(u64::MAX, 1, 7), expected_rate(1 << 48, 2, 1)),
        (1.0, 1.0)
    );
    assert_eq!(
        (
            expected_fill(0, 0, 7),
            expected_fill(9, 9, 0),
            expected_fill(9, 0, 9)
        ),
        (0.0, 0.0, 1.0)
    );
    assert_eq!(expected_fill(u64::MAX, 1, 7), 1.0);
    assert_eq!(
        (
            keys_from_bits_set(0, 1, 7),
            keys_from_bits_set(9, 0, 7),
            keys_from_bits_set(9, 1, 0)
        ),
        (0.0, 0.0, 0.0)
    );
    // Full, or claimed fuller than full: the estimate for half a clear bit.
    let full = keys_from_bits_set(PAGE_BITS, 1, 7);
    assert!(
        close(
            full,
            PAGE_BITS as f64 / 7.0 * (2.0 * PAGE_BITS as f64).ln(),
            1e-3
        ),
        "{full}"
    );
    assert_eq!(keys_from_bits_set(u64::MAX, 1, 7), full);
    assert!(keys_from_bits_set(u64::MAX, MAX_PAGES / 4, 7).is_finite());
    assert!(close(
        keys_from_bits_set(PAGE_BITS / 2, 1, 10),
        3264.0 * std::f64::consts::LN_2,
        1e-3
    ));
}

proptest! {
    #[test]
    fn rate_of_counters_equals_the_twin(keys in 1..150u64, pages in 2..40u64, probes in 1..=12u32) {
        let (got, twin) = (Cell::Counter.expected_rate(keys, pages, probes), twin_rate(keys, pages, probes));
        prop_assert!(close(got, twin, 1e-3), "{got:e} for {twin:e}");
    }
}
