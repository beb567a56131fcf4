"""Keys that are hashed in one place and looked up in another."""

import pickle
import random

import numpy
import pytest

import everseen
from everseen import errors
from everseen._everseen import Distinct

SEED = bytes(range(32))


@pytest.mark.parametrize("algorithm", ["highway", "xxh3", "murmur3"])
def test_a_hasher_is_the_stores_own(folder, algorithm):
    keys = [f"key {n}".encode() for n in range(5000)]
    hashed = everseen.Hasher(algorithm, SEED).hash_many(keys)
    assert (hashed.dtype, len(set(hashed.tolist()))) == (numpy.uint64, 5000)
    with everseen.open("a.ever", hash=algorithm, seed=SEED) as store:
        store.insert_many(keys[:2500])
        assert store.contains_hashed(hashed).tolist() == [True] * 2500 + [False] * 2500
        assert store.insert_hashed(hashed[2000:3000]).tolist() == [False] * 500 + [True] * 500
        assert store.contains_many(keys).tolist() == [True] * 3000 + [False] * 2000
    # Hashes that the caller brings are other ones.
    with everseen.open("b.ever", hash=algorithm, seed=SEED) as store:
        store.insert_hashes(hashed)
        assert store.contains_hashed(hashed).sum() < 5


def test_the_vectors_of_the_format():
    hasher = everseen.Hasher("highway", SEED)
    assert [hex(hash) for hash in hasher.hash_many(["", "a"]).tolist()] == ["0x907a56de22c26e53", "0x89f8e0c37e45b0b0"]
    assert everseen.Hasher.shards(hasher.hash_many([]), 3).tolist() == []


def test_a_hasher_is_pickled():
    hasher = pickle.loads(pickle.dumps(everseen.Hasher("xxh3", SEED)))
    assert hasher.hash_many(["a"]).tolist() == everseen.Hasher("xxh3", SEED).hash_many(["a"]).tolist()


def test_shards_are_alike_and_divide():
    hashes = everseen.Hasher("highway", SEED).hash_many([str(n) for n in range(64_000)])
    few, many = everseen.Hasher.shards(hashes, 8), everseen.Hasher.shards(hashes, 24)
    assert (many // 3 == few).all()
    # 8000 are expected, with a standard deviation of 84.
    assert abs(numpy.bincount(few, minlength=8).astype(int) - 8000).max() < 500
    # Arrow has signed integers, and means the same.
    pyarrow = pytest.importorskip("pyarrow")
    assert (everseen.Hasher.shards(pyarrow.array(hashes.view(numpy.int64)), 8) == few).all()
    with pytest.raises(ValueError, match="one shard"):
        everseen.Hasher.shards(hashes, 0)


def test_what_is_no_key_has_no_hash():
    hasher = everseen.Hasher("highway", SEED)
    with pytest.raises(errors.NullKeyError):
        hasher.hash_many(["a", None])
    with pytest.raises(TypeError):
        hasher.hash_many(numpy.arange(3))
    with pytest.raises(ValueError, match="32 bytes"):
        everseen.Hasher("highway", b"short")
    with pytest.raises(ValueError, match="sha1"):
        everseen.Hasher("sha1", SEED)


def test_distinct_pairs_are_exact():
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    known, pairs = set(), Distinct()
    for _ in range(20):
        # Few values, so that one hash of two is often equal by chance.
        first = [rng.randrange(30) for _ in range(200)]
        second = [rng.randrange(30) for _ in range(200)]
        expected = []
        for pair in zip(first, second, strict=True):
            expected.append(pair not in known)
            known.add(pair)
        assert pairs.insert_many(first, second).tolist() == expected, f"seed {seed}"
    assert len(pairs) == len(known)
    with pytest.raises(ValueError, match="pair"):
        pairs.insert_many([1], [])
