"""What becomes of keys of a transactional store that were not committed, and who learns of it."""

import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import warnings

import pytest

import everseen
from everseen import errors

# Since 3.12 Python warns of forks beside threads; the tests fork on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


@pytest.fixture(autouse=True)
def made(folder):
    """A store like one that `everseen dedup` has made, which is transactional."""
    with everseen.open("a.ever", transactional=True) as store:
        store.insert("old")
        store.commit(b"line 1")


def held(*keys):
    with everseen.open("a.ever", mode="r") as store:
        return store.contains_many(list(keys)).tolist()


def warned(count):
    keys = "1 uncommitted key was" if count == 1 else f"{count} uncommitted keys were"
    return pytest.warns(errors.UncommittedWarning, match=f"a.ever: {keys} dropped")


def test_a_block_that_ends_well_commits():
    with everseen.open("a.ever") as store:
        store.insert_many(["a", "b"])
        assert store.uncommitted == 2
    assert held("old", "a", "b") == [True, True, True]
    with everseen.open("a.ever", mode="r") as store:
        # Where its program stands is what it has said last.
        assert store.last_commit().tag == b"line 1"


def test_a_block_commits_for_its_own_writer():
    with everseen.open("a.ever", writer="other") as store:
        store.insert("a")
    with everseen.open("a.ever", mode="r") as store:
        assert store.last_commit("other").tag == b""
        assert store.last_commit("default").tag == b"line 1"


def test_a_block_with_nothing_to_commit_does_not():
    with everseen.open("a.ever") as store:
        store.insert("a")
        sequence = store.commit(b"line 2")
        assert store.uncommitted == 0
    with everseen.open("a.ever", mode="r") as store:
        assert (store.last_commit().sequence, store.last_commit().tag) == (sequence, b"line 2")
    with everseen.open("a.ever", mode="r") as store:
        assert "a" in store
        assert store.uncommitted == 0


def test_a_block_that_was_closed_inside_ends_well():
    with everseen.open("a.ever") as store:
        store.insert("a")
        store.commit()
        assert store.close() == 0
    assert held("a") == [True]


def test_a_block_that_ends_with_an_exception_warns():
    with warned(2), pytest.raises(KeyError), everseen.open("a.ever") as store:
        store.insert_many(["a", "b"])
        raise KeyError
    assert held("old", "a") == [True, False]


def test_closing_warns_and_says_how_many():
    store = everseen.open("a.ever")
    store.insert_many(["a", "b", "c"])
    with warned(3):
        assert store.close() == 3
    assert store.close() == 0
    store = everseen.open("a.ever")
    store.insert("a")
    assert store.close(discard=True) == 1
    assert held("a") == [False]


def test_the_collector_warns():
    store = everseen.open("a.ever")
    store.insert("a")
    with warned(1):
        store = None
        gc.collect()
    # And it leaves an exception alone that is on its way.
    with warned(1), pytest.raises(ZeroDivisionError):
        [store for store in [everseen.open("a.ever")] if store.insert("a") and 1 / 0]


def test_a_store_that_is_not_transactional_has_nothing_to_warn_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = everseen.open("b.ever")
        store.insert("a")
        assert store.uncommitted == 0
        assert store.close() == 0
        store = everseen.open("b.ever")
        store.insert("b")
        store = None
        gc.collect()
    with everseen.open("b.ever") as store:
        assert store.contains_many(["a", "b"]).all()


def python(code, *options):
    """Runs a program, and returns what it has said on standard error."""
    done = subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_program_that_ends_warns_by_itself():
    code = "import everseen; store = everseen.open('a.ever'); store.insert_many(['a', 'b'])"
    assert "a.ever: 2 uncommitted keys were dropped" in python(code)
    # Where a program has said which warnings it wants, that holds.
    assert python(code, "-W", "ignore") == ""
    assert held("a") == [False]


def test_a_pools_children_warn_at_their_end():
    code = """
import multiprocessing, everseen
store = everseen.open("a.ever")
def insert(key):
    return store.insert(key)
pool = multiprocessing.get_context("fork").Pool(1)
assert pool.map(insert, ["a", "b", "c"]) == [True] * 3
pool.close(); pool.join()
with store:
    pass
"""
    said = python(code)
    assert said.count("3 uncommitted keys were dropped") == 1, said
    assert held("a") == [False]


def test_the_parent_warns_of_a_child_that_was_killed():
    """`with` ends a pool so, but tells its children to end as well: they may have dropped their keys, and die unheard."""
    code = """
import multiprocessing, everseen
store = everseen.open("a.ever")
context = multiprocessing.get_context("fork")
ours, theirs = context.Pipe()
def work():
    theirs.send(store.insert_many(["a", "b", "c"]))
    theirs.recv()
child = context.Process(target=work)
child.start()
assert list(ours.recv()) == [True] * 3
child.terminate(); child.join()
with store:
    pass
"""
    said = python(code)
    assert said.count("3 uncommitted keys were dropped") == 1, said
    assert held("a") == [False]


def test_a_child_that_commits_is_not_warned_of():
    code = """
import multiprocessing, everseen
with everseen.open("a.ever") as store:
    def insert(key):
        new = store.insert(key)
        store.commit()
        return new
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.map(insert, ["a", "b", "c"]) == [True] * 3
"""
    assert python(code) == ""
    assert held("a", "b", "c") == [True] * 3


def test_whoever_leaves_last_warns_of_the_killed():
    with everseen.open("a.ever") as other:
        store = everseen.open("a.ever")
        child = os.fork()
        if child == 0:
            store.insert_many(["a", "b"])
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        # Another handle still has the store open.
        with warned(2):
            assert store.close() == 0
        assert other.insert("a")


def test_a_pickled_handle_warns_for_itself():
    with everseen.open("a.ever") as store:
        again = pickle.loads(pickle.dumps(store))
        again.insert("a")
        with warned(1):
            del again
            gc.collect()
        assert store.insert("a")


def test_a_child_that_leaves_the_block_commits_its_own():
    context = multiprocessing.get_context("fork")

    def work(store):
        with store:
            store.insert("child")

    with everseen.open("a.ever") as store:
        store.insert("parent")
        child = context.Process(target=work, args=(store,))
        child.start()
        child.join()
        assert child.exitcode == 0
    assert held("parent", "child") == [True, True]
