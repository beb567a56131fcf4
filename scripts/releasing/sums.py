"""What was made: sizes, sums, and with what."""

import hashlib
import json
import subprocess

from . import tools
from .source import TARGET


def record(tree, toolbox, out):
    """Writes build.json and SHA256SUMS."""
    made_with = {
        "version": tree.version,
        "commit": tree.commit,
        "source_date_epoch": tree.epoch,
        "target": TARGET,
        "rustc": said("rustc", "--version"),
        "cargo": said("cargo", "--version"),
        "cc": said("cc", "--version").splitlines()[0],
        "glibc": said("ldd", "--version").splitlines()[0],
        "tools": tools.CARGO | tools.PYTHON,
    }
    (out / "build.json").write_text(json.dumps(made_with, indent=2) + "\n")
    lines = [f"{digest(path)}  {path.name}\n" for path in artefacts(out)]
    (out / "SHA256SUMS").write_text("".join(lines))


def artefacts(out):
    return [path for path in sorted(out.iterdir()) if path.name != "SHA256SUMS"]


def differences(first, second):
    names = {path.name for folder in (first, second) for path in artefacts(folder)}
    return [name for name in sorted(names) if not same(first / name, second / name)]


def same(first, second):
    return first.exists() and second.exists() and digest(first) == digest(second)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def table(out):
    return "\n".join(f"{path.stat().st_size:>12,}  {digest(path)}  {path.name}" for path in artefacts(out))


def said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
