"""Parquet files, and frames of polars, pandas and DuckDB, against an exact set."""

import os
import pathlib

import pytest

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

import daily
import frames_days
from pyarrow import parquet

from everseen import errors
from everseen.frames import remember, unseen, write


def keys_in(output):
    return parquet.read_table(output)["url"].to_pylist()


def test_files_across_days_equal_an_exact_set_through_kills(folder, seed):
    daily.survives("frames_days", seed, lambda done: daily.check(seed, done, keys_in))


ROWS = {"url": ["a", "b", "a", "c", "d"], "n": [1, 2, 3, 4, 5]}


def as_pandas():
    return pytest.importorskip("pandas").DataFrame(ROWS)


def as_polars():
    return pytest.importorskip("polars").DataFrame(ROWS)


def as_lazy():
    return pytest.importorskip("polars").DataFrame(ROWS).lazy()


def as_duckdb():
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    return duckdb.connect().from_arrow(pyarrow.table(ROWS))


def as_table():
    return pyarrow.table(ROWS)


def as_reader():
    return pyarrow.table(ROWS).to_reader(max_chunksize=2)


def as_files():
    parquet.write_table(pyarrow.table(ROWS).slice(0, 3), "1.parquet")
    # A name that would match nothing as a pattern.
    parquet.write_table(pyarrow.table(ROWS).slice(3), "2[x].parquet")
    return [pathlib.Path("2[x].parquet"), "1.parquet"]


def as_folder():
    as_files()
    pathlib.Path("_SUCCESS").touch()
    return "."


FORMS = [as_pandas, as_polars, as_lazy, as_duckdb, as_table, as_reader, as_files, as_folder]


@pytest.mark.parametrize("form", FORMS)
def test_each_kind_of_rows(folder, form):
    seen = daily.seen_set()
    with seen.epoch("one") as day:
        day.remember([["b"]])
    with seen.epoch("two", output="out/two") as day:
        fresh = unseen(day, form(), "url")
        if form in (as_pandas, as_polars):
            assert type(fresh) is type(form())
        write(day, fresh)
        expected = [4, 5, 1] if form is as_files else [1, 4, 5]
        assert parquet.read_table("out/two")["n"].to_pylist() == expected
        assert not seen.contains_many(["a", "c", "d"]).any()
        remember(day, "url")
    assert seen.contains_many(["a", "b", "c", "d"]).all()
    # It was decided, and is not read again.
    with seen.epoch("two", output="out/two") as day:
        write(day, unseen(day, form(), "url"))
        remember(day, "url")
    with seen.epoch("three", output="out/three") as day:
        write(day, unseen(day, form(), "url"), compression="zstd")
        assert parquet.read_table("out/three").num_rows == 0
        remember(day, "url")
    assert seen.epochs == ["one", "two", "three"]


def test_files_whose_columns_differ(folder):
    """The first one says which there are, in which order, and of which types."""
    parquet.write_table(pyarrow.table({"url": ["a"], "n": pyarrow.array([1], pyarrow.int64())}), "1.parquet")
    small_n, large_url = pyarrow.array([2], pyarrow.int8()), pyarrow.array(["b"], pyarrow.large_string())
    parquet.write_table(pyarrow.table({"n": small_n, "more": [0], "url": large_url}), "2.parquet")
    with daily.seen_set().epoch("one", output="out/one") as day:
        write(day, unseen(day, "*.parquet", "url"))
        assert parquet.read_table("out/one").to_pydict() == {"url": ["a", "b"], "n": [1, 2]}
        remember(day, "url")
    parquet.write_table(pyarrow.table({"url": ["c"]}), "2.parquet")
    with daily.seen_set().epoch("two", output="out/two") as day, pytest.raises(KeyError, match="n"):
        write(day, unseen(day, "*.parquet", "url"))


def test_a_result_in_a_query(folder):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    connection = duckdb.connect()
    relation = connection.sql("select 'https://example.org/' || i % 5 as url, i as n from range(1000) t(i)")
    with daily.seen_set().epoch("one") as day:
        fresh = unseen(day, relation, "url")
        assert duckdb.connect().sql("select sum(n), count(*) from fresh").fetchall() == [(10, 5)]
        fresh = unseen(day, pyarrow.table(ROWS), "url")
        assert pytest.importorskip("polars").DataFrame(fresh)["n"].to_list() == [1, 2, 4, 5]
        assert pyarrow.table(unseen(day, pyarrow.table(ROWS), "url"))["n"].to_pylist() == [1, 2, 4, 5]


def test_what_is_not_rows(folder):
    seen = daily.seen_set()
    with seen.epoch("one", output="out/one") as day:
        with pytest.raises(TypeError, match="rows are"):
            unseen(day, 5, "url")
        with pytest.raises(FileNotFoundError, match="missing"):
            unseen(day, "missing/*.parquet", "url")
        with pytest.raises(errors.NotCommittedError):
            remember(day, "url")
        with pytest.raises(errors.NullKeyError):
            write(day, unseen(day, pyarrow.table({"url": ["a", None]}), "url"))
        assert not day.committed
    with seen.epoch("one", output="out/one") as day:
        write(day, unseen(day, pyarrow.table({"url": ["a"]}), "url"))
        # It was decided: what comes now is not looked at.
        write(day, 5)
        remember(day, "url")
    with seen.epoch("two") as day, pytest.raises(ValueError, match="no output"):
        write(day, pyarrow.table(ROWS))


