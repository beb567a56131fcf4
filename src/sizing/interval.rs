//! Exact confidence intervals from counts, pure arithmetic.
//!
//! F. Garwood, "Fiducial limits for the Poisson distribution" (Biometrika 28, 1936); C. J. Clopper, E. S. Pearson, "The
//! use of confidence or fiducial limits illustrated in the case of the binomial" (Biometrika 26, 1934).

/// The probability that the true value lies beyond one end of an interval.
const TAIL: f64 = 0.025;
/// Up to this count the sums are computed term by term; beyond, approximations are practically exact.
const EXACT: u64 = 1000;
/// The normal deviate of [`TAIL`].
const DEVIATE: f64 = 1.959_963_984_540_054;
/// The number of times a bracket is halved, more than an f64 has bits.
const HALVINGS: u32 = 200;

/// An estimate, and the ends between which the true value lies with 95 % confidence.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The most likely value.
    pub estimate: f64,
    /// 0 if nothing was counted.
    pub low: f64,
    /// If nothing was counted, this upper bound is the only meaningful end.
    pub high: f64,
}

impl Interval {
    fn scaled(self, factor: f64) -> Self {
        assert!(factor > 0.0, "the ends would change places");
        Self {
            estimate: self.estimate * factor,
            low: self.low * factor,
            high: self.high * factor,
        }
    }
}

/// Returns the interval for a total of which `count` were counted, each independently with probability `share`: the
/// exact interval of the Poisson distribution (to six digits above 1000).
#[must_use]
pub fn poisson_interval(count: u64, share: f64) -> Interval {
    let share = share.clamp(f64::MIN_POSITIVE, 1.0);
    poisson(count).scaled(1.0 / share)
}

/// Returns the interval for a share when `count` of `all` had a property: the exact interval of the binomial
/// distribution (Wilson's score interval above 1000). `count` is at most `all`.
#[must_use]
pub fn share_interval(count: u64, all: u64) -> Interval {
    if all == 0 {
        return Interval {
            estimate: 0.0,
            low: 0.0,
            high: 1.0,
        };
    }
    let count = count.min(all);
    let estimate = count as f64 / all as f64;
    if count > EXACT {
        let (n, z) = (all as f64, DEVIATE);
        let middle = (estimate + z * z / (2.0 * n)) / (1.0 + z * z / n);
        let root = estimate * (1.0 - estimate) / n + z * z / (4.0 * n * n);
        let half = z / (1.0 + z * z / n) * root.sqrt();
        return Interval {
            estimate,
            low: middle - half,
            high: (middle + half).min(1.0),
        };
    }
    // The probability of more than this count falls with the share.
    let low = match count {
        0 => 0.0,
        _ => solve(0.0, estimate, |share| {
            1.0 - binomial_up_to(count - 1, all, share) > TAIL
        }),
    };
    let high = match count == all {
        true => 1.0,
        false => solve(estimate, 1.0, |share| {
            binomial_up_to(count, all, share) < TAIL
        }),
    };
    debug_assert!(
        low <= estimate && estimate <= high,
        "{low} {estimate} {high}"
    );
    Interval {
        estimate,
        low,
        high,
    }
}

fn poisson(count: u64) -> Interval {
    let estimate = count as f64;
    if count > EXACT {
        // Wilson and Hilferty: the cube root of a chi-square is nearly normal.
        let cube = |degrees: f64, deviate: f64| {
            let part = 2.0 / (9.0 * degrees);
            degrees * (1.0 - part + deviate * part.sqrt()).powi(3) / 2.0
        };
        return Interval {
            estimate,
            low: cube(2.0 * estimate, -DEVIATE),
            high: cube(2.0 * estimate + 2.0, DEVIATE),
        };
    }
    let low = match count {
        0 => 0.0,
        _ => solve(0.0, estimate, |mean| {
            1.0 - poisson_up_to(count - 1, mean) > TAIL
        }),
    };
    let most = estimate + 10.0 * (estimate + 1.0).sqrt() + 10.0;
    Interval {
        estimate,
        low,
        high: solve(estimate, most, |mean| poisson_up_to(count, mean) < TAIL),
    }
}

/// Returns the point between two numbers from which on `holds` is true.
fn solve(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..HALVINGS {
        let middle = low + (high - low) / 2.0;
        match holds(middle) {
            true => high = middle,
            false => low = middle,
        }
    }
    high
}

