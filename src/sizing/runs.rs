//! Runs: probes that lie together in one line of the page.
//!
//! Fetching lines of memory is most of what a look-up costs. The price is that lines, like pages, differ in load by
//! luck: that takes about 0.2 % more bits with runs of two, and 0.4 % with runs of three.

use super::{Cell, LINE_BITS, PAGE_BITS, PAGE_BYTES};

/// The most probes with which runs are of three. Beyond, a filter is planned within one percent of the ideal with runs
/// of two alone.
const MOST_IN_THREES: u32 = 20;

/// Bits of the page's header, which its first line begins with.
const HEADER_BITS: u64 = PAGE_BYTES * 8 - PAGE_BITS;

/// The lines of a page, alike but for the first: how many bits, and how many lines of so many.
const LINES: [(u64, u64); 2] = [
    (LINE_BITS - HEADER_BITS, 1),
    (LINE_BITS, PAGE_BITS / LINE_BITS),
];

const _: () = assert!(LINES[0].0 + LINES[1].0 * LINES[1].1 == PAGE_BITS);

impl Cell {
    /// Probes that lie together in one line of the page, of `probes` in all; those left over lie alone. Bits: 3 up to 20
    /// probes, 2 beyond. Counters all lie alone: 1. (FORMAT.md, "Probes".)
    pub const fn run_length(self, probes: u32) -> u32 {
        match self {
            Cell::Counter => 1,
            Cell::Bit if probes <= MOST_IN_THREES => 3,
            Cell::Bit => 2,
        }
    }

    /// The numbers of probes that may be best for a filter of which the ideal one has `ideal`: those whose runs are as
    /// long. (Longer ones have a higher rate at the same size, and are faster: whoever asks for the lowest rate alone
    /// would never get them.)
    pub(super) fn probes_like(self, ideal: u32) -> std::ops::RangeInclusive<u32> {
        match self {
            Cell::Counter => 1..=super::MAX_PROBES,
            Cell::Bit if ideal <= MOST_IN_THREES => 1..=MOST_IN_THREES,
            Cell::Bit => MOST_IN_THREES + 1..=super::MAX_PROBES,
        }
    }
}

/// How a key's probes fall on the lines of a page.
pub(super) struct Runs {
    cells: f64,
    /// Cells, and how many lines of so many.
    lines: [(f64, f64); 2],
    /// How many runs, and how many probes in each: full ones, and probes that lie alone.
    kinds: [(f64, u32); 2],
}

impl Runs {
    pub(super) fn new(cell: Cell, probes: u32) -> Self {
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

    /// How many runs there are of each length, and that.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (f64, u32)> {
        self.kinds.into_iter().filter(|(runs, _)| *runs > 0.0)
    }

    /// Logarithm of the chance that `count` given cells of a line of `line` all stay clear when one key comes:
    /// a run falls on the line in proportion to its cells, and on different ones of them.
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

    /// The same of one cell, whatever its line: a run has as many of all cells as it is long.
    pub(super) fn ln_stays_clear(&self) -> f64 {
        let missed = |(runs, length): (f64, u32)| runs * (-f64::from(length) / self.cells).ln_1p();
        self.kinds().map(missed).sum()
    }

    /// The chance that a run of `length` finds all its cells set in a page of `load` keys.
    ///
    /// Exact: over the lines that it may fall on, the chance that so many given cells there are set, by inclusion and
    /// exclusion.
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
