//! Why a size cannot be planned.

use super::{MAX_BYTES, MAX_FOLDS, MAX_LAYERS, MAX_PROBES, PAGE_BYTES};

/// A request that no filter can meet, or that makes no sense; the message says what to change.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SizingError {
    /// A filter for no keys at all.
    #[error("a filter must have room for at least one key: give a capacity of 1 or more")]
    CapacityZero,

    /// More keys than a 64-bit count holds.
    #[error(
        "a capacity of {} keys does not fit in 64 bits: ask for fewer keys, a smaller size or more bits a key",
        three_digits(*got)
    )]
    CapacityTooLarge {
        /// The capacity requested or computed, in keys.
        got: f64,
    },

    /// A false-positive rate that is not a number between 0 and 1, both excluded.
    #[error(
        "a false-positive rate must lie between 0 and 1, both excluded, not {got}: for one in a million say 1e-6"
    )]
    RateOutOfRange {
        /// The rate requested.
        got: f64,
    },

    /// Bits per key that are not a finite number above 0.
    #[error(
        "bits per key must be a finite number above 0, not {got}: 10 gives a rate of about 1 %, 20 about 0.01 %"
    )]
    BitsPerKeyOutOfRange {
        /// The bits per key requested.
        got: f64,
    },

    /// A rate that no filter of 64-bit hashes can keep with this many keys.
    #[error(
        "a rate of {fpr:e} is out of reach with {capacity} key{}: a key is known by its 64-bit hash, and that alone \
         is wrong at a rate of {} when the filter is full; ask for at least twice that rate{}",
        if *capacity == 1 { "" } else { "s" },
        three_digits(*floor),
        if *capacity == 1 { "" } else { ", or for fewer keys" }
    )]
    RateBelowFloor {
        /// The rate requested.
        fpr: f64,
        /// `capacity / 2^64`: the chance that a new key shares its hash with one of `capacity` keys.
        floor: f64,
        /// The capacity requested, in keys.
        capacity: u64,
    },

    /// A rate that no growing store of 64-bit hashes can keep, since its first layer has only a share of it.
    #[error(
        "a rate of {fpr:e} is out of reach for a store that grows from {capacity} key{}: a key is known by its 64-bit hash, \
         and that alone is wrong at a rate of {} when the first layer is full, which has a share of the rate; ask for at \
         least {}{}",
        if *capacity == 1 { "" } else { "s" },
        three_digits(*floor),
        three_digits_up(*least),
        if *capacity == 1 { "" } else { ", or for a smaller first layer" }
    )]
    GrowthBelowFloor {
        /// The rate requested, of all layers together.
        fpr: f64,
        /// `capacity / 2^64`: the chance that a new key shares its hash with one of `capacity` keys.
        floor: f64,
        /// The lowest rate that such a store can keep.
        least: f64,
        /// The keys of the first layer.
        capacity: u64,
    },

    /// More bytes of pages than a filter may have.
    #[error(
        "{} bytes of pages are more than a filter may have ({MAX_BYTES}): ask for fewer keys or bits",
        three_digits(*bytes)
    )]
    TooLarge {
        /// The bytes of pages requested or computed (may itself exceed 64 bits).
        bytes: f64,
    },

    /// Less than one page, or a page that cannot hold a single key as requested.
    #[error(
        "{bytes} bytes are too few, {least} are needed: give a larger size (a page has {PAGE_BYTES} bytes)"
    )]
    TooSmall {
        /// The size requested, in bytes.
        bytes: u64,
        /// The smallest sufficient size, in bytes.
        least: u64,
    },

    /// A number of probes outside 1 to 64.
    #[error(
        "a key has 1 to {MAX_PROBES} probes, not {got}: a plan for a rate or a size finds the best number"
    )]
    ProbesOutOfRange {
        /// The probes requested.
        got: u32,
    },

    /// More folds than a plan supports.
    #[error(
        "a store can be made foldable 0 to {MAX_FOLDS} times, not {got}: each fold halves its pages"
    )]
    FoldsOutOfRange {
        /// The folds requested.
        got: u32,
    },

    /// A growth factor outside 2 to 16.
    #[error("each layer can be 2 to 16 times the one before, not {got}: 2 suits most stores")]
    FactorOutOfRange {
        /// The factor requested.
        got: u32,
    },

    /// A tightening ratio that is not a number between 0 and 1, both excluded.
    #[error(
        "the tightening ratio must lie between 0 and 1, both excluded, not {got}: 0.85 suits most stores"
    )]
    TighteningOutOfRange {
        /// The ratio requested.
        got: f64,
    },

    /// A layer beyond the maximum number of layers in a store.
    #[error(
        "layer {index} is one too many, since a store has at most {MAX_LAYERS}: create a new store with a larger first layer"
    )]
    TooManyLayers {
        /// Index of the layer requested, from 0.
        index: u32,
    },

    /// More keys than a growing store can hold and still keep its rate.
    #[error(
        "this growth keeps its rate up to {limit} keys, not {keys}: create the store with a higher rate, \
         or with a capacity that is known beforehand"
    )]
    PastGrowthLimit {
        /// The keys requested.
        keys: u64,
        /// [`Growth::limit`](super::Growth::limit), in keys.
        limit: u64,
    },
}

