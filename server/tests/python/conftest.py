"""Tests of the built server as its clients see it.

`EVERSEEN_SERVER` names the binary and `EVERSEEN` the command; without them they come from the target folder.
Each test has a folder of its own, which is the current one. Nothing waits by sleeping: tests read until something is said.
"""

import os
import pathlib
import random
import subprocess

import pytest
import served

ROOT = pathlib.Path(__file__).resolve().parents[3]


def built(name, variable):
    """The path of a binary of this repository."""
    if os.environ.get(variable):
        return os.environ[variable]
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    found = [target / profile / name for profile in ("release", "debug") if (target / profile / name).exists()]
    if not found:
        pytest.fail(f"{name} is not built: run `cargo build --release -p everseen-server -p everseen-cli`, or set {variable}")
    return str(max(found, key=lambda path: path.stat().st_mtime))


def command(*arguments, **options):
    """Runs `everseen`."""
    return subprocess.run([built("everseen", "EVERSEEN"), *arguments], capture_output=True, check=False, **options)


class Server(served.Server):
    """The built server."""

    def __init__(self, folder, *arguments, **options):
        super().__init__(built("everseen-server", "EVERSEEN_SERVER"), folder, *arguments, **options)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def server(folder):
    with Server(folder / "stores") as running:
        yield running


@pytest.fixture
def seed():
    chosen = int(os.environ.get("EVERSEEN_SEED", random.randrange(1 << 32)))
    print(f"seed {chosen}")
    return chosen


@pytest.fixture
def told(capsys):
    """Prints a figure whatever pytest captures."""

    def tell(line):
        with capsys.disabled():
            print(f"\n{line}", end="", flush=True)

    return tell
