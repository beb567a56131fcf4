"""Data sets of Hugging Face `datasets`, against an exact set."""

import pathlib
import subprocess
import sys

import pytest

datasets = pytest.importorskip("datasets", reason="datasets is not installed")

import daily
import datasets_days

from everseen import errors
from everseen.datasets import Unseen, remember, unseen, write
from everseen.seenset import SeenSet

# Since 3.12 Python warns of forks beside threads.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


def keys_in(output):
    return datasets.load_from_disk(str(output))["url"][:]


def test_two_processes_equal_an_exact_set_through_kills(folder, seed):
    daily.survives("datasets_days", seed, lambda done: daily.check(seed, done, keys_in))


def test_the_cache_answers_for_one_state_of_the_set(folder, seed, monkeypatch):
    calls = []
    call = Unseen.__call__
    monkeypatch.setattr(Unseen, "__call__", lambda function, batch: (calls.append(1), call(function, batch))[1])
    seen, pages, keys = daily.seen_set(), datasets_days.day_of(seed, 0), daily.exact(seed)[0]

    def fresh(name):
        calls.clear()
        with seen.epoch(name) as day:
            return unseen(day, pages, "url")["url"][:]

    assert fresh("one") == keys and calls
    # Nothing has changed: the cache has it.
    assert fresh("one") == keys and not calls
    with seen.epoch("one") as day:
        day.remember([keys[:100]])
    assert fresh("two") == keys[100:] and calls
    assert fresh("two") == keys[100:] and not calls


def test_a_fingerprint_is_the_same_in_each_process_and_names_what_counts(folder):
    from datasets.fingerprint import Hasher

    seen = daily.seen_set()
    with seen.epoch("one") as day:
        day.remember([["a", "b"]])
    code = """
from datasets.fingerprint import Hasher
from everseen.datasets import Unseen
from everseen.seenset import SeenSet
with SeenSet("set").epoch("two") as day:
    print(Hasher.hash(Unseen(day, "url")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    with seen.epoch("two") as day:
        function = Unseen(day, "url")
        first = Hasher.hash(function)
        assert function({"url": ["a", "c"]}) == [False, True]
        assert Hasher.hash(function) == first == done.stdout.strip()
        others = {Hasher.hash(Unseen(day, "text"))}
        day.remember([["c"]])
    with seen.epoch("three") as day:
        others.add(Hasher.hash(Unseen(day, "url")))
    with SeenSet("other", shards=3).epoch("one") as day:
        others.add(Hasher.hash(Unseen(day, "url")))
    assert len(others - {first}) == 3


def test_formats_of_batches(folder):
    pages = datasets.Dataset.from_dict({"url": ["a", "b", "a", "c"], "n": [1, 2, 3, 4]})
    seen = daily.seen_set()
    with seen.epoch("one") as day:
        day.remember([["b"]])
    with seen.epoch("two") as day:
        for kind in (None, "arrow", "pandas", "polars", "numpy"):
            fresh = unseen(day, pages.with_format(kind), "url")
            assert fresh.with_format(None)["n"][:] == [1, 4], kind
        assert unseen(day, pages.select([1]), "url").num_rows == 0
        assert unseen(day, pages.select([]), "url").num_rows == 0
        nulls = datasets.Dataset.from_dict({"url": ["a", None]})
        with pytest.raises(errors.NullKeyError):
            unseen(day, nulls, "url")
        for name in ("cache_file_name", "new_fingerprint"):
            with pytest.raises(ValueError, match=name):
                unseen(day, pages, "url", **{name: "same"})
        with pytest.raises(TypeError, match="stream"):
            unseen(day, pages.to_iterable_dataset(), "url")
        for kind in (None, "arrow", "pandas", "polars", "numpy"):
            assert unseen(day, pages.with_format(kind), "url").format["type"] == kind
        stream = day.unseen(pages.to_iterable_dataset().with_format("arrow").iter(2), "url")
        assert [n for batch in stream for n in batch["n"].to_pylist()] == [1, 4]


def test_what_is_not_written_is_not_remembered(folder):
    pages = datasets.Dataset.from_dict({"url": ["a", "b"]})
    seen = daily.seen_set()
    with seen.epoch("one", output="out/one") as day, pytest.raises(errors.NotCommittedError):
        remember(day, "url")
    with seen.epoch("one", output="out/one") as day:
        write(day, unseen(day, pages, "url"))
    assert seen.keys == 0
    # It was decided: another try writes nothing else.
    with seen.epoch("one", output="out/one") as day:
        write(day, pages.select([]))
        remember(day, "url")
    assert seen.contains_many(["a", "b"]).all()
    with seen.epoch("one", output="out/one") as day:
        remember(day, "url")
    with seen.epoch("two") as day, pytest.raises(ValueError, match="no output"):
        write(day, pages)


def test_zeros_at_the_end_of_keys_count(folder):
    """Arrays of numpy have none."""
    keys = [b"abc\0", b"abd", b"abe\0"]
    pages = datasets.Dataset.from_dict({"url": keys})
    seen = daily.seen_set()
    with seen.epoch("one") as day:
        day.remember([[b"abc\0", b"abe"]])
    with seen.epoch("two") as day:
        for kind in (None, "arrow", "numpy"):
            fresh = unseen(day, pages.with_format(kind), "url").with_format(None)
            assert fresh["url"][:] == [b"abd", b"abe\0"], kind
        with pytest.raises(TypeError, match="lose zeros"):
            pages.with_format("numpy").filter(Unseen(day, "url"), batched=True)


def test_what_a_killed_try_has_left_goes(folder):
    pages = datasets.Dataset.from_dict({"url": ["a", "b", "c"]})
    seen = daily.seen_set()
    with seen.epoch("one", output="out/one") as day:
        pages.save_to_disk("out/one", num_shards=3)
        pathlib.Path("out/one/notes.txt").write_text("of the user")
        write(day, unseen(day, pages, "url"))
        remember(day, "url")
    assert [file.name for file in pathlib.Path("out/one").glob("*.arrow")] == ["data-00000-of-00001.arrow"]
    assert pathlib.Path("out/one/notes.txt").exists()
    # A day that is published is not decided again, whatever was removed of the set.
    seen.vacuum(keep=1)
    with seen.epoch("one", output="out/one") as day:
        write(day, unseen(day, pages, "url"))
        remember(day, "url")
    assert keys_in("out/one") == ["a", "b", "c"]
