"""A queue of requests and the set of those that it has ever had, as one state on disk.

```
folder/
  seen.ever              unique keys of all requests; its last commit names a journal and a length
  requests.journal-N     + request, - place of a request that is done
         |--------------------------|·········|
         0               length of the commit  what a killed run has done since: repeated at the next opening
```
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import struct
import threading
import warnings
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import everseen
from everseen._durable import sync_folder
from everseen._journal import Journal, JournalError
from everseen.errors import EverseenError, TransactionTooLargeError

if TYPE_CHECKING:
    from collections.abc import Iterator

_VERSION = 1
# Whether a request goes to the front, and the length of its unique key.
_HEAD = struct.Struct("<?I")


class OtherQueueError(RuntimeError):
    """The queue's folder belongs to another storage client."""


@dataclass(frozen=True)
class Options:
    """How a queue's store is made, and how often it commits."""

    fpr: float | None
    """The rate that is asked for; `None` is 1e-9 for a new store."""
    capacity: int | None
    buffer: int | None
    interval: float
    """Seconds between commits."""
    timeout: float | None = None
    """Seconds to wait for another process."""


@dataclass(frozen=True)
class _State:
    """The tag of a commit."""

    journal: int
    """The number of the journal."""
    length: int
    """The bytes of it whose keys the store has."""
    total: int
    """How many requests were ever added."""

    def tag(self) -> bytes:
        fields = {"everseen.crawlee": _VERSION, "journal": self.journal, "length": self.length, "total": self.total}
        return json.dumps(fields).encode()

    @classmethod
    def of(cls, tag: bytes) -> _State:
        try:
            fields = json.loads(tag)
            if fields.pop("everseen.crawlee") != _VERSION:
                raise ValueError(f"of version {fields}")
            state = cls(**fields)
            if not all(isinstance(number, int) and number >= 0 for number in fields.values()):
                raise ValueError(f"with {fields}")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"the store's last commit was not made by everseen.crawlee: its tag is {tag[:60]!r}"
            raise OtherQueueError(message) from error
        return state


def _record(key: str, request: bytes, front: bool) -> bytes:
    name = key.encode()
    return _HEAD.pack(front, len(name)) + name + request


def _parts(record: bytes) -> tuple[str, bytes, bool]:
    front, length = _HEAD.unpack_from(record)
    end = _HEAD.size + length
    return record[_HEAD.size : end].decode(), record[end:], front


