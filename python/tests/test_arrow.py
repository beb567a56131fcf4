"""Columns of Arrow, of all layouts, sliced and in chunks."""

import random

import pytest

import everseen
from everseen import errors

numpy = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")

SEED = int.from_bytes(random.randbytes(4), "big")

TYPES = {
    "utf8": pa.string(),
    "large utf8": pa.large_string(),
    "binary": pa.binary(),
    "large binary": pa.large_binary(),
}
if hasattr(pa, "string_view"):
    TYPES |= {"utf8 view": pa.string_view(), "binary view": pa.binary_view()}


def keys_of(rng, count, nulls=0.0):
    lengths = [0, 1, 2, 3, 11, 12, 13, 14, 100]
    def key():
        if rng.random() < nulls:
            return None
        return "".join(rng.choices("abcdé", k=rng.choice(lengths)))
    return [key() for _ in range(count)]


def column(keys, kind):
    encode = "binary" in kind
    values = [None if key is None else key.encode() if encode else key for key in keys]
    return pa.array(values, TYPES[kind])


def expected_of(model, keys):
    answers = []
    for key in keys:
        answers.append(key is not None and key not in model)
        if key is not None:
            model.add(key)
    return answers


@pytest.mark.parametrize("kind", TYPES)
def test_all_layouts(store, kind):
    rng, model = random.Random(SEED), set()
    for count in (0, 1, 7, 8, 9, 1000, 70_000):
        keys = keys_of(rng, count)
        array = column(keys, kind)
        assert store.insert_many(array).tolist() == expected_of(model, keys), f"seed {SEED}"
        assert store.contains_many(array).all()
    assert len(store) == len(model)


@pytest.mark.parametrize("kind", TYPES)
def test_slices(store, kind):
    rng, model = random.Random(SEED), set()
    keys = keys_of(rng, 500, nulls=0.2)
    array = column(keys, kind)
    for _ in range(100):
        start, stop = sorted(rng.randrange(501) for _ in range(2))
        answers = store.insert_many(array.slice(start, stop - start), nulls="skip")
        assert answers.tolist() == expected_of(model, keys[start:stop]), f"seed {SEED}"


@pytest.mark.parametrize("kind", TYPES)
def test_chunks(store, kind):
    rng, model = random.Random(SEED), set()
    for _ in range(30):
        chunks = [keys_of(rng, rng.choice([0, 1, 5, 200]), nulls=0.1) for _ in range(rng.randrange(5))]
        whole = pa.chunked_array([column(chunk, kind).slice(1) for chunk in chunks], TYPES[kind])
        keys = [key for chunk in chunks for key in chunk[1:]]
        assert store.insert_many(whole, nulls="skip").tolist() == expected_of(model, keys), f"seed {SEED}"


@pytest.mark.parametrize("kind", TYPES)
def test_nulls(store, kind):
    array = column(["a", None, "b"], kind)
    with pytest.raises(errors.NullKeyError, match="key 1 is null"):
        store.insert_many(array)
    assert len(store) == 0
    # A null that is not in the slice is none.
    assert store.insert_many(array.slice(2)).tolist() == [True]
    assert store.insert_many(array, nulls="skip").tolist() == [True, False, False]
    chunks = pa.chunked_array([column(["c"], kind), array])
    with pytest.raises(errors.NullKeyError, match="key 2 is null") as raised:
        store.insert_many(chunks)
    assert raised.value.partial.tolist() == [True]
    assert store.contains_many(pa.nulls(3), nulls="skip").tolist() == [False] * 3


def test_arrays_made_of_several_view_buffers(store):
    if not hasattr(pa, "string_view"):
        pytest.skip("no views in this pyarrow")
    keys = [f"a rather long key, number {n}" for n in range(50_000)]
    array = pa.array(keys, pa.string_view())
    assert store.insert_many(array).all()
    assert store.contains_many(keys).all()


def test_hashes(store):
    hashes = pa.array([1, -1, None, 1], pa.int64())
    with pytest.raises(errors.NullKeyError):
        store.insert_hashes(hashes)
    assert store.insert_hashes(hashes, nulls="skip").tolist() == [True, True, False, False]
    assert store.contains_hashes(pa.array([2**64 - 1, 1, 3], pa.uint64())).tolist() == [True, True, False]
    assert store.contains_hashes(hashes.slice(1, 1)).tolist() == [True]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (lambda: pa.array([1, 2]), "insert_hashes"),
        (lambda: pa.array([1.5]), "type Float64"),
        (lambda: pa.array([1.5, 2]).dictionary_encode(), "type Float64"),
        (lambda: pa.array([["a"]]), "type List"),
        (lambda: pa.table({"a": ["x"]}), "one of its columns"),
    ],
)
def test_other_columns(store, values, reason):
    with pytest.raises(TypeError, match=reason):
        store.insert_many(values())
    with pytest.raises(TypeError):
        store.insert_hashes(pa.array(["a"]))
    assert len(store) == 0


@pytest.mark.parametrize(
    "values",
    [
        lambda: numpy.array([]),
        lambda: pa.array([], pa.float64()),
        lambda: pa.chunked_array([pa.array([], pa.int64())] * 2),
        lambda: pandas.Series([], dtype="float64"),
    ],
)
def test_without_rows_any_type_will_do(store, values):
    """Libraries guess it from values: an empty batch of a stream comes as floats."""
    assert store.insert_many(values()).tolist() == []
    assert store.insert_hashes(values()).tolist() == []
    assert store.contains_many((values(), values())).tolist() == []
    with pytest.raises(TypeError, match="one of its columns"):
        store.insert_many(pa.table({"a": []}))


