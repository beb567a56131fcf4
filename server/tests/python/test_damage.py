"""A store damaged on purpose, a full disk, files that vanish: that key answers errors, the others go on."""

import os
import pathlib
import random
import subprocess
import sys
import zlib

import pytest
from conftest import Server
from resp import Closed, Refusal, Wire, parsed

ITEMS = [f"item-{number}" for number in range(20_000)]


def fill(server, key):
    with server.wire() as wire:
        wire.ask("BF.RESERVE", key, "1e-6", "100000")
        for start in range(0, len(ITEMS), 5000):
            wire.ask("BF.MADD", key, *ITEMS[start : start + 5000])


def works(server, key):
    with server.wire() as wire:
        assert parsed(wire.ask("BF.MEXISTS", key, *ITEMS[:100])) == [1] * 100
        assert parsed(wire.ask("BF.ADD", key, f"new-{os.urandom(8).hex()}")) == 1


def stopped_with_two(folder):
    with Server(folder / "stores") as server:
        fill(server, "good")
        fill(server, "bad")
        assert server.stop() == 0
    return folder / "stores" / "bad.ever"


COMMANDS = [
    ["BF.ADD", "bad", "x"],
    ["BF.MADD", "bad", *ITEMS[:5000]],
    ["BF.EXISTS", "bad", ITEMS[0]],
    ["BF.MEXISTS", "bad", *ITEMS],
    ["BF.INFO", "bad"],
    ["BF.CARD", "bad"],
    ["EV.INFO", "bad"],
    ["EV.CLAIM", "bad", "y"],
]


