"""What an epoch costs in Spark, beside `dropDuplicates` and an anti-join over all that was seen before, in one run.

    python python/rigs/spark_bench.py --rows 1000000 --history 1 5 10 20
    python python/rigs/spark_bench.py --rows 7000000 --history 1 2 3           2 * 10^7 rows in three epochs
    python python/rigs/spark_bench.py --lines crawl_links_dups.txt.xz          three epochs of real lines, each way

Both ways get the same rows and put out the same keys, which is checked. The history of both is what they themselves have
put out: a table of keys, and a seen set. Times and bytes are of all jobs of an epoch: filter, write, and what makes the
history of the next epoch.
"""

import argparse
import json
import lzma
import os
import pathlib
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests"))

import spark_session  # noqa: E402: beside the tests.
from pyspark.sql import SparkSession  # noqa: E402
from pyspark.sql import functions as sql  # noqa: E402

from everseen.spark import SeenSet  # noqa: E402

LABEL = "everseen.bench"


def session(folder, memory):
    """A session in local mode, or on the cluster that SPARK_MASTER names, whose log of events is kept."""
    os.environ.update(spark_session.environment())
    (folder / "events").mkdir()
    settings = {
        **spark_session.settings(folder),
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": "",
        "spark.executor.extraJavaOptions": "",
        "spark.sql.shuffle.partitions": "16",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": f"file://{folder}/events",
    }
    builder = SparkSession.builder.master(os.environ.get("SPARK_MASTER", "local[2]")).appName("bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("ERROR")
    return found


def shuffled(folder):
    """Bytes and rows shuffled under each label, from the log of events."""
    totals, labels = {}, {}
    for path in (folder / "events").iterdir():
        for line in open(path):
            event = json.loads(line)
            if event["Event"] == "SparkListenerStageSubmitted":
                stage = event["Stage Info"]["Stage ID"]
                labels[stage] = (event.get("Properties") or {}).get(LABEL)
            elif event["Event"] == "SparkListenerTaskEnd" and event.get("Task Metrics"):
                label = labels.get(event["Stage ID"])
                written = event["Task Metrics"]["Shuffle Write Metrics"]
                size, rows = totals.get(label, (0, 0))
                totals[label] = (size + written["Shuffle Bytes Written"], rows + written["Shuffle Records Written"])
    return totals


class Bench:
    """Two ways over the same epochs."""

    def __init__(self, spark, folder, shards):
        self.spark, self.folder = spark, folder
        self.seen = SeenSet(folder / "set", spark=spark, shards=shards)
        self.table = folder / "table"
        self.times = {}

    def label(self, name):
        self.spark.sparkContext.setLocalProperty(LABEL, name)

    def ours(self, name, rows, key):
        """An epoch of the seen set."""
        output = str(self.folder / f"ours-{name}")
        self.label(f"{name} ours")
        began = time.monotonic()
        with self.seen.epoch(name, output=output) as day:
            day.write(day.unseen(rows, key))
            day.remember(key=key)
        self.times[f"{name} ours"] = time.monotonic() - began
        return self.spark.read.parquet(output).count()

    def theirs(self, name, rows, key):
        """Spark's own way: what is new is the history's next part."""
        output = str(self.table / f"epoch={name}")
        self.label(f"{name} theirs")
        began = time.monotonic()
        fresh = rows.dropDuplicates([key])
        parts = sorted(self.table.glob("epoch=*")) if self.table.exists() else []
        if parts:
            history = self.spark.read.parquet(*map(str, parts)).select(key)
            fresh = fresh.join(history, key, "left_anti")
        fresh.write.parquet(output)
        self.times[f"{name} theirs"] = time.monotonic() - began
        return self.spark.read.parquet(output).count()

    def check(self, name, key):
        """Both ways have put out the same keys."""
        self.label("check")
        paths = self.folder / f"ours-{name}", self.table / f"epoch={name}"
        ours, theirs = (self.spark.read.parquet(str(path)).select(key) for path in paths)
        more, lost = (
            one.join(other, key, "left_anti").count() for one, other in ((ours, theirs), (theirs, ours))
        )
        assert more == lost == 0, f"{name}: {more} keys that were seen, {lost} false positives"

    def prefill(self, name, keys, key):
        """History that both have, untimed."""
        self.label("history")
        keys.write.parquet(str(self.table / f"epoch={name}"))
        with self.seen.epoch(name) as day:
            day.remember(self.spark.read.parquet(str(self.table / f"epoch={name}")), key)

    def report(self, totals, days, rows):
        print("| epoch | rows | way | seconds | MB shuffled | rows shuffled |\n|---|---|---|---|---|---|")
        for day in days:
            for way in ("ours", "theirs"):
                size, count = totals.get(f"{day} {way}", (0, 0))
                seconds = self.times[f"{day} {way}"]
                print(f"| {day} | {rows[day]:,} | {way} | {seconds:.1f} | {size / 1e6:.1f} | {count:,} |")


def url(number):
    """A line of some 60 bytes for each number."""
    spread = sql.hex(sql.xxhash64(number))
    return sql.concat(sql.lit("https://example.org/"), spread, sql.lit("/page/"), number).alias("url")


def generated(bench, rows, histories):
    """A day of rows beside a history of 1 to 20 times as many keys: half are new, and a tenth repeats within the day."""
    begun, days, counts = 0, [], {}
    for times in histories:
        name = f"history {times:02} days"
        bench.prefill(f"to {times:02}", bench.spark.range(begun, times * rows).select(url(sql.col("id"))), "url")
        # Half of the day's keys lie below the history's end; the last tenth says the first again.
        number = sql.expr(f"{times * rows - rows // 2} + id % {rows - rows // 10}")
        day = bench.spark.range(rows).select(url(number), sql.col("id"), sql.lit("some other column").alias("more"))
        ways = [bench.ours, bench.theirs]
        new = {way(name, day, "url") for way in (ways if len(days) % 2 == 0 else ways[::-1])}
        assert len(new) == 1, f"{name}: {new}"
        bench.check(name, "url")
        print(f"{name}: {new.pop():,} of {rows:,} rows are new", flush=True)
        # What the day has put out is in the history of both.
        begun = times * rows - rows // 2 + rows - rows // 10
        days.append(name)
        counts[name] = rows
    return days, counts


def lines(bench, path):
    """A file of lines in three epochs."""
    text = bench.folder / "lines.txt"
    opener = lzma.open if path.endswith(".xz") else open
    with opener(path, "rb") as source, open(text, "wb") as plain:
        shutil.copyfileobj(source, plain)
    count = sum(1 for _ in open(text, "rb"))
    everything = bench.folder / "lines.parquet"
    bench.label("history")
    bench.spark.read.text(str(text)).withColumn("n", sql.monotonically_increasing_id()).write.parquet(str(everything))
    # Ids rise as the lines of the file do.
    bounds = bench.spark.read.parquet(str(everything)).approxQuantile("n", [1 / 3, 2 / 3], 0)
    rows = bench.spark.read.parquet(str(everything))
    days = ["1", "2", "3"]
    cuts = [rows.where(sql.col("n") <= bounds[0]), rows.where((sql.col("n") > bounds[0]) & (sql.col("n") <= bounds[1]))]
    cuts.append(rows.where(sql.col("n") > bounds[1]))
    counts = {}
    for day, part in zip(days, cuts, strict=True):
        counts[day] = part.count()
        new = {bench.ours(day, part, "value"), bench.theirs(day, part, "value")}
        assert len(new) == 1, f"epoch {day}: {new}"
        bench.check(day, "value")
        print(f"epoch {day}: {new.pop():,} of {counts[day]:,} lines are new", flush=True)
    assert sum(counts.values()) == count
    return days, counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--history", type=int, nargs="+", default=[1, 2], help="times the day's rows, rising")
    parser.add_argument("--lines", help="a file of lines instead")
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--memory", default="3g")
    given = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="everseen-bench-"))
    try:
        spark = session(folder, given.memory)
        bench = Bench(spark, folder, given.shards)
        days, counts = lines(bench, given.lines) if given.lines else generated(bench, given.rows, given.history)
        keys, size = bench.seen.keys, bench.seen.manifest().size
        table = sum(path.stat().st_size for path in bench.table.rglob("*.parquet"))
        spark.stop()
        bench.report(shuffled(folder), days, counts)
        print(f"{keys:,} keys: {size / 1e6:.1f} MB of shards; the table of the other way has {table / 1e6:.1f} MB")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
