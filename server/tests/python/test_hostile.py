"""Clients that send nonsense, too much, too slowly or nothing at all.

`EVERSEEN_IDLE` connections that do nothing (100; 10,000 asks for `ulimit -n`), `EVERSEEN_HOSTILE` clients of nonsense (8), and
`EVERSEEN_PIPELINE` commands in one go (20,000). Figures are printed; none is asserted.
"""

import os
import random
import resource
import socket
import threading
import time

import pytest
from resp import Closed, Refusal, Wire, packed, parsed

IDLE = int(os.environ.get("EVERSEEN_IDLE", "100"))
HOSTILE = int(os.environ.get("EVERSEEN_HOSTILE", "8"))
PIPELINE = int(os.environ.get("EVERSEEN_PIPELINE", "20000"))


def serves(server):
    with server.wire() as wire:
        assert parsed(wire.ask("BF.ADD", "alive", os.urandom(8))) in (0, 1)
        assert parsed(wire.ask("PING")) == "PONG"


def in_threads(number, work):
    """Runs `work(n)` in so many threads, and raises what they raise."""
    failures = []

    def guarded(n):
        try:
            work(n)
        except BaseException as error:  # noqa: BLE001: told again below
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=[n]) for n in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def nonsense(draw):
    """A piece of what no client sends."""
    match draw.randrange(9):
        case 0:
            return draw.randbytes(draw.randrange(1, 200))
        case 1:
            return b"*%d\r\n" % draw.choice([-1, 0, 1, 5, 1 << 20, 1 << 31, -(1 << 63)])
        case 2:
            return b"$%d\r\n" % draw.choice([-1, 0, 5, 512 << 20, (512 << 20) + 1, 1 << 62])
        case 3:
            return packed("BF.ADD", draw.randbytes(draw.randrange(300)), draw.randbytes(draw.randrange(300)))
        case 4:
            words = [draw.choice(["BF.INSERT", "CF.RESERVE", "BF.LOADCHUNK", "CF.LOADCHUNK", "SCAN", "HELLO", "EXPIRE", "MULTI", "EXEC"])]
            words += [draw.choice(["k", "-1", "NOCREATE", "ITEMS", "1e309", "", str(1 << 63), "ERROR"]) for _ in range(draw.randrange(8))]
            return packed(*words)
        case 5:
            return b"*2\r\n$4\r\nPING\r\n" + draw.choice([b"+x\r\n", b":1\r\n", b"%1\r\n", b"$3\r\nabcd\r\n"])
        case 6:
            return draw.choice([b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"\r\n" * 50, b'ECHO "\r\n'])
        case 7:
            return packed("BF.MADD", "k", *(draw.randbytes(8) for _ in range(draw.randrange(1, 50))))
        case _:
            return bytes(draw.choice([1, 10, 70_000]))


def test_nonsense(server, seed, told):
    """Each client sends nonsense and reads what comes, connects again when it is turned away, and the server goes on."""
    turned_away = [0] * HOSTILE

    def client(number):
        draw = random.Random(f"{seed}-{number}")
        for _ in range(100):
            wire = Wire(server.address)
            try:
                for _ in range(draw.randrange(1, 6)):
                    wire.send(nonsense(draw))
                wire.socket.shutdown(socket.SHUT_WR)
                wire.to_the_end()
            except OSError:
                pass
            turned_away[number] += 1
            wire.close()

    in_threads(HOSTILE, client)
    serves(server)
    told(f"seed {seed}: {sum(turned_away):,} connections of nonsense by {HOSTILE} clients; RSS {server.status('VmHWM') >> 10} MiB at most")


