//! The sizing module against slow obvious twins and simulation. The ideal filter's tables, the
//! growing store and every error are tested beside their code.

mod page_local;

use everseen::sizing::{
    MAX_BYTES, MAX_FOLDS, MAX_PAGES, MAX_PROBES, PAGE_BITS, PAGE_BYTES, Plan, SizingError,
    expected_fill, expected_rate, hash_floor, ideal_bits_per_key, keys_from_bits_set,
};
use proptest::prelude::*;

use crate::support::share::all_some_or;

/// A search among all probes whose runs are as long as the plan's, without any cleverness: rate and probes.
fn best_of_all(keys: u64, pages: u64) -> (f64, u32) {
    let ideal = everseen::sizing::ideal_probes((pages * PAGE_BITS) as f64 / keys as f64);
    let of_a_length = if ideal <= 20 { 1..=20 } else { 21..=MAX_PROBES };
    of_a_length
        .map(|k| (expected_rate(keys, pages, k), k))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .unwrap()
}

fn close(got: f64, expected: f64, tolerance: f64) -> bool {
    (got - expected).abs() <= tolerance * expected.abs()
}

// ---------------------------------------------------------------- plans

#[test]
fn planned_size_is_within_one_percent_of_the_ideal() {
    // Whole pages cost up to 1 in 148 at 10^6 keys, the smallest filter here.
    for keys in [1_000_000, 100_000_000, 10_000_000_000] {
        for fpr in [0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7] {
            let plan = Plan::for_rate(keys, fpr).unwrap();
            let price = plan.bits_per_key() / ideal_bits_per_key(fpr) - 1.0;
            assert!(plan.fpr <= fpr && price < 0.01, "{plan:?}: {price}");
        }
    }
}

#[test]
fn the_price_on_disk_is_the_one_the_design_states() {
    for (fpr, probes, percent) in [
        (1e-2, 7, "0.8"),
        (1e-4, 13, "1.0"),
        (1e-6, 20, "1.3"),
        (1e-7, 23, "1.3"),
    ] {
        let plan = Plan::for_rate(1_000_000_000, fpr).unwrap();
        let price = plan.bytes() as f64 * 8.0 / 1e9 / ideal_bits_per_key(fpr) - 1.0;
        assert_eq!(
            (plan.probes, format!("{:.1}", price * 100.0).as_str()),
            (probes, percent)
        );
    }
}

#[test]
fn ten_bits_a_key_serve_every_small_capacity() {
    let rates: Vec<f64> = (1..=10_000)
        .step_by(all_some_or(1, 3, 7))
        .map(|keys| Plan::for_bits_per_key(keys, 10.0).unwrap().fpr)
        .collect();
    assert!(rates.iter().all(|&rate| rate <= 0.02));
    assert!(rates.iter().filter(|&&rate| rate <= 0.0125).count() >= rates.len() / 10 * 9);
}

#[test]
fn plan_units_and_cross_checks() {
    let plan = Plan::for_bits_per_key(10_000_000, 20.0).unwrap();
    assert_eq!((plan.pages, plan.probes), (6_128, 14));
    assert_eq!((plan.bits(), plan.bytes()), (6_128 * 32_640, 6_128 * 4_096));
    assert_eq!(
        (plan.fpr, plan.target),
        (expected_rate(10_000_000, 6_128, 14), plan.fpr)
    );
    assert_eq!(plan.bits_per_key(), 6_128.0 * 32_640.0 / 1e7);
    assert_eq!(plan.ideal_bits_per_key(), ideal_bits_per_key(plan.fpr));
    assert_eq!(
        Plan::for_size(10_000_000, plan.bytes() + 4_095).unwrap(),
        plan
    );
    assert_eq!(Plan::for_layout(10_000_000, 6_128, 14).unwrap(), plan);
    assert_eq!(Plan::for_rate(1_000_000, 1e-4).unwrap().target, 1e-4);
    // Pages and lines cost a little of the rate: 0.0000889 in the ideal filter with ten probes.
    assert_eq!(
        format!(
            "{:.7}",
            Plan::for_layout(10_000_000, 6_128, 10).unwrap().fpr
        ),
        "0.0000937"
    );
    let mut by_hand = plan;
    (by_hand.capacity, by_hand.pages, by_hand.probes) = (0, u64::MAX, 0);
    (by_hand.target, by_hand.fpr) = (f64::NAN, f64::NAN);
    assert_eq!(
        (by_hand.bits(), by_hand.bytes(), by_hand.bits_per_key()),
        (u64::MAX, u64::MAX, f64::INFINITY)
    );
}

