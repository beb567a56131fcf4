"""Sessions of Spark that keep to this machine's loopback and to its size."""

import os
import pathlib
import sys

LOOPBACK = "127.0.0.1"


def settings(folder):
    """What every session has here."""
    return {
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.driver.memory": "1g",
        # Sessions are short: what a better compiler takes, none of them wins back.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def environment():
    """What the processes of Spark find in their environment."""
    # Workers have the package that is tested, and what stands beside the tests.
    beside = str(pathlib.Path(__file__).parent)
    return {
        "SPARK_LOCAL_IP": LOOPBACK,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, [beside, os.environ.get("PYTHONPATH")])),
    }


def local(folder, more, cores="local[2,3]"):
    """A session in this process; tasks are tried three times."""
    from pyspark.sql import SparkSession

    os.environ.update(environment())
    builder = SparkSession.builder.master(cores).appName("everseen")
    for name, value in {**settings(folder), **more}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
