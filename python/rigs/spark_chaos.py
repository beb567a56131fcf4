"""Epochs on a standalone cluster whose processes are killed, and whose shuffle files are removed, until all are through.

    python python/rigs/spark_chaos.py --runs 100 --rows 200000 --seed 7

Each run is a new set and some epochs. A driver in a process of its own asks before and after each of its writes whether
to go on; there it is killed, or while its jobs run, and so are executors and workers. A driver that has died is started
again, and goes on where the set says. Then what was put out must be, exactly: each key that the epochs had, once, but for
the set's rate. Meanwhile every manifest that appears is read, and every file that it names.
"""

import argparse
import contextlib
import fcntl
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import spark_cluster  # noqa: E402: beside this file.
import spark_session  # noqa: E402: beside the tests.

from everseen import seenset  # noqa: E402
from everseen.seenset import _manifest, _shards  # noqa: E402

EPOCHS = 2
SHARDS = 4
# A driver that is silent for this many seconds hangs.
PATIENCE = 300
EVENTS = ("driver", "driver at a step", "executor", "worker", "shuffle files")


def key_number(ids, run, epoch, rows):
    """Each key comes twice in an epoch, and half of an epoch's keys were in the one before."""
    spread = rows // 2
    return (ids * 48271 + run) % spread + epoch * (spread // 2)


def expected(run, rows):
    """For each epoch its new keys, each with the first row that has it."""
    seen, found = set(), []
    for epoch in range(EPOCHS):
        ids = numpy.arange(rows * epoch, rows * (epoch + 1))
        fresh = {}
        for number, row in zip(key_number(ids, run, epoch, rows).tolist(), ids.tolist(), strict=True):
            if number not in seen:
                fresh.setdefault(number, row)
        seen |= fresh.keys()
        found.append(fresh)
    return found


# The driver.


def ask(name):
    """Says where the driver is, and waits for leave to go on."""
    print(f"at {name}", flush=True)
    if sys.stdin.readline() != "go\n":
        os._exit(3)


def around(module, name):
    """Asks before and after each call of a function."""
    call = getattr(module, name)

    def asking(*args, **more):
        ask(f"before {name}")
        try:
            return call(*args, **more)
        finally:
            ask(f"after {name}")

    setattr(module, name, asking)


def drive(settings, folder, first, last, rows):
    """All runs from the first to the last, on the cluster."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as sql

    from everseen.spark import Epoch, SeenSet

    os.environ.update(spark_session.environment())
    builder = SparkSession.builder.appName("chaos")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for name in ("link", "fsync", "unlink"):
        around(os, name)
    around(fcntl, "flock")
    around(Epoch, "write")
    around(Epoch, "remember")
    for run in range(first, last):
        print(f"run {run}", flush=True)
        spark.conf.set("spark.sql.adaptive.enabled", str(run % 2 == 0).lower())
        # Sets of both sizes: stores that grow, and stores that don't.
        seen = SeenSet(folder / f"set-{run}", shards=SHARDS, buffer=1 << 20, capacity=2 * rows if run % 3 else None)
        for epoch in range(EPOCHS):
            frame = spark.range(rows * epoch, rows * (epoch + 1), numPartitions=4)
            number = key_number(sql.col("id"), run, epoch, rows).alias("number")
            frame = frame.select(sql.concat(sql.lit("key "), number).alias("key"), number, "id")
            with seen.epoch(str(epoch), output=str(folder / f"out-{run}" / str(epoch))) as day:
                day.write(day.unseen(frame, "key", order_by="id" if run % 4 < 2 else None))
                day.remember(key="key")
            seen.vacuum(keep=1 + run % 2)
        print("through", flush=True)
    spark.stop()


# The rig.


class Driver:
    """A driver in a process of its own, with its Java."""

    def __init__(self, arguments, log):
        self.killed = False
        self.log = open(log, "ab")
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--drive", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            start_new_session=True,
            env={**os.environ, **spark_session.environment()},
        )

    def go_on(self):
        with contextlib.suppress(BrokenPipeError, ValueError):
            self.process.stdin.write("go\n")
            self.process.stdin.flush()

    def kill(self):
        """Ends Python, and Java with it."""
        self.killed = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def end(self):
        """Ends what is left of it; returns whether it has failed by itself."""
        try:
            failed = self.process.wait(timeout=30) != 0 and not self.killed
        except subprocess.TimeoutExpired:
            failed = False
        self.kill()
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        self.log.close()
        return failed


class Watch(threading.Thread):
    """Reads each manifest as it appears, and the files that it names."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self._folder = folder
        self._known = set()
        self.complaints = []
        self.manifests = 0
        self.over = threading.Event()

    def run(self):
        while not self.over.wait(0.02):
            for path in self._folder.glob("set-*/manifests/*.json"):
                if path not in self._known:
                    self._known.add(path)
                    try:
                        self._look(path)
                    except Exception as error:
                        self.complaints.append(f"{path}: {error!r}")

    def _look(self, path):
        number = int(path.stem)
        try:
            manifest = _manifest.manifest_of(path.read_bytes(), str(path), number)
        except FileNotFoundError:
            return
        self.manifests += 1
        for shard in filter(None, manifest.shards):
            try:
                found = _shards.digest_of(path.parents[1] / shard.file)
            except FileNotFoundError:
                if path.exists():
                    self.complaints.append(f"{path} names {shard.file}, which is not there")
                return
            if found != (shard.size, shard.sha256):
                self.complaints.append(f"{path} names {shard.file}, which is not whole")


class Rig:
    """Runs, and what befalls them."""

    def __init__(self, cluster, folder, rows, seed):
        self.cluster, self.folder, self.rows = cluster, folder, rows
        self.rng = random.Random(seed)
        self.counts = dict.fromkeys([*EVENTS, "drivers", "failed", "lost", "rows"], 0)
        self.driver = None
        self._timers = []
        self._one = threading.Lock()

    def all_runs(self, runs):
        """Drives until all runs are through."""
        run = 0
        while run < runs:
            self.counts["drivers"] += 1
            self.driver = Driver(self._arguments(run, runs), self.folder / "driver.log")
            try:
                run = self._follow(run)
            finally:
                for timer in self._timers:
                    timer.cancel()
                for timer in self._timers:
                    timer.join()
                self._timers.clear()
                self.counts["failed"] += self.driver.end()
            # Spark gives a job up now and then, when too much befalls it at once.
            assert self.counts["failed"] <= 3 + runs // 5, "drivers fail"

    def summary(self):
        """What has befallen so far."""
        return ", ".join(f"{name} {count}" for name, count in self.counts.items())

    def _arguments(self, run, runs):
        more = {
            **self.cluster.settings(),
            "spark.speculation": "true",
            "spark.speculation.interval": "50ms",
            "spark.speculation.multiplier": "1.05",
            "spark.speculation.quantile": "0.2",
            "spark.speculation.minTaskRuntime": "1ms",
            "spark.task.maxFailures": "50",
            "spark.stage.maxConsecutiveAttempts": "50",
            "spark.network.timeout": "20s",
            "spark.network.timeoutInterval": "5s",
            "spark.executor.heartbeatInterval": "2s",
            "spark.shuffle.io.maxRetries": "1",
            "spark.shuffle.io.retryWait": "100ms",
        }
        settings = [f"{name}={value}" for name, value in more.items()]
        return [str(self.folder), str(run), str(runs), str(self.rows), *settings]

    def _follow(self, run):
        """Goes along with one driver, up to its end; returns the run that is not through yet."""
        plan, step = [], 0
        hang = None
        for line in self.driver.process.stdout:
            if hang:
                hang.cancel()
            hang = threading.Timer(PATIENCE, self.driver.kill)
            hang.daemon = True
            hang.start()
            word, _, rest = line.strip().partition(" ")
            if word == "run":
                run, step, plan = int(rest), 0, self._plan()
            elif word == "through":
                hang.cancel()
                self._check(run)
                print(f"run {run} is through after {self.summary()}", flush=True)
                run += 1
            elif word == "at":
                step += 1
                for event in [event for event in plan if event[1] == step]:
                    if event[0] == "driver at a step":
                        print(f"run {run}: the driver is killed {rest}", flush=True)
                        self._befall(event[0])
                if rest in ("before write", "before remember") and plan:
                    for event, _, delay in plan:
                        if event != "driver at a step" and self.rng.random() < 0.4:
                            timer = threading.Timer(delay, self._befall, [event])
                            self._timers.append(timer)
                            timer.start()
                self.driver.go_on()
        if hang:
            hang.cancel()
        return run

    def _plan(self):
        """What befalls the driver in a run: nothing, or up to three things."""
        count = self.rng.choice([0, 1, 2, 2, 3])
        return [(self.rng.choice(EVENTS), self.rng.randrange(1, 60), self.rng.uniform(0, 2.5)) for _ in range(count)]

    def _befall(self, event):
        with self._one:
            self.counts[event] += 1
            if event.startswith("driver"):
                self.driver.kill()
            elif event == "executor":
                for pid in self.cluster.executors()[:1]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            elif event == "worker":
                self.cluster.workers.pop(0).kill()
                self.cluster.start_worker()
            else:
                for path in list(self.folder.glob("spark-*/executor-*/blockmgr-*/*/shuffle_*")):
                    path.unlink(missing_ok=True)

    def _check(self, run):
        """What was put out is what an exact set says, but for the rate."""
        import pyarrow.dataset

        ordered = run % 4 < 2
        for epoch, fresh in enumerate(expected(run, self.rows)):
            folder = self.folder / f"out-{run}" / str(epoch)
            table = pyarrow.dataset.dataset(folder, format="parquet").to_table()
            numbers, ids = table["number"].to_pylist(), table["id"].to_pylist()
            where = f"run {run}, epoch {epoch}"
            assert len(set(numbers)) == len(numbers), (
                f"{where}: {len(numbers) - len(set(numbers))} keys are there twice"
            )
            extra = set(numbers) - fresh.keys()
            assert not extra, f"{where}: {len(extra)} keys were seen before"
            lost = fresh.keys() - set(numbers)
            assert len(lost) <= 1, f"{where}: {len(lost)} keys are lost"
            self.counts["lost"] += len(lost)
            self.counts["rows"] += self.rows
            for number, row in zip(numbers, ids, strict=True):
                assert row == fresh[number] if ordered else key_number(row, run, epoch, self.rows) == number, where
        seen = seenset.SeenSet(self.folder / f"set-{run}")
        assert seen.epochs == [str(epoch) for epoch in range(EPOCHS)], f"run {run}: {seen.epochs}"
        assert seen.verify() == [], f"run {run}"
        # Gone at once, for whoever watches.
        (self.folder / f"set-{run}").rename(self.folder / "done")
        shutil.rmtree(self.folder / "done")
        shutil.rmtree(self.folder / f"out-{run}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rows", type=int, default=20_000, help="rows of an epoch")
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = random.randrange(1 << 32) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="everseen-chaos-"))
    began = time.monotonic()
    watch = Watch(folder)
    try:
        with spark_cluster.Cluster(folder) as cluster:
            watch.start()
            rig = Rig(cluster, folder, given.rows, seed)
            try:
                rig.all_runs(given.runs)
            except BaseException:
                print((folder / "driver.log").read_text(errors="replace")[-6000:], file=sys.stderr)
                raise
            finally:
                watch.over.set()
                watch.join()
        assert not watch.complaints, "\n".join(watch.complaints)
        seconds = time.monotonic() - began
        print(f"{given.runs} runs through in {seconds:.0f} s: {rig.summary()}; {watch.manifests} manifests, all whole")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--drive"]:
        _, _, where, begin, end, count, *options = sys.argv
        drive(dict(option.split("=", 1) for option in options), pathlib.Path(where), int(begin), int(end), int(count))
    else:
        main()
