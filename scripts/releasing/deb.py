"""Debian packages of the command and of the server: the same files as in the archive."""

import gzip
import shutil
import subprocess
import time
import tomllib

from . import binary
from .archive import COMPLETIONS
from .source import TARGET

# Debian wants a reason for each thing that is unusual.
OVERRIDES = """# It is a static program at no fixed address, which lintian takes for a library.
{name}: shared-library-lacks-prerequisites [usr/bin/{name}]
# It was made outside of Debian, and closes no report there.
{name}: initial-upload-closes-no-bugs *
"""


def pack(tree, toolbox, share, out):
    """The members' Cargo.toml say what goes where; what is generated lies in the exported tree's packaging."""
    folder = tree.path / "packaging"
    shutil.copytree(share, folder)
    # Debian names them as the shells load them.
    (folder / "complete" / COMPLETIONS["bash"]).rename(folder / "complete/everseen")
    for page, name in [(tree.path / "CHANGELOG.md", "changelog"), (folder / "THIRD-PARTY.txt", "THIRD-PARTY.txt")]:
        (folder / f"{name}.gz").write_bytes(gzip.compress(page.read_bytes(), mtime=tree.epoch))
    (folder / "copyright").write_text(copyright(tree))
    for program in binary.PROGRAMS:
        (folder / f"{program.name}.lintian").write_text(OVERRIDES.format(name=program.name))
        (folder / f"{program.name}.changelog").write_text(changelog(tree, program.name))
        where = ["--target", TARGET, "--profile", program.profile, "--output", out]
        tree.run(toolbox.cargo("cargo-deb"), "-p", program.package, "--locked", "--no-build", "--no-strip", *where)


def changelog(tree, name):
    date = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(tree.epoch))
    manifest = tomllib.loads((tree.path / "cli/Cargo.toml").read_text())
    maintainer = manifest["package"]["metadata"]["deb"]["maintainer"]
    head = f"{name} ({tree.version}-1) stable; urgency=medium"
    return f"{head}\n\n  * See /usr/share/doc/{name}/changelog.gz.\n\n -- {maintainer}  {date}\n"


def copyright(tree):
    """Debian has the Apache licence's text."""
    mit = (tree.path / "LICENSE-MIT").read_text()
    apache = "On Debian systems, the Apache License 2.0 is in /usr/share/common-licenses/Apache-2.0."
    third = "What the program contains of others, and their licences, is in THIRD-PARTY.txt.gz beside this file."
    return f"Everseen is licensed under Apache-2.0 or MIT, at your option.\n\n{apache}\n\n{mit}\n{third}\n"


def check(out):
    packages = sorted(out.glob("*.deb"))
    assert len(packages) == len(binary.PROGRAMS), packages
    for package in packages:
        subprocess.run(["lintian", "--fail-on", "error", "--allow-root", package], check=True)
        print(f"{package.name}: lintian has no error")
