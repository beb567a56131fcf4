"""Seen sets on one machine, against an exact model."""

import json
import multiprocessing
import os
import pathlib
import random
import signal

import numpy
import pytest

from everseen import errors
from everseen.seenset import SeenSet
from everseen.seenset._batches import Spool
from everseen.seenset import _manifest as manifests
from everseen.seenset import _shards as shards

pyarrow = pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")

# Since 3.12 Python warns of forks beside threads; the tests fork on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


def small(name="set", **settings):
    return SeenSet(name, buffer=1 << 20, **{"shards": 4, **settings})


def publish(seen, name, keys):
    """One epoch; returns the keys that were not seen."""
    with seen.epoch(name) as day:
        fresh = [key for batch in day.unseen([keys]) for key in batch]
        day.remember([fresh])
    return fresh


def files(folder="set"):
    return {str(path): path.read_bytes() for path in pathlib.Path(folder).rglob("*") if path.is_file()}


def as_list(keys):
    return keys


def as_table(keys):
    return pyarrow.table({"n": range(len(keys)), "key": pyarrow.array(keys, pyarrow.string())})


def as_frame(keys):
    return pandas.DataFrame({"key": keys, "n": range(len(keys))})


def back(batch):
    return (
        batch
        if isinstance(batch, list)
        else list(batch["key"].to_pylist() if hasattr(batch["key"], "to_pylist") else batch["key"])
    )


# The processes see hashes alone, whatever the form.
@pytest.mark.parametrize(("form", "processes"), [(as_list, 0), (as_table, 0), (as_frame, 0), (as_table, 2)])
def test_epochs_are_those_of_the_model(folder, seed, form, processes):
    rng = random.Random(seed)
    seen = small(shards=rng.choice([1, 3, 8]), capacity=rng.choice([None, 100_000]))
    column = None if form is as_list else "key"
    model = set()
    for epoch in range(3):
        batches = [[f"k{rng.randrange(3000)}" for _ in range(rng.randrange(1500))] for _ in range(4)]
        expected, emitted = [], set(model)
        for batch in batches:
            expected.append([])
            for key in batch:
                if key not in emitted:
                    emitted.add(key)
                    expected[-1].append(key)
        with seen.epoch(str(epoch)) as day:
            for _ in range(2):
                # Nothing is changed, so it answers the same again.
                fresh = list(day.unseen((form(batch) for batch in batches), column, processes=processes))
                assert [back(batch) for batch in fresh] == expected
            assert seen.keys == len(model)
            day.remember(fresh[:2], column, processes=processes)
            day.remember(fresh, column, processes=processes)
        model = emitted
        assert seen.keys == len(model)
        asked = [f"k{n}" for n in range(3500)]
        assert seen.contains_many(asked).tolist() == [key in model for key in asked]
    assert SeenSet("set").epochs == ["0", "1", "2"]
    assert seen.verify() == []


def test_an_epoch_again_is_the_same_as_once(folder):
    seen = small()
    assert publish(seen, "one", ["a", "b", "a"]) == ["a", "b"]
    before = files()
    # It answers as it did, and changes nothing.
    assert publish(seen, "one", ["a", "b", "a"]) == ["a", "b"]
    assert publish(seen, "one", ["c"]) == ["c"]
    assert files() == before
    assert publish(seen, "two", ["c", "a"]) == ["c"]
    assert publish(seen, "one", ["c", "a"]) == ["c", "a"]


def test_only_shards_with_new_keys_get_a_version(folder):
    seen = small(shards=16)
    publish(seen, "one", [str(n) for n in range(1000)])
    first = seen.manifest()
    publish(seen, "two", ["new"])
    second = seen.manifest()
    changed = [place for place in range(16) if first.shards[place] != second.shards[place]]
    assert len(changed) == 1
    assert second.shards[changed[0]].epoch == "two"
    assert second.shards[changed[0]].keys == first.shards[changed[0]].keys + 1


