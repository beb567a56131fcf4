"""Files of commands with the exact bytes that answer them; `python oracle.py PORT FILE…` writes the answers anew.

A file is made of cases. A case begins with a line `== its name`, on an empty server with one connection:

    BF.ADD k a              a command, in words (`resp.words`)
    @b BF.ADD k a           the same from connection b, which is opened by its first use
    raw "PING\\r\\n"          bytes as they stand; all that comes is the answer, if the server then closes
    ends "*x\\r\\n"           likewise, and the server is expected to close
      2 b'...'              the answer in RESP2
      3 b'...'              the answer in RESP3, after `HELLO 3`
      = b'...'              both
"""

import ast
import pathlib
import sys

from resp import Closed, Wire, packed, words


class Step:
    """One command of a case, and its answers by protocol."""

    def __init__(self, line):
        self.line, self.answers = line, {}

    def __repr__(self):
        return self.line


class Case:
    def __init__(self, name):
        self.name, self.steps = name, []


def read(path):
    """The remarks at a file's head, and its cases."""
    head, cases = [], []
    for line in pathlib.Path(path).read_text().splitlines():
        if line.startswith("== "):
            cases.append(Case(line[3:]))
        elif line.startswith("  ") and cases:
            protocols, answer = line.split(maxsplit=1)
            for protocol in "23" if protocols == "=" else protocols:
                cases[-1].steps[-1].answers[protocol] = ast.literal_eval(answer)
        elif not cases:
            head.append(line)
        elif line and not line.startswith("#"):
            cases[-1].steps.append(Step(line))
        elif line:
            cases[-1].steps.append(Step(line))
    return head, cases


class Player:
    """Plays the steps of one case against a server."""

    def __init__(self, address, protocol):
        self.address, self.protocol, self.wires = address, protocol, {}

    def __enter__(self):
        with Wire(self.address) as wire:
            assert wire.ask("FLUSHALL") == b"+OK\r\n"
        return self

    def __exit__(self, *_):
        for wire in self.wires.values():
            wire.close()

    def wire(self, name):
        if name not in self.wires:
            wire = self.wires[name] = Wire(self.address, timeout=60)
            if self.protocol == "3":
                wire.ask("HELLO", "3")
        return self.wires[name]

    def play(self, step):
        """The answer's bytes; b"" if the connection was closed without one."""
        line, name = step.line, "a"
        if line.startswith("@"):
            name, line = line[1:].split(maxsplit=1)
        wire = self.wire(name)
        if line.startswith("ends "):
            wire.send(words(line[5:])[0])
            try:
                return wire.to_the_end()
            except TimeoutError:
                return b"(stays open after) " + wire.unread
        wire.send(words(line[4:])[0] if line.startswith("raw ") else packed(*words(line)))
        try:
            return wire.answer()
        except Closed as closed:
            return closed.args[0]
        except TimeoutError:
            return b"(nothing)"


def record(address, path):
    head, cases = read(path)
    for protocol in "23":
        for case in cases:
            with Player(address, protocol) as player:
                for step in case.steps:
                    if not step.line.startswith("#"):
                        step.answers[protocol] = player.play(step)
    lines = list(head)
    for case in cases:
        lines += ["", f"== {case.name}"] if lines and lines[-1] else [f"== {case.name}"]
        for step in case.steps:
            lines.append(step.line)
            two, three = step.answers.get("2"), step.answers.get("3")
            if step.line.startswith("#"):
                continue
            if two == three:
                lines.append(f"  = {two!r}")
            else:
                lines += [f"  2 {two!r}", f"  3 {three!r}"]
    pathlib.Path(path).write_text("\n".join(lines).rstrip("\n") + "\n")


if __name__ == "__main__":
    for name in sys.argv[2:]:
        record(sys.argv[1], name)
