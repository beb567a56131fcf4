"""The storage client for Crawlee, without a crawl."""

import asyncio
import os
import pathlib
import random
import shutil
import subprocess
import sys
import threading
from collections import deque

import pytest

pytest.importorskip("crawlee", reason="crawlee is not installed")

from crawlee import Request
from crawlee.configuration import Configuration
from crawlee.storage_clients import FileSystemStorageClient

from everseen import _journal, errors
from everseen.crawlee import JournalError, OtherQueueError, RequestQueueClient, StorageClient
from everseen.crawlee._queue import Options, Queue

SEED = int(os.environ.get("EVERSEEN_SEED", random.randrange(1 << 32)))
FOLDER = pathlib.Path("storage/request_queues/pages/everseen")


@pytest.fixture(autouse=True)
def closed():
    yield
    for queue in list(Queue._opened.values()):
        queue.close()


def request(n):
    return Request.from_url(f"https://example.org/{n}")


def number(found):
    return None if found is None else int(found.url.rsplit("/")[-1])


async def client_of(name="pages", purge=False, **options):
    storage = StorageClient(**{"commit_interval": 1000, "buffer": 1 << 20, **options})
    configuration = Configuration(purge_on_start=purge, storage_dir="storage")
    return await storage.create_rq_client(name=name, configuration=configuration)


async def killed(client, length=None):
    """Leaves a queue as a killed process does, or as a power cut does that takes what is behind a length of its journal."""
    queue = client._queue
    del Queue._opened[queue._folder]
    path = queue._journal.path(queue._folder, queue._journal.number)
    queue._journal.close()
    queue._store.close(discard=True)
    if length is not None:
        with open(path, "r+b") as file:
            file.truncate(length)


async def drained(client):
    return [number(found) async for found in taken(client)]


async def taken(client):
    while (found := await client.fetch_next_request()) is not None:
        yield found


class Model:
    """What a queue should be."""

    def __init__(self):
        self.waiting, self.in_progress, self.done = deque(), [], set()
        # Places in the journal: where a request stands that is queued again after a kill.
        self.order = {}
        self.clock = 0

    def add(self, n, front):
        if n in self.done or n in self.in_progress:
            return
        if n in self.waiting:
            if not front:
                return
            self.waiting.remove(n)
        self.queue(n, front)

    def queue(self, n, front):
        self.clock += 1
        self.order[n] = (self.clock, front)
        (self.waiting.appendleft if front else self.waiting.append)(n)

    def take(self):
        if not self.waiting:
            return None
        self.in_progress.append(self.waiting.popleft())
        return self.in_progress[-1]

    def end(self, n):
        self.in_progress.remove(n)
        self.done.add(n)

    def put_back(self, n, front):
        self.in_progress.remove(n)
        self.queue(n, front)

    def reopen(self):
        left = sorted([*self.waiting, *self.in_progress], key=lambda n: self.order[n][0])
        self.waiting, self.in_progress = deque(), []
        for n in left:
            (self.waiting.appendleft if self.order[n][1] else self.waiting.append)(n)


async def step(rng, client, model):
    """One thing that a crawler does."""
    what = rng.random()
    if what < 0.35:
        batch, front = [rng.randrange(80) for _ in range(rng.randrange(1, 4))], rng.random() < 0.3
        answer = await client.add_batch_of_requests([request(n) for n in batch], forefront=front)
        for n, found in zip(batch, answer.processed_requests, strict=True):
            known = n in model.waiting or n in model.in_progress or n in model.done
            assert (found.was_already_present, found.was_already_handled) == (known, n in model.done)
            model.add(n, front)
    elif what < 0.7 or not model.in_progress:
        assert number(await client.fetch_next_request()) == model.take()
    else:
        n = rng.choice(model.in_progress)
        if what < 0.9:
            assert (await client.mark_request_as_handled(request(n))).was_already_handled
            model.end(n)
        else:
            front = rng.random() < 0.5
            again = request(n)
            again.retry_count = 3
            assert not (await client.reclaim_request(again, forefront=front)).was_already_handled
            model.put_back(n, front)


