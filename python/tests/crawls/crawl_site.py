"""A site on the loopback interface, and crawls of it that are killed and resumed.

    python crawl_site.py --pages 100000 --kills 200              # with everseen.scrapy.Scheduler
    python crawl_site.py --pages 100000 --kills 200 --scrapy     # with Scrapy's own, beside it

A page names others: its children in a tree, so that each page is found only by way of its parent, and some at random,
so that most links are to pages that were seen. A crawl is a process of its own (`crawl`), and is killed at the moment
when the site has answered a number of requests, which is drawn at random.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

CHILDREN = 5
OTHERS = 3


class Site:
    """The site, on a thread of its own."""

    def __init__(self, pages: int) -> None:
        self.pages = pages
        self.fetched: collections.Counter[int] = collections.Counter()
        self._answered = 0
        self._awaited: int | None = None
        self._reached = threading.Event()
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()

        async def serve() -> None:
            self._stop = asyncio.Event()
            server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            ready.set()
            await self._stop.wait()
            server.close()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

        self._thread = threading.Thread(target=self._loop.run_until_complete, args=[serve()])
        self._thread.start()
        ready.wait()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    def links(self, page: int) -> list[int]:
        children = range(CHILDREN * page + 1, min(CHILDREN * (page + 1) + 1, self.pages))
        rng = random.Random(page)
        return [*children, *(rng.randrange(self.pages) for _ in range(OTHERS))]

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                page = int(head.split(b" ", 2)[1][1:])
                body = "\n".join(f"/{link}" for link in self.links(page)).encode()
                self.fetched[page] += 1
                self._answered += 1
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
                )
                await writer.drain()
                if self._awaited is not None and self._answered >= self._awaited:
                    self._awaited = None
                    self._reached.set()
        writer.close()

    def after(self, requests: int) -> threading.Event:
        """Returns what is set after this many more requests."""
        self._reached = threading.Event()
        self._awaited = self._answered + requests
        return self._reached


def crawl(port: int, settings: dict[str, object], began: float | None = None) -> None:
    """Crawls the site, to its end. Each page that was processed is a line of `processed`.

    A crawl that is to have begun at another time gets that time instead of the clock.
    """
    import scrapy
    from scrapy.crawler import CrawlerProcess

    from everseen.scrapy import _dupefilter

    if began is not None:
        _dupefilter.time = lambda: began

    processed = os.open("processed", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    class Pipeline:
        def process_item(self, item, spider=None):
            os.write(processed, b"%d\n" % item["page"])
            return item

    class Pages(scrapy.Spider):
        name = "pages"

        async def start(self):
            yield scrapy.Request(f"http://127.0.0.1:{port}/0")

        def parse(self, response):
            for link in response.text.split():
                yield response.follow(link)
            yield {"page": int(response.url.rsplit("/")[-1])}

    process = CrawlerProcess(
        {
            "LOG_LEVEL": "WARNING",
            "TELNETCONSOLE_ENABLED": False,
            "REMOTE_CONTROL_ENABLED": False,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
            "DOWNLOAD_DELAY": 0,
            "JOBDIR": "job",
            "ITEM_PIPELINES": {Pipeline: 100},
            **settings,
        }
    )
    failures = []
    process.crawl(Pages).addErrback(failures.append)
    process.start()
    for failure in failures:
        failure.printTraceback()
    sys.exit(bool(failures))


def run(port: int, settings: dict[str, object], began: float | None = None) -> subprocess.Popen[bytes]:
    code = f"import crawl_site; crawl_site.crawl({port}, {settings!r}, {began!r})"
    here = str(pathlib.Path(__file__).resolve().parent)
    return subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": here})


def processed() -> collections.Counter[int]:
    return collections.Counter(map(int, pathlib.Path("processed").read_text().split()))


def killed_and_resumed(
    site: Site, settings: Any, kills: int, rng: random.Random, run: Callable[..., subprocess.Popen[bytes]] = run
) -> int:
    """Crawls in the current folder, kills the crawl this many times, and lets it end. Returns how often it was killed."""
    done = 0
    for left in range(kills, 0, -1):
        # About as many requests for each run, and some for the last one.
        reached = site.after(rng.randrange(2 * site.pages // (kills + 2) + 2) + 1)
        crawler = run(site.port, settings)
        while not reached.wait(0.01) and crawler.poll() is None:
            pass
        ended = crawler.poll() is not None
        with contextlib.suppress(ProcessLookupError):
            crawler.send_signal(signal.SIGKILL)
        crawler.wait()
        if ended:
            assert crawler.returncode == 0, f"the crawl failed with {left} kills left"
            break
        done += 1
    crawler = run(site.port, settings)
    assert crawler.wait() == 0
    return done


def lose_no_page(
    site: Site, settings: Any, kills: int, say: Callable[[str], None], run: Callable[..., subprocess.Popen[bytes]] = run
) -> None:
    """Kills a crawl of the site and lets it end: each page is processed, and another crawl has nothing to fetch."""
    seed = int.from_bytes(os.urandom(4), "big")
    landed = killed_and_resumed(site, settings, kills, random.Random(seed), run)
    found = processed()
    again = site.fetched.total() - site.pages
    say(f"{site.pages} pages, {landed} of {kills} kills landed, {again} fetched again, seed {seed}")
    assert landed > 0, f"seed {seed}"
    assert set(found) == set(range(site.pages)), f"seed {seed}, {landed} kills, {again} fetched again"
    before = site.fetched.total()
    assert run(site.port, settings).wait() == 0
    assert site.fetched.total() == before


def measure(
    description: str | None,
    peer: str,
    pages: int,
    kills: int,
    settings_of: Callable[[float | None], Any],
    run: Callable[..., subprocess.Popen[bytes]] = run,
) -> None:
    """Kills a large crawl, as the command line asks. The settings follow from the interval of commits; `None` asks for those
    of the peer alone."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=pages)
    parser.add_argument("--kills", type=int, default=kills)
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between commits")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument(f"--{peer.lower()}", dest="alone", action="store_true", help=f"with {peer}'s own, beside it")
    given = parser.parse_args()
    settings = settings_of(None if given.alone else given.interval)
    print(f"{given.pages} pages, {given.kills} kills, seed {given.seed}, {settings or f'{peer} alone'}")
    site, begun = Site(given.pages), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="everseen-crawl-") as folder, contextlib.chdir(folder):
        try:
            landed = killed_and_resumed(site, settings, given.kills, random.Random(given.seed), run)
        finally:
            site.close()
        found = processed()
    print(f"killed {landed} times, {time.monotonic() - begun:.0f} s")
    print(f"pages processed: {len(found)} of {given.pages}; lost: {given.pages - len(found)}")
    print(f"processed more than once: {sum(count > 1 for count in found.values())}")
    print(f"requests answered: {site.fetched.total()}, {site.fetched.total() - len(site.fetched)} of them again")


OURS = {"SCHEDULER": "everseen.scrapy.Scheduler"}


def settings_of(interval: float | None) -> dict[str, object]:
    return {} if interval is None else {**OURS, "EVERSEEN_COMMIT_INTERVAL": interval}


if __name__ == "__main__":
    measure(__doc__, "Scrapy", 100_000, 200, settings_of)
