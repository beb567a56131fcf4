"""SCANDUMP and LOADCHUNK: a store in pieces, of one moment, and what becomes of pieces that are none."""

import os
import zlib

import pytest
from conftest import Server
from resp import Refusal, parsed

ADD = {"BF": "BF.MADD", "CF": "CF.INSERT"}
DEBUG = {"BF": "BF.DEBUG", "CF": "CF.DEBUG"}
END = {"BF": [0, b""], "CF": [0, None]}


def add(wire, kind, key, items):
    words = ["ITEMS"] if kind == "CF" else []
    return parsed(wire.ask(ADD[kind], key, *words, *items))


def dump(wire, kind, key, cursor=0):
    """All pieces from a cursor on, each with the cursor behind it."""
    pieces = []
    while True:
        piece = parsed(wire.ask(f"{kind}.SCANDUMP", key, cursor))
        if not piece[0]:
            assert piece == END[kind]
            return pieces
        pieces.append(piece)
        cursor = piece[0]


def load(wire, kind, key, pieces):
    return [parsed(wire.ask(f"{kind}.LOADCHUNK", key, *piece)) for piece in pieces]


def on_the_way(folder):
    return [name for name in os.listdir(folder) if name.startswith(".")]


@pytest.fixture
def small(folder):
    """A server whose pieces are small, so that there are several."""
    with Server(folder / "stores", "--max-argument", "1", "--max-request", "1") as running:
        yield running


@pytest.mark.parametrize("kind", ["BF", "CF"])
def test_a_store_in_pieces_is_the_same_store(small, kind, seed):
    items = [f"item-{seed}-{number}" for number in range(300_000)]
    with small.wire() as wire:
        for start in range(0, len(items), 20_000):
            add(wire, kind, "k", items[start : start + 20_000])
        before = parsed(wire.ask(DEBUG[kind], "k"))
        pieces = dump(wire, kind, "k")
        assert pieces[0][0] == 1
        assert len(pieces) >= 3
        assert max(len(piece) for _, piece in pieces) <= 1 << 20
        # JavaScript knows no more.
        assert max(cursor for cursor, _ in pieces) < 1 << 53
        parsed(wire.ask("DEL", "k"))
        answers = load(wire, kind, "k", pieces[:-1])
        # Until all has come there is no such key.
        assert parsed(wire.ask("EXISTS", "k")) == 0
        assert answers + load(wire, kind, "k", pieces[-1:]) == ["OK"] * len(pieces)
        assert parsed(wire.ask(DEBUG[kind], "k")) == before
        for start in range(0, len(items), 20_000):
            found = parsed(wire.ask(f"{kind}.MEXISTS", "k", *items[start : start + 20_000]))
            assert all(found)
    assert on_the_way(small.folder) == []


def test_several_dumps_are_each_of_one_moment(small):
    """Two connections dump a key in turns while a third adds to it; a fourth goes on with the first's."""
    with small.wire() as one, small.wire() as two, small.wire() as adds, small.wire() as four:
        # So exact that none of the items is taken for another.
        assert parsed(adds.ask("BF.RESERVE", "k", "1e-9", 100_000)) == "OK"
        add(adds, "BF", "k", [f"early-{number}" for number in range(30_000)])
        header = parsed(one.ask("BF.SCANDUMP", "k", 0))
        first = parsed(one.ask("BF.SCANDUMP", "k", 1))
        add(adds, "BF", "k", [f"late-{number}" for number in range(30_000)])
        both = dump(two, "BF", "k")
        add(adds, "BF", "k", ["last"])
        early = [header, first, *dump(four, "BF", "k", first[0])]
        assert set(load(adds, "BF", "early", early)) == set(load(adds, "BF", "both", both)) == {"OK"}
        assert [parsed(adds.ask("BF.CARD", key)) for key in ("early", "both", "k")] == [30_000, 60_000, 60_001]


