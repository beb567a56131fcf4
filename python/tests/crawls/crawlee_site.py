"""Crawls of a local site with Crawlee that are killed and resumed.

    python crawlee_site.py --pages 5000 --kills 50               # with everseen.crawlee.StorageClient
    python crawlee_site.py --pages 5000 --kills 50 --crawlee     # with Crawlee's own queue in files, beside it

See `crawl_site` for the site.
"""

from __future__ import annotations

import asyncio
import os
import pathlib
import subprocess
import sys

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


def options_of(interval: float | None) -> dict[str, object] | None:
    return None if interval is None else {"commit_interval": interval}


if __name__ == "__main__":
    crawl_site.measure(__doc__, "Crawlee", 5_000, 50, options_of, run)