async def check(client, model):
    metadata = await client.get_metadata()
    left = len(model.waiting) + len(model.in_progress)
    assert await client.is_empty() == (not model.waiting)
    assert await client.is_finished() == (left == 0)
    assert metadata.pending_request_count == left
    assert metadata.handled_request_count == len(model.done)
    assert metadata.total_request_count == left + len(model.done)


@pytest.mark.parametrize("small", [_journal._SMALL, 0])
def test_a_queue_is_that_of_the_model_through_kills(folder, monkeypatch, small):
    """Nothing that was done before a kill is lost or comes twice, committed or not."""
    monkeypatch.setattr(_journal, "_SMALL", small)
    rng, model = random.Random(SEED), Model()

    async def life():
        client = await client_of(commit_interval=rng.choice([0, 1000]))
        await check(client, model)
        for _ in range(rng.randrange(1, 40)):
            await step(rng, client, model)
        await check(client, model)
        if rng.random() < 0.8:
            await killed(client)
        else:
            client._queue.close()
        model.reopen()

    try:
        for _ in range(40):
            asyncio.run(life())
        assert len(model.done) > 30
        if small == 0:
            assert _journal.Journal.numbers(FOLDER) != [1], "the journal was rewritten"
    except BaseException as error:
        error.add_note(f"seed {SEED}")
        raise


def test_a_power_cut_goes_back_to_a_moment(folder):
    """Whatever it leaves of the journal behind the commit: the queue is as it was at the last whole record."""

    async def run():
        client = await client_of()
        await client.add_batch_of_requests([request(n) for n in range(3)])
        client._commit()
        committed = client._queue._journal.length
        whole = [(committed, {0, 1, 2})]
        for n in range(3, 6):
            found = await client.fetch_next_request()
            await client.add_batch_of_requests([request(n)])
            whole.append((client._queue._journal.length, whole[-1][1] | {n}))
            await client.mark_request_as_handled(found)
            whole.append((client._queue._journal.length, whole[-1][1] - {number(found)}))
        await killed(client)
        shutil.copytree("storage", "before")
        rng, ends = random.Random(SEED), [end for end, _ in whole]
        cuts = {cut for end in ends for cut in (end - 1, end, end + 1)} | set(rng.sample(range(committed, ends[-1]), 10))
        for length in sorted(cut for cut in cuts if committed <= cut <= ends[-1]):
            shutil.rmtree("storage")
            shutil.copytree("before", "storage")
            with open(FOLDER / "requests.journal-1", "r+b") as file:
                file.truncate(length)
            client = await client_of()
            expected = max((end, left) for end, left in whole if end <= length)[1]
            assert set(await drained(client)) == expected, length
            # What it has had, it still knows, and nothing else.
            answer = await client.add_batch_of_requests([request(n) for n in range(7)])
            new = {n for n, found in enumerate(answer.processed_requests) if not found.was_already_present}
            added = max((end, max(left)) for end, left in whole if end <= length)[1]
            assert new == set(range(added + 1, 7)), length
            client._queue.close()
        # What was committed must be there.
        shutil.rmtree("storage")
        shutil.copytree("before", "storage")
        with open(FOLDER / "requests.journal-1", "r+b") as file:
            file.truncate(committed - 1)
        with pytest.raises(JournalError, match="damaged"):
            await client_of()

    asyncio.run(run())


def test_the_store_knows_nothing_that_the_journal_may_lose(folder, monkeypatch):
    log = []
    sync = _journal.Journal.sync
    monkeypatch.setattr(_journal.Journal, "sync", lambda journal: (log.append(journal.length), sync(journal)))

    async def run():
        client = await client_of(commit_interval=0)
        for n in range(20):
            await client.add_batch_of_requests([request(n)])
            assert log[-1] == client._queue._journal.length
            tag = client._queue._store.last_commit().tag
            assert f'"length": {log[-1]}'.encode() in tag

    asyncio.run(run())


