"""Crawlee crawls whose queue and whose seen set are one state, which survives `kill -9`.

A storage client for Crawlee for Python. Request queues are Everseen's; data sets and key-value stores are Crawlee's own,
in files:

```python
from crawlee.configuration import Configuration
from crawlee.crawlers import HttpCrawler

from everseen.crawlee import StorageClient

crawler = HttpCrawler(
    storage_client=StorageClient(),
    configuration=Configuration(purge_on_start=False),
)
```

Crawlee empties unnamed queues when it starts, unless `purge_on_start` is false.

A request is written to a journal when it is added, and when it is done. Its unique key goes into a store, which is committed
once a second together with the journal's length. Opening a queue goes back to the last commit and repeats what the journal has
behind it. So a crawl that is killed goes on where it was: requests in progress are fetched again, and none is lost. A power
cut takes back what was not committed yet, requests and keys alike.

Memory is that of the requests that are not done. Of those that are done, the store keeps a hash: `get_request` doesn't find
them, and for a share of new requests no larger than `fpr` they are taken for done.

Crawlee adds the links of a page before it marks the page as done, but only the first 1,000 of one call: the others are added
in the background, and are lost if the crawl is killed meanwhile. For larger pages call `add_requests` several times.
"""

from everseen._journal import JournalError
from everseen.crawlee._client import RequestQueueClient, StorageClient
from everseen.crawlee._queue import OtherQueueError

__all__ = ["JournalError", "OtherQueueError", "RequestQueueClient", "StorageClient"]
