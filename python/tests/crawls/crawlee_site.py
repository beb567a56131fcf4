"""Crawls of a local site with Crawlee that are killed and resumed.

    python crawlee_site.py --pages 5000 --kills 50               # with everseen.crawlee.StorageClient
    python crawlee_site.py --pages 5000 --kills 50 --crawlee     # with Crawlee's own queue in files, beside it

See `crawl_site` for the site.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import crawl_site


async def crawl(port: int, options: dict[str, object] | None) -> None:
    """Crawls the site, to its end. Each page that was processed is a line of `processed`. Without options, Crawlee's own."""
    import logging

    from crawlee import ConcurrencySettings
    from crawlee.configuration import Configuration
    from crawlee.crawlers import HttpCrawler, HttpCrawlingContext
    from crawlee.storage_clients import FileSystemStorageClient

    from everseen.crawlee import StorageClient

    logging.disable(logging.WARNING)
    processed = os.open("processed", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    crawler = HttpCrawler(
        storage_client=FileSystemStorageClient() if options is None else StorageClient(**options),
        configuration=Configuration(purge_on_start=False, storage_dir="storage"),
        concurrency_settings=ConcurrencySettings(min_concurrency=8, desired_concurrency=8, max_concurrency=16),
        configure_logging=False,
    )

    @crawler.router.default_handler
    async def handle(context: HttpCrawlingContext) -> None:
        links = (await context.http_response.read()).decode().split()
        await context.add_requests([f"http://127.0.0.1:{port}{link}" for link in links])
        os.write(processed, b"%d\n" % int(context.request.url.rsplit("/")[-1]))

    await crawler.run([f"http://127.0.0.1:{port}/0"])


def run(port: int, options: dict[str, object] | None) -> subprocess.Popen[bytes]:
    code = f"import asyncio, crawlee_site; asyncio.run(crawlee_site.crawl({port}, {options!r}))"
    here = str(pathlib.Path(__file__).resolve().parent)
    path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    return subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=5_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between commits")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--crawlee", action="store_true", help="with Crawlee's own queue")
    given = parser.parse_args()
    options = None if given.crawlee else {"commit_interval": given.interval}
    print(f"{given.pages} pages, {given.kills} kills, seed {given.seed}, {options or 'Crawlee alone'}")
    site, begun = crawl_site.Site(given.pages), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="everseen-crawl-") as folder, contextlib.chdir(folder):
        try:
            kills = crawl_site.killed_and_resumed(site, options, given.kills, random.Random(given.seed), run)
        finally:
            site.close()
        found = crawl_site.processed()
    print(f"killed {kills} times, {time.monotonic() - begun:.0f} s")
    print(f"pages processed: {len(found)} of {given.pages}; lost: {given.pages - len(found)}")
    print(f"processed more than once: {sum(count > 1 for count in found.values())}")
    print(f"requests answered: {site.fetched.total()}, {site.fetched.total() - len(site.fetched)} of them again")


if __name__ == "__main__":
    main()
