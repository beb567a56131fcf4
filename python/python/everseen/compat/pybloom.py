"""`BloomFilter` and `ScalableBloomFilter` of pybloom-live.

>>> from everseen.compat.pybloom import BloomFilter
>>> names = BloomFilter(capacity=1000, error_rate=0.001)
>>> names.add("ann"), names.add("ann"), "ann" in names, len(names)
(False, True, True, 1)
"""

from __future__ import annotations

import io
from typing import IO, Any, Self

from everseen import LayerStats, errors
from everseen.compat import _backing
from everseen.compat._backing import Temporary

__all__ = ["BloomFilter", "ScalableBloomFilter"]


def _as_key(key: object) -> str | bytes:
    # Theirs takes what has a text for that text.
    return key if isinstance(key, str | bytes) else str(key)


class _Filter:
    _backing: Temporary
    _growth: tuple[int, int] | None
    """The first capacity and the factor of a filter that grows, if they are known."""

    def __contains__(self, key: object) -> bool:
        """Return whether the key is in the filter. `False` is certain."""
        return _as_key(key) in self._backing.store

    def __len__(self) -> int:
        return len(self._backing.store)

    @property
    def count(self) -> int:
        """How many keys the filter has."""
        return len(self)

    @property
    def error_rate(self) -> float:
        """The rate at which the filter may be wrong."""
        return self._backing.store.stats().fpr_target

    def _add(self, key: object, skip_check: bool) -> bool:
        return not self._backing.store.insert(_as_key(key)) and not skip_check

    def tofile(self, f: IO[bytes]) -> None:
        """Write the filter to a file that is open for writing bytes."""
        self._backing.write(f)

    @classmethod
    def fromfile(cls, f: IO[bytes], n: int = -1) -> Self:
        """Read a filter from a file: its next `n` bytes, or all of them.

        Raises:
            ValueError: That is no filter.
        """
        self = cls.__new__(cls)
        self._backing = Temporary.read(f, n, _backing.buffer_for(1 << 20))
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        file = io.BytesIO()
        self.tofile(file)
        return _from_bytes, (type(self), file.getvalue(), getattr(self, "_growth", None))

    @property
    def bitarray(self) -> object:
        """There is none."""
        _backing.refuse("bitarray", "the bits of a store lie in pages, with checksums, and not in memory")


def _from_bytes(cls: type[_Filter], data: bytes, growth: tuple[int, int] | None) -> _Filter:
    self = cls.fromfile(io.BytesIO(data))
    self._growth = growth
    return self


class BloomFilter(_Filter):
    """A filter for a fixed number of keys.

    Args:
        capacity: How many keys it is for.
        error_rate: How often it may be wrong when it is full.
    """

    def __init__(self, capacity: int, error_rate: float = 0.001) -> None:
        _backing.check_sizes(capacity, error_rate)
        self._backing = Temporary(
            capacity=int(capacity),
            fpr=error_rate,
            kind="bloom",
            seed=_backing.SEED,
            buffer=_backing.buffer_for(int(capacity)),
            measured=False,
        )

    def _sizes(self) -> tuple[int, float]:
        return self.capacity, self.error_rate

    def _buffer(self) -> int:
        return _backing.buffer_for(self.capacity)

    @property
    def capacity(self) -> int:
        """How many keys it is for."""
        capacity = self._backing.store.stats().capacity
        assert capacity is not None
        return capacity

    @property
    def num_slices(self) -> int:
        """Bits per key."""
        return self._backing.store.stats().layers[0].k

    @property
    def num_bits(self) -> int:
        """Bits of the filter."""
        return self._backing.store.stats().layers[0].bits

    def add(self, key: object, skip_check: bool = False) -> bool:
        """Add a key, and return whether it was there (`False` with `skip_check`).

        Raises:
            IndexError: The filter is full.
        """
        try:
            return self._add(key, skip_check)
        except errors.FullError as error:
            raise IndexError(f"BloomFilter is at capacity: {error}") from error

    def copy(self) -> BloomFilter:
        """Return a copy."""
        other = BloomFilter.__new__(BloomFilter)
        other._backing = self._backing.copy(self._buffer())
        return other

    def union(self, other: BloomFilter) -> BloomFilter:
        """Return a filter with the keys of both, which have one capacity and one error rate.

        Raises:
            ValueError: They differ, or the keys of both are too many.
        """
        if self._sizes() != other._sizes():
            raise ValueError("a union is of filters of the same capacity and error rate")
        united = BloomFilter.__new__(BloomFilter)
        try:
            united._backing = self._backing.united([other._backing.path], self._buffer())
        except errors.OverfullError as error:
            raise ValueError(str(error)) from error
        return united

    def __or__(self, other: BloomFilter) -> BloomFilter:
        return self.union(other)

    def intersection(self, other: BloomFilter) -> BloomFilter:
        """There is none."""
        if self._sizes() != other._sizes():
            raise ValueError("an intersection is of filters of equal capacity and error rate")
        _backing.refuse_intersection()

    def __and__(self, other: BloomFilter) -> BloomFilter:
        return self.intersection(other)


