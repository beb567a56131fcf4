"""What clients were answered, by their notes, and whether a server still keeps to it.

The notes are those of `clients.py`.
"""

import json
import pathlib

from resp import packed, parsed


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
        # A client's own items, claimed and never asked to be committed.
        self.given_back = set()
        self.answers = 0

    def take(self, log, client, doubtful=(0, 0)):
        """Reads the notes of a client whose connection has ended. Answers within the doubtful time count as missing."""
        pending, batch = {}, []
        lines = [json.loads(line) for line in pathlib.Path(log).read_text().splitlines()]
        assert lines and lines[-1] == ["ends"], log
        waiting, missing = [], []
        for kind, *rest in lines:
            if kind == "asks":
                assert not waiting
                waiting = list(rest)
            elif kind == "told" and doubtful[0] <= rest[1] < doubtful[1]:
                missing.append(waiting.pop(0))
                self.unanswered(missing[-1], client, pending, batch)
            elif kind == "told":
                self.answers += 1
                self.answered(waiting.pop(0), rest[0], client, pending, batch)
        for command in waiting:
            self.unanswered(command, client, pending, batch)
        if all(command[0] != "EV.COMMIT" for command in missing + waiting):
            # What was claimed and never asked to be committed is given back.
            claimed = [item for item, way in pending.items() if way == "in"]
            claimed += [item for item, way in batch if way == "in"]
            self.given_back.update(item for item in claimed if not item.startswith("shared-"))

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
                # Claims whose answers are missing may be part of this commit.
                self.claims_unsure.update(item for item, _ in batch)
                pending.clear()
                batch.clear()

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


def check(server, truth):
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
        kept = ask_all(wire, "BF.MEXISTS", "claims", sorted(truth.given_back))
        kept = [item for item, there in kept.items() if there]
        assert len(kept) <= len(truth.given_back) // 10_000, f"not committed, and there: {kept[:5]}"
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
            own = [item for item, way in claimed if way == "in" and not item.startswith("shared-")]
            there = ask_all(wire, "BF.MEXISTS", "claims", own)
            assert len(set(there.values())) < 2, (client, there)
