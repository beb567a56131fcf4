"""One epoch of a seen set: from the manifest that it begins from to the one that it publishes."""

from __future__ import annotations

import dataclasses
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from everseen import errors
from everseen._durable import sync_folder, sync_tree
from everseen.seenset._batches import ReadOnce, judged, remembered
from everseen.seenset._manifest import Manifest, Pin, Shard, epoch_name, pin_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from everseen.seenset._set import SeenSet
    from everseen.seenset._shards import Lock


class Epoch:
    """One all-or-nothing step of a seen set. Get it from `SeenSet.epoch`, and use it in a `with` statement.

    It begins from the manifest that was last published, and holds on to it: whatever `unseen` is asked, and however
    often, it answers as of then. What the output holds in the end is remembered, and leaving the `with` statement
    publishes it. If anything fails before that, the set is as before, and the same epoch is run again.

    >>> from everseen.seenset import SeenSet
    >>> seen = SeenSet("daily", shards=4)
    >>> with seen.epoch("monday") as day:
    ...     fresh = [key for batch in day.unseen([["a", "b", "a"]]) for key in batch]
    ...     day.remember([fresh])
    >>> fresh, seen.contains_many(["a", "c"]).tolist()
    (['a', 'b'], [True, False])
    """

    def __init__(self, seen: SeenSet, name: str, output: str | None, take_over: bool = False) -> None:
        self.name = epoch_name(name)
        """The epoch's name."""
        self.output = output
        """The folder of its output."""
        self.published = False
        """Whether it was published already: then `remember` and `publish` have nothing to do."""
        self.resumed = False
        """Whether it was begun before, and not published."""
        self._seen = seen
        self._root = seen._root
        self._take_over = take_over
        self._lock: Lock | None = None
        self._number = 0
        self._base: Manifest | None = None
        self._attempt = ""
        self._shards: dict[int, Shard] = {}
        self._remembered = False

    def __enter__(self) -> Self:
        self._lock = self._root.lock()
        try:
            self._begin()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, raised: type[BaseException] | None, *_: object) -> None:
        try:
            if raised is None and self._remembered:
                self.publish()
        finally:
            self._release()

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def _begin(self) -> None:
        # An epoch may be entered again after an error.
        self._shards, self._remembered = {}, False
        self.published = self.resumed = False
        last = self._seen.manifest()
        if self.name in last.epochs:
            self.published = True
            self._number = last.epochs[self.name]
            return
        self._base = last
        self._number = last.number + 1
        pin = self._seen._pin(self._number)
        if pin is None:
            pin = self._new_pin()
        else:
            self.resumed = True
        if pin.epoch != self.name:
            error = errors.UnfinishedEpochError(
                f"epoch {pin.epoch!r} was begun and not published: run it again, or abandon it"
            )
            error.epoch = pin.epoch
            raise error
        if not self._root.began(pin):
            if not self._take_over:
                raise errors.AnotherDriverError(
                    f"epoch {pin.epoch!r} was begun by a driver on another machine: once that is over, take it over"
                )
            self._root.begin(pin)
        begun_with = pin.output if pin.output is None else os.path.abspath(pin.output)
        if begun_with != self.output:
            mismatch = errors.SetMismatchError(f"epoch {self.name!r} was begun with the output {pin.output!r}")
            mismatch.field = "output"
            raise mismatch
        self._attempt = f"shards/{self._number:012}-{uuid.uuid4().hex}"

    def _new_pin(self) -> Pin:
        if self.output is not None and self._is_committed():
            error = errors.PinChangedError(
                f"{self.output} holds what an epoch has decided that is not epoch {self.name!r} as it begins here: "
                "remove it"
            )
            error.epoch = self.name
            raise error
        pin = Pin(self._number, self.name, self.output, uuid.uuid4().hex)
        self._root.begin(pin)
        try:
            self._root.create(pin_name(self._number), pin.encode())
        except FileExistsError:
            raise errors.AnotherDriverError(f"another driver has begun an epoch of {self._root} meanwhile") from None
        return pin

    @property
    def base(self) -> Manifest:
        """The state of the set that the epoch begins from."""
        if self._base is None:
            if not self.published:
                raise RuntimeError("the epoch is not begun: use it in a `with` statement")
            self._base = self._seen.manifest(self._number - 1)
        return self._base

    @property
    def committed(self) -> bool:
        """Whether the output is whole, so that only `remember` is left to do."""
        return self.published or (self.output is not None and self._is_committed())

    def _is_committed(self) -> bool:
        return os.path.exists(os.path.join(self.output or "", "_SUCCESS"))

    def commit_output(self) -> None:
        """Make the output durable, and mark it as whole (`_SUCCESS`). Call it when all of it is written.

        From then on a program that is run again does not decide again: `committed` is true.
        """
        if self.output is None:
            raise ValueError("the epoch has no output: give one to `SeenSet.epoch`")
        self._writing()
        sync_tree(Path(self.output))
        (Path(self.output) / "_SUCCESS").touch()
        sync_folder(Path(self.output))

    def unseen(self, batches: Iterable[Any], column: str | None = None, *, processes: int = 0) -> Iterator[Any]:
        """Return each batch with only those rows whose key was never seen, and is seen for the first time here.

        Nothing is changed. Of rows with one key the first stays, exactly; it takes at most 60 bytes of memory for
        each key that was never seen. For a share of new keys no larger than the set's rate no row stays.

        Args:
            batches: pyarrow tables and batches, pandas or polars frames, or lists and arrays of keys.
            column: The column with the keys, of tables and frames.
            processes: How many processes look up, each in shards of its own. With 0 this one does.

        Raises:
            NullKeyError: A row has no key.
        """
        return ReadOnce(judged(self._root, self.base, batches, column, processes))

    def remember(self, batches: Iterable[Any], column: str | None = None, *, processes: int = 0) -> None:
        """Add keys to what the epoch will publish. Call it with what was put out, once that can't be lost any more.

        Args:
            batches, column: As of `unseen`.
            processes: How many processes write shards. With 0 this one does.
        """
        self._remember(batches, column, processes=processes)

    def _remember(
        self, batches: Iterable[Any], column: str | None = None, *, processes: int = 0, hashed: bool = False
    ) -> None:
        if self.published:
            return
        shards = remembered(
            self._root,
            self.base,
            self._shards,
            batches,
            column,
            attempt=self._writing(),
            epoch=self.name,
            buffer=self._seen._buffer,
            processes=processes,
            hashed=hashed,
        )
        self._shards.update(shards)
        self._remembered = True

    def _writing(self) -> str:
        """Return the folder of this attempt, for a driver that may still write."""
        if self._lock is None:
            raise RuntimeError("the epoch is over: its `with` statement has been left")
        return self._attempt

    def publish(self) -> None:
        """Make what was remembered the state of the set. Leaving the `with` statement does it."""
        if self.published:
            return
        self._writing()
        base = self.base
        shards = (self._shards.get(place, shard) for place, shard in enumerate(base.shards))
        manifest = dataclasses.replace(
            base,
            number=self._number,
            epoch=self.name,
            abandoned=None,
            epochs={**base.epochs, self.name: self._number},
            shards=tuple(shards),
        )
        self._seen._publish(manifest)
        self.published = True
