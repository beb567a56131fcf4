"""One key at a time, and what a handle is."""

import copy
import os
import pickle
import threading

import numpy as np
import pytest

import everseen
from everseen import errors


def test_the_first_insert_alone_is_true(store):
    assert store.insert("key") is True
    assert store.insert("key") is False
    assert "key" in store
    assert "other" not in store
    assert len(store) == 1


def test_text_is_the_bytes_of_its_utf8(store):
    assert store.insert("schön")
    assert not store.insert("schön".encode())
    assert store.insert("")
    assert b"" in store
    assert store.insert(b"\xff\x00\xff")
    assert b"\xff\x00\xff" in store


@pytest.mark.parametrize("key", [1, None, 1.5, ["a"], bytearray(b"a"), memoryview(b"a")])
def test_other_keys_are_type_errors(store, key):
    with pytest.raises(TypeError, match="a key is str or bytes, not"):
        store.insert(key)
    with pytest.raises(TypeError, match="a key is str or bytes, not"):
        key in store
    assert len(store) == 0


def test_lone_surrogates_are_no_keys(store):
    with pytest.raises(UnicodeEncodeError):
        store.insert("\ud800")
    with pytest.raises(UnicodeEncodeError):
        store.insert_many(["a", "\ud800"])


def test_what_is_closed_stays(folder):
    with everseen.open("a.ever") as store:
        store.insert("key")
    assert store.closed
    store.close()
    with pytest.raises(errors.ClosedError):
        store.insert("key")
    with pytest.raises(ValueError):
        "key" in store
    assert os.listdir() == ["a.ever"]
    with everseen.open("a.ever") as store:
        assert "key" in store
    assert store.path == str(folder / "a.ever")
    assert "closed" in repr(store)


def test_a_handle_keeps_its_file_when_the_folder_changes(folder):
    with everseen.open("a.ever") as store:
        (folder / "elsewhere").mkdir()
        os.chdir("elsewhere")
        store.insert("key")
    assert os.listdir(folder) in (["a.ever", "elsewhere"], ["elsewhere", "a.ever"])


def test_modes():
    with pytest.raises(errors.NotFoundError):
        everseen.open("a.ever", mode="r+")
    with pytest.raises(errors.NotFoundError):
        everseen.open("a.ever", mode="r")
    everseen.open("a.ever", mode="x").close()
    with pytest.raises(FileExistsError):
        everseen.open("a.ever", mode="x")
    everseen.open("a.ever", mode="a").close()
    with everseen.open("a.ever", mode="r") as store:
        assert "key" not in store
        with pytest.raises(errors.ReadOnlyError):
            store.insert("key")
    with pytest.raises(ValueError, match="mode"):
        everseen.open("a.ever", mode="w")


def test_options_of_a_new_store():
    seed = bytes(range(32))
    with everseen.open("a.ever", 1000, 1e-3, kind="bloom", hash="xxh3", seed=seed, transactional=True) as store:
        stats = store.stats()
        assert stats.buffer_bytes > 0
    assert (stats.kind, stats.hash, stats.capacity, stats.fpr_target) == ("bloom", "xxh3", 1000, 1e-3)
    assert stats.transactional
    with everseen.open("b.ever", 1000, bits_per_key=20) as store:
        assert 19 < store.stats().bits_per_key < 40
    with everseen.open("c.ever") as store:
        assert store.stats().kind == "fingerprint"
        assert store.stats().capacity == 2**36
        assert store.stats().fpr_target == 1e-6
        assert store.insert("key")
        assert store.remove("key")
    for layers in ({"kind": "scalable"}, {"growth": 4}, {"tightening": 0.5}):
        with everseen.open(f"{next(iter(layers))}.ever", **layers) as store:
            assert store.stats().kind == "scalable"
            assert store.stats().capacity is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "cuckoo"},
        {"hash": "md5"},
        {"seed": b"short"},
        {"timeout": -1.0},
        {"on_damage": "ignore"},
        {"buffer": 1},
        {"writer": ""},
        {"fpr": 2.0},
        {"capacity": 0},
        {"growth": 1},
    ],
)
def test_wrong_options_are_value_errors(wrong):
    with pytest.raises(ValueError):
        everseen.open("a.ever", **wrong)
    assert os.listdir() == []


def test_a_label_is_kept():
    with everseen.open("a.ever", label=b"rules 7\0\xff") as store:
        assert store.label == b"rules 7\0\xff"
        store.snapshot("copy.ever")
    for path in ["a.ever", "copy.ever"]:
        with everseen.open(path) as store:
            assert store.label == b"rules 7\0\xff"
    with everseen.open("like.ever", like="a.ever") as store:
        assert store.label == b"rules 7\0\xff"
    with everseen.open("none.ever") as store:
        assert store.label is None
    with pytest.raises(ValueError, match="at most 4096 bytes"):
        everseen.open("long.ever", label=bytes(4097))


def test_a_commit_is_gone_back_to():
    store = everseen.open("a.ever", transactional=True, writer="crawler")
    assert store.writer == "crawler"
    assert store.transaction_quota > 1000
    assert store.last_commit() is None
    store.insert("kept")
    assert store.commit(b"at 1") == 1
    store.insert("dropped")
    assert store.close(discard=True) == 1
    with everseen.open("a.ever", writer="other") as store:
        assert "kept" in store
        assert "dropped" not in store
        assert store.last_commit("crawler") == everseen.Commit("crawler", 1, b"at 1")
        assert store.last_commit() is None
        assert store.commit("text") == 2
        assert store.last_commit().tag == b"text"


