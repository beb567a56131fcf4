//! Runs: probes that lie together in one line of the page.
//!
//! Fetching lines of memory is most of the cost of a lookup. The price of runs is that lines, like pages, differ in
//! load by chance: that takes about 0.2 % more bits with runs of two, and 0.4 % with runs of three.

use super::{Cell, LINE_BITS, PAGE_BITS, PAGE_BYTES};

/// Maximum number of probes with runs of three. Beyond it, only runs of two keep a plan within one percent of the
/// ideal.
const MOST_IN_THREES: u32 = 20;

/// Bits in the page's header, with which its first line begins.
const HEADER_BITS: u64 = PAGE_BYTES * 8 - PAGE_BITS;

/// The lines of a page, all alike except for the first: bits per line, and the number of such lines.
const LINES: [(u64, u64); 2] = [
    (LINE_BITS - HEADER_BITS, 1),
    (LINE_BITS, PAGE_BITS / LINE_BITS),
];

const _: () = assert!(LINES[0].0 + LINES[1].0 * LINES[1].1 == PAGE_BITS);

impl Cell {
    /// Returns how many of `probes` probes lie together in one line of the page; the remaining ones lie alone. Bits: 3
    /// up to 20 probes, 2 beyond. Counters all lie alone: 1. (FORMAT.md, "Probes".)
    #[must_use]
    pub const fn run_length(self, probes: u32) -> u32 {
        match self {
            Cell::Counter => 1,
            Cell::Bit if probes <= MOST_IN_THREES => 3,
            Cell::Bit => 2,
        }
    }

    /// Returns the numbers of probes that may be best for a filter whose ideal number is `ideal`: those with equally
    /// long runs. (Longer runs have a higher rate at the same size but are faster: a search for the lowest rate alone
    /// would never choose them.)
    pub(super) fn probes_like(self, ideal: u32) -> std::ops::RangeInclusive<u32> {
        match self {
            Cell::Counter => 1..=super::MAX_PROBES,
            Cell::Bit if ideal <= MOST_IN_THREES => 1..=MOST_IN_THREES,
            Cell::Bit => MOST_IN_THREES + 1..=super::MAX_PROBES,
        }
    }
}

/// The distribution of a key's probes over the lines of a page.
pub(super) struct Runs {
    cells: f64,
    /// Cells per line, and the number of such lines.
    lines: [(f64, f64); 2],
    /// The number of runs and the probes in each: full runs, and single probes.
    kinds: [(f64, u32); 2],
}

impl Runs {
    pub(super) fn new(cell: Cell, probes: u32) -> Self {
        debug_assert!(probes > 0, "a key that sets nothing");
        let length = cell.run_length(probes);
        let cells = cell.per_page() as f64;
        let lines = match cell {
            Cell::Counter => [(cells, 1.0), (cells, 0.0)],
            Cell::Bit => LINES.map(|(bits, count)| (bits as f64, count as f64)),
        };
        Self {
            cells,
            lines,
            kinds: [
                ((probes / length).into(), length),
                ((probes % length).into(), 1),
            ],
        }
    }

    /// Returns the number of runs of each length, and that length.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (f64, u32)> {
        self.kinds.into_iter().filter(|(runs, _)| *runs > 0.0)
    }

    /// Returns the logarithm of the probability that `count` given cells of a line of `line` cells all stay clear when
    /// one key arrives: a run falls on the line in proportion to the line's cells, and on different cells of it.
    fn ln_stay_clear(&self, line: f64, count: u32) -> f64 {
        let hit = |length: u32| {
            let misses = |before| (-f64::from(count) / (line - f64::from(before))).ln_1p();
            let missed: f64 = (0..length).map(misses).sum();
            -(line / self.cells) * missed.exp_m1()
        };
        self.kinds()
            .map(|(runs, length)| runs * (-hit(length)).ln_1p())
            .sum()
    }

    /// Returns the same for one cell, whatever its line: a run hits as many of all cells as it has probes.
    pub(super) fn ln_stays_clear(&self) -> f64 {
        let missed = |(runs, length): (f64, u32)| runs * (-f64::from(length) / self.cells).ln_1p();
        self.kinds().map(missed).sum()
    }

    /// Returns the probability that a run of `length` finds all its cells set in a page of `load` keys.
    ///
    /// The result is exact: over the lines that the run may fall on, the probability that this many given cells are set
    /// there, by inclusion and exclusion.
    pub(super) fn all_set(&self, load: f64, length: u32) -> f64 {
        let lines = self.lines.iter().filter(|(_, count)| *count > 0.0);
        lines
            .map(|(line, count)| {
                let (mut choose, mut set) = (1.0, 0.0);
                for clear in 1..=length {
                    choose *= -f64::from(length + 1 - clear) / f64::from(clear);
                    set += choose * (load * self.ln_stay_clear(*line, clear)).exp_m1();
                }
                line * count / self.cells * set
            })
            .sum()
    }
}
