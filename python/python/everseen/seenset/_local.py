"""A seen set's root in a folder of this machine, or of a file system that the machines share."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import uuid
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from everseen._durable import sync_folder
from everseen.errors import AnotherDriverError, FingerprintError, RootError, VacuumedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from everseen.seenset._manifest import Pin, Shard

# From <linux/fs.h>: let a file share another one's blocks until either is written.
_FICLONE = 0x40049409


class LocalRoot:
    """Files that appear whole or not at all, and are durable when a method returns."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.abspath(path))

    def __str__(self) -> str:
        return str(self.path)

    def read(self, name: str) -> bytes:
        """Return the bytes of a file; raises `FileNotFoundError`."""
        return (self.path / name).read_bytes()

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; none if there is no such folder."""
        try:
            return os.listdir(self.path / folder)
        except FileNotFoundError:
            return []

    def create(self, name: str, data: bytes) -> None:
        """Create a file with these bytes, whole; raises `FileExistsError` if there is one.

        The last name is given by a hard link, which replaces nothing: of two that try, one has created it.
        """
        final = self.path / name
        self._folder(final.parent)
        draft = final.parent / f".{uuid.uuid4().hex}"
        with open(draft, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, final)
        except OSError as error:
            if error.errno in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS):
                raise RootError(
                    f"{self}: the file system has no hard links, so no file is created exclusively"
                ) from error
            raise
        finally:
            os.unlink(draft)
        sync_folder(final.parent)

    def size(self, name: str) -> int | None:
        """Return a file's size; `None` if there is none."""
        try:
            return os.stat(self.path / name).st_size
        except FileNotFoundError:
            return None

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        (self.path / name).unlink(missing_ok=True)

    def remove_folder(self, name: str) -> None:
        """Remove a folder if it is there and empty."""
        try:
            os.rmdir(self.path / name)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise

    def sync(self, folder: str) -> None:
        """Make what was removed from a folder stay removed."""
        if (self.path / folder).is_dir():
            sync_folder(self.path / folder)

    def lock(self) -> DriverLock:
        """Be the only driver until the lock is released, or the process ends; raises `AnotherDriverError`."""
        self._folder(self.path)
        return DriverLock(self.path / "driver.lock")

    def began(self, pin: Pin) -> bool:
        """Return whether the driver that began an epoch is certainly over: it is, since there is the lock."""
        return True

    def begin(self, pin: Pin) -> None:
        """Note that this machine begins an epoch."""

    def to_read(self, shard: Shard) -> Path:
        """Return where a shard can be opened to read."""
        path = self.path / shard.file
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            raise VacuumedError(
                f"{path}: no such file. Its manifest has been vacuumed, or this machine does not see the set's root"
            ) from None
        if size != shard.size:
            raise FingerprintError(f"{path} has {size} bytes, and the manifest says {shard.size}")
        return path

    def draft(self, name: str) -> Path:
        """Return where to write what becomes the file `name`."""
        path = self.path / name
        self._folder(path.parent)
        return path

    def clone(self, shard: Shard, draft: Path) -> None:
        """Copy a shard to a draft, by sharing its blocks where the file system can."""
        share_or_copy(self.to_read(shard), draft)

    def keep(self, name: str, draft: Path, size: int, sha256: str) -> None:
        """Make a draft durable under its name."""
        with open(draft, "rb") as file:
            os.fsync(file.fileno())
        sync_folder(draft.parent)

    def files(self) -> Iterator[str]:
        """All files in folders of shards."""
        for folder in self.names("shards"):
            for name in self.names(f"shards/{folder}"):
                yield f"shards/{folder}/{name}"

    def _folder(self, folder: Path) -> None:
        """Create a folder, and those that it lies in, durably."""
        if folder.is_dir():
            return
        self._folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


class DriverLock:
    """A lock on a file, which ends with its process."""

    def __init__(self, path: Path) -> None:
        self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.release()
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            raise AnotherDriverError(f"another driver works on the set: it has locked {path}") from None
        _locks.add(self)

    def release(self) -> None:
        """Let others be drivers."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


_locks: weakref.WeakSet[DriverLock] = weakref.WeakSet()


def _forked() -> None:
    # The child's copy would keep the lock for as long as the child lives. To close it leaves the parent's alone.
    for lock in list(_locks):
        lock.release()


os.register_at_fork(after_in_child=_forked)


def share_or_copy(source: Path, copy: Path) -> None:
    """Copy a file, by sharing its blocks where the file system can."""
    with open(source, "rb") as old, open(copy, "xb") as new:
        try:
            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
        except OSError:
            shutil.copyfileobj(old, new, 1 << 20)
