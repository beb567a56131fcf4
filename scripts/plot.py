#!/usr/bin/env python3
"""Draw what `everseen-peers`, `out_of_core` and `streams` wrote with `--csv`, as SVG: nanoseconds a key, or bytes.

    python3 scripts/plot.py sizes.csv --out size.svg
    python3 scripts/plot.py share.csv --x share --phase insert,single,batches --out share.svg
    python3 scripts/plot.py streams.csv --phase dirtied,disk --y "bytes written a key" --out written.svg

One panel for each phase, both axes logarithmic, each point the median of its rounds. A hollow point
is of a run that was stopped before it was through. Needs nothing but Python.
"""

import argparse
import csv
import math
import statistics
import sys
from collections import defaultdict
from html import escape

# Of each variant its name in the legend, its colour (all can be told apart by those who are colour
# blind, together with the marks), its mark and its dashes.
STYLES = {
    "everseen": ("Everseen", "#0072b2", "circle", ""),
    "everseen-batch": ("Everseen, batches", "#0072b2", "circle", ""),
    "everseen-large": ("Everseen, large batches", "#0072b2", "diamond", "2 3"),
    "everseen-commits": ("Everseen, commits", "#0072b2", "square", "6 3"),
    "everseen-shared": ("Everseen, key by key", "#56b4e9", "circle", ""),
    "everseen-exclusive": ("Everseen, exclusive", "#56b4e9", "square", "6 3"),
    "fastbloom": ("fastbloom", "#009e73", "up", ""),
    "bloomfilter": ("bloomfilter", "#009e73", "down", "2 3"),
    "hashset": ("HashSet<u64>", "#8a7500", "diamond", ""),
    "mapped": ("plain mapped filter", "#d55e00", "up", ""),
    "mapped-random": ("the same, MADV_RANDOM", "#d55e00", "down", "6 3"),
    "redb": ("redb", "#cc79a7", "circle", ""),
    "lmdb": ("LMDB", "#9b4f96", "square", ""),
    "fjall": ("fjall", "#555555", "diamond", ""),
}
OTHERS = ["#000000", "#7f7f7f", "#a65628", "#4d4d9f"]
PHASES = {
    "insert": "insert",
    "present": "look up, present",
    "absent": "look up, absent",
    "single": "look up absent, one by one",
    "batches": "look up absent, batches",
    "dirtied": "pages made dirty",
    "disk": "written by the disk",
}
AXES = {
    "keys": "keys in the filter",
    "bytes": "size of a classic filter for the keys",
    "share": "size of a classic filter ÷ memory",
}
FONT = "font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'"
# Texts are faint unless they are titles (t), headings (b) or names (i); m centres them, e ends them at their place,
# s makes them small. Paths are the grid (g), a frame (f), a dashed line (d), lines (l) and marks (p), hollow ones
# too (h).
CLASSES = (
    "text{fill:#57606a}.t,.b,.i{fill:#24292f}.t,.b{font-weight:600}.t{font-size:15px}"
    ".m{text-anchor:middle}.e{text-anchor:end}.s{font-size:11px}"
    "path{fill:none}.g{stroke:#e4e7eb}.f{stroke:#c4c9d0}.d{stroke:#57606a;stroke-dasharray:3 3}"
    ".l,.p{stroke:currentColor;stroke-linejoin:round}.p{fill:currentColor;stroke-width:1.3}.h{fill:#fff}"
)

PANEL_W, PANEL_H, GAP = 270, 290, 14
LEFT, TOP, BOTTOM = 84, 58, 58
# The legend: its least width, what lies before a label, and the width of a letter in the widest of the fonts.
LEGEND, BEFORE_LABEL, LETTER = 182, 16 + 33, 7.4


def main():
    args = arguments()
    points = read(args)
    if not points:
        sys.exit("no rows to draw")
    with open(args.out, "w", encoding="utf-8") as out:
        out.write(draw(points, args))


def arguments():
    parser = argparse.ArgumentParser(description="Draw what a key costs over filter size.")
    parser.add_argument("csv", nargs="+", help="what one of them wrote")
    parser.add_argument("--out", required=True, metavar="SVG", help="the file to write")
    parser.add_argument("--x", choices=AXES, default="bytes", help="what lies across")
    parser.add_argument("--phase", default="insert,present,absent", help="panels, from left to right")
    parser.add_argument("--only", help="only these variants: NAME,…")
    parser.add_argument("--y", default="nanoseconds a key", help="what lies upwards")
    parser.add_argument("--title", help="a line above; else what is drawn")
    return parser.parse_args()