def test_claims_of_others_are_pending():
    one = everseen.open("a.ever", transactional=True)
    other = everseen.open("a.ever")
    assert one.claim("key") == everseen.Verdict.NEW
    assert other.claim("key") == everseen.Verdict.PENDING
    assert one.claim("key") == everseen.Verdict.SEEN
    verdicts = other.claim_many(["key", "second", "second"])
    assert verdicts.dtype == np.uint8
    expected = [everseen.Verdict.PENDING, everseen.Verdict.NEW, everseen.Verdict.SEEN]
    assert verdicts.tolist() == [int(verdict) for verdict in expected]
    one.commit()
    assert other.claim("key") == everseen.Verdict.SEEN
    assert other.close(discard=True) == 1
    one.close()


def test_a_verdict_is_a_number_a_truth_and_travels():
    verdicts = [everseen.Verdict.SEEN, everseen.Verdict.NEW, everseen.Verdict.PENDING]
    assert [hash(verdict) for verdict in verdicts] == [hash(number) for number in range(3)]
    assert {everseen.Verdict.NEW: "new"}[1] == "new"
    assert [bool(verdict) for verdict in verdicts] == [False, True, False]
    for verdict in verdicts:
        assert pickle.loads(pickle.dumps(verdict)) == verdict
        assert copy.deepcopy(verdict) == verdict



def test_counting_stores_forget():
    with everseen.open("a.ever", 1000, kind="counting") as store:
        assert store.insert("key")
        assert not store.insert("key")
        assert store.count_estimate("key") == 2
        assert store.remove("key")
        assert store.insert_unique("new")
        assert not store.insert_unique("new")
        assert store.remove_many(["key", "key", b"new"]).tolist() == [True, False, True]
        assert len(store) == 0


def test_stores_of_fingerprints_grow_and_forget():
    with everseen.open("a.ever", kind="fingerprint", grows_to=1000, fpr=1e-4, transactional=True) as store:
        assert store.stats().capacity == 1000
        assert store.insert_many(["key", "other", b"new"]).all()
        store.commit()
        assert store.remove("key")
        assert not store.remove("key")
        assert store.remove_many(["other", "key", b"new"]).tolist() == [True, False, True]
        store.commit()
        store.checkpoint()
        assert len(store) == 0
        report = store.verify()
        assert report.ok
        assert report.segments == []
        assert store.stats().layers == []


def test_exempt(store):
    store.insert("seen")
    store.checkpoint()
    report = store.exempt(["seen", b"other"])
    assert report.exempted == 2
    assert "seen" not in store
    assert store.stats().exempt == 2


@pytest.mark.parametrize(("kind", "layers"), [("scalable", 1), ("fingerprint", 0)])
def test_reports(folder, kind, layers):
    with everseen.open("a.ever", kind=kind, buffer=1 << 20) as store:
        store.insert_many([f"key {n}" for n in range(1000)])
        store.commit(b"tag")
        store.checkpoint()
        stats = store.stats()
        assert stats.keys == 1000
        assert stats.commits == [everseen.Commit("default", 1, b"tag")]
        assert len(stats.layers) == layers
        report = store.verify()
        assert report.ok
        assert report.damaged == []
        assert 990 < report.keys_estimate < 1010
        assert store.measured().one_in >= 4096
        assert store.repair("seen" if layers else "never_seen").is_whole
        assert not store.recovery.joined
        assert len(stats.store_id) == 16


def test_damage_is_reported_and_repaired():
    with everseen.open("a.ever", 100_000, background=False) as store:
        store.insert_many([f"key {n}" for n in range(100_000)])
    with open("a.ever", "r+b") as file:
        middle = os.stat("a.ever").st_size // 2
        file.seek(middle)
        byte = file.read(1)
        file.seek(middle)
        file.write(bytes([byte[0] ^ 255]))
    with everseen.open("a.ever") as store:
        damaged = store.verify().damaged
        assert [page.layer for page in damaged] == [0]
        with pytest.raises(errors.FormatError) as raised:
            store.contains_many([f"key {n}" for n in range(100_000)])
        assert raised.value.filename == store.path
    with everseen.open("a.ever", on_damage="seen") as store:
        assert store.contains_many([f"key {n}" for n in range(100_000)]).all()
    assert len(everseen.repair("a.ever", "seen").pages) == 1
    assert everseen.repair("a.ever", "seen").is_whole


def test_recovery_after_a_death(folder):
    child = os.fork()
    if child == 0:
        store = everseen.open("a.ever")
        store.insert("key")
        os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    with everseen.open("a.ever") as store:
        assert store.recovery.keys == 1
        assert "key" in store


def test_threads_share_a_handle(store):
    keys = [f"key {n}" for n in range(20_000)]
    won = []

    def work():
        won.append(int(store.insert_many(keys).sum()))
        won.append(sum(store.insert(f"single {n}") for n in range(2000)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(won) == 22_000


def test_references_and_memory_stay_flat(store):
    import resource
    import sys

    key = "a key that is not interned, " + str(os.getpid())
    keys = [key, b"bytes"]
    before = sys.getrefcount(key)
    for _ in range(200_000):
        store.insert(key)
        key in store
    store.insert_many(keys)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(200_000):
        store.insert(key)
        key in store
    for _ in range(5000):
        store.insert_many(keys)
        store.contains_many(keys)
        store.last_commit()
    assert sys.getrefcount(key) == before
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 4096
