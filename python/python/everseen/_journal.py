"""Requests on disk, in a file that only grows and can go back to any earlier length."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from everseen._durable import sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# Kind, length of the content, and checksum of all three.
_HEAD = struct.Struct("<BII")
_START = struct.Struct("<BI")
_OFFSET = struct.Struct("<Q")
_ADDED = ord("+")
_DONE = ord("-")
_NAME = "requests.journal-"

# Below this nothing is gained by a rewrite.
_SMALL = 4 << 20


class JournalError(RuntimeError):
    """A journal of requests is missing or damaged."""


class Journal:
    """The requests of a crawl that are queued or in flight.

    A request has been added and is not done. Nothing else is recorded: what was in flight when a run was killed has
    not been done, and so is queued again.
    """

    def __init__(self, folder: Path, number: int, handle: int) -> None:
        self._folder = folder
        self._handle = handle
        self.number = number
        self.length = 0
        """The bytes that count. What is behind them is written over."""
        self._live_bytes = 0

    @staticmethod
    def path(folder: Path, number: int) -> Path:
        return folder / f"{_NAME}{number}"

    @staticmethod
    def numbers(folder: Path) -> list[int]:
        """Return the numbers of the journals in a folder."""
        ends = (path.name.removeprefix(_NAME) for path in folder.glob(f"{_NAME}*"))
        return sorted(int(end) for end in ends if end.isdecimal())

    @classmethod
    def create(cls, folder: Path, number: int) -> Journal:
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        journal = cls(folder, number, os.open(cls.path(folder, number), flags, 0o666))
        sync_folder(folder)
        return journal

    @classmethod
    def open(
        cls, folder: Path, number: int, length: int, further: Callable[[bytes], object] | None = None
    ) -> tuple[Journal, dict[int, int]]:
        """Open a journal as it was at a length. Also returns the requests in it that are not done: places and sizes.

        With `further` it goes on behind that length, up to the first record that a power cut has left in pieces, and calls
        `further` with each request that was added there.
        """
        path = cls.path(folder, number)
        try:
            handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise JournalError(f"{path} is missing: the store's last commit says that the queue is there") from error
        journal = cls(folder, number, handle)
        try:
            live = journal._replay(length)
            if further is not None:
                length = journal._replay_further(length, live, further)
            os.ftruncate(handle, length)
        except BaseException:
            os.close(handle)
            raise
        journal.length, journal._live_bytes = length, sum(live.values())
        return journal, live

    def _replay(self, length: int) -> dict[int, int]:
        live: dict[int, int] = {}
        for place, kind, content in self._records(0, length):
            self._apply(live, place, kind, content)
        return live

    def _replay_further(self, length: int, live: dict[int, int], further: Callable[[bytes], object]) -> int:
        """Apply the whole records behind a length, and return where they end."""
        records = self._records(length, os.fstat(self._handle).st_size)
        while True:
            try:
                place, kind, content = next(records)
            except (StopIteration, JournalError):
                return length
            self._apply(live, place, kind, content)
            if kind == _ADDED:
                further(content)
            length = place + _HEAD.size + len(content)

    def _apply(self, live: dict[int, int], place: int, kind: int, content: bytes) -> None:
        if kind == _ADDED:
            live[place] = _HEAD.size + len(content)
        elif len(content) != _OFFSET.size or live.pop(_OFFSET.unpack(content)[0], None) is None:
            raise self._damaged(place)

    def _records(self, place: int, length: int) -> Iterator[tuple[int, int, bytes]]:
        with open(os.dup(self._handle), "rb") as file:
            file.seek(place)
            while place < length:
                head = file.read(_HEAD.size)
                if len(head) < _HEAD.size:
                    raise self._damaged(place)
                kind, size, _ = _HEAD.unpack(head)
                if size > length - place:
                    raise self._damaged(place)
                content = file.read(size)
                self._check(place, head, content)
                yield place, kind, content
                place += len(head) + size
        if place != length:
            raise self._damaged(place)

    def _check(self, place: int, head: bytes, content: bytes) -> None:
        kind, size, checksum = _HEAD.unpack(head)
        whole = len(content) == size and kind in (_ADDED, _DONE)
        if not whole or zlib.crc32(content, zlib.crc32(_START.pack(kind, size))) != checksum:
            raise self._damaged(place)

    def _damaged(self, place: int) -> JournalError:
        return JournalError(f"{self.path(self._folder, self.number)} is damaged at byte {place}")

    def add(self, content: bytes) -> int:
        """Append a request, and return its place."""
        place = self.length
        self._append(_ADDED, content)
        self._live_bytes += self.length - place
        return place

    def done(self, place: int, size: int) -> None:
        """Append that a request is done, which has this size."""
        self._append(_DONE, _OFFSET.pack(place))
        self._live_bytes -= _HEAD.size + size

    def _append(self, kind: int, content: bytes) -> None:
        checksum = zlib.crc32(content, zlib.crc32(_START.pack(kind, len(content))))
        record = memoryview(_HEAD.pack(kind, len(content), checksum) + content)
        written = 0
        # If the disk is full, the length stays as it is, and the next record begins where this one did.
        while written < len(record):
            written += os.pwrite(self._handle, record[written:], self.length + written)
        self.length += written

    def read(self, place: int) -> bytes:
        """Return the request at a place."""
        head = os.pread(self._handle, _HEAD.size, place)
        if len(head) < _HEAD.size:
            raise self._damaged(place)
        content = os.pread(self._handle, _HEAD.unpack(head)[1], place + _HEAD.size)
        self._check(place, head, content)
        return content

    def sync(self) -> None:
        os.fdatasync(self._handle)

    @property
    def is_wasteful(self) -> bool:
        """Whether more of it is done than not, by a margin."""
        return self.length - self._live_bytes > self._live_bytes + _SMALL

    def rewritten(self, places: Iterable[int]) -> tuple[Journal, dict[int, int]]:
        """Return a journal of these requests alone, with the next number, and where each of them is there."""
        journal = Journal.create(self._folder, self.number + 1)
        try:
            moved = {place: journal.add(self.read(place)) for place in sorted(places)}
            journal.sync()
        except BaseException:
            journal.close()
            raise
        return journal, moved

    def close(self) -> None:
        os.close(self._handle)

    @classmethod
    def remove_others(cls, folder: Path, number: int) -> None:
        """Remove what a rewrite has left behind."""
        for other in cls.numbers(folder):
            if other != number:
                cls.path(folder, other).unlink()