def test_an_epoch_that_fails_is_run_again(folder):
    seen = small()
    publish(seen, "one", ["a"])
    before = seen.manifest()
    with pytest.raises(ZeroDivisionError), seen.epoch("two") as day:
        day.remember([["b"]])
        assert 1 / 0
    assert seen.manifest() == before
    with pytest.raises(errors.UnfinishedEpochError) as raised, seen.epoch("three"):
        pass
    assert raised.value.epoch == "two"
    # Nothing was remembered: nothing is published, and the epoch is still unfinished.
    with seen.epoch("two") as day:
        assert not day.published
    assert publish(seen, "two", ["a", "b"]) == ["b"]
    assert publish(seen, "three", ["a", "b", "c"]) == ["c"]


def test_one_driver_at_a_time(folder):
    seen = small()
    with seen.epoch("one") as day:
        with pytest.raises(errors.AnotherDriverError, match="locked"), SeenSet("set").epoch("one"):
            pass
        with pytest.raises(errors.AnotherDriverError, match="locked"):
            SeenSet("set").abandon("one")
        # A child that outlives the driver does not keep the lock.
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(writer)
            os.read(reader, 1)
            os._exit(0)
        os.close(reader)
        day.remember([["a"]])
    assert publish(seen, "two", ["a", "b"]) == ["b"]
    os.close(writer)
    assert os.waitpid(child, 0)[1] == 0
    with pytest.raises(RuntimeError, match="not begun"):
        seen.epoch("three").remember([["a"]])
    with seen.epoch("three") as day:
        pass
    with pytest.raises(RuntimeError, match="over"):
        day.remember([["a"]])


def test_of_two_drivers_without_locks_one_publishes(folder):
    """Where locks are lost, the numbers of manifests and pins decide."""
    seen = small()
    publish(seen, "zero", ["z"])
    with pytest.raises(errors.AnotherDriverError, match="manifest 3"), seen.epoch("one") as first:
        first.remember([["a"]])
        first._lock.release()
        with SeenSet("set").epoch("one") as second:
            assert not second.published
            second.remember([["a"]])
        winner = seen.manifest()
    assert seen.manifest() == winner
    with pytest.raises(errors.AnotherDriverError, match="manifest 4"), seen.epoch("two") as first:
        first.remember([["b"]])
        first._lock.release()
        SeenSet("set").abandon("two")
    assert seen.contains_many(["a", "b"]).tolist() == [True, False]
    assert publish(seen, "two", ["b"]) == ["b"]


def test_a_pin_that_another_driver_creates_first(folder, monkeypatch):
    seen = small()
    create = type(seen._root).create

    def late(root, name, data):
        if name.startswith("pins/"):
            create(root, name, manifests.Pin(2, "other", None, "0" * 32).encode())
        create(root, name, data)

    monkeypatch.setattr(type(seen._root), "create", late)
    with pytest.raises(errors.AnotherDriverError, match="begun"), seen.epoch("one"):
        pass


def test_an_abandoned_epoch_begins_anew(folder):
    seen = small()
    with seen.epoch("one") as day:
        assert not day.committed
    with pytest.raises(ValueError, match="not begun"):
        seen.abandon("two")
    seen.abandon("one")
    assert (seen.manifest().abandoned, seen.epochs) == ("one", [])
    with pytest.raises(ValueError, match="not begun"):
        seen.abandon("one")
    assert publish(seen, "two", ["a"]) == ["a"]
    assert publish(seen, "one", ["a", "b"]) == ["b"]
    assert seen.epochs == ["two", "one"]