/// Returns the probability of at most `count`, with this mean.
fn poisson_up_to(count: u64, mean: f64) -> f64 {
    let mut log = -mean;
    let mut sum = log.exp();
    for number in 1..=count {
        log += mean.ln() - (number as f64).ln();
        sum += log.exp();
    }
    sum.min(1.0)
}

/// Returns the probability of at most `count` of `all`, each with probability `share`.
fn binomial_up_to(count: u64, all: u64, share: f64) -> f64 {
    if share <= 0.0 {
        return 1.0;
    }
    if share >= 1.0 {
        return if count >= all { 1.0 } else { 0.0 };
    }
    let odds = share.ln() - (-share).ln_1p();
    let mut log = all as f64 * (-share).ln_1p();
    let mut sum = log.exp();
    for number in 1..=count {
        log += ((all - number + 1) as f64 / number as f64).ln() + odds;
        sum += log.exp();
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, expected: f64) -> bool {
        (got - expected).abs() <= 2e-3 * expected.abs().max(1e-9)
    }

    /// Compares with printed tables, which have three or four digits.
    #[test]
    fn intervals_are_those_of_the_tables() {
        let poisson = [
            (0, 0.0, 3.689),
            (1, 0.0253, 5.572),
            (2, 0.2422, 7.225),
            (5, 1.623, 11.668),
            (10, 4.795, 18.390),
            (50, 37.11, 65.92),
            (100, 81.36, 121.63),
        ];
        for (count, low, high) in poisson {
            let got = poisson_interval(count, 1.0);
            assert!(close(got.low, low) && close(got.high, high), "{got:?}");
            let scaled = poisson_interval(count, 0.25);
            assert!(close(scaled.high, high * 4.0) && scaled.estimate == count as f64 * 4.0);
        }
        let shares = [
            (0, 10, 0.0, 0.3085),
            (1, 10, 0.002_529, 0.4450),
            (5, 10, 0.1871, 0.8129),
            (10, 10, 0.6915, 1.0),
            (10, 1000, 0.004_806, 0.018_314),
        ];
        for (count, all, low, high) in shares {
            let got = share_interval(count, all);
            assert!(close(got.low, low) && close(got.high, high), "{got:?}");
        }
        let nothing = share_interval(0, 0);
        assert_eq!((nothing.low, nothing.high), (0.0, 1.0));
    }

    /// There is no step where the sums end and the approximations begin.
    #[test]
    fn the_approximations_go_on_where_the_sums_end() {
        let [sum, next] = [EXACT, EXACT + 1].map(|count| poisson_interval(count, 1.0));
        assert!(
            next.low > sum.low && next.low < sum.low + 2.0,
            "{sum:?} {next:?}"
        );
        assert!(
            next.high > sum.high && next.high < sum.high + 2.0,
            "{sum:?} {next:?}"
        );
        let [sum, next] = [EXACT, EXACT + 1].map(|count| share_interval(count, 1_000_000));
        assert!((next.low - sum.low).abs() < 3e-6 && (next.high - sum.high).abs() < 3e-6);
    }

    /// Counts less likely than this add nothing.
    const UNLIKELY: f64 = 1e-9;

    /// Of all counts that a true value may produce, weighted by probability, at least 95 in 100 have it in their
    /// interval.
    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        for mean in [0.3, 1.0, 3.3, 12.0, 80.0_f64] {
            let chance = |count: u64| match count {
                0 => poisson_up_to(0, mean),
                _ => poisson_up_to(count, mean) - poisson_up_to(count - 1, mean),
            };
            let holds = |count: &u64| {
                let interval = poisson_interval(*count, 1.0);
                (interval.low..=interval.high).contains(&mean)
            };
            let likely = (0..400).filter(|count| chance(*count) > UNLIKELY);
            let held: f64 = likely.filter(holds).map(chance).sum();
            assert!(held >= 0.949, "mean {mean}: {held}");
        }
        for share in [0.001, 0.01, 0.3] {
            let all = 600;
            let chance = |count: u64| match count {
                0 => binomial_up_to(0, all, share),
                _ => binomial_up_to(count, all, share) - binomial_up_to(count - 1, all, share),
            };
            let holds = |count: &u64| {
                let interval = share_interval(*count, all);
                (interval.low..=interval.high).contains(&share)
            };
            let likely = (0..=all).filter(|count| chance(*count) > UNLIKELY);
            let held: f64 = likely.filter(holds).map(chance).sum();
            assert!(held >= 0.949, "share {share}: {held}");
        }
    }
}
