"""A standalone cluster on this machine, left alone and killed."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

RIGS = pathlib.Path(__file__).parents[1] / "rigs"
RUNS = os.environ.get("EVERSEEN_SPARK_RUNS", "1")

pytestmark = pytest.mark.skipif(shutil.which("java") is None, reason="no java")


def run(name, *arguments):
    """Runs a rig, which checks itself, and returns its last line."""
    command = [sys.executable, str(RIGS / name), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()[-1]


def test_three_epochs_on_a_cluster(folder):
    assert "30000 rows are new, as they should be" in run("spark_cluster.py")


def test_whatever_is_killed_nothing_is_lost(folder, capsys):
    said = run("spark_chaos.py", "--runs", RUNS, "--rows", "10000")
    with capsys.disabled():
        print(f"\n{said}")
    assert said.startswith(f"{RUNS} runs through")
