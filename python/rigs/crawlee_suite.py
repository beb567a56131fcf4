"""Crawlee's own tests of request queues, unmodified, with `everseen.crawlee` where its file system client is.

    git clone --depth 1 https://github.com/apify/crawlee-python
    pip install pytest-asyncio
    python python/rigs/crawlee_suite.py crawlee-python

The tests run in a temporary folder. The rig fails if a test fails that `INAPPLICABLE` does not name, or if one in that table
holds. Two things of theirs are given what this client has instead: the state that they persist before they go on as after a
crash is the commit, and the parametrized storage client is this one alone.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import sys
import tempfile

import crawlee
from peer_suites import report, run_child, run_pytest

FILES = "it looks into files of one request each, which only theirs has: here requests are in a journal"

# The tests of each part, and by their names those that can't hold.
SUITES: dict[str, tuple[str, dict[str, str]]] = {
    "file system client": (
        "tests/unit/storage_clients/_file_system/test_fs_rq_client.py",
        {
            "test_request_file_persistence": FILES,
            "test_forefront_add_fetch_handle_parses_linear_number_of_files": FILES,
            "test_cache_refresh_skips_handled_request_files": FILES,
            "test_handled_requests_pruned_from_pending_state": (
                "its handled requests are a set in memory, which can be listed; a store's can't"
            ),
        },
    ),
    "request queue": (
        "tests/unit/storages/test_request_queue.py",
        {"test_handled_request_records_persistence": "of a request that is done, only a hash is kept"},
    ),
}

PLUGIN = """\
import pytest
import crawlee.storage_clients
from crawlee import service_locator

import everseen.crawlee

crawlee.storage_clients.FileSystemStorageClient = everseen.crawlee.StorageClient


class State:
    def __init__(self, client):
        self._client = client

    async def persist_state(self):
        self._client._commit()


everseen.crawlee.RequestQueueClient._state = property(State)


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    monkeypatch.setenv("CRAWLEE_STORAGE_DIR", str(tmp_path))
    service_locator._configuration = service_locator._event_manager = service_locator._storage_client = None
    service_locator.storage_instance_manager.clear_cache()


@pytest.fixture
async def storage_client():
    client = everseen.crawlee.StorageClient()
    service_locator.set_storage_client(client)
    return client
"""


def prepare(clone: pathlib.Path, folder: pathlib.Path) -> None:
    """Lay the tests out in a folder, without the set-up of theirs that other tests want."""
    for name in [*(suite for suite, _ in SUITES.values()), "tests/unit/utils.py"]:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(clone / name, path)
    for package in ("tests", "tests/unit"):
        (folder / package / "__init__.py").touch()
    (folder / "stand_in.py").write_text(PLUGIN)


def child(part: str) -> None:
    """Run a part in this folder and print the outcomes as JSON in the last line."""
    sys.path.insert(0, ".")
    options = ["-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function", "--rootdir", "."]
    print("\n" + json.dumps(run_pytest([*options, "-p", "stand_in", SUITES[part][0]])))


def main() -> int:
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="everseen-crawlee-") as name:
        folder = pathlib.Path(name)
        prepare(pathlib.Path(sys.argv[1]), folder)
        for part, (_, reasons) in SUITES.items():
            wrong += report(f"Crawlee {crawlee.__version__}, {part}", run_child(__file__, part, folder), reasons)
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2])
    else:
        sys.exit(main())
