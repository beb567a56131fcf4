"""Commands as a client meets them, where the oracle tells nothing: what is this server's own, and what runs together."""

import time

import pytest
from conftest import Server
from resp import Refusal, packed, parsed


def ask(wire, *words):
    return parsed(wire.ask(*words))


def test_stores_for_claims_are_made_as_asked(server):
    with server.wire("3") as wire, server.wire("3") as other:
        assert ask(wire, "EV.CREATE", "k", "FPR", "1e-9", "FORGET-AFTER", "3600", "FORGET-BY", "last") == "OK"
        assert ask(wire, "EV.CREATE", "k") == "ERR item exists"
        about = ask(wire, "EV.INFO", "k")
        assert [about[name] for name in ("fpr", "transactional", "forget_after_seconds")] == [1e-9, True, 3600]
        assert ask(wire, "EV.CLAIM", "k", "a") == ["new"]
        assert ask(other, "EV.CLAIM", "k", "a") == ["pending"]
        # In a plain one an item counts at once.
        assert ask(wire, "ev.create", "p", "plain") == "OK"
        assert ask(wire, "EV.INFO", "p")["transactional"] is False
        assert ask(wire, "EV.CLAIM", "p", "a") == ["new"]
        assert ask(other, "EV.CLAIM", "p", "a") == ["seen"]
        assert ask(other, "BF.EXISTS", "p", "a") is True


def test_a_connection_keeps_its_claims_when_it_may_have_no_more(server):
    with server.wire() as wire:
        assert ask(wire, "EV.CREATE", "k") == "OK"
        claimed = 0
        while True:
            items = [f"item {number}" for number in range(claimed, claimed + 20_000)]
            answer = ask(wire, "EV.CLAIM", "k", *items)
            if isinstance(answer, Refusal):
                break
            assert answer == ["new"] * len(items)
            claimed += len(items)
        # Enough for a page of links, or a file of lines.
        assert claimed >= 80_000
        assert answer.startswith("ERR a connection may have ")
        assert ask(wire, "EV.REMOVE", "k", *items) == answer
        assert ask(wire, "EV.COMMIT", "k") > 0
        assert ask(wire, "EV.CLAIM", "k", *items) == ["new"] * len(items)
        for begin in range(0, claimed, 20_000):
            part = [f"item {number}" for number in range(begin, begin + 20_000)]
            assert server.ask("BF.MEXISTS", "k", *part) == [1] * len(part)


def test_items_of_all_clients_are_no_claims(server):
    """However many one command has, in a store that waits for a commit."""
    with server.wire() as wire:
        assert ask(wire, "EV.CREATE", "k") == "OK"
        items = [f"item {number}" for number in range(250_000)]
        assert ask(wire, "BF.MADD", "k", *items) == [1] * len(items)
        server.kill()
    with Server(server.folder) as again:
        assert again.ask("BF.MEXISTS", "k", *items) == [1] * len(items)


def test_an_item_that_counts_anew_is_committed(server):
    with server.wire() as wire:
        assert ask(wire, "EV.CREATE", "k", "FORGET-AFTER", "3600", "FORGET-BY", "last") == "OK"
        assert ask(wire, "BF.ADD", "k", "a") == 1
        (before, _) = ask(wire, "EV.LAST", "k", "WRITER", "everseen-server")
        assert ask(wire, "BF.ADD", "k", "a") == 0
        (after, _) = ask(wire, "EV.LAST", "k", "WRITER", "everseen-server")
        assert after > before


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ("FPR", "ERR syntax error"),
        ("FPR x", "ERR FPR is a number between 0 and 1"),
        ("FPR 1", "ERR FPR is a number between 0 and 1"),
        ("FPR 0", "ERR FPR is a number between 0 and 1"),
        ("FORGET-AFTER 0", "ERR FORGET-AFTER is a number of seconds, at least 1"),
        ("FORGET-AFTER 1.5", "ERR FORGET-AFTER is a number of seconds, at least 1"),
        ("FORGET-BY first", "ERR FORGET-BY needs FORGET-AFTER"),
        ("FORGET-BY never FORGET-AFTER 9", "ERR syntax error"),
        ("NONSENSE", "ERR syntax error"),
    ],
)
def test_options_of_ev_create_that_make_no_sense(server, options, refusal):
    assert server.ask("EV.CREATE", "k", *options.split()) == refusal
    assert server.ask("EXISTS", "k") == 0