#[test]
fn past_two_pow_32_bits_and_at_the_largest_sizes() {
    let plan = Plan::for_rate(100_000_000_000, 1e-6).unwrap();
    assert!(plan.bits() > 1 << 40 && plan.fpr <= 1e-6);
    assert!(expected_rate(100_000_000_000, plan.pages - 1, plan.probes) > 1e-6);
    assert_eq!(Plan::for_size(1 << 48, MAX_BYTES).unwrap().pages, MAX_PAGES);
    assert!(expected_rate(1 << 48, 1 << 40, 64) < 1.0);
    // The 64-bit floor bounds the keys where the size would not.
    assert_eq!(
        Plan::capacity_for_rate_and_size(1e-6, MAX_BYTES)
            .unwrap()
            .capacity,
        9_223_372_036_854
    );
}

// ---------------------------------------------------------------- properties

/// A plan is a search, and so is its slow twin: of the 256 cases that are usual a sixteenth, unless `EVERSEEN_ALL=1` is set.
fn cases() -> ProptestConfig {
    ProptestConfig::with_cases(all_some_or(256, 48, 16))
}

/// Whole numbers of every magnitude.
fn any_size() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64u32).prop_map(|(number, shift)| number >> shift)
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn more_pages_or_fewer_keys_are_never_worse(keys in 2..1u64 << 40, load in 1..5000u64, probes in 1..=64u32) {
        let pages = keys / load + 1;
        let rate = expected_rate(keys, pages, probes);
        let margin = rate * (1.0 + 1e-11);
        prop_assert!(expected_rate(keys, pages + pages / 1000 + 1, probes) <= margin);
        prop_assert!(expected_rate(keys - keys / 1000 - 1, pages, probes) <= margin);
    }

    #[test]
    fn any_numbers_give_a_rate_and_a_fill(keys in any_size(), pages in any_size(), probes in any::<u32>(), few in 0..80u32) {
        for probes in [probes, few] {
            let rate = expected_rate(keys, pages, probes);
            let fill = expected_fill(keys, pages, probes);
            let back = keys_from_bits_set(keys, pages, probes);
            prop_assert!((0.0..=1.0).contains(&rate) && (0.0..=1.0).contains(&fill), "{rate} {fill}");
            prop_assert!(back >= 0.0 && back.is_finite(), "{back}");
        }
    }

    #[test]
    fn any_numbers_give_a_plan_or_an_error(keys in any_size(), bytes in any_size(), real in any::<f64>(), exp in -20.0..3.0f64) {
        for real in [real, 10f64.powf(exp)] {
            let plans = [
                Plan::for_rate(keys, real), Plan::for_bits_per_key(keys, real), Plan::for_size(keys, bytes),
                Plan::capacity_for_rate_and_size(real, bytes), Plan::capacity_for_bits_and_size(real, bytes),
            ];
            for plan in plans.into_iter().flatten() {
                prop_assert!(plan.capacity > 0 && (1..=MAX_PAGES).contains(&plan.pages), "{plan:?}");
                prop_assert!((1..=MAX_PROBES).contains(&plan.probes) && plan.fpr > 0.0 && plan.fpr <= plan.target);
            }
        }
    }

    #[test]
    fn fill_and_estimate_are_inverse(keys in 1..1u64 << 40, load in 1..9000u64, probes in 1..=30u32) {
        let pages = keys / load + 1;
        let set = expected_fill(keys, pages, probes) * pages as f64 * PAGE_BITS as f64;
        prop_assume!(set > 10_000.0 && keys < load.saturating_mul(pages)); // so that whole bits are precise enough
        let back = keys_from_bits_set(set as u64, pages, probes);
        let fill = set / (pages as f64 * PAGE_BITS as f64);
        prop_assume!(fill < 0.999);
        prop_assert!(close(back, keys as f64, 0.02), "{back} for {keys}");
    }

    #[test]
    fn a_plan_for_a_rate_is_the_smallest(keys in 1..20_000_000u64, exp in 0.05..11.5f64) {
        let fpr = 10f64.powf(-exp);
        let plan = Plan::for_rate(keys, fpr).unwrap();
        prop_assert!(plan.fpr <= fpr && plan.target == fpr);
        prop_assert_eq!(plan.fpr, expected_rate(keys, plan.pages, plan.probes));
        if plan.pages > 1 {
            let (rate, probes) = best_of_all(keys, plan.pages - 1);
            prop_assert!(rate > fpr, "{plan:?}: {} pages do with {probes} probes", plan.pages - 1);
        }
    }

    #[test]
    fn the_probes_of_a_plan_are_the_best(keys in 1..2_000_000u64, pages in 1..20_000u64) {
        let plan = Plan::for_size(keys, pages * PAGE_BYTES).unwrap();
        let (rate, probes) = best_of_all(keys, pages);
        prop_assert!(plan.fpr <= rate * (1.0 + 1e-12), "{plan:?}: {probes} probes give {rate:e}");
    }

    #[test]
    fn a_capacity_is_the_largest(pages in 1..100_000u64, exp in 0.05..14.0f64, bits in 0.1..100.0f64) {
        let (fpr, bytes) = (10f64.powf(-exp), pages * PAGE_BYTES);
        let plan = Plan::capacity_for_rate_and_size(fpr, bytes).unwrap();
        prop_assert!(plan.pages == pages && plan.fpr <= fpr);
        let more = plan.capacity + 1;
        prop_assert!(2.0 * hash_floor(more) > fpr || best_of_all(more, pages).0 > fpr);
        prop_assert!(Plan::for_rate(plan.capacity, fpr).unwrap().pages <= pages);
        let plan = Plan::capacity_for_bits_and_size(bits, bytes).unwrap();
        prop_assert!(plan.bits_per_key() >= bits * (1.0 - 1e-12));
        prop_assert!((plan.capacity + 1) as f64 * bits > plan.bits() as f64 * (1.0 - 1e-12));
    }
}