def test_random_commands_are_answered_each(server, seed):
    """Well-formed commands with words of nonsense: as many answers as commands."""
    draw = random.Random(seed)
    names = (
        "BF.ADD BF.MADD BF.RESERVE BF.INSERT BF.EXISTS BF.MEXISTS BF.CARD BF.INFO BF.DEBUG BF.SCANDUMP BF.LOADCHUNK CF.RESERVE CF.ADD "
        "CF.ADDNX CF.INSERT CF.INSERTNX CF.EXISTS CF.MEXISTS CF.COUNT CF.DEL CF.INFO CF.DEBUG CF.COMPACT CF.SCANDUMP CF.LOADCHUNK "
        "EV.CLAIM EV.COMMIT EV.LAST EV.REMOVE EV.INFO DEL EXISTS TYPE TTL EXPIRE PERSIST RENAME SCAN KEYS DBSIZE OBJECT MEMORY "
        "COPY DUMP RESTORE SET GET COMMAND CLIENT CONFIG INFO ECHO PING WATCH UNWATCH TIME"
    ).split()
    words = ["k", "l", "m", "", "0", "1", "-1", "0.01", "100", "ITEMS", "NOCREATE", "CAPACITY", "ERROR", "nan", "inf", "1e400", "9" * 30]
    words += ["NONSCALING", "EXPANSION", "BUCKETSIZE", "USAGE", "ENCODING", "SETNAME", "TAG", "MATCH", "COUNT", "TYPE", "\0", "x" * 300, "/", ".."]
    with server.wire() as wire:
        for _ in range(3000):
            command = [draw.choice(names), *draw.choices(words, k=draw.randrange(7))]
            try:
                answer = wire.ask(*command)
            except Closed:
                pytest.fail(f"seed {seed}: {command} ended the connection")
            parsed(answer)
    serves(server)


def test_names_stay_in_the_folder(server, folder):
    for name in [b"../out", b"/etc/passwd", b"a/b", b"..", b".", b"a\0b", b"\xff\xfe", b"con", b"%2e%2e", b"a.ever", b"x" * 300, b"-", b"~"]:
        with server.wire() as wire:
            answer = parsed(wire.ask("BF.ADD", name, "x"))
            assert answer == 1 or isinstance(answer, Refusal), name
            if answer == 1:
                assert parsed(wire.ask("BF.EXISTS", name, "x")) == 1
                assert parsed(wire.ask("EXISTS", name)) == 1
                cursor, keys = parsed(wire.ask("SCAN", "0", "COUNT", "1000"))
                assert name in keys
    assert sorted(entry.name for entry in folder.iterdir()) == ["stores"]
    assert all(entry.is_file() for entry in server.folder.iterdir())


def test_slowloris(server):
    """Commands that come byte by byte, on many connections at once, are answered when they are whole."""
    command = packed("BF.ADD", "slow", "item")
    wires = [Wire(server.address) for _ in range(20)]
    for at in range(len(command)):
        for wire in wires:
            wire.send(command[at : at + 1])
        if at % 8 == 0:
            serves(server)
    answers = [parsed(wire.answer()) for wire in wires]
    assert sorted(answers) == [0] * 19 + [1]
    for wire in wires:
        wire.close()


def test_a_pipeline(server, told):
    """Many commands before the first answer is read: all are answered, in their order, and memory stays bounded."""
    before = server.status("VmHWM")
    wire = Wire(server.address)
    begun = time.monotonic()

    def send():
        for start in range(0, PIPELINE, 1000):
            wire.send(b"".join(packed("BF.ADD", "k", str(item)) for item in range(start, min(PIPELINE, start + 1000))))

    sender = threading.Thread(target=send)
    sender.start()
    answers = [wire.answer() for _ in range(PIPELINE)]
    sender.join()
    took = time.monotonic() - begun
    assert set(answers) <= {b":0\r\n", b":1\r\n"}
    assert parsed(wire.ask("BF.CARD", "k")) == answers.count(b":1\r\n")
    wire.close()
    told(f"{PIPELINE:,} commands in one pipeline: {took:.1f} s, RSS from {before >> 10} to {server.status('VmHWM') >> 10} MiB at most")


