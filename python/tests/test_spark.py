"""Seen sets in Spark, in local mode, against what Spark itself answers."""

import os
import pathlib
import random
import zlib

import numpy
import pytest

pytest.importorskip("pyspark")
pyarrow = pytest.importorskip("pyarrow")

import spark_session
from pyspark.sql import functions as sql

from everseen import errors, seenset
from everseen.spark import SeenSet
from everseen.spark._tasks import HASH, KEY, TASK, Hashing, Run, first_of_each

pytestmark = pytest.mark.filterwarnings("ignore")

ROWS = int(os.environ.get("EVERSEEN_SPARK_ROWS", "20000"))


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    session = spark_session.local(tmp_path_factory.mktemp("spark"), {})
    yield session
    session.stop()


def generated(spark, seed, epoch, rows=ROWS):
    """Rows of which half repeat within the epoch, and half of the rest were in an epoch before."""
    key = sql.concat(
        sql.lit("https://example.org/"), sql.pmod(sql.xxhash64("id", sql.lit(seed)), sql.lit(rows)) + epoch * rows // 2
    )
    frame = spark.range(rows * epoch, rows * (epoch + 1), numPartitions=5)
    return frame.select(
        key.alias("url"), sql.col("id"), (sql.col("id") % 7).alias("rest"), sql.array("id").alias("more")
    )


@pytest.mark.parametrize(("adaptive", "order_by"), [("true", None), ("false", "id")])
def test_epochs_are_deduplication_and_an_anti_join(one, folder, seed, adaptive, order_by):
    spark = one
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    seen = SeenSet(folder / "set", shards=5, buffer=1 << 20)
    history = None
    for epoch in range(3):
        rows = generated(spark, seed, epoch)
        expected = rows.groupBy("url").agg(sql.min("id").alias("id"))
        if history is not None:
            expected = expected.join(history, "url", "left_anti")
        expected = {row.url: row.id for row in expected.collect()}
        path = str(folder / f"fresh-{epoch}")
        with seen.epoch(str(epoch), output=path) as day:
            fresh = day.unseen(rows, "url", order_by=order_by)
            assert fresh.schema == rows.schema
            # Nothing is changed by asking.
            assert fresh.count() == len(expected)
            day.write(fresh)
            day.remember(key="url")
        put_out = spark.read.parquet(path)
        got = put_out.collect()
        assert len(got) == len(expected)
        assert {row.url for row in got} == expected.keys()
        assert all(row.more == [row.id] and row.rest == row.id % 7 for row in got)
        if order_by:
            assert {row.url: row.id for row in got} == expected
        history = put_out.select("url") if history is None else history.union(put_out.select("url"))
        assert seen.keys == history.count()
    assert seen.verify() == []
    # A laptop goes on with the same set.
    laptop = seenset.SeenSet(folder / "set", buffer=1 << 20)
    with laptop.epoch("laptop") as day:
        asked = [row.url for row in history.limit(100).collect()]
        assert list(day.unseen([[*asked, "new"]])) == [["new"]]
        day.remember([["new"]])
    with seen.epoch("cluster") as day:
        frame = spark.createDataFrame([("new",), ("newer",), (asked[0],)], "url string")
        assert [row.url for row in day.unseen(frame, "url").collect()] == ["newer"]


def test_an_output_that_is_committed_is_not_decided_again(one, folder):
    seen = SeenSet(folder / "set", shards=2, buffer=1 << 20)
    path = str(folder / "fresh")
    rows = one.createDataFrame([("a", 1), ("b", 2), ("a", 3)], "url string, n int")
    bad = rows.withColumn("n", sql.raise_error(sql.lit("this is evaluated")).cast("int"))
    with pytest.raises(errors.NotCommittedError), seen.epoch("one", output=path) as day:
        day.remember(key="url")
    # What a run that was killed has left there is replaced.
    pathlib.Path(path).mkdir()
    rows.write.parquet(path, mode="overwrite")
    (pathlib.Path(path) / "_SUCCESS").unlink()
    with pytest.raises(ZeroDivisionError), seen.epoch("one", output=path) as day:
        day.write(day.unseen(rows, "url", order_by=sql.col("n").desc()))
        assert 1 / 0
    with seen.epoch("one", output=path) as day:
        assert day.committed and not day.published
        day.write(day.unseen(bad, "url"))
        day.remember(key="url")
    assert sorted(one.read.parquet(path).collect()) == [("a", 3), ("b", 2)]
    with seen.epoch("one", output=path) as day:
        assert day.published
        day.write(day.unseen(bad, "url"))
        day.remember(key="url")
    # That it began from is gone matters only to those who want its rows again.
    seen.vacuum(keep=1)
    with seen.epoch("one", output=path) as day:
        fresh = day.unseen(rows, "url")
        day.write(fresh)
        day.remember(key="url")
        with pytest.raises(Exception, match="VacuumedError"):
            fresh.collect()
    assert seen.epochs == ["one"]
    # An output that no pin was there for was decided on another state of the set.
    with pytest.raises(errors.PinChangedError), seen.epoch("two", output=path):
        pass


