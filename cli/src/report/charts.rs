//! The pictures of a report, as SVG. Their colours are stand-ins, which the page's style replaces: it knows whether it is
//! dark.

use std::ops::Range;

use everseen::sizing::Cell;
use everseen::{Kind, LayerStats, Stats};
use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use crate::report::pages::{BARS, Census, LayerPages, Spot};

/// Small enough to be readable on a phone, where the page shrinks it.
const SIZE: (u32, u32) = (480, 290);

const INK: RGBColor = RGBColor(1, 1, 1);
const GRID: RGBColor = RGBColor(2, 2, 2);
const LINE: RGBColor = RGBColor(3, 3, 3);
const TARGET: RGBColor = RGBColor(4, 4, 4);
const FREQUENCY: RGBColor = RGBColor(5, 5, 5);
const EMPTY: RGBColor = RGBColor(6, 6, 6);
const HOT: RGBColor = RGBColor(7, 7, 7);
const COLD: RGBColor = RGBColor(8, 8, 8);
const DAMAGED: RGBColor = RGBColor(9, 9, 9);
/// From nearly empty to full.
const FILLS: [RGBColor; 4] = [
    RGBColor(11, 11, 11),
    RGBColor(12, 12, 12),
    RGBColor(13, 13, 13),
    RGBColor(14, 14, 14),
];

const FONT: (&str, i32) = ("sans-serif", 15);

/// Points of a curve.
const POINTS: u64 = 160;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Draws a picture. Drawing into memory does not fail; if it did, the page would say so.
fn svg(size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Drawn) -> String {
    let mut text = String::new();
    let drawn = {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(&area).and_then(|()| Ok(area.present()?))
    };
    match drawn {
        Ok(()) => text,
        Err(error) => format!("<p>This picture could not be drawn: {error}</p>"),
    }
}

type Chart<'a, 'b, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, Y>>;

/// One axis of a chart: what it shows, over which range, and about how many of its values have a label.
struct Axis<'a, R> {
    range: R,
    desc: &'a str,
    labels: usize,
    label: &'a dyn Fn(&f64) -> String,
}

/// An axis of whole numbers, from none to a tenth above the highest. Of few enough, two would have labels between them.
fn counts(highest: f64, desc: &str) -> Axis<'_, Range<f64>> {
    Axis {
        range: 0.0..highest.max(5.0) * 1.1,
        desc,
        labels: 5,
        label: &|count| short(*count),
    }
}

/// Draws a chart: its axes, and what `series` draws between them.
fn chart<Y>(
    x: Axis<'_, Range<f64>>,
    y: Axis<'_, Y>,
    series: impl FnOnce(&mut Chart<'_, '_, Y::CoordDescType>) -> Drawn,
) -> String
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    svg(SIZE, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(72)
            .build_cartesian_2d(x.range, y.range)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(INK)
            .label_style(FONT.into_font().color(&INK))
            .x_labels(x.labels)
            .y_labels(y.labels)
            .x_desc(x.desc)
            .y_desc(y.desc)
            .x_label_formatter(&x.label)
            .y_label_formatter(&y.label)
            .draw()?;
        series(&mut chart)
    })
}

/// Formats a number of keys in few letters.
fn short(number: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match units.iter().find(|(unit, _)| number >= *unit) {
        Some((unit, name)) => {
            let value = format!("{:.2}", number / unit);
            let value = value.trim_end_matches('0').trim_end_matches('.');
            format!("{value} {name}")
        }
        None => format!("{number:.0}"),
    }
}

/// The expected rate of a stack of layers that have been filled one after the other, when it has had some keys.
fn rate_at(layers: &[LayerStats], cell: Cell, keys: u64) -> f64 {
    let mut left = keys;
    let mut rate = 0.0;
    for (number, layer) in layers.iter().enumerate() {
        let is_last = number + 1 == layers.len();
        let here = if is_last { left } else { left.min(layer.keys) };
        left -= here;
        rate += (1.0 - rate) * cell.expected_rate(here, layer.pages, layer.k);
    }
    rate
}

