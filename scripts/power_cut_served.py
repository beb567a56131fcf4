"""What `power_cut_ext4 --server` has clients of a server do on a disk before its power is cut, and what it looks for after."""

import collections
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

from power_cut_work import Violation, Work

CLIENTS = Path(__file__).resolve().parent.parent / "server" / "tests" / "python"
sys.path.insert(0, str(CLIENTS))
from resp import Closed, Refusal, parsed
from served import Server
from truth import Truth, check


class Serving(Work):
    """Clients of one server, which answers once what it says is on the disk."""

    def __init__(self, disk, draw, server, folder, tally):
        super().__init__(disk, draw, server, folder, tally)
        self.clients = draw.randint(1, 4)
        self.folders = draw.randint(0, 2)
        self.max_open = draw.choice([2, 100])
        self.truth, self.held, self.life = Truth(), 0, 0
        self.keys = [Keys(number) for number in range(self.folders)]

    def told(self):
        return f"a server, {self.clients} clients that fill, {self.folders} that make and remove keys"

    def jobs(self):
        self.life += 1
        self.server = self.started()
        if self.life == 1:
            for command in RESERVED.values():
                if (answer := self.server.ask(*command)) != "OK":
                    raise Violation(f"{command}: {answer}")
        self.logs = [self.scratch / f"{self.life}-{number}.log" for number in range(self.clients)]
        self.fillers = [
            subprocess.Popen(
                [sys.executable, CLIENTS / "clients.py", self.server.address, str(number), self.seed(), log, "refused"],
                stdout=subprocess.DEVNULL,
            )
            for number, log in enumerate(self.logs)
        ]
        jobs = [(keys.work, (self.server, self.dark)) for keys in self.keys]
        return jobs + ([(self.write_back, None)] if self.restless else [])

    def seed(self):
        return f"{self.draw.randrange(1 << 32)}-{self.life}"

    def expect_no_failure(self):
        refused = [keys.refused for keys in self.keys if keys.refused]
        refused += [log.read_text()[-400:] for log, filler in zip(self.logs, self.fillers) if filler.poll() is not None]
        if refused:
            raise Violation(f"refused before the cut: {refused}")

    def kill_all(self):
        self.server.kill()
        if any([filler.wait() for filler in self.fillers]):
            raise Violation("a client ended badly")

    def look(self, last):
        try:
            for number, log in enumerate(self.logs):
                self.truth.take(log, number, (self.cut_at, self.cut_by + DOUBTFUL))
            self.ask_all()
        except Violation:
            raise
        # Whatever goes wrong here is the server's doing, and the round is to be told with it.
        except Exception as error:
            last = "\n".join(line[:200] for log in self.logs for line in [log.name, *log.read_text().splitlines()[-6:]])
            raise Violation(f"{type(error).__name__}: {error}\ncut at {self.cut_at}; last\n{last}") from error

    def started(self):
        with open(self.scratch / "server.err", "ab") as err:
            try:
                return Server(
                    self.command, self.disk.root / "stores", "--max-open", str(self.max_open), durable="always", stderr=err
                )
            except AssertionError as error:
                said = (self.scratch / "server.err").read_text()[-400:]
                raise Violation(f"the server does not start: {error}: {said}") from error

    def ask_all(self):
        """Asks a new server about everything."""
        before = time.monotonic()
        server = self.started()
        try:
            for key in RESERVED:
                if server.ask("TYPE", key) == "none":
                    raise Violation(f"the key {key} was acknowledged and is gone")
            self.at_most("ms to start again", round((time.monotonic() - before) * 1000))
            check(server, self.truth)
            for keys in self.keys:
                keys.check(server)
            # What a killed server has left beside a store goes when that is opened and closed.
            for key in server.ask("KEYS", "*"):
                server.ask("EV.INFO", key)
            self.tally["answers that hold"] += self.truth.answers - self.held
            self.held = self.truth.answers
        finally:
            status = server.stop()
        if status != 0:
            raise Violation(f"the server ended with {status} after the cut")
        names = os.listdir(self.disk.root / "stores")
        # A server that has ended leaves stores and dates. What a store has left that was cut off while it was made goes with
        # the next of its name.
        stores = {name for name in names if name.endswith(".ever")}
        left = [name for name in names if not name.endswith((".ever", ".expires", ".ever-new"))]
        left = [name for name in left if name.partition(".ever-")[0] + ".ever" in stores or ".ever-" not in name]
        if left:
            raise Violation(f"left behind after the end: {left}")

    def at_most(self, name, value):
        name = f"at most: {name}"
        self.tally[name] = max(self.tally[name], value)


