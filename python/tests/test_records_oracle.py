"""Keys in records beside another reader of JSON and CSV: that of DuckDB, if it is there.

A million records: `EVERSEEN_RECORDS=1000000 python -m pytest python/tests/test_records_oracle.py`.
"""

import csv
import json
import os
import random
import subprocess
import sys

import pytest

duckdb = pytest.importorskip("duckdb")

COUNT = int(os.environ.get("EVERSEEN_RECORDS", "30000"))
PIECES = ["a", "b", "é", '"', "\\", "\n", "\r\n", "名", "😀", ",", " ", "\t", "x y", "0", "/"]
COLUMNS = "{id: 'BIGINT', key: 'VARCHAR', rest: 'VARCHAR'}"


def some_text(chance):
    return "".join(chance.choices(PIECES, k=chance.randrange(4)))


def records(seed):
    chance = random.Random(seed)
    for number in range(COUNT):
        yield chance, {"id": number, "key": f"{some_text(chance)}{chance.randrange(200)}", "rest": some_text(chance)}


def write_json(path, seed):
    with open(path, "w", encoding="utf-8", newline="") as file:
        for chance, record in records(seed):
            members = list(record.items())
            chance.shuffle(members)
            text = json.dumps(dict(members), ensure_ascii=chance.randrange(2) == 0)
            # One name has several spellings.
            spelled = chance.choice(['"key"', '"k\\u0065y"'])
            file.write(text.replace('"key"', spelled, 1) + "\n")


def write_csv(path, seed, line_end):
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator=line_end)
        rows.writerow(["id", "key", "rest"])
        rows.writerows(record.values() for _, record in records(seed))


def printed(folder, option, path):
    """What the command prints of records, with a store of its own."""
    command = [sys.executable, "-m", "everseen", "dedup", "-q", option, "key", str(folder / "seen.ever"), str(path)]
    return subprocess.run(command, capture_output=True, check=True).stdout.decode()


def firsts(read):
    """The first record of each key."""
    return [number for (number,) in duckdb.sql(f"SELECT min(id) FROM {read} GROUP BY key ORDER BY 1").fetchall()]


def test_json(tmp_path, seed):
    path = tmp_path / "records.jsonl"
    write_json(path, seed)
    ours = [json.loads(line)["id"] for line in printed(tmp_path, "--json-key", path).split("\n")[:-1]]
    assert ours == firsts(f"read_json('{path}', format='newline_delimited', columns={COLUMNS})")
    assert COUNT / 20 < len(ours) < COUNT


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_csv(tmp_path, seed, line_end):
    path = tmp_path / "records.csv"
    write_csv(path, seed, line_end)
    head, *rows = csv.reader(printed(tmp_path, "--csv-key", path).splitlines(keepends=True))
    assert head == ["id", "key", "rest"]
    # Unless it is told of another, DuckDB takes an empty field for none.
    dialect = "header=true, delim=',', quote='\"', escape='\"', nullstr='--none--'"
    assert [int(row[0]) for row in rows] == firsts(f"read_csv('{path}', {dialect}, columns={COLUMNS})")