def test_objects_that_only_pretend(store):
    class Short:
        """Of rows that its length denies, none may be lost."""

        def __len__(self):
            return 0

        def __arrow_c_stream__(self, requested_schema=None):
            return pa.chunked_array([pa.array(["a"])]).__arrow_c_stream__()

    with pytest.raises(ValueError, match="its length is 0"):
        store.insert_many(Short())

    class Wrong:
        def __arrow_c_stream__(self, requested_schema=None):
            return "no capsule"

    with pytest.raises(TypeError):
        store.insert_many(Wrong())

    class Twice:
        capsules = pa.array(["a"]).__arrow_c_array__()

        def __arrow_c_array__(self, requested_schema=None):
            return self.capsules

    assert store.insert_many(Twice()).tolist() == [True]
    with pytest.raises(ValueError, match="read before"):
        store.insert_many(Twice())

    class Swapped:
        def __arrow_c_array__(self, requested_schema=None):
            return tuple(reversed(pa.array(["a"]).__arrow_c_array__()))

    with pytest.raises((TypeError, ValueError)):
        store.insert_many(Swapped())


def test_a_stream_that_fails(store):
    def batches():
        yield pa.record_batch({"a": ["x"]})
        raise RuntimeError("broken")

    class Column:
        """The column of a reader, as a stream of its own."""

        def __arrow_c_stream__(self, requested_schema=None):
            reader = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.string()}), batches())
            return reader.__arrow_c_stream__()

    with pytest.raises(TypeError, match="one of its columns"):
        store.insert_many(Column())


def test_damaged_offsets_are_refused(store):
    import struct

    def array(offsets):
        buffers = [None, pa.py_buffer(struct.pack(f"<{len(offsets)}i", *offsets)), pa.py_buffer(b"abcdef")]
        return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)

    assert store.insert_many(array([0, 2, 4, 6])).tolist() == [True] * 3
    for offsets in ([0, 4, 2, 6], [0, 8, 4, 6], [0, -2, 4, 6], [2, 1, 4, 6], [0, 2, 4, -6], [0, 2, -4, -2]):
        # Newer versions of pyarrow refuse negative ones themselves.
        with pytest.raises(ValueError, match="damaged|Negative"):
            store.insert_many(array(offsets))
    # An offset beyond the last one is noticed at its row, and not only where the next ones go back.
    with pytest.raises(ValueError, match="damaged") as raised:
        store.insert_many(array([0, 8, *[8] * 70_000, 6]))
    assert len(raised.value.partial) == 0


@pytest.mark.skipif(not hasattr(pa, "string_view"), reason="no views in this pyarrow")
def test_damaged_views_are_refused(store):
    import struct

    def array(*views):
        """Views of length, first four bytes, number of a buffer, and place in it."""
        packed = b"".join(struct.pack("<i4sii", length, b"abcd", number, place) for length, number, place in views)
        data = [pa.py_buffer(b"abcdefghijklmnop"), pa.py_buffer(b"abcdABCDEFGHIJ")]
        return pa.Array.from_buffers(pa.binary_view(), len(views), [None, pa.py_buffer(packed), *data])

    assert store.insert_many(array((16, 0, 0), (13, 0, 3), (14, 1, 0), (4, 0, 0))).all()
    assert store.contains_many([b"abcdefghijklmnop", b"defghijklmnop", b"abcdABCDEFGHIJ"]).all()
    count = len(store)
    for view in [(17, 0, 0), (13, 0, 4), (15, 1, 0), (13, 2, 0), (13, -1, 0), (13, 0, -1), (-1, 0, 0), (2**31 - 1, 0, 0)]:
        with pytest.raises(ValueError, match="damaged"):
            store.insert_many(array((16, 0, 0), view))
    assert len(store) == count


def test_memory_is_not_copied(store):
    import resource

    array = pa.array(["x" * 1000] * 200_000)
    store.contains_many(array)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(5):
        store.contains_many(array)
    # The strings are 200 MB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


def test_columns_are_released(store):
    before = pa.total_allocated_bytes()
    for _ in range(100):
        store.insert_many(pa.array(["a" * 1000] * 1000))
        store.insert_many(pa.chunked_array([["a" * 1000] * 1000] * 3))
        with pytest.raises(TypeError):
            store.insert_many(pa.array([1.5] * 1000))
    assert pa.total_allocated_bytes() - before < 100_000


def test_polars_and_pandas(store):
    keys = ["a", "b", "a"]
    pl = pytest.importorskip("polars")
    assert store.insert_many(pl.Series(keys)).tolist() == [True, True, False]
    frame = pl.DataFrame({"url": ["c", "d"]})
    assert store.insert_many(frame["url"]).tolist() == [True, True]
    with pytest.raises(TypeError, match="columns"):
        store.insert_many(frame)


def test_pandas(store):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"url": ["a", "b", "a"]})
    fresh = frame[store.insert_many(frame["url"])]
    assert fresh["url"].tolist() == ["a", "b"]


def test_everything_is_one_store(store):
    """The same keys, whatever brings them."""
    import numpy as np

    keys = ["a", "key longer than twelve bytes", "é"]
    assert store.insert_many(keys).all()
    forms = [column(keys, kind) for kind in TYPES]
    forms += [np.array([key.encode() for key in keys]), iter(keys), [key.encode() for key in keys]]
    for form in forms:
        assert not store.insert_many(form).any()
    assert isinstance(store, everseen.Store)
