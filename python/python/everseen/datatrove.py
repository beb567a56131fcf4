"""Near duplicates of documents in datatrove pipelines, against all that came before.

`SingleBloomFilter` stands where datatrove's own does, with the same rule: a document is dropped if more than
`duplicate_threshold` of its n-grams were seen. Theirs keeps bits in memory, for one run; and where `m_bytes` is a power of two,
it uses two of them. This one keeps the n-grams of a run in a file, and looks up in a seen set that lasts from run to run:

```python
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup.bloom_filter import BloomFilterConfig

from everseen.datatrove import Remember, SingleBloomFilter

day = {"seen": "seen", "epoch": "2026-11-27"}
config = BloomFilterConfig(m_bytes=1, k=1)    # no bits: only n_grams and duplicate_threshold count
filtering = LocalPipelineExecutor(
    [reader, SingleBloomFilter("new/2026-11-27", config, **day), writer], logging_dir="logs/2026-11-27"
)
remembering = LocalPipelineExecutor([Remember("new/2026-11-27", **day)], logging_dir="logs/2026-11-27r", depends=filtering)
remembering.run()
```

The filter changes nothing that another run sees. It leaves the n-grams that were new in its output folder, and `Remember` adds
them to the set once all tasks are complete. So a task that is killed and run again decides as it did, and no document is lost;
also if the set has the epoch already.

Of the configuration it takes `n_grams`, `duplicate_threshold` and `norm_config`. Disk follows the number of n-grams: some 40
bits each, and 8 bytes for each new one until it is remembered.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from abc import ABCMeta
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy
from datatrove.data import Document, DocumentsPipeline  # type: ignore[import-untyped]
from datatrove.io import DataFolder, DataFolderLike, get_datafolder  # type: ignore[import-untyped]
from datatrove.pipeline.base import PipelineStep  # type: ignore[import-untyped]
from datatrove.utils.logging import logger  # type: ignore[import-untyped]
from datatrove.utils.text import ngrams, simplify_text  # type: ignore[import-untyped]
from datatrove.utils.typeshelper import Languages, StatHints  # type: ignore[import-untyped]
from datatrove.utils.word_tokenizers import WordTokenizer, load_word_tokenizer  # type: ignore[import-untyped]

import everseen
from everseen.errors import ManifestError, NotCommittedError, NotFoundError, SetMismatchError
from everseen.seenset import SeenSet
from everseen.seenset._manifest import FORMAT, seal, unseal
from everseen.seenset._set import is_set
from everseen.seenset._shards import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everseen.seenset import Manifest
    from everseen.seenset._shards import Hashes, Mask

__all__ = ["Remember", "SingleBloomFilter"]

# Hashes that are read at a time.
_MANY = 1 << 20

# More than the first line of a file of new n-grams has.
_LONGEST_HEAD = 4096

# Of a set that is created.
_FPR = 1e-6


def _name_of(rank: int, world_size: int) -> str:
    return f"shingles/{rank:05}-of-{world_size:05}"


def _base_of(seen: SeenSet, epoch: str) -> Manifest:
    """Return the state of a set that an epoch is judged by, also if the epoch was published meanwhile."""
    last = seen.manifest()
    number = last.epochs.get(epoch)
    return last if number is None else seen.manifest(number - 1)


class _Run:
    """What one task has seen, and the set that was there before."""

    def __init__(self, seen: str | None, epoch: str, settings: dict[str, Any]) -> None:
        self._reader: Reader | None = None
        self._head: dict[str, Any] = {"format": FORMAT, "epoch": epoch}
        if settings["fpr"] is None and (seen is None or not is_set(seen)):
            settings = settings | {"fpr": _FPR}
        fpr, hash_, seed = settings["fpr"], "highway", os.urandom(32)
        if seen is not None:
            whole = SeenSet(seen, **settings)
            base = _base_of(whole, epoch)
            self._head |= {"set": base.settings.id, "base": base.number}
            fpr, hash_, seed = base.settings.fpr, base.settings.hash, bytes.fromhex(base.settings.seed)
            self._reader = Reader(whole._root, base)
        self.hasher = everseen.Hasher(hash_, seed)  # type: ignore[arg-type]
        self._folder = tempfile.TemporaryDirectory(prefix="everseen-")
        self._spool = open(Path(self._folder.name, "new"), "w+b")  # noqa: SIM115: it is open while the task runs.
        self._count, self._digest = 0, hashlib.sha256()
        self._store = everseen.open(
            Path(self._folder.name, "run.ever"),
            fpr=fpr,
            hash=hash_,  # type: ignore[arg-type]
            seed=seed,
            measured=False,
            exclusive=True,
        )

    def seen(self, hashes: Hashes) -> Mask:
        """Return which were seen before; from now on all were."""
        known = self._store.contains_hashed(hashes)
        if self._reader is not None:
            known |= self._reader.contains(hashes)
        new = hashes[~known]
        # One that comes twice here is new once.
        new = new[self._store.insert_hashed(new)]
        # Not `tofile`, which says nothing where a full disk refuses its last bytes.
        self._spool.write(new.data)
        self._count += len(new)
        self._digest.update(new.data)
        return known

    def save(self, folder: DataFolder, name: str) -> None:
        """Write what was new, after a line that says for which epoch of which set, how many there are, and their digest."""
        self._spool.seek(0)
        with folder.open(name, "wb") as file:
            file.write(seal(self._head | {"new": self._count, "digest": self._digest.hexdigest()}))
            while part := self._spool.read(8 * _MANY):
                file.write(part)

    def close(self) -> None:
        self._spool.close()
        self._store.close()
        if self._reader is not None:
            self._reader.close()
        self._folder.cleanup()


class SingleBloomFilter(PipelineStep, metaclass=ABCMeta):  # type: ignore[misc]
    """Drops documents most of whose n-grams were seen; see `everseen.datatrove`.

    Each task begins with the set as it was before the epoch, or with nothing where there is no set. So documents of two tasks
    don't meet, as with datatrove's own: run it with `tasks=1` where they must.

    Args:
        output_folder: Where the n-grams that were new are left, for `Remember`.
        config: A `BloomFilterConfig` of datatrove's.
        save_bloom_filter: Not supported: give `seen` instead.
        exclusion_writer: A writer of datatrove's that gets the documents that are dropped.
        language: Of the word tokenizer, or a `WordTokenizer`.
        seen: The folder of a seen set. Without it, only documents of this run meet.
        epoch: The name of this run: with the same name it decides as before.
        fpr: The share of new n-grams that may be taken for seen (1e-6), of a set that is created.
        shards: Of a set that is created.
    """

    type = "🫂 - DEDUPS"
    name = "everseen"

    def __init__(
        self,
        output_folder: DataFolderLike,
        config: Any,
        save_bloom_filter: bool = False,
        exclusion_writer: Any = None,
        language: str | WordTokenizer = Languages.english,
        *,
        seen: str | os.PathLike[str] | None = None,
        epoch: str | None = None,
        fpr: float | None = None,
        shards: int | None = None,
    ) -> None:
        super().__init__()
        if save_bloom_filter:
            raise NotImplementedError("the filter is not saved as bits: give `seen`, the folder of a set")
        if (seen is None) != (epoch is None):
            raise ValueError("`seen` and `epoch` come together: a run that has no name can't be run again")
        self.output_folder = get_datafolder(output_folder)
        self.tokenizer = load_word_tokenizer(language)
        self.config = config
        self.exclusion_writer = exclusion_writer
        self.language = language
        self.total_shingles = 0
        self._seen = None if seen is None else os.fspath(seen)
        self._epoch = epoch or ""
        self._settings = {"fpr": fpr, "shards": shards} if seen is not None else {"fpr": fpr}
        self._run: _Run | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_run": None}

    def _begun(self) -> _Run:
        if self._run is None:
            self._run = _Run(self._seen, self._epoch, self._settings)
        return self._run

    def get_shingles(self, text: str) -> Hashes:
        """Return the hashes of a text's n-grams."""
        words = self.tokenizer.word_tokenize(simplify_text(text, self.config.norm_config))
        return self._begun().hasher.hash_many([" ".join(gram) for gram in ngrams(words, self.config.n_grams)])

    def step(self, doc: Document) -> bool:
        """Return whether a document stays."""
        shingles = self.get_shingles(doc.text)
        self.total_shingles += shingles.size
        if shingles.size == 0:
            return True
        return bool(self._begun().seen(shingles).mean() <= self.config.duplicate_threshold)

    def run(self, data: DocumentsPipeline, rank: int = 0, world_size: int = 1) -> DocumentsPipeline:
        """Yield the documents that stay."""
        if world_size > 1:
            logger.warning("Each task sees its own documents alone, and those of earlier epochs")
        # A task begins with nothing of an earlier one, or of an earlier try.
        self._end()
        try:
            with self.exclusion_writer or contextlib.nullcontext() as writer:
                yield from self._staying(data, writer, rank)
            if self._seen is not None:
                self._begun().save(self.output_folder, _name_of(rank, world_size))
        finally:
            self._end()

    def _staying(self, data: DocumentsPipeline, writer: Any, rank: int) -> Iterator[Document]:
        for doc in data:
            with self.track_time():
                self.stat_update(StatHints.total)
                stays = self.step(doc)
                self.stat_update(StatHints.forwarded if stays else StatHints.dropped)
                if writer and not stays:
                    writer.write(doc, rank)
            if stays:
                yield doc

    def _end(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.close()


class Remember(PipelineStep, metaclass=ABCMeta):  # type: ignore[misc]
    """Adds to a seen set what the tasks of `SingleBloomFilter` have found to be new. Run it when all are complete.

    Args:
        output_folder, seen, epoch: As of `SingleBloomFilter`.
        tasks: How many tasks there were.
    """

    type = "🫂 - DEDUPS"
    name = "everseen, remember"

    def __init__(
        self, output_folder: DataFolderLike, *, seen: str | os.PathLike[str], epoch: str, tasks: int = 1
    ) -> None:
        super().__init__()
        self.output_folder = get_datafolder(output_folder)
        self._seen = os.fspath(seen)
        self._epoch = epoch
        self._tasks = tasks

    def run(self, data: DocumentsPipeline, rank: int = 0, world_size: int = 1) -> DocumentsPipeline:
        """Publish the epoch, and pass documents on."""
        if rank == 0:
            if not is_set(self._seen):
                # To create one would publish n-grams that were hashed for another.
                raise NotFoundError(f"{self._seen}: there is no seen set")
            seen = SeenSet(self._seen)
            with seen.epoch(self._epoch) as epoch:
                if not epoch.published:
                    # What was decided by another state may have been decided by another epoch as well.
                    expected = {"set": seen.settings.id, "epoch": self._epoch, "base": epoch.base.number}
                    epoch._remember(self._hashes(expected), hashed=True)
        yield from data or ()

    def _hashes(self, expected: dict[str, Any]) -> Iterator[Hashes]:
        for task in range(self._tasks):
            name = _name_of(task, self._tasks)
            if not self.output_folder.isfile(name):
                raise NotCommittedError(f"task {task} of {self._tasks} is not complete: it has left no {name}")
            with self.output_folder.open(name, "rb") as file:
                yield from self._hashes_of(name, file, expected)

    def _hashes_of(self, name: str, file: BinaryIO, expected: dict[str, Any]) -> Iterator[Hashes]:
        """Yield the n-grams of one task's file. If it isn't whole, that is known at its end, before the epoch is published."""
        try:
            head = unseal(file.readline(_LONGEST_HEAD), name)
        except ManifestError as error:
            raise NotCommittedError(f"{error}: its task is not complete") from error
        for field, value in expected.items():
            if head.get(field) != value:
                hint = "; run its task again" if field == "base" else ""
                mismatch = SetMismatchError(f"{name} is of the {field} {head.get(field)!r}, not {value!r}{hint}")
                mismatch.field = field
                raise mismatch
        left, digest = 8 * head["new"], hashlib.sha256()
        while part := file.read(8 * _MANY):
            left -= len(part)
            if left < 0 or len(part) % 8:
                break
            digest.update(part)
            yield numpy.frombuffer(part, dtype=numpy.uint64)
        if left or digest.hexdigest() != head["digest"]:
            raise NotCommittedError(f"{name} is not whole: its task is not complete")