def test_a_request_that_was_killed_while_it_was_put_back(folder, monkeypatch):
    """It is in the journal twice then, and in the queue once, as it was last."""

    async def run():
        client = await client_of()
        await client.add_batch_of_requests([request(1), request(2)])
        again = await client.fetch_next_request()
        again.retry_count = 7
        with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
            patch.setattr(_journal.Journal, "done", lambda *_: 1 / 0)
            await client.reclaim_request(again)
        await killed(client)
        client = await client_of()
        found = [found async for found in taken(client)]
        assert [(number(one), one.retry_count) for one in found] == [(2, 0), (1, 7)]
        for one in found:
            await client.mark_request_as_handled(one)
        await killed(client)
        assert await drained(await client_of()) == []

    asyncio.run(run())


def test_a_request_that_was_killed_before_the_store_had_its_key(folder, monkeypatch):
    """As where a transaction is full: the journal is committed before the key."""

    async def run():
        client = await client_of()
        with monkeypatch.context() as patch:
            patch.setattr(Queue, "_insert", lambda queue, _: queue.commit())
            await client.add_batch_of_requests([request(1)])
        await killed(client)
        client = await client_of()
        await client.mark_request_as_handled(await client.fetch_next_request())
        answer = await client.add_batch_of_requests([request(1)])
        assert answer.processed_requests[0].was_already_handled

    asyncio.run(run())


def test_a_full_disk_takes_no_request_for_seen(folder, monkeypatch):
    async def run():
        client = await client_of()

        def full(*_):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch, pytest.raises(OSError, match="space"):
            patch.setattr(os, "pwrite", full)
            await client.add_batch_of_requests([request(1)])
        answer = await client.add_batch_of_requests([request(1)])
        assert not answer.processed_requests[0].was_already_present
        assert await drained(client) == [1]

    asyncio.run(run())


def test_a_queue_that_could_not_be_synced_is_left(folder, monkeypatch):
    """Another try could succeed, and what the first has lost would be missing without a word."""

    async def run():
        client = await client_of()
        await client.add_batch_of_requests([request(1)])

        def broken(_):
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch, pytest.raises(OSError, match="Input"):
            patch.setattr(os, "fdatasync", broken)
            await client.add_batch_of_requests([request(2)])
            client._commit()
        with pytest.raises(RuntimeError, match="closed"):
            await client.add_batch_of_requests([request(3)])
        assert await drained(await client_of()) == [1, 2]

    asyncio.run(run())


def test_commits_that_were_not_waited_for(folder, monkeypatch):
    """A task that is cancelled leaves its commit behind, and the next commit waits for it."""
    write, begun, two = RequestQueueClient._write_metadata, threading.Event(), threading.Event()
    inside = []

    def watched(client):
        if inside:
            two.set()
        inside.append(client)
        begun.set()
        # Time enough for one that doesn't wait.
        two.wait(0.2)
        write(client)
        inside.pop()

    async def run():
        client = await client_of(commit_interval=0)
        with monkeypatch.context() as patch:
            patch.setattr(RequestQueueClient, "_write_metadata", watched)
            task = asyncio.create_task(client.add_batch_of_requests([request(1)]))
            await asyncio.to_thread(begun.wait, 60)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await client.add_batch_of_requests([request(2)])
        assert not two.is_set()
        assert await drained(client) == [1, 2]

    asyncio.run(run())


def test_a_request_comes_back_as_it_was(folder):
    given = Request.from_url(
        "https://example.org/é?q=1",
        method="POST",
        payload="x=ü".encode(),
        headers={"x": "y"},
        user_data={"label": "ü", "n": {"deep": [1, None]}},
    )

    async def run():
        client = await client_of()
        await client.add_batch_of_requests([given])
        await killed(client)
        client = await client_of()
        assert await client.get_request(given.unique_key) == given
        assert await client.fetch_next_request() == given
        assert await client.get_request(given.unique_key) == given
        await client.mark_request_as_handled(given)
        assert await client.get_request(given.unique_key) is None

    asyncio.run(run())


def test_a_queue_that_is_opened_again_leaves_the_first(folder):
    async def run():
        first = await client_of()
        await first.add_batch_of_requests([request(1)])
        second = await client_of()
        with pytest.raises(RuntimeError, match="opened again"):
            await first.fetch_next_request()
        assert await drained(second) == [1]

    asyncio.run(run())


