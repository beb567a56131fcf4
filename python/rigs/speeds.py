"""How long test-and-insert takes in Python: Everseen beside other filters, all in one run.

    pip install rbloom pybloomfiltermmap3 pybloom-live fastbloom-rs
    python python/rigs/speeds.py --keys 10000000 --rounds 3

Each subject says for every key whether it is new, and knows it from then on. Each round runs all subjects, in an order
of its own, each in a process of its own; the table has the median. What is not installed is left out. Everseen's stores
are on disk, in the current folder; their time includes the commit that makes them durable. Nothing else here is durable,
though pybloomfiltermmap3's filter is a mapped file too. `--slow` divides the keys of what takes ten times as long as all
others.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable

FPR = 1e-6


def names(count: int) -> list[str]:
    return [f"https://example.org/{7919 * n % count}/{n}" for n in range(count)]


def _store(count: int):
    import everseen

    return everseen.open("speeds.ever", count, FPR)


def everseen_arrow(keys: list[str]) -> Callable[[], object]:
    import pyarrow

    column, store = pyarrow.array(keys), _store(len(keys))
    return lambda: (store.insert_many(column), store.commit())


def everseen_list(keys: list[str]) -> Callable[[], object]:
    store = _store(len(keys))
    return lambda: (store.insert_many(keys), store.commit())


def everseen_single(keys: list[str]) -> Callable[[], object]:
    store = _store(len(keys))
    insert = store.insert

    def work() -> None:
        for key in keys:
            insert(key)
        store.commit()

    return work


def _each(seen: object, add: Callable[[str], object], keys: Iterable[str]) -> Callable[[], object]:
    def work() -> None:
        for key in keys:
            if key not in seen:
                add(key)

    return work


def rbloom_single(keys: list[str]) -> Callable[[], object]:
    import rbloom

    bloom = rbloom.Bloom(len(keys), FPR)
    return _each(bloom, bloom.add, keys)


def rbloom_batch(keys: list[str]) -> Callable[[], object]:
    """Its fastest way: all tests, then all inserts. Equal keys in a batch all count as new."""
    import rbloom

    bloom = rbloom.Bloom(len(keys), FPR)
    return lambda: ([key in bloom for key in keys], bloom.update(keys))


def pybloomfiltermmap3(keys: list[str]) -> Callable[[], object]:
    import pybloomfilter

    add = pybloomfilter.BloomFilter(len(keys), FPR, "speeds.bloom").add
    return lambda: [add(key) for key in keys]


def pybloom_live(keys: list[str]) -> Callable[[], object]:
    import pybloom_live

    add = pybloom_live.BloomFilter(len(keys), FPR).add
    return lambda: [add(key) for key in keys]


def fastbloom_rs(keys: list[str]) -> Callable[[], object]:
    import fastbloom_rs

    add = fastbloom_rs.BloomFilter(len(keys), FPR).add_if_not_contains
    return lambda: [add(key) for key in keys]


def a_set(keys: list[str]) -> Callable[[], object]:
    seen: set[str] = set()
    return _each(seen, seen.add, keys)


# By name: the function, the module it needs, whether it is slow.
SUBJECTS: dict[str, tuple[Callable[[list[str]], Callable[[], object]], str, bool]] = {
    "everseen, insert_many of an Arrow array": (everseen_arrow, "pyarrow", False),
    "everseen, insert_many of a list": (everseen_list, "everseen", False),
    "everseen, insert": (everseen_single, "everseen", False),
    "rbloom, all `in`, then update": (rbloom_batch, "rbloom", False),
    "rbloom, `in` and add": (rbloom_single, "rbloom", False),
    "pybloomfiltermmap3, add": (pybloomfiltermmap3, "pybloomfilter", False),
    "fastbloom-rs, add_if_not_contains": (fastbloom_rs, "fastbloom_rs", False),
    "pybloom-live, add": (pybloom_live, "pybloom_live", True),
    "set": (a_set, "everseen", False),
}


def one(subject: str, count: int) -> None:
    """Runs a subject in this process, and prints its seconds."""
    work = SUBJECTS[subject][0](names(count))
    gc.collect()
    gc.disable()
    begun = time.perf_counter()
    work()
    print(time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slow", type=int, default=10)
    parser.add_argument("--only", default="", help="subjects whose name has this")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(given.one, given.keys)
        return
    subjects = [
        name for name, (_, module, _) in SUBJECTS.items() if given.only in name and importlib.util.find_spec(module)
    ]
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(given.rounds):
        for name in random.sample(subjects, len(subjects)):
            count = given.keys // given.slow if SUBJECTS[name][2] else given.keys
            folder = tempfile.mkdtemp(prefix="speeds-", dir=".")
            try:
                command = [sys.executable, os.path.abspath(__file__), "--one", name, "--keys", str(count)]
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
                times[name].append(1e9 * float(done.stdout) / count)
            finally:
                shutil.rmtree(folder)
    print(f"{given.keys} keys, {given.rounds} rounds, false-positive rate {FPR}")
    print("| | ns a key, median | least | most |\n|---|--:|--:|--:|")
    for name, found in times.items():
        print(f"| {name} | {statistics.median(found):.0f} | {min(found):.0f} | {max(found):.0f} |")


if __name__ == "__main__":
    main()