/// The expected rate of a store when it has had some keys.
fn rate_with(stats: &Stats, cell: Cell, keys: u64) -> f64 {
    match (stats.kind, stats.capacity) {
        // It is in proportion to the keys.
        (Kind::Fingerprint, Some(limit)) => stats.fpr_target * keys as f64 / limit as f64,
        _ => rate_at(&stats.layers, cell, keys),
    }
}

/// The rate over the number of keys, with today's point.
pub fn growth(stats: &Stats, cell: Cell) -> String {
    let most = stats.key_limit.max(stats.keys).max(1);
    // A growing store takes nearly any number of keys: its present layers show enough.
    let layers: u64 = match stats.layers.split_last() {
        // In a store of fingerprints, which has none, the curve is a line.
        _ if stats.kind == Kind::Fingerprint => stats.keys.saturating_mul(4),
        Some((last, full)) => full.iter().map(|layer| layer.keys).sum::<u64>() + last.capacity,
        None => most,
    };
    let end = most.min(layers.max(stats.keys)).max(1);
    // No store takes more keys than it keeps its rate with: there the curve ends.
    let last = end;
    let end = end + end / 10;
    let highest = stats.fpr_target.max(stats.fpr_now).max(1e-300) * 4.0;
    // A store that is nearly empty is right nearly always; its point is shown as far down as a curve still makes sense.
    let lowest = match stats.fpr_now {
        0.0 => stats.fpr_target * 1e-3,
        now => (now / 10.0).clamp(stats.fpr_target * 1e-12, stats.fpr_target * 1e-3),
    };
    let lowest = lowest.max(1e-300);
    let point = |keys: u64| (keys as f64, rate_with(stats, cell, keys));
    let x = Axis {
        range: 0.0..end as f64,
        desc: "keys",
        labels: 5,
        label: &|keys| short(*keys),
    };
    let y = Axis {
        range: (lowest..highest).log_scale(),
        desc: "false positive rate",
        labels: 5,
        label: &|rate| format!("{rate:.0e}"),
    };
    chart(x, y, |chart| {
        let target = [(0.0, stats.fpr_target), (end as f64, stats.fpr_target)];
        chart.draw_series(DashedLineSeries::new(target, 6, 5, TARGET.stroke_width(2)))?;
        let points = (0..=POINTS)
            .map(|step| point((u128::from(last) * u128::from(step) / u128::from(POINTS)) as u64));
        let (limit, has) = (stats.fpr_target.max(stats.fpr_now), stats.keys as f64);
        let within = |(keys, rate): &(f64, f64)| *keys <= has || *rate <= limit;
        let shown = points
            .take_while(within)
            .filter(|(_, rate)| (lowest..highest).contains(rate));
        chart.draw_series(LineSeries::new(shown, LINE.stroke_width(3)))?;
        let (keys, rate) = point(stats.keys);
        let place = (keys, rate.clamp(lowest, highest));
        chart.draw_series([Circle::new(place, 6, INK.filled())])?;
        Ok(())
    })
}

/// How full the pages of a layer are, beside what chance makes of as many keys.
pub fn histogram(pages: &LayerPages) -> String {
    let total: u64 = pages.histogram.iter().sum();
    let step = 1.0 / BARS as f64;
    let used: Vec<usize> = (0..=BARS).filter(|bar| pages.histogram[*bar] > 0).collect();
    let expected = pages.expected;
    let margin = 4.0 * expected.deviation + 2.0 * step;
    let low = used.first().map_or(0.0, |bar| *bar as f64 * step);
    let high = used.last().map_or(0.0, |bar| (*bar + 1) as f64 * step);
    let low = low.min(expected.mean - margin).max(0.0);
    let high = high.max(expected.mean + margin).min(1.0 + step);
    let hoped = |fill: f64| expected.share(fill - step / 2.0, fill + step / 2.0) * total as f64;
    let highest = pages.histogram.iter().copied().max().unwrap_or(0) as f64;
    let x = Axis {
        range: low..high,
        desc: "share of a page that is set",
        labels: 6,
        label: &|fill| format!("{:.0} %", 100.0 * fill),
    };
    let y = counts(highest.max(hoped(expected.mean)), "pages");
    chart(x, y, |chart| {
        chart.draw_series(used.iter().map(|bar| {
            let left = *bar as f64 * step;
            let height = pages.histogram[*bar] as f64;
            Rectangle::new(
                [(left, 0.0), (left + step * 0.9, height)],
                FREQUENCY.filled(),
            )
        }))?;
        let curve = (0..=POINTS).map(|at| {
            let fill = low + (high - low) * at as f64 / POINTS as f64;
            (fill, hoped(fill))
        });
        chart.draw_series(LineSeries::new(curve, LINE.stroke_width(3)))?;
        Ok(())
    })
}

