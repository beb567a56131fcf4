"""A store in which a write failed works again once writes do, and what clients are told of failures."""

import resource

from conftest import Server
from resp import parsed


def test_a_failed_write_is_an_error_until_writes_go_again(folder):
    # Twice what a new store's files have.
    limit = 256 << 10
    with Server(folder / "stores", durable="always") as server:
        pid = server.process.pid
        with server.wire() as wire:
            assert parsed(wire.ask("BF.ADD", "k", "first")) == 1
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            kept, answer = [], None
            for batch in range(1_000):
                items = [f"item {batch} {number}" for number in range(1_000)]
                answer = wire.ask("BF.MADD", "k", *items)
                if b"-" in answer:
                    break
                kept += items
            assert b"-ERR" in answer, "no write failed"
            assert kept
            # Items of the folder's owner, not of the client.
            assert str(folder).encode() not in answer
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            assert parsed(wire.ask("BF.ADD", "k", "last")) == 1
            for begin in range(0, len(kept), 10_000):
                part = kept[begin : begin + 10_000]
                assert parsed(wire.ask("BF.MEXISTS", "k", *part)) == [1] * len(part)
            assert parsed(wire.ask("BF.EXISTS", "k", "first")) == 1


def test_errors_name_a_file_without_its_folder(folder):
    stores = folder / "stores"
    stores.mkdir()
    (stores / "text.ever").write_text("no store\n")
    (folder / "link").symlink_to(stores)
    for given in [stores, folder / "link", "stores", "link"]:
        with Server(given) as server:
            assert server.ask("BF.ADD", "text", "a") == "ERR text.ever: not an Everseen store"