class Queue:
    """The requests of a crawl, in a folder of their own. Get it from `Queue.open`.

    One process has it at a time. Opening it again in that process closes it for the one that had it.
    """

    _opened: dict[Path, Queue] = {}

    def __init__(self, folder: Path, options: Options) -> None:
        self._folder = folder
        self._options = options
        # A commit may run in a thread of its own.
        self._lock = threading.RLock()
        self._due = 0.0
        self._begin()

    @classmethod
    def open(cls, folder: Path, options: Options) -> Queue:
        """Open a queue, or create it.

        Raises:
            JournalError: Its journal is missing or damaged.
            OtherQueueError: The store was made by something else.
            LockedError: Another process has it.
        """
        folder = folder.resolve()
        earlier = cls._opened.get(folder)
        if earlier is not None:
            earlier.close()
        return cls(folder, options)

    def _begin(self) -> None:
        if self._purged.exists():
            shutil.rmtree(self._purged)
        self._folder.mkdir(parents=True, exist_ok=True)
        sync_folder(self._folder.parent)
        self._places: OrderedDict[str, int] = OrderedDict()
        self._in_progress: dict[str, tuple[int, int]] = {}
        self._store = self._open_store()
        try:
            last = self._store.last_commit()
            self._journal = self._create() if last is None else self._resume(_State.of(last.tag))
            self._opened[self._folder] = self
            self._changed = True
            self.commit()
            # The first change is committed at once.
            self._due = 0.0
        except BaseException:
            self._opened.pop(self._folder, None)
            self._store.close(discard=True)
            raise
        Journal.remove_others(self._folder, self._journal.number)

    def _open_store(self) -> everseen.Store:
        path, options = self._folder / "seen.ever", self._options
        fpr = options.fpr
        if fpr is None and not path.exists():
            fpr = 1e-9
        return everseen.open(
            path,
            options.capacity,
            fpr,
            transactional=True,
            buffer=options.buffer,
            writer="crawlee",
            exclusive=True,
            timeout=options.timeout,
        )

    def _create(self) -> Journal:
        # A run that was killed before its first commit leaves an empty one.
        if any(Journal.path(self._folder, number).stat().st_size for number in Journal.numbers(self._folder)):
            raise JournalError(f"the queue in {self._folder} belongs to a store that is gone: put it back")
        self.total = 0
        return Journal.create(self._folder, 1)

    def _resume(self, state: _State) -> Journal:
        """Go back to a commit, and do again what the journal has behind it."""
        further: list[bytes] = []
        journal, live = Journal.open(self._folder, state.journal, state.length, further.append)
        try:
            self.total = state.total
            # Of these some are done. Those that were only moved are in the store.
            for record in further:
                self.total += self._remember(_parts(record)[0], journal, state)
            for place in live:
                key, _, front = _parts(journal.read(place))
                before = self._places.get(key)
                if before is not None:
                    # A run was killed between its writing the request again and ending the first.
                    journal.done(before, len(journal.read(before)))
                self._queue(key, place, front)
                self._remember(key, journal, state)
        except BaseException:
            journal.close()
            raise
        return journal

    def _remember(self, key: str, journal: Journal, state: _State) -> bool:
        try:
            return self._store.insert(key)
        except TransactionTooLargeError:
            # What is behind the length that the commit names stays to be done again.
            journal.sync()
            self._store.commit(state.tag())
            return self._store.insert(key)

    def _insert(self, key: str) -> None:
        try:
            self._store.insert(key)
        except TransactionTooLargeError:
            self.commit()
            self._store.insert(key)

    def _queue(self, key: str, place: int, front: bool) -> None:
        self._places[key] = place
        self._places.move_to_end(key, last=not front)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other threads out, and raise `RuntimeError` if the queue is no longer this one's."""
        with self._lock:
            if self._opened.get(self._folder) is not self:
                raise RuntimeError(f"the queue in {self._folder} was closed, dropped, or opened again")
            yield

    @property
    def waiting(self) -> int:
        """How many requests can be taken."""
        return len(self._places)

    @property
    def in_progress(self) -> int:
        """How many requests were taken, and are not done."""
        return len(self._in_progress)

    @property
    def handled(self) -> int:
        """How many requests are done."""
        return max(self.total - self.waiting - self.in_progress, 0)

    def add(self, key: str, request: bytes, *, front: bool = False) -> bool | None:
        """Add a request, unless the queue has or has ever had it. One that waits is moved if it is to go to the front.

        Returns:
            `True` for a new one, `False` for one that waits or is in progress, `None` for one that is done.
        """
        with self.alone():
            if key in self._in_progress:
                return False
            if key in self._places:
                if front:
                    self._write_again(key, self._journal.read(self._places[key]), self._places[key])
                return False
            if key in self._store:
                return None
            place = self._journal.add(_record(key, request, front))
            # It is in the queue before it counts as seen, whatever fails in between.
            self._queue(key, place, front)
            self.total += 1
            self._changed = True
            self._insert(key)
            return True

    def _write_again(self, key: str, record: bytes, place: int) -> None:
        _, request, _ = _parts(record)
        again = self._journal.add(_record(key, request, True))
        self._queue(key, again, True)
        self._journal.done(place, len(record))
        self._changed = True

    def find(self, key: str) -> bytes | None:
        """Return a request that is not done."""
        with self.alone():
            place = self._places.get(key)
            if place is None and key in self._in_progress:
                place = self._in_progress[key][0]
            return None if place is None else _parts(self._journal.read(place))[1]

    def take(self) -> bytes | None:
        """Return the next request, which is in progress from now on."""
        with self.alone():
            if not self._places:
                return None
            key, place = next(iter(self._places.items()))
            record = self._journal.read(place)
            del self._places[key]
            self._in_progress[key] = (place, len(record))
            return _parts(record)[1]

    def done(self, key: str) -> bool:
        """End a request. Returns whether it was in progress."""
        with self.alone():
            found = self._in_progress.get(key)
            if found is None:
                return False
            self._journal.done(*found)
            del self._in_progress[key]
            self._changed = True
            return True

    def put_back(self, key: str, request: bytes, *, front: bool = False) -> bool:
        """Queue a request again, as it is now. Returns whether it was in progress."""
        with self.alone():
            found = self._in_progress.get(key)
            if found is None:
                return False
            place = self._journal.add(_record(key, request, front))
            del self._in_progress[key]
            self._queue(key, place, front)
            self._journal.done(*found)
            self._changed = True
            return True

    @property
    def is_due(self) -> bool:
        """Whether it is time for a commit, and there is something to commit."""
        return self._changed and monotonic() >= self._due

    def commit(self) -> None:
        """Make everything so far durable."""
        with self.alone():
            if not self._changed:
                return
            before = self._rewrite() if self._journal.is_wasteful else None
            try:
                # The store must not know a key whose request a power cut takes away.
                self._journal.sync()
            except OSError:
                # Another try could succeed without what this one has lost. Opening goes back to the last commit.
                self._leave()
                raise
            self._store.commit(_State(self._journal.number, self._journal.length, self.total).tag())
            self._changed = False
            self._due = monotonic() + self._options.interval
            if before is not None:
                before.close()
                Journal.path(self._folder, before.number).unlink()

    def _rewrite(self) -> Journal:
        """Go on in a journal of only what is not done. Returns the one before, for removal after the commit."""
        places = {*self._places.values(), *(place for place, _ in self._in_progress.values())}
        before = self._journal
        self._journal, moved = before.rewritten(places)
        for key, place in self._places.items():
            self._places[key] = moved[place]
        for key, (place, size) in self._in_progress.items():
            self._in_progress[key] = (moved[place], size)
        return before

    def close(self) -> None:
        """Commit, and close."""
        with self._lock:
            if self._opened.get(self._folder) is self:
                try:
                    self.commit()
                finally:
                    # A commit that has failed has left already, if it had to.
                    if self._opened.get(self._folder) is self:
                        self._leave()

    def _leave(self) -> None:
        del self._opened[self._folder]
        self._journal.close()
        self._store.close(discard=True)

    @property
    def _purged(self) -> Path:
        return self._folder.with_name(f"{self._folder.name}.purged")

    def remove(self) -> None:
        """Close, and remove everything, at once."""
        owner = self._opened.get(self._folder)
        if owner is not None:
            with owner._lock, contextlib.suppress(EverseenError):
                # If it can't be closed properly, its files are gone already.
                owner._leave()
        if self._folder.exists():
            # Removed one by one, what a crash leaves could be a journal without its store.
            os.rename(self._folder, self._purged)
            sync_folder(self._folder.parent)
            shutil.rmtree(self._purged)

    def clear(self) -> None:
        """Remove all requests, and begin again."""
        with self.alone():
            self.remove()
            self._begin()


@atexit.register
def _close_all() -> None:
    for queue in list(Queue._opened.values()):
        was_closed = queue._store.closed
        try:
            queue.close()
        except Exception as error:
            if was_closed or not queue._folder.exists():
                # `multiprocessing` has closed all stores before; or the program has removed its storage.
                continue
            # The journal has everything that the last commit has not.
            warnings.warn(f"closing {queue._folder}: {error}", RuntimeWarning, stacklevel=1)
