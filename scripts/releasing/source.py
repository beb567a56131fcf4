"""The commit that a release is made of, and its files in a folder of their own."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = "x86_64-unknown-linux-gnu"
# What a shell may have set that changes the bytes of a build.
CHANGES_BUILDS = re.compile(
    r"(RUSTFLAGS|CARGO_(ENCODED|PROFILE|BUILD|TARGET|INCREMENTAL)|RUSTC|C(XX|PP)?FLAGS|LDFLAGS|CC$|AR$|MATURIN)"
)


@dataclass(frozen=True)
class Tree:
    """The files of a commit."""

    path: Path
    commit: str
    version: str
    # Seconds since 1970, of the commit: the time of every file that is made.
    epoch: int

    @property
    def target(self):
        return self.path.parent / "target"

    def environment(self, rustflags=()):
        """What programs see: nothing that the caller has set for other builds, and no path of this machine."""
        home = os.environ.get("CARGO_HOME") or str(Path.home() / ".cargo")
        renamed = {str(self.path): "/everseen", home: "/cargo"}
        flags = [*rustflags, *(f"--remap-path-prefix={old}={new}" for old, new in renamed.items())]
        kept = {name: value for name, value in os.environ.items() if not CHANGES_BUILDS.match(name)}
        return kept | {
            "CARGO_TARGET_DIR": str(self.target),
            "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
            "CFLAGS": " ".join(f"-ffile-prefix-map={old}={new}" for old, new in renamed.items()),
            "SOURCE_DATE_EPOCH": str(self.epoch),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
        }

    def run(self, *command, rustflags=(), variables=None, **options):
        """Runs a program in the tree. It must succeed."""
        arguments = [str(argument) for argument in command]
        print("+", *arguments, flush=True)
        environment = self.environment(rustflags) | (variables or {})
        return subprocess.run(arguments, cwd=self.path, env=environment, check=True, **options)


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def commit(tagged):
    """Returns the commit of HEAD. A release has the tag of its version; what isn't committed is in neither."""
    if changed := git("status", "--porcelain"):
        sys.exit(f"commit these first:\n{changed}")
    head = git("rev-parse", "HEAD")
    wanted = f"v{version(ROOT)}"
    if tagged and wanted not in git("tag", "--points-at", head).split():
        sys.exit(f"HEAD doesn't have the tag {wanted}; --rehearsal does without")
    return head


def version(root):
    text = (root / "Cargo.toml").read_text()
    return re.search(r'^\[workspace\.package\]\nversion = "(.+)"$', text, re.MULTILINE)[1]


def export(commit, folder):
    """Puts the files of a commit, and nothing else, into a folder that is made again."""
    shutil.rmtree(folder, ignore_errors=True)
    path = folder / "everseen"
    path.mkdir(parents=True)
    packed = subprocess.run(["git", "archive", "--format=tar", commit], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x"], cwd=path, input=packed.stdout, check=True)
    epoch = int(git("log", "-1", "--format=%ct", commit))
    return Tree(path, commit, version(path), epoch)