def test_an_output_counts_where_its_epoch_was_pinned(folder):
    seen = small()
    output = pathlib.Path("out")
    output.mkdir()
    with seen.epoch("one", output="out") as day:
        assert not day.committed
        (output / "_SUCCESS").touch()
        assert day.committed
    with seen.epoch("one", output="out") as day:
        assert day.committed
    with pytest.raises(errors.SetMismatchError) as raised, seen.epoch("one", output="elsewhere"):
        pass
    assert raised.value.field == "output"
    seen.abandon("one")
    # What lies there was decided before, perhaps on another state of the set.
    with pytest.raises(errors.PinChangedError) as raised, seen.epoch("one", output="out"):
        pass
    assert raised.value.epoch == "one"
    (output / "_SUCCESS").unlink()
    with seen.epoch("one", output="out") as day:
        day.remember([["a"]])
    with seen.epoch("one", output="out") as day:
        assert day.published and day.committed


def test_settings_agree(folder):
    SeenSet("set", shards=4, fpr=1e-6, capacity=1000, hash="xxh3", seed=bytes(32))
    again = SeenSet("set", shards=4, fpr=1e-6, capacity=1000, hash="xxh3", seed=bytes(32))
    assert again.settings == SeenSet("set").settings
    others = {"shards": 5, "fpr": 1e-7, "capacity": 1001, "hash": "highway", "seed": bytes(31) + b"1"}
    for field, value in others.items():
        with pytest.raises(errors.SetMismatchError) as raised:
            SeenSet("set", **{field: value})
        assert raised.value.field == field
    for wrong in ({"shards": 0}, {"shards": 100_000}, {"fpr": 1.0}, {"seed": b"short"}):
        with pytest.raises(ValueError):
            SeenSet("other", **wrong)
    with pytest.raises(errors.ReshardError, match="list its keys"):
        again.reshard(8)
    for name in ("", "a\nb", "x" * 201, 7):
        with pytest.raises(ValueError, match="epoch"):
            again.epoch(name)


def create(_):
    return SeenSet("set", shards=4).settings.id


def test_processes_that_create_a_set_have_one(folder):
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert len(set(pool.map(create, range(8), chunksize=1))) == 1


def test_a_damaged_manifest_is_refused(folder, seed):
    rng = random.Random(seed)
    seen = small()
    publish(seen, "one", ["a"])
    path = pathlib.Path("set/manifests/000000000002.json")
    whole = path.read_bytes()
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged if rng.random() < 0.7 else whole[: rng.randrange(len(whole))])
        with pytest.raises(errors.ManifestError):
            SeenSet("set")
    path.write_bytes(whole)
    assert SeenSet("set").keys == 1


def wrong_fields():
    """Changes to a manifest that its own digest does not show."""
    shard = {"size": 1, "sha256": "0" * 64, "keys": 1, "epoch": "one"}
    yield "number", 3
    yield "number", "2"
    yield "epoch", "two"
    yield "epoch", ""
    yield "epochs", {"one": 7}
    yield "epochs", ["one"]
    yield "shards", [None] * 3
    yield "shards", None
    for file in ("../../etc/passwd", "/etc/passwd", f"shards/{0:012}-{0:032}/00001-{0:032}.ever", 7):
        yield "shards", [{"file": file, **shard}, None, None, None]
    for field, value in (("size", -1), ("keys", True), ("sha256", "zz"), ("epoch", None), ("size", 1 << 63)):
        file = f"shards/{0:012}-{0:032}/00000-{0:032}.ever"
        yield "shards", [{"file": file, **shard, field: value}, None, None, None]


@pytest.mark.parametrize(("field", "value"), list(wrong_fields()))
def test_a_manifest_that_makes_no_sense_is_refused(folder, field, value):
    seen = small()
    publish(seen, "one", ["a"])
    path = pathlib.Path("set/manifests/000000000002.json")
    fields = json.loads(path.read_bytes())
    del fields["sha256"]
    path.write_bytes(manifests.seal({**fields, field: value}))
    with pytest.raises(errors.ManifestError):
        SeenSet("set")


@pytest.mark.parametrize(
    ("field", "value"), [("seed", "00"), ("hash", "md5"), ("shards", 5), ("fpr", 2.0), ("fpr", 1), ("id", 3)]
)
def test_settings_that_make_no_sense_are_refused(folder, field, value):
    small()
    path = pathlib.Path("set/manifests/000000000001.json")
    fields = json.loads(path.read_bytes())
    del fields["sha256"]
    fields["settings"][field] = value
    path.write_bytes(manifests.seal(fields))
    with pytest.raises(errors.ManifestError):
        SeenSet("set")


