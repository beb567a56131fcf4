"""Stores that forget."""

import multiprocessing
import os
import pickle
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest

import everseen
from everseen import errors

# With a window of 30 days, a step of two days begins here.
START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)


def opened(at, **options):
    return everseen.open("s.ever", forget_after=30 * DAY, at=at, **options)


def command(*arguments, lines=b""):
    run = [sys.executable, "-m", "everseen", *arguments]
    return subprocess.run(run, input=lines, capture_output=True, check=True).stdout


@pytest.mark.parametrize("window", [30 * DAY, 2_592_000, 2_592_000.0])
def test_a_key_is_new_again_after_its_window_and_a_step(window):
    with everseen.open("s.ever", forget_after=window, at=START) as store:
        assert store.insert_many(["a", "b"]).all()
        store.advance_to(START + 32 * DAY - SECOND)
        assert not store.insert_many(["a", "b"]).any() and "a" in store
        # In seconds since 1970, and in a zone of its own.
        store.advance_to((START + 32 * DAY).timestamp())
        assert "a" not in store and store.insert("a")
        store.advance_to((START + 63 * DAY).astimezone(timezone(5 * timedelta(hours=1))))
        assert "a" in store
        # Time never runs backwards.
        store.advance_to(START)
        assert store.insert("b") and not store.insert("a")


def test_a_key_that_keeps_coming_stays_by_its_last_time(store):
    with opened(START, forget_by="last") as store:
        assert store.stats().forgetting.by == "last"
        store.insert_many(["a", "b"])
        for weeks in range(3, 15, 3):
            store.advance_to(START + 7 * weeks * DAY)
            assert not store.insert("a")
        assert "a" in store and "b" not in store
    with pytest.raises(ValueError, match="there are 'first' and 'last'"):
        everseen.open("x.ever", forget_after=DAY, forget_by="newest")


def test_time_stands_still_where_it_was_told(store):
    with opened(START) as store:
        assert store.stats().forgetting.now == START.timestamp()
    with everseen.open("now.ever", forget_after=30 * DAY) as store:
        assert store.stats().forgetting.now >= datetime.now(UTC).timestamp() - 1


def test_stats_say_how_a_store_forgets():
    with opened(START, forget_steps=30) as store:
        forgetting = store.stats().forgetting
        assert forgetting == everseen.Forgetting(2_592_000.0, 30, START.timestamp(), "first", None, None)
        store.insert("a")
        store.checkpoint()
        forgetting = store.stats().forgetting
        assert forgetting.earliest == forgetting.latest == START.timestamp()
        assert store.stats().kind == "fingerprint" and store.measured() is None
        store.advance_to(START + 32 * DAY)
        store.checkpoint()
        assert (store.stats().keys, len(store)) == (0, 0)
    with everseen.open("keeps.ever") as store:
        assert store.stats().forgetting is None


@pytest.mark.parametrize(
    ("at", "error", "message"),
    [
        (datetime(2026, 1, 1), TypeError, "`at`: expected a datetime with a time zone"),
        ("2026-01-01", TypeError, "`at`: expected a datetime with a time zone"),
        (datetime(1969, 1, 1, tzinfo=UTC), ValueError, "`at`: expected a datetime with a time zone"),
        (-1, ValueError, "at -1: expected a datetime with a time zone"),
        (float("nan"), ValueError, "at NaN: expected a datetime with a time zone"),
        (1_795_786_200_000, ValueError, "seconds, not milliseconds"),
    ],
)
def test_times_that_are_none(at, error, message):
    with pytest.raises(error, match=message):
        opened(at)
    assert os.listdir() == []
    with opened(START) as store, pytest.raises(error, match=message.replace("at", "time", 1)):
        store.advance_to(at)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"forget_after": "30d"}, TypeError, "`forget_after`: expected a timedelta, or seconds"),
        ({"forget_after": -DAY}, ValueError, "`forget_after`: expected a timedelta, or seconds"),
        ({"forget_after": -1.0}, ValueError, "forget_after -1: "),
        ({"forget_after": 0.5}, errors.InvalidOptionError, "a second to a thousand years"),
        ({"forget_after": DAY, "forget_steps": 256}, errors.InvalidOptionError, "1 to 255"),
        ({"forget_steps": 4}, errors.InvalidOptionError, "none without a window"),
        ({"forget_after": DAY, "measured": True}, errors.InvalidOptionError, "false for a store that forgets"),
        ({"forget_after": DAY, "kind": "bloom", "capacity": 1000}, errors.InvalidOptionError, "only kind fingerprint forgets"),
        ({"at": START}, ValueError, "keeps its keys for ever without `forget_after`"),
        ({"at": START, "mode": "x"}, ValueError, "keeps its keys for ever without `forget_after`"),
    ],
)
def test_stores_that_are_not_made(options, error, message):
    with pytest.raises(error, match=message):
        everseen.open("s.ever", **options)
    assert os.listdir() == []


def test_a_store_that_keeps_its_keys_has_no_time():
    everseen.open("keeps.ever").close()
    for mode in ["a", "r+", "r"]:
        with pytest.raises(errors.NeverForgetsError, match="only stores that forget can") as raised:
            everseen.open("keeps.ever", mode=mode, at=START)
        assert isinstance(raised.value, ValueError)
        # It is not left open.
        everseen.open("keeps.ever", exclusive=True, timeout=0.0).close()
    with everseen.open("keeps.ever") as store, pytest.raises(errors.NeverForgetsError):
        store.advance_to(START)
    with pytest.raises(errors.NeverForgetsError):
        everseen.repair("keeps.ever", "never_seen", set_clock=START)
    with pytest.raises(TypeError, match="`set_clock`: expected a datetime with a time zone"):
        everseen.repair("keeps.ever", "never_seen", set_clock=datetime(2026, 1, 1))