@pytest.mark.parametrize("kind", ["BF", "CF"])
def test_pieces_that_are_none(small, kind):
    bad = {"BF": "ERR received bad data", "CF": "Couldn't load chunk!"}[kind]
    misplaced = {"BF": "ERR invalid offset - no link found", "CF": "Couldn't load chunk!"}[kind]
    with small.wire() as wire:
        for start in range(0, 300_000, 20_000):
            add(wire, kind, "k", range(start, start + 20_000))
        pieces = dump(wire, kind, "k")
        header, body = pieces[0], pieces[1:]
        # In another order, or twice: the load goes on with the right one.
        assert load(wire, kind, "a", [header, body[1]]) == ["OK", misplaced]
        assert load(wire, kind, "a", [body[0], body[0]]) == ["OK", misplaced]
        assert load(wire, kind, "a", body[1:]) == ["OK"] * len(body[1:])
        # With a bit changed: only the end tells.
        changed = bytearray(body[-1][1])
        changed[len(changed) // 2] ^= 1
        answers = load(wire, kind, "b", [header, *body[:-1], [body[-1][0], bytes(changed)]])
        assert answers == ["OK"] * len(body) + [bad]
        assert load(wire, kind, "b", body[-1:]) == ["ERR not found"]
        # With a right sum around what is no store.
        forged = bytearray(header[1][:124])
        forged[16:24] = (3).to_bytes(8, "little")
        forged[24:28] = zlib.crc32(b"abc").to_bytes(4, "little")
        forged += zlib.crc32(forged).to_bytes(4, "little")
        assert load(wire, kind, "c", [[1, bytes(forged)], [4, b"abc"]]) == ["OK", bad]
        # Longer than the header says, and of the other kind.
        assert load(wire, kind, "c", [[1, bytes(forged)]]) == ["OK"]
        assert isinstance(load(wire, kind, "c", [[5, b"abcd"]])[0], Refusal)
        other = {"BF": "CF", "CF": "BF"}[kind]
        assert isinstance(load(wire, other, "d", [header])[0], Refusal)
        # A key that somebody made meanwhile stays as it is.
        load(wire, kind, "e", pieces[:-1])
        add(wire, kind, "e", ["mine"])
        assert isinstance(load(wire, kind, "e", pieces[-1:])[0], Refusal)
        assert parsed(wire.ask(f"{kind}.MEXISTS", "e", "mine", "1")) == [1, 0]
        assert parsed(wire.ask("EXISTS", "a", "b", "c", "d", "e")) == 2


def test_loads_and_dumps_are_few_and_leave_nothing(folder):
    with Server(folder / "stores") as server, server.wire() as wire:
        add(wire, "BF", "k", ["a"])
        pieces = dump(wire, "BF", "k")
        answers = [load(wire, "BF", f"load-{number}", pieces[:1])[0] for number in range(20)]
        assert answers[:16] == ["OK"] * 16
        assert set(answers[16:]) == {"ERR as many loads are under way as may be"}
        wires = [server.wire() for _ in range(20)]
        answers = [parsed(wire.ask("BF.SCANDUMP", "k", 0)) for wire in wires]
        assert isinstance(answers[15], list)
        assert isinstance(answers[16], Refusal)
        # One that begins anew has no more than one.
        assert all(isinstance(parsed(wires[0].ask("BF.SCANDUMP", "k", 0)), list) for _ in range(20))
        ended = parsed(wires[0].ask("BF.SCANDUMP", "k", (4000 << 40) + 1))
        assert isinstance(ended, Refusal)
        assert len(on_the_way(server.folder)) == 16
        # Another server on the folder leaves them alone, and one after a kill does not.
        with Server(folder / "stores"):
            assert len(on_the_way(server.folder)) == 16
        server.kill()
    with Server(folder / "stores") as server:
        assert on_the_way(server.folder) == []
        assert parsed(server.wire().ask("DBSIZE")) == 1
