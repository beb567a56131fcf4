"""`kill -9` of the server, again and again, while four clients insert, claim, commit and remove.

`EVERSEEN_KILLS` is the number of kills, `EVERSEEN_SEED` the seed of all that is drawn.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import threading
import time

import pytest
from conftest import Server
from resp import Closed, packed, parsed

KILLS = int(os.environ.get("EVERSEEN_KILLS", "4"))
CLIENTS = 4
HERE = pathlib.Path(__file__).parent


class Truth:
    """What the answers so far oblige the server to, item by item."""

    def __init__(self):
        # Of "bloom" and "removed": items that are certainly in; winners of each, and asks without an answer.
        self.bloom, self.winners, self.unsure = set(), {}, {}
        self.removed_in, self.removed_out, self.removed_unsure = set(), set(), set()
        # Of "cuckoo": the least and the most copies.
        self.least, self.most = {}, {}
        # Of "claims": in, out by a commit, perhaps.
        self.claims, self.claims_out, self.claims_unsure = set(), set(), set()
        self.claim_winners = {}
        self.last = {}
        self.unsure_commits = []
        self.answers = 0

    def take(self, log, client):
        """Reads the notes of a client whose connection has ended."""
        pending, batch = {}, []
        lines = [json.loads(line) for line in pathlib.Path(log).read_text().splitlines()]
        assert lines and lines[-1] == ["ends"], log
        waiting = []
        for kind, *rest in lines:
            if kind == "asks":
                assert not waiting
                waiting = list(rest)
            elif kind == "told":
                self.answers += 1
                self.answered(waiting.pop(0), rest[0], client, pending, batch)
        for command in waiting:
            self.unanswered(command, client, pending, batch)
        # What was claimed and never asked to be committed is given back.

    def answered(self, command, answer, client, pending, batch):
        name, key, *items = command
        match name, key:
            case ("BF.ADD" | "BF.MADD"), "bloom":
                for item, new in zip(items, answer if isinstance(answer, list) else [answer], strict=True):
                    self.bloom.add(item)
                    if new:
                        self.winners[item] = self.winners.get(item, 0) + 1
            case "BF.MADD", "removed":
                self.removed_in.update(items)
            case "EV.REMOVE", "removed":
                assert answer == [1] * len(items), command
                self.removed_in.difference_update(items)
                self.removed_out.update(items)
            case "CF.INSERT", _:
                assert answer == [1] * len(answer)
                for item in items[1:]:
                    self.least[item] = self.least.get(item, 0) + 1
                    self.most[item] = self.most.get(item, 0) + 1
            case "CF.DEL", _:
                assert answer == 1, command
                self.least[items[0]] -= 1
                self.most[items[0]] -= 1
            case "EV.CLAIM", _:
                for item, verdict in zip(items, answer, strict=True):
                    assert verdict in ("new", "seen", "pending"), answer
                    if verdict == "new":
                        pending[item] = "in"
                    elif verdict == "seen" and item not in self.claims and item not in pending:
                        # Another's commit whose answer the kill took, or that is noted in a log read later.
                        pass
            case "EV.REMOVE", "claims":
                for item, gone in zip(items, answer, strict=True):
                    if gone:
                        pending[item] = "out"
            case "EV.COMMIT", _:
                self.commit(pending, client, answer, items[1] if items else "")
                pending.clear()

    def commit(self, pending, client, sequence, tag):
        for item, way in pending.items():
            if way == "in":
                self.claims.add(item)
                self.claims_out.discard(item)
                if item.startswith("shared"):
                    self.claim_winners[item] = self.claim_winners.get(item, 0) + 1
            else:
                self.claims.discard(item)
                self.claims_out.add(item)
        sequences = self.last.setdefault(client, {})
        sequences[sequence] = tag

    def unanswered(self, command, client, pending, batch):
        name, key, *items = command
        match name, key:
            case ("BF.ADD" | "BF.MADD"), "bloom":
                for item in items:
                    self.unsure[item] = self.unsure.get(item, 0) + 1
            case "BF.MADD", "removed":
                self.removed_unsure.update(items)
            case "EV.REMOVE", "removed":
                self.removed_in.difference_update(items)
                self.removed_unsure.update(items)
            case "CF.INSERT", _:
                for item in items[1:]:
                    self.least.setdefault(item, 0)
                    self.most[item] = self.most.get(item, 0) + 1
            case "CF.DEL", _:
                self.least[items[0]] -= 1
            case "EV.CLAIM", "claims":
                # Which of them were new is unknown; a commit in the same go may have made them count.
                batch.extend((item, "in") for item in items)
            case "EV.REMOVE", "claims":
                batch.extend((item, "out") for item in items)
            case "EV.COMMIT", _:
                self.unsure_commits.append((client, [*pending.items()], [*batch]))
                self.claims_unsure.update(item for item, _ in [*pending.items(), *batch])


def ask_all(wire, name, key, items):
    """One answer for each item, by commands of a thousand."""
    found = []
    for start in range(0, len(items), 1000):
        found += parsed(wire.ask(name, key, *items[start : start + 1000]))
    return dict(zip(items, found, strict=True))


def check(server, truth, seed):
    with server.wire() as wire:
        bloom = ask_all(wire, "BF.MEXISTS", "bloom", sorted(truth.bloom))
        assert all(bloom.values()), f"lost: {[item for item, there in bloom.items() if not there][:5]}"
        for item, winners in truth.winners.items():
            assert winners == 1, f"{winners} were told that {item} is new"
        for item in truth.bloom:
            assert truth.winners.get(item, 0) or truth.unsure.get(item, 0), f"nobody was told that {item} is new"
        kept = ask_all(wire, "BF.MEXISTS", "removed", sorted(truth.removed_in - truth.removed_unsure))
        assert all(kept.values()), f"lost: {[item for item, there in kept.items() if not there][:5]}"
        gone = ask_all(wire, "BF.MEXISTS", "removed", sorted(truth.removed_out - truth.removed_unsure))
        assert not any(gone.values()), f"back: {[item for item, there in gone.items() if there][:5]}"
        items = sorted(truth.most)
        wire.send(b"".join(packed("CF.COUNT", "cuckoo", item) for item in items))
        # Two items of one fingerprint count together, one item in a thousand or so: too many is possible, too few is not.
        counts = {item: parsed(wire.answer()) for item in items}
        for item, count in counts.items():
            assert truth.least[item] <= count, (item, truth.least[item], count)
        many = [item for item, count in counts.items() if count > truth.most[item]]
        assert len(many) <= 2 + len(items) // 50, many
        claims = ask_all(wire, "BF.MEXISTS", "claims", sorted(truth.claims - truth.claims_unsure))
        assert all(claims.values()), f"lost: {[item for item, there in claims.items() if not there][:5]}"
        gone = ask_all(wire, "BF.MEXISTS", "claims", sorted(truth.claims_out - truth.claims_unsure))
        back = [item for item, there in gone.items() if there]
        assert len(back) <= len(gone) // 10_000, f"back: {back[:5]}"
        for item, winners in truth.claim_winners.items():
            assert winners == 1, f"{winners} committed {item} as new"
        for client, sequences in truth.last.items():
            wire.ask("CLIENT", "SETNAME", f"client{client}")
            sequence, tag = parsed(wire.ask("EV.LAST", "claims"))
            newest = max(sequences)
            assert sequence >= newest, (client, sequence, newest)
            assert sequence > newest or tag.decode() == sequences[newest], (client, tag, sequences[newest])
        # A commit whose answer the kill took happened whole or not at all: what it made count, of items that no one else had.
        for client, claimed, _ in truth.unsure_commits:
            own = [item for item, way in claimed if way == "in" and item.startswith(f"{seed}-")]
            there = ask_all(wire, "BF.MEXISTS", "claims", own)
            assert len(set(there.values())) < 2, (client, there)


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
            check(server, truth, seed)
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
