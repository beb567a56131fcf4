"""Every form of many keys gives what a set gives."""

import contextlib
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import everseen
from everseen import errors

SEED = int.from_bytes(random.randbytes(4), "big")


class Set:
    """The model."""

    def __init__(self):
        self.keys = set()

    def insert_many(self, keys):
        answers = []
        for key in keys:
            key = key.encode() if isinstance(key, str) else key
            answers.append(key is not None and key not in self.keys)
            if key is not None:
                self.keys.add(key)
        return answers


def random_keys(rng, count, kind=None):
    """Keys of which many come again, of all lengths, some beyond what is inline in a view."""
    letters = "abcé\u20ac\U0001f600"
    keys = []
    for _ in range(count):
        text = "".join(rng.choices(letters, k=rng.choice([0, 1, 2, 2, 3, 5, 12, 13, 40])))
        binary = kind == "bytes" or (kind is None and rng.random() < 0.5)
        keys.append(text.encode() if binary else text)
    return keys


def check(store, model, keys, given, **options):
    assert store.insert_many(given, **options).tolist() == model.insert_many(keys), f"seed {SEED}"


FORMS = {
    "list": list,
    "tuple": tuple,
    "iterator": iter,
    "generator": lambda keys: (key for key in keys),
    "dict": lambda keys: dict.fromkeys(keys),
    "object array": lambda keys: np.array([*keys, None], dtype=object)[:-1],
}


@pytest.mark.parametrize("form", FORMS)
def test_python_objects(store, form):
    rng, model = random.Random(SEED), Set()
    for count in (0, 1, 2, 100, 3000):
        keys = random_keys(rng, count)
        if form == "dict":
            keys = list(dict.fromkeys(keys))
        check(store, model, keys, FORMS[form](keys))
    assert len(store) == len(model.keys)
    keys = random_keys(rng, 1000)
    found = store.contains_many(FORMS[form](keys if form != "dict" else list(dict.fromkeys(keys))))
    if form != "dict":
        expected = [(key.encode() if isinstance(key, str) else key) in model.keys for key in keys]
        assert found.tolist() == expected, f"seed {SEED}"


def test_answers_are_arrays_of_bool_that_can_be_written(store):
    answers = store.insert_many(["a", "b"])
    assert answers.dtype == np.bool_
    assert answers.shape == (2,)
    answers[0] = False
    assert store.insert_many([]).dtype == np.bool_
    assert store.contains_many([]).shape == (0,)


def test_a_batch_of_several_pieces(store):
    keys = [f"key {n % 150_000}" for n in range(200_000)]
    expected = [True] * 150_000 + [False] * 50_000
    assert store.insert_many(iter(keys)).tolist() == expected
    assert store.contains_many(keys).all()
    assert not store.contains_many(f"other {n}" for n in range(100_000)).sum() > 5


def test_numpy_arrays_of_bytes(store):
    rng, model = random.Random(SEED), Set()
    for count in (0, 1, 100, 70_000):
        keys = random_keys(rng, count, "bytes")
        array = np.array(keys, dtype="S160") if count else np.array([], dtype="S5")
        check(store, model, keys, array)
        check(store, model, keys[::-2], array[::-2])
    # Numpy drops zeros at the end, here as everywhere.
    assert store.insert_many(np.array([b"zero\0\0", b"zero"])).tolist() == [True, False]
    assert store.insert_many(np.array([b"a\0b", b"a"])).tolist() == [b"a\0b" not in model.keys, b"a" not in model.keys]
    assert store.insert_many(np.array([b""], dtype="S1")).tolist() == [b"" not in model.keys]


def test_numpy_arrays_of_text(store):
    keys = ["ä", "b", "ä"]
    assert store.insert_many(np.array(keys)).tolist() == [True, True, False]
    if hasattr(np.dtypes, "StringDType"):
        array = np.array(keys, dtype=np.dtypes.StringDType())
        assert store.insert_many(array).tolist() == [False, False, False]


