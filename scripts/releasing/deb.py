"""A Debian package of the command: the same file as in the archive."""

import gzip
import shutil
import subprocess
import time
import tomllib

from . import binary
from .archive import COMPLETIONS
from .source import TARGET

# Debian wants a reason for each thing that is unusual.
OVERRIDES = """# One file for all releases of Debian, and for systems that aren't Debian: it is tested once.
everseen: statically-linked-binary [usr/bin/everseen]
# The static file carries the C library and a decoder of zstd, as every build of the command carries the latter.
everseen: embedded-library
# It was made outside of Debian, and closes no report there.
everseen: initial-upload-closes-no-bugs
"""


def pack(tree, toolbox, command, share, out):
    """cli/Cargo.toml says what goes where; what is generated lies in the exported tree's packaging."""
    folder = tree.path / "packaging"
    shutil.copytree(share, folder)
    # Debian names them as the shells load them.
    (folder / "complete" / COMPLETIONS["bash"]).rename(folder / "complete/everseen")
    (folder / "everseen.lintian").write_text(OVERRIDES)
    (folder / "changelog").write_text(changelog(tree))
    whole = (tree.path / "CHANGELOG.md").read_bytes()
    (folder / "changelog.gz").write_bytes(gzip.compress(whole, mtime=tree.epoch))
    (folder / "copyright").write_text(copyright(tree, folder))
    cargo_deb = [toolbox.cargo("cargo-deb"), "-p", "everseen-cli", "--locked", "--no-build", "--no-strip"]
    where = ["--target", TARGET, "--profile", binary.PROFILE, "--output", out]
    assert command == tree.target / TARGET / binary.PROFILE / "everseen", "cargo-deb looks for it there"
    tree.run(*cargo_deb, *where)


def changelog(tree):
    date = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(tree.epoch))
    manifest = tomllib.loads((tree.path / "cli/Cargo.toml").read_text())
    maintainer = manifest["package"]["metadata"]["deb"]["maintainer"]
    head = f"everseen ({tree.version}-1) stable; urgency=medium"
    return f"{head}\n\n  * See /usr/share/doc/everseen/changelog.gz.\n\n -- {maintainer}  {date}\n"


def copyright(tree, folder):
    """Both licences of the project, and those of the crates. Debian has the Apache licence's text."""
    mit = (tree.path / "LICENSE-MIT").read_text()
    third = (folder / "THIRD-PARTY.txt").read_text()
    apache = "On Debian systems, the Apache License 2.0 is in /usr/share/common-licenses/Apache-2.0."
    return f"Everseen is licensed under Apache-2.0 or MIT, at your option.\n\n{apache}\n\n{mit}\n\n{third}\n"


def check(out):
    package = next(out.glob("*.deb"))
    subprocess.run(["lintian", "--fail-on", "error", "--allow-root", package], check=True)
    print(f"{package.name}: lintian has no error")