class ScalableBloomFilter(_Filter):
    """A filter that grows.

    Args:
        initial_capacity: The keys of its first layer.
        error_rate: How often it may be wrong, all layers together.
        mode: How many times as large each layer is as the one before it: `SMALL_SET_GROWTH`, `LARGE_SET_GROWTH`.
    """

    SMALL_SET_GROWTH = 2
    LARGE_SET_GROWTH = 4

    def __init__(self, initial_capacity: int = 100, error_rate: float = 0.001, mode: int = LARGE_SET_GROWTH) -> None:
        _backing.check_sizes(initial_capacity, error_rate)
        self._growth = (int(initial_capacity), mode)
        self._backing = Temporary(
            capacity=int(initial_capacity),
            fpr=error_rate,
            kind="scalable",
            growth=mode,
            seed=_backing.SEED,
            buffer=_backing.buffer_for(1 << 15),
            measured=False,
        )

    @property
    def capacity(self) -> int:
        """The keys of all layers that there are."""
        return sum(layer.capacity for layer in self.filters)

    def _known_growth(self) -> tuple[int, int]:
        growth: tuple[int, int] | None = getattr(self, "_growth", None)
        if growth is None:
            _backing.refuse("growth", "a filter that was read from a file keeps how it grows to itself")
        return growth

    @property
    def initial_capacity(self) -> int:
        """The keys of its first layer."""
        return self._known_growth()[0]

    @property
    def scale(self) -> int:
        """How many times as large each layer is as the one before it."""
        return self._known_growth()[1]

    def add(self, key: object) -> bool:
        """Add a key, and return whether it was there."""
        return self._add(key, skip_check=False)

    def union(self, other: ScalableBloomFilter) -> ScalableBloomFilter:
        """Return a filter with the keys of both. It may be wrong as often as both together."""
        growths = {getattr(self, "_growth", None), getattr(other, "_growth", None)} - {None}
        if self.error_rate != other.error_rate or len(growths) > 1:
            raise ValueError("a union is of filters of the same mode, initial capacity and error rate")
        united = ScalableBloomFilter.__new__(ScalableBloomFilter)
        united._growth = next(iter(growths), None)
        rate = min(self.error_rate + other.error_rate, 0.999)
        try:
            united._backing = self._backing.united([other._backing.path], _backing.buffer_for(1 << 15), rate)
        except (errors.OverfullError, errors.MismatchError) as error:
            raise ValueError(str(error)) from error
        return united

    def __or__(self, other: ScalableBloomFilter) -> ScalableBloomFilter:
        return self.union(other)

    @property
    def filters(self) -> list[LayerStats]:
        """Its layers, which tell of their size and are no filters of their own."""
        self._backing.store.checkpoint()
        return self._backing.store.stats().layers
