"""The set itself: its manifests, its epochs, and what is cleared away."""

from __future__ import annotations

import dataclasses
import operator
import os
import re
import secrets
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from everseen import errors
from everseen.seenset._epoch import Epoch
from everseen.seenset._local import LocalRoot
from everseen.seenset._manifest import (
    MOST_SHARDS,
    Manifest,
    Pin,
    Settings,
    manifest_name,
    manifest_of,
    pin_name,
    pin_of,
)
from everseen.seenset._shards import Reader, digest_of, hasher_of, new_shard

if TYPE_CHECKING:
    from everseen.seenset._shards import Mask, Root

_NUMBERED = re.compile(r"([0-9]{12})\.json\Z")
_ATTEMPT = re.compile(r"shards/([0-9]{12})-")


@dataclasses.dataclass(frozen=True, slots=True)
class VacuumReport:
    """What a vacuum has removed."""

    manifests: int
    files: int
    bytes: int


class SeenSet:
    """A set of keys that was seen, divided by hash into shards, each a store; see the module.

    Args:
        root: A folder, or a URL.
        shards: How many stores it is divided into (64). It can't be changed later.
        fpr: The share of new keys that may be taken for seen (1e-9).
        capacity: How many keys the set is for. Without it, its stores grow.
        hash: How keys become 64 bits: `"highway"` unless given.
        seed: The hash key, 32 bytes, instead of a random one.
        buffer: Bytes of memory for each shard that is written.
        filesystem: A file system of fsspec's or pyarrow's in which `root` is a path. Without it, a root with `://` is
            one of fsspec's.
        cache: A folder of this machine for copies of shards. Where the root is a folder, shards are copied only if this
            is given: for network file systems.
        driver: The name of the only driver, where the file system can't create a file exclusively.

    What is given must agree with a set that exists.

    Raises:
        SetMismatchError: There is a set with other values.
        ManifestError: There is something damaged.

    >>> from everseen.seenset import SeenSet
    >>> seen = SeenSet("seen", shards=4)
    >>> seen.keys, seen.settings.fpr
    (0, 1e-09)
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        shards: int | None = None,
        fpr: float | None = None,
        capacity: int | None = None,
        hash: Literal["highway", "xxh3", "murmur3"] | None = None,  # noqa: A002: the option's name.
        seed: bytes | None = None,
        buffer: int | None = None,
        filesystem: Any = None,
        cache: str | os.PathLike[str] | None = None,
        driver: str | None = None,
    ) -> None:
        self._root = _root_at(os.fspath(root), filesystem, cache, driver)
        self._buffer = buffer
        given: dict[str, Any] = {
            "shards": shards,
            "fpr": None if fpr is None else float(fpr),
            # A number that is none would be written down, and read as damage.
            "capacity": None if capacity is None else operator.index(capacity),
            "hash": hash,
            "seed": None if seed is None else bytes(seed).hex(),
        }
        given = {name: value for name, value in given.items() if value is not None}
        if not self._numbers():
            self._create(given)
        self.settings = self.manifest().settings
        """What the set was created with."""
        for name, value in given.items():
            found = getattr(self.settings, name)
            if found != value:
                what = "another" if name == "seed" else f"{found!r}, not {value!r}, as"
                error = errors.SetMismatchError(f"the set at {self._root} has {what} {name}")
                error.field = name
                raise error

    def _create(self, given: dict[str, Any]) -> None:
        settings = Settings(
            id=uuid.uuid4().hex,
            shards=given.get("shards", 64),
            fpr=given.get("fpr", 1e-9),
            capacity=given.get("capacity"),
            hash=given.get("hash", "highway"),
            seed=given.get("seed") or secrets.token_hex(32),
        )
        if not 1 <= settings.shards < MOST_SHARDS:
            raise ValueError(f"shards {settings.shards}: a set has 1 to {MOST_SHARDS - 1}")
        if not 0 < settings.fpr < 1:
            raise ValueError(f"fpr {settings.fpr}: a rate is between 0 and 1")
        if settings.capacity is not None and settings.capacity < 1:
            raise ValueError(f"capacity {settings.capacity}: a set is for one key at least")
        # What no store could be created with is refused now, and not by the first epoch, whose output is written by then.
        with tempfile.TemporaryDirectory() as folder:
            new_shard(Path(folder) / "shard", settings).close()
        empty = Manifest(1, settings, None, None, {}, (None,) * settings.shards)
        try:
            self._root.create(manifest_name(1), empty.encode())
        except FileExistsError:
            # Another process has created it at the same moment.
            pass

    def _numbers(self) -> list[int]:
        return _numbers_of(self._root)

    def manifest(self, number: int | None = None) -> Manifest:
        """Return what was published: last, or under a number."""
        while number is None:
            last = self._numbers()[-1]
            try:
                return self._read_manifest(last)
            except FileNotFoundError:
                # A vacuum was faster; then there is a later one.
                if last == self._numbers()[-1]:
                    raise
        try:
            return self._read_manifest(number)
        except FileNotFoundError:
            raise errors.VacuumedError(f"{self._root} has no manifest {number} any more") from None

    def _read_manifest(self, number: int) -> Manifest:
        name = manifest_name(number)
        return manifest_of(self._root.read(name), f"{self._root}/{name}", number)

    def _pin(self, number: int) -> Pin | None:
        name = pin_name(number)
        try:
            return pin_of(self._root.read(name), f"{self._root}/{name}", number)
        except FileNotFoundError:
            return None

    @property
    def keys(self) -> int:
        """How many keys the set holds, as last published."""
        return self.manifest().keys

    @property
    def epochs(self) -> list[str]:
        """The epochs that were published, in their order."""
        numbers = self.manifest().epochs
        return sorted(numbers, key=numbers.__getitem__)

    def contains_many(self, keys: Any) -> Mask:
        """Return for each key whether it was seen, as last published.

        >>> from everseen.seenset import SeenSet
        >>> SeenSet("asked", shards=4).contains_many(["a"])
        array([False])
        """
        hashes = hasher_of(self.settings).hash_many(keys)
        with Reader(self._root, self.manifest()) as reader:
            return reader.contains(hashes)

    def epoch(self, name: str, output: str | os.PathLike[str] | None = None, *, take_over: bool = False) -> Epoch:
        """Begin an epoch, or go on with one that was not published; see `Epoch`.

        Args:
            name: Its name: "2026-11-22". What was published under it stays as it is.
            output: The folder of this machine that its output will be in. When it was committed, that is, when it holds `_SUCCESS`,
                the epoch is not decided again.
            take_over: Whether to go on with an epoch that was begun on another machine, whose driver is over. Only
                asked where the root has no locks, in object stores.

        Raises:
            ValueError: The output is a URL.
        """
        folder = None if output is None else os.fspath(output).removeprefix("file://")
        if folder is not None and "://" in folder:
            raise ValueError(f"output {folder!r}: the output is a folder of this machine, and no URL")
        # The program may be run again in another folder.
        return Epoch(self, name, None if folder is None else os.path.abspath(folder), take_over)

    def abandon(self, name: str) -> None:
        """Give up an epoch that was begun and not published. What it has put out must be removed first.

        Raises:
            ValueError: It is not the epoch that was begun.
        """
        lock = self._root.lock()
        try:
            last = self.manifest()
            pin = self._pin(last.number + 1)
            if pin is None or pin.epoch != name:
                raise ValueError(f"epoch {name!r} is not begun")
            # Its number is taken: a driver of it that still runs can't publish any more.
            self._publish(dataclasses.replace(last, number=pin.number, epoch=None, abandoned=name))
        finally:
            lock.release()

    def _publish(self, manifest: Manifest) -> None:
        for shard in manifest.shards:
            found = shard and self._root.size(shard.file)
            if shard and found != shard.size:
                raise errors.FingerprintError(f"{self._root}/{shard.file} has {found} bytes, and had {shard.size}")
        try:
            self._root.create(manifest_name(manifest.number), manifest.encode())
        except FileExistsError:
            raise errors.AnotherDriverError(
                f"another driver has published manifest {manifest.number} of {self._root} meanwhile"
            ) from None

    def vacuum(self, keep: int = 2) -> VacuumReport:
        """Remove all manifests but the last `keep`, and all files that those don't name.

        It leaves what belongs to an epoch that was begun and not published. Others may go on meanwhile; those that
        still read what is removed get a `VacuumedError`.
        """
        if keep < 1:
            raise ValueError(f"keep {keep}: the last manifest is the set")
        numbers = self._numbers()
        last = numbers[-1]
        kept = [self.manifest(number) for number in numbers[-keep:]]
        named = {shard.file for manifest in kept for shard in manifest.shards if shard}
        # First the manifests, so that none ever names a file that is gone.
        for number in numbers[:-keep]:
            self._root.remove(manifest_name(number))
        self._root.sync("manifests")
        files = size = 0
        for file in list(self._root.files()):
            attempt = _ATTEMPT.match(file)
            if attempt is None or int(attempt[1]) > last or file in named:
                continue
            size += self._root.size(file) or 0
            self._root.remove(file)
            files += 1
        for folder in self._root.names("shards"):
            attempt = _ATTEMPT.match(f"shards/{folder}")
            if attempt is not None and int(attempt[1]) <= last:
                self._root.remove_folder(f"shards/{folder}")
        for pin in self._root.names("pins"):
            found = _NUMBERED.match(pin)
            if found is not None and int(found[1]) <= last:
                self._root.remove(f"pins/{pin}")
        return VacuumReport(len(numbers[:-keep]), files, size)

    def verify(self) -> list[str]:
        """Read every shard of the last manifest, and return what is wrong with them, one line each."""
        complaints = []
        for shard in self.manifest().shards:
            if shard is None:
                continue
            try:
                size, digest = digest_of(self._root.to_read(shard))
            except (errors.EverseenError, OSError) as error:
                complaints.append(f"{shard.file}: {error}")
                continue
            if (size, digest) != (shard.size, shard.sha256):
                complaints.append(f"{shard.file}: its digest is {digest}, and the manifest says {shard.sha256}")
        return complaints

    def reshard(self, shards: int) -> NoReturn:
        """Divide the set otherwise: no set can be, since Bloom filters don't know their keys.

        Raises:
            ReshardError: Always.
        """
        raise errors.ReshardError(
            f"the set has {self.settings.shards} shards and can't have {shards}: a shard is a Bloom filter, which can't "
            "list its keys, so none of them can move to another shard. Create a set with more shards, and remember all "
            "outputs of all epochs in it"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __repr__(self) -> str:
        return f"<everseen.seenset.SeenSet {str(self._root)!r}>"


def is_set(root: str) -> bool:
    """Return whether there is a set at a root, which `SeenSet` would create."""
    return bool(_numbers_of(_root_at(root, None, None, None)))


def _numbers_of(root: Root) -> list[int]:
    found = (_NUMBERED.match(name) for name in root.names("manifests"))
    return sorted(int(match[1]) for match in found if match)


def _root_at(root: str, filesystem: Any, cache: str | os.PathLike[str] | None, driver: str | None) -> Root:
    if filesystem is None and root.startswith("file://"):
        root = root.removeprefix("file://")
    if filesystem is None and "://" not in root and cache is None:
        return LocalRoot(root)
    from everseen.seenset._remote import CopiedRoot, RemoteRoot

    if filesystem is None and "://" not in root:
        return CopiedRoot(root, cache or "")
    return RemoteRoot(root, filesystem, cache, driver)