def test_the_program_may_write_by_itself(one, folder):
    seen = SeenSet(folder / "set", spark=one, shards=2, buffer=1 << 20)
    rows = one.createDataFrame([("a",), ("b",)], "url string")
    with seen.epoch("one") as day:
        fresh = day.unseen(rows, "url")
        fresh.write.json(str(folder / "fresh"))
        day.remember(folder / "fresh", "url", format="json")
        with pytest.raises(ValueError, match="no output"):
            day.write(fresh)
    with seen.epoch("two") as day:
        assert day.unseen(rows, "url").count() == 0
        day.remember(one.createDataFrame([("c",)], "url string"), "url")
        with pytest.raises(ValueError, match="needs an output"):
            day.remember(key="url")
        with pytest.raises(TypeError, match="needs the key"):
            day.remember()
    assert (seen.keys, seen.epochs) == (3, ["one", "two"])


def test_keys_of_every_form(one, folder):
    seen = SeenSet(folder / "set", shards=3, buffer=1 << 20)
    rows = one.createDataFrame(
        [("a", b"a", ("x",), 1), ("b", b"a", ("x",), 2), (None, None, None, 3)],
        "`u rl` string, bin binary, at struct<x: string>, n int",
    )
    with seen.epoch("one") as day:

        def numbers(key, **more):
            return sorted(row.n for row in day.unseen(rows, key, order_by="n", **more).collect())

        assert numbers("u rl", nulls="skip") == [1, 2]
        assert numbers("bin", nulls="skip") == [1]
        assert numbers("at.x", nulls="skip") == [1]
        assert numbers(sql.coalesce(sql.col("`u rl`"), sql.lit("b"))) == [1, 2]
        with pytest.raises(Exception, match="NullKeyError"):
            numbers("bin")
        with pytest.raises(ValueError, match="nulls"):
            numbers("bin", nulls="keep")
        with pytest.raises(TypeError, match="cast it"):
            numbers("n")
        for taken in (HASH, TASK, KEY, "u rl"):
            with pytest.raises(ValueError, match="name of its own"):
                day.unseen(rows.withColumnRenamed("n", taken), "bin")
        day.remember(rows, "at.x", nulls="skip")
        assert seen.contains_many(["x", "a"]).tolist() == [False, False]
        day.remember(rows.withColumnRenamed("u rl", "meta.url"), "meta.url", nulls="skip")
    assert seen.contains_many(["x", "a", "b", "c"]).tolist() == [True, True, True, False]


def test_tasks_that_are_tried_again_lose_nothing(one, folder, seed):
    """Every task of the last stage fails at its first try, after it has decided."""
    seen = SeenSet(folder / "set", shards=4, buffer=1 << 20)
    path = str(folder / "fresh")
    rows = generated(one, seed, 0, rows=2000)

    def fails_once(batches):
        from pyspark import TaskContext

        yield from batches
        if TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("the first try")

    with seen.epoch("one", output=path) as day:
        day.write(day.unseen(rows, "url").mapInArrow(fails_once, rows.schema))
        day.remember(one.read.parquet(path).mapInArrow(fails_once, rows.schema), "url")
    expected = {row.url for row in rows.select("url").distinct().collect()}
    got = [row.url for row in one.read.parquet(path).collect()]
    assert (len(got), set(got)) == (len(expected), expected)
    assert seen.contains_many(got).all()
    assert (seen.keys, seen.verify()) == (len(expected), [])


def weak(keys, bits):
    """Hashes of which many are equal by chance."""
    return numpy.array([zlib.crc32(key.encode()) % bits for key in keys], dtype=numpy.uint64)


def test_keys_decide_where_hashes_are_equal(seed):
    rng = random.Random(seed)
    for _ in range(200):
        keys = [f"k{rng.randrange(40)}" for _ in range(rng.randrange(120))]
        hashes = weak(keys, rng.choice([1, 4, 1 << 60]))
        known, expected = set(), []
        for key in keys:
            expected.append(key not in known)
            known.add(key)
        assert first_of_each(hashes, pyarrow.array(keys, pyarrow.string())).tolist() == expected, f"seed {seed}"


def test_keys_decide_from_batch_to_batch(seed):
    rng = random.Random(seed)
    for _ in range(200):
        keys = [f"k{rng.randrange(40)}" for _ in range(rng.randrange(1, 120))]
        hashes = weak(keys, rng.choice([1, 4, 1 << 60]))
        order = numpy.argsort(hashes, kind="stable")
        keys, hashes = [keys[place] for place in order], hashes[order]
        run, known, place = Run(), set(), 0
        while place < len(keys):
            end = place + rng.randrange(1, 30)
            got = run.first(hashes[place:end], pyarrow.array(keys[place:end], pyarrow.string())).tolist()
            for key, first in zip(keys[place:end], got, strict=True):
                assert first == (key not in known), f"seed {seed}"
                known.add(key)
            place = end


def test_rows_that_repeat_in_a_task_do_not_travel(folder):
    settings = seenset.SeenSet("set", shards=3).settings
    batches = [pyarrow.RecordBatch.from_pydict({"url": [f"k{n % 50}" for n in range(100)]}) for _ in range(10)]
    for keeps_all, rows in ((True, 1000), (False, 50)):
        sent = list(Hashing(settings, "url", keeps_all)(batches))
        assert sum(batch.num_rows for batch in sent) == rows
        assert {batch.num_columns for batch in sent} == {3}
        assert max(batch.num_rows for batch in sent) <= 100
    alone = list(Hashing(settings, "url", keeps_all=False, hashes_alone=True)(batches))
    assert alone[0].schema.names == [HASH, TASK]
