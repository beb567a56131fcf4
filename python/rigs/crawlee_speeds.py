"""What a request costs in a queue of Crawlee's: with everseen.crawlee, and in files as Crawlee itself keeps it.

    python python/rigs/crawlee_speeds.py --requests 5000
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time

from crawlee import Request
from crawlee.configuration import Configuration
from crawlee.storage_clients import FileSystemStorageClient, StorageClient

import everseen.crawlee


async def measure(name: str, storage: StorageClient, requests: int, folder: str) -> None:
    """Add requests, 50 at a time, then fetch and end each; print the times and what is on disk."""
    configuration = Configuration(purge_on_start=False, storage_dir=folder)
    client = await storage.create_rq_client(name="pages", configuration=configuration)
    begun = time.perf_counter()
    for first in range(0, requests, 50):
        batch = [Request.from_url(f"https://example.org/{n}") for n in range(first, first + 50)]
        await client.add_batch_of_requests(batch)
    added = time.perf_counter()
    while (request := await client.fetch_next_request()) is not None:
        await client.mark_request_as_handled(request)
    done = time.perf_counter()
    files = [os.path.join(where, file) for where, _, names in os.walk(folder) for file in names]
    size = sum(os.stat(file).st_blocks * 512 for file in files)
    add, end = (added - begun) / requests * 1e6, (done - added) / requests * 1e6
    print(f"{name}: {add:.0f} us to add, {end:.0f} us to fetch and end; {size / 2**20:.1f} MiB in {len(files)} files")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=5_000)
    given = parser.parse_args()
    for name, storage in (("Everseen", everseen.crawlee.StorageClient()), ("Crawlee", FileSystemStorageClient())):
        with tempfile.TemporaryDirectory(prefix="everseen-crawlee-") as folder:
            asyncio.run(measure(name, storage, given.requests, folder))


if __name__ == "__main__":
    main()
