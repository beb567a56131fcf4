"""A driver of epochs on one machine that can be killed before and after each of its writes."""

import builtins
import fcntl
import os
import pathlib
import random
import signal

from everseen.seenset import SeenSet, _shards

SHARDS = 3
KEYS = 60


def rows(seed, epoch):
    """What comes in an epoch: batches of keys, with repeats."""
    rng = random.Random(f"{seed} {epoch}")
    return [[f"k{rng.randrange(KEYS * (epoch + 1))}" for _ in range(KEYS)] for _ in range(2)]


def exact(seed, epochs):
    """The keys that each epoch should put out."""
    seen, expected = set(), []
    for epoch in range(epochs):
        fresh = dict.fromkeys(key for batch in rows(seed, epoch) for key in batch if key not in seen)
        seen |= fresh.keys()
        expected.append(list(fresh))
    return expected


def write(folder, keys):
    """An output that appears bit by bit, and says last that it is whole."""
    os.makedirs(folder, exist_ok=True)
    with open(folder / "part", "w") as file:
        for key in keys:
            file.write(f"{key}\n")
        file.flush()
        os.fsync(file.fileno())
    with open(folder / "_SUCCESS", "w"):
        pass


def drive(seed, epochs):
    """All epochs, from wherever the last run came to."""
    seen = SeenSet("set", shards=SHARDS, buffer=1 << 17)
    for epoch in range(epochs):
        output = pathlib.Path("out", str(epoch))
        with seen.epoch(str(epoch), output=output) as day:
            if not day.committed:
                write(output, [key for batch in day.unseen(rows(seed, epoch)) for key in batch])
            day.remember([(output / "part").read_text().split()])
        seen.vacuum(keep=1)


class Steps:
    """Counts what is done to the disk, before and after, and kills the process at one of them."""

    def __init__(self, kill_at=None):
        self.count = 0
        self.names = []
        self._kill_at = kill_at

    def _step(self, name):
        self.count += 1
        self.names.append(name)
        if self.count == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def _around(self, module, name):
        call = getattr(module, name)

        def around(*args, **more):
            self._step(f"before {name}")
            try:
                return call(*args, **more)
            finally:
                self._step(f"after {name}")

        setattr(module, name, around)

    def watch(self):
        """Puts itself around every call that changes a file. For a child that ends soon."""
        for name in ("fsync", "link", "unlink", "mkdir", "rmdir"):
            self._around(os, name)
        self._around(fcntl, "flock")
        self._around(_shards, "open_store")
        self._around(_shards, "digest_of")
        opener = builtins.open

        def opens(path, mode="r", *args, **more):
            writes = mode[0] in "wxa"
            if writes:
                self._step("before open")
            file = opener(path, mode, *args, **more)
            if writes:
                self._step("after open")
            return file

        builtins.open = opens


def in_child(work):
    """Runs `work` in a fork; returns the signal that has ended it, and what it has returned."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            text = work()
            os.write(writer, str(text).encode())
        except BaseException as error:
            os.write(writer, f"raised {type(error).__name__}: {error}".encode())
            os._exit(1)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        text = file.read()
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, text
    return (os.WTERMSIG(status) if os.WIFSIGNALED(status) else None), text
