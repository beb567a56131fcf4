"""Seen sets in file systems of fsspec and pyarrow."""

import os
import pathlib
import pickle
import tempfile
import uuid

import pytest

from everseen import errors
from everseen.seenset import SeenSet
from everseen.seenset._remote import RemoteRoot

fsspec = pytest.importorskip("fsspec")
pyarrow = pytest.importorskip("pyarrow")

from fsspec.implementations.memory import MemoryFileSystem


@pytest.fixture
def url():
    """A folder in memory, which another test does not have."""
    return f"memory://{uuid.uuid4().hex}"


def remote(root, cache="cache", **more):
    return SeenSet(root, cache=cache, buffer=1 << 20, **{"shards": 3, **more})


def publish(seen, name, keys, **more):
    with seen.epoch(name, **more) as day:
        fresh = [key for batch in day.unseen([keys]) for key in batch]
        day.remember([fresh])
    return fresh


def two_epochs(one, other):
    """Epochs of two handles that each have a cache of their own."""
    assert publish(one, "one", ["a", "b", "a"]) == ["a", "b"]
    assert publish(other, "two", ["a", "b", "c"]) == ["c"]
    assert publish(one, "two", ["a", "b", "c"]) == ["c"]
    assert publish(one, "three", ["c", "d"]) == ["d"]
    assert other.contains_many(["a", "d", "e"]).tolist() == [True, True, False]
    assert other.vacuum(keep=1).manifests == 3
    assert other.verify() == []
    assert publish(one, "four", ["d", "e"]) == ["e"]


def test_in_memory(folder, url):
    two_epochs(remote(url), remote(url, cache="other"))


def test_a_url_of_a_folder_is_a_folder(folder):
    two_epochs(SeenSet(f"file://{folder}/set", shards=3, buffer=1 << 20), SeenSet(folder / "set", buffer=1 << 20))
    assert not pathlib.Path("cache").exists()


def test_a_folder_whose_shards_are_copied(folder):
    copied = remote(folder / "set")
    two_epochs(copied, SeenSet(folder / "set", buffer=1 << 20))
    with copied.epoch("five"), pytest.raises(errors.AnotherDriverError, match="locked"):
        SeenSet(folder / "set").abandon("five")
    with pickle.loads(pickle.dumps(copied)).epoch("five") as day:
        assert day.resumed
    assert len(list(pathlib.Path("cache/shards").iterdir())) >= 3
    assert not list(pathlib.Path("cache/drafts").iterdir())


def test_in_a_file_system_of_pyarrows(folder):
    from pyarrow import fs

    system = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())
    with pytest.raises(errors.RootError, match="name it"):
        remote("set", filesystem=system)
    two_epochs(
        remote("set", filesystem=system, driver="nightly"),
        remote("set", filesystem=system, driver="nightly", cache="other"),
    )
    # Files can't be created exclusively there: a second driver is refused.
    other = remote("set", filesystem=system, driver="daily")
    with pytest.raises(errors.AnotherDriverError, match="nightly"), other.epoch("five"):
        pass
    assert not [path for path in pathlib.Path("set").rglob("*") if len(path.suffix) == 33]


def test_a_file_system_that_writes_over_files_is_not_believed_by_its_name(folder):
    """There are implementations of `s3` that ignore `mode`."""

    class Careless(MemoryFileSystem):
        protocol = "s3"
        cachable = False

        def pipe_file(self, path, value, mode="overwrite", **more):
            super().pipe_file(path, value, mode="overwrite", **more)

    system, root = Careless(), f"/{uuid.uuid4().hex}"
    with pytest.raises(errors.RootError, match="name it"):
        remote(root, filesystem=system)
    assert not [name for name in system.find(root) if "probe" in name]
    assert publish(remote(root, filesystem=system, driver="nightly"), "one", ["a", "a"]) == ["a"]


def test_a_root_is_locked_whatever_it_is_called(folder, url):
    one = remote(url)
    system, path = fsspec.core.url_to_fs(url)
    with one.epoch("one"):
        for other in (remote(f"{url}/"), remote(path, filesystem=system)):
            with pytest.raises(errors.AnotherDriverError, match="locked"), other.epoch("one"):
                pass


def test_an_output_is_no_url(folder, url):
    with pytest.raises(ValueError, match="no URL"):
        remote(url).epoch("one", f"{url}/out")
    assert remote(url).epoch("one", f"file://{folder}/out").output == f"{folder}/out"


def test_of_two_machines_one_publishes(folder, url):
    one, other = remote(url), remote(url, cache="other")
    with pytest.raises(errors.AnotherDriverError, match="manifest 2"), one.epoch("one") as first:
        first.remember([["a"]])
        with pytest.raises(errors.AnotherDriverError, match="locked"), remote(url).epoch("one"):
            pass
        with pytest.raises(errors.AnotherDriverError, match="another machine"), other.epoch("one"):
            pass
        assert publish(other, "one", ["b"], take_over=True) == ["b"]
    assert one.contains_many(["a", "b"]).tolist() == [False, True]


