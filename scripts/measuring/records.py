"""Keys in records: the command beside what reads JSON and CSV."""

import collections
import json
import shutil
import statistics
import sys

from .programs import Failed, output, timed, url
from .tables import seconds, table

BYTES = 300
# Two fifths of the records come again.
DISTINCT = 3 / 5

DISTINCT_ON = """
import sys, duckdb
read, path, form = sys.argv[1:]
duckdb.sql(f"COPY (SELECT DISTINCT ON (url) * FROM {read}('{path}')) TO '/dev/null' (FORMAT {form})")
"""


def fields(n):
    """A record with the key `url`, of 300 bytes in JSON."""
    record = {"id": n, "fetched": "2026-11-28T00:00:00Z", "url": url(n)[:-1], "status": 200, "type": "text/html",
              "title": f'Page {n}, "quoted"', "score": n / 7, "links": [n % 97, n % 89], "robots": None}
    record["text"] = "x" * (BYTES - 13 - len(json.dumps(record)))
    return record


def as_json(n):
    return json.dumps(fields(n)) + "\n"


def as_csv(n):
    record = {name: str(value).replace('"', '""') for name, value in fields(n).items()}
    return ",".join(f'"{value}"' if name in ("title", "links") else value for name, value in record.items()) + "\n"


def records(run):
    """Each way once a round, from files in the page cache to nowhere."""
    count = run.of(10_000_000, 30_000)
    numbers = [n * 7919 % int(count * DISTINCT) for n in range(count)]
    lines = run.list("records.jsonl", map(as_json, numbers))
    head = ",".join(fields(0)) + "\n"
    rows = run.list("records.csv", (line for part in ([head], map(as_csv, numbers)) for line in part))
    ever = run.everseen
    ways = [
        ("JSON", "`everseen dedup --json-key url`", [ever, "dedup", "--json-key", "url", "STORE", lines]),
        ("JSON", "`everseen dedup`, whole lines", [ever, "dedup", "STORE", lines]),
        ("JSON", "DuckDB, `DISTINCT ON (url)`", [sys.executable, "-c", DISTINCT_ON, "read_json", lines, "json"]),
        ("JSON", "`jq -r .url \\| everseen dedup`",
         ["sh", "-c", 'jq -r .url "$2" | "$0" dedup "$1"', ever, "STORE", lines]),
        ("CSV", "`everseen dedup --csv-key url`", [ever, "dedup", "--csv-key", "url", "STORE", rows]),
        ("CSV", "`everseen dedup`, whole lines", [ever, "dedup", "STORE", rows]),
        ("CSV", "DuckDB, `DISTINCT ON (url)`", [sys.executable, "-c", DISTINCT_ON, "read_csv", rows, "csv"]),
        ("CSV", "`xan dedup -s url`", ["xan", "dedup", "-s", "url", rows]),
        ("CSV", "`qsv extdedup -s url`", ["qsv", "extdedup", "-s", "url", rows]),
    ]
    took = collections.defaultdict(list)
    for _ in range(min(run.rounds, 3)):
        for form, way, argv in ways:
            if is_there(argv):
                argv = [run.store() if word == "STORE" else word for word in argv]
                took[form, way].append(timed(argv))
    cells = [[form, way, seconds([one for one, _ in times]),
              f"{count / 1e6 / statistics.median(one for one, _ in times):.2f}",
              f"{statistics.median(peak for _, peak in times):.0f}"] for (form, way), times in took.items()]
    return table([f"{count:,} records of {BYTES} bytes", "", "s", "M records/s", "MB of memory"], cells)


def is_there(argv):
    if argv[0] == "sh":
        return shutil.which("jq")
    if argv[0] != sys.executable:
        return shutil.which(argv[0])
    try:
        return output([sys.executable, "-c", "import duckdb"]) == ""
    except Failed:
        return False
