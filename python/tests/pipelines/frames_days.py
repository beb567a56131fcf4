"""Days of rows in Parquet files."""

import pathlib

import pyarrow
from daily import DAYS, around, rows, seen_set
from pyarrow import parquet

import everseen.frames
from everseen.seenset import Epoch


def day_of(seed, day):
    """Writes the rows of a day, to three files whose order counts."""
    keys = rows(seed, day)
    pathlib.Path("in", str(day)).mkdir(parents=True, exist_ok=True)
    third = len(keys) // 3
    for part in range(3):
        some = keys[part * third : (part + 1) * third if part < 2 else len(keys)]
        table = pyarrow.table({"url": some, "n": range(len(some))})
        parquet.write_table(table, f"in/{day}/{part}.parquet", row_group_size=100)
    return f"in/{day}/*.parquet"


def drive(seed):
    """All days, from wherever the last run came to."""
    around(parquet.ParquetWriter, "write_batch")
    for name in ("commit_output", "remember", "publish"):
        around(Epoch, name)
    seen = seen_set()
    for day in range(DAYS):
        files = day_of(seed, day)
        with seen.epoch(str(day), output=f"out/{day}") as epoch:
            everseen.frames.write(epoch, everseen.frames.unseen(epoch, files, "url"))
            everseen.frames.remember(epoch, "url")
