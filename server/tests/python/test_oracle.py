"""Recorded answers of Redis with its Bloom module, byte by byte; what differs stands in oracle/differences.md, with why."""

import pathlib
import re

import oracle
import pytest
from conftest import Server
from resp import parsed

ORACLE = pathlib.Path(__file__).parents[1] / "oracle"
FILES = sorted(ORACLE.glob("*.txt"))
# Their members come in no order, and their numbers count down.
UNORDERED = re.compile(r"(KEYS|SCAN|COMMAND LIST)\b")
COUNTS_DOWN = re.compile(r"P?TTL\b")


def cases():
    return [pytest.param(file.stem, case, id=f"{file.stem}-{case.name}") for file in FILES for case in oracle.read(file)[1]]


def differences():
    """The rows of differences.md: (file, case, command) to (ours in RESP2, ours in RESP3, why)."""
    rows = {}
    for line in (ORACLE / "differences.md").read_text().splitlines():
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 5 and cells[0] not in ("file", "---"):
            file, case, command, ours, why = cells
            two, _, three = ours.partition("` / `")
            rows[file, case.strip("`"), command.strip("`")] = (two.strip("`"), (three or two).strip("`"), why)
    return rows


def row_of(rows, file, case, line):
    """The row that allows a command to differ, if any."""
    for key, row in rows.items():
        if key[0] == file and key[1] in (case, "*") and (key[2] == line or key[2].endswith("*") and line.startswith(key[2][:-1])):
            return key, row
    return None, None


class Running:
    """One server for all cases, and another once it has ended."""

    def __init__(self, factory):
        self.factory, self.server = factory, None

    def address(self):
        if self.server is None or self.server.process.poll() is not None:
            self.server = Server(self.factory.mktemp("oracle"))
        return self.server.address


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    held = Running(tmp_path_factory)
    yield held
    held.server.__exit__()


USED = set()


def same(line, expected, found):
    if expected == found:
        return True
    bare = line.split(maxsplit=1)[1] if line.startswith("@") else line
    if COUNTS_DOWN.match(bare) and expected.startswith(b":") and found.startswith(b":"):
        return 0 < int(found[1:]) <= int(expected[1:]) < int(found[1:]) + 60_000
    if UNORDERED.match(bare) and expected[:1] == found[:1] == b"*":
        return sorted(map(str, parsed(expected))) == sorted(map(str, parsed(found)))
    return False


@pytest.mark.parametrize("protocol", ["2", "3"])
@pytest.mark.parametrize(("file", "case"), cases())
def test_answers(running, file, case, protocol):
    rows, wrong = differences(), []
    with oracle.Player(running.address(), protocol) as player:
        for step in case.steps:
            if step.line.startswith("#"):
                continue
            expected, found = step.answers[protocol], player.play(step)
            if same(step.line, expected, found):
                continue
            key, row = row_of(rows, file, case.name, step.line)
            if row is None or row["23".index(protocol)] not in ("*", repr(found)[2:-1]):
                wrong.append(f"RESP{protocol} {step.line}\n  theirs {expected!r}\n  ours   {found!r}")
            USED.add(key)
    assert not wrong, "\n" + "\n".join(wrong)


def test_each_row_of_the_table_is_needed(request):
    """Runs last, after all cases of both protocols; a run of a few of them tells nothing."""
    asked = sum(item.function is test_answers for item in request.session.items)
    if asked < 2 * len(cases()):
        pytest.skip("not all cases ran")
    assert set(differences()) <= USED, set(differences()) - USED
