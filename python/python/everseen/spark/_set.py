"""A seen set whose epochs are Spark's work."""

from __future__ import annotations

import os
from typing import Any

from pyspark.sql import SparkSession

from everseen import seenset
from everseen.spark._epoch import Epoch


class SeenSet(seenset.SeenSet):
    """A set of keys that was seen, for data frames of Spark; see `everseen.seenset.SeenSet` for the rest.

    Args:
        root: A folder that this machine and all workers see under the same path, or a URL of fsspec's.
        spark: The session; the active one unless given.
        shards, fpr, capacity, hash, seed, buffer, filesystem, cache, driver: As of `everseen.seenset.SeenSet`.
    """

    def __init__(self, root: str | os.PathLike[str], *, spark: SparkSession | None = None, **settings: Any) -> None:
        super().__init__(root, **settings)
        self._spark = spark

    def session(self) -> SparkSession:
        """Return the session."""
        found = self._spark or SparkSession.getActiveSession()
        if found is None:
            raise RuntimeError("no session of Spark is active: pass one as `spark`")
        return found

    def epoch(self, name: str, output: str | os.PathLike[str] | None = None, *, take_over: bool = False) -> Epoch:
        """Begin an epoch, or go on with one that was not published.

        Args:
            name: Its name: "2026-11-22". What was published under it stays as it is.
            output: The folder that its output will be in, as Spark names it. Where it is committed (`_SUCCESS`), the
                epoch is not decided again.
            take_over: As of `everseen.seenset.SeenSet.epoch`.
        """
        return Epoch(self, name, None if output is None else os.fspath(output), take_over)
