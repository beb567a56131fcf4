"""Keys of several values, and columns of categories."""

import random

import numpy
import pytest

import everseen
from everseen import errors

pa = pytest.importorskip("pyarrow")

SEED = int.from_bytes(random.randbytes(4), "big")


def joined(values):
    """What the command makes of several values."""
    parts = [value if isinstance(value, bytes) else str(value).encode() for value in values]
    return b"".join(b"%d:%s," % (len(part), part) for part in parts) if len(parts) > 1 else parts[0]


def test_a_tuple_is_one_key(store):
    assert store.insert(("a", "bc"))
    assert not store.insert((b"a", "bc"))
    assert b"1:a,2:bc," in store
    assert ("ab", "c") not in store
    assert store.claim(("host", 17)) == everseen.Verdict.NEW
    assert store.contains(("host", "17")) and store.contains(("host", numpy.int64(17)))
    assert store.insert(("", "")) and not store.contains(("",))
    # One value is the key itself.
    assert store.insert(("one",)) and "one" in store
    assert store.remove(("a", "bc"))
    assert ("a", "bc") not in store
    for wrong in [("a", 1.5), ("a", None), ("a", True), ("a", ["b"])]:
        with pytest.raises(TypeError, match="a value of a key is str, bytes or int, not"):
            store.insert(wrong)
    with pytest.raises(TypeError, match="str, bytes or int, not float$"):
        store.insert_many([("a", 1.5)])
    with pytest.raises(ValueError, match="empty tuple"):
        store.insert(())


def test_rows_of_tuples(store):
    hosts, numbers = ["a", "b", "a"], [1, 2, 1]
    assert store.insert_many(zip(hosts, numbers)).tolist() == [True, True, False]
    assert store.contains_many([("a", 1), b"1:b,1:2,", ("b", 1)]).tolist() == [True, True, False]
    # A tuple of keys is many keys, as before.
    assert store.insert_many(("x", "y")).tolist() == [True, True]
    assert store.insert_many((("x", "y"), ("y", "x"))).tolist() == [True, True]


def tables():
    """The same columns in all forms, with the names of two: a function of the columns each."""
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    return {
        "pyarrow": pa.table,
        "batch": pa.record_batch,
        "pandas": pandas.DataFrame,
        "polars": polars.DataFrame,
        "dict": lambda columns: columns,
        "numpy": lambda columns: {
            name: numpy.array([value.encode() for value in values] if name == "host" else values)
            for name, values in columns.items()
        },
        "categories": lambda columns: pandas.DataFrame(columns).astype({"host": "category", "id": "category"}),
        "dictionaries": lambda columns: {
            name: pa.array(values).dictionary_encode() for name, values in columns.items()
        },
        "enum": lambda columns: polars.DataFrame(columns).with_columns(polars.col("host").cast(polars.Categorical)),
    }


@pytest.mark.parametrize("form", tables())
def test_columns_of_tables(store, form):
    rng = random.Random(SEED)
    for count in (0, 1, 1000, 70_000):
        hosts = [rng.choice(["a", "bb", "é", ""]) + str(rng.randrange(300)) for _ in range(count)]
        ids = [rng.randrange(-(2**63), 2**63) if rng.random() < 0.1 else rng.randrange(300) for _ in range(count)]
        table = tables()[form]({"host": hosts, "id": ids}) if count else {"host": [], "id": []}
        keys = [joined(row) for row in zip(hosts, ids)]
        expected = ~store.contains_many(keys)
        first = dict.fromkeys(keys)
        found = store.insert_many(table, columns=["host", "id"])
        assert found.sum() == len({key for key, new in zip(keys, expected) if new}), f"seed {SEED}"
        assert found.tolist() == [new and first.pop(key, 0) is None for key, new in zip(keys, expected)]
        assert store.contains_many(keys).all()
        assert store.contains_many((table["host"], table["id"])).all()
        assert store.contains_many(table, columns=["id", "host"]).sum() == sum(
            joined(row) in store for row in zip(ids, hosts)
        )
    one = tables()[form]({"host": ["alone"], "id": [7]})
    assert store.insert_many(one, columns="host").tolist() == [True]
    assert "alone" in store
    assert store.insert_many(one, columns=["id"]).tolist() == [True]
    assert "7" in store


def test_chunks_need_not_fit(store):
    rng = random.Random(SEED)
    rows = [(f"h{rng.randrange(40)}", rng.randrange(40)) for _ in range(3000)]

    def chunked(values, kind):
        cuts = sorted(rng.randrange(3001) for _ in range(9))
        bounds = zip([0, *cuts], [*cuts, 3000])
        return pa.chunked_array([pa.array(values[start:end], kind) for start, end in bounds], kind)

    hosts = chunked([host for host, _ in rows], pa.large_string())
    for kind in (pa.int8(), pa.uint16(), pa.int64()):
        ids = chunked([number for _, number in rows], kind)
        found = store.insert_many((hosts, ids, (host for host, _ in rows)))
        expected = len({row for row in rows}) if kind == pa.int8() else 0
        assert found.sum() == expected, f"seed {SEED}"
    assert all((host, number, host) in store for host, number in rows)


