//! The page-local filter: all probes of a key in one page, pages of unequal load.
//!
//! Source: F. Putze, P. Sanders, J. Singler, "Cache-, hash- and space-efficient Bloom filters" (JEA 14, 2009), section
//! 3 (blocked filters, rate as a mixture over the load of a block); a page is one such block, and a line in it another.
//! For the occupancy by uniform draws, and inclusion and exclusion: W. Feller, "An introduction to probability theory
//! and its applications", vol. 1, sections II.5, IV.2 and IX.3.

use super::Cell;
use super::runs::Runs;

/// Terms and weights below this share of their sums are omitted.
const NEGLIGIBLE: f64 = 1e-18;

/// With this many draws per cell, a page is full as far as an f64 can tell: `64 · exp(-45)` is 2e-18.
const FULL: f64 = 45.0;

const TWO_POW_64: f64 = 18_446_744_073_709_551_616.0;

/// Returns `keys / 2^64`, at most 1: the probability that an absent key has the same 64-bit hash as one of `keys` keys.
#[must_use]
pub fn hash_floor(keys: u64) -> f64 {
    keys as f64 / TWO_POW_64
}

/// Returns the expected false-positive rate of a page-local filter that holds `keys` keys in `pages` pages with
/// `probes` probes per key, including [`hash_floor`].
///
/// The load of a page is binomial. In a page with a given load, the probability of each run of probes
/// ([`Cell::run_length`]) is exact. That the runs meet the same page is counted to the second order: within 0.1 % of
/// the rate up to 30 probes, by simulation. The result is the mean over all filters: a single one differs by chance,
/// less so the more pages it has.
///
/// No keys give 0. Otherwise no pages or no probes give 1. More probes than [`MAX_PROBES`](super::MAX_PROBES) are
/// accepted, but the result is then an approximation.
#[must_use]
pub fn expected_rate(keys: u64, pages: u64, probes: u32) -> f64 {
    Cell::Bit.expected_rate(keys, pages, probes)
}

/// Returns the expected share of set bits, 0 to 1, of a page-local filter.
///
/// No keys or no probes give 0; otherwise no pages give 1.
#[must_use]
pub fn expected_fill(keys: u64, pages: u64, probes: u32) -> f64 {
    Cell::Bit.expected_fill(keys, pages, probes)
}

/// Estimates the number of keys in `pages` pages from the number of their set bits: the inverse of [`expected_fill`],
/// about `-m/k ln(1 - x/m)` with `m` the bits of those pages. For one page, `bits_set` is its occupancy.
///
/// When every bit is set (or more are claimed), all large numbers of keys are equally likely; the estimate is then the
/// one for half a clear bit. No pages or no probes give 0.
#[must_use]
pub fn keys_from_bits_set(bits_set: u64, pages: u64, probes: u32) -> f64 {
    Cell::Bit.keys_from_set(bits_set, pages, probes)
}

impl Cell {
    /// Returns [`expected_rate`] for a filter of such cells.
    #[must_use]
    pub fn expected_rate(self, keys: u64, pages: u64, probes: u32) -> f64 {
        if keys == 0 {
            return 0.0;
        }
        if pages == 0 || probes == 0 {
            return 1.0;
        }
        let page = Page::new(self, probes);
        let local = if pages == 1 {
            page.rate(keys as f64)
        } else {
            mean_over_load(&page, keys, pages)
        };
        (local + (1.0 - local) * hash_floor(keys)).clamp(0.0, 1.0)
    }

    /// Returns [`expected_fill`] for a filter of such cells: the share of cells that are not zero.
    #[must_use]
    pub fn expected_fill(self, keys: u64, pages: u64, probes: u32) -> f64 {
        if keys == 0 || probes == 0 {
            0.0
        } else if pages == 0 {
            1.0
        } else {
            -(keys as f64 * Page::new(self, probes).ln_stays_clear(pages)).exp_m1()
        }
    }

    /// Returns [`keys_from_bits_set`] for a filter of such cells, given how many of them are not zero.
    #[must_use]
    pub fn keys_from_set(self, set: u64, pages: u64, probes: u32) -> f64 {
        if set == 0 || pages == 0 || probes == 0 {
            return 0.0;
        }
        let cells = pages as f64 * self.per_page() as f64;
        let set = (set as f64).min(cells - 0.5);
        // Past 2^53 cells rounding loses the half: keep the logarithm finite.
        let clear = (1.0 - set / cells).max(0.5 / cells);
        let ln_clear = if clear > 0.5 {
            (-set / cells).ln_1p()
        } else {
            clear.ln()
        };
        ln_clear / Page::new(self, probes).ln_stays_clear(pages)
    }
}

