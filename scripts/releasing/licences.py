"""The licences of what a binary contains."""

import json
import re
import subprocess
from pathlib import Path

from .source import TARGET

LICENCE = re.compile(r"(LICEN[CS]E|COPYING|NOTICE|UNLICENSE)", re.IGNORECASE)
# What a binary is built from.
PROGRAMS = ("everseen-cli", "everseen-server")
WHEEL = ("everseen-cli", "everseen-python")
HEAD = """{names} contain the crates below, each under its licence. A static binary
also contains parts of the Rust standard library (MIT or Apache-2.0) and of the GNU C Library (LGPL-2.1 or later): the
source of Everseen, with scripts/release, links it again with another version of them.
"""


def text(tree, roots):
    """Of some packages: each crate with its licence, and each text of a licence once, with the crates that it stands in."""
    crates, texts = [], {}
    for package in dependencies(tree, roots):
        crates.append(f"{package['name']} {package['version']}: {package['license'] or 'see below'}")
        folder = package["manifest_path"].removesuffix("Cargo.toml")
        for content in files(folder):
            texts.setdefault(content, []).append(package["name"])
    parts = [HEAD.format(names=" and ".join(roots)), "\n".join(crates) + "\n"]
    for content, names in sorted(texts.items(), key=lambda item: (item[1], item[0])):
        parts.append(f"{'-' * 80}\n{', '.join(names)}\n\n{content}\n")
    return "\n".join(parts)


def files(folder):
    for path in sorted(Path(folder).iterdir()):
        if path.is_file() and LICENCE.match(path.name):
            yield path.read_text(encoding="utf-8", errors="replace").strip()


def dependencies(tree, roots):
    """The crates that are linked into one of the packages, in order of their names."""
    cargo = ["cargo", "metadata", "--locked", "--format-version=1", "--filter-platform", TARGET]
    found = json.loads(tree.run(*cargo, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in found["packages"]}
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    begun = [id for id, package in packages.items() if package["name"] in roots]
    assert len(begun) == len(roots), roots
    seen, queue = set(begun), list(begun)
    while queue:
        for dependency in nodes[queue.pop()]["deps"]:
            kinds = [kind["kind"] for kind in dependency["dep_kinds"]]
            if None in kinds and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                queue.append(dependency["pkg"])
    linked = [packages[id] for id in seen if packages[id]["source"]]
    return sorted(linked, key=lambda package: (package["name"], package["version"]))
