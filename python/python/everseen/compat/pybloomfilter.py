"""`BloomFilter` of pybloomfiltermmap3.

Theirs deletes a file that is in the way of a new one. Here that is an error, unless the file is empty: open the file,
or remove it yourself.

>>> from everseen.compat.pybloomfilter import BloomFilter
>>> names = BloomFilter(1000, 0.001, "names.bloom")
>>> names.add("ann"), names.add("ann"), len(names)
(False, True, 1)
>>> names.close()
>>> "ann" in BloomFilter.open("names.bloom")
True
"""

from __future__ import annotations

import base64
import io
import os
import tempfile
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import everseen
from everseen import errors
from everseen.compat import _backing
from everseen.compat._backing import Temporary

__all__ = ["BloomFilter"]


def _make_way(filename: str) -> None:
    """Remove a file that holds nothing, such as `tempfile` makes to have a name."""
    if os.path.isfile(filename) and os.stat(filename).st_size == 0:
        os.unlink(filename)


class BloomFilter:
    """A filter in a file, or without one.

    Args:
        capacity: How many keys it is for.
        error_rate: How often it may be wrong when it is full.
        filename: Its file, which must not exist, or be empty; none for a filter that goes with the process.
        perm: The file's permissions.
        hash_seeds: Not to be had.
    """

    def __init__(
        self,
        capacity: int,
        error_rate: float,
        filename: str | None = None,
        perm: int | None = None,
        hash_seeds: Sequence[int] | None = None,
    ) -> None:
        if hash_seeds is not None:
            _backing.refuse("hash_seeds", "a store has one hash key of 32 bytes; see `seed` of everseen.open")
        _backing.check_sizes(capacity, error_rate)
        self._create(filename, perm, capacity=capacity, fpr=error_rate, kind="bloom")

    def _create(self, filename: str | None, perm: int | None, **options: Any) -> None:
        self._temporary: Temporary | None = None
        if filename is None:
            self._temporary = Temporary(**options, buffer=_backing.buffer_for(1 << 20))
            self._store = self._temporary.store
        else:
            _make_way(filename)
            self._store = everseen.open(filename, mode="x", **options)
            if perm is not None:
                os.chmod(filename, perm)
        self._read_only = False

    @classmethod
    def open(cls, filename: str, mode: str = "rw") -> BloomFilter:
        """Open a filter: `"r"` to read what it holds at this moment, `"rw"` for all."""
        self = cls.__new__(cls)
        self._temporary = None
        self._read_only = "w" not in mode
        self._store = everseen.open(filename, mode="r" if self._read_only else "r+")
        return self

    def __contains__(self, item: object) -> bool:
        """Return whether the item is in the filter. `False` is certain."""
        return _backing.contains(self._store, item)

    def __len__(self) -> int:
        return len(self._store)

    def __repr__(self) -> str:
        return (
            f"<BloomFilter capacity: {self.capacity}, error: {self.error_rate:0.3f}, num_hashes: {self.num_hashes}>"
        )

    def add(self, item: object) -> bool:
        """Add an item, and return whether it was there.

        Raises:
            FullError: The filter has all the items that it is for.
        """
        return not _backing.insert(self._store, item)

    def update(self, iterable: Iterable[object]) -> None:
        """Add all items."""
        _backing.insert_all(self._store, iterable)

    def sync(self) -> None:
        """Wait until everything is on the disk."""
        self._store.commit()

    def close(self) -> None:
        """Close the filter. One without a file is gone."""
        # A file of a transactional store is committed: what was added stays.
        with self._store:
            pass
        if self._temporary is not None:
            self._temporary.close()

    @property
    def capacity(self) -> int:
        """How many items it is for."""
        return self._store.stats().capacity or 0

    @property
    def error_rate(self) -> float:
        """How often it may be wrong when it is full."""
        return self._store.stats().fpr_target

    @property
    def num_hashes(self) -> int:
        """Bits per item."""
        return self._store.stats().layers[0].k

    @property
    def num_bits(self) -> int:
        """Bits of the filter."""
        return self._store.stats().layers[0].bits

    @property
    def bit_count(self) -> int:
        """How many bits are set."""
        self._store.checkpoint()
        return self._store.verify().bits_set

    @property
    def approx_len(self) -> int:
        """About how many items it has, by the bits that are set."""
        self._store.checkpoint()
        return round(self._store.verify().keys_estimate)

    @property
    def filename(self) -> str:
        """Its file."""
        if self._temporary is not None:
            _backing.refuse("filename", "this filter has none")
        return self._store.path

    @property
    def name(self) -> bytes:
        """Its file, as bytes."""
        return os.fsencode(self.filename)

    @property
    def read_only(self) -> bool:
        """Whether it was opened to read."""
        return self._read_only

    @property
    def bit_array(self) -> object:
        """There is none."""
        _backing.refuse("bit_array", "the bits of a store lie in pages, with checksums, and not in memory")

    @property
    def hash_seeds(self) -> object:
        """There are none."""
        _backing.refuse("hash_seeds", "a store has one hash key of 32 bytes, which it keeps to itself")

    def fileno(self) -> int:
        """There is none."""
        _backing.refuse("fileno", "a store has several files open, and none that a program may write to")

    def copy(self, filename: str) -> BloomFilter:
        """Copy the filter to a path where nothing is, and return the copy."""
        if self._temporary is not None:
            _backing.refuse("copy", "as with theirs, this filter has no file")
        _make_way(filename)
        self._store.snapshot(filename)
        return BloomFilter.open(filename)

    def copy_template(self, filename: str, perm: int | None = None) -> BloomFilter:
        """Make an empty filter at a path where nothing is, with which this one can be united."""
        other = BloomFilter.__new__(BloomFilter)
        other._create(filename, perm, like=self._store.path)
        return other

    def union(self, other: BloomFilter) -> BloomFilter:
        """Add what `other` has, a filter made alike (`copy_template`), and return this one.

        The file is replaced, so no other handle may have it open.

        Raises:
            ValueError: They aren't alike, or the items of both are too many.
        """
        self._refuse_reader()

        def unite(out: str) -> None:
            if self._store.uncommitted:
                # Only what is committed goes into another store.
                self._store.commit()
            try:
                everseen.union(out, [self._store.path, other._store.path])
            except (errors.MismatchError, errors.OverfullError) as error:
                raise ValueError(str(error)) from error

        self._replace(unite)
        return self

    def __ior__(self, other: BloomFilter) -> BloomFilter:
        return self.union(other)

    def intersection(self, other: BloomFilter) -> BloomFilter:
        """There is none."""
        self._refuse_reader()
        _backing.refuse_intersection()

    def __iand__(self, other: BloomFilter) -> BloomFilter:
        return self.intersection(other)

    def clear_all(self) -> None:
        """Remove all items. The file is replaced, so no other handle may have it open."""
        self._refuse_reader()
        self._replace(lambda out: everseen.open(out, like=self._store.path, mode="x").close())

    def _refuse_reader(self) -> None:
        if self._read_only:
            raise ValueError("the filter was opened to read")

    def _replace(self, make: Any) -> None:
        """Put another store in the place of this one."""
        path = self._store.path
        with tempfile.TemporaryDirectory(prefix=".everseen-", dir=os.path.dirname(path)) as folder:
            out = os.path.join(folder, "filter.ever")
            make(out)
            self._store.close(discard=True)
            # Nobody else has it open: their store would be another one from here on.
            try:
                everseen.open(path, mode="r+", exclusive=True, timeout=0.0).close()
                os.chmod(out, os.stat(path).st_mode & 0o7777)
                os.replace(out, path)
            finally:
                self._store = everseen.open(path, mode="r+")
                if self._temporary is not None:
                    self._temporary = self._temporary.taken_over(self._store)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._temporary is None:
            return BloomFilter.open, (self.filename, "r" if self._read_only else "rw")
        file = io.BytesIO()
        self._temporary.write(file)
        return _from_bytes, (file.getvalue(),)

    def to_base64(self) -> bytes:
        """Return the filter, compressed and in base 64."""
        file = io.BytesIO()
        _backing.write_copy(self._store, file)
        return base64.b64encode(zlib.compress(file.getvalue(), 9))

    @classmethod
    def from_base64(cls, filename: str, string: bytes | str, perm: int | None = None) -> BloomFilter:
        """Make a filter at a path where nothing is, from what `to_base64` has returned."""
        data = zlib.decompress(base64.b64decode(string))
        _make_way(filename)
        with open(filename, "xb") as file:
            file.write(data)
        if perm is not None:
            os.chmod(filename, perm)
        return cls.open(filename)


def _from_bytes(data: bytes) -> BloomFilter:
    """Return a filter without a file of its own."""
    self = BloomFilter.__new__(BloomFilter)
    self._temporary = Temporary.read(io.BytesIO(data), -1, _backing.buffer_for(1 << 20))
    self._store, self._read_only = self._temporary.store, False
    return self
