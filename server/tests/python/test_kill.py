"""`kill -9` of the server, again and again, while four clients insert, claim, commit and remove.

`EVERSEEN_KILLS` is the number of kills, `EVERSEEN_SEED` the seed of all that is drawn.
"""

import os
import pathlib
import random
import subprocess
import sys
import threading
import time

import pytest
from conftest import Server
from resp import Closed, parsed
from truth import Truth, check

KILLS = int(os.environ.get("EVERSEEN_KILLS", "4"))
CLIENTS = 4
HERE = pathlib.Path(__file__).parent


def test_kills_lose_nothing_that_was_answered(folder, seed, told):
    draw, truth, restarts = random.Random(seed), Truth(), []
    for kill in range(KILLS + 1):
        begun = time.monotonic()
        with Server(folder / "stores", durable=draw.choice(["always", "second", "no"])) as server:
            # The claims of the killed are free again, and all stores answer.
            if kill == 0:
                server.ask("BF.RESERVE", "bloom", "1e-9", "100000")
                server.ask("BF.RESERVE", "removed", "1e-9", "100000")
                server.ask("CF.RESERVE", "cuckoo", "100000")
            server.ask("BF.EXISTS", "bloom", "x")
            restarts.append(time.monotonic() - begun)
            check(server, truth)
            if kill == KILLS:
                assert server.stop() == 0
                break
            answers = draw.randrange(1, 3000)
            logs = [folder / f"{kill}-{number}.log" for number in range(CLIENTS)]
            reading, writing = os.pipe()
            clients = [
                subprocess.Popen(
                    [sys.executable, HERE / "clients.py", server.address, str(number), f"{seed}-{kill}", log], stdout=writing
                )
                for number, log in enumerate(logs)
            ]
            os.close(writing)
            while answers > 0:
                read = os.read(reading, answers)
                assert read, f"seed {seed}: all clients have ended"
                answers -= len(read)
            server.kill()
            # They end with their connections; what they still say is read, so that none waits.
            while os.read(reading, 1 << 16):
                pass
            os.close(reading)
            for number, client in enumerate(clients):
                assert client.wait() == 0, f"seed {seed}"
                truth.take(logs[number], number)
    told(
        f"seed {seed}: {KILLS} kills, {truth.answers:,} answers, {len(truth.bloom) + len(truth.claims):,} items, "
        f"restart and first answer {max(restarts) * 1000:.0f} ms at most"
    )


@pytest.mark.parametrize("durable", ["always", "second", "no"])
def test_an_orderly_end_keeps_all(folder, durable):
    with Server(folder / "stores", durable=durable) as server:
        with server.wire() as wire:
            assert parsed(wire.ask("BF.MADD", "a", *(f"{item}" for item in range(1000)))).count(1) > 980
            assert parsed(wire.ask("EV.CLAIM", "b", "x", "y")) == ["new", "new"]
            wire.ask("EV.COMMIT", "b", "TAG", "here")
            assert parsed(wire.ask("EV.CLAIM", "b", "z")) == ["new"]
            assert server.stop() == 0
    with Server(folder / "stores", durable=durable) as server:
        assert server.ask("BF.CARD", "a") > 980
        assert server.ask("BF.MEXISTS", "b", "x", "y", "z") == [1, 1, 0]


def test_claims_of_a_connection_that_ends_are_free(server):
    with server.wire() as first, server.wire() as second:
        assert parsed(first.ask("EV.CLAIM", "k", "a", "b")) == ["new", "new"]
        assert parsed(first.ask("EV.CLAIM", "k", "a")) in (["new"], ["pending"], ["seen"])
        assert parsed(second.ask("EV.CLAIM", "k", "a", "c")) == ["pending", "new"]
        second.ask("EV.COMMIT", "k")
        first.close()
        # The server learns of the end when it reads; a claim is answered "pending" until then.
        while parsed(second.ask("EV.CLAIM", "k", "a")) == ["pending"]:
            pass
        second.ask("EV.COMMIT", "k")
        assert parsed(second.ask("EV.CLAIM", "k", "a", "b", "c")) == ["seen", "new", "seen"]


def comes_and_goes(server, seed, number, answers):
    """Makes, renames, removes and fills keys until the server is gone; a byte for each answer."""
    draw = random.Random(f"{seed}-{number}")
    keys = ["a", "b", "c", "d"]
    try:
        with server.wire() as wire:
            while True:
                key, other, item = draw.choice(keys), draw.choice(keys), str(draw.randrange(1000))
                commands = [["BF.ADD", key, item], ["BF.RESERVE", key, "0.001", "1000"], ["DEL", key], ["RENAME", key, other]]
                commands += [["PEXPIRE", key, str(draw.choice([1, 5, 100_000]))], ["CF.ADD", key, item], ["CF.DEL", key, item], ["PERSIST", key]]
                commands += [["EV.CLAIM", key, item], ["EV.COMMIT", key], ["BF.MADD", key, *map(str, range(50))], ["DBSIZE"]]
                commands += [["FLUSHALL"]] if draw.random() < 0.05 else []
                wire.ask(*draw.choice(commands))
                os.write(answers, b".")
    except (Closed, OSError):
        os.close(answers)


def test_kills_while_keys_come_and_go(folder, seed, told):
    """Whatever a kill interrupts, at the next start each key is there or not, and either way it can be used."""
    draw, begun = random.Random(seed), 0
    for _ in range(3 * KILLS):
        with Server(folder / "stores", "--max-open", str(draw.choice([2, 100]))) as server:
            pipes = [os.pipe() for _ in range(CLIENTS)]
            clients = [
                threading.Thread(target=comes_and_goes, args=(server, draw.random(), number, writing))
                for number, (_, writing) in enumerate(pipes)
            ]
            for client in clients:
                client.start()
            # Each client's answers are counted by its own pipe; the first has as many as were drawn, and all are gone.
            for _ in range(draw.randrange(1, 150)):
                assert os.read(pipes[0][0], 1) == b".", f"seed {seed}"
            server.kill()
            for client in clients:
                client.join()
            for reading, _ in pipes:
                os.close(reading)
        with Server(folder / "stores") as server, server.wire() as wire:
            begun += 1
            listed = parsed(wire.ask("KEYS", "*"))
            assert len(listed) == parsed(wire.ask("DBSIZE")), f"seed {seed}"
            for key in ["a", "b", "c", "d"]:
                kind = parsed(wire.ask("TYPE", key))
                assert kind in ("none", "MBbloom--", "MBbloomCF"), f"seed {seed}, {key}: {kind}"
                assert (kind != "none") == (key.encode() in listed), f"seed {seed}"
                command = "CF.ADD" if kind == "MBbloomCF" else "BF.ADD"
                added = parsed(wire.ask(command, key, f"after-{begun}"))
                assert added == 1, f"seed {seed}, {kind} {key}: {added}"
                if draw.random() < 0.3:
                    assert parsed(wire.ask("DEL", key)) == 1
                    assert parsed(wire.ask("BF.ADD", key, "again")) == 1
            strange = [entry.name for entry in server.folder.iterdir() if entry.name.split(".")[0] not in ("a", "b", "c", "d", "", "server")]
            assert not strange, f"seed {seed}: {strange}"
    told(f"seed {seed}: {begun} kills while keys came and went")
