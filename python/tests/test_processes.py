"""Handles in other processes: pickled, forked, killed."""

import multiprocessing
import os
import pickle
import signal
import sys
import threading

import pytest

import everseen
from everseen import errors

METHODS = ["fork", "forkserver", "spawn"]

# Since 3.12 Python warns of forks beside threads; the tests fork on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


def in_child(work):
    """Runs `work` in a fork, and returns what it returns, as text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = str(work())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        text = file.read()
    assert os.waitpid(child, 0)[1] == 0
    return text


def test_pickle_opens_again():
    with everseen.open("a.ever", 1000, writer="me", timeout=5.0, buffer=1 << 20) as store:
        store.insert("key")
        with pickle.loads(pickle.dumps(store)) as again:
            assert again is not store
            assert (again.path, again.writer) == (store.path, "me")
            assert "key" in again
            assert again.insert("other")
        assert "other" in store
    # What was only for a new store is not asked for again.
    os.remove("a.ever")
    with pytest.raises(errors.NotFoundError):
        pickle.loads(pickle.dumps(store))


def test_an_exclusive_handle_is_not_pickled():
    with everseen.open("a.ever", exclusive=True) as store, pytest.raises(TypeError, match="exclusive"):
        pickle.dumps(store)


def test_a_reader_stays_one():
    everseen.open("a.ever").close()
    with everseen.open("a.ever", mode="r") as store, pickle.loads(pickle.dumps(store)) as again:
        with pytest.raises(errors.ReadOnlyError):
            again.insert("key")


def test_a_forked_child_has_its_own_handle(store):
    assert store.insert("parent")
    assert in_child(lambda: (store.insert("parent"), store.insert("child"), "parent" in store)) == "(False, True, True)"
    assert "child" in store
    assert store.insert("again")
    assert in_child(lambda: store.insert_many(["again", "new"]).tolist()) == "[False, True]"
    assert not store.insert("new")
    assert len(store) == 4


def test_a_child_of_a_child(store):
    store.insert("a")
    assert in_child(lambda: (store.insert("b"), in_child(lambda: (store.insert("c"), "b" in store)))) == "(True, '(True, True)')"
    assert store.contains_many(["a", "b", "c"]).all()


def test_a_child_closes_only_its_own(store):
    assert in_child(store.close) == "0"
    assert in_child(lambda: (store.close(), store.insert("key"))).startswith("ClosedError")
    assert store.insert("key")
    assert in_child(lambda: (store.insert("child"), store.close(), store.closed)) == "(True, 0, True)"
    assert store.insert("second")
    store.close()
    assert in_child(lambda: store.insert("key")).startswith("ClosedError")


def test_an_exclusive_handle_is_not_inherited():
    with everseen.open("a.ever", exclusive=True) as store:
        store.insert("key")
        assert in_child(lambda: store.insert("key")).startswith("ForkedError")
        assert store.insert("other")


def test_the_parents_transaction_is_its_own():
    lost = pytest.warns(errors.UncommittedWarning, match="1 uncommitted key was dropped that processes had not")
    with lost, everseen.open("a.ever", transactional=True) as store:
        store.insert("parent")
        assert in_child(lambda: (store.claim("parent") == everseen.Verdict.PENDING, store.insert("child"))) == "(True, True)"
        # The child died without a commit.
        assert store.insert("child")
        store.commit()
    with everseen.open("a.ever") as store:
        assert store.contains_many(["parent", "child"]).all()


def test_a_child_of_a_process_with_threads_at_work(store):
    stop = threading.Event()

    def work():
        n = 0
        while not stop.is_set():
            store.insert_many([f"key {n + i}" for i in range(1000)])
            n += 1000

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for n in range(20):
            assert in_child(lambda: store.insert(f"child {n}")) == "True"
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert all(f"child {n}" in store for n in range(20))


def insert_range(store, first, last, results):
    won = store.insert_many([f"key {n}" for n in range(first, last)])
    results.put(int(won.sum()))


@pytest.mark.parametrize("method", METHODS)
def test_multiprocessing(method):
    context = multiprocessing.get_context(method)
    results = context.Queue()
    with everseen.open("a.ever", buffer=1 << 20) as store:
        arguments = [(store, 0, 3000, results), (store, 1000, 4000, results), (store, 2000, 5000, results)]
        children = [context.Process(target=insert_range, args=args) for args in arguments]
        for child in children:
            child.start()
        won = sum(results.get(timeout=60) for _ in children)
        for child in children:
            child.join()
            assert child.exitcode == 0
        assert won == 5000
        assert store.contains_many([f"key {n}" for n in range(5000)]).all()


def insert_until_killed(store, number, results):
    for n in range(1_000_000):
        store.insert(f"key {number} {n}")
        if n % 100 == 0:
            results.send(n)


@pytest.mark.parametrize("method", METHODS)
def test_a_killed_child_loses_nothing_and_blocks_nobody(method):
    context = multiprocessing.get_context(method)
    with everseen.open("a.ever", buffer=1 << 20) as store:
        told = {}
        for number in range(4):
            reader, writer = context.Pipe(duplex=False)
            child = context.Process(target=insert_until_killed, args=(store, number, writer))
            child.start()
            writer.close()
            while reader.recv() < 1000 * number + 500:
                store.insert_many([f"parent {n}" for n in range(100)])
            os.kill(child.pid, signal.SIGKILL)
            child.join()
            last = 0
            try:
                while True:
                    last = max(last, reader.recv())
            except (EOFError, OSError):
                told[number] = max(last, 1000 * number + 500)
            assert child.exitcode == -signal.SIGKILL
            assert store.insert(f"after {number}")
        for number, last in told.items():
            assert store.contains_many([f"key {number} {n}" for n in range(last + 1)]).all()
    with everseen.open("a.ever") as store:
        assert store.recovery.logs == 0
        assert store.verify().ok


def test_a_pool(store):
    with multiprocessing.get_context("fork").Pool(2) as pool:
        won = pool.map(store.insert, [f"key {n % 50}" for n in range(200)])
    assert sum(won) == 50


def test_the_end_of_a_program_closes_its_stores(folder):
    import subprocess

    program = """
