"""The stores of a seen set: looking up in those that are published, and writing new versions beside them."""

from __future__ import annotations

import contextlib
import hashlib
import math
import uuid
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Protocol

import numpy
from numpy.typing import NDArray

from everseen import errors
from everseen._everseen import Hasher, Store
from everseen._open import open as open_store
from everseen.seenset._manifest import Shard

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from everseen.seenset._manifest import Manifest, Pin, Settings

Hashes = NDArray[numpy.uint64]
Mask = NDArray[numpy.bool_]

# Stores that one reader has open at a time.
_MOST_OPEN = 64


class Root(Protocol):
    """Where a set lies."""

    def read(self, name: str) -> bytes: ...
    def names(self, folder: str) -> list[str]: ...
    def create(self, name: str, data: bytes) -> None: ...
    def size(self, name: str) -> int | None: ...
    def remove(self, name: str) -> None: ...
    def remove_folder(self, name: str) -> None: ...
    def sync(self, folder: str) -> None: ...
    def lock(self) -> Lock: ...
    def began(self, pin: Pin) -> bool: ...
    def begin(self, pin: Pin) -> None: ...
    def to_read(self, shard: Shard) -> Path: ...
    def draft(self, name: str) -> Path: ...
    def clone(self, shard: Shard, draft: Path) -> None: ...
    def keep(self, name: str, draft: Path, size: int, sha256: str) -> None: ...
    def files(self) -> Iterator[str]: ...


class Lock(Protocol):
    """What a driver holds."""

    def release(self) -> None: ...


def hasher_of(settings: Settings) -> Hasher:
    """Return what hashes a set's keys."""
    return Hasher(settings.hash, bytes.fromhex(settings.seed))  # type: ignore[arg-type]


def second_hasher_of(settings: Settings) -> Hasher:
    """Return a hasher that knows nothing of the first one: where both agree, the keys are one."""
    seed = hashlib.sha256(b"second" + bytes.fromhex(settings.seed)).digest()
    return Hasher("highway", seed)


def by_shard(hashes: Hashes, shards: int) -> Iterator[tuple[int, NDArray[numpy.intp]]]:
    """Each shard that has one of the hashes, with the places of its hashes."""
    if len(hashes) == 0:
        return
    numbers = Hasher.shards(hashes, shards)
    if (numbers == numbers[0]).all():
        yield int(numbers[0]), numpy.arange(len(hashes))
        return
    order = numpy.argsort(numbers, kind="stable")
    ends = numpy.flatnonzero(numpy.diff(numbers[order])) + 1
    for places in numpy.split(order, ends):
        yield int(numbers[places[0]]), places


class Reader:
    """Looks up in the shards as a manifest names them. It writes nothing."""

    def __init__(self, root: Root, manifest: Manifest) -> None:
        self._root = root
        self._manifest = manifest
        self._open: OrderedDict[int, Store] = OrderedDict()

    def contains(self, hashes: Hashes) -> Mask:
        """Return for each hash whether its key was seen."""
        seen = numpy.zeros(len(hashes), dtype=bool)
        for number, places in by_shard(hashes, len(self._manifest.shards)):
            if self._manifest.shards[number] is not None:
                seen[places] = self._contains_in(number, hashes[places])
        return seen

    def _contains_in(self, number: int, hashes: Hashes) -> Mask:
        store = self._store(number)
        assert store is not None
        try:
            return store.contains_hashed(hashes)
        except (errors.MovedError, errors.ReplacedError):
            # A vacuum has removed the shard, or a cache has fetched it again. What has its name now is opened, if any.
            _let_go(self._open.pop(number))
        store = self._store(number)
        assert store is not None
        return store.contains_hashed(hashes)

    def _store(self, number: int) -> Store | None:
        shard = self._manifest.shards[number]
        if shard is None:
            return None
        store = self._open.pop(number, None) or opened(self._root, shard)
        self._open[number] = store
        if len(self._open) > _MOST_OPEN:
            _let_go(self._open.popitem(last=False)[1])
        return store

    def close(self) -> None:
        """Close the stores."""
        while self._open:
            _let_go(self._open.popitem()[1])

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _let_go(store: Store) -> None:
    """Close a shard that was read. A shard never changes, so what it answered holds, whatever became of its file."""
    with contextlib.suppress(errors.MovedError, errors.ReplacedError):
        store.close()


def opened(root: Root, shard: Shard) -> Store:
    """Open a published shard to read."""
    return _checked(root.to_read(shard), shard, mode="r")


def _checked(path: Path, shard: Shard, **options: Any) -> Store:
    """Open a file that should be a shard's, and look whether it is."""
    try:
        store = open_store(path, **options)
    except (errors.FormatError, errors.LogError) as error:
        raise errors.FingerprintError(f"{path} is not the shard that the manifest names: {error}") from error
    if len(store) != shard.keys:
        found = len(store)
        store.close()
        raise errors.FingerprintError(f"{path} holds {found} keys, and the manifest says {shard.keys}")
    return store


def new_version(
    root: Root,
    settings: Settings,
    old: Shard | None,
    number: int,
    hashes: Iterable[Hashes],
    attempt: str,
    epoch: str,
    buffer: int | None = None,
) -> Shard:
    """Write a version of a shard with more keys, beside the old one, in the folder of an attempt.

    Two tasks that do the same write two files; the manifest names one of them.
    """
    name = f"{attempt}/{number:05}-{uuid.uuid4().hex}.ever"
    draft = root.draft(name)
    with _opened_to_write(root, settings, old, draft, buffer) as store:
        for some in hashes:
            store.insert_hashed(some)
        keys = len(store)
    size, digest = digest_of(draft)
    root.keep(name, draft, size, digest)
    return Shard(name, size, digest, keys, epoch)


def _opened_to_write(root: Root, settings: Settings, old: Shard | None, draft: Path, buffer: int | None) -> Store:
    if old is not None:
        root.clone(old, draft)
        return _checked(draft, old, mode="r+", exclusive=True, buffer=buffer)
    return new_shard(draft, settings, buffer)


def new_shard(path: Path, settings: Settings, buffer: int | None = None) -> Store:
    """Create the store of one shard."""
    return open_store(
        path,
        capacity_of(settings),
        settings.fpr,
        mode="x",
        hash=settings.hash,  # type: ignore[arg-type]
        seed=bytes.fromhex(settings.seed),
        # Keys that were taken for seen never come here, so a sample would say that there are none.
        measured=False,
        exclusive=True,
        buffer=buffer,
    )


def capacity_of(settings: Settings) -> int | None:
    """Return how many keys one shard is for: its share, and six standard deviations."""
    if settings.capacity is None:
        return None
    share = settings.capacity / settings.shards
    return math.ceil(share + 6 * math.sqrt(share)) + 1


def digest_of(path: Path) -> tuple[int, str]:
    """Return the size and the SHA-256 of a file."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return file.tell(), digest