def test_what_waits_for_exec_is_counted(folder):
    from conftest import Server

    with Server(folder / "stores", "--max-pending", "1") as server, server.wire() as wire, server.wire() as other:
        assert parsed(wire.ask("MULTI")) == "OK"
        item = "x" * 10_000
        oom = "OOM commands queued for EXEC exceed --max-pending"
        said = [parsed(wire.ask("BF.ADD", "k", item)) for _ in range(120)]
        assert set(said[:90]) == {"QUEUED"}
        assert [word for word in said if isinstance(word, Refusal)] == [oom]
        # None of them is kept, and the others may gather.
        assert parsed(other.ask("MULTI")) == "OK"
        assert {parsed(other.ask("BF.ADD", "k", item)) for _ in range(90)} == {"QUEUED"}
        assert parsed(wire.ask("EXEC")) == "EXECABORT Transaction discarded because of previous errors."
        assert parsed(wire.ask("EXISTS", "k")) == 0
        # What is queued takes no room from requests that come in part.
        assert parsed(wire.ask("ECHO", "y" * 500_000)) == b"y" * 500_000
        assert parsed(other.ask("EXEC")) == [1] + [0] * 89
        assert parsed(wire.ask("MULTI")) == "OK"
        assert {parsed(wire.ask("BF.ADD", "k", item)) for _ in range(90)} == {"QUEUED"}
        wire.close()
        # The server learns of the end when it reads.
        while parsed(other.ask("MULTI")) == "OK" and {parsed(other.ask("BF.ADD", "k", item)) for _ in range(90)} != {"QUEUED"}:
            other.ask("DISCARD")


def test_one_client_queues_at_most_a_request(folder):
    from conftest import Server

    with Server(folder / "stores", "--max-request", "1") as server, server.wire() as wire:
        assert parsed(wire.ask("MULTI")) == "OK"
        said = [parsed(wire.ask("PING")) for _ in range(20_000)]
        assert [word for word in said if isinstance(word, Refusal)] == ["OOM commands queued for EXEC exceed --max-request"]
        assert parsed(wire.ask("EXEC")).startswith("EXECABORT")


def test_answers_of_exec_are_counted(folder):
    from conftest import Server

    with Server(folder / "stores", "--max-request", "1", "--max-argument", "1") as server, server.wire() as wire:
        wire.ask("BF.RESERVE", "k", "0.01", "1000")
        # Each of these answers takes some tens of kilobytes.
        asks = 300
        assert parsed(wire.ask("MULTI")) == "OK"
        for _ in range(asks):
            assert parsed(wire.ask("COMMAND")) == "QUEUED"
        assert parsed(wire.ask("BF.ADD", "k", "last")) == "QUEUED"
        said = parsed(wire.ask("EXEC"))
        assert len(said) == asks + 1
        oom = "OOM replies to this EXEC exceed --max-request"
        first = said.index(oom)
        assert 3 < first < 200 and set(said[first:]) == {oom} and len(said[first - 1]) > 80
        # All of it ran.
        assert parsed(wire.ask("BF.EXISTS", "k", "last")) == 1


def test_watches_and_descriptions_are_bounded(server):
    with server.wire() as wire:
        assert parsed(wire.ask("WATCH", *(f"k{number}" for number in range(10_000)))) == "OK"
        assert parsed(wire.ask("WATCH", "k0")) == "OK"
        assert parsed(wire.ask("WATCH", "one more")) == "OOM too many watched keys"
        assert len(parsed(wire.ask("COMMAND", "INFO", *["bf.add"] * 1000))) == 1000
        assert parsed(wire.ask("COMMAND", "INFO", *["bf.add"] * 2000)) == "ERR too many commands are named"


