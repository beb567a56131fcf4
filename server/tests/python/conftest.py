"""Tests of the built server as its clients see it.

`EVERSEEN_SERVER` names the binary and `EVERSEEN` the command; without them they come from the target folder.
Each test has a folder of its own, which is the current one. Nothing waits by sleeping: tests read until something is said.
"""

import os
import pathlib
import random
import signal
import subprocess

import pytest
from resp import Wire, parsed

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


class Server:
    """A running server, and where it listens."""

    def __init__(self, folder, *arguments, durable="no", unix=None, wrapped_in=(), **options):
        self.folder = pathlib.Path(folder)
        self.arguments = [
            *wrapped_in,
            built("everseen-server", "EVERSEEN_SERVER"),
            *("--dir", str(folder), "--listen", "127.0.0.1:0", "--durable", durable),
            *(["--unix", str(unix)] if unix else []),
            *arguments,
        ]
        self.process = subprocess.Popen(self.arguments, stdout=subprocess.PIPE, text=True, **options)
        self.address = self.ready()
        self.unix = self.ready() if unix else None

    def ready(self):
        line = self.process.stdout.readline()
        assert line.startswith("ready: "), (line, self.process.wait())
        return line.removeprefix("ready: ").removeprefix("unix:").strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def wire(self, protocol="2"):
        wire = Wire(self.address)
        if protocol == "3":
            wire.ask("HELLO", "3")
        return wire

    def ask(self, *command):
        """One command on a connection of its own, as Python's values."""
        with self.wire() as wire:
            return parsed(wire.ask(*command))

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Ends it in good order; returns its status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait()

    def status(self, field):
        """A number from /proc/PID/status, in KiB where it is memory."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1])
        raise KeyError(field)


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
