"""The server, the command and the socket file on one store at the same time."""

import stat
import subprocess

import pytest
from conftest import Server, built, command
from resp import Refusal, Wire, parsed


def lines(items):
    return "".join(f"{item}\n" for item in items).encode()


def test_the_command_sees_what_clients_add_and_they_what_it_adds(server):
    path = server.folder / "visited.ever"
    with server.wire() as wire:
        assert parsed(wire.ask("BF.MADD", "visited", "a", "b")) == [1, 1]
        assert command("check", str(path), input=lines("abc")).stdout == b"a\nb\n"
        assert command("add", str(path), input=lines("cd")).returncode == 0
        assert parsed(wire.ask("BF.MEXISTS", "visited", "a", "b", "c", "d", "e")) == [1, 1, 1, 1, 0]
        assert parsed(wire.ask("BF.MADD", "visited", "d", "e")) == [0, 1]
        assert command("remove", str(path), input=lines("a")).returncode == 0
        assert parsed(wire.ask("BF.EXISTS", "visited", "a")) == 0


def test_a_store_that_the_command_made_is_a_key(server):
    path = server.folder / "made.ever"
    assert command("dedup", str(path), input=lines(["x", "y", "x"])).stdout == b"x\ny\n"
    with server.wire() as wire:
        assert parsed(wire.ask("EXISTS", "made")) == 1
        assert parsed(wire.ask("TYPE", "made")) == "MBbloom--"
        assert parsed(wire.ask("BF.MEXISTS", "made", "x", "y", "z")) == [1, 1, 0]
        # It is transactional, as dedup makes them.
        assert parsed(wire.ask("EV.CLAIM", "made", "x", "z")) == ["seen", "new"]
        assert isinstance(parsed(wire.ask("EV.COMMIT", "made", "TAG", "t")), int)
    assert command("dedup", str(path), input=lines(["z", "w"])).stdout == b"w\n"


def test_claims_of_a_client_are_nobodys_again_for_the_command(server):
    path = server.folder / "made.ever"
    with server.wire() as wire:
        assert parsed(wire.ask("EV.CLAIM", "made", "kept", "committed")) == ["new", "new"]
        parsed(wire.ask("EV.COMMIT", "made"))
        assert parsed(wire.ask("EV.CLAIM", "made", "given back")) == ["new"]
    # `dedup` waits for a claim to be decided: it prints what the client gave back.
    ran = command("dedup", str(path), input=lines(["kept", "given back", "committed"]))
    assert (ran.returncode, ran.stdout) == (0, b"given back\n"), ran.stderr


def test_several_commands_and_clients_have_one_winner_for_each_item(server):
    """Six add the same items at once; each item is new for exactly one."""
    path, items = server.folder / "race.ever", [f"item-{number}" for number in range(5000)]
    assert server.ask("EV.CLAIM", "race", "first") == ["new"]
    dedups = [
        subprocess.Popen([built("everseen", "EVERSEEN"), "dedup", str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    for dedup in dedups:
        dedup.stdin.write(lines(items[:10]))
        dedup.stdin.flush()
    won = []
    with server.wire() as wire:
        for start in range(0, len(items), 100):
            batch = items[start : start + 100]
            # What another holds is pending until it commits, or is gone; a claim of one's own commits nothing of others.
            verdicts = parsed(wire.ask("EV.CLAIM", "race", *batch))
            won += [item for item, verdict in zip(batch, verdicts, strict=True) if verdict == "new"]
            parsed(wire.ask("EV.COMMIT", "race"))
    for dedup in dedups:
        printed, _ = dedup.communicate(lines(items))
        assert dedup.returncode == 0
        won += printed.decode().split()
    assert sorted(won) == sorted(items)


def test_snapshot_verify_and_info_beside_the_server(server):
    path = server.folder / "k.ever"
    with server.wire() as wire:
        wire.ask("BF.MADD", "k", *(str(item) for item in range(1000)))
        assert command("verify", str(path)).returncode == 0
        assert command("info", str(path)).returncode == 0
        assert command("snapshot", str(path), str(server.folder / "copy.ever")).returncode == 0
        # The snapshot is a key, too.
        assert parsed(wire.ask("BF.MEXISTS", "copy", "1", "999", "x")) == [1, 1, 0]


def test_a_socket_file(folder):
    with Server(folder / "stores", unix=folder / "socket") as server:
        assert stat.S_ISSOCK((folder / "socket").stat().st_mode)
        assert server.unix == str(folder / "socket")
        with Wire(str(folder / "socket")) as wire, server.wire() as other:
            assert parsed(wire.ask("BF.ADD", "k", "a")) == 1
            assert parsed(other.ask("BF.ADD", "k", "a")) == 0
        assert server.stop() == 0
    # A socket file that a killed server left is no obstacle.
    with Server(folder / "stores", unix=folder / "socket") as server:
        server.kill()
    with Server(folder / "stores", unix=folder / "socket") as server:
        with Wire(str(folder / "socket")) as wire:
            assert parsed(wire.ask("BF.EXISTS", "k", "a")) == 1


def test_two_servers_on_one_folder(folder):
    """Either the second refuses to start, or both see each other's items at once."""
    with Server(folder / "stores") as first:
        assert first.ask("BF.ADD", "k", "a") == 1
        try:
            second = Server(folder / "stores")
        except AssertionError:
            return
        with second:
            assert second.ask("BF.ADD", "k", "a") == 0
            assert second.ask("BF.ADD", "k", "b") == 1
            assert first.ask("BF.EXISTS", "k", "b") == 1


def test_more_claiming_connections_than_a_store_has_handles(server):
    """Up to 128 handles share a store: a connection too many is told so, and the others go on."""
    wires = [server.wire() for _ in range(140)]
    answers = [parsed(wire.ask("EV.CLAIM", "k", f"item-{number}")) for number, wire in enumerate(wires)]
    assert all(answer == ["new"] or isinstance(answer, Refusal) for answer in answers)
    taken = [number for number, answer in enumerate(answers) if answer == ["new"]]
    assert len(taken) >= 100
    for number in taken:
        assert isinstance(parsed(wires[number].ask("EV.COMMIT", "k")), int)
    assert server.ask("BF.MEXISTS", "k", *(f"item-{number}" for number in taken)) == [1] * len(taken)
    for wire in wires:
        wire.close()


@pytest.mark.parametrize("durable", ["always", "second", "no"])
def test_each_durability_answers_alike(folder, durable):
    with Server(folder / "stores", durable=durable) as server, server.wire() as wire:
        assert parsed(wire.ask("BF.ADD", "k", "a")) == 1
        assert parsed(wire.ask("BF.MADD", "k", "a", "b")) == [0, 1]
        assert parsed(wire.ask("BF.INSERT", "k", "ITEMS", "c")) == [1]
        assert parsed(wire.ask("CF.ADD", "c", "a")) == 1
        assert parsed(wire.ask("EV.CLAIM", "e", "a")) == ["new"]
        assert parsed(wire.ask("EV.COMMIT", "e")) >= 1