import everseen
store = everseen.open("a.ever")
cycle = [store]
cycle.append(cycle)
store.insert("key")
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    assert os.listdir(folder) == ["a.ever"]
    with everseen.open("a.ever") as store:
        assert "key" in store
        assert store.recovery.logs == 0


@pytest.mark.parametrize("transactional", [False, True])
def test_an_idle_child_of_a_killed_parent_blocks_nobody(transactional):
    """Once the child runs, the parent's locks end with the parent, and so do the claims of its transaction."""
    import subprocess

    program = f"""
import os, sys, everseen
store = everseen.open("a.ever", transactional={transactional})
store.insert("committed")
store.commit()
store.insert("claimed")
reader, writer = os.pipe()
if os.fork() == 0:
    os.write(writer, b".")
    sys.stdin.read()
    os._exit(0)
os.read(reader, 1)
print("ready", flush=True)
os.kill(os.getpid(), 9)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout.readline() == b"ready\n"
        assert parent.wait() == -signal.SIGKILL
        with everseen.open("a.ever") as store:
            assert "committed" in store
            assert store.insert("new")
            assert not store.recovery.joined
            claimed = store.claim("claimed")
            assert claimed == (everseen.Verdict.NEW if transactional else everseen.Verdict.SEEN)
            store.commit()
            store.checkpoint()
        assert os.listdir() == ["a.ever"]
        # The child ends, and with it the last copy of its standard output.
        parent.stdin.close()
        assert parent.stdout.read() == b""
        with everseen.open("a.ever") as store:
            assert store.contains_many(["committed", "new", "claimed"]).all()