def test_rates_that_no_store_keeps_are_errors_and_not_ends(server):
    for rate in ("1e-19", "1e-300"):
        assert isinstance(server.ask("EV.CREATE", "k", "FPR", rate), Refusal)
        # BF takes as low a rate as there is.
        assert server.ask("BF.RESERVE", f"b{rate}", rate, "100") == "OK"
        assert server.ask("BF.ADD", f"b{rate}", "a") == 1


def test_capacities_that_no_store_has_are_refused(server):
    text = "ERR could not create filter: one takes at most 68719476736 items"
    for capacity in (2**36 + 1, 10**17, 2**60, 2**63 - 1):
        assert server.ask("BF.RESERVE", "k", "0.01", capacity) == text
        assert server.ask("BF.INSERT", "k", "CAPACITY", capacity, "ITEMS", "a") == text
        assert server.ask("CF.RESERVE", "k", capacity) == text
        assert server.ask("CF.INSERT", "k", "CAPACITY", capacity, "ITEMS", "a") == text
    assert server.ask("CF.RESERVE", "k", 100, "HELLO", "BUCKETSIZE") == "Couldn't parse BUCKETSIZE"
    assert server.ask("DBSIZE") == 0
    # What may be grows as it is filled, and takes nothing before.
    assert server.ask("BF.RESERVE", "k", "0.01", 2**36, "NONSCALING") == "OK"
    assert server.ask("CF.RESERVE", "c", 2**36, "EXPANSION", 0) == "OK"
    assert server.ask("MEMORY", "USAGE", "k") < 1 << 20


def test_commands_in_a_row_are_answered_one_by_one(server):
    """Neighbours that add to one key run together; each is answered as if it were alone."""
    with server.wire() as wire:
        assert ask(wire, "BF.RESERVE", "k", "0.01", "2", "NONSCALING") == "OK"
        wire.send(b"".join(packed("BF.ADD", "k", item) for item in "abcabd"))
        full = "ERR non scaling filter is full"
        assert [parsed(wire.answer()) for _ in range(6)] == [1, 1, full, 0, 0, full]
        wire.send(b"".join(packed("BF.EXISTS", "k", item) for item in "abc"))
        assert [parsed(wire.answer()) for _ in range(3)] == [1, 1, 0]


def test_what_clients_watch(server):
    with server.wire() as wire, server.wire() as other:
        # By commands in a row, by a date that has come, by a load.
        for change in (
            [packed("BF.ADD", "k", "a"), packed("BF.ADD", "k", "b")],
            [packed("PEXPIRE", "k", "1")],
            [packed("BF.LOADCHUNK", "k", "1", ask(other, "BF.ADD", "d", "x") and ask(other, "BF.SCANDUMP", "d", "0")[1])],
        ):
            assert ask(wire, "WATCH", "unused", "k") == "OK"
            other.send(b"".join(change))
            for _ in change:
                assert not isinstance(parsed(other.answer()), Refusal)
            time.sleep(0.01)
            assert ask(wire, "EXISTS", "k") in (0, 1)
            assert ask(wire, "MULTI") == "OK"
            assert ask(wire, "EXEC") is None
        # Who leaves watches nothing, and neither does who resets.
        assert ask(wire, "WATCH", "k") == "OK"
        assert ask(wire, "RESET") == "RESET"
        assert ask(other, "BF.ADD", "k", "a") == 1
        assert ask(wire, "MULTI") == "OK"
        assert ask(wire, "EXEC") == []