# Until so many seconds after the cut, an answer proves nothing: a sync that was under way may report success although the
# journal was given up. No client would hear it if the power were gone. Whatever is answered later must hold.
DOUBTFUL = 0.05
# The keys that clients fill, and how they are made.
RESERVED = {
    "bloom": ["BF.RESERVE", "bloom", "1e-9", "100000"],
    "removed": ["BF.RESERVE", "removed", "1e-9", "100000"],
    "cuckoo": ["CF.RESERVE", "cuckoo", "100000"],
}


class Keys:
    """One client's keys, which come, go, are renamed and given dates. Only the last command's outcome is unknown."""

    NAMES = "abcd"

    def __init__(self, number):
        self.number, self.made = number, itertools.count()
        # Every state that the keys may be in: for each key, its items and whether it expires.
        self.may_be = [{}]
        self.refused = None
        # The last commands and answers, for messages.
        self.last = collections.deque(maxlen=12)

    def name(self, key):
        return f"own{self.number}{key}"

    def work(self, given, draw):
        (server, dark), self.refused = given, None
        try:
            with server.wire() as wire:
                while True:
                    command, change = self.drawn(draw)
                    after = [change(state) for state in self.may_be]
                    self.may_be += after
                    self.last.append(" ".join(command)[:40])
                    answer = parsed(wire.ask(*command))
                    self.last[-1] += f" -> {str(answer)[:20]}"
                    # An array that ends with an error promises nothing that is looked at here.
                    answers = answer if isinstance(answer, list) else [answer]
                    if any(isinstance(each, Refusal) for each in answers):
                        self.refused = f"{command}: {answer}"
                        return
                    if dark.is_set():
                        # What it proves is not sure: see DOUBTFUL.
                        return
                    self.may_be = after
        except (Closed, OSError):
            pass

    def drawn(self, draw):
        """A command, and what it does to the keys. It names keys that are there: others would be refused."""
        there = [key for key in self.NAMES if key in self.may_be[0]]
        missing = [key for key in self.NAMES if key not in self.may_be[0]]
        choice = draw.randrange(6)
        if missing and (not there or choice == 0):
            key = draw.choice(missing)
            return ["BF.RESERVE", self.name(key), "1e-9", "1000"], lambda state: {**state, key: (frozenset(), False)}
        key = draw.choice(there)
        if choice == 1:
            return ["DEL", self.name(key)], lambda state: {name: state[name] for name in state if name != key}
        if choice == 2:
            other = draw.choice(self.NAMES)
            return ["RENAME", self.name(key), self.name(other)], lambda state: {
                **{name: state[name] for name in state if name != key},
                other: state[key],
            }
        if choice == 3:
            return ["EXPIRE", self.name(key), "100000"], lambda state: {**state, key: (state[key][0], True)}
        if choice == 4:
            return ["PERSIST", self.name(key)], lambda state: {**state, key: (state[key][0], False)}
        items = [f"item {next(self.made)}" for _ in range(draw.choice([1, 1, 30]))]
        return ["BF.MADD", self.name(key), *items], lambda state: {**state, key: (state[key][0] | {*items}, state[key][1])}

    def check(self, server):
        """Whether the keys are as they may be. Of items whose answer did not come, some may be there."""
        asked = sorted({item for state in self.may_be for items, _ in state.values() for item in items})
        found = {}
        with server.wire() as wire:
            for key in self.NAMES:
                if parsed(wire.ask("TYPE", self.name(key))) == "none":
                    continue
                there = parsed(wire.ask("BF.MEXISTS", self.name(key), "none", *asked))[1:]
                items = frozenset(item for item, is_there in zip(asked, there) if is_there)
                found[key] = (items, parsed(wire.ask("TTL", self.name(key))) >= 0)
        before, after = self.may_be[0], self.may_be[-1]
        fits = any(found == state for state in self.may_be)
        partly = found.keys() == before.keys() == after.keys() and all(
            before[key][0] <= found[key][0] <= after[key][0] and found[key][1] in (before[key][1], after[key][1])
            for key in found
        )
        if not fits and not partly:
            told = {key: (len(items), dated) for key, (items, dated) in found.items()}
            may = [{key: (len(items), dated) for key, (items, dated) in state.items()} for state in self.may_be]
            last = "\n  ".join(self.last)
            raise Violation(f"client {self.number}'s keys are {told}, and may be {may}; last\n  {last}")
        self.may_be = [found]
