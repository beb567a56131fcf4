"""The stand-ins do what those do that they stand in for."""

import io
import os
import pickle

import pytest

from everseen import errors
from everseen.compat import pybloom, pybloomfilter, rbloom


class TestPybloom:
    def test_add_is_true_for_what_was_there(self):
        names = pybloom.BloomFilter(capacity=100, error_rate=0.001)
        assert names.add("ann") is False
        assert names.add("ann") is True
        assert names.add("bob", skip_check=True) is False
        assert names.add("bob", skip_check=True) is False
        assert names.add(17) is False
        assert "17" in names
        assert (len(names), names.count, names.capacity, names.error_rate) == (3, 3, 100, 0.001)

    def test_a_full_one_is_an_index_error(self):
        names = pybloom.BloomFilter(capacity=10)
        for n in range(10):
            names.add(n)
        with pytest.raises(IndexError, match="at capacity"):
            for n in range(10, 30):
                names.add(n)

    def test_copies_and_unions(self):
        one, two = pybloom.BloomFilter(100), pybloom.BloomFilter(100)
        one.add("a")
        two.add("b")
        copied = one.copy()
        copied.add("c")
        assert "c" not in one
        both = one | two
        assert ("a" in both, "b" in both, "c" in both, len(both)) == (True, True, False, 2)
        with pytest.raises(ValueError, match="same capacity"):
            one.union(pybloom.BloomFilter(200))
        with pytest.raises(NotImplementedError, match="intersection"):
            one & two
        with pytest.raises(NotImplementedError, match="bitarray"):
            one.bitarray

    @pytest.mark.parametrize("kind", [pybloom.BloomFilter, pybloom.ScalableBloomFilter])
    def test_files_and_pickles(self, kind):
        names = kind(100, 0.01)
        for n in range(50):
            names.add(n)
        file = io.BytesIO()
        names.tofile(file)
        length = file.tell()
        file.write(b"behind")
        file.seek(0)
        again = kind.fromfile(file, length)
        assert file.read() == b"behind"
        for other in (again, pickle.loads(pickle.dumps(names))):
            assert type(other) is kind
            assert len(other) == len(names)
            assert all(n in other for n in range(50))
            assert other.error_rate == 0.01
        with pytest.raises(ValueError):
            kind.fromfile(io.BytesIO(b"nothing"))

    def test_a_scalable_one_grows(self):
        names = pybloom.ScalableBloomFilter(initial_capacity=10, mode=pybloom.ScalableBloomFilter.SMALL_SET_GROWTH)
        was_there = sum(names.add(n) for n in range(2000))
        assert was_there < 10
        assert len(names) == 2000 - was_there
        assert all(n in names for n in range(2000))
        other = pybloom.ScalableBloomFilter(initial_capacity=10, mode=2)
        other.add("other")
        assert len(other.filters) == 1
        for same in (other, pickle.loads(pickle.dumps(other))):
            assert (same.initial_capacity, same.scale) == (10, 2)
        assert "other" in names.union(other)
        for differs in (pybloom.ScalableBloomFilter(10), pybloom.ScalableBloomFilter(20, mode=2)):
            with pytest.raises(ValueError, match="same mode"):
                names.union(differs)

    @pytest.mark.parametrize("wrong", [(0, 0.1), (10, 0), (10, 1), (-1, 0.5)])
    def test_wrong_sizes(self, wrong):
        with pytest.raises(ValueError):
            pybloom.BloomFilter(*wrong)


