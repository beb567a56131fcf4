"""Scrapy crawls that remember every page they have seen, and resume after `kill -9`.

Two classes for a project's settings. Both keep fingerprints in a store on disk, so memory stays constant:

- `DupeFilter` takes the place of Scrapy's own filter. It is safe for crawls that end by themselves or by a signal that
  Scrapy handles.
- `Scheduler` keeps what is queued and in flight too, in one state with what was seen. A crawl that is killed goes on
  from its last commit: it may fetch a page twice, and loses none.

```python
SCHEDULER = "everseen.scrapy.Scheduler"
JOBDIR = "crawl"
```

Settings:

- `EVERSEEN_PATH`: The store's file; `requests.ever` in `JOBDIR` unless given. Several crawls may share one.
- `EVERSEEN_FPR`: The share of new pages that may be taken for seen (1e-9). A store that exists must be as good.
- `EVERSEEN_CAPACITY`: How many pages the store is for. Without it, the store grows. A store that exists must be as large.
- `EVERSEEN_FORGET_AFTER`: Fetches pages again this long after the crawl began that fetched them: seconds, or `"12h"`,
  `"30d"`. The store forgets them then, a fifteenth of that later at the latest. For a crawl, time stands still: however
  long it takes, it fetches each page once, also if it is stopped or killed and goes on later. The first run after its
  end begins the next crawl. A store keeps the time that it was created with.
- `EVERSEEN_BUFFER`: Bytes of memory for the store.
- `EVERSEEN_WRITER`: The name under which the crawl commits; `scrapy:` and the spider's name unless given. Crawls that
  share a store need different ones.
- `EVERSEEN_COMMIT_INTERVAL`: Seconds between commits (1). A killed crawl goes back by this much.
- `EVERSEEN_AFTER_CRASH`: What `DupeFilter` does after a crawl that was killed: `"stop"` (the default) or `"keep"`.
- `EVERSEEN_UNSERIALIZABLE`: What `Scheduler` does with a request that can't be written to disk: `"count"` it and keep it
  in memory (the default), or raise an `"error"`.

Stats: `everseen/new`, `everseen/seen` and `everseen/pending` (claimed by another crawl that has not committed yet, so
fetched here as well) count requests. `everseen/commits` counts commits, `everseen/rolled_back` the keys that a killed
run had not committed, `everseen/requeued` the requests that opening has queued again. `everseen/expected_false` is how
many new pages are expected to have been taken for seen.
"""

from everseen.scrapy._dupefilter import DupeFilter
from everseen._journal import JournalError
from everseen.scrapy._scheduler import Scheduler
from everseen.scrapy._state import OtherJobError, UncleanEndError

__all__ = ["DupeFilter", "JournalError", "OtherJobError", "Scheduler", "UncleanEndError"]
