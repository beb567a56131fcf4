//! Warnings before a store is full, or wrong more often than it was created to be.

use everseen::{Fullness, Stats};

use crate::output::format::{rate, thousands};

/// The share of its keys from which on a store counts as nearly full.
const NEARLY: f64 = 0.9;

/// The pending warnings, each given once.
#[derive(Default)]
pub struct Warnings {
    /// Given first.
    rate: Option<String>,
    fullness_told: bool,
}

impl Warnings {
    pub fn new(stats: &Stats) -> Self {
        Warnings {
            rate: rate_warning(stats.fpr_now, stats.fpr_target),
            fullness_told: false,
        }
    }

    /// Returns the warning to print now.
    pub fn next(&mut self, now: Fullness) -> Option<String> {
        if let Some(rate) = self.rate.take() {
            return Some(rate);
        }
        // A full store reports an error instead.
        if self.fullness_told || now.share() < NEARLY || now.left() == 0 {
            return None;
        }
        self.fullness_told = true;
        Some(format!(
            "the store is {:.0} % full: {} of {} keys, room for {} more; create a larger one in time, or one \
             without a capacity, which grows",
            (100.0 * now.share()).floor(),
            thousands(now.keys),
            thousands(now.limit),
            thousands(now.left()),
        ))
    }
}

/// Returns a warning if the rate exceeds its target. A repair of lost superblocks may leave more keys than the store
/// was created for.
fn rate_warning(now: f64, target: f64) -> Option<String> {
    (now > target).then(|| {
        format!(
            "the store takes unseen lines for seen ones at a rate of {}, more often than the {} it was created for; create a \
             larger one",
            rate(now),
            rate(target),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_above_its_target_is_told() {
        assert_eq!(rate_warning(1e-6, 1e-6), None);
        assert_eq!(rate_warning(0.0, 1e-6), None);
        let told = rate_warning(2.5e-6, 1e-6).expect("a warning");
        assert!(
            told.contains("a rate of 2.5e-6, more often than the 1e-6 "),
            "{told}"
        );
    }
}
