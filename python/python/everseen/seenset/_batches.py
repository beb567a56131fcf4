"""Batches of rows on one machine: which rows are unseen, and which keys are remembered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from everseen.seenset._judge import Judge
from everseen.seenset._pool import Judges, written
from everseen.seenset._shards import by_shard, hasher_of, second_hasher_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from everseen.seenset._manifest import Manifest, Shard
    from everseen.seenset._shards import Hashes, Mask, Root


class ReadOnce(Iterator[Any]):
    """Batches that are iterated once. To remember what is left of them would publish an epoch without its keys."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches
        self._taken = False

    def __iter__(self) -> Iterator[Any]:
        if self._taken:
            raise RuntimeError("these rows were read before, and can be read once; ask `unseen` again")
        self._taken = True
        return self._batches

    def __next__(self) -> Any:
        return next(self._batches)


def keys_of(batch: Any, column: str | None) -> Any:
    """Return the keys of a batch."""
    return batch if column is None else batch[column]


def rows_where(batch: Any, mask: Mask) -> Any:
    """Return those rows of a batch, as a batch of the same kind."""
    library = type(batch).__module__.partition(".")[0]
    if library == "pyarrow":
        import pyarrow  # type: ignore[import-untyped]

        return batch.filter(pyarrow.array(mask))
    if library == "polars":
        import polars

        return batch.filter(polars.Series(mask))
    if isinstance(batch, list | tuple):
        return type(batch)(row for row, stays in zip(batch, mask, strict=True) if stays)
    return batch[mask]


def judged(root: Root, manifest: Manifest, batches: Iterable[Any], column: str | None, processes: int) -> Iterator[Any]:
    """Yield of each batch the rows whose key is seen for the first time."""
    hasher, other = hasher_of(manifest.settings), second_hasher_of(manifest.settings)
    judge = Judges(root, manifest, processes) if processes else Judge(root, manifest)
    try:
        for batch in batches:
            keys = keys_of(batch, column)
            yield rows_where(batch, judge.first(hasher.hash_many(keys), other.hash_many(keys)))
    finally:
        judge.close()


def remembered(
    root: Root,
    manifest: Manifest,
    newer: dict[int, Shard],
    batches: Iterable[Any],
    column: str | None,
    *,
    attempt: str,
    epoch: str,
    buffer: int | None,
    processes: int,
    hashed: bool = False,
) -> dict[int, Shard]:
    """Write a new version of each shard that gets keys, from the newest there is, and return them.

    `hashed`: the batches are hashes of keys already.
    """
    settings = manifest.settings
    hasher = hasher_of(settings)
    with Spool(root, attempt) as spool:
        for batch in batches:
            spool.add(batch if hashed else hasher.hash_many(keys_of(batch, column)), settings.shards)
        work = [
            (root, settings, newer.get(number) or manifest.shards[number], number, file, attempt, epoch, buffer)
            for number, file in spool.files()
        ]
        return dict(written(work, processes))


class Spool:
    """Hashes in a file for each shard, so that one shard is written at a time, and memory stays bounded.

    The files lie in the folder of the attempt: if the process is killed, a vacuum removes them.
    """

    # Hashes that are gathered before they are written.
    _MANY = 1 << 22

    def __init__(self, root: Root, attempt: str) -> None:
        self._root = root
        self._attempt = attempt
        self._gathered: dict[int, list[Hashes]] = {}
        self._count = 0
        self._files: dict[int, Path] = {}

    def add(self, hashes: Hashes, shards: int) -> None:
        """Add hashes."""
        for number, places in by_shard(hashes, shards):
            self._gathered.setdefault(number, []).append(hashes[places])
        self._count += len(hashes)
        if self._count >= self._MANY:
            self._write()

    def _write(self) -> None:
        for number, parts in self._gathered.items():
            if number not in self._files:
                self._files[number] = self._root.draft(f"{self._attempt}/{number:05}.spool")
            with open(self._files[number], "ab") as file:
                for part in parts:
                    # Not `tofile`, which says nothing where a full disk refuses its last bytes.
                    file.write(part.data)
        self._gathered.clear()
        self._count = 0

    def files(self) -> list[tuple[int, str]]:
        """Return each shard with the file of its hashes."""
        self._write()
        return sorted((number, str(path)) for number, path in self._files.items())

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        for path in self._files.values():
            path.unlink(missing_ok=True)