def test_arrays_of_other_shapes_and_kinds(store):
    with pytest.raises(ValueError, match="2 dimensions"):
        store.insert_many(np.array([[b"a"]]))
    for masked in (np.ma.array([b"a", b"b"], mask=[False, True]), np.ma.array([b"a"])):
        with pytest.raises(TypeError, match="masked"):
            store.insert_many(masked)
    with pytest.raises(TypeError, match="masked"):
        store.insert_hashes(np.ma.array([1, 2], mask=[False, True]))
    for dtype in ("i8", "f4", "?", "M8[s]"):
        with pytest.raises(TypeError, match="insert_hashes"):
            store.insert_many(np.zeros(1, dtype))
    assert len(store) == 0


@pytest.mark.parametrize("single", ["key", b"key", bytearray(b"key"), memoryview(b"key")])
def test_a_single_key_is_not_many(store, single):
    with pytest.raises(TypeError, match="one key"):
        store.insert_many(single)
    with pytest.raises(TypeError):
        store.contains_many(5)
    assert len(store) == 0


def test_nulls(store):
    with pytest.raises(errors.NullKeyError, match="key 2 is null") as raised:
        store.insert_many(["a", "b", None, "c"])
    # The piece that has the null was not begun.
    assert raised.value.partial.tolist() == []
    assert len(store) == 0
    keys = [None, "a", None, None, "b", "a", None]
    expected = [False, True, False, False, True, False, False]
    assert store.insert_many(keys, nulls="skip").tolist() == expected
    assert store.contains_many(keys, nulls="skip").tolist() == [key is not None for key in keys]
    assert store.insert_many([None], nulls="skip").tolist() == [False]
    with pytest.raises(ValueError, match="nulls"):
        store.insert_many([], nulls="drop")


def test_what_raises_in_the_middle_leaves_answers(store):
    def keys():
        yield from (f"key {n}" for n in range(70_000))
        raise RuntimeError("the source is broken")

    with pytest.raises(RuntimeError, match="broken") as raised:
        store.insert_many(keys())
    assert len(raised.value.partial) == 65_536
    assert raised.value.partial.all()
    assert len(store) == 65_536
    with pytest.raises(TypeError, match="not int") as raised:
        store.insert_many([f"new {n}" for n in range(65_536)] + [1])
    assert len(raised.value.partial) == 65_536


def test_a_list_that_shrinks_meanwhile(store):
    keys = [f"key {n}" for n in range(200_000)]

    def shrink(done, total):
        del keys[100_000:]

    assert len(store.insert_many(keys, progress=shrink)) == 100_000


def test_progress(store):
    seen = []
    store.insert_many([f"key {n}" for n in range(150_000)], progress=lambda *at: seen.append(at))
    assert seen == [(65_536, 150_000), (131_072, 150_000), (150_000, 150_000)]
    seen.clear()
    store.insert_many((f"key {n}" for n in range(10)), progress=lambda *at: seen.append(at))
    assert seen == [(10, None)]
    store.insert_many(["a"], progress=True)
    store.insert_many(["a"], progress=False)
    with pytest.raises(TypeError, match="a bool or a callable, not object"):
        store.insert_many(["a"], progress=object())

    def stop(done, total):
        raise StopIteration

    with pytest.raises(StopIteration) as raised:
        store.insert_many([f"more {n}" for n in range(150_000)], progress=stop)
    assert len(raised.value.partial) == 65_536


CALLS = {
    "insert_many": lambda store, keys: store.insert_many(keys),
    "contains_many": lambda store, keys: store.contains_many(keys),
    "insert_hashes": lambda store, keys: store.insert_hashes(np.arange(len(keys))),
    "insert": lambda store, keys: store.insert("key"),
    "in": lambda store, keys: "key" in store,
    "commit": lambda store, keys: store.commit(),
    "stats": lambda store, keys: store.stats(),
    "Extractor.keys": lambda store, keys: everseen.Extractor(key_field=1).keys(keys.tolist()),
}


