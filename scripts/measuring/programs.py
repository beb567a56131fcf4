"""Programs that are measured, their lists, and what they take."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "performance.md"


class Skipped(Exception):
    """What a table needs is not there."""


class Failed(Exception):
    """A program that a table needs has failed."""


# --- Programs, lists and times ---------------------------------------------------------------------------------------


class Run:
    def __init__(self, args, scratch):
        self.args, self.quick, self.dir = args, args.quick, scratch
        self.rounds = 1 if args.quick else args.rounds
        self.plots = Path(args.out or PAGE).parent / "plots"
        self.bin = Path(args.bin or ROOT / "target" / "release").resolve()
        self.peers = args.peers and Path(args.peers).resolve()
        cargo = ["cargo", "build", "--release", "--locked"]
        if not args.bin:
            subprocess.run([*cargo, "-p", "everseen-cli"], cwd=ROOT, check=True)
        # A copy, since the build of the benches may link the command again, to a library with their features.
        shutil.copy(self.bin / "everseen", scratch / "everseen")
        if not args.bin:
            subprocess.run([*cargo, "-p", "everseen-benches", "--bins"], cwd=ROOT, check=True)
            if subprocess.run([*cargo, "--manifest-path", "peers/Cargo.toml"], cwd=ROOT).returncode == 0:
                self.peers = ROOT / "peers" / "target" / "release" / "everseen-peers"
        self.everseen = str(scratch / "everseen")

    def of(self, whole, quick):
        return quick if self.quick else whole

    def bench(self, program, *args, quick=True):
        """What a program of `benches/` prints."""
        args = [str(self.bin / program), "--dir", str(self.dir), *(["--quick"] if self.quick and quick else args)]
        return output(args)

    def peers_at(self, *args):
        if not self.peers:
            raise Skipped("the peers are not built")
        return output([str(self.peers), "--dir", str(self.dir), *args])

    def plot(self, name, *args):
        self.plots.mkdir(exist_ok=True)
        output([sys.executable, str(ROOT / "scripts" / "plot.py"), *args, "--out", str(self.plots / name)])

    def list(self, name, lines):
        """A file with these lines, in the page cache."""
        path = self.dir / name
        if not path.exists():
            with open(path, "w", encoding="ascii", buffering=1 << 20) as out:
                out.writelines(lines)
        return str(path)

    def store(self, name="store"):
        """The path of a store that doesn't exist."""
        for old in self.dir.glob(f"{name}.ever*"):
            old.unlink()
        return str(self.dir / f"{name}.ever")


def output(argv):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    if done.returncode:
        raise Failed(f"{Path(argv[0]).name}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def timed(*commands, env=None):
    """Runs these commands at once, and returns the seconds until the last has ended, and the peak MB of the largest."""
    begin = time.perf_counter()
    runs = [subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env) for argv in commands]
    peak = 0
    for run in runs:
        said = run.stderr.read()
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
        # 1 is the "no" of `check`, 3 are lines that another process has claimed.
        if run.returncode not in (0, 1, 3):
            raise Failed(f"{run.args[:2]}: {said.decode(errors='replace').strip() or run.returncode}")
        peak = max(peak, usage.ru_maxrss)
    return time.perf_counter() - begin, peak * 1024 / 1e6


def name(n):
    """A name of 20 bytes; in no order, and none twice."""
    return f"{n * 2654435761 % (1 << 32):08x}.example.org\n"


def url(n):
    """82 bytes."""
    host, folder = n * 40503 % (1 << 16), n * 2654435761 % (1 << 48)
    return f"https://www.host-{host:04x}.example.org/archive/{folder:012x}/pages/{n:016x}.html\n"
