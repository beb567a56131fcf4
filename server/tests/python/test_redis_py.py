"""redis-py's own tests of its bf and cf commands, unchanged.

`REDIS_PY` names an unpacked redis-py (its source distribution has the tests) of a version that Python can import, whose
test requirements pytest-asyncio and pytest-timeout are installed.
"""

import os
import re
import subprocess
import sys

import pytest

FILES = ["tests/test_bloom.py", "tests/test_asyncio/test_bloom.py"]
OURS = re.compile(r"::test_(bf|cf)_")
# Functions that can't pass, each with what it fails of: they make other sketches besides, which the server doesn't have.
CANNOT = {"test_bf_reserve": "unknown command 'CMS.INITBYDIM'"}


def run(server, checkout, protocol, *arguments):
    url = f"redis://{server.address}/0"
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts="),
            *("--redis-url", url, "--redis-mod-url", url, "--protocol", protocol),
            *arguments,
        ],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": checkout, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def checkout():
    found = os.environ.get("REDIS_PY")
    if not found:
        pytest.skip("REDIS_PY names no checkout of redis-py")
    for module in ("pytest_asyncio", "pytest_timeout"):
        pytest.importorskip(module)
    return os.path.abspath(found)


@pytest.mark.parametrize("protocol", ["2", "3"])
def test_theirs(server, checkout, protocol, told):
    collected = run(server, checkout, protocol, "--collect-only", *FILES)
    names = [line for line in collected.stdout.splitlines() if OURS.search(line)]
    assert len(names) >= 14, collected.stdout + collected.stderr
    chosen = {name: name.partition("[")[0].rpartition("::")[2] for name in names}
    ran = run(server, checkout, protocol, *(name for name, function in chosen.items() if function not in CANNOT))
    told(f"redis-py, RESP{protocol}, of {len(names)} chosen: {ran.stdout.strip().splitlines()[-1]}")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for name, function in chosen.items():
        if function in CANNOT:
            ran = run(server, checkout, protocol, name)
            assert ran.returncode == 1 and CANNOT[function] in ran.stdout, ran.stdout + ran.stderr
