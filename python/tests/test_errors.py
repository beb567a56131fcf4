"""Each of the library's errors has its class."""

import errno
import inspect
import os
import pathlib
import pickle
import re

import numpy
import pytest

import everseen
from everseen import errors

LIBRARY = pathlib.Path(__file__).parents[2] / "src" / "error.rs"


def test_every_variant_has_a_class():
    text = LIBRARY.read_text()
    body = text[text.index("pub enum Error {") :]
    body = body[: body.index("\n}\n")]
    variants = re.findall(r"^    ([A-Z]\w+)(?: \{|\(|,)", body, re.M)
    assert len(variants) > 40
    for variant in variants:
        kind = getattr(errors, f"{variant}Error")
        assert issubclass(kind, everseen.EverseenError)
        assert kind.__doc__


def test_those_with_a_number_are_os_errors():
    for _, kind in inspect.getmembers(errors, inspect.isclass):
        assert hasattr(kind, "number") == (issubclass(kind, OSError))


def test_a_missing_store():
    with pytest.raises(FileNotFoundError) as raised:
        everseen.open("missing.ever", mode="r+")
    error = raised.value
    assert type(error) is errors.NotFoundError
    assert error.errno == errno.ENOENT
    assert error.filename == os.path.abspath("missing.ever")
    assert str(error) == f"{error.filename}: no such store; `mode=\"a\"` creates one"


def test_what_is_no_store():
    with open("text", "w") as file:
        file.write("no store" * 1000)
    with pytest.raises(errors.FormatError) as raised:
        everseen.open("text")
    assert raised.value.filename == os.path.abspath("text")
    os.mkdir("folder")
    with pytest.raises(IsADirectoryError):
        everseen.open("folder")
    with pytest.raises(errors.MissingFolderError):
        everseen.open("missing/store.ever")


def test_locked_by_an_exclusive_handle():
    with everseen.open("a.ever", exclusive=True), pytest.raises(errors.LockedError):
        everseen.open("a.ever", timeout=0.0)


SEED = bytes(range(32))


@pytest.mark.parametrize("form", ["many", "hashes", "hashed"])
def test_a_full_store_carries_its_answers(form):
    """It is full in the middle of the second piece of the batch."""
    keys = [f"key {n}" for n in range(80_000)]
    hashed = everseen.Hasher("xxh3", SEED).hash_many(keys)
    given = {"many": keys, "hashes": numpy.arange(80_000), "hashed": hashed}[form]
    with everseen.open("a.ever", 70_000, hash="xxh3", seed=SEED) as store:
        with pytest.raises(errors.FullError) as raised:
            getattr(store, f"insert_{form}")(given)
        assert raised.value.capacity == 70_000
        done = len(raised.value.partial)
        assert done >= 70_000
        assert raised.value.partial.sum() == 70_000
        found = getattr(store, f"contains_{form}")(given)
        assert found[:done].all()
        assert not found[done:].any()


def test_a_transaction_has_a_quota():
    with everseen.open("a.ever", transactional=True, buffer=128 << 10) as store:
        quota = store.transaction_quota
        keys = [f"key {n}" for n in range(quota + 1000)]
        with pytest.raises(errors.TransactionTooLargeError) as raised:
            store.insert_many(keys)
        assert raised.value.quota == quota
        done = len(raised.value.partial)
        assert 0 < done < len(keys)
        store.commit()
        assert store.insert_many(keys[done:]).sum() >= 999


@pytest.mark.parametrize("options", [{"capacity": 1000}, {"kind": "scalable"}])
def test_stores_of_bits_do_not_remove(folder, options):
    with everseen.open("a.ever", **options) as store:
        with pytest.raises(errors.WrongKindError):
            store.remove("key")
        with pytest.raises(errors.WrongKindError):
            store.remove_many(["key"])


def test_values_that_are_wrong():
    with everseen.open("a.ever") as store, pytest.raises(errors.TagTooLargeError):
        store.commit(bytes(4097))
    with pytest.raises(errors.InvalidOptionError) as raised:
        everseen.open("b.ever", buffer=1)
    assert raised.value.option == "buffer"
    with pytest.raises(errors.SizingError):
        everseen.open("b.ever", 10, 3.0)
    with pytest.raises(errors.UrlError):
        everseen.Normalizer()("no url")


def test_errors_can_be_pickled():
    with pytest.raises(errors.NotFoundError) as raised:
        everseen.open("missing.ever", mode="r")
    again = pickle.loads(pickle.dumps(raised.value))
    assert (type(again), str(again)) == (errors.NotFoundError, str(raised.value))
    assert (again.errno, again.filename) == (raised.value.errno, raised.value.filename)


def test_messages_advise_in_pythons_words(folder):
    with pytest.raises(errors.NotFoundError) as raised:
        everseen.open("none.ever", mode="r")
    assert str(raised.value) == f'{folder / "none.ever"}: no such store; `mode="a"` creates one'
    with everseen.open("bloom.ever", 100) as store, pytest.raises(errors.WrongKindError) as raised:
        store.remove("key")
    assert str(raised.value).endswith("only a store of kind counting or fingerprint can remove keys")


def test_no_message_of_the_library_is_left_in_the_words_of_the_command():
    source = pathlib.Path(__file__).parents[2] / "src"
    texts = [path.read_text() for path in source.rglob("*.rs") if "error" in path.name or path.name == "mismatch.rs"]
    messages = re.findall(r'#\[error\(\s*"((?:[^"\\]|\\.)*)"', "".join(texts))
    assert len(messages) > 80
    for message in messages:
        said = errors._in_python(message)
        found = re.findall(r"`(?:everseen |create|checkpoint|snapshot|verify|repair|[^`]*--)[^`]*`|the option", said)
        assert not found, said
