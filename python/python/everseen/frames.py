"""Rows never seen before, of Parquet files and of frames of polars, pandas and DuckDB.

```python
from everseen.frames import remember, unseen, write
from everseen.seenset import SeenSet

seen = SeenSet("seen")
with seen.epoch("2026-11-27", output="fresh/2026-11-27") as day:
    write(day, unseen(day, "pages/2026-11-27/*.parquet", "url"))    # rows never seen, the first of each key
    remember(day, "url")                                            # what was written; then publish
```

If anything fails or is killed, run the program again: an output that is whole is not decided again, another is replaced.

Files and relations are read batch by batch, so they may be larger than memory.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow  # type: ignore[import-untyped]
from pyarrow import parquet

from everseen.errors import NotCommittedError
from everseen.seenset._batches import ReadOnce

if TYPE_CHECKING:
    from everseen.seenset import Epoch

__all__ = ["Rows", "remember", "unseen", "write"]

_BATCH = 1 << 15

_Path = str | os.PathLike[str]


class Rows:
    """Batches of Arrow that are read once, while they are iterated, or by what reads Arrow streams; within the epoch."""

    # Not pyarrow's reader, which makes one exception of all.
    def __init__(self, schema: pyarrow.Schema, batches: Iterator[pyarrow.RecordBatch]) -> None:
        self.schema = schema
        """The columns."""
        self._batches = ReadOnce(batches)

    def __iter__(self) -> Iterator[pyarrow.RecordBatch]:
        return iter(self._batches)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pyarrow.RecordBatchReader.from_batches(self.schema, iter(self)).__arrow_c_stream__(requested_schema)


def unseen(epoch: Epoch, rows: Any, column: str, *, processes: int = 0) -> Any:
    """Return the rows whose key was never seen, and is seen for the first time here. Nothing is changed.

    Rows keep their order, and of those with one key the first stays, exactly; that takes at most 60 bytes of memory for each
    key that was never seen. For a share of new keys no larger than the set's rate no row stays.

    Args:
        epoch: The epoch, begun.
        rows: A pandas or polars frame; a lazy frame; a DuckDB relation; a pyarrow table or reader; or a path of Parquet files,
            with `*` or of a folder, with those in it, or several. Files are read in the order of their names.
        column: The column with the keys: strings or bytes.
        processes: How many processes look up. With 0 this one does.

    Returns:
        A frame of pandas or polars for one of those. For all others `Rows`, which `write` takes, and so do
        `polars.DataFrame`, `pyarrow.table`, and a query of DuckDB that names them (of another connection than theirs).

    Raises:
        NullKeyError: A row has no key.

    >>> import polars
    >>> from everseen.frames import unseen
    >>> from everseen.seenset import SeenSet
    >>> with SeenSet("frames", shards=4).epoch("monday") as day:
    ...     unseen(day, polars.DataFrame({"url": ["a", "b", "a"], "n": [1, 2, 3]}), "url")["n"].to_list()
    [1, 2]
    """
    library = type(rows).__module__.partition(".")[0]
    if library == "pandas" or (library == "polars" and not hasattr(rows, "collect")):
        if epoch.published or len(rows) == 0:
            # Nothing is left to decide, and what it was decided by may be vacuumed.
            return rows[:0]
        (frame,) = epoch.unseen([rows], column, processes=processes)
        return frame
    schema, batches = _read(rows)

    def judged() -> Iterator[pyarrow.RecordBatch]:
        # Not before they are read: of an epoch that is published nobody does, and its base may be vacuumed.
        yield from epoch.unseen(batches, column, processes=processes)

    return Rows(schema, judged())


def _read(rows: Any) -> tuple[pyarrow.Schema, Iterable[pyarrow.RecordBatch]]:
    """Return the schema and the batches of what is read bit by bit."""
    if isinstance(rows, Rows):
        return rows.schema, rows
    library = type(rows).__module__.partition(".")[0]
    if library == "pandas":
        # Which rows are left decides what pandas takes for an index, and an index without a name is no column.
        named = any(name is not None for name in rows.index.names)
        table = pyarrow.Table.from_pandas(rows, preserve_index=named)
        return table.schema, table.to_batches(_BATCH)
    if library == "polars" and not hasattr(rows, "collect"):
        # Its stream has types that Parquet files can't have.
        table = rows.to_arrow()
        return table.schema, table.to_batches(_BATCH)
    if hasattr(rows, "__arrow_c_stream__"):
        reader = pyarrow.RecordBatchReader.from_stream(rows)
        return reader.schema, reader
    if hasattr(rows, "collect"):
        # A lazy frame of polars.
        schema = rows.head(0).collect().to_arrow().schema
        return schema, _batches_of(rows, schema)
    if isinstance(rows, str | os.PathLike) or (
        isinstance(rows, list | tuple) and all(isinstance(path, str | os.PathLike) for path in rows)
    ):
        files = _paths([rows] if isinstance(rows, str | os.PathLike) else rows)
        if not files:
            raise ValueError("no paths of files are given")
        return parquet.read_schema(files[0]), _batches_in(files, None)
    raise TypeError(f"{type(rows).__name__}: rows are a frame, a relation, an Arrow table or reader, or paths of files")


def _batches_in(files: list[str], columns: list[str] | None) -> Iterator[pyarrow.RecordBatch]:
    """Yield the rows of files, one file after the other: so the first row of a key is the same at each try."""
    schema = parquet.read_schema(files[0])
    if columns is not None:
        schema = pyarrow.schema([schema.field(column) for column in columns])
    for file in files:
        # A data set of pyarrow would read hundreds of megabytes ahead.
        with parquet.ParquetFile(file) as opened:
            for batch in opened.iter_batches(_BATCH, columns=columns):
                yield batch if batch.schema.equals(schema) else batch.select(schema.names).cast(schema)


def _batches_of(lazy: Any, schema: pyarrow.Schema) -> Iterator[pyarrow.RecordBatch]:
    frames = lazy.collect_batches() if hasattr(lazy, "collect_batches") else [lazy.collect()]
    for frame in frames:
        yield from frame.to_arrow().cast(schema).to_batches()


def _paths(given: Iterable[_Path]) -> list[str]:
    found = []
    for path in (os.fspath(path) for path in given):
        if os.path.isfile(path):
            found.append(path)
            continue
        names = _files_in(path) if os.path.isdir(path) else sorted(glob.glob(path, recursive=True))
        if not names:
            raise FileNotFoundError(f"{path}: no such file")
        found += names
    return found


def _files_in(folder: str) -> list[str]:
    """Return the Parquet files of a folder and those in it, without what begins with `_` or `.`, as other readers do."""
    found = []
    for inside, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        found += [
            os.path.join(inside, name) for name in files if name.endswith(".parquet") and not name.startswith(("_", "."))
        ]
    return sorted(found)


def write(epoch: Epoch, rows: Any, **options: Any) -> None:
    """Write the result of `unseen` to the epoch's output, as Parquet, unless it is there and committed.

    Args:
        epoch: The epoch, begun, with an output.
        rows: A frame, or what `unseen` has returned. It is not read if the output is committed.
        options: Of `pyarrow.parquet.ParquetWriter`, such as `compression`.
    """
    if epoch.committed:
        return
    if epoch.output is None:
        raise ValueError("the epoch has no output: give one to `SeenSet.epoch`")
    folder = Path(epoch.output)
    folder.mkdir(parents=True, exist_ok=True)
    schema, batches = _read(rows)
    # Whatever a run that was killed has left there.
    with parquet.ParquetWriter(folder / "part-00000.parquet", schema, **options) as file:
        for batch in batches:
            file.write_batch(batch)
    epoch.commit_output()


def remember(epoch: Epoch, column: str, *, processes: int = 0) -> None:
    """Add the keys of the epoch's committed output to what it will publish.

    Args:
        epoch: The epoch, begun, with an output: Parquet files that `write` or another program has written, and committed.
        column: The column with the keys.
        processes: How many processes write shards. With 0 this one does.

    Raises:
        NotCommittedError: The output is not whole.
    """
    if epoch.published:
        return
    if not epoch.committed or epoch.output is None:
        raise NotCommittedError(f"{epoch.output} holds no _SUCCESS: it is not committed")
    # Where nothing was new, a program may write no file at all.
    files = _files_in(epoch.output)
    epoch.remember(_batches_in(files, [column]) if files else (), column, processes=processes)
