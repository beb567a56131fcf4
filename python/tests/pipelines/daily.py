"""Days of rows, and programs over them that are killed at a random moment and run again."""

from __future__ import annotations

import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from everseen.seenset import SeenSet

if TYPE_CHECKING:
    from collections.abc import Callable

DAYS = 2
ROWS = 1_000
# How often each pipeline is killed.
KILLS = int(os.environ.get("EVERSEEN_PIPELINE_KILLS", "2"))


def rows(seed: int, day: int) -> list[str]:
    """The keys of a day, with repeats of its own and of other days'."""
    rng = random.Random(f"{seed} {day}")
    return [f"https://example.org/{rng.randrange(ROWS * (day + 1))}" for _ in range(ROWS)]


def exact(seed: int) -> list[list[str]]:
    """The keys that each day should put out, in their order."""
    seen: set[str] = set()
    expected = []
    for day in range(DAYS):
        fresh = dict.fromkeys(key for key in rows(seed, day) if key not in seen)
        seen |= fresh.keys()
        expected.append(list(fresh))
    return expected


def seen_set() -> SeenSet:
    """A small set of the current folder."""
    return SeenSet("set", shards=3, buffer=1 << 17)


def check(seed: int, done: bool, keys_in: Callable[[pathlib.Path], list[str]]) -> None:
    """Each committed output is the exact one, and what was published is what is remembered."""
    expected = exact(seed)
    outputs = sorted(pathlib.Path("out").glob("*/_SUCCESS"), key=lambda path: int(path.parent.name))
    for day, mark in enumerate(outputs):
        assert keys_in(mark.parent) == expected[day], f"seed {seed}, day {day}"
    published = len(seen_set().epochs)
    assert published <= len(outputs)
    for day, keys in enumerate(expected):
        assert seen_set().contains_many(keys).all() == (day < published), f"seed {seed}, day {day}"
    assert not done or published == DAYS


def say(event: str) -> None:
    """Tells the one that kills that the program has come to an event."""
    os.write(1, f"@ {event}\n".encode())


def around(owner: object, name: str) -> None:
    """Makes calls of a function events, before and after."""
    call = getattr(owner, name)

    def told(*args, **more):
        say(f"before {name}")
        answer = call(*args, **more)
        say(f"after {name}")
        return answer

    setattr(owner, name, told)


def start(module: str, seed: int) -> subprocess.Popen[str]:
    """Runs `drive(seed)` of a module beside this one, as the leader of a group of processes."""
    here = str(pathlib.Path(__file__).resolve().parent)
    path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    code = f"import {module}; {module}.drive({seed})"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(module: str, seed: int, kill_at: int | None = None) -> tuple[bool, int]:
    """Runs a program, and kills it with all its children at an event. Returns whether it was killed, and its events."""
    program, events = start(module, seed), 0
    with program:
        assert program.stdout is not None and program.stderr is not None
        for line in program.stdout:
            events += line.startswith("@ ")
            if events == kill_at:
                os.killpg(program.pid, signal.SIGKILL)
                break
        else:
            errors = program.stderr.read()
            assert program.wait() == 0, errors
            return False, events
    return True, events


def survives(module: str, seed: int, check, folders: tuple[str, ...] = ("set", "out")) -> None:
    """Kills a program so often, at its events from the first run to the last, and lets it end each time it does."""
    rng = random.Random(seed)
    _, total = run(module, seed)
    check(True)
    killed = 0
    while killed < KILLS:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        dead = True
        while dead and killed < KILLS:
            dead, _ = run(module, seed, rng.randrange(1, total))
            check(not dead)
            killed += dead
    assert not run(module, seed)[0]
    check(True)
