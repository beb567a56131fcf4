"""The stand-in for datatrove's Bloom filter."""

import json
import os
import pathlib
import pickle
import random
import shutil

import pytest

pytest.importorskip("datatrove", reason="datatrove is not installed")
pytest.importorskip("regex", reason="regex is not installed, which datatrove wants")

import daily
import datatrove_days
from datatrove.data import Document
from datatrove.utils.hashing import HashConfig
from datatrove.pipeline.dedup import bloom_filter as theirs
from datatrove_days import CONFIG, Words

from everseen import errors
from everseen.datatrove import Remember, SingleBloomFilter
from everseen.seenset import SeenSet

# datatrove leaves files of its logs open.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def letters(number):
    """A word for a number: datatrove takes all digits for one."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def text(*numbers):
    """A text of paragraphs, each of 20 words of its own."""
    return " ".join(letters(f"{number:010}{word}") for number in numbers for word in range(20))


def filter_of(**options):
    config = theirs.BloomFilterConfig(m_bytes=1, k=1, n_grams=5, duplicate_threshold=0.5)
    return SingleBloomFilter(new(), config, language=Words(), **options)


def new():
    # fsspec keeps what a relative path was, also where the current folder is another one by now.
    return os.path.abspath("new")


def kept(step, texts, rank=0, world_size=1):
    docs = (Document(text=each, id=str(place)) for place, each in enumerate(texts))
    return [int(doc.id) for doc in step.run(docs, rank, world_size)]


def check(seed, done):
    """Each day that is published was written exactly, and the others are not remembered."""
    expected = daily.exact(seed)
    published = len(SeenSet("set").epochs) if pathlib.Path("set/manifests").exists() else 0
    for day in range(published):
        lines = pathlib.Path(f"out/{day}/0.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines] == expected[day], f"seed {seed}, day {day}"
    assert not done or published == daily.DAYS


def test_days_equal_an_exact_set_through_kills(folder, seed):
    daily.survives("datatrove_days", seed, lambda done: check(seed, done), ("set", "new", "out", "logs"))


def test_documents_with_enough_new_text_stay(folder):
    texts = [text(1, 2), text(1, 2), text(1, 3, 4), text(1, 2, 3), "", text(5) + " " + text(5)]
    step = filter_of()
    assert kept(step, texts) == [0, 2, 4, 5]
    # Each task begins with nothing.
    assert kept(step, texts) == [0, 2, 4, 5]
    assert step.stats["dropped"].total == 4
    # And `step` alone goes on from the last.
    one = filter_of()
    assert [one.step(Document(text=each, id="")) for each in texts] == [True, False, True, False, True, True]
    assert kept(pickle.loads(pickle.dumps(one)), texts) == [0, 2, 4, 5]


def test_where_theirs_uses_two_bits(folder):
    rng = random.Random(1)
    texts = [text(*(rng.randrange(10**9) for _ in range(5))) for _ in range(50)]
    config = theirs.BloomFilterConfig(m_bytes=2**16, k=1, n_grams=5, hash_config=HashConfig(32, "sha1"))
    broken = theirs.SingleBloomFilter(os.path.abspath("bits"), config, language=Words())
    assert sum(broken.step(Document(text=each, id="")) for each in texts) < 5
    ours = SingleBloomFilter(new(), config, language=Words())
    assert all(ours.step(Document(text=each, id="")) for each in texts)


def test_an_epoch_decides_again_as_before(folder):
    """Before and after it is remembered; what comes later does not."""
    day = {"seen": "set", "epoch": "one"}
    texts = [text(1), text(2), text(1)]
    assert kept(filter_of(**day), texts) == [0, 1]
    assert kept(filter_of(**day), texts) == [0, 1]
    remember = Remember(new(), **day)
    assert list(remember.run(["passed on"])) == ["passed on"]
    assert kept(filter_of(**day), texts) == [0, 1]
    list(remember.run(None))
    assert kept(filter_of(seen="set", epoch="two"), [text(2), text(3)]) == [1]
    SeenSet("set").vacuum(keep=1)
    with pytest.raises(errors.VacuumedError):
        kept(filter_of(**day), texts)


def test_what_is_not_complete_is_not_remembered(folder):
    day = {"seen": "set", "epoch": "one"}
    kept(filter_of(**day), [text(1)], 0, 2)
    with pytest.raises(errors.NotCommittedError, match="task 1 of 2"):
        list(Remember(new(), tasks=2, **day).run(None))
    kept(filter_of(**day), [text(2)], 1, 2)
    path = pathlib.Path("new/shingles/00001-of-00002")
    whole = path.read_bytes()
    body = whole.index(b"\n") + 1
    # Also as a power failure leaves it: as long as it was, without some of its bytes.
    zeroed = whole[:-8] + bytes(8)
    for broken in (b"", whole[:7], whole[:body], whole[:-1], whole + b"\0", whole + bytes(8), zeroed, bytes(len(whole))):
        path.write_bytes(broken)
        with pytest.raises(errors.NotCommittedError):
            list(Remember(new(), tasks=2, **day).run(None))
    path.write_bytes(whole)
    list(Remember(new(), tasks=2, **day).run(None))
    assert kept(filter_of(seen="set", epoch="two"), [text(1), text(2), text(3)]) == [2]


def test_what_another_epoch_or_set_has_left_is_not_remembered(folder):
    kept(filter_of(seen="set", epoch="one"), [text(1)])
    with pytest.raises(errors.SetMismatchError, match="epoch 'one'") as raised:
        list(Remember(new(), seen="set", epoch="two").run(None))
    assert raised.value.field == "epoch"
    SeenSet("other", fpr=1e-6)
    with pytest.raises(errors.SetMismatchError) as raised:
        list(Remember(new(), seen="other", epoch="one").run(None))
    assert raised.value.field == "set"
    with pytest.raises(errors.NotFoundError, match="no seen set"):
        list(Remember(new(), seen="missing", epoch="one").run(None))
    assert not os.path.exists("missing")
    assert SeenSet("set").epochs == SeenSet("other").epochs == []


@pytest.mark.parametrize("root", ["set", "memory://datatrove-rates/set"])
def test_a_set_keeps_its_rate(folder, root):
    SeenSet(root, shards=2, fpr=1e-9)
    day = {"seen": root, "epoch": "one"}
    assert kept(filter_of(**day), [text(1), text(1)]) == [0]
    if "://" not in root:
        list(Remember(new(), **day).run(None))
    assert SeenSet(root).settings.fpr == 1e-9


def test_what_it_refuses(folder):
    with pytest.raises(NotImplementedError, match="seen"):
        filter_of(save_bloom_filter=True)
    for half in ({"seen": "set"}, {"epoch": "one"}):
        with pytest.raises(ValueError, match="together"):
            filter_of(**half)
    with pytest.raises(errors.SetMismatchError):
        SeenSet("set", fpr=1e-9)
        kept(filter_of(seen="set", epoch="one", fpr=1e-6), [text(1)])
    shutil.rmtree("set")


def test_a_task_that_fails_leaves_nothing(folder, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    step = filter_of(seen="set", epoch="one")

    def docs():
        yield Document(text=text(1), id="0")
        assert os.listdir("scratch")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(step.run(docs()))
    assert os.listdir("scratch") == []
    assert not pathlib.Path("new/shingles").exists()


def test_what_was_decided_beside_another_epoch_is_not_remembered(folder):
    """Both would have kept what they have in common."""
    texts = [text(1), text(2)]
    steps = {name: filter_of(seen="set", epoch=name) for name in ("mon", "tue")}
    assert kept(steps["mon"], texts) == [0, 1]
    shutil.copytree("new", "new-mon")
    assert kept(steps["tue"], texts) == [0, 1]
    list(Remember(os.path.abspath("new-mon"), seen="set", epoch="mon").run(None))
    remember = Remember(new(), seen="set", epoch="tue")
    with pytest.raises(errors.SetMismatchError, match="base") as raised:
        list(remember.run(None))
    assert raised.value.field == "base"
    assert kept(steps["tue"], texts) == []
    list(remember.run(None))
    assert SeenSet("set").epochs == ["mon", "tue"]