@contextlib.contextmanager
def counting():
    """How often another thread has run, while none is made to let another one run: only in calls that don't need Python."""
    counted, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1
            time.sleep(0)

    counter = threading.Thread(target=count)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        counter.start()
        yield counted
    finally:
        sys.setswitchinterval(interval)
        done.set()
        counter.join()


@pytest.mark.parametrize("call", CALLS)
def test_other_threads_go_on_meanwhile(store, call):
    keys = np.array([b"%d" % n for n in range(10_000)])
    # These take a microsecond. On a busy machine a thread waits for its turn for longer than thousands of them.
    most = 2_000_000 if call in ("insert", "in") else 20_000
    with counting() as counted:
        for _ in range(most):
            before = counted[0]
            CALLS[call](store, keys)
            if counted[0] > before:
                return
    pytest.fail(f"no other thread ran in {most} calls")


def test_other_threads_go_on_while_a_dropped_store_is_closed(folder):
    keys = np.array([b"%d" % n for n in range(10_000)])
    with counting() as counted:
        for number in range(200):
            store = everseen.open(f"{number}.ever")
            store.insert_many(keys)
            before = counted[0]
            del store
            if counted[0] > before:
                return
    pytest.fail("no other thread ran")


def test_an_interrupt_ends_a_call_between_pieces(store):
    """The timer runs out in the middle of a single call, in which no line of Python runs."""

    def interrupt(_signal, _frame):
        raise KeyboardInterrupt

    array = np.array([b"%d" % n for n in range(100_000)] * 100)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        # A process that waits for a processor may be interrupted before the call.
        for _ in range(10):
            with pytest.raises(KeyboardInterrupt) as raised:
                signal.setitimer(signal.ITIMER_REAL, 0.02)
                store.contains_many(array)
            partial = getattr(raised.value, "partial", [])
            if len(partial) > 0:
                break
    finally:
        signal.signal(signal.SIGALRM, before)
    assert 0 < len(partial) < len(array)
    assert len(partial) % 65_536 == 0


def test_hashes(store):
    for form in (list, tuple, iter, lambda hashes: np.array(hashes, dtype="i8")):
        assert store.insert_hashes(form([1, -1, 1])).tolist() == ([True, True, False] if form is list else [False] * 3)
    assert store.contains_hashes(np.array([1, 2**64 - 1, 3], dtype="u8")).tolist() == [True, True, False]
    assert store.contains_hashes(np.array([1, -1, 3], dtype=">i8")[::-1]).tolist() == [False, True, True]
    assert store.contains_hash(2**64 - 1)
    assert store.insert_hash(7)
    assert store.insert_hashes([None, 8], nulls="skip").tolist() == [False, True]
    with pytest.raises(errors.NullKeyError):
        store.insert_hashes([None])
    for wrong in (2**64, -(2**63) - 1):
        with pytest.raises(OverflowError):
            store.insert_hash(wrong)
    for wrong in (["a"], [1.5], np.zeros(1, "i4"), np.zeros(1, "f8")):
        with pytest.raises(TypeError):
            store.insert_hashes(wrong)
    many = np.arange(1000, 201_000, dtype="u8")
    assert store.insert_hashes(many).all()
    assert store.contains_hashes(many).all()


def test_snapshot_progress_may_end_it(store, folder):
    store.insert_many([f"key {n}" for n in range(10_000)])
    seen = []
    report = store.snapshot("copy.ever", progress=lambda done, total: seen.append((done, total)))
    assert report.keys == 10_000
    assert seen
    assert all(0 < done <= total for done, total in seen)

    def stop(done, total):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.snapshot("second.ever", progress=stop)
    assert not (folder / "second.ever").exists()