def read(args):
    """The points to draw: phase -> variant -> [(x, ns, whole)], sorted by x."""
    phases = args.phase.split(",")
    only = args.only.split(",") if args.only else None
    rounds = defaultdict(list)
    for path in args.csv:
        with open(path, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["phase"] not in phases or only and row["variant"] not in only:
                    continue
                across = x_of(row, args.x)
                if across is None:
                    sys.exit(f"{path} doesn't tell of memory: draw --x bytes")
                whole = row["done"] == row["asked"]
                rounds[row["phase"], row["variant"], across].append((float(row.get("ns") or row["value"]), whole))
    points = {phase: defaultdict(list) for phase in phases}
    for (phase, variant, across), told in sorted(rounds.items()):
        ns = statistics.median(ns for ns, _ in told)
        points[phase][variant].append((across, ns, all(whole for _, whole in told)))
    return {phase: dict(lines) for phase, lines in points.items() if lines}


def x_of(row, axis):
    if axis == "keys":
        return float(row["keys"])
    size = float(row["filter_bytes"])
    if axis == "bytes":
        return size
    memory = float(row["memory_bytes"])
    return size / memory if memory else None


class Log:
    """A logarithmic axis from pixel `start` to pixel `end`."""

    def __init__(self, values, start, end, base=10.0):
        low, high = math.log(min(values), base), math.log(max(values), base)
        pad = max((high - low) * 0.05, 0.08)
        self.base, self.low, self.high = base, low - pad, high + pad
        self.start, self.end = start, end

    def at(self, value):
        share = (math.log(value, self.base) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def powers(self, most):
        """Powers of the base on the axis; every second, third … of them if there are too many."""
        first, last = math.ceil(self.low), math.floor(self.high)
        step = max(1, math.ceil((last - first + 1) / most))
        return [self.base**power for power in range(first, last + 1) if power % step == 0]

    def between(self):
        """What lies between the powers of ten: 2, 5, 20, 50 …"""
        first, last = math.floor(self.low), math.ceil(self.high)
        steps = [digit * 10.0**power for power in range(first, last + 1) for digit in (2, 5)]
        return [value for value in steps if self.low <= math.log10(value) <= self.high]


def draw(points, args):
    phases = list(points)
    variants = in_order({name for lines in points.values() for name in lines})
    lines = [line for phase in phases for line in points[phase].values()]
    across = [x for line in lines for x, _, _ in line]
    up = [ns for line in lines for _, ns, _ in line]
    longest = max(len(style(name, variants)[0]) for name in variants)
    legend_width = max(LEGEND, BEFORE_LABEL + LETTER * longest)
    width = round(LEFT + len(phases) * (PANEL_W + GAP) + legend_width)
    height = max(TOP + PANEL_H + BOTTOM, TOP + 30 + 21 * len(variants))
    y = Log(up, TOP + PANEL_H, TOP)
    title = args.title or args.y.capitalize()
    svg = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' "
        f"width='{width}' height='{height}' role='img' {FONT} font-size='12'>",
        f"<title>{escape(title)}</title>",
        f"<style>{CLASSES}</style>",
        # A light card, so that it can be read on any page.
        f"<rect width='{width}' height='{height}' rx='8' fill='#fff'/>",
        text(LEFT, 26, title, "t"),
    ]
    ticks = y.powers(8)
    if len(ticks) < 3:
        ticks += y.between()
    middle = TOP + PANEL_H / 2
    svg.append(
        f"<text x='18' y='{middle:.0f}' class='m' transform='rotate(-90 18 {middle:.0f})'>{escape(args.y)}</text>"
    )
    for value in ticks:
        svg.append(text(LEFT - 8, y.at(value) + 4, plain(value), "e"))
    for place, phase in enumerate(phases):
        left = LEFT + place * (PANEL_W + GAP)
        x = Log(across, left, left + PANEL_W, 2.0 if args.x == "bytes" else 10.0)
        svg += panel(points[phase], phase, x, y, ticks, args.x, variants)
    whole = LEFT + (len(phases) * (PANEL_W + GAP) - GAP) / 2
    svg.append(text(whole, TOP + PANEL_H + 44, AXES[args.x], "m"))
    svg += legend(points, phases, variants, width - legend_width + 16)
    svg.append("</svg>")
    return "\n".join(svg) + "\n"


def panel(lines, phase, x, y, ticks, axis, variants):
    left, right, top, bottom = x.start, x.end, y.end, y.start
    svg = [text((left + right) / 2, top - 9, PHASES.get(phase, phase), "m b")]
    across, up = f"h{number(right - left)}", f"V{number(bottom)}"
    grid = [f"M{number(left)} {number(y.at(value))}{across}" for value in ticks]
    for value in x.powers(5):
        at = x.at(value)
        grid.append(f"M{number(at)} {number(top)}{up}")
        label = {"keys": exponent, "bytes": size, "share": plain}[axis](value)
        svg.append(text(at, bottom + 18, label, "m"))
    svg.append(f"<path class='g' d='{''.join(grid)}'/>")
    if axis == "share" and left < x.at(1) < right:
        # Here the filter is as large as memory.
        svg.append(f"<path class='d' d='M{number(x.at(1))} {number(top)}{up}'/>")
        svg.append(text(x.at(1) - 4, bottom - 7, "memory", "e s"))
    svg.append(f"<path class='f' d='M{number(left)} {number(top)}{across}{up}H{number(left)}z'/>")
    # Everseen last, on top of the others.
    for name in reversed(variants):
        if name not in lines:
            continue
        places = [(x.at(at), y.at(ns), whole) for at, ns, whole in lines[name]]
        line = "M" + "L".join(f"{number(at)} {number(up)}" for at, up, _ in places)
        svg.append(series(name, variants, line, places))
    return svg


def legend(points, phases, variants, left):
    """The variants by name, in the order of their lines' right ends in the first panel."""

    def height(name):
        ends = [points[phase][name][-1] for phase in phases if name in points[phase]]
        return -ends[0][1]

    svg = []
    for place, name in enumerate(sorted(variants, key=height)):
        at = TOP + 10 + 21 * place
        svg.append(series(name, variants, f"M{number(left)} {at}h26", [(left + 13, at, True)]))
        svg.append(text(left + 33, at + 4, style(name, variants)[0], "i"))
    lines = [line for phase in phases for line in points[phase].values()]
    if not all(whole for line in lines for _, _, whole in line):
        at = TOP + 16 + 21 * len(variants)
        svg.append(text(left, at, "hollow: stopped early", "s"))
    return svg


def series(name, variants, line, places):
    """A line and its marks: (x, y, filled)."""
    _, colour, mark, dashes = style(name, variants)
    stroke = 2.4 if name.startswith("everseen") else 1.5
    dashed = f" stroke-dasharray='{dashes}'" if dashes else ""
    svg = f"<g color='{colour}'><path class='l' stroke-width='{stroke}'{dashed} d='{line}'/>"
    for shown, paint in ((True, "p"), (False, "p h")):
        marks = "".join(shape(mark, x, y) for x, y, filled in places if filled == shown)
        if marks:
            svg += f"<path class='{paint}' d='{marks}'/>"
    return svg + "</g>"


def in_order(names):
    known = [name for name in STYLES if name in names]
    return known + sorted(names - set(known))


def style(name, variants):
    if name in STYLES:
        return STYLES[name]
    others = [other for other in variants if other not in STYLES]
    return name, OTHERS[others.index(name) % len(OTHERS)], "circle", "1 3"


def shape(mark, x, y):
    """The outline of a mark, as a part of a path."""
    dx, dy, outline = {
        "circle": (-3.4, 0, "a3.4 3.4 0 1 0 6.8 0 3.4 3.4 0 1 0-6.8 0"),
        "square": (-3.1, -3.1, "h6.2v6.2h-6.2z"),
        "diamond": (0, -4.4, "l4.4 4.4-4.4 4.4-4.4-4.4z"),
        "up": (0, -4.2, "l4 7.4h-8z"),
        "down": (0, 4.2, "l4-7.4h-8z"),
    }[mark]
    return f"M{number(x + dx)} {number(y + dy)}{outline}"


def text(x, y, content, classes):
    return f"<text x='{number(x)}' y='{number(y)}' class='{classes}'>{escape(content)}</text>"


def number(value):
    return f"{value:.1f}".removesuffix(".0")


def plain(value):
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def exponent(value):
    digits = str(round(math.log10(value))).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))
    return "10" + digits


def size(value):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:g} {unit}"
        value /= 1024
    return f"{value:g} TiB"


if __name__ == "__main__":
    main()