def test_answers_that_nobody_reads(server, told):
    """A client that sends and never reads is stopped by its own full buffers; others go on, and memory stays bounded."""
    with server.wire() as wire:
        wire.ask("BF.MADD", "k", *(str(item) for item in range(1000)))
    deaf = Wire(server.address)
    deaf.socket.setblocking(False)
    block, sent = packed("BF.MEXISTS", "k", *(str(item) for item in range(1000))) * 10, 0
    # The kernel's buffers are full when nothing was taken; what the server takes first, it may take until its limit.
    refused = 0
    while refused < 1000 and sent < 256 << 20:
        try:
            sent += deaf.socket.send(block)
            refused = 0
        except BlockingIOError:
            refused += 1
            serves(server)
        except OSError:
            break
    serves(server)
    told(f"a client that reads nothing got rid of {sent >> 10:,} KiB; RSS {server.status('VmHWM') >> 10} MiB at most")
    deaf.close()


def test_too_long_a_word_is_refused_before_it_is_read(server, told):
    before = server.status("VmHWM")
    for length in [(512 << 20) + 1, 1 << 40, (1 << 63) - 1]:
        wire = Wire(server.address)
        wire.send(b"*3\r\n$6\r\nBF.ADD\r\n$1\r\nk\r\n$%d\r\n" % length)
        said = wire.to_the_end()
        assert said.startswith(b"-ERR Protocol error: "), said
        wire.close()
    # 512 MiB are allowed by the protocol; the server may refuse them by its length, and never sets them aside before.
    wire = Wire(server.address)
    wire.send(b"*3\r\n$6\r\nBF.ADD\r\n$1\r\nk\r\n$%d\r\n" % (512 << 20))
    serves(server)
    after = server.status("VmHWM")
    told(f"words of 512 MiB announced: RSS from {before >> 10} to {after >> 10} MiB at most")
    assert after - before < 128 << 10
    wire.close()


def test_many_words_are_counted_before_they_are_kept(server):
    before = server.status("VmHWM")
    wires = [Wire(server.address) for _ in range(50)]
    for wire in wires:
        wire.send(b"*1048576\r\n$7\r\nBF.MADD\r\n")
    serves(server)
    assert server.status("VmHWM") - before < 128 << 10
    for wire in wires:
        wire.close()


def test_idle_connections(server, told):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if IDLE + 50 > hard:
        pytest.skip(f"{IDLE} connections ask for more than {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, IDLE + 50)), hard))
    before, begun = server.status("VmRSS"), time.monotonic()
    idle = [socket.create_connection(("127.0.0.1", int(server.address.rpartition(":")[2]))) for _ in range(IDLE)]
    # Each has been accepted once the last of them is answered.
    for one in (idle[0], idle[-1]):
        one.sendall(b"PING\r\n")
        said = one.recv(100)
        if said.startswith(b"-"):
            pytest.fail(f"with {IDLE} connections: {said!r}")
        assert said == b"+PONG\r\n"
    took = time.monotonic() - begun
    after = server.status("VmRSS")
    begun = time.monotonic()
    serves(server) if IDLE < 9_990 else None
    one_more = time.monotonic() - begun
    told(
        f"{IDLE:,} idle connections: accepted in {took:.2f} s, {(after - before) / IDLE:.1f} KiB each, {server.status('Threads')} threads; "
        f"another's commands {one_more * 1000:.1f} ms"
    )
    for one in idle:
        one.close()
    serves(server)


def test_connections_beyond_the_limit_are_turned_away(folder):
    from conftest import Server

    with Server(folder / "stores", "--max-clients", "5") as server:
        wires = [server.wire() for _ in range(5)]
        for wire in wires:
            assert parsed(wire.ask("PING")) == "PONG"
        sixth = server.wire()
        assert sixth.to_the_end() == b"-ERR max number of clients reached\r\n"
        wires.pop().close()
        # The place is free once the server has noticed; it may take several tries.
        while True:
            again = server.wire()
            try:
                if not isinstance(parsed(again.ask("PING")), Refusal):
                    break
            except (Closed, OSError):
                pass
            again.close()
        for wire in wires:
            wire.close()