# The first waits for the copy in its callback, the second in the handler of a signal that comes in the midst of it.
WAITS_FOR_ITSELF = """
import signal, sys
import everseen

store = everseen.open("waits.ever")
store.insert_many([f"key {n}" for n in range(100_000)])
store.checkpoint()

def wait(*_):
    store.insert("more")
    getattr(store, sys.argv[2])()

def interrupt(done, total):
    signal.raise_signal(signal.SIGTERM)

signal.signal(signal.SIGTERM, wait)
try:
    store.snapshot("copy.ever", progress={"call": wait, "signal": interrupt}[sys.argv[1]])
except everseen.errors.BusyError:
    store.close()
    print("busy")
"""


@pytest.mark.parametrize("by", ["call", "signal"])
@pytest.mark.parametrize("method", ["verify", "checkpoint", "close"])
def test_what_would_wait_for_its_own_copy_is_refused(folder, by, method):
    command = [sys.executable, "-c", WAITS_FOR_ITSELF, by, method]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100)
    assert ran.stdout == "busy\n"


def test_a_check_reports_and_can_be_interrupted(store):
    store.insert_many([f"key {n}" for n in range(200_000)])
    store.checkpoint()
    seen = []
    assert store.verify(progress=lambda *at: seen.append(at)).ok
    assert seen[0][0] == 0
    assert seen[-1][0] == seen[-1][1] > 0

    def interrupt(done, total):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        store.verify(progress=interrupt)
    assert store.verify().ok


def test_copies_unions_and_plans(store):
    store.insert_many(["a", "b"])
    store.snapshot("copy.ever")
    store.insert("c")
    delta = store.snapshot("delta", since="copy.ever")
    applied = everseen.apply("delta", "copy.ever")
    assert applied.to_generation == delta.to_generation
    assert applied.keys == 3
    with pytest.raises(errors.DeltaError):
        everseen.apply("copy.ever", "copy.ever")

    with everseen.open("one.ever", 1000) as one, everseen.open("two.ever", like="one.ever") as two:
        one.insert("a")
        two.insert("b")
    assert everseen.union("both.ever", ["one.ever", "two.ever"]).keys == 2
    with everseen.open("both.ever") as both:
        assert both.contains_many(["a", "b", "c"]).tolist() == [True, True, False]
    with pytest.raises(errors.MismatchError) as raised:
        everseen.open("three.ever", 1000).close()
        everseen.union("all.ever", ["one.ever", "three.ever"])
    assert raised.value.field

    plan = everseen.plan(1_000_000, 1e-4)
    assert (plan.k, plan.capacity) == (13, 1_000_000)
    assert everseen.plan(capacity=1000, size=plan.bytes).fpr < 1e-9
    with pytest.raises(TypeError, match="give two"):
        everseen.plan(1000)


def test_normalizer():
    normalizer = everseen.Normalizer(sort_query=True, drop_www=True)
    assert normalizer("HTTP://www.Example.org:80/a/../b?b=2&a=1#top") == "http://example.org/b?a=1&b=2"
    assert normalizer.normalize(b"http://example.org") == "http://example.org/"
    with pytest.raises(ValueError, match="no URL: it has no scheme"):
        normalizer("example.org/a")
    assert repr(normalizer) == "Normalizer(sort_query=True, drop_www=True, rules=2)"
    assert everseen.Normalizer()("http://a.example/b/c:/..") == "http://a.example/b/"
    assert everseen.Normalizer(rules=1)("http://a.example/b/c:/..") == "http://a.example/b/c:/"
    assert everseen.Normalizer()(b"http://a.example/caf\xe9") == "http://a.example/caf%E9"
    with pytest.raises(ValueError, match="there are versions 1 to 2"):
        everseen.Normalizer(rules=3)