// ---------------------------------------------------------------- folding

proptest! {
    #![proptest_config(cases())]

    /// The slow twin asks for the rate of that many keys, and of one more.
    #[test]
    fn most_keys_are_the_most(pages in 1_u64..5000, probes in 1_u32..30, exponent in 0.1_f64..7.0) {
        let fpr = 10_f64.powf(-exponent);
        match Plan::most_keys(pages, probes, fpr) {
            Ok(plan) => {
                prop_assert!(expected_rate(plan.capacity, pages, probes) <= fpr);
                prop_assert!(expected_rate(plan.capacity + 1, pages, probes) > fpr);
                prop_assert_eq!((plan.pages, plan.probes, plan.target), (pages, probes, fpr));
                prop_assert_eq!(plan.fpr, expected_rate(plan.capacity, pages, probes));
            }
            Err(error) => {
                let bytes = pages * PAGE_BYTES;
                let least = bytes + PAGE_BYTES;
                prop_assert_eq!(error, SizingError::TooSmall { bytes, least });
                prop_assert!(expected_rate(1, pages, probes) > fpr);
            }
        }
    }

    #[test]
    fn a_foldable_plan_has_a_few_pages_more(
        capacity in 1_u64..100_000_000,
        exponent in 1.0_f64..7.0,
        levels in 0_u32..=MAX_FOLDS,
    ) {
        let plan = Plan::for_rate(capacity, 10_f64.powf(-exponent)).unwrap();
        let foldable = plan.foldable(levels).unwrap();
        prop_assert_eq!(foldable.pages % (1 << levels), 0);
        prop_assert!((plan.pages..plan.pages + (1 << levels)).contains(&foldable.pages));
        prop_assert!(foldable.fpr <= plan.fpr);
        prop_assert_eq!(foldable.target, plan.target);
        prop_assert_eq!((foldable.capacity, foldable.probes), (plan.capacity, plan.probes));
    }
}

#[test]
fn folds_have_their_limits() {
    let plan = Plan::for_rate(1000, 0.01).unwrap();
    let many = SizingError::FoldsOutOfRange { got: MAX_FOLDS + 1 };
    assert_eq!(plan.foldable(MAX_FOLDS + 1), Err(many));
    let by_bits = Plan::for_bits_per_key(1000, 100.0).unwrap();
    let foldable = by_bits.foldable(3).unwrap();
    assert_eq!((foldable.pages, foldable.target), (8, foldable.fpr));
    let mut by_hand = plan;
    by_hand.pages = u64::MAX;
    assert!(matches!(
        by_hand.foldable(1),
        Err(SizingError::TooLarge { .. })
    ));
    let floor = hash_floor(1);
    assert_eq!(
        Plan::most_keys(1, 7, floor),
        Err(SizingError::RateBelowFloor {
            fpr: floor,
            floor,
            capacity: 1
        })
    );
    assert_eq!(
        Plan::most_keys(1, 7, 1.0),
        Err(SizingError::RateOutOfRange { got: 1.0 })
    );
    assert_eq!(
        Plan::most_keys(1, 0, 0.5),
        Err(SizingError::ProbesOutOfRange { got: 0 })
    );
    assert!(matches!(
        Plan::most_keys(0, 7, 0.5),
        Err(SizingError::TooSmall { .. })
    ));
    // A single key with a single probe in a page is wrong once in 32,640 times.
    assert!(matches!(
        Plan::most_keys(1, 1, 1e-6),
        Err(SizingError::TooSmall { .. })
    ));
}
