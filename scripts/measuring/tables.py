"""Tables that programs print, and those of the page."""

import statistics


def tables(text):
    """The tables in what a program prints: of each the list of its rows, as dictionaries."""
    found, head = [], None
    for line in text.splitlines():
        if not line.startswith("|"):
            head = None
        elif not line.startswith("|--"):
            cells = [cell.strip() for cell in line.rstrip()[1:-1].split("|")]
            if head is None:
                # Where columns have one name, each after the first gets an apostrophe more.
                head = [cell + "'" * cells[:place].count(cell) for place, cell in enumerate(cells)]
                found.append([])
            else:
                found[-1].append(dict(zip(head, cells)))
    return found


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def columns(rows, *names, shown=None):
    """These columns of a program's table."""
    return table(shown or names, [[row.get(name, "") for name in names] for row in rows])


def seconds(values):
    value = statistics.median(values)
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def milliseconds(values):
    return f"{statistics.median(values) * 1000:.1f}" if values else ""
