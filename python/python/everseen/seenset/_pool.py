"""Several processes, each with shards of its own."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

import numpy

from everseen._everseen import Hasher
from everseen.errors import WorkerDiedError
from everseen.seenset._judge import Judge
from everseen.seenset._shards import new_version

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    from everseen.seenset._manifest import Manifest, Shard
    from everseen.seenset._shards import Hashes, Mask, Root

# A fork would inherit threads' locks; and its copy of the driver's lock would outlive the driver.
_context = multiprocessing.get_context("spawn")

# A new process imports the program: what stands outside of functions there runs in it as well.
_HINT = ' (the program needs `if __name__ == "__main__":` around what it does)'

# Hashes that are inserted in one call.
_PART = 1 << 20


class Judges:
    """A `Judge` that has processes do its work."""

    def __init__(self, root: Root, manifest: Manifest, processes: int) -> None:
        self._shards = manifest.settings.shards
        self._ends: list[Connection] = []
        self._processes = []
        for _ in range(min(processes, self._shards)):
            ours, theirs = _context.Pipe()
            process = _context.Process(target=_judge, args=(theirs, root, manifest), daemon=True)
            process.start()
            # So that the end of either process ends the other one's wait.
            theirs.close()
            self._ends.append(ours)
            self._processes.append(process)

    def first(self, hashes: Hashes, second: Hashes) -> Mask:
        """Return for each key, given by two hashes, whether this is the first time."""
        owners = Hasher.shards(hashes, self._shards) % len(self._ends)
        places = [numpy.flatnonzero(owners == owner) for owner in range(len(self._ends))]
        first = numpy.zeros(len(hashes), dtype=bool)
        try:
            for end, some in zip(self._ends, places, strict=True):
                end.send((hashes[some], second[some]))
            for end, some in zip(self._ends, places, strict=True):
                answer = end.recv()
                if isinstance(answer, BaseException):
                    raise answer
                first[some] = answer
        except (EOFError, ConnectionError) as error:
            raise WorkerDiedError(f"a process that looks keys up has ended{_HINT}") from error
        return first

    def close(self) -> None:
        """End the processes."""
        for end in self._ends:
            end.close()
        for process in self._processes:
            process.join()


def _judge(end: Connection, root: Root, manifest: Manifest) -> None:
    judge = Judge(root, manifest)
    try:
        while True:
            try:
                answer = judge.first(*end.recv())
            except (EOFError, ConnectionError):
                return
            except Exception as error:
                end.send(error)
            else:
                end.send(answer)
    finally:
        judge.close()


def written(work: list[tuple[Any, ...]], processes: int) -> Iterator[tuple[int, Shard]]:
    """Write new versions of shards, and yield them. Work is what `new_version` takes, with a file of hashes."""
    if not processes:
        yield from map(_write, work)
        return
    with ProcessPoolExecutor(processes, mp_context=_context) as pool:
        try:
            yield from pool.map(_write, work)
        except BrokenProcessPool as error:
            raise WorkerDiedError(f"a process that writes shards has ended{_HINT}") from error


def _write(work: tuple[Any, ...]) -> tuple[int, Shard]:
    root, settings, old, number, file, attempt, epoch, buffer = work
    hashes = numpy.memmap(file, dtype="<u8", mode="r")
    parts = (numpy.asarray(hashes[at : at + _PART]) for at in range(0, len(hashes), _PART))
    return number, new_version(root, settings, old, number, parts, attempt, epoch, buffer)
