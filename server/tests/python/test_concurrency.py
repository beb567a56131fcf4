"""Many clients on few keys at once: transactions are one step, keys that come and go break nobody, one waits for no other."""

import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import Server
from resp import Refusal, packed, parsed
from test_dumps import dump, load
from test_hostile import in_threads

ROUNDS = int(os.environ.get("EVERSEEN_ROUNDS", "200"))

# What a command may be told while others rename and delete its key.
EXPECTED = ("ERR not found", "Not found", "ERR no such key", "WRONGTYPE ", "ERR item exists", "Cuckoo filter was not found", "Filter is full")
EXPECTED += ("Maximum expansions reached", "ERR non scaling filter is full", "ERR the key was removed or renamed meanwhile")
# What another connection has claimed can be removed once it is decided.
WAITS = "waited too long for the commit"


def test_a_transaction_is_one_step(server):
    """Between the first and the last command of EXEC, nobody else adds anything."""
    server.ask("BF.RESERVE", "k", "1e-9", "1000000")
    counted = []

    def adds(number):
        with server.wire() as wire:
            for step in range(ROUNDS):
                wire.ask("BF.MADD", "k", *(f"{number}-{step}-{item}" for item in range(10)))

    def transacts(number):
        with server.wire() as wire:
            for step in range(ROUNDS):
                commands = [["MULTI"], ["BF.CARD", "k"], ["BF.MADD", "k", *(f"t{number}-{step}-{item}" for item in range(5))]]
                commands += [["BF.CARD", "k"], ["EXEC"]]
                wire.send(b"".join(packed(*command) for command in commands))
                answers = [parsed(wire.answer()) for _ in commands]
                before, added, after = answers[-1]
                counted.append((before, sum(added), after))

    in_threads(4, lambda number: (adds if number % 2 else transacts)(number))
    wrong = [step for step in counted if step[0] + step[1] != step[2]]
    assert not wrong, f"{len(wrong)} of {len(counted)}: {wrong[:3]}"