/// Returns a unit of time in which a span is read with ease, and its name.
fn unit_for(seconds: f64) -> (f64, &'static str) {
    let units = [(86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes")];
    let fits = |(unit, _): &(f64, _)| seconds >= 3.0 * unit;
    units.into_iter().find(fits).unwrap_or((1.0, "seconds"))
}

/// How many keys are forgotten how many seconds from now, in steps of so many.
pub fn due(due: &[(f64, u64)], step: f64) -> String {
    let highest = due.iter().map(|(_, keys)| *keys).max().unwrap_or(0) as f64;
    let first = due.first().map_or(0.0, |(at, _)| at - step).min(0.0);
    let last = due.last().map_or(step, |(at, _)| *at).max(step);
    let (unit, name) = unit_for(last - first);
    let x = Axis {
        range: first / unit..last / unit,
        desc: &format!("{name} from now"),
        labels: 6,
        label: &|at| format!("{at:.0}"),
    };
    chart(x, counts(highest, "keys"), |chart| {
        chart.draw_series(due.iter().map(|(at, keys)| {
            let colour = if *at <= 0.0 { COLD } else { FREQUENCY };
            let (left, right) = ((at - step * 0.95) / unit, at / unit);
            Rectangle::new([(left, 0.0), (right, *keys as f64)], colour.filled())
        }))?;
        Ok(())
    })
}

/// Cells of a row of the map.
const COLUMNS: usize = 48;
const EDGE: i32 = 12;

/// Where in the store pages are full, empty or damaged.
pub fn map(census: &Census) -> String {
    let rows = census.spots.len().div_ceil(COLUMNS).max(1);
    let columns = census.spots.len().clamp(1, COLUMNS);
    // As wide as a full row, so that a small store's cells are no larger.
    let size = (COLUMNS as i32 * EDGE, rows as i32 * EDGE);
    svg((size.0 as u32, size.1 as u32), |area| {
        for (number, spot) in census.spots.iter().enumerate() {
            let (x, y) = (
                (number % columns) as i32 * EDGE,
                (number / columns) as i32 * EDGE,
            );
            let corners = [(x, y), (x + EDGE - 2, y + EDGE - 2)];
            area.draw(&Rectangle::new(corners, colour(spot).filled()))?;
        }
        Ok(())
    })
}

fn colour(spot: &Spot) -> RGBColor {
    if spot.damaged > 0 {
        return DAMAGED;
    }
    let fill = spot.fill();
    match (spot.hot, spot.cold) {
        (1.., _) => HOT,
        (_, 1..) => COLD,
        _ if fill == 0.0 => EMPTY,
        // Half of the bits are set in a store that has all its keys.
        _ => FILLS[((fill * 5.0) as usize).min(3)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (number, text) in [
            (0.0, "0"),
            (999.0, "999"),
            (1000.0, "1 k"),
            (1_250_000.0, "1.25 M"),
            (3e9, "3 G"),
        ] {
            assert_eq!(short(number), text);
        }
    }

    #[test]
    fn what_is_damaged_or_remarkable_has_the_colour_of_that() {
        let mut spot = Spot::default();
        assert_eq!(colour(&spot), EMPTY);
        spot.cold = 1;
        assert_eq!(colour(&spot), COLD);
        spot.hot = 1;
        assert_eq!(colour(&spot), HOT);
        spot.damaged = 1;
        assert_eq!(colour(&spot), DAMAGED);
    }
}