def test_an_epoch_that_this_machine_began_goes_on(folder, url):
    one = remote(url)
    with pytest.raises(ZeroDivisionError), one.epoch("one"):
        assert 1 / 0
    with remote(url).epoch("one") as day:
        assert day.resumed


def test_shards_are_copied_once_and_checked(folder, url):
    one, other = remote(url, shards=1), remote(url, shards=1, cache="other")
    publish(one, "one", ["a"])
    shard = one.manifest().shards[0]
    system, path = fsspec.core.url_to_fs(f"{url}/{shard.file}")
    whole = system.cat_file(path)
    system.pipe_file(path, whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(errors.FingerprintError, match=shard.file):
        other.contains_many(["a"])
    system.rm_file(path)
    with pytest.raises(errors.VacuumedError, match=shard.file):
        other.contains_many(["a"])
    # What was written here is here.
    assert one.contains_many(["a"]).tolist() == [True]
    system.pipe_file(path, whole)
    assert other.contains_many(["a"]).tolist() == [True]
    system.rm_file(path)
    assert other.contains_many(["a"]).tolist() == [True]
    copies = sorted(str(path) for path in pathlib.Path("other").rglob("*") if path.is_file())
    assert copies == [f"other/shards/{shard.sha256}.ever"]


def test_an_upload_that_was_cut_off_is_not_published(folder, url, monkeypatch):
    one = remote(url)
    put = type(one._root._system).put_file

    def cut_off(system, local, path, *args, **more):
        put(system, local, path, *args, **more)
        system.pipe_file(path, system.cat_file(path)[:-1])

    monkeypatch.setattr(type(one._root._system), "put_file", cut_off)
    with pytest.raises(errors.RootError, match="were written"):
        publish(one, "one", ["a"])
    assert one.keys == 0


def test_a_root_is_pickled(folder, url):
    one = remote(url)
    publish(one, "one", ["a"])
    again = pickle.loads(pickle.dumps(one._root))
    assert pickle.loads(pickle.dumps(one)).keys == 1
    assert again.names("manifests") == one._root.names("manifests")


def test_file_systems_of_pyarrows_create_nothing_exclusively():
    """Whatever they are called: they look whether there is a file, and then write."""
    fs = pytest.importorskip("pyarrow.fs")
    if not hasattr(fs, "S3FileSystem"):
        pytest.skip("this pyarrow has no S3")
    system = fs.S3FileSystem(anonymous=True, region="us-east-1")
    root = RemoteRoot("bucket/set", system, cache="cache")
    with pytest.raises(errors.RootError, match="driver"):
        root.lock()


def test_a_folder_for_copies_that_others_may_write_to_is_refused(folder, url, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(pathlib.Path.cwd()))
    cache = pathlib.Path(f"everseen-cache-{os.getuid()}")
    publish(remote(url, cache=None), "one", ["a"])
    assert cache.stat().st_mode & 0o777 == 0o700
    cache.chmod(0o777)
    with pytest.raises(errors.RootError, match="other users"):
        remote(url, cache=None).contains_many(["a"])
    cache.rename("theirs")
    cache.symlink_to("theirs")
    with pytest.raises(errors.RootError, match="other users"):
        remote(url, cache=None).contains_many(["a"])
    # The folder that is named is the caller's own affair.
    assert remote(url, cache=cache).contains_many(["a"]).tolist() == [True]


def test_a_copy_that_was_changed_is_no_base(folder, url):
    one = remote(url, shards=1)
    publish(one, "one", ["a"])
    (copy,) = pathlib.Path("cache/shards").iterdir()
    whole = copy.read_bytes()
    copy.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(errors.FingerprintError, match="was changed"):
        publish(one, "two", ["b"])
    publish(one, "two", ["b"])
    assert one.contains_many(["a", "b"]).tolist() == [True, True]
    assert one.verify() == []


def test_copies_that_were_not_read_for_long_go(folder, url):
    one = remote(url, shards=1)
    publish(one, "one", ["a"])
    (old,) = pathlib.Path("cache/shards").iterdir()
    publish(one, "two", ["b"])
    draft = pathlib.Path("cache/drafts/left")
    draft.touch()
    for path in (old, draft):
        os.utime(path, (0, 0))
    publish(one, "three", ["c"])
    assert not old.exists() and not draft.exists()
    assert len(list(pathlib.Path("cache/shards").iterdir())) == 2
    assert one.contains_many(["a", "b", "c", "d"]).tolist() == [True, True, True, False]
