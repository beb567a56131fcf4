"""What runs in Spark's tasks, over batches of Arrow.

Each is pure, or writes only files that no one knows of before the driver does: so a task may be run again, run twice, and
be killed anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow  # type: ignore[import-untyped]
from pyarrow import compute

from everseen._everseen import Hasher
from everseen.errors import VacuumedError
from everseen.seenset._shards import Reader, by_shard, hasher_of, new_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from everseen.seenset._manifest import Manifest, Settings, Shard
    from everseen.seenset._shards import Hashes, Mask, Root

# Columns that rows have on their way.
HASH = "__everseen_hash"
TASK = "__everseen_task"
KEY = "__everseen_key"

# What a task that writes shards answers.
WRITTEN = "shard int, file string, size long, sha256 string, keys long"

# Rows that repeat within this many rows, and about this many bytes, are found before they are sent.
_GROUP_ROWS = 1 << 18
_GROUP_BYTES = 64 << 20


def first_of_each(hashes: Hashes, keys: Any) -> Mask:
    """Return which rows are the first of their key. The keys decide; hashes only say which to compare."""
    first = numpy.ones(len(hashes), dtype=bool)
    order = numpy.argsort(hashes, kind="stable")
    ordered = hashes[order]
    repeats = numpy.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    if len(repeats) == 0:
        return first
    begins = numpy.zeros(len(hashes), dtype=bool)
    begins[0] = True
    begins[1:] = ordered[1:] != ordered[:-1]
    leaders = order[numpy.flatnonzero(begins)[numpy.cumsum(begins) - 1]]
    rows, leaders = order[repeats], leaders[repeats]
    same = _equal(keys.take(pyarrow.array(rows)), keys.take(pyarrow.array(leaders)))
    first[rows[same]] = False
    # Other keys with a leader's hash, hardly ever: one by one.
    known: dict[int, set[Any]] = {}
    for row, leader in zip(rows[~same].tolist(), leaders[~same].tolist(), strict=True):
        key = keys[row].as_py()
        others = known.setdefault(leader, set())
        first[row] = key not in others
        others.add(key)
    return first


def _equal(one: Any, other: Any) -> Mask:
    equal: Mask = numpy.asarray(compute.equal(one, other).to_numpy(zero_copy_only=False), dtype=bool)
    return equal


def _flat(column: Any) -> Any:
    """Return a column as one array."""
    return column.combine_chunks() if isinstance(column, pyarrow.ChunkedArray) else column


@dataclass(frozen=True)
class Hashing:
    """Adds to each row the hash of its key, and the number of the task that judges it."""

    settings: Settings
    key: str
    keeps_all: bool
    """Whether rows that repeat are kept."""
    hashes_alone: bool = False
    """Whether nothing else of the rows is kept."""

    def __call__(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        hasher = hasher_of(self.settings)
        for table, most in self._groups(batches):
            keys = _flat(table.column(self.key))
            hashes = hasher.hash_many(keys)
            if not self.keeps_all:
                first = first_of_each(hashes, keys)
                if not first.all():
                    table, hashes = table.filter(pyarrow.array(first)), hashes[first]
            if self.hashes_alone:
                table = table.select([])
            tasks = Hasher.shards(hashes, self.settings.shards).astype(numpy.int32)
            table = _with(table, HASH, pyarrow.array(hashes.view(numpy.int64)))
            yield from _with(table, TASK, pyarrow.array(tasks)).to_batches(max_chunksize=most)

    def _groups(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[tuple[pyarrow.Table, int]]:
        """Yield several batches as one table, where rows that repeat are left out, with the largest one's rows."""
        gathered: list[pyarrow.RecordBatch] = []
        rows = size = most = 0
        for batch in batches:
            if batch.num_rows == 0:
                continue
            gathered.append(batch)
            most = max(most, batch.num_rows)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if self.keeps_all or rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
                yield pyarrow.Table.from_batches(gathered), most
                gathered, rows, size = [], 0, 0
        if gathered:
            yield pyarrow.Table.from_batches(gathered), most


def _with(table: pyarrow.Table, name: str, column: pyarrow.Array) -> pyarrow.Table:
    if table.num_columns == 0:
        return pyarrow.table({name: column})
    return table.append_column(name, column)


@dataclass(frozen=True)
class Judging:
    """Lets through rows, sorted by hash, that are the first of their key and were never seen."""

    root: Root
    manifest: Manifest | None
    """What was published before; `None` if that was vacuumed."""
    key: str
    columns: Sequence[str]

    def __call__(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        if self.manifest is None:
            raise VacuumedError("the state of the set that the epoch began from was vacuumed")
        run = Run()
        with Reader(self.root, self.manifest) as reader:
            for batch in batches:
                hashes = batch.column(HASH).to_numpy(zero_copy_only=False).view(numpy.uint64)
                stays = run.first(hashes, batch.column(self.key))
                places = numpy.flatnonzero(stays)
                stays[places] = ~reader.contains(hashes[places])
                yield batch.select(list(self.columns)).filter(pyarrow.array(stays))


class Run:
    """Rows with one hash, which may go on from batch to batch."""

    def __init__(self) -> None:
        self._hash: numpy.uint64 | None = None
        self._keys: list[Any] = []

    def first(self, hashes: Hashes, keys: Any) -> Mask:
        """Return which rows are the first of their key, here and in all batches before."""
        first = numpy.ones(len(hashes), dtype=bool)
        if len(hashes) == 0:
            return first
        if hashes[0] == self._hash:
            others = hashes != self._hash
            goes_on = int(others.argmax()) if others.any() else len(hashes)
            for key in self._keys:
                first[:goes_on] &= ~_equal(keys.slice(0, goes_on), key)
        else:
            self._keys = []
        places = numpy.flatnonzero(first)
        first[places] = first_of_each(hashes[places], keys.take(pyarrow.array(places)))
        last = hashes[-1]
        if last != self._hash:
            self._hash, self._keys = last, []
        self._keys += [keys[place] for place in numpy.flatnonzero(first & (hashes == last)).tolist()]
        return first


@dataclass(frozen=True)
class Writing:
    """Writes new versions of shards, and answers where they are."""

    root: Root
    settings: Settings
    shards: tuple[Shard | None, ...]
    attempt: str
    epoch: str
    buffer: int | None

    def __call__(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        gathered: dict[int, list[Hashes]] = {}
        for batch in batches:
            hashes = batch.column(HASH).to_numpy(zero_copy_only=False).view(numpy.uint64)
            for number, places in by_shard(hashes, self.settings.shards):
                gathered.setdefault(number, []).append(hashes[places])
        for number, parts in sorted(gathered.items()):
            shard = new_version(
                self.root, self.settings, self.shards[number], number, parts, self.attempt, self.epoch, self.buffer
            )
            yield pyarrow.RecordBatch.from_pydict(
                {
                    "shard": pyarrow.array([number], pyarrow.int32()),
                    "file": pyarrow.array([shard.file]),
                    "size": pyarrow.array([shard.size], pyarrow.int64()),
                    "sha256": pyarrow.array([shard.sha256]),
                    "keys": pyarrow.array([shard.keys], pyarrow.int64()),
                }
            )
