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
INK, FAINT, GRID = "#24292f", "#57606a", "#e4e7eb"

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
        # A light card, so that it can be read on any page.
        f"<rect width='{width}' height='{height}' rx='8' fill='#ffffff'/>",
        text(LEFT, 26, title, size=15, weight=600),
    ]
    ticks = y.powers(8)
    if len(ticks) < 3:
        ticks += y.between()
    middle = TOP + PANEL_H / 2
    svg.append(
        f"<text x='18' y='{middle:.0f}' text-anchor='middle' fill='{FAINT}' "
        f"transform='rotate(-90 18 {middle:.0f})'>{escape(args.y)}</text>"
    )
    for value in ticks:
        svg.append(text(LEFT - 8, y.at(value) + 4, plain(value), anchor="end", fill=FAINT))
    for place, phase in enumerate(phases):
        left = LEFT + place * (PANEL_W + GAP)
        x = Log(across, left, left + PANEL_W, 2.0 if args.x == "bytes" else 10.0)
        svg += panel(points[phase], phase, x, y, ticks, args.x, variants)
    whole = LEFT + (len(phases) * (PANEL_W + GAP) - GAP) / 2
    svg.append(text(whole, TOP + PANEL_H + 44, AXES[args.x], anchor="middle", fill=FAINT))
    svg += legend(points, phases, variants, width - legend_width + 16)
    svg.append("</svg>")
    return "\n".join(svg) + "\n"


def panel(lines, phase, x, y, ticks, axis, variants):
    left, right, top, bottom = x.start, x.end, y.end, y.start
    svg = [text((left + right) / 2, top - 9, PHASES.get(phase, phase), anchor="middle", weight=600)]
    for value in ticks:
        at = y.at(value)
        svg.append(f"<path d='M{left:.1f} {at:.1f}H{right:.1f}' stroke='{GRID}'/>")
    for value in x.powers(5):
        at = x.at(value)
        svg.append(f"<path d='M{at:.1f} {top:.1f}V{bottom:.1f}' stroke='{GRID}'/>")
        label = {"keys": exponent, "bytes": size, "share": plain}[axis](value)
        svg.append(text(at, bottom + 18, label, anchor="middle", fill=FAINT))
    if axis == "share" and left < x.at(1) < right:
        # Here the filter is as large as memory.
        svg.append(
            f"<path d='M{x.at(1):.1f} {top:.1f}V{bottom:.1f}' stroke='{FAINT}' stroke-dasharray='3 3'/>"
        )
        svg.append(text(x.at(1) - 4, bottom - 7, "memory", anchor="end", fill=FAINT, size=11))
    svg.append(
        f"<rect x='{left:.1f}' y='{top:.1f}' width='{right - left:.1f}' "
        f"height='{bottom - top:.1f}' fill='none' stroke='#c4c9d0'/>"
    )
    # Everseen last, on top of the others.
    for name in reversed(variants):
        if name not in lines:
            continue
        _, colour, mark, dashes = style(name, variants)
        stroke = 2.4 if name.startswith("everseen") else 1.5
        path = "L".join(f"{x.at(at):.1f} {y.at(ns):.1f}" for at, ns, _ in lines[name])
        dashed = f" stroke-dasharray='{dashes}'" if dashes else ""
        svg.append(
            f"<path d='M{path}' fill='none' stroke='{colour}' stroke-width='{stroke}' "
            f"stroke-linejoin='round'{dashed}/>"
        )
        for at, ns, whole in lines[name]:
            svg.append(shape(mark, x.at(at), y.at(ns), colour, whole))
    return svg


def legend(points, phases, variants, left):
    """The variants by name, in the order of their lines' right ends in the first panel."""

    def height(name):
        ends = [points[phase][name][-1] for phase in phases if name in points[phase]]
        return -ends[0][1]

    svg = []
    for place, name in enumerate(sorted(variants, key=height)):
        label, colour, mark, dashes = style(name, variants)
        at = TOP + 10 + 21 * place
        stroke = 2.4 if name.startswith("everseen") else 1.5
        dashed = f" stroke-dasharray='{dashes}'" if dashes else ""
        svg.append(
            f"<path d='M{left} {at}h26' stroke='{colour}' stroke-width='{stroke}'{dashed}/>"
        )
        svg.append(shape(mark, left + 13, at, colour, True))
        svg.append(text(left + 33, at + 4, label))
    lines = [line for phase in phases for line in points[phase].values()]
    if not all(whole for line in lines for _, _, whole in line):
        at = TOP + 16 + 21 * len(variants)
        svg.append(text(left, at, "hollow: stopped early", fill=FAINT, size=11))
    return svg


def in_order(names):
    known = [name for name in STYLES if name in names]
    return known + sorted(names - set(known))


def style(name, variants):
    if name in STYLES:
        return STYLES[name]
    others = [other for other in variants if other not in STYLES]
    return name, OTHERS[others.index(name) % len(OTHERS)], "circle", "1 3"


def shape(mark, x, y, colour, filled):
    paint = f"fill='{colour if filled else '#ffffff'}' stroke='{colour}' stroke-width='1.3'"
    if mark == "circle":
        return f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.4' {paint}/>"
    corners = {
        "square": [(-3.1, -3.1), (3.1, -3.1), (3.1, 3.1), (-3.1, 3.1)],
        "diamond": [(0, -4.4), (4.4, 0), (0, 4.4), (-4.4, 0)],
        "up": [(0, -4.2), (4, 3.2), (-4, 3.2)],
        "down": [(0, 4.2), (4, -3.2), (-4, -3.2)],
    }[mark]
    path = "L".join(f"{x + dx:.1f} {y + dy:.1f}" for dx, dy in corners)
    return f"<path d='M{path}Z' {paint}/>"


def text(x, y, content, anchor="start", fill=INK, size=12, weight=400):
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' fill='{fill}' "
        f"font-size='{size}' font-weight='{weight}'>{escape(content)}</text>"
    )


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