def test_a_damaged_pin_is_refused(folder):
    seen = small()
    with seen.epoch("one"):
        pass
    path = pathlib.Path("set/pins/000000000002.json")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(errors.ManifestError), seen.epoch("one"):
        pass


def test_a_shard_that_is_another_file_is_refused(folder):
    seen = small(shards=1)
    publish(seen, "one", ["a"])
    first = pathlib.Path("set", seen.manifest().shards[0].file)
    publish(seen, "two", ["b"])
    path = pathlib.Path("set", seen.manifest().shards[0].file)
    whole = path.read_bytes()
    assert len(first.read_bytes()) == len(whole)
    for damaged in (whole[:-1], first.read_bytes(), bytes(len(whole))):
        path.write_bytes(damaged)
        with pytest.raises(errors.FingerprintError):
            seen.contains_many(["a"])
        assert len(seen.verify()) == 1
        with pytest.raises(errors.FingerprintError):
            publish(seen, "three", ["c"])
    flipped = bytearray(whole)
    flipped[-1] ^= 1
    path.write_bytes(flipped)
    assert len(seen.verify()) == 1
    path.write_bytes(whole)
    assert publish(seen, "three", ["a", "c"]) == ["c"]
    # The file that the manifest would name is not there any more.
    with pytest.raises(errors.FingerprintError), seen.epoch("four") as day:
        day.remember([["d"]])
        pathlib.Path("set", day._shards[0].file).unlink()
    assert seen.epochs[-1] == "three"


def test_a_vacuum_leaves_what_counts(folder):
    seen = small()
    for number in range(5):
        publish(seen, str(number), [f"{number} {n}" for n in range(20)])
    with pytest.raises(ZeroDivisionError), seen.epoch("now") as day:
        day.remember([["mine"]])
        assert 1 / 0
    begun = {path for path in files() if "-" in path and day._attempt in path}
    assert begun
    with seen.epoch("now") as day:
        stays = list(day.unseen([["mine", "0 1"]]))
        before = len(files())
        report = seen.vacuum(keep=1)
        assert (report.manifests, report.files > 0, report.bytes > 0) == (5, True, True)
        assert len(files()) == before - report.manifests - report.files - 5  # pins
        assert begun <= set(files())
        assert list(day.unseen([["mine", "0 1"]])) == stays == [["mine"]]
        day.remember(stays)
    assert seen.vacuum(keep=1).files >= len(begun)
    assert not begun & set(files())
    named = {f"set/{shard.file}" for shard in seen.manifest().shards if shard}
    assert {path for path in files() if path.endswith(".ever")} == named
    assert seen.vacuum(keep=1) == seen.vacuum(keep=1)
    # The state that an old epoch began from is gone.
    with pytest.raises(errors.VacuumedError), seen.epoch("1") as day:
        list(day.unseen([["a"]]))
    with pytest.raises(ValueError, match="keep"):
        seen.vacuum(keep=0)


def test_a_file_that_a_reader_needs_and_a_vacuum_has_removed(folder):
    seen = small(shards=1)
    publish(seen, "one", ["a"])
    with seen.epoch("two") as day:
        pathlib.Path("set", seen.manifest().shards[0].file).unlink()
        with pytest.raises(errors.VacuumedError):
            list(day.unseen([["b"]]))