def test_unwatch_is_queued_like_others(server):
    with server.wire() as wire, server.wire() as other:
        assert ask(wire, "WATCH", "k") == "OK"
        assert ask(other, "BF.ADD", "k", "a") == 1
        assert ask(wire, "MULTI") == "OK"
        assert ask(wire, "UNWATCH") == "QUEUED"
        assert ask(wire, "EXEC") is None


def test_another_name_gives_claims_back_and_says_so(server):
    with server.wire() as wire:
        assert ask(wire, "EV.CLAIM", "k", "a") == ["new"]
        assert ask(wire, "CLIENT", "SETNAME", "w") == "OK"
        refused = ask(wire, "EV.COMMIT", "k")
        assert isinstance(refused, Refusal) and "given back" in refused
        assert ask(wire, "EV.CLAIM", "k", "a") == ["new"]
        # The same name again is none.
        assert ask(wire, "CLIENT", "SETNAME", "w") == "OK"
        assert isinstance(ask(wire, "EV.COMMIT", "k"), int)
        assert ask(wire, "EV.CLAIM", "k", "a") == ["seen"]


def test_reset_leaves_nothing_of_what_a_connection_was(server):
    with server.wire("3") as wire, server.wire() as other:
        assert ask(wire, "CLIENT", "SETNAME", "w") == "OK"
        assert ask(wire, "EV.CLAIM", "k", "a") == ["new"]
        assert ask(other, "EV.CLAIM", "k", "a") == ["pending"]
        assert ask(wire, "WATCH", "k") == "OK"
        assert ask(wire, "MULTI") == "OK"
        assert ask(wire, "EV.CLAIM", "k", "b") == "QUEUED"
        assert ask(wire, "RESET") == "RESET"
        # Its claims are free, its transaction is gone, and it speaks the older protocol: null is a bulk string there.
        assert ask(other, "EV.CLAIM", "k", "a", "b") == ["new", "new"]
        assert ask(wire, "EXEC") == "ERR EXEC without MULTI"
        assert wire.ask("CLIENT", "GETNAME") == b"$-1\r\n"


def test_an_item_has_no_more_numbers_than_there_may_be_items(server):
    """A client that knows the form of the numbers can add them. That must not keep the server busy."""
    numbers = [b"x\0everseen item number \0" + (1 << power).to_bytes(8, "little") for power in range(64)]
    with server.wire() as wire:
        assert ask(wire, "CF.INSERT", "k", "ITEMS", "x", *numbers) == [1] * 65
        for command in (["CF.COUNT", "k", "x"], ["CF.ADD", "k", "x"], ["CF.DEL", "k", "x"]):
            refused = ask(wire, *command)
            assert isinstance(refused, Refusal) and "numbers" in refused, command
        assert ask(wire, "CF.COUNT", "k", "y") == 0


def test_answers_that_nobody_wants(server):
    with server.wire() as wire:
        wire.send(packed("CLIENT", "REPLY", "OFF") + packed("CLIENT", "REPLY", "SKIP") + packed("BF.ADD", "k", "a") * 3 + packed("PING"))
        wire.send(packed("CLIENT", "REPLY", "ON"))
        assert parsed(wire.answer()) == "OK"
        wire.send(packed("CLIENT", "REPLY", "SKIP") + packed("BF.ADD", "k", "b") + packed("BF.ADD", "k", "b"))
        assert parsed(wire.answer()) == 0
        assert ask(wire, "BF.CARD", "k") == 2


def test_what_is_counted_outlasts_the_server(folder):
    """CF.DEL's count, and the sizes that are told, are the same after the store is closed and after the server ends."""
    with Server(folder / "stores") as server, server.wire() as wire:
        ask(wire, "CF.RESERVE", "c", "100")
        ask(wire, "CF.INSERT", "c", "ITEMS", *"aabbc")
        assert ask(wire, "CF.DEL", "c", "a") == 1
        assert ask(wire, "CF.DEL", "c", "b") == 1
        before = ask(wire, "CF.DEBUG", "c")
        assert b"items:3 deletes:2" in before
        assert ask(wire, "DEBUG", "RELOAD") == "OK"
        assert ask(wire, "CF.DEBUG", "c") == before
        assert ask(wire, "SAVE") == "OK"
        assert server.stop() == 0
    with Server(folder / "stores") as server:
        assert server.ask("CF.DEBUG", "c") == before


