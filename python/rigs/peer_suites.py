"""The test suites of the packages that `everseen.compat` stands in for, unmodified, against the stand-ins.

    python python/rigs/peer_suites.py

Each peer's source package is downloaded from the package index into a temporary folder, and a module of the peer's
name that holds the stand-in is put before it. Nothing is copied into the repository. A test can't hold if it ends with
`NotImplementedError`, which tells why, or if `INAPPLICABLE` tells why. The rig fails if any other test fails, or if one
in that table holds.
"""

from __future__ import annotations

import ast
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import traceback
from typing import Any

OVERWRITES = "it makes one filter after another in one file; a stand-in never replaces a file that holds something"
FULL = "theirs takes more items than it was made for, at a rate that nobody states"
FOLLOWS = "it takes what a part above that can't hold would have left"

# By the beginning of a test's name.
INAPPLICABLE: dict[str, dict[str, str]] = {
    "pybloom-live": {},
    "pybloomfiltermmap3": {
        "SimpleTestCase::test_bit_array": OVERWRITES,
        "SimpleTestCase::test_create_with_hash_seeds_and_compare": OVERWRITES,
        "SimpleTestCase::test_to_from_base64": "theirs makes files that can be executed (0755) unless told otherwise",
        "SimpleTestCase::test_to_base64_does_not_segfault": "theirs refuses for a filter without a file; a stand-in does it",
        "TestAccuracyMixin::": "a base class, which pytest takes for a test",
        "StringAccuracyMmapTestCase::": OVERWRITES,
        "IntegerAccuracyMmapTestCase::": OVERWRITES,
    },
    "rbloom": {
        "api_suite: 147:": "theirs has another size in bits",
        "operations_with_self: 132:": FOLLOWS,
        "circular_ref: 1": FOLLOWS,
        "test_bloom[1e-7]: 40:": FULL,
        "test_bloom[1e-7]: 41:": FOLLOWS,
        "test_bloom[hash]: 40:": FULL,
        "test_bloom[hash]: 41:": FOLLOWS,
    },
}

SHIMS: dict[str, dict[str, str]] = {
    "pybloom-live": {
        "pybloom_live/__init__.py": "from everseen.compat.pybloom import *\n",
        "pybloom_live/pybloom.py": (
            "from everseen.compat.pybloom import *\n\n\n"
            "def make_hashfuncs(key_size, num_slices):\n"
            "    raise NotImplementedError('hash functions')\n"
        ),
    },
    "pybloomfiltermmap3": {"pybloomfilter.py": "from everseen.compat.pybloomfilter import *\n"},
    "rbloom": {"rbloom.py": "from everseen.compat.rbloom import *\n"},
}

# What is taken from the source package: the tests, and what they import beside the peer itself.
TAKEN = {
    "pybloom-live": {
        "pybloom_live/test_pybloom.py": "test_pybloom.py",
        "pybloom_live/utils.py": "pybloom_live/utils.py",
    },
    "pybloomfiltermmap3": {
        "tests/__init__.py": "tests/__init__.py",
        "tests/simpletest.py": "tests/simpletest.py",
        "tests/accuracytest.py": "tests/accuracytest.py",
    },
    "rbloom": {"tests/api_test.py": "api_test.py"},
}

TESTS = {
    "pybloom-live": ["test_pybloom.py"],
    "pybloomfiltermmap3": ["tests/simpletest.py", "tests/accuracytest.py"],
}


def prepare(peer: str, folder: pathlib.Path) -> str:
    """Lay the peer's tests and the stand-in out in a folder; return the peer's version."""
    download = folder / "download"
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", peer, "-d", download, peer],
        check=True,
    )
    (source,) = download.glob("*.tar.gz")
    for name, text in SHIMS[peer].items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    with tarfile.open(source) as archive:
        for member in archive:
            name = member.name.partition("/")[2]
            if name in TAKEN[peer]:
                path = folder / TAKEN[peer][name]
                path.parent.mkdir(exist_ok=True)
                file = archive.extractfile(member)
                assert file is not None
                path.write_bytes(file.read())
    return source.name.removesuffix(".tar.gz").rpartition("-")[2]