def test_nulls_and_lengths(store):
    hosts, ids = pa.array(["a", None, "c", "d"]), pa.array([1, 2, None, 4])
    with pytest.raises(errors.NullKeyError, match="key [12] is null"):
        store.insert_many((hosts, ids))
    assert len(store) == 0
    assert store.insert_many((hosts, ids), nulls="skip").tolist() == [True, False, False, True]
    assert ("a", 1) in store and len(store) == 2
    assert store.insert_many(([None, "x"], ["y", None]), nulls="skip").tolist() == [False, False]
    with pytest.raises(ValueError, match="column 1 ends after 1 rows"):
        store.insert_many((["a", "b"], ["c"]))
    with pytest.raises(ValueError, match="names none"):
        store.insert_many({"a": ["b"]}, columns=[])
    with pytest.raises(KeyError):
        store.insert_many({"a": ["b"]}, columns="c")
    for wrong in [numpy.array([1.5]), pa.array([1.5]), [1.5], numpy.array([True])]:
        with pytest.raises(TypeError):
            store.insert_many((["a"], wrong))
    with pytest.raises(TypeError, match="one key, and many"):
        store.insert_many({"a": "text"}, columns="a")
    with pytest.raises(TypeError, match="columns="):
        store.insert_many(pa.table({"a": ["b"]}))


def test_what_the_others_take(store):
    table = {"a": ["x", "y"], "b": [1, 2]}
    assert (store.claim_many(table, columns=["a", "b"]) == everseen.Verdict.NEW).all()
    assert store.remove_many(table, columns=["a", "b"]).all()
    assert store.exempt(table, columns=["a", "b"]).exempted == 2
    hasher = everseen.Hasher("xxh3", bytes(32))
    assert (hasher.hash_many((["x"], [1])) == hasher.hash_many([("x", 1)])).all()


def test_categories(store):
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    keys = ["a", "b", "a", "c"] * 100
    expected = [key not in keys[:place] for place, key in enumerate(keys)]
    forms = [
        pandas.Series(keys, dtype="category"),
        pandas.Categorical(keys),
        polars.Series(keys, dtype=polars.Categorical),
        polars.Series(keys, dtype=polars.Enum(["c", "b", "a"])),
        pa.array(keys).dictionary_encode(),
        pa.chunked_array([pa.array(keys[:150]).dictionary_encode(), pa.array(keys[150:]).dictionary_encode()]),
    ]
    for index in (pa.int8(), pa.int16(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64()):
        forms.append(pa.array(keys).cast(pa.dictionary(index, pa.large_string())).slice(0))
    for number, form in enumerate(forms):
        with everseen.open(f"{number}.ever") as seen:
            assert seen.insert_many(form).tolist() == expected, number
            assert seen.contains_many(form[3:5]).all()
    nulls = pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 2]), pa.array(["a", None, "b"]))
    with pytest.raises(errors.NullKeyError, match="key 1 is null"):
        store.insert_many(nulls)
    store = everseen.open("nulls.ever")
    assert store.insert_many(nulls, nulls="skip").tolist() == [True, False, False, True]
    numbers = pa.array([7, 8, 7]).dictionary_encode()
    assert store.insert_hashes(numbers).tolist() == [True, True, False]
    with pytest.raises(TypeError, match="insert_hashes"):
        store.insert_many(numbers)


@pytest.mark.parametrize("row", [3, -1, 127])
def test_a_dictionary_that_lies_is_refused(store, row):
    names = pa.array([0, row], pa.int8())
    lying = pa.DictionaryArray.from_arrays(names, pa.array(["a", "b", "c"]), safe=False)
    with pytest.raises(ValueError, match="damaged: a row names a value that its dictionary hasn't"):
        store.insert_many(lying)
    assert len(store) == 0


def test_sets(folder):
    with everseen.open("mon.ever") as mon, everseen.open("tue.ever", like="mon.ever") as tue:
        mon.insert_many(["a", "b", "c"])
        tue.insert_many(["b", "c", "d"])
    seen = []
    report = everseen.intersect("both.ever", ["mon.ever", "tue.ever"], progress=lambda *at: seen.append(at))
    assert report.keys == 2 and seen
    assert everseen.difference("new.ever", ["tue.ever", "mon.ever"]).keys == 1
    with everseen.open("both.ever", mode="r") as both, everseen.open("new.ever", mode="r") as new:
        assert both.contains_many(list("abcd")).tolist() == [False, True, True, False]
        assert new.contains_many(list("abcd")).tolist() == [False, False, False, True]
    everseen.open("fixed.ever", 1000).close()
    everseen.open("other.ever", like="fixed.ever").close()
    with pytest.raises(errors.WrongKindError):
        everseen.intersect("none.ever", ["fixed.ever", "other.ever"])
    with pytest.raises(errors.AlreadyExistsError):
        everseen.difference("new.ever", ["tue.ever", "mon.ever"])


def test_the_command_knows_keys_of_several_values(folder):
    extractor = everseen.Extractor(json_key=["host", "id"])
    with everseen.open("hits.ever", label=extractor.label) as hits:
        hits.insert_many({"host": ["a"], "id": [7]}, columns=["host", "id"])
        assert extractor.key('{"id": 7.0, "host": "a"}') in hits
