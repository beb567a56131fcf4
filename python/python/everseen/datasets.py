"""Rows never seen before, of data sets of Hugging Face `datasets`.

```python
from datasets import load_dataset

from everseen.datasets import remember, unseen, write
from everseen.seenset import SeenSet

pages = load_dataset("parquet", data_files="2026-11-27/*.parquet", split="train")
seen = SeenSet("seen")
with seen.epoch("2026-11-27", output="fresh/2026-11-27") as day:
    write(day, unseen(day, pages, "url", num_proc=4))    # rows never seen, the first of each key
    remember(day, "url")                                 # what was written; then publish
```

If anything fails or is killed, run the program again.

Never insert in a function that `filter` or `map` calls. What a killed run has inserted is seen at the next try, and its rows are
lost; and a result that comes from the cache says what was new on another day. `Unseen` only looks up, in a set that doesn't
change, and its fingerprint names the state of that set. So its result is cached, and computed again when the set has changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy
from datasets import Dataset, IterableDataset, load_from_disk  # type: ignore[import-untyped]

from everseen._everseen import Distinct
from everseen.errors import NotCommittedError
from everseen.seenset._manifest import manifest_of
from everseen.seenset._shards import Reader, hasher_of, second_hasher_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everseen.seenset import Epoch, Manifest
    from everseen.seenset._shards import Root

__all__ = ["Unseen", "remember", "unseen", "write"]

_BATCH = 1 << 16


class Unseen:
    """Says which rows have a key that was not seen before an epoch: `dataset.filter(Unseen(day, "url"), batched=True)`.

    It may be called any number of times, in any process, and changes nothing. Of rows with one key it keeps all: `unseen`
    keeps the first.

    Args:
        epoch: The epoch, begun.
        column: The column with the keys: strings or bytes.
    """

    def __init__(self, epoch: Epoch, column: str) -> None:
        self._set(epoch._root, epoch.base, column)

    def _set(self, root: Root, manifest: Manifest, column: str) -> None:
        self._root = root
        self._manifest = manifest
        self._column = column
        self._hasher = hasher_of(manifest.settings)
        self._reader: Reader | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # `datasets` takes a hash of this for what the function does: it names the set, its state and the column, in
        # bytes that are the same in each process.
        return _unseen_of, (self._root, self._manifest.number, self._manifest.encode(), self._column)

    def __call__(self, batch: Any) -> list[bool]:
        if self._reader is None:
            self._reader = Reader(self._root, self._manifest)
        keys = batch[self._column]
        if isinstance(keys, numpy.ndarray) and keys.dtype.kind == "S":
            # Such an array has no zeros at the end of its bytes: other keys than those that are remembered.
            raise TypeError(f"{self._column}: bytes in numpy arrays lose zeros at their end; filter the data set `with_format('arrow')`")
        answers: list[bool] = (~self._reader.contains(self._hasher.hash_many(keys))).tolist()
        return answers


def _unseen_of(root: Root, number: int, manifest: bytes, column: str) -> Unseen:
    made = Unseen.__new__(Unseen)
    made._set(root, manifest_of(manifest, "the manifest of a function", number), column)
    return made


def _keys_of(dataset: Dataset, column: str) -> Iterator[Any]:
    """Yield the keys of a data set, in batches of Arrow."""
    for batch in dataset.select_columns([column]).with_format("arrow").iter(batch_size=_BATCH):
        yield batch[column]


def unseen(epoch: Epoch, dataset: Dataset, column: str, *, num_proc: int | None = None, **options: Any) -> Dataset:
    """Return the rows whose key was never seen, and is seen for the first time here. Nothing is changed.

    Of rows with one key the first stays, exactly; that takes at most 60 bytes of memory for each key that was never seen.
    For a share of new keys no larger than the set's rate no row stays.

    Args:
        epoch: The epoch, begun.
        dataset: The rows. For a stream use `epoch.unseen(stream.with_format("arrow").iter(1000), column)`.
        column: The column with the keys: strings or bytes.
        num_proc: How many processes look up.
        options: Others of `Dataset.filter`, such as `batch_size` and `load_from_cache_file`; not those that name the result,
            which would be taken for that of another day.

    Raises:
        NullKeyError: A row has no key.
    """
    if isinstance(dataset, IterableDataset):
        raise TypeError("a stream can't be filtered twice: pass its batches to `epoch.unseen`")
    for name in ("cache_file_name", "new_fingerprint"):
        if options.get(name) is not None:
            raise ValueError(f"{name} would name results of different days alike: leave it out")
    if epoch.published:
        # Nothing is left to decide, and what it was decided by may be vacuumed.
        return dataset.select([])
    given = dataset.format
    rows = dataset.with_format("arrow").filter(Unseen(epoch, column), batched=True, num_proc=num_proc, **options)
    rows = rows.with_format(
        given["type"], given["columns"], given["output_all_columns"], **given["format_kwargs"]
    )
    settings = epoch.base.settings
    hasher, other, distinct = hasher_of(settings), second_hasher_of(settings), Distinct()
    masks = [distinct.insert_many(hasher.hash_many(keys), other.hash_many(keys)) for keys in _keys_of(rows, column)]
    first = numpy.concatenate(masks) if masks else numpy.zeros(0, dtype=bool)
    return rows if first.all() else rows.select(numpy.flatnonzero(first))


def write(epoch: Epoch, dataset: Dataset, **options: Any) -> None:
    """Write the result of `unseen` to the epoch's output (`save_to_disk`), unless it is there and committed.

    Args:
        epoch: The epoch, begun, with an output.
        dataset: The rows.
        options: Others of `Dataset.save_to_disk`, such as `num_proc`.
    """
    if not epoch.committed:
        if epoch.output is None:
            raise ValueError("the epoch has no output: give one to `SeenSet.epoch`")
        for left in Path(epoch.output).glob("data-*-of-*.arrow"):
            # Of a run that was killed, perhaps with other numbers of shards in their names.
            left.unlink()
        dataset.save_to_disk(epoch.output, **options)
        epoch.commit_output()


def remember(epoch: Epoch, column: str) -> None:
    """Add the keys of the epoch's committed output to what it will publish.

    Raises:
        NotCommittedError: The output is not whole: `write` has not come to its end.
    """
    if epoch.published:
        return
    if not epoch.committed or epoch.output is None:
        raise NotCommittedError(f"{epoch.output} holds no _SUCCESS: it is not committed")
    epoch.remember(_keys_of(load_from_disk(epoch.output), column))