class Outcomes:
    """A plugin of pytest that notes how each test ended."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        name = report.nodeid.partition("::")[2]
        if report.failed:
            self.of[name] = report.longreprtext.strip().splitlines()[-1]
        elif report.when == "call":
            self.of.setdefault(name, "")


def run_pytest(files: list[str]) -> dict[str, str]:
    import pytest

    outcomes = Outcomes()
    pytest.main(["-q", "-p", "no:cacheprovider", "--no-header", "--tb=line", *files], plugins=[outcomes])
    return outcomes.of


def run_statements(path: str) -> dict[str, str]:
    """Run a suite that is one long function a case, statement by statement, so that one that can't hold ends nothing.

    A statement that takes a value which an earlier one failed to make fails as well.
    """
    source = pathlib.Path(path).read_text()
    tree = ast.parse(source)
    module: dict[str, Any] = {"__name__": "suite"}
    exec(compile(source, path, "exec"), module)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    bloom, sha_based = module["Bloom"], module["sha_based"]
    cases: list[tuple[str, str, Any]] = [
        ("api_suite", "api_suite", None),
        ("operations_with_self", "operations_with_self", None),
        ("circular_ref", "circular_ref", None),
        ("test_bloom[1e-7]", "test_bloom", lambda: bloom(13242, 0.0000001)),
        ("test_bloom[sha]", "test_bloom", lambda: bloom(9874124, 0.01, hash_func=sha_based)),
        ("test_bloom[hash]", "test_bloom", lambda: bloom(2837, 0.5, hash_func=hash)),
    ]
    outcomes = {}
    for case, name, argument in cases:
        names = dict(module)
        if argument is not None:
            try:
                names["bloom"] = argument()
            except Exception as error:
                outcomes[case] = repr(error)
                continue
        for statement in functions[name].body:
            text = ast.unparse(statement).splitlines()[0]
            if text.startswith(("test_bloom(", "circular_ref(", "operations_with_self(", "print(")):
                continue
            key = f"{case}: {statement.lineno}: {text}"
            try:
                exec(compile(ast.Module([statement], []), path, "exec"), names)
                outcomes[key] = ""
            except Exception as error:
                outcomes[key] = traceback.format_exception_only(error)[-1].strip()
    return outcomes


def child(peer: str) -> None:
    """Run the suite in this folder and print the outcomes as JSON in the last line."""
    sys.path.insert(0, ".")
    outcomes = run_pytest(TESTS[peer]) if peer in TESTS else run_statements("api_test.py")
    print(json.dumps(outcomes))


def refusal(outcome: str) -> str | None:
    """Return the reason that a `NotImplementedError` gives, if a test ended with one."""
    found = re.match(r"(?:E\s+)?NotImplementedError[:(]\s*(.*)", outcome)
    return found and found[1].strip("')")


def run_child(script: str, part: str, folder: pathlib.Path) -> dict[str, str]:
    """Run a part of a rig in a process of its own, in a folder, and return the outcomes of its tests."""
    command = [sys.executable, str(pathlib.Path(script).resolve()), "--child", part]
    run = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    outcomes: dict[str, str] = json.loads(run.stdout.splitlines()[-1])
    return outcomes


def report(title: str, outcomes: dict[str, str], reasons: dict[str, str]) -> int:
    """Print what holds, and what can't and why; return how many tests end as they should not."""
    wrong = 0
    held = {test for test, outcome in outcomes.items() if not outcome}
    print(f"{title}: {len(held)} of {len(outcomes)} hold")
    for test, outcome in outcomes.items():
        listed = next((reason for name, reason in reasons.items() if test.startswith(name)), None)
        told = refusal(outcome)
        if listed is None and outcome and not told:
            wrong += 1
            print(f"  FAILED: {test}\n    {outcome}")
        elif outcome:
            print(f"  can't hold: {test}\n    {listed or told}")
    for name in reasons:
        if all(test in held for test in outcomes if test.startswith(name)):
            wrong += 1
            print(f"  HOLDS, though it is listed: {name}")
    return wrong


def main() -> int:
    wrong = 0
    for peer, reasons in INAPPLICABLE.items():
        with tempfile.TemporaryDirectory(prefix="everseen-peer-") as name:
            folder = pathlib.Path(name)
            version = prepare(peer, folder)
            outcomes = run_child(__file__, peer, folder)
        wrong += report(f"{peer} {version}", outcomes, reasons)
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2])
    else:
        sys.exit(main())