def test_an_extractor_serves_those_who_share_it():
    extractor = everseen.Extractor(key_field=2)
    records = [f"{n} key{n}" for n in range(200_000)]
    found = []
    threads = [threading.Thread(target=lambda: found.append(extractor.keys(records))) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert all(extractor(f"a b{n}") == b"b%d" % n for n in range(1000))
    for thread in threads:
        thread.join()
    expected = [b"key%d" % n for n in range(200_000)]
    assert found == [expected] * 3
    # An iterator of its own caller.
    assert extractor.keys(record for record in records if extractor(record) != b"key7") == expected[:7] + expected[8:]
    assert extractor.keys(iter(["a", "b c"])) == [None, b"c"]
    assert extractor.keys([]) == []


def test_extractor(folder):
    extractor = everseen.Extractor(json_key=["a.b", "/c"], trim=True)
    assert extractor('{"a": {"b": " x"}, "c": 1.0}') == b"1:x,1:1,"
    with pytest.raises(everseen.errors.NoKeyError, match="no key: it has no /c"):
        extractor.key(b'{"a": {"b": 1}}')
    records = ['{"a": {"b": 1}, "c": 2}', "x"]
    assert extractor.keys(iter(records)) == [b"1:1,1:2,", None]
    assert [extractor.own_key(record) for record in records] == [b"1:1,1:2,", b"\xffx"]
    assert extractor.label == b"everseen lines: json rules=1 key=/a/b key=/c no-key=pass text trim"
    path = folder / "store"
    with everseen.open(path, label=extractor.label) as seen:
        assert everseen.Extractor.for_store(seen).keys(records) == [b"1:1,1:2,", None]
        with pytest.raises(ValueError, match="Extractor.for_store does that"):
            everseen.Normalizer.for_store(seen)
    with everseen.open(folder / "plain", label=b"mine") as seen:
        with pytest.raises(ValueError, match="does not say how records become keys"):
            everseen.Extractor.for_store(seen)
    with everseen.open(folder / "later", label=b"everseen lines: url rules=99 not-url=pass") as seen:
        with pytest.raises(ValueError, match="does not know how"):
            everseen.Extractor.for_store(seen)
    label = b"everseen lines: url rules=1 drop-www not-url=pass"
    with everseen.open(folder / "urls", label=label) as seen:
        assert repr(everseen.Normalizer.for_store(seen)) == "Normalizer(sort_query=False, drop_www=True, rules=1)"
        assert everseen.Extractor.for_store(seen)("http://www.a.b") == b"http://a.b/"
        with pytest.raises(everseen.errors.UrlError):
            everseen.Extractor.for_store(seen)("a")


def test_extractor_of_columns():
    rows = everseen.Extractor(csv_key="url", delimiter=";", ignore_case=True)
    with pytest.raises(everseen.errors.NoKeyError, match="no header"):
        rows("1;A")
    with pytest.raises(everseen.errors.NoKeyError, match="no column url"):
        rows.set_header("id;link")
    rows.set_header(b"id;url\r")
    assert rows.keys(['1;"A;b"', "2;C\r"]) == [b"a;b", b"c"]
    assert everseen.Extractor(key_field=2, delimiter=None, sort_query=False)("  a  b ") == b"b"
    assert everseen.Extractor(key_field=[2, 1], field_separator="::")("a::b") == b"1:b,1:a,"
    for wrong in [{"json_key": ""}, {"csv_key": "0"}, {"key_field": 0}, {"csv_key": "a", "delimiter": ",,"}]:
        with pytest.raises(ValueError):
            everseen.Extractor(**wrong)
    for wrong in [
        {"json_key": "a", "csv_key": "b"},
        {"other": 1},
        {"sort_query": True},
        {"json_key": "a", "drop_www": True},
        {"key_field": 2, "delimiter": ";"},
        {"csv_key": "a", "field_separator": ";"},
    ]:
        with pytest.raises(TypeError):
            everseen.Extractor(**wrong)
    with pytest.raises(ValueError, match="not a URL"):
        everseen.Extractor(json_key=["a", "b"], url=True)


def test_one_winner_among_threads(store):
    keys = np.array([b"%d" % n for n in range(100_000)])
    new = []
    threads = [threading.Thread(target=lambda: new.append(store.insert_many(keys).sum())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(new) == 100_000