def test_another_process_is_kept_out(folder, monkeypatch):
    code = """
import asyncio, os, sys
sys.path.insert(0, os.environ["HERE"])
from test_crawlee import client_of, request
async def main():
    client = await client_of()
    await client.add_batch_of_requests([request(1)])
    print("ready", flush=True)
    sys.stdin.read()
asyncio.run(main())
"""
    environment = os.environ | {"HERE": str(pathlib.Path(__file__).parent)}
    other = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with other:
        assert other.stdout.readline() == "ready\n"
        with pytest.raises(errors.LockedError):
            Queue.open(FOLDER, Options(None, None, 1 << 20, 1.0, timeout=0.01))
        other.kill()

    async def run():
        assert await drained(await client_of()) == [1]

    asyncio.run(run())


@pytest.mark.parametrize("last", ["", "shutil.rmtree('storage')", "[*Queue._opened.values()][0]._store.close(discard=True)"])
def test_a_process_that_ends_says_nothing(folder, last):
    """Without a last word of the crawler, and without a warning of what was not committed."""
    code = f"""
import asyncio, os, sys
sys.path.insert(0, os.environ["HERE"])
from test_crawlee import Queue, client_of, request, shutil
async def main():
    client = await client_of()
    await client.add_batch_of_requests([request(1)])
    await client.add_batch_of_requests([request(2)])
asyncio.run(main())
{last}
"""
    environment = os.environ | {"HERE": str(pathlib.Path(__file__).parent)}
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")

    async def run():
        client = await client_of()
        assert client._queue._store.recovery.dropped == 0
        assert await drained(client) == ([] if "rmtree" in last else [1, 2])

    asyncio.run(run())


def test_purge_and_drop(folder):
    async def run():
        client = await client_of()
        await client.add_batch_of_requests([request(1), request(2)])
        await client.mark_request_as_handled(await client.fetch_next_request())
        identity = (await client.get_metadata()).id
        await client.purge()
        await check(client, Model())
        answer = await client.add_batch_of_requests([request(1)])
        assert not answer.processed_requests[0].was_already_present
        assert (await client_of()).path_to_metadata.exists()
        client = await client_of()
        assert (await client.get_metadata()).id == identity
        # A purge that was killed half-way.
        client._queue.close()
        (FOLDER / "seen.ever").replace(FOLDER.with_name("left"))
        FOLDER.rename(FOLDER.with_name("everseen.purged"))
        client = await client_of()
        await check(client, Model())
        assert not FOLDER.with_name("everseen.purged").exists()
        # On start, it is unnamed queues that are purged.
        await client.add_batch_of_requests([request(1)])
        assert await drained(await client_of(purge=True)) == [1]
        unnamed = await client_of(name=None)
        await unnamed.add_batch_of_requests([request(1)])
        assert await drained(await client_of(name=None)) == [1]
        assert await drained(await client_of(name=None, purge=True)) == []
        await unnamed.drop()
        assert not unnamed.path_to_rq.exists()

    asyncio.run(run())


def test_what_is_no_queue_of_ours_is_refused(folder):
    async def run():
        configuration = Configuration(purge_on_start=False, storage_dir="storage")
        theirs = await FileSystemStorageClient().create_rq_client(name="theirs", configuration=configuration)
        await theirs.add_batch_of_requests([request(1)])
        with pytest.raises(OtherQueueError, match="file system client"):
            await client_of("theirs")
        assert not (theirs.path_to_rq / "everseen").exists()
        ours = await client_of()
        await ours.add_batch_of_requests([request(1)])
        ours._queue.close()
        store = FOLDER / "seen.ever"
        kept = store.read_bytes()
        store.unlink()
        with pytest.raises(JournalError, match="gone"):
            await client_of()
        store.write_bytes(kept)
        (FOLDER / "requests.journal-1").unlink()
        with pytest.raises(JournalError, match="missing"):
            await client_of()
        for bad in ["a/b", "..", "/a"]:
            with pytest.raises(ValueError, match="Invalid"):
                await client_of(bad)

    asyncio.run(run())