def test_a_reader_ends_well_whose_shard_a_vacuum_has_removed(folder):
    seen = small(shards=1)
    publish(seen, "one", ["a"])
    shard = pathlib.Path("set", seen.manifest().shards[0].file)
    hashes = shards.hasher_of(seen.settings).hash_many(["a", "b"])
    with shards.Reader(seen._root, seen.manifest()) as reader:
        assert reader.contains(hashes).tolist() == [True, False]
        shard.unlink()
    # A cache that fetches it again gives its name to another file.
    copy = pathlib.Path("copy")
    seen = small("other", shards=1)
    publish(seen, "one", ["a"])
    shard = pathlib.Path("other", seen.manifest().shards[0].file)
    hashes = shards.hasher_of(seen.settings).hash_many(["a", "b"])
    with shards.Reader(seen._root, seen.manifest()) as reader:
        assert reader.contains(hashes).tolist() == [True, False]
        copy.write_bytes(shard.read_bytes())
        copy.replace(shard)


def test_a_worker_that_dies_ends_the_call(folder):
    seen = small()
    with seen.epoch("one") as day:
        answers = day.unseen([["a"], ["b"]], processes=2)
        next(answers)
        for child in multiprocessing.active_children():
            os.kill(child.pid, signal.SIGKILL)
            child.join()
        with pytest.raises(errors.WorkerDiedError):
            next(answers)


def test_an_error_of_a_worker_is_the_callers(folder):
    seen = small(shards=1)
    publish(seen, "one", ["a"])
    with seen.epoch("two") as day:
        path = pathlib.Path("set", day.base.shards[0].file)
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(errors.FingerprintError):
            list(day.unseen([["b"]], processes=1))
        with pytest.raises(errors.FingerprintError):
            day.remember([["b"]], processes=1)


def test_rows_without_a_key_are_an_error(folder):
    with small().epoch("one") as day, pytest.raises(errors.NullKeyError):
        list(day.unseen([["a", None]]))


def test_the_rate_is_the_sets(folder):
    seen = small(fpr=0.02, capacity=200_000)
    publish(seen, "one", [f"a{n}" for n in range(200_000)])
    wrong = int(seen.contains_many([f"b{n}" for n in range(200_000)]).sum())
    # 4000 are expected of full shards; these have room left for chance, and for whole pages.
    assert 2500 < wrong < 4100
    numpy.testing.assert_array_equal(seen.contains_many([f"a{n}" for n in range(200_000)]), True)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [({"capacity": 1e6}, TypeError), ({"capacity": 0}, ValueError), ({"capacity": 10**17}, ValueError), ({"fpr": 1e-30}, ValueError)],
)
def test_a_set_that_could_have_no_shards_is_not_begun(folder, wrong, error):
    with pytest.raises(error):
        SeenSet("set", **wrong)
    assert not files()
    small(capacity=1000)


def test_an_epoch_that_is_entered_again_begins_anew(folder):
    seen = small()
    day = seen.epoch("one")
    with pytest.raises(ZeroDivisionError), day:
        day.remember([["lost"]])
        assert 1 / 0
    with day:
        assert day.resumed
    assert not day.published and seen.keys == 0
    with day:
        day.remember([["kept"]])
    assert seen.contains_many(["lost", "kept"]).tolist() == [False, True]


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="the system has no disk that is always full")
def test_hashes_that_a_full_disk_refuses_are_an_error():
    class Full:
        def draft(self, _name):
            return pathlib.Path("/dev/full")

    spool = Spool(Full(), "attempt")
    spool.add(numpy.arange(3, dtype=numpy.uint64), 1)
    with pytest.raises(OSError, match="No space left"):
        spool.files()


def test_what_unseen_returns_is_read_once(folder):
    """What is left of it would be published as all there is."""
    seen = SeenSet("once", shards=4)
    with pytest.raises(RuntimeError, match="read once"), seen.epoch("one") as day:
        fresh = day.unseen([["a"], ["b"]])
        assert [batch for batch in fresh] == [["a"], ["b"]]
        day.remember(fresh)
    assert seen.epochs == []
    with seen.epoch("one") as day:
        fresh = day.unseen([["a"], ["b"]])
        assert next(fresh) == ["a"]
        day.remember(list(fresh))
    assert seen.contains_many(["a", "b"]).tolist() == [False, True]
