//! The ideal Bloom filter: one array of bits, probes anywhere in it.
//!
//! Source: B. H. Bloom, "Space/time trade-offs in hash coding with allowable errors" (CACM 13:7, 1970); the formulas
//! in A. Broder and M. Mitzenmacher, "Network applications of Bloom filters: a survey" (2004), section 2.1.

use std::f64::consts::LN_2;

/// Returns the false-positive rate `(1 - exp(-k / b))^k` of an ideal filter with `b` bits and `k` probes per key.
///
/// 0 bits or fewer (and NaN) give 1, and so do 0 probes: every key looks present.
#[must_use]
pub fn ideal_rate(bits_per_key: f64, probes: u32) -> f64 {
    ln_rate(bits_per_key, f64::from(probes)).exp()
}

/// Returns the whole number of probes, 1 or more, with which an ideal filter of `b` bits per key has the lowest rate.
///
/// That is one of the two neighbours of `b ln 2`, whichever [`ideal_rate`] favours; nearly always the nearer one. At
/// equal rates, fewer probes win. Neither always rounding up nor rounding to the nearest gives the best number: 19.17
/// bits (`b ln 2` = 13.29) want 13, 20 bits (13.86) want 14. Not limited to [`MAX_PROBES`](super::MAX_PROBES).
#[must_use]
pub fn ideal_probes(bits_per_key: f64) -> u32 {
    let real = bits_per_key * LN_2;
    if real.is_nan() || real <= 1.0 {
        return 1;
    }
    let (below, above) = (real.floor(), real.ceil());
    let best = if ln_rate(bits_per_key, above) < ln_rate(bits_per_key, below) {
        above
    } else {
        below
    };
    best as u32 // saturates
}

/// Returns the bits per key of an ideal filter with rate `fpr`: `-ln p / (ln 2)^2`, with unrounded probes.
///
/// A rate of 1 or more takes 0 bits, a rate of 0 or less (and NaN) infinitely many.
#[must_use]
pub fn ideal_bits_per_key(fpr: f64) -> f64 {
    if fpr.is_nan() || fpr <= 0.0 {
        f64::INFINITY
    } else if fpr >= 1.0 {
        0.0
    } else {
        -fpr.ln() / (LN_2 * LN_2)
    }
}

/// Returns the logarithm of the rate, so that rates too small for an f64 still compare.
fn ln_rate(bits_per_key: f64, probes: f64) -> f64 {
    if bits_per_key.is_nan() || bits_per_key <= 0.0 || probes == 0.0 {
        return 0.0;
    }
    probes * (-(-probes / bits_per_key).exp_m1()).ln()
}

#[cfg(test)]
mod tests {
    use super::{ideal_bits_per_key, ideal_probes, ideal_rate};

    const BY_BITS_AND_K: &str = include_str!("tables/fpr_by_bits_per_key_and_k.csv");
    const AT_RATIOS: &str = include_str!("tables/fpr_at_common_ratios.csv");

    #[test]
    fn ideal_rate_equals_both_tables_digit_for_digit() {
        let mut seen = 0;
        for line in BY_BITS_AND_K.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            for (i, printed) in fields[1..].iter().enumerate() {
                assert_eq!(
                    format!(
                        "{:.7}",
                        ideal_rate(fields[0].parse().unwrap(), i as u32 + 1)
                    ),
                    *printed,
                    "{line}"
                );
                seen += 1;
            }
        }
        assert_eq!(seen, 31 * 12);
        for line in AT_RATIOS.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let rate = ideal_rate(fields[0].parse().unwrap(), fields[1].parse().unwrap());
            assert_eq!(format!("{rate:.14}"), fields[2], "{line}");
            seen += 1;
        }
        assert_eq!(seen, 31 * 12 + 7);
    }

    /// The k of the table of ratios is an input of that table, not the result of a rule that we could follow: 46 at 64
    /// bits is neither nearest (44), best (44) nor rounded up (45), and rounding up would break k = 13 at 19.17 bits.
    #[test]
    fn ideal_probes_are_the_best_and_never_worse_than_those_of_the_table() {
        let mut rounded_up = Vec::new();
        for line in AT_RATIOS.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let (bits, k): (f64, u32) = (fields[0].parse().unwrap(), fields[1].parse().unwrap());
            assert!(ideal_rate(bits, ideal_probes(bits)) <= ideal_rate(bits, k));
            rounded_up.push((bits * std::f64::consts::LN_2).ceil() as u32 == k);
        }
        assert_eq!(rounded_up, [true, true, true, true, true, true, false]);
        for tenths in 1..1500 {
            let bits = f64::from(tenths) / 10.0;
            let best = (1..=120)
                .min_by(|&a, &b| ideal_rate(bits, a).total_cmp(&ideal_rate(bits, b)))
                .unwrap();
            assert_eq!(ideal_probes(bits), best, "{bits} bits a key");
        }
    }

    #[test]
    fn ideal_figures_known_from_the_literature() {
        let bits = ideal_bits_per_key(1e-4);
        assert_eq!(format!("{bits:.2}"), "19.17");
        assert_eq!((ideal_probes(bits), ideal_probes(20.0)), (13, 14));
        assert_eq!(format!("{:.7}", ideal_rate(20.0, 10)), "0.0000889");
    }

    #[test]
    fn ideal_functions_at_the_edges() {
        for bits in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
            assert_eq!((ideal_rate(bits, 7), ideal_probes(bits)), (1.0, 1));
        }
        assert_eq!(
            (ideal_rate(f64::INFINITY, 7), ideal_probes(f64::INFINITY)),
            (0.0, u32::MAX)
        );
        assert_eq!(
            (ideal_rate(10.0, 0), ideal_rate(1e-300, u32::MAX)),
            (1.0, 1.0)
        );
        assert_eq!(
            (ideal_bits_per_key(0.0), ideal_bits_per_key(f64::NAN)),
            (f64::INFINITY, f64::INFINITY)
        );
        assert_eq!(
            (ideal_bits_per_key(1.0), ideal_bits_per_key(2.0)),
            (0.0, 0.0)
        );
    }
}
