"""What a release says of itself, and whether it may be said."""

import re
import subprocess
import tomllib
from pathlib import Path

from .source import ROOT

# No domain ends in `invalid` (RFC 2606): who follows such a link by mistake gets nowhere.
PLACEHOLDERS = {
    "repository": "https://everseen.invalid/repository",
    "homepage": "https://everseen.invalid/homepage",
    "documentation": "https://everseen.invalid/documentation",
    "contact": "contact@everseen.invalid",
}
# What is packed by itself, beside the library.
MEMBERS = ["cli", "keys", "python", "server"]
# This file alone may name them after they are replaced.
OWN = "scripts/releasing/metadata.py"
PINNED = re.compile(r"^[0-9a-f]{40}$")


def problems(root):
    """What must change before a release."""
    return [*placeholders(root), *disagreements(root), *unpinned(root), *undated(root)]


def placeholders(root):
    found = []
    for path, text in tracked(root):
        for number, line in enumerate(text.splitlines(), 1):
            found += [
                f"{path}:{number}: the {name} is a placeholder" for name, value in PLACEHOLDERS.items() if value in line
            ]
    return found


def disagreements(root):
    """The Python package can't inherit what Cargo.toml says."""
    said = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]
    project = tomllib.loads((root / "python/pyproject.toml").read_text())["project"]
    names = ["repository", "homepage", "documentation"]
    found = [
        f"python/pyproject.toml: {name.title()} is not the {name} of Cargo.toml"
        for name in names
        if project["urls"].get(name.title()) != said[name]
    ]
    for member in [".", *MEMBERS]:
        package = tomllib.loads((root / member / "Cargo.toml").read_text())["package"]
        lacking = [name for name in names if package.get(name) != {"workspace": True}]
        found += [f"{Path(member) / 'Cargo.toml'}: {name}.workspace = true is missing" for name in lacking]
    return found + licences(root)


def licences(root):
    """A package has its own copies: a link is not packed on every system."""
    copies = [(member, name) for member in MEMBERS for name in ["LICENSE-APACHE", "LICENSE-MIT"]]
    return [
        f"{member}/{name} is not {name}" for member, name in copies if text(root / member / name) != text(root / name)
    ]


def text(path):
    return path.read_text() if path.is_file() else None


def unpinned(root):
    """A tag of somebody else's repository can be moved; a commit can't."""
    found = []
    for path in sorted((root / ".github/workflows").glob("*.yml")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            used = re.search(r"\buses: *([^@\s]+)@(\S+)", line)
            if used and not PINNED.match(used[2]):
                found.append(f"{path.relative_to(root)}:{number}: {used[1]} is named by {used[2]}, not by its commit")
    return found


def undated(root):
    version = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    text = (root / "CHANGELOG.md").read_text()
    if re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d{{2}}-\d{{2}}$", text, re.MULTILINE):
        return []
    return [f"CHANGELOG.md: {version} has no date"]


def replace(root, values):
    for path, text in tracked(root):
        changed = text
        for name, value in values.items():
            changed = changed.replace(PLACEHOLDERS[name], value)
        if changed != text:
            (root / path).write_text(changed)


def tracked(root):
    """The text of every file that git knows, but for this one."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True).stdout
    for path in listed.split("\0"):
        if path and path != OWN and (root / path).is_file():
            try:
                yield path, (root / path).read_text()
            except UnicodeDecodeError:
                continue