def test_an_empty_name_is_a_name(server):
    assert server.ask("BF.ADD", "", "a") == 1
    assert server.ask("KEYS", "*") == [b""]
    assert (server.folder / "%.ever").exists()
    assert server.ask("RENAME", "", "%") == "OK"
    assert (server.folder / "%25.ever").exists()


def test_a_browser_gets_no_answer(server):
    with server.wire() as wire:
        wire.send(b"BF.ADD k a\r\nPOST / HTTP/1.1\r\nBF.ADD k b\r\n")
        assert wire.to_the_end() == b""
    assert server.ask("BF.MEXISTS", "k", "a", "b") == [1, 0]


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        ("CLIENT TRACKING ON", "ERR this server tells nobody of changes: CLIENT TRACKING is not supported"),
        ("CLIENT SETINFO COLOUR red", "ERR Unrecognized option 'COLOUR'"),
        ("CONFIG SET save x", "ERR Unknown option or number of arguments for CONFIG SET - 'save'"),
        ("CONFIG REWRITE", "ERR The server is running without a config file"),
        ("MODULE NONSENSE", "ERR unknown subcommand 'NONSENSE'. Try MODULE HELP."),
        ("OBJECT HELP", "ERR unknown subcommand 'HELP'. Try OBJECT HELP."),
        ("COMMAND GETKEYS nonsense a b", "ERR Invalid command specified"),
        ("COMMAND GETKEYS ping a", "ERR The command has no key arguments"),
        ("COMMAND GETKEYS ttl a b", "ERR Invalid number of arguments specified for command"),
        ("COMMAND LIST FILTERBY COLOUR red", "ERR syntax error"),
        ("COPY a b NONSENSE", "ERR syntax error"),
        ("MEMORY USAGE a SAMPLES -1", "ERR syntax error"),
        ("RESTORE a -1 x", "ERR Invalid TTL value, must be >= 0"),
        ("SHUTDOWN x", "ERR syntax error"),
        ("CLUSTER INFO", "ERR This instance has cluster support disabled"),
    ],
)
def test_what_is_refused(server, command, refusal):
    assert server.ask(*command.split()) == refusal


def test_a_store_is_no_value_of_redis(server):
    server.ask("BF.ADD", "k", "a")
    assert server.ask("DUMP", "k") == "ERR a store is no value of Redis: BF.SCANDUMP and CF.SCANDUMP move it"
    assert server.ask("RESTORE", "k", "0", "x") == "BUSYKEY Target key name already exists."


@pytest.mark.parametrize("count", ["1", "7", "1000"])
def test_a_scan_meets_each_key_whatever_comes_and_goes(server, count):
    """As scripts do that remove what they find; other keys come meanwhile."""
    with server.wire() as wire:
        names = [b"key:%d" % number for number in range(50)]
        for name in names:
            wire.ask("BF.RESERVE", name, "0.01", "10")
        cursor, met, calls = b"0", [], 0
        while calls == 0 or cursor != b"0":
            cursor, found = ask(wire, "SCAN", cursor, "COUNT", count, "MATCH", "key:*")
            met += found
            calls += 1
            assert len(found) <= int(count)
            for name in found:
                assert ask(wire, "DEL", name) == 1
            wire.ask("BF.RESERVE", f"other{calls}", "0.01", "10")
            assert 0 <= int(cursor) < 1 << 53
        assert sorted(met) == sorted(names)
        assert ask(wire, "SCAN", str(2**64 - 1)) == [b"0", []]
