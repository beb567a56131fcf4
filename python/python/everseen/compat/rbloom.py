"""`Bloom` of rbloom.

>>> from everseen.compat.rbloom import Bloom
>>> names = Bloom(1000, 0.001)
>>> names.add("ann")
>>> "ann" in names, "bob" in names
(True, False)
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any

from everseen import errors
from everseen.compat import _backing
from everseen.compat._backing import Temporary

__all__ = ["Bloom"]


def _check_hash(hash_func: Callable[[Any], int] | None) -> None:
    if hash_func is not None and hash_func is not hash:
        _backing.refuse(
            "hash_func",
            "a store hashes str and bytes with a keyed hash of its own, which another process knows too",
        )


class Bloom:
    """A filter for a fixed number of items.

    Args:
        expected_items: How many items it is for.
        false_positive_rate: How often it may be wrong when it is full.
        hash_func: Python's own `hash`, or nothing. Items that are neither `str` nor `bytes` are hashed by it.
    """

    def __init__(
        self,
        expected_items: int,
        false_positive_rate: float,
        hash_func: Callable[[Any], int] | None = None,
    ) -> None:
        _check_hash(hash_func)
        _backing.check_sizes(expected_items, false_positive_rate)
        self._options: dict[str, Any] = {
            "capacity": expected_items,
            "fpr": false_positive_rate,
            "kind": "bloom",
            "seed": _backing.SEED,
            "buffer": _backing.buffer_for(expected_items),
            "measured": False,
        }
        self._backing = Temporary(**self._options)

    def _with(self, backing: Temporary) -> Bloom:
        other = Bloom.__new__(Bloom)
        other._options, other._backing = self._options, backing
        return other

    @property
    def _buffer(self) -> int:
        return int(self._options["buffer"])

    @property
    def size_in_bits(self) -> int:
        """Bits of the filter."""
        return self._backing.store.stats().layers[0].bits

    @property
    def hash_func(self) -> Callable[[Any], int]:
        """What hashes items that are neither `str` nor `bytes`."""
        return hash

    @property
    def approx_items(self) -> float:
        """How many items the filter has."""
        return float(len(self._backing.store))

    def add(self, obj: object) -> None:
        """Add an item.

        Raises:
            FullError: The filter has all the items that it is for.
        """
        _backing.insert(self._backing.store, obj)

    def __contains__(self, obj: object) -> bool:
        """Return whether the item is in the filter. `False` is certain."""
        return _backing.contains(self._backing.store, obj)

    def __bool__(self) -> bool:
        return len(self._backing.store) > 0

    def __repr__(self) -> str:
        return f"<Bloom size_in_bits={self.size_in_bits} approx_items={self.approx_items:.1f}>"

    def update(self, *others: Iterable[object] | Bloom) -> None:
        """Add all items of iterables and of filters made alike."""
        blooms = [other for other in others if isinstance(other, Bloom)]
        for other in others:
            if not isinstance(other, Bloom):
                _backing.insert_all(self._backing.store, other)
        if blooms:
            self._backing = self._united(blooms)

    def _united(self, others: list[Bloom]) -> Temporary:
        try:
            return self._backing.united([other._backing.path for other in others], self._buffer)
        except (errors.MismatchError, errors.OverfullError) as error:
            raise ValueError(str(error)) from error

    def union(self, *others: Iterable[object] | Bloom) -> Bloom:
        """Return a filter with the items of this one and of all others."""
        united = self.copy()
        united.update(*others)
        return united

    def __or__(self, other: Bloom) -> Bloom:
        return self._with(self._united([other])) if isinstance(other, Bloom) else NotImplemented

    def __ior__(self, other: Bloom) -> Bloom:
        if not isinstance(other, Bloom):
            return NotImplemented
        self.update(other)
        return self

    def copy(self) -> Bloom:
        """Return a copy."""
        return self._with(self._backing.copy(self._buffer))

    def clear(self) -> None:
        """Remove all items."""
        self._backing = Temporary(**self._options)

    def save(self, filepath: str) -> None:
        """Write the filter to a file, which is a store of Everseen.

        Raises:
            AlreadyExistsError: There is something at that path.
        """
        self._backing.store.snapshot(filepath)

    @classmethod
    def load(cls, filepath: str, hash_func: Callable[[Any], int] | None = None) -> Bloom:
        """Read a filter that `save` has written."""
        with open(filepath, "rb") as file:
            return cls._read(file, hash_func)

    def save_bytes(self) -> bytes:
        """Return the filter as bytes."""
        file = io.BytesIO()
        self._backing.write(file)
        return file.getvalue()

    @classmethod
    def load_bytes(cls, data: bytes, hash_func: Callable[[Any], int] | None = None) -> Bloom:
        """Read a filter that `save_bytes` has returned."""
        return cls._read(io.BytesIO(data), hash_func)

    @classmethod
    def _read(cls, file: Any, hash_func: Callable[[Any], int] | None) -> Bloom:
        _check_hash(hash_func)
        backing = Temporary.read(file, -1, _backing.buffer_for(1 << 20))
        stats = backing.store.stats()
        self = cls.__new__(cls)
        self._backing = backing
        self._options = {
            "capacity": stats.capacity,
            "fpr": stats.fpr_target,
            "kind": "bloom",
            "seed": _backing.SEED,
            "buffer": _backing.buffer_for(stats.capacity or 0),
            "measured": False,
        }
        return self

    def intersection(self, *others: Iterable[object] | Bloom) -> Bloom:
        """There is none."""
        _backing.refuse_intersection()

    def intersection_update(self, *others: Iterable[object] | Bloom) -> None:
        """There is none."""
        _backing.refuse_intersection()

    def __and__(self, other: Bloom) -> Bloom:
        _backing.refuse_intersection()

    def __iand__(self, other: Bloom) -> Bloom:
        _backing.refuse_intersection()

    def _refuse_comparison(self) -> bool:
        _backing.refuse("comparison", "it takes the bits of both filters, which lie in pages on the disk")

    def issubset(self, other: Bloom) -> bool:
        """There is no comparison."""
        return self._refuse_comparison()

    def issuperset(self, other: Bloom) -> bool:
        """There is no comparison."""
        return self._refuse_comparison()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Bloom) and self._refuse_comparison())

    __hash__ = None  # type: ignore[assignment]

    def __lt__(self, other: Bloom) -> bool:
        return self._refuse_comparison()

    def __gt__(self, other: Bloom) -> bool:
        return self._refuse_comparison()

    def __le__(self, other: Bloom) -> bool:
        return self._refuse_comparison()

    def __ge__(self, other: Bloom) -> bool:
        return self._refuse_comparison()