/// Formats a number above 0 with at most three significant digits, rounded up.
fn three_digits_up(number: f64) -> String {
    let unit = 10_f64.powf(number.log10().floor() - 2.0);
    three_digits((number / unit).ceil() * unit)
}

/// Formats a number with at most three significant digits.
fn three_digits(number: f64) -> String {
    let text = format!("{number:.2e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let digits = digits.trim_end_matches('0').trim_end_matches('.');
            format!("{digits}e{exponent}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::SizingError::{self, *};
    use crate::sizing::{Growth, MAX_BYTES, MAX_LAYERS, MAX_PAGES, PAGE_BITS, Plan, hash_floor};

    /// Asserts the exact error, and that its message goes on to say what to do.
    #[track_caller]
    fn refused<T: PartialEq + std::fmt::Debug>(got: Result<T, SizingError>, expected: SizingError) {
        let message = expected.to_string();
        assert!(message.contains([':', ';']), "no advice: {message}");
        assert_eq!(got, Err(expected));
    }

    #[test]
    fn plans_refuse_what_makes_no_sense() {
        let infinite = f64::INFINITY;
        refused(Plan::for_rate(0, 0.01), CapacityZero);
        refused(Plan::for_bits_per_key(0, 10.0), CapacityZero);
        refused(Plan::for_size(0, 4096), CapacityZero);
        refused(Plan::for_layout(0, 1, 1), CapacityZero);
        refused(Plan::for_rate(1, 0.0), RateOutOfRange { got: 0.0 });
        refused(Plan::for_rate(1, 1.0), RateOutOfRange { got: 1.0 });
        refused(Plan::for_rate(1, -1e-9), RateOutOfRange { got: -1e-9 });
        refused(
            Plan::capacity_for_rate_and_size(infinite, 4096),
            RateOutOfRange { got: infinite },
        );
        refused(
            Plan::for_bits_per_key(1, 0.0),
            BitsPerKeyOutOfRange { got: 0.0 },
        );
        refused(
            Plan::for_bits_per_key(1, infinite),
            BitsPerKeyOutOfRange { got: infinite },
        );
        refused(
            Plan::capacity_for_bits_and_size(-2.0, 4096),
            BitsPerKeyOutOfRange { got: -2.0 },
        );
        refused(Plan::for_layout(1, 1, 0), ProbesOutOfRange { got: 0 });
        refused(Plan::for_layout(1, 1, 65), ProbesOutOfRange { got: 65 });
    }

    #[test]
    fn plans_refuse_what_is_too_small_or_too_large() {
        let too_small = TooSmall {
            bytes: 4095,
            least: 4096,
        };
        refused(Plan::for_size(1, 4095), too_small.clone());
        refused(
            Plan::capacity_for_rate_and_size(0.01, 4095),
            too_small.clone(),
        );
        refused(Plan::capacity_for_bits_and_size(10.0, 4095), too_small);
        refused(
            Plan::for_layout(1, 0, 1),
            TooSmall {
                bytes: 0,
                least: 4096,
            },
        );
        let two_pages = TooSmall {
            bytes: 5000,
            least: 8192,
        };
        refused(Plan::capacity_for_bits_and_size(40_000.0, 5000), two_pages);

        let past = TooLarge {
            bytes: (MAX_BYTES + 1) as f64,
        };
        refused(Plan::for_size(1, MAX_BYTES + 1), past.clone());
        refused(Plan::capacity_for_rate_and_size(0.01, MAX_BYTES + 1), past);
        let past = TooLarge {
            bytes: (MAX_PAGES + 1) as f64 * 4096.0,
        };
        refused(Plan::for_layout(1, MAX_PAGES + 1, 1), past);
        let past = TooLarge {
            bytes: ((1_u64 << 60) as f64 * 1e3 / 32_640.0).ceil() * 4096.0,
        };
        refused(Plan::for_bits_per_key(1 << 60, 1e3), past);
        let got = (MAX_PAGES as f64 * PAGE_BITS as f64 / 1e-6).floor();
        refused(
            Plan::capacity_for_bits_and_size(1e-6, MAX_BYTES),
            CapacityTooLarge { got },
        );
    }

    #[test]
    fn nothing_is_planned_below_the_floor_of_64_bit_hashes() {
        let (capacity, floor) = (1 << 40, hash_floor(1 << 40));
        let below = RateBelowFloor {
            fpr: 1e-8,
            floor,
            capacity,
        };
        assert!(below.to_string().contains("64-bit hash"), "{below}");
        refused(Plan::for_rate(capacity, 1e-8), below);
        assert!(Plan::for_rate(capacity, 2.0 * floor).is_ok());
        let single = RateBelowFloor {
            fpr: 1e-19,
            floor: hash_floor(1),
            capacity: 1,
        };
        refused(Plan::capacity_for_rate_and_size(1e-19, 4096), single);
        let least = 2.0 * floor / (1.0 - 0.85) * (1.0 + 4.0 * f64::EPSILON);
        let growth = GrowthBelowFloor {
            fpr: 1e-7,
            floor,
            least,
            capacity,
        };
        refused(Growth::new(capacity, 1e-7, 2, 0.85), growth);
        assert!(Growth::new(capacity, least, 2, 0.85).is_ok());
    }

    /// Rounded to the nearest, it would be refused in its turn.
    #[test]
    fn the_rate_that_is_advised_is_one_that_can_be_kept() {
        for (first, tightening) in [(1, 0.85), (1000, 0.5), (123_456_789, 0.3), (1 << 50, 0.9)] {
            let refusal = Growth::new(first, 1e-300, 2, tightening).unwrap_err();
            let said = refusal.to_string();
            let (_, rest) = said.split_once("at least ").unwrap();
            let advised: f64 = rest.split(',').next().unwrap().parse().unwrap();
            Growth::new(first, advised, 2, tightening).unwrap();
            assert!(Growth::new(first, advised * 0.98, 2, tightening).is_err());
        }
    }

    #[test]
    fn growth_refuses() {
        refused(Growth::new(0, 0.01, 2, 0.85), CapacityZero);
        refused(Growth::new(1, 1.5, 2, 0.85), RateOutOfRange { got: 1.5 });
        refused(Growth::new(1, 0.01, 1, 0.85), FactorOutOfRange { got: 1 });
        refused(Growth::new(1, 0.01, 17, 0.85), FactorOutOfRange { got: 17 });
        refused(
            Growth::new(1, 0.01, 2, 0.0),
            TighteningOutOfRange { got: 0.0 },
        );
        refused(
            Growth::new(1, 0.01, 2, 1.0),
            TighteningOutOfRange { got: 1.0 },
        );
        let growth = Growth::new(1000, 0.01, 2, 0.85).unwrap();
        refused(growth.layer(MAX_LAYERS, 1), TooManyLayers { index: 64 });
        refused(growth.layer(0, 0), CapacityZero);
        refused(
            Growth { first: 0, ..growth }.next_capacity(None, 0),
            CapacityZero,
        );
        let got = u64::MAX as f64 * 2.0;
        refused(
            growth.next_capacity(Some(u64::MAX), 0),
            CapacityTooLarge { got },
        );
        let (keys, limit) = (u64::MAX, growth.limit());
        refused(growth.outlook(keys), PastGrowthLimit { keys, limit });
    }

    /// NaN differs from itself, so the test compares the printed errors.
    #[test]
    fn nan_is_refused() {
        let nan = f64::NAN;
        let (rate, bits) = (
            RateOutOfRange { got: nan },
            BitsPerKeyOutOfRange { got: nan },
        );
        for (got, expected) in [
            (Plan::for_rate(1, nan).unwrap_err(), rate.clone()),
            (
                Plan::capacity_for_rate_and_size(nan, 4096).unwrap_err(),
                rate.clone(),
            ),
            (Plan::for_bits_per_key(1, nan).unwrap_err(), bits.clone()),
            (
                Plan::capacity_for_bits_and_size(nan, 4096).unwrap_err(),
                bits,
            ),
            (Growth::new(1, nan, 2, 0.85).unwrap_err(), rate),
            (
                Growth::new(1, 0.01, 2, nan).unwrap_err(),
                TighteningOutOfRange { got: nan },
            ),
        ] {
            assert_eq!(format!("{got:?}"), format!("{expected:?}"));
        }
    }
}