@pytest.mark.parametrize("what", ["header", "empty", "cut", "noise", "folder"])
def test_a_store_that_cant_be_opened(folder, what, seed):
    path = stopped_with_two(folder)
    whole = path.read_bytes()
    match what:
        case "header":
            path.write_bytes(bytes(4096) + whole[4096:])
        case "empty":
            path.write_bytes(b"")
        case "cut":
            path.write_bytes(whole[: len(whole) // 2])
        case "noise":
            path.write_bytes(random.Random(seed).randbytes(len(whole)))
        case "folder":
            path.unlink()
            path.mkdir()
    with Server(folder / "stores") as server:
        for command in COMMANDS:
            answer = server.ask(*command)
            assert isinstance(answer, Refusal), (command, answer)
        works(server, "good")
        # Others may be made and removed; the key is still listed, so that somebody finds it.
        assert server.ask("BF.ADD", "third", "x") == 1
        assert server.ask("DEL", "third") == 1
        assert server.stop() == 0
    if what not in ("folder",):
        assert path.exists()


def test_damaged_pages(folder, seed, told):
    """Each page of a closed store in turn, or a draw of them, gets a flipped bit."""
    path = stopped_with_two(folder)
    draw, whole, refused = random.Random(seed), path.read_bytes(), 0
    pages = draw.sample(range(len(whole) // 4096), min(12, len(whole) // 4096))
    for page in pages:
        damaged = bytearray(whole)
        damaged[page * 4096 + draw.randrange(4096)] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        with Server(folder / "stores") as server:
            answers = [server.ask(*command) for command in COMMANDS]
            refused += any(isinstance(answer, Refusal) for answer in answers)
            # Whatever it answers, it never denies an item that is there.
            exists = answers[3]
            assert isinstance(exists, Refusal) or exists == [1] * len(ITEMS), f"seed {seed}, page {page}"
            works(server, "good")
            assert server.process.poll() is None
        for beside in path.parent.glob("bad.ever?*"):
            beside.unlink()
    told(f"seed {seed}: {refused} of {len(pages)} damaged pages were noticed by a command")


def test_files_that_vanish_under_a_running_server(folder):
    with Server(folder / "stores") as server:
        fill(server, "good")
        fill(server, "bad")
        (folder / "stores" / "bad.ever").unlink()
        # Writers learn of it at a commit, readers within a second of work: no answer may claim what the disk won't have.
        with server.wire() as wire:
            wire.ask("BF.MADD", "bad", *ITEMS[:100])
        works(server, "good")
        server.stop()
    with Server(folder / "stores") as server:
        works(server, "good")


SCRIPT = """
mount -t tmpfs -o size=24m none disk || exit 77
exec "$@"
"""


def test_a_full_disk(folder, told):
    """Commands answer errors while the disk is full, look-ups go on, and all is well again once there is room."""
    (folder / "disk").mkdir()
    wrapped = ["unshare", "--map-root-user", "--mount", "sh", "-c", SCRIPT, "sh"]
    probe = subprocess.run([*wrapped, "true"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("no file system can be mounted here")
    # The server's own argument names the folder inside the mount, which only it and its children see.
    filler = folder / "filler.py"
    filler.write_text("import sys\nwith open(sys.argv[1], 'wb') as file:\n    file.write(bytes(64 << 20))\n")
    with Server(folder / "disk" / "stores", "--buffer", "1", durable="always", wrapped_in=wrapped) as server:
        inside = pathlib.Path(f"/proc/{server.process.pid}/root/{folder}/disk")
        fill(server, "kept")
        with server.wire() as wire:
            subprocess.run([sys.executable, filler, inside / "ballast"], capture_output=True, check=False)
            added, refused = set(), 0
            for number in range(400):
                items = [f"full-{number}-{step}" for step in range(500)]
                answer = parsed(wire.ask("BF.MADD", "kept", *items))
                if isinstance(answer, list) and not any(isinstance(word, Refusal) for word in answer):
                    added.update(items)
                else:
                    refused += 1
                    if refused > 3:
                        break
            assert refused, "the disk never became full"
            assert parsed(wire.ask("BF.MEXISTS", "kept", *ITEMS[:100])) == [1] * 100
            assert isinstance(parsed(wire.ask("BF.RESERVE", "another", "1e-6", "1000000")), (str, Refusal))
            os.remove(inside / "ballast")
            answer = parsed(wire.ask("BF.MADD", "kept", "afterwards"))
            told(f"full disk: {len(added):,} items were taken before {refused} refusals; afterwards: {answer!r}")
            assert all(
                all(parsed(wire.ask("BF.MEXISTS", "kept", *batch)))
                for batch in [sorted(added)[start : start + 1000] for start in range(0, len(added), 1000)]
            )
            assert answer == [1]


def test_nothing_is_left_of_a_connection_that_breaks_in_the_middle(server):
    for cut in range(1, 40):
        wire = Wire(server.address)
        wire.send(b"*3\r\n$6\r\nBF.ADD\r\n$1\r\nk\r\n$4\r\nitem\r\n"[:cut])
        wire.close()
    with server.wire() as wire:
        assert parsed(wire.ask("PING")) == "PONG"
        try:
            present = parsed(wire.ask("BF.EXISTS", "k", "item"))
        except Closed:
            pytest.fail("the server closed a connection that did nothing")
        # The last cut of 39 bytes is the whole command but for its last byte or two.
        assert present in (0, 1)


def with_right_sums(header, body):
    """The header of a dump whose body is another, so that only what is in the body can be wrong."""
    made = bytearray(header[:-4])
    made[16:24] = len(body).to_bytes(8, "little")
    made[24:28] = zlib.crc32(body).to_bytes(4, "little")
    return bytes(made + zlib.crc32(made).to_bytes(4, "little"))


def test_a_loaded_store_is_no_more_trusted_than_a_file(server, seed, told):
    """Dumps with flipped bits and right sums: refused at once, or noticed when it is used; the server goes on."""
    draw, refused, denied = random.Random(seed), 0, 0
    items = [str(number) for number in range(2000)]
    with server.wire() as wire:
        wire.ask("BF.MADD", "k", *items)
        pieces, cursor = [], 0
        while True:
            cursor, piece = parsed(wire.ask("BF.SCANDUMP", "k", cursor))
            if not cursor:
                break
            pieces.append(piece)
        header, body = pieces[0], b"".join(pieces[1:])
        assert with_right_sums(header, body) == header
        for number in range(60):
            damaged = bytearray(body)
            for _ in range(draw.choice([1, 1, 3, 50])):
                damaged[draw.randrange(min(len(body), draw.choice([4096, 16384, len(body)])))] ^= 1 << draw.randrange(8)
            if draw.random() < 0.1:
                del damaged[draw.randrange(len(damaged)) :]
            key, made = f"load-{number}", with_right_sums(header, bytes(damaged))
            answer = parsed(wire.ask("BF.LOADCHUNK", key, "1", made))
            if answer == "OK" and damaged:
                answer = parsed(wire.ask("BF.LOADCHUNK", key, str(1 + len(damaged)), bytes(damaged)))
            if answer != "OK":
                refused += 1
                continue
            exists = parsed(wire.ask("BF.MEXISTS", key, *items))
            denied += isinstance(exists, list) and sum(exists) < len(items)
            for command in (["BF.ADD", key, "x"], ["BF.INFO", key], ["BF.DEBUG", key], ["EV.INFO", key], ["BF.SCANDUMP", key, "0"], ["DEL", key]):
                wire.ask(*command)
        works(server, "other") if server.ask("BF.MADD", "other", *ITEMS[:100]) else None
    told(f"seed {seed}: {refused} of 60 damaged loads were refused at once, {denied} denied items")
    assert denied == 0


def test_a_server_that_cant_write_its_own_files(folder):
    """A folder without room for names of keys: errors, and no end."""
    with Server(folder / "stores") as server:
        assert server.ask("BF.ADD", "k", "a") == 1
        assert isinstance(server.ask("BF.ADD", "x" * 300, "a"), Refusal)
        assert isinstance(server.ask("RENAME", "k", "x" * 300), Refusal)
        assert server.ask("BF.EXISTS", "k", "a") == 1
