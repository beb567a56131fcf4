"""The journal of a crawl's requests, against a model."""

import os
import random

import pytest

from everseen._journal import Journal, JournalError

SEED = int.from_bytes(os.urandom(4), "big")


def grown(rng, journal, steps):
    """Adds and ends requests. Returns what was to do at each length on the way: by place, the content."""
    live, history = {}, {0: {}}
    for _ in range(steps):
        if live and rng.random() < 0.45:
            place = rng.choice(list(live))
            journal.done(place, len(live.pop(place)))
        else:
            content = rng.randbytes(rng.choice([0, 1, 50, 3000]))
            live[journal.add(content)] = content
        history[journal.length] = dict(live)
    return history


def test_it_goes_back_to_any_length(folder):
    rng = random.Random(SEED)
    journal = Journal.create(folder, 7)
    history = grown(rng, journal, 300)
    journal.sync()
    journal.close()
    whole = Journal.path(folder, 7).read_bytes()
    for length, live in history.items():
        Journal.path(folder, 7).write_bytes(whole)
        again, found = Journal.open(folder, 7, length)
        assert {place: again.read(place) for place in found} == live, f"seed {SEED}"
        assert list(found) == sorted(found)
        # What was behind is gone, and does not come back.
        more = again.add(b"more")
        assert os.path.getsize(Journal.path(folder, 7)) == again.length
        assert again.read(more) == b"more"
        again.close()


def test_a_length_that_is_none_is_refused(folder):
    journal = Journal.create(folder, 1)
    history = grown(random.Random(SEED), journal, 20)
    journal.close()
    for length in {*range(0, max(history) + 10)} - history.keys():
        with pytest.raises(JournalError, match="damaged"):
            Journal.open(folder, 1, length)


def test_every_damaged_byte_is_noticed(folder):
    rng = random.Random(SEED)
    journal = Journal.create(folder, 1)
    grown(rng, journal, 30)
    length = journal.length
    journal.close()
    path = Journal.path(folder, 1)
    whole = path.read_bytes()
    for place in rng.sample(range(length), min(length, 300)):
        damaged = bytearray(whole)
        damaged[place] ^= rng.randrange(1, 256)
        path.write_bytes(damaged)
        with pytest.raises(JournalError, match="damaged"):
            Journal.open(folder, 1, length)
    path.unlink()
    with pytest.raises(JournalError, match="missing"):
        Journal.open(folder, 1, length)


def test_it_is_rewritten(folder):
    rng = random.Random(SEED)
    journal = Journal.create(folder, 1)
    history = grown(rng, journal, 200)
    live = history[journal.length]
    again, moved = journal.rewritten(live)
    assert Journal.numbers(folder) == [1, 2]
    assert {place: again.read(moved[place]) for place in live} == live, f"seed {SEED}"
    # In the same order.
    assert [moved[place] for place in sorted(live)] == sorted(moved.values())
    length = again.length
    again.close()
    journal.close()
    _, found = Journal.open(folder, 2, length)
    assert set(found) == set(moved.values())
    Journal.remove_others(folder, 2)
    assert Journal.numbers(folder) == [2]


def test_a_full_disk_leaves_it_whole(folder, monkeypatch):
    journal = Journal.create(folder, 1)
    first = journal.add(b"first")
    pwrite = os.pwrite

    def half(handle, data, place):
        if len(data) > 8:
            return pwrite(handle, data[:8], place)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(OSError, match="space"):
        journal.add(b"x" * 90)
    monkeypatch.undo()
    second = journal.add(b"second")
    length = journal.length
    journal.close()
    again, live = Journal.open(folder, 1, length)
    assert {place: again.read(place) for place in live} == {first: b"first", second: b"second"}
