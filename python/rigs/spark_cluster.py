"""A standalone cluster of Spark on this machine: a master and two workers, each a process, all on the loopback.

    python python/rigs/spark_cluster.py                 starts it, runs three epochs on it, and ends it
    python python/rigs/spark_cluster.py -- COMMAND ...  runs a command with its address in SPARK_MASTER

Needs Java 17 or later, and `pip install './python[spark]'`.
"""

import argparse
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS))

import spark_session  # noqa: E402: beside the tests.

LOOPBACK = spark_session.LOOPBACK
# Seconds within which a process that was started has to be ready.
PATIENCE = 120


class Process:
    """A process of the cluster, with all that it has started, which a kill ends too."""

    def __init__(self, name, arguments, folder, environment):
        import pyspark

        home = pathlib.Path(pyspark.__file__).parent
        self.name = name
        self._log = folder / f"{name}.log"
        environment = {**os.environ, **spark_session.environment(), **environment, "SPARK_HOME": str(home)}
        environment["SPARK_CONF_DIR"] = environment["SPARK_LOCAL_DIRS"] = str(folder)
        with open(self._log, "ab") as log:
            # A group of its own: its children are found by it, and no others.
            self._process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    @property
    def pid(self):
        return self._process.pid

    def wait_for(self, pattern):
        """Returns what the log says, once it does."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = re.search(pattern, self._log.read_text(errors="replace"))
            if found:
                return found
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} is not ready:\n{self._log.read_text(errors='replace')[-4000:]}")
            time.sleep(0.05)

    def kill(self):
        """Ends it at once, and whatever it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Cluster:
    """A master and workers, which can be killed and started again one by one."""

    def __init__(self, folder, workers=2, memory="1g"):
        self.folder = pathlib.Path(folder)
        self._memory = memory
        self._count = 0
        options = "-Dspark.master.rest.enabled=false -Dspark.deploy.maxExecutorRetries=-1"
        self.master = Process(
            "master",
            ["org.apache.spark.deploy.master.Master", "--host", LOOPBACK, "--port", "0", "--webui-port", "0"],
            self.folder,
            {"SPARK_MASTER_OPTS": options, "SPARK_DAEMON_MEMORY": "256m"},
        )
        self.workers = []
        try:
            self.url = self.master.wait_for(r"Starting Spark master at (spark://\S+)")[1]
            for _ in range(workers):
                self.start_worker()
        except BaseException:
            self.stop()
            raise

    def start_worker(self):
        """Starts one more worker with one core."""
        name = f"worker-{self._count}"
        self._count += 1
        worker = Process(
            name,
            ["org.apache.spark.deploy.worker.Worker", "--host", LOOPBACK, "--port", "0", "--webui-port", "0"]
            + ["--cores", "1", "--memory", self._memory, "--work-dir", str(self.folder / name), self.url],
            self.folder,
            {"SPARK_DAEMON_MEMORY": "256m", "SPARK_WORKER_OPTS": "-Dspark.worker.cleanup.enabled=false"},
        )
        self.workers.append(worker)
        worker.wait_for(r"Successfully registered with master")

    def executors(self):
        """The processes of executors: Java's, started by workers of this cluster."""
        found = []
        for worker in self.workers:
            for pid in processes_of_session(worker.pid):
                with contextlib.suppress(OSError):
                    command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                    if b"CoarseGrainedExecutorBackend" in command and b"java" in command.split(b"\0")[0]:
                        found.append(pid)
        return found

    def settings(self):
        """What a session on this cluster has."""
        return {
            **spark_session.settings(self.folder),
            "spark.master": self.url,
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.executor.processTreeMetrics.enabled": "false",
        }

    def stop(self):
        """Ends all processes of the cluster."""
        for process in [*self.workers, self.master]:
            process.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def processes_of_session(leader):
    """All processes of a session, by the process that has begun it."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                stat = pathlib.Path(f"/proc/{name}/stat").read_text()
                if int(stat.rpartition(")")[2].split()[3]) == leader:
                    found.append(int(name))
    return found


def try_it(cluster, folder):
    """Three epochs on the cluster, which must be those of an exact set."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as sql

    from everseen.spark import SeenSet

    builder = SparkSession.builder.appName("three epochs")
    os.environ.update(spark_session.environment())
    for name, value in cluster.settings().items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        seen, model = SeenSet(folder / "set", shards=4, buffer=1 << 20), set()
        for epoch in range(3):
            numbers = sql.pmod(sql.xxhash64("id"), sql.lit(20_000)) + epoch * 10_000
            rows = spark.range(30_000 * epoch, 30_000 * (epoch + 1)).select(
                sql.concat(sql.lit("k"), numbers).alias("key")
            )
            with seen.epoch(str(epoch), output=str(folder / f"fresh-{epoch}")) as day:
                day.write(day.unseen(rows, "key"))
                day.remember(key="key")
            fresh = [row.key for row in spark.read.parquet(str(folder / f"fresh-{epoch}")).collect()]
            expected = {row.key for row in rows.distinct().collect()} - model
            assert len(fresh) == len(expected) and set(fresh) == expected, f"epoch {epoch}"
            model |= expected
            print(f"epoch {epoch}: {len(fresh)} of 30000 rows are new, as they should be; the set has {seen.keys} keys")
        assert seen.keys == len(model) and seen.verify() == []
    finally:
        spark.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("command", nargs="*", help="what to run with its address in SPARK_MASTER")
    command = parser.parse_args().command
    folder = pathlib.Path(tempfile.mkdtemp(prefix="everseen-spark-"))
    try:
        with Cluster(folder) as cluster:
            if command:
                sys.exit(subprocess.run(command, env={**os.environ, "SPARK_MASTER": cluster.url}).returncode)
            try_it(cluster, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