def test_watch_lets_one_of_many_through(server):
    """A counter by optimistic transactions: each client adds the next item only if nobody has changed the key since it looked."""
    server.ask("BF.RESERVE", "k", "1e-9", "100000")

    def client(_):
        with server.wire() as wire:
            done = 0
            while done < ROUNDS // 4:
                wire.ask("WATCH", "k")
                count = parsed(wire.ask("BF.CARD", "k"))
                wire.ask("MULTI")
                wire.ask("BF.ADD", "k", f"item-{count}")
                answer = parsed(wire.ask("EXEC"))
                if answer is not None:
                    assert answer == [1], "two saw the same count"
                    done += 1

    in_threads(4, client)
    assert server.ask("BF.CARD", "k") == 4 * (ROUNDS // 4)


def test_keys_come_and_go_under_everybody(server, seed):
    """Random commands on few keys by eight clients: whatever is answered, it is one of the answers that a client expects."""
    unexpected = []

    def client(number):
        draw = random.Random(f"{seed}-{number}")
        keys = ["a", "b", "c", "d"]
        with server.wire() as wire:
            for _ in range(ROUNDS):
                key, other, item = draw.choice(keys), draw.choice(keys), f"{draw.randrange(1000)}"
                command = draw.choice(
                    [
                        *[["BF.ADD", key, item], ["BF.MADD", key, item, "x"], ["BF.EXISTS", key, item], ["BF.INFO", key]],
                        *[["CF.ADD", "c" + key, item], ["CF.DEL", "c" + key, item], ["CF.COUNT", "c" + key, item], ["CF.INFO", "c" + key]],
                        *[["EV.CLAIM", "e" + key, item], ["EV.COMMIT", "e" + key], ["EV.REMOVE", "e" + key, item]],
                        *[["DEL", draw.choice(["", "c", "e"]) + key], ["RENAME", key, other], ["RENAME", "e" + key, "e" + other]],
                        *[["EXPIRE", key, "100"], ["PEXPIRE", key, "1"], ["PERSIST", key], ["TTL", key], ["TYPE", key], ["SCAN", "0"]],
                        *[["BF.RESERVE", key, "0.01", "100"], ["DBSIZE"], ["BF.CARD", key], ["EXISTS", key, "c" + key], ["KEYS", "*"]],
                        *([["FLUSHALL"]] if draw.random() < 0.1 else []),
                    ]
                )
                answer = parsed(wire.ask(*command))
                if isinstance(answer, Refusal) and not answer.startswith(EXPECTED) and WAITS not in answer:
                    unexpected.append((command, answer))

    in_threads(8, client)
    assert server.process.poll() is None
    kinds = {}
    for command, answer in unexpected:
        kinds.setdefault((command[0], str(answer)[:120]), []).append(command)
    assert not unexpected, f"seed {seed}: " + "\n".join(f"{len(found)} × {name}: {answer}" for (name, answer), found in kinds.items())
    assert server.ask("FLUSHALL") == "OK"
    assert server.ask("DBSIZE") == 0
    assert not [entry.name for entry in server.folder.iterdir() if ".ever" in entry.name]


def test_more_keys_than_may_be_open(folder, told):
    with Server(folder / "stores", "--max-open", "8") as server, server.wire() as wire:
        for number in range(100):
            assert parsed(wire.ask("BF.ADD", f"k{number}", "a")) == 1
        for number in range(100):
            assert parsed(wire.ask("BF.MEXISTS", f"k{number}", "a", "b")) == [1, 0]
        assert parsed(wire.ask("DBSIZE")) == 100
        # Keys with claims under way stay open, however many they are.
        for number in range(20):
            assert parsed(wire.ask("EV.CLAIM", f"e{number}", "a")) == ["new"]
        for number in range(20):
            assert isinstance(parsed(wire.ask("EV.COMMIT", f"e{number}")), int)
            assert parsed(wire.ask("BF.EXISTS", f"e{number}", "a")) == 1
        told(f"100 keys of which 8 may be open: {len(os.listdir(f'/proc/{server.process.pid}/fd'))} files open")


def test_a_rename_takes_claims_along_or_says_so(server):
    """A connection's claims on a key that another renames: committed under the new name, refused, or given back; never both."""
    with server.wire() as claims, server.wire() as renames:
        assert parsed(claims.ask("EV.CLAIM", "old", "a")) == ["new"]
        renamed = parsed(renames.ask("RENAME", "old", "new"))
        committed = parsed(claims.ask("EV.COMMIT", "old"))
        there = parsed(renames.ask("BF.EXISTS", "new" if renamed == "OK" else "old", "a"))
        assert (there == 1) == (not isinstance(committed, Refusal)), (renamed, committed, there)


def test_a_deleted_key_takes_its_claims_with_it(server):
    with server.wire() as claims, server.wire() as deletes:
        assert parsed(claims.ask("EV.CLAIM", "k", "a")) == ["new"]
        deleted = parsed(deletes.ask("DEL", "k"))
        committed = parsed(claims.ask("EV.COMMIT", "k"))
        if deleted == 1:
            assert isinstance(committed, Refusal) or parsed(deletes.ask("BF.EXISTS", "k", "a")) == 0, committed
            assert parsed(claims.ask("EV.CLAIM", "k", "a")) == ["new"]


@pytest.mark.parametrize("durable", ["always", "no"])
def test_others_go_on_beside_large_commands(folder, durable, told):
    """Two clients add batches of 100,000 items all the time; a third's small commands are all answered meanwhile."""
    with Server(folder / "stores", durable=durable) as server:
        server.ask("BF.RESERVE", "large", "1e-6", "10000000")
        ended, small = threading.Event(), [0]

        def large(number):
            try:
                with server.wire() as wire:
                    for step in range(5):
                        items = (f"{number}-{step}-{item}" for item in range(100_000))
                        answer = parsed(wire.ask("BF.MADD", "large", *items))
                        assert len(answer) == 100_000 and sum(answer) > 99_990
            finally:
                ended.set()

        def others(_):
            with server.wire() as wire:
                while not ended.is_set():
                    assert parsed(wire.ask("BF.ADD", "small", str(small[0]))) in (0, 1)
                    small[0] += 1

        in_threads(3, lambda number: (others if number == 2 else large)(number))
        assert small[0] > 0
        told(f"beside 10 MADDs of 100,000 items, durable {durable}: {small[0]:,} single ADDs of another")


def test_expiry_outlives_kills(folder):
    with Server(folder / "stores") as server:
        server.ask("BF.ADD", "kept", "a")
        server.ask("BF.ADD", "due", "a")
        server.ask("BF.ADD", "gone", "a")
        assert server.ask("EXPIREAT", "kept", "33177117420") == 1
        assert server.ask("EXPIREAT", "due", "33177117421") == 1
        assert server.ask("PEXPIRE", "gone", "1") == 1
        server.kill()
    with Server(folder / "stores") as server:
        assert server.ask("EXPIRETIME", "kept") == 33177117420
        assert server.ask("EXPIRETIME", "due") == 33177117421
        assert server.ask("PERSIST", "due") == 1
        server.kill()
    with Server(folder / "stores") as server:
        assert server.ask("TTL", "due") == -1
        # Its millisecond is over by now: starting a server takes longer.
        assert server.ask("EXISTS", "gone") == 0
        assert server.ask("BF.ADD", "gone", "a") == 1
        assert server.ask("TTL", "gone") == -1


def test_many_who_meet_an_expired_key_lose_nothing(folder):
    """One of them removes it, and the others what is theirs is not: a store that was made since stays."""
    with Server(folder / "stores", durable="always") as server, ThreadPoolExecutor(16) as pool:
        wires = [server.wire() for _ in range(16)]
        for number in range(30):
            assert server.ask("BF.ADD", "k", "first") == 1
            assert server.ask("PEXPIRE", "k", "1") == 1
            time.sleep(0.002)
            items = [f"{number} {client}" for client in range(len(wires))]
            added = pool.map(lambda pair: parsed(pair[0].ask("BF.ADD", "k", pair[1])), zip(wires, items, strict=True))
            assert list(added) == [1] * len(items)
            assert server.ask("BF.MEXISTS", "k", *items, "first") == [1] * len(items) + [0]
            assert server.ask("DEL", "k") == 1
        for wire in wires:
            wire.close()


def test_a_loaded_store_has_no_date(folder):
    with Server(folder / "stores") as server, server.wire() as wire:
        assert server.ask("BF.ADD", "a", "x") == 1
        pieces = dump(wire, "BF", "a")
        assert server.ask("EXPIRE", "a", "600") == 1
        # It closes all stores.
        assert server.ask("DEBUG", "RELOAD") == "OK"
        for file in (folder / "stores").glob("a.ever*"):
            file.unlink()
        assert set(load(wire, "BF", "a", pieces)) == {"OK"}
        assert server.ask("TTL", "a") == -1


@pytest.mark.parametrize("while_running", [False, True])
def test_a_date_is_its_stores_alone(folder, while_running):
    """A store that goes by other hands, or half by a kill, leaves no date behind that would remove the next of its name."""
    with Server(folder / "stores") as server:
        server.ask("BF.ADD", "k", "a")
        assert server.ask("EXPIRE", "k", "100") == 1
        if not while_running:
            assert server.stop() == 0
        for file in (folder / "stores").glob("k.ever*"):
            file.unlink()
        if while_running:
            # The handle notices within its next commits; then the key is anew.
            server.ask("DEL", "k")
            assert server.ask("BF.ADD", "k", "b") == 1
            assert server.ask("TTL", "k") == -1
    with Server(folder / "stores") as server:
        assert server.ask("BF.ADD", "k", "c") == 1
        assert server.ask("TTL", "k") == -1