def test_an_output_is_durable_before_it_is_marked(folder, monkeypatch):
    """As far as calls show it."""
    synced = []
    fsync = os.fsync

    def noted(handle):
        synced.append((os.path.relpath(os.readlink(f"/proc/self/fd/{handle}")), os.path.exists("out/one/_SUCCESS")))
        fsync(handle)

    with daily.seen_set().epoch("one", output="out/one") as day:
        monkeypatch.setattr(os, "fsync", noted)
        write(day, pyarrow.table(ROWS))
    assert ("out/one/part-00000.parquet", False) in synced
    assert ("out/one", False) in synced
    assert ("out", False) in synced
    assert synced[-1] == ("out/one", True)


def test_rows_are_read_once(folder):
    """What is left of rows that were looked at would be published as all there are."""
    with pytest.raises(RuntimeError, match="read once"), daily.seen_set().epoch("one", output="out/one") as day:
        fresh = unseen(day, as_table(), "url")
        assert pyarrow.table(fresh).num_rows == 4
        write(day, fresh)
    assert not pathlib.Path("out/one/_SUCCESS").exists()


@pytest.mark.parametrize("form", FORMS)
def test_a_day_that_is_published_may_run_again_after_a_vacuum(folder, form):
    seen = daily.seen_set()
    for name in ("one", "two", "three"):
        for _ in range(2):
            with seen.epoch(name, output=f"out/{name}") as day:
                write(day, unseen(day, form(), "url"))
                remember(day, "url")
            seen.vacuum(keep=1)
    with seen.epoch("one", output="out/one") as day:
        write(day, unseen(day, form(), "url"))
        remember(day, "url")
    assert sorted(keys_in("out/one")) == ["a", "b", "c", "d"]


def test_an_index_without_a_name_is_no_column(folder):
    """pandas keeps one or not by which rows are left."""
    pandas = pytest.importorskip("pandas")
    seen = daily.seen_set()
    for name, urls in (("one", "ab"), ("two", "cade"), ("three", "fag")):
        with seen.epoch(name, output=f"out/{name}") as day:
            write(day, unseen(day, pandas.DataFrame({"url": list(urls)}), "url"))
            remember(day, "url")
        assert parquet.read_schema(f"out/{name}/part-00000.parquet").names == ["url"]
    named = pandas.DataFrame({"url": ["x", "y"]}, index=pandas.Index([7, 8], name="n"))
    with seen.epoch("four", output="out/four") as day:
        write(day, unseen(day, named, "url"))
        remember(day, "url")
    assert parquet.read_table("out/four")["n"].to_pylist() == [7, 8]


def test_frames_of_polars_with_categories_and_without_rows(folder):
    polars = pytest.importorskip("polars")
    seen = daily.seen_set()
    kinds = polars.Enum(["p", "q"])
    frame = polars.DataFrame({"url": ["a", "b"], "c": ["x", "y"], "e": ["p", "q"]})
    frame = frame.with_columns(polars.col("url", "c").cast(polars.Categorical), polars.col("e").cast(kinds))
    with seen.epoch("one", output="out/one") as day:
        write(day, unseen(day, frame, "url"))
        remember(day, "url")
    assert [str(key) for key in keys_in("out/one")] == ["a", "b"]
    with seen.epoch("two", output="out/two") as day:
        assert unseen(day, polars.DataFrame({"url": []}), "url").height == 0
        with pytest.raises(ValueError, match="no paths"):
            unseen(day, [], "url")
    assert seen.contains_many(["a", "b"]).all()


def test_outputs_of_other_programs(folder):
    """Files may lie in folders, and there is none where nothing was new."""
    seen = daily.seen_set()
    with seen.epoch("none", output="out/none") as day:
        pathlib.Path("out/none").mkdir(parents=True)
        day.commit_output()
        remember(day, "url")
    with seen.epoch("parts", output="out/parts") as day:
        for part, key in (("d=1", "a"), ("d=2", "b"), ("_temporary", "c"), (".", "d")):
            pathlib.Path("out/parts", part).mkdir(parents=True, exist_ok=True)
            parquet.write_table(pyarrow.table({"url": [key]}), f"out/parts/{part}/data_0.parquet")
        day.commit_output()
        remember(day, "url")
    assert seen.epochs == ["none", "parts"]
    assert seen.contains_many(["a", "b", "c", "d"]).tolist() == [True, True, False, True]


def test_a_day_that_is_run_again_in_another_folder_is_decided_once(folder, monkeypatch):
    root = pathlib.Path("set").absolute()
    for place in ("one", "two"):
        pathlib.Path(place).mkdir()
    monkeypatch.chdir("one")
    with daily.SeenSet(root, shards=4).epoch("day", output="fresh") as day:
        write(day, unseen(day, as_table(), "url"))
    monkeypatch.chdir("../two")
    with pytest.raises(errors.SetMismatchError), daily.SeenSet(root).epoch("day", output="fresh"):
        pass
    with daily.SeenSet(root).epoch("day", output="../one/./fresh") as day:
        assert day.committed
        remember(day, "url")
    assert not pathlib.Path("fresh").exists()
