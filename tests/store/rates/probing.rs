//! Why probes are independent draws, in runs or not: at 1e-6 and below, the schemes that are shorter fail in so small a page.
//!
//! The store is filled to its planned load. Beside it stands a slow twin, pages as plain arrays of bits with the same
//! keys in them, whose probes can be exchanged: with the store's own it must find what the store finds, key for key, and
//! so what it finds with double hashing is what the store would have found.

use everseen::sizing::Plan;
use everseen::testing::Options;

use super::{ABSENT, SEED, THREADS, count_false, deviation, insert};
use crate::support::numbers::{finalise, key};
use crate::support::share::all_some_or;
use crate::support::unsynced::Unsynced;

const BITS: u64 = 32_640;
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Scheme {
    /// FORMAT.md, "Probes": independent draws, in runs.
    Runs,
    /// Independent draws anywhere in the page.
    Independent,
    /// `a + i b`.
    Double,
    /// `a + i b + (i^3 - i) / 6`.
    EnhancedDouble,
}

fn to_bit(draw: u64) -> u64 {
    ((draw & 0xFFFF_FFFF) * BITS) >> 32
}

impl Scheme {
    /// Whether `test` holds for all bits of the key with this mixed hash.
    fn all(self, mixed: u64, probes: u32, mut test: impl FnMut(u64) -> bool) -> bool {
        if self == Scheme::Runs {
            return runs(mixed, probes, test);
        }
        if self == Scheme::Independent {
            return (0..u64::from(probes)).all(|index| {
                let state = mixed.wrapping_add(STEP.wrapping_mul(index / 2 + 1));
                test(to_bit(finalise(state) >> (32 * (index % 2))))
            });
        }
        let both = finalise(mixed.wrapping_add(STEP));
        let (mut bit, mut step) = (to_bit(both), to_bit(both >> 32));
        for index in 1..=u64::from(probes) {
            if !test(bit) {
                return false;
            }
            bit = (bit + step) % BITS;
            if self == Scheme::EnhancedDouble {
                step = (step + index) % BITS;
            }
        }
        true
    }
}

/// FORMAT.md, "Probes", line for line.
fn runs(mixed: u64, probes: u32, mut test: impl FnMut(u64) -> bool) -> bool {
    let mut turn = 0;
    let mut below = |limit: u64| {
        let state = mixed.wrapping_add(STEP.wrapping_mul(turn / 2 + 1));
        let draw = finalise(state) >> (32 * (turn % 2));
        turn += 1;
        ((draw & 0xFFFF_FFFF) * limit) >> 32
    };
    let length = if probes <= 20 { 3 } else { 2 };
    for _ in 0..probes / length {
        let first = below(BITS);
        let (start, size) = match first {
            0..384 => (0, 384),
            _ => (first - (first - 384) % 512, 512),
        };
        let mut bits = [first; 3];
        let second = 1 + below(size - 1);
        bits[1] = start + (first - start + second) % size;
        if length == 3 {
            let third = 1 + below(size - 2);
            let third = third + u64::from(third >= second);
            bits[2] = start + (first - start + third) % size;
        }
        if !bits.into_iter().all(&mut test) {
            return false;
        }
    }
    (0..probes % length).all(|_| test(below(BITS)))
}

struct Twin {
    scheme: Scheme,
    probes: u32,
    pages: Vec<[u64; BITS as usize / 64]>,
}

impl Twin {
    fn page(&self, mixed: u64) -> usize {
        ((u128::from(mixed) * self.pages.len() as u128) >> 64) as usize
    }

    fn filled(scheme: Scheme, plan: &Plan, keys: u64) -> Self {
        let mut twin = Self {
            scheme,
            probes: plan.probes,
            pages: vec![[0; BITS as usize / 64]; plan.pages as usize],
        };
        for number in 0..keys {
            let mixed = mixed(number);
            let page = twin.page(mixed);
            let page = &mut twin.pages[page];
            scheme.all(mixed, plan.probes, |bit| {
                page[(bit / 64) as usize] |= 1 << (bit % 64);
                true
            });
        }
        twin
    }

    fn contains(&self, mixed: u64) -> bool {
        let page = &self.pages[self.page(mixed)];
        self.scheme.all(mixed, self.probes, |bit| {
            page[(bit / 64) as usize] & (1 << (bit % 64)) != 0
        })
    }

    fn count_false(&self, queries: u64) -> u64 {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let part = queries * thread / THREADS..queries * (thread + 1) / THREADS;
                    let found = |number: &u64| self.contains(mixed(ABSENT + number));
                    scope.spawn(move || part.filter(found).count() as u64)
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        })
    }
}

/// The hash of a key as the store sees it: XORed with the seed's first word, and mixed.
fn mixed(number: u64) -> u64 {
    let word = SEED
        .first_chunk()
        .map_or(0, |word| u64::from_le_bytes(*word));
    finalise(key(number) ^ word)
}

/// Measures a full store, and what the same keys make of the shorter schemes.
fn check(rate: f64, queries: u64, twin_queries: u64) {
    let keys = all_some_or(1_500_000, 500_000, 250_000);
    let plan = Plan::for_rate(keys, rate).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let options = Options::new()
        .capacity(keys)
        .fpr(rate)
        .seed(SEED)
        .background(false)
        .storage(Unsynced::new());
    let store = options.create(folder.path().join("store")).unwrap();
    assert!(insert(&store, 0..keys) >= keys - 5);
    store.checkpoint().unwrap();
    let hits = count_false(&store, queries);
    let from_plan = deviation(hits, queries, plan.fpr);
    println!(
        "p {rate:e}, k {}, {keys} keys: {hits} of {queries} absent keys found, {:.3e}; planned {:.3e} \
         ({from_plan:+.2} deviations)",
        plan.probes,
        hits as f64 / queries as f64,
        plan.fpr,
    );
    assert!(from_plan.abs() <= 3.0);

    let found = |scheme| {
        let hits = Twin::filled(scheme, &plan, keys).count_false(twin_queries);
        let got = hits as f64 / twin_queries as f64;
        println!(
            "  {scheme:?}: {hits} of {twin_queries}, {got:.3e}, {:.1} times the plan",
            got / plan.fpr
        );
        (hits, got / plan.fpr)
    };
    let (twin_hits, _) = found(Scheme::Runs);
    assert_eq!(twin_hits, count_false(&store, twin_queries));
    // The planner has made room for runs, so draws without them are wrong less often.
    let (hits, _) = found(Scheme::Independent);
    assert!(deviation(hits, twin_queries, plan.fpr) <= 3.0);
    let (_, double) = found(Scheme::Double);
    assert!(double > 20.0, "{double}");
    let (_, enhanced) = found(Scheme::EnhancedDouble);
    assert!(enhanced > 1.5, "{enhanced}");
}

#[test]
fn independent_probes_meet_one_in_a_million() {
    check(
        1e-6,
        all_some_or(60_000_000, 20_000_000, 5_000_000),
        all_some_or(15_000_000, 6_000_000, 3_000_000),
    );
}

#[test]
fn independent_probes_meet_one_in_ten_million() {
    check(
        1e-7,
        all_some_or(60_000_000, 20_000_000, 5_000_000),
        all_some_or(15_000_000, 6_000_000, 3_000_000),
    );
}

#[test]
#[ignore = "10 minutes; cargo test --release --test store -- --ignored --nocapture long_independent"]
fn long_independent_probes_meet_the_rate_to_three_percent() {
    check(1e-6, 2_000_000_000, 1_000_000_000);
    check(1e-7, 10_000_000_000, 1_000_000_000);
}