class TestPybloomfilter:
    def test_a_file_is_opened_again(self, folder):
        names = pybloomfilter.BloomFilter(1000, 0.01, "names.bloom", perm=0o640)
        assert names.add("ann") is False
        assert names.add("ann") is True
        names.update(["bob", b"eve", 5, ("a", 1)])
        assert 5 in names
        assert ("a", 1) in names
        assert len(names) == 5
        names.sync()
        names.close()
        with pytest.raises(ValueError):
            "ann" in names
        assert os.listdir() == ["names.bloom"]
        assert os.stat("names.bloom").st_mode & 0o777 == 0o640
        names = pybloomfilter.BloomFilter.open("names.bloom")
        assert "bob" in names
        assert (names.capacity, names.error_rate) == (1000, 0.01)
        assert names.filename == str(folder / "names.bloom")
        names.close()
        reader = pybloomfilter.BloomFilter.open("names.bloom", mode="r")
        assert reader.read_only
        for change in (reader.sync, reader.clear_all, lambda: reader.add("new"), lambda: reader.union(reader)):
            with pytest.raises(ValueError):
                change()
        with pytest.raises(ValueError):
            reader.intersection(reader)

    def test_an_existing_file_is_not_deleted(self):
        with open("precious", "w") as file:
            file.write("text")
        with pytest.raises(FileExistsError, match="already exists"):
            pybloomfilter.BloomFilter(10, 0.1, "precious")
        with open("precious") as file:
            assert file.read() == "text"
        with open("empty", "w"):
            pass
        names = pybloomfilter.BloomFilter(10, 0.1, "empty")
        with pytest.raises(FileExistsError):
            names.copy("precious")
        names.close()
        with pytest.raises(OSError):
            pybloomfilter.BloomFilter.open("missing")

    @pytest.mark.parametrize("filename", ["one.bloom", None])
    def test_unions_and_clearing(self, filename):
        one = pybloomfilter.BloomFilter(1000, 0.01, filename)
        two = one.copy_template("two.bloom")
        one.add("a")
        two.update(["b", "c"])
        one |= two
        assert len(one) == 3
        assert all(key in one for key in "abc")
        assert one.add("d") is False
        one.clear_all()
        assert len(one) == 0
        assert "a" not in one
        assert one.add("a") is False
        other = pybloomfilter.BloomFilter(1000, 0.01, "other.bloom")
        with pytest.raises(ValueError):
            one.union(other)
        assert "a" in one
        for used in (one, two, other):
            used.close()
        assert not [name for name in os.listdir() if name.startswith(".")]

    def test_a_file_that_others_have_open_is_not_replaced(self):
        one = pybloomfilter.BloomFilter(1000, 0.01, "one.bloom")
        two = one.copy_template("two.bloom")
        other = pybloomfilter.BloomFilter.open("one.bloom")
        with pytest.raises(errors.LockedError):
            one.union(two)
        other.add("b")
        assert "b" in one

    def test_copies_and_base64(self):
        one = pybloomfilter.BloomFilter(1000, 0.01, "one.bloom")
        one.update(str(n) for n in range(100))
        copied = one.copy("copy.bloom")
        assert len(copied) == len(one)
        again = pybloomfilter.BloomFilter.from_base64("again.bloom", one.to_base64())
        assert all(str(n) in again for n in range(100))
        assert 90 < one.approx_len < 110
        assert one.bit_count > 100
        assert repr(one).startswith("<BloomFilter capacity: 1000, error: 0.010")

    @pytest.mark.parametrize("filename", ["one.bloom", None])
    def test_pickles(self, filename):
        one = pybloomfilter.BloomFilter(1000, 0.01, filename)
        one.add("a")
        again = pickle.loads(pickle.dumps(one))
        assert "a" in again
        assert again.add("b") is False
        # The file is one; what has no file is copied.
        assert ("b" in one) == (filename is not None)
        again.close()
        one.close()

    def test_what_is_not_to_be_had(self):
        with pytest.raises(NotImplementedError, match="hash_seeds"):
            pybloomfilter.BloomFilter(10, 0.1, hash_seeds=[1, 2])
        names = pybloomfilter.BloomFilter(10, 0.1)
        for name in ("bit_array", "hash_seeds", "filename", "name"):
            with pytest.raises(NotImplementedError):
                getattr(names, name)
        with pytest.raises(NotImplementedError):
            names.intersection(names)
        with pytest.raises(NotImplementedError):
            names.copy("copy")
        names.close()


class TestRbloom:
    def test_a_set_that_may_err(self):
        names = rbloom.Bloom(1000, 0.01)
        assert not names
        assert names.add("ann") is None
        names.update(["bob", 5], {"eve"}, (b"x",))
        assert all(item in names for item in ("ann", "bob", 5, 5.0, "eve", b"x"))
        assert "dan" not in names
        assert names
        assert names.approx_items == 5.0
        assert names.size_in_bits > 5000
        assert "Bloom" in repr(names)
        with pytest.raises(TypeError):
            names.add([])

    def test_unions_and_copies(self):
        one, two = rbloom.Bloom(1000, 0.01), rbloom.Bloom(1000, 0.01)
        one.add("a")
        two.add("b")
        both = one | two
        assert ("a" in both, "b" in both, "b" in one) == (True, True, False)
        all_of_them = one.union(two, ["c"])
        assert all(item in all_of_them for item in "abc")
        one |= two
        assert "b" in one
        copied = one.copy()
        copied.clear()
        assert "a" in one
        assert "a" not in copied
        with pytest.raises(ValueError):
            one | rbloom.Bloom(100_000, 0.001)

    def test_saving_and_loading(self):
        one = rbloom.Bloom(1000, 0.01)
        one.update(str(n) for n in range(100))
        one.save("one.bloom")
        with pytest.raises(FileExistsError):
            one.save("one.bloom")
        for again in (rbloom.Bloom.load("one.bloom", None), rbloom.Bloom.load_bytes(one.save_bytes(), hash)):
            assert all(str(n) in again for n in range(100))
            again.add("new")
            assert "new" in again | one
        assert len(os.listdir()) == 1

    def test_what_is_not_to_be_had(self):
        with pytest.raises(NotImplementedError, match="hash"):
            rbloom.Bloom(10, 0.1, lambda item: 5)
        one = rbloom.Bloom(10, 0.1)
        for call in (lambda: one & one, lambda: one <= one, lambda: one.issubset(one), lambda: one.intersection(one), lambda: one == rbloom.Bloom(10, 0.1)):
            with pytest.raises(NotImplementedError):
                call()


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    import gc
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    one, two = rbloom.Bloom(1000, 0.01), pybloom.ScalableBloomFilter()
    one.update(str(n) for n in range(100))
    two.add("a")
    one.copy().clear()
    assert os.listdir(tmp_path)
    del one, two
    gc.collect()
    assert os.listdir(tmp_path) == []
