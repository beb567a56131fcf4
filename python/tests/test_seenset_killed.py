"""Epochs whose driver is killed before or after each of its writes."""

import os
import pathlib
import random
import shutil

import pytest
import seenset_steps as steps

from everseen.seenset import SeenSet

EPOCHS = 3
# One in this many of all steps is a place to kill at; this many lives have kills alone.
ONE_IN = int(os.environ.get("EVERSEEN_SET_ONE_IN", "12"))
LIVES = int(os.environ.get("EVERSEEN_SET_LIVES", "3"))

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


def run(seed, kill_at=None):
    """Drives in a child. Returns whether it was killed, and how many steps there were if not."""

    def work():
        watched = steps.Steps(kill_at)
        watched.watch()
        steps.drive(seed, EPOCHS)
        return watched.count

    killed, text = steps.in_child(work)
    return killed is not None, text


def put_out():
    """What each committed output holds."""
    folders = sorted(pathlib.Path("out").glob("*/_SUCCESS"), key=lambda path: int(path.parent.name))
    return [(path.parent / "part").read_text().split() for path in folders]


def check(seed, done):
    """The manifest names whole files, and says what was put out, exactly."""
    expected, found = steps.exact(seed, EPOCHS), put_out()
    assert found == expected[: len(found)]
    if not os.path.isdir("set/manifests") or not any(name.endswith(".json") for name in os.listdir("set/manifests")):
        assert not done and not found
        return
    seen = SeenSet("set")
    assert seen.verify() == []
    published = len(seen.epochs)
    assert len(found) - 1 <= published <= len(found)
    for epoch, keys in enumerate(expected):
        assert seen.contains_many(keys).all() == (epoch < published)
    assert not done or published == EPOCHS


def begin_anew():
    for folder in ("set", "out"):
        shutil.rmtree(folder, ignore_errors=True)


def test_whatever_step_is_the_last(folder, capsys):
    seed = int(os.environ.get("EVERSEEN_SEED", random.randrange(1 << 32)))
    killed, text = run(seed)
    assert not killed, f"seed {seed}"
    total = int(text)
    check(seed, done=True)
    first = random.Random(seed).randrange(ONE_IN)
    kills = range(1 + first, total + 1, ONE_IN)
    with capsys.disabled():
        print(f"\nkills at {len(kills)} of {total} steps, seed {seed}")
    for kill_at in kills:
        begin_anew()
        where = f"seed {seed}, step {kill_at}"
        killed, _ = run(seed, kill_at)
        assert killed, where
        try:
            check(seed, done=False)
            killed, _ = run(seed)
            assert not killed
            check(seed, done=True)
        except BaseException as error:
            error.add_note(where)
            raise


def test_lives_of_many_kills(folder, capsys):
    seed = int(os.environ.get("EVERSEEN_SEED", random.randrange(1 << 32)))
    rng, kills = random.Random(seed), 0
    for life in range(LIVES):
        begin_anew()
        while run(f"{seed} {life}", rng.randrange(1, 120))[0]:
            kills += 1
            try:
                check(f"{seed} {life}", done=False)
            except BaseException as error:
                error.add_note(f"seed {seed}, life {life}, kill {kills}")
                raise
        check(f"{seed} {life}", done=True)
        left = sum(len(files) for _, _, files in os.walk("set/shards"))
        assert left <= steps.SHARDS, f"seed {seed}: a vacuum leaves what the manifest names"
    with capsys.disabled():
        print(f"\n{kills} kills in {LIVES} lives, seed {seed}")
    assert kills > LIVES, f"seed {seed}"


def test_what_a_manifest_names_is_durable_before_it(folder, monkeypatch):
    """As far as calls show it: contents, then the folder, then the name; a power cut sees no other order."""
    log = []
    for name in ("fsync", "link", "unlink"):
        call = getattr(os, name)

        def logged(*args, name=name, call=call, **more):
            where = os.readlink(f"/proc/self/fd/{args[0]}") if name == "fsync" else str(args[-1])
            log.append((name, os.path.relpath(where)))
            return call(*args, **more)

        monkeypatch.setattr(os, name, logged)
    seen = SeenSet("set", shards=2, buffer=1 << 17)
    with seen.epoch("one") as day:
        day.remember([["a", "b", "c", "d"]])
        assert log.index(("link", "set/pins/000000000002.json")) > 0
    published = log.index(("link", "set/manifests/000000000002.json"))
    assert ("fsync", "set/manifests") in log[published:]
    for shard in filter(None, seen.manifest().shards):
        written = log.index(("fsync", f"set/{shard.file}"))
        named = log.index(("fsync", f"set/{os.path.dirname(shard.file)}"), written)
        assert named < published
        assert log.index(("fsync", "set/shards")) < published
