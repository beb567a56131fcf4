"""Each test has a folder of its own, which is the current one."""

import os
import random
import signal

import pytest

# A shell's `&` makes the tests ignore Ctrl-C, and a child inherits that. A handler is not inherited: `exec` resets its signal.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def store(folder):
    import everseen

    with everseen.open("store.ever", buffer=1 << 20) as opened:
        yield opened


@pytest.fixture
def seed():
    chosen = int(os.environ.get("EVERSEEN_SEED", random.randrange(1 << 32)))
    print(f"seed {chosen}")
    return chosen
