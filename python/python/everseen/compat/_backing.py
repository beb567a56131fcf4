"""What lies behind a stand-in: a store in a temporary folder, or at a path of the user's."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from typing import IO, Any, NoReturn

import everseen

# Filters made alike can be united, so all have one hash key, as those have that they stand in for.
SEED = bytes(32)

_LEAST_BUFFER = 128 << 10
_MOST_BUFFER = 64 << 20
_PIECE = 1 << 16


def refuse(what: str, why: str) -> NoReturn:
    raise NotImplementedError(f"{what}: {why}")


def refuse_intersection() -> NoReturn:
    refuse(
        "intersection",
        "the bits that two filters share are no filter of the keys that they share; "
        "the rate would be unknown, and Everseen states its own",
    )


def check_sizes(capacity: int, error_rate: float) -> None:
    if not 0 < error_rate < 1:
        raise ValueError(f"Error_Rate must be between 0 and 1, and is {error_rate}")
    if not capacity > 0:
        raise ValueError(f"Capacity must be > 0, and is {capacity}")


def buffer_for(capacity: int) -> int:
    """Return the memory to grant: what the keys take, for filters that nobody thinks of as large."""
    return min(max(32 * capacity, _LEAST_BUFFER), _MOST_BUFFER)


def _discard(owner: int, store: everseen.Store, folder: str) -> None:
    # A forked child has the finalizer too, and the folder is its parent's.
    if os.getpid() == owner:
        store.close(discard=True)
        shutil.rmtree(folder, ignore_errors=True)


class Temporary:
    """A store in a folder that goes with it."""

    def __init__(self, **options: Any) -> None:
        self._begin(tempfile.mkdtemp(prefix="everseen-"), "x", options)

    def _begin(self, folder: str, mode: Any, options: dict[str, Any]) -> None:
        self.path = os.path.join(folder, "filter.ever")
        try:
            self.store = everseen.open(self.path, mode=mode, **options)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._end = weakref.finalize(self, _discard, os.getpid(), self.store, folder)

    @classmethod
    def adopt(cls, folder: str, buffer: int) -> Temporary:
        """Take over a folder with a store in it."""
        self = cls.__new__(cls)
        self._begin(folder, "r+", {"buffer": buffer})
        return self

    def copy(self, buffer: int) -> Temporary:
        folder = tempfile.mkdtemp(prefix="everseen-")
        self.store.snapshot(os.path.join(folder, "filter.ever"))
        return self.adopt(folder, buffer)

    def united(self, others: Iterable[str], buffer: int, fpr: float | None = None) -> Temporary:
        folder = tempfile.mkdtemp(prefix="everseen-")
        try:
            everseen.union(os.path.join(folder, "filter.ever"), [self.path, *others], fpr=fpr)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return self.adopt(folder, buffer)

    @classmethod
    def read(cls, file: IO[bytes], length: int, buffer: int) -> Temporary:
        """Read what `write` has written; `length` bytes, or up to the end if that is negative."""
        folder = tempfile.mkdtemp(prefix="everseen-")
        with open(os.path.join(folder, "filter.ever"), "wb") as copy:
            while length != 0:
                piece = file.read(1 << 20 if length < 0 else min(length, 1 << 20))
                if not piece:
                    break
                copy.write(piece)
                length -= len(piece) if length > 0 else 0
        try:
            return cls.adopt(folder, buffer)
        except everseen.errors.FormatError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise ValueError(str(error)) from error

    def taken_over(self, store: everseen.Store) -> Temporary:
        """Return the same folder with the store that lies in it now."""
        self._end.detach()
        self.store = store
        self._end = weakref.finalize(self, _discard, os.getpid(), store, os.path.dirname(self.path))
        return self

    def write(self, file: IO[bytes]) -> None:
        write_copy(self.store, file)

    def close(self) -> None:
        self._end()


def write_copy(store: everseen.Store, file: IO[bytes]) -> None:
    """Write a snapshot of a store to a file."""
    with tempfile.TemporaryDirectory(prefix="everseen-") as folder:
        path = os.path.join(folder, "filter.ever")
        store.snapshot(path)
        with open(path, "rb") as copy:
            shutil.copyfileobj(copy, file, 1 << 20)


def insert(store: everseen.Store, key: object) -> bool:
    """Insert a key of any type, and return whether it was absent."""
    if isinstance(key, str | bytes):
        return store.insert(key)
    return store.insert_hash(hash(key))


def contains(store: everseen.Store, key: object) -> bool:
    if isinstance(key, str | bytes):
        return key in store
    return store.contains_hash(hash(key))


def insert_all(store: everseen.Store, keys: Iterable[object]) -> None:
    if isinstance(keys, str | bytes):
        # An iterable of characters, or of numbers.
        keys = iter(keys)
    elif hasattr(keys, "__arrow_c_stream__") or hasattr(keys, "__arrow_c_array__"):
        store.insert_many(keys)  # type: ignore[arg-type]
        return
    items = iter(keys)
    while piece := list(itertools.islice(items, _PIECE)):
        if all(isinstance(key, str | bytes) for key in piece):
            store.insert_many(piece)  # type: ignore[arg-type]
        else:
            for key in piece:
                insert(store, key)
