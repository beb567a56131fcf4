"""Handles that only read, while others open, change, close and replace the store."""

import os
import pickle
import shutil

import pytest

import everseen
from everseen import errors

KINDS = [{"kind": "fingerprint"}, {"capacity": 100_000}, {"kind": "counting", "capacity": 100_000}, {"kind": "scalable"}]


def add(*keys):
    with everseen.open("a.ever", mode="r+") as store:
        store.insert_many(keys)


@pytest.fixture(params=KINDS, ids=lambda options: options.get("kind", "bloom"))
def reader(request, folder):
    everseen.open("a.ever", **request.param).close()
    with everseen.open("a.ever", mode="r") as opened:
        yield opened


def test_a_reader_sees_what_later_writers_add(reader):
    assert "key 0" not in reader
    for number in range(8):
        add(f"key {number}", *(f"{number} {other}" for other in range(2000)))
        assert f"key {number}" in reader
        assert len(reader) == 2001 * (number + 1)
    assert reader.contains_many([f"key {number}" for number in range(8)]).all()
    assert reader.verify().ok


def test_a_reader_goes_on_when_its_writer_closes(folder):
    with everseen.open("a.ever", 1000) as writer:
        writer.insert("key")
        reader = everseen.open("a.ever", mode="r")
        once = everseen.open("a.ever", mode="r", follow=False)
        assert "key" in reader
        assert "key" in once
    assert "key" in reader
    with pytest.raises(errors.EndedError):
        "key" in once
    add("other")
    assert reader.contains_many(["key", "other"]).all()
    reader.close()
    once.close()


def test_what_a_pickle_opens_follows_as_the_handle_did(folder):
    everseen.open("a.ever", 1000).close()
    for follow in (False, True):
        with everseen.open("a.ever", mode="r", follow=follow) as reader, pickle.loads(pickle.dumps(reader)) as again:
            with everseen.open("a.ever", mode="r+") as writer:
                writer.insert(f"key {follow}")
                assert (f"key {follow}" in reader) == follow
                assert (f"key {follow}" in again) == follow


def test_a_reader_is_told_that_its_file_was_replaced(folder):
    everseen.open("a.ever", 1000).close()
    reader = everseen.open("a.ever", mode="r")
    shutil.copy("a.ever", "new.ever")
    os.replace("new.ever", "a.ever")
    with pytest.raises(errors.ReplacedError) as caught:
        reader.close()
    assert caught.value.filename == str(folder / "a.ever")
    assert "open the store again" in str(caught.value)
    reader.close()
    reader = everseen.open("a.ever", mode="r")
    os.remove("a.ever")
    with pytest.raises(errors.MovedError):
        reader.close()


def test_a_forked_reader_follows_too(reader):
    assert "key" not in reader
    child = os.fork()
    if child == 0:
        try:
            add("key")
            os._exit(0 if "key" in reader and "other" not in reader else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert "key" in reader