/// One page, described by the effect of a single key on it.
struct Page {
    cells: f64,
    probes: f64,
    runs: Runs,
    /// Logarithm of the probability that a given cell stays clear.
    ln_clear: f64,
    /// Logarithm of how much less likely two given cells stay clear together than two independent ones, if all probes
    /// fell anywhere: `k ln((1 - 2/B) / (1 - 1/B)^2)`, which is `k ln(1 - 1/(B-1)^2)`.
    ln_pair: f64,
    /// Pairs of probes that belong to different runs.
    pairs: f64,
}

impl Page {
    fn new(cell: Cell, probes: u32) -> Page {
        let runs = Runs::new(cell, probes);
        let probes = f64::from(probes);
        let cells = cell.per_page() as f64;
        let own: f64 = runs
            .kinds()
            .map(|(count, length)| count * f64::from(length).powi(2))
            .sum();
        Page {
            cells,
            probes,
            ln_clear: runs.ln_stays_clear(),
            ln_pair: probes * (-1.0 / ((cells - 1.0) * (cells - 1.0))).ln_1p(),
            pairs: (probes * probes - own) / 2.0,
            runs,
        }
    }

    /// Returns the logarithm of the probability that a given cell of `pages` pages survives one key.
    fn ln_stays_clear(&self, pages: u64) -> f64 {
        let hit_in_page = -self.ln_clear.exp_m1();
        let hit = hit_in_page / pages as f64;
        // Millions of probes per key would make the probability of a hit 1 and the logarithm infinite.
        (-hit.min(1.0 - f64::EPSILON)).ln_1p()
    }

    /// Returns the probability that all runs of an absent key find their cells set: the product over the runs, plus a
    /// second-order term for the fact that they meet the same page, which may be fuller or emptier than the mean.
    fn rate(&self, load: f64) -> f64 {
        if load == 0.0 {
            return 0.0;
        }
        let clear = (load * self.ln_clear).exp();
        let mean = -(load * self.ln_clear).exp_m1();
        let pair = (load * self.ln_pair).exp_m1();
        let variance = clear * clear * pair + (clear - clear * clear * (1.0 + pair)) / self.cells;
        let spread = self.pairs * variance.max(0.0) / (mean * mean);
        let alone: f64 = self
            .runs
            .kinds()
            .map(|(runs, length)| self.runs.all_set(load, length).clamp(0.0, 1.0).powf(runs))
            .product();
        (alone * (1.0 + spread)).min(1.0)
    }
}

/// Returns the mean of the rate of a page over its load, Binomial(`keys`, 1/`pages`), for two pages or more.
///
/// Weights are relative to the one at the mean, computed by the ratio of neighbours, and normalised by their sum.
/// Weight and rate are log-concave in the load and so is their product: each keeps falling once it has begun to fall.
/// The rate rises with the load, so the *product* decides when to stop on the way up, and the weight on the way down.
fn mean_over_load(page: &Page, keys: u64, pages: u64) -> f64 {
    let mean = keys as f64 / pages as f64;
    if mean - 12.0 * mean.sqrt() > FULL * page.cells / page.probes {
        return 1.0;
    }
    let others = (pages - 1) as f64; // (1 - 1/pages) / (1/pages)
    let start = keys / pages;
    let at_start = page.rate(start as f64);
    let (mut weights, mut sum) = (1.0, at_start);

    let (mut weight, mut before) = (1.0, at_start);
    for load in start..keys {
        weight *= (keys - load) as f64 / ((load + 1) as f64 * others);
        let term = weight * page.rate((load + 1) as f64);
        weights += weight;
        sum += term;
        if weight < NEGLIGIBLE * weights && term <= before && term <= NEGLIGIBLE * sum {
            break;
        }
        before = term;
    }

    weight = 1.0;
    for load in (1..=start).rev() {
        weight *= load as f64 * others / ((keys - load + 1) as f64);
        weights += weight;
        sum += weight * page.rate((load - 1) as f64);
        if weight < NEGLIGIBLE * weights {
            break;
        }
    }
    (sum / weights).min(1.0)
}
