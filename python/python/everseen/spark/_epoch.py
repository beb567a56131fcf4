"""An epoch over data frames."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from everseen import seenset
from everseen.errors import NotCommittedError, VacuumedError
from everseen.seenset import Manifest, Shard
from everseen.spark._tasks import HASH, KEY, TASK, WRITTEN, Hashing, Judging, Writing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from everseen.spark._set import SeenSet


class Epoch(seenset.Epoch):
    """One all-or-nothing step of a seen set, in Spark; see `everseen.seenset.Epoch`."""

    _seen: SeenSet

    def unseen(  # type: ignore[override]
        self,
        rows: DataFrame,
        key: str | Column,
        *,
        order_by: str | Column | Sequence[str | Column] | None = None,
        nulls: Literal["error", "skip"] = "error",
    ) -> DataFrame:
        """Return the rows whose key was never seen before the epoch, one for each key.

        It changes nothing, and its tasks may run any number of times. For a share of new keys no larger than the set's
        rate there is no row.

        Args:
            rows: The epoch's rows.
            key: A column of strings or binary, or an expression.
            order_by: Columns that say which row of a key stays: the first. Without it, any does, and another run may
                choose another; write the result before it is used twice.
            nulls: What a row without a key is: an `"error"`, or left out (`"skip"`).
        """
        keyed, name = _with_key(rows, key, nulls)
        order = [] if order_by is None else [order_by] if isinstance(order_by, str | Column) else list(order_by)
        settings = self._seen.settings
        hashed = StructType([*keyed.schema, StructField(HASH, LongType()), StructField(TASK, IntegerType())])
        # Rows that repeat within a task don't travel, unless the order decides which of them stays.
        hashing = Hashing(settings, name, keeps_all=bool(order))
        sent = _to_shards(keyed.mapInArrow(hashing, hashed), settings.shards)
        # By hash: rows with one key lie together, and look-ups go through the pages in their order.
        lying = sent.sortWithinPartitions(sql.col(HASH), *order)
        judging = Judging(self._root, self._base_if_there(), name, rows.columns)
        return lying.mapInArrow(judging, rows.schema)

    def _base_if_there(self) -> Manifest | None:
        """Return the manifest that the epoch begins from.

        A published epoch's may be vacuumed. That matters to those alone who want its rows again: not to a program that
        is run again and finds that nothing is left to do.
        """
        try:
            return self.base
        except VacuumedError:
            return None

    def write(self, fresh: DataFrame, format: str = "parquet", **options: Any) -> None:  # noqa: A002: Spark's name.
        """Write the result of `unseen` to the epoch's output, unless it is there and committed.

        What a run that was killed has left there is replaced. `fresh.write` does as well, if the program asks
        `committed` first.
        """
        if self.output is None:
            raise ValueError("the epoch has no output: give one to `SeenSet.epoch`")
        if not self.committed:
            fresh.write.mode("overwrite").format(format).options(**options).save(self.output)

    def remember(  # type: ignore[override]
        self,
        output: str | os.PathLike[str] | DataFrame | None = None,
        key: str | Column | None = None,
        *,
        format: str = "parquet",  # noqa: A002: Spark's name.
        nulls: Literal["error", "skip"] = "error",
    ) -> None:
        """Add the keys of a committed output to what the epoch will publish.

        Args:
            output: A folder that Spark has written, the epoch's output unless given; or a data frame that is read from
                what can't be lost any more.
            key: As of `unseen`.
            format: The format of the folder's files.
            nulls: As of `unseen`.

        Raises:
            NotCommittedError: The folder holds no `_SUCCESS`.
        """
        if self.published:
            return
        if key is None:
            raise TypeError("remember() needs the key: a column, or an expression")
        if not isinstance(output, DataFrame):
            folder = self.output if output is None else os.fspath(output)
            if folder is None:
                raise ValueError("remember() needs an output, since the epoch has none")
            if not _is_committed(self._seen, folder):
                raise NotCommittedError(f"{folder} holds no _SUCCESS: it is not committed")
            output = self._seen.session().read.format(format).load(folder)
        keyed, name = _with_key(output, key, nulls)
        settings = self.base.settings
        hashed = StructType([StructField(HASH, LongType()), StructField(TASK, IntegerType())])
        hashing = Hashing(settings, KEY, keeps_all=False, hashes_alone=True)
        # Under a name without a dot: `mapInArrow` takes what is behind a dot for a field.
        keys = keyed.select(sql.col(f"`{name}`").alias(KEY))
        sent = _to_shards(keys.mapInArrow(hashing, hashed), settings.shards)
        newest = tuple(self._shards.get(place, shard) for place, shard in enumerate(self.base.shards))
        writing = Writing(self._root, settings, newest, self._writing(), self.name, self._seen._buffer)
        # A task that ran twice has written two files; the one whose answer comes here counts.
        for row in sent.mapInArrow(writing, WRITTEN).collect():
            self._shards[row.shard] = Shard(row.file, row.size, row.sha256, row.keys, self.name)
        self._remembered = True

    def _is_committed(self) -> bool:
        return self.output is not None and _is_committed(self._seen, self.output)


def _with_key(rows: DataFrame, key: str | Column, nulls: str) -> tuple[DataFrame, str]:
    """Return rows with a column of keys, and its name."""
    if nulls not in ("error", "skip"):
        raise ValueError(f"nulls {nulls!r}: there are 'error' and 'skip'")
    taken = {HASH, TASK, KEY}.intersection(rows.columns)
    if taken or len(set(rows.columns)) != len(rows.columns):
        raise ValueError(f"columns {rows.columns}: each needs a name of its own, and {HASH}, {TASK}, {KEY} are taken")
    name = key if isinstance(key, str) and key in rows.columns else KEY
    if name == KEY:
        rows = rows.withColumn(KEY, sql.col(key) if isinstance(key, str) else key)
    kind = rows.schema[name].dataType
    if not isinstance(kind, StringType | BinaryType):
        raise TypeError(f"a key is a string or binary, not {kind.simpleString()}: cast it")
    if nulls == "skip":
        rows = rows.where(sql.col(f"`{name}`").isNotNull())
    return rows, name


def _to_shards(rows: DataFrame, shards: int) -> DataFrame:
    """Send each row to the task of its shard."""
    if hasattr(rows, "repartitionById"):
        sent: DataFrame = rows.repartitionById(shards, sql.col(TASK))
        return sent
    # Before Spark 4.1 some tasks get several shards, and some none. That is slower, and as right.
    return rows.repartition(shards, TASK)


def _is_committed(seen: SeenSet, folder: str) -> bool:
    """Return whether Spark's commit has left its mark in a folder."""
    spark = seen.session()
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(folder, "_SUCCESS")
    configuration = spark._jsc.hadoopConfiguration()  # type: ignore[attr-defined]
    return bool(path.getFileSystem(configuration).exists(path))
