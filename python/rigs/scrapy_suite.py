"""Scrapy's own tests of filters and schedulers, unmodified, with `everseen.scrapy` where theirs are.

    pip install testfixtures pytest-twisted sybil
    python python/rigs/scrapy_suite.py

The source package of the installed version is downloaded from the package index into a temporary folder. Its tests of
filters run with `DupeFilter` for `RFPDupeFilter`, those of schedulers with `Scheduler` for `Scheduler`. The rig fails if
a test fails that `INAPPLICABLE` does not name, or if one in that table holds.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import scrapy
from peer_suites import report, run_child, run_pytest

MEMORY = "its fingerprints are a set in memory, which can be listed; a store's can't"

# The tests of each part, and by their names those that can't hold.
SUITES: dict[str, tuple[list[str], dict[str, str]]] = {
    "filter": (
        ["tests/test_dupefilters.py"],
        {
            "TestRFPDupeFilter::test_seenreq_truncated": "it cuts the file `requests.seen`, which only theirs has",
            "TestRFPDupeFilter::test_fingerprints_deprecation": MEMORY,
            "TestRFPDupeFilter::test_request_fingerprint_override_deprecation": (
                "it overrides a method that Scrapy itself deprecates, in favour of `REQUEST_FINGERPRINTER_CLASS`"
            ),
        },
    ),
    "scheduler": (
        ["tests/test_scheduler.py", "tests/test_scheduler_base.py"],
        {"TestMigration::test_migration": "theirs can't go on with another `SCHEDULER_PRIORITY_QUEUE`; this one can"},
    ),
}

PLUGIN = """\
import scrapy.core.scheduler
import scrapy.dupefilters
from scrapy.settings import default_settings

import everseen.scrapy

if {part!r} == "filter":
    default_settings.DUPEFILTER_CLASS = "everseen.scrapy.DupeFilter"
    scrapy.dupefilters.RFPDupeFilter = everseen.scrapy.DupeFilter
else:
    default_settings.SCHEDULER = "everseen.scrapy.Scheduler"
    scrapy.core.scheduler.Scheduler = everseen.scrapy.Scheduler
"""


def download(folder: pathlib.Path) -> None:
    """Lay Scrapy's tests out in a folder."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "scrapy"]
    subprocess.run([*command, "-d", folder, f"scrapy=={scrapy.__version__}"], check=True)
    (source,) = folder.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        for member in archive:
            member.name = member.name.partition("/")[2]
            if member.name.startswith("tests/") or member.name in ("conftest.py", "pyproject.toml"):
                archive.extract(member, folder, filter="data")


def child(part: str) -> None:
    """Run a part in this folder and print the outcomes as JSON in the last line."""
    pathlib.Path("stand_in.py").write_text(PLUGIN.format(part=part))
    sys.path.insert(0, ".")
    files = ["-p", "stand_in", *SUITES[part][0]]
    print("\n" + json.dumps(run_pytest(files)))


def main() -> int:
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="everseen-scrapy-") as name:
        folder = pathlib.Path(name)
        download(folder)
        for part, (_, reasons) in SUITES.items():
            wrong += report(f"Scrapy {scrapy.__version__}, {part}", run_child(__file__, part, folder), reasons)
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2])
    else:
        sys.exit(main())
