"""A seen set's root in an object store, or in any file system that fsspec or pyarrow reaches.

Shards are copied to this machine's disk to be read, and back when they are written.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everseen.errors import AnotherDriverError, FingerprintError, RootError, VacuumedError
from everseen.seenset._local import DriverLock, LocalRoot, share_or_copy
from everseen.seenset._shards import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everseen.seenset._manifest import Pin, Shard

# Protocols of which some implementation creates a file only where there is none, in one step.
CONDITIONAL = frozenset({"memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})

_OWNER = "owner"

# Seconds after which a copy that was not read goes: daily epochs find those of the day before.
_UNUSED = 2 * 24 * 3600


def _expect_own(folder: Path) -> None:
    """Create a folder of this user's, in a folder of all users'; refuses what another one could have put there."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise RootError(f"{folder}: other users may write there; remove it, or name another folder, with `cache`")


class RemoteRoot:
    """Files that appear whole or not at all.

    Args:
        url: The root, as fsspec names it.
        filesystem: A file system of fsspec's or pyarrow's, with `url` as a path in it.
        cache: A folder of this machine, which keeps shards by their digests. It may be removed between epochs. What was not
            read for two days goes by itself.
        driver: The name of the one driver, where the file system can't create a file exclusively.
    """

    def __init__(
        self,
        url: str,
        filesystem: Any = None,
        cache: str | os.PathLike[str] | None = None,
        driver: str | None = None,
    ) -> None:
        self._url = url
        self._filesystem = filesystem
        self._given_cache = cache
        self._cache = Path(cache or Path(tempfile.gettempdir()) / f"everseen-cache-{os.getuid()}")
        self._driver = driver
        self._connect()

    def _connect(self) -> None:
        import fsspec  # type: ignore[import-untyped]

        from fsspec.implementations.arrow import ArrowFSWrapper  # type: ignore[import-untyped]

        system = self._filesystem
        if system is None:
            system, path = fsspec.core.url_to_fs(self._url)
        else:
            if not isinstance(system, fsspec.AbstractFileSystem):
                system = ArrowFSWrapper(system)
            path = self._url
        self._system, self._path = system, path.rstrip("/")
        protocols = {system.protocol} if isinstance(system.protocol, str) else set(system.protocol)
        # pyarrow's have the names of others, and look before they write.
        named = bool(protocols & CONDITIONAL) and not isinstance(system, ArrowFSWrapper)
        # Whether it really does is seen by trying it, before the first file is created.
        self._conditional: bool | None = None if named else False

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._url, self._filesystem, self._given_cache, self._driver)

    def __str__(self) -> str:
        return self._url

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}"

    def read(self, name: str) -> bytes:
        """Return the bytes of a file; raises `FileNotFoundError`."""
        data: bytes = self._system.cat_file(self._at(name))
        return data

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; none if there is no such folder."""
        self._system.invalidate_cache()
        try:
            found = self._system.ls(self._at(folder), detail=False)
        except FileNotFoundError:
            return []
        return [path.rstrip("/").rpartition("/")[2] for path in found]

    def create(self, name: str, data: bytes) -> None:
        """Create a file with these bytes; raises `FileExistsError` if there is one."""
        path = self._at(name)
        if not self._creates_exclusively():
            self._be_the_owner()
            if self.size(name) is not None:
                raise FileExistsError(path)
            self._put(path, data)
            return
        self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._system.pipe_file(path, data, mode="create")

    def _creates_exclusively(self) -> bool:
        """Return whether the file system refuses to create a file that is there.

        Other implementations of a protocol, earlier versions, and servers that only resemble it, write over the file.
        """
        if self._conditional is None:
            self._system.makedirs(self._path, exist_ok=True)
            probe = self._at(f"probe-{uuid.uuid4().hex}")
            self._system.pipe_file(probe, b"1", mode="create")
            try:
                self._system.pipe_file(probe, b"2", mode="create")
                self._conditional = False
            except FileExistsError:
                self._conditional = True
            finally:
                # It stays where this user may not remove files.
                with contextlib.suppress(OSError):
                    self._system.rm_file(probe)
        return self._conditional

    def _put(self, path: str, data: bytes) -> None:
        """Write a file under another name, and rename it: no reader sees half of it."""
        self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
        draft = f"{path}.{uuid.uuid4().hex}"
        self._system.pipe_file(draft, data)
        self._system.mv(draft, path)

    def _be_the_owner(self) -> None:
        """Refuse all drivers but the one that the set was created by."""
        if self._driver is None:
            raise RootError(
                f"{self}: the file system can't create a file exclusively, so one driver alone may work on the set: "
                "name it, with `driver`"
            )
        try:
            owner = self.read(_OWNER).decode()
        except FileNotFoundError:
            self._put(self._at(_OWNER), self._driver.encode())
            owner = self.read(_OWNER).decode()
        if owner != self._driver:
            raise AnotherDriverError(f"{self} is the set of the driver {owner!r}, and this is {self._driver!r}")

    def size(self, name: str) -> int | None:
        """Return a file's size; `None` if there is none."""
        self._system.invalidate_cache()
        try:
            return int(self._system.info(self._at(name))["size"])
        except FileNotFoundError:
            return None

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self._system.rm_file(self._at(name))

    def remove_folder(self, name: str) -> None:
        """Remove a folder if it is there and empty; object stores have none."""
        with contextlib.suppress(OSError, NotImplementedError):
            if not self.names(name):
                self._system.rmdir(self._at(name))

    def sync(self, folder: str) -> None:
        """Do nothing: what a call has done is done."""

    def lock(self) -> DriverLock:
        """Be the only driver of this machine; raises `AnotherDriverError`."""
        if not self._creates_exclusively():
            self._be_the_owner()
        self._drop_unused()
        # Not the URL: one root has several, as with a slash at the end.
        return DriverLock(self._folder("locks") / hashlib.sha256(self._path.encode()).hexdigest())

    def began(self, pin: Pin) -> bool:
        """Return whether this machine has begun the epoch: then its driver is over, since there is the lock."""
        return (self._folder("pins") / pin.token).exists()

    def begin(self, pin: Pin) -> None:
        """Note that this machine begins the epoch."""
        (self._folder("pins") / pin.token).touch()

    def to_read(self, shard: Shard) -> Path:
        """Return where a shard can be opened to read: a copy on this machine, whose digest was checked."""
        path = self._folder("shards") / f"{shard.sha256}.ever"
        # Another process may remove what was not read for long, until its time is that of now.
        with contextlib.suppress(FileNotFoundError):
            os.utime(path)
            if path.stat().st_size == shard.size:
                return path
        self._drop_unused()
        draft = self.draft(shard.file)
        try:
            self._system.get_file(self._at(shard.file), str(draft))
        except FileNotFoundError:
            draft.unlink(missing_ok=True)
            raise VacuumedError(f"{self}/{shard.file}: no such file. Its manifest has been vacuumed") from None
        found = digest_of(draft)
        if found != (shard.size, shard.sha256):
            draft.unlink()
            raise FingerprintError(f"{self}/{shard.file} has {found[0]} bytes with the digest {found[1]}")
        self._take(draft, path)
        return path

    def _take(self, draft: Path, path: Path) -> None:
        with open(draft, "rb") as file:
            os.fsync(file.fileno())
        os.replace(draft, path)

    def draft(self, name: str) -> Path:
        """Return where to write what becomes the file `name`."""
        return self._folder("drafts") / f"{uuid.uuid4().hex}-{name.rpartition('/')[2]}"

    def clone(self, shard: Shard, draft: Path) -> None:
        """Copy a shard to a draft. Its digest is compared once more: the next version is made of it."""
        path = self.to_read(shard)
        share_or_copy(path, draft)
        found = digest_of(draft)
        if found != (shard.size, shard.sha256):
            draft.unlink()
            path.unlink(missing_ok=True)
            raise FingerprintError(f"{path} had the digest {found[1]}: it was changed, and is removed")

    def keep(self, name: str, draft: Path, size: int, sha256: str) -> None:
        """Put a draft under its name."""
        path = self._at(name)
        self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._system.put_file(str(draft), path)
        found = self.size(name)
        if found != size:
            raise RootError(f"{self}/{name} has {found} bytes, and {size} were written")
        # The next epoch reads it here.
        self._take(draft, self._folder("shards") / f"{sha256}.ever")

    def files(self) -> Iterator[str]:
        """All files in folders of shards."""
        for folder in self.names("shards"):
            for name in self.names(f"shards/{folder}"):
                yield f"shards/{folder}/{name}"

    def _drop_unused(self) -> None:
        """Remove copies that were not read for long, and drafts of processes that died."""
        last = time.time() - _UNUSED
        for folder in ("shards", "drafts"):
            for path in self._folder(folder).iterdir():
                # Another process may remove it as well.
                with contextlib.suppress(FileNotFoundError):
                    if path.stat().st_mtime >= last:
                        continue
                    if path.is_dir():
                        shutil.rmtree(path, ignore_errors=True)
                    else:
                        path.unlink()

    def _folder(self, name: str) -> Path:
        if not self._given_cache:
            _expect_own(self._cache)
        folder = self._cache / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


class CopiedRoot(RemoteRoot):
    """A folder whose shards are copied to this machine all the same: on a network file system, which maps no files."""

    def __init__(self, path: str, cache: str | os.PathLike[str]) -> None:
        from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]

        self._folder_root = LocalRoot(path)
        super().__init__(str(self._folder_root), LocalFileSystem(), cache)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._url, self._cache)

    def create(self, name: str, data: bytes) -> None:
        """Create a file, as in a folder."""
        self._folder_root.create(name, data)

    def sync(self, folder: str) -> None:
        """Make what was removed from a folder stay removed."""
        self._folder_root.sync(folder)

    def lock(self) -> DriverLock:
        """Be the only driver of all machines."""
        return self._folder_root.lock()

    def began(self, pin: Pin) -> bool:
        """Return whether the epoch's driver is over: it is, since there is the lock."""
        return True

    def keep(self, name: str, draft: Path, size: int, sha256: str) -> None:
        """Put a draft under its name, durably."""
        final = self._folder_root.draft(name)
        super().keep(name, draft, size, sha256)
        self._folder_root.keep(name, final, size, sha256)
