"""Days of a Hugging Face data set in files, filtered in two processes."""

import datasets
import pyarrow
from daily import DAYS, around, rows, say, seen_set
from pyarrow import parquet

import everseen.datasets
from everseen.seenset import Epoch


def day_of(seed, day):
    """What comes on a day, from a file, with a cache on disk."""
    table = pyarrow.table({"url": rows(seed, day), "text": ["text"] * len(rows(seed, day))})
    parquet.write_table(table, f"{day}.parquet")
    return datasets.Dataset.from_parquet(f"{day}.parquet", cache_dir="cache")


def drive(seed):
    """All days, from wherever the last run came to. Tells each step, in the processes of `filter` too."""
    call = everseen.datasets.Unseen.__call__

    def told(function, batch):
        say("a batch")
        return call(function, batch)

    everseen.datasets.Unseen.__call__ = told
    for name in ("commit_output", "remember", "publish"):
        around(Epoch, name)
    around(datasets.Dataset, "save_to_disk")
    seen = seen_set()
    for day in range(DAYS):
        pages = day_of(seed, day)
        with seen.epoch(str(day), output=f"out/{day}") as epoch:
            fresh = everseen.datasets.unseen(epoch, pages, "url", num_proc=2, batch_size=150)
            everseen.datasets.write(epoch, fresh)
            everseen.datasets.remember(epoch, "url")
