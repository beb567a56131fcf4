//! What the pages of a store are: how full each is, which are damaged, where they lie.

use std::ops::Range;

use everseen::sizing::Cell;
use everseen::{Kind, LayerStats, PageState, Stats};

/// Bars of the histogram.
pub const BARS: usize = 400;

/// The most cells of the map.
const MOST_CELLS: u64 = 1152;

/// How far from what is expected, in standard deviations, a page is remarkable. One page in two million gets there by
/// chance.
const REMARKABLE: f64 = 5.0;

/// The good pages of one layer.
pub struct LayerPages {
    /// How many pages have which share of their cells set, in steps of 1 / BARS.
    pub histogram: Vec<u64>,
    pub expected: Expected,
}

/// What chance makes of keys in pages.
#[derive(Clone, Copy)]
pub struct Expected {
    pub mean: f64,
    pub deviation: f64,
}

impl Expected {
    /// Keys fall into pages at random, so their number in a page is a Poisson variable, and nearly normal.
    fn of(layer: &LayerStats, cell: Cell) -> Self {
        let keys = layer.keys as f64 / layer.pages.max(1) as f64;
        // Cells that each key sets of those that are clear, near the mean.
        let set = f64::from(layer.k) / cell.per_page() as f64 * (1.0 - layer.fill);
        Expected {
            mean: layer.fill,
            deviation: set * keys.sqrt(),
        }
    }

    /// Returns the share of pages expected from one share of set cells to another.
    pub fn share(&self, from: f64, to: f64) -> f64 {
        let width = self.deviation.max(1e-4);
        let distance = ((from + to) / 2.0 - self.mean) / width;
        (to - from) / width * (-distance * distance / 2.0).exp() / std::f64::consts::TAU.sqrt()
    }
}

/// Neighbouring pages on the map.
#[derive(Clone, Copy, Default)]
pub struct Spot {
    pub damaged: u64,
    pub good: u64,
    /// Sum of the shares of set cells.
    filled: f64,
    /// Pages that are fuller, or emptier, than chance makes them.
    pub hot: u64,
    pub cold: u64,
}

impl Spot {
    /// Returns the mean share of set cells.
    pub fn fill(&self) -> f64 {
        self.filled / self.good.max(1) as f64
    }
}

/// All pages of a store.
pub struct Census {
    cell: Cell,
    pub layers: Vec<LayerPages>,
    /// The first page of each layer, were they in one row.
    starts: Vec<u64>,
    pub spots: Vec<Spot>,
    pub pages_a_spot: u64,
}

impl Census {
    pub fn new(stats: &Stats) -> Self {
        let cell = cell(stats.kind);
        let mut starts = Vec::new();
        let mut pages = 0;
        for layer in &stats.layers {
            starts.push(pages);
            pages += layer.pages;
        }
        let pages_a_spot = pages.div_ceil(MOST_CELLS).max(1);
        let layers = stats.layers.iter().map(|layer| LayerPages {
            histogram: vec![0; BARS + 1],
            expected: Expected::of(layer, cell),
        });
        Census {
            cell,
            layers: layers.collect(),
            starts,
            spots: vec![Spot::default(); pages.div_ceil(pages_a_spot) as usize],
            pages_a_spot,
        }
    }

    /// Adds pages of a layer. One that is newer than the statistics is left out.
    pub fn add(&mut self, layer: u32, pages: Range<u64>, state: PageState) {
        let number = layer as usize;
        let (Some(layer), Some(start)) = (self.layers.get_mut(number), self.starts.get(number))
        else {
            return;
        };
        let fill = match state {
            PageState::Good { set } => f64::from(set) / self.cell.per_page() as f64,
            _ => 0.0,
        };
        let is_damaged = state == PageState::Damaged;
        if !is_damaged {
            let bar = ((fill * BARS as f64) as usize).min(BARS);
            layer.histogram[bar] += pages.end - pages.start;
        }
        let Expected { mean, deviation } = layer.expected;
        let distance = (fill - mean) / deviation.max(1e-4);
        let mut at = start + pages.start;
        let end = start + pages.end;
        while at < end {
            let spot = at / self.pages_a_spot;
            let count = end.min((spot + 1) * self.pages_a_spot) - at;
            at += count;
            let Some(spot) = self.spots.get_mut(spot as usize) else {
                return;
            };
            if is_damaged {
                spot.damaged += count;
                continue;
            }
            spot.good += count;
            spot.filled += fill * count as f64;
            spot.hot += count * u64::from(distance > REMARKABLE);
            spot.cold += count * u64::from(distance < -REMARKABLE);
        }
    }
}

/// Returns what the pages of a kind consist of.
pub fn cell(kind: Kind) -> Cell {
    match kind {
        Kind::Counting => Cell::Counter,
        _ => Cell::Bit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everseen::CreateOptions;

    #[test]
    fn each_page_is_where_it_lies_and_as_full_as_it_is() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = CreateOptions::new().capacity(3_000_000);
        let store = options.create(folder.path().join("store")).expect("made");
        let stats = store.stats().expect("nothing fails");
        let pages = stats.layers[0].pages;
        let mut census = Census::new(&stats);
        assert_eq!(census.pages_a_spot, pages.div_ceil(MOST_CELLS));
        assert!(census.pages_a_spot > 1);
        let bits = Cell::Bit.per_page() as u32;
        census.add(0, 0..2, PageState::Damaged);
        census.add(0, 2..pages - 1, PageState::Blank);
        census.add(0, pages - 1..pages, PageState::Good { set: bits / 2 });
        // A layer that came meanwhile.
        census.add(1, 0..1, PageState::Damaged);
        assert_eq!(census.layers[0].histogram[0], pages - 3);
        assert_eq!(census.layers[0].histogram[BARS / 2], 1);
        let damaged: u64 = census.spots.iter().map(|spot| spot.damaged).sum();
        let good: u64 = census.spots.iter().map(|spot| spot.good).sum();
        assert_eq!((damaged, good), (2, pages - 2));
        let last = census.spots.last().expect("one");
        assert_eq!((last.hot, last.cold), (1, 0));
        assert!((last.fill() * last.good as f64 - 0.5).abs() < 1e-3);
    }

    #[test]
    fn all_that_is_expected_is_all() {
        let expected = Expected {
            mean: 0.4,
            deviation: 0.01,
        };
        let step = 1.0 / BARS as f64;
        let shares =
            (0..BARS).map(|bar| expected.share(bar as f64 * step, (bar + 1) as f64 * step));
        assert!((shares.sum::<f64>() - 1.0).abs() < 1e-3);
    }
}