def test_an_earlier_time_has_no_effect():
    with opened(START + 10 * DAY) as store:
        store.insert("a")
    # In the same step it makes no difference.
    opened(START + 9 * DAY).close()
    with pytest.warns(errors.NoEffectWarning, match="an earlier `at` has no effect") as caught:
        # `opened` would be the line that has asked for it.
        everseen.open("s.ever", at=START).close()
    assert [warning.filename for warning in caught] == [__file__]


def test_a_wrong_time_is_set_back():
    with opened(START + 10_000 * DAY) as store:
        store.insert("a")
    assert everseen.repair("s.ever", "never_seen", set_clock=START).is_whole
    with opened(START + 29 * DAY) as store:
        assert not store.insert("a")
        store.advance_to(START + 32 * DAY)
        assert store.insert("a")


def test_copies_forget_and_merges_keep_the_younger_age():
    with opened(START) as store:
        store.insert("a")
        store.snapshot("copy.ever")
    for at, seen in [(29, True), (32, False)]:
        with everseen.open("copy.ever", mode="r", at=START + at * DAY) as copy:
            assert ("a" in copy) == seen
    with everseen.open("like.ever", like="s.ever", at=START) as like:
        assert like.stats().forgetting.after == 2_592_000.0
    with everseen.open("copy.ever", at=START + 10 * DAY) as copy:
        assert copy.insert("b")
    everseen.union("both.ever", ["s.ever", "copy.ever"])
    with everseen.open("both.ever", mode="r", at=START + 33 * DAY) as both:
        assert "a" not in both and "b" in both


def test_a_reader_keeps_its_time_to_itself():
    with opened(START) as store, everseen.open("s.ever", mode="r", at=START) as reader:
        store.insert("a")
        reader.advance_to(START + 32 * DAY)
        assert "a" in store and "a" not in reader
        store.advance_to(START + 20 * DAY)
        assert "a" in store and "a" not in reader


def first_seen(store):
    return store.insert("a"), store.stats().forgetting.now


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_go_on_at_the_same_time(method):
    with opened(START) as store, multiprocessing.get_context(method).Pool(1) as pool:
        store.insert("a")
        assert pool.apply(first_seen, [store]) == (False, START.timestamp())
        then = START + 32 * DAY
        store.advance_to(then)
        assert pool.apply(first_seen, [store]) == (True, then.timestamp())
        assert not store.insert("a")


def test_a_pickled_handle_goes_on_where_its_own_was_told():
    with everseen.open("s.ever", forget_after=30 * DAY, at=START) as store:
        store.insert("a")
    reader = everseen.open("s.ever", mode="r", at=START)
    reader.advance_to(START + 32 * DAY)
    pickled = pickle.dumps(reader)
    reader.close()
    with pickle.loads(pickled) as again:
        assert "a" not in again
    # Others may have gone on meanwhile, and this is no reason for a warning.
    with opened(START + 60 * DAY) as store:
        store.insert("a")
    with pickle.loads(pickled) as again:
        assert "a" in again and again.stats().forgetting.now == (START + 60 * DAY).timestamp()


def test_a_handle_that_follows_the_clock_is_carried_with_the_time_that_it_was_told():
    with everseen.open("s.ever", forget_after=30 * DAY) as store:
        store.insert("a")
    then = datetime.now(UTC) + 33 * DAY
    reader = everseen.open("s.ever", mode="r")
    reader.advance_to(then)
    child = os.fork()
    if child == 0:
        os._exit(23 if "a" not in reader else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 23
    pickled = pickle.dumps(reader)
    reader.close()
    with pickle.loads(pickled) as again, pickle.loads(pickle.dumps(again)) as third:
        for handle in (again, third):
            assert "a" not in handle and handle.stats().forgetting.now > then.timestamp() - 1


def test_keys_are_counted_by_their_age():
    with opened(START) as store:
        store.insert_many(["a", "b"])
        store.checkpoint()
        store.advance_to(START + 4 * DAY)
        store.insert("c")
        ages = store.keys_by_age()
        assert isinstance(ages, everseen.KeysByAge) and ages.are_all_read
        expected = [(START, 2), (START + 4 * DAY, 1)]
        assert ages.steps == [
            everseen.KeysOfStep(came.timestamp(), (came + 32 * DAY).timestamp(), keys) for came, keys in expected
        ]
    with everseen.open("kept.ever") as store:
        assert store.keys_by_age() is None


def test_the_command_and_python_share_a_store():
    dedup = ["dedup", "-q", "--forget-after", "30d", "--at"]
    assert command(*dedup, "2026-01-01", "c.ever", lines=b"a\nb\n") == b"a\nb\n"
    with everseen.open("c.ever", forget_after=30 * DAY, at=START + 20 * DAY) as store:
        assert store.insert_many(["a", "b", "c"]).tolist() == [False, False, True]
    assert command(*dedup, "2026-02-02", "c.ever", lines=b"a\nb\nc\n") == b"a\nb\n"
    with opened(START, transactional=True) as store:
        assert store.insert_many(["a", "b"]).all()
    assert command(*dedup, "2026-01-31", "s.ever", lines=b"a\nc\n") == b"c\n"
    assert command(*dedup, "2026-02-02", "s.ever", lines=b"a\nb\nc\n") == b"a\nb\n"
