"""Scrapy's scheduler, whose queue and whose filter go back to the same commit."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING, Any

import scrapy.core.scheduler
from scrapy.core.engine import ExecutionEngine
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.utils.job import job_dir
from scrapy.utils.misc import build_from_crawler, load_object

from everseen.errors import EverseenError
from everseen.scrapy._dupefilter import DupeFilter
from everseen._journal import Journal, JournalError
from everseen.scrapy._pending import Pending, QueueMaker
from everseen.scrapy._state import OtherJobError, Settings, State

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)


def _filter_class(crawler: Crawler) -> type[DupeFilter]:
    """Return the filter's class: it has to be one whose store the scheduler can commit."""
    given = load_object(crawler.settings["DUPEFILTER_CLASS"])
    if given is RFPDupeFilter:
        return DupeFilter
    if given is BaseDupeFilter:
        return NoFilter
    if isinstance(given, type) and issubclass(given, DupeFilter):
        return given
    raise ValueError(
        f"DUPEFILTER_CLASS is {crawler.settings['DUPEFILTER_CLASS']}: everseen.scrapy.Scheduler has a filter of its own, "
        "since both go back to one commit. Leave the setting out, or derive the class from everseen.scrapy.DupeFilter."
    )


class NoFilter(DupeFilter):
    """What `scrapy.dupefilters.BaseDupeFilter` is: it filters nothing. Its store has the commits of the queue alone."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        # Nothing is hashed, so the crawl's fingerprinter need not exist yet.
        return cls(Settings.of_crawler(crawler), stats=crawler.stats)

    def open(self) -> None:
        """Do nothing: without a queue on disk there is nothing to commit."""

    def request_seen(self, request: Request) -> bool:
        return False


def _is_fifo(queue_class: Any) -> bool:
    """Return whether a queue class of Scrapy's, or one derived from them, is first in, first out."""
    return any("Fifo" in base.__name__ for base in queue_class.__mro__)


class Scheduler(scrapy.core.scheduler.Scheduler):
    """A scheduler whose crawls resume after `kill -9`: `SCHEDULER = "everseen.scrapy.Scheduler"`, with a `JOBDIR`.

    Every `EVERSEEN_COMMIT_INTERVAL` seconds it commits what was seen, what is queued and what is in flight, as one
    state. After a crawl that was killed, or a power cut, the next one goes on from the last commit: requests that were
    queued or in flight then are queued again, and what was seen later is forgotten, so that it is found again. A page
    may be fetched twice; none is lost. A request is done when its callback's output has been taken by the engine and
    the item pipelines, its errback has run, or it was dropped.

    Requests are ordered as Scrapy orders them, by `SCHEDULER_PRIORITY_QUEUE`. Whether those of one priority are taken
    first in, first out or last in, first out is what the classes `SCHEDULER_DISK_QUEUE` and
    `SCHEDULER_START_DISK_QUEUE` do; nothing else of theirs is used.

    Without a `JOBDIR` the queue is in memory, as Scrapy's is, and the crawl can't be resumed; a warning says so.

    A request that can't be serialized is kept in memory, counted (`scheduler/unserializable`), and lost if the crawl is
    killed; with `EVERSEEN_UNSERIALIZABLE = "error"` it raises `ValueError`.

    After a write that failed, as on a full disk, the run commits nothing more, and ends: a page may count as seen that no
    queue has. The next run goes on from the last commit.
    """

    df: DupeFilter
    _pending: Pending | None = None
    _failed = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        return cls(
            dupefilter=build_from_crawler(_filter_class(crawler), crawler),
            jobdir=job_dir(settings),
            dqclass=load_object(settings["SCHEDULER_DISK_QUEUE"]),
            mqclass=load_object(settings["SCHEDULER_MEMORY_QUEUE"]),
            logunser=settings.getbool("SCHEDULER_DEBUG"),
            stats=crawler.stats,
            pqclass=load_object(settings["SCHEDULER_PRIORITY_QUEUE"]),
            crawler=crawler,
        )

    def _dqdir(self, jobdir: str | None) -> str | None:
        # The queue is a file in the job's folder, not a folder of its own.
        return jobdir

    def open(self, spider: Spider) -> None:
        """Open the store and the queue, and go back to the last commit.

        Raises:
            OtherJobError: The job's folder belongs to a crawl of another kind.
            JournalError: The queue is missing or damaged.
        """
        assert self.crawler is not None
        if self.dqdir is None:
            message = "Without a JOBDIR the queue of everseen.scrapy.Scheduler is in memory, and the crawl can't be resumed"
            logger.warning(message, extra={"spider": spider})
            super().open(spider)
            return
        engine = self.crawler.engine
        if isinstance(engine, ExecutionEngine) and not hasattr(engine, "_slot"):
            raise RuntimeError("this version of Scrapy does not say which requests are in flight")
        self.spider = spider
        self.mqs = self._mq()
        folder = Path(self.dqdir)
        path = self.df.settings.path
        if path is not None and not path.exists():
            # Before there is a new store beside what is left of another job.
            self._refuse_leftovers(folder)
        state = self.df.open_store()
        try:
            journal, live = self._open_journal(folder, state)
        except BaseException:
            self.df.close_store()
            raise
        pending = Pending(journal, spider)
        try:
            self.dqs = self._priority_queue(pending)
            for place in live:
                pending.queue_again(self.dqs, place)
        except BaseException:
            # What is not queued yet stays in the journal: the end of this run may commit nothing.
            journal.close()
            self.df.close_store()
            raise
        self._pending = pending
        self._tell(state, len(live))
        self.df.commit_through(self._commit)
        self._committed = -1
        self._commit()
        Journal.remove_others(folder, pending.journal.number)

    def _open_journal(self, folder: Path, state: State | None) -> tuple[Journal, dict[int, int]]:
        if state is not None:
            if state.journal is None:
                raise OtherJobError(
                    f"the crawl in {folder} was begun with Scrapy's scheduler, whose queue this one can't read. "
                    "Go on with that one, or give this crawl another JOBDIR."
                )
            return Journal.open(folder, state.journal, state.length)
        self._refuse_leftovers(folder)
        return Journal.create(folder, 1), {}

    @staticmethod
    def _refuse_leftovers(folder: Path) -> None:
        # A run that was killed before its first commit leaves an empty one.
        if any(Journal.path(folder, number).stat().st_size for number in Journal.numbers(folder)):
            raise JournalError(
                f"the queue in {folder} belongs to a store that is gone, or to another EVERSEEN_WRITER. "
                "Put it back, or give this crawl another JOBDIR."
            )
        if (folder / "requests.queue" / "active.json").exists():
            raise OtherJobError(
                f"{folder} has a queue of Scrapy's scheduler, which this one can't read. "
                "Finish that crawl with it, or give this one another JOBDIR."
            )

    def _priority_queue(self, pending: Pending) -> Any:
        assert self.crawler is not None and self.pqclass is not None
        start = self._sdqclass
        return build_from_crawler(
            self.pqclass,
            self.crawler,
            downstream_queue_cls=QueueMaker(pending, _is_fifo(self.dqclass)),
            key="",
            start_queue_cls=None if start is None else QueueMaker(pending, _is_fifo(start)),
        )

    def _tell(self, state: State | None, live: int) -> None:
        assert self.stats is not None and self.df.store is not None
        self.stats.inc_value("everseen/requeued", live)
        if state is None:
            return
        if state.clean:
            logger.info("Resuming crawl (%d requests scheduled)", live, extra={"spider": self.spider})
            return
        logger.warning(
            "The last run was killed. Resuming at its last commit: %d requests are scheduled, those among them that were"
            " in flight. %d pages that were seen after it are forgotten, and will be found again.",
            live,
            self.df.rolled_back,
            extra={"spider": self.spider},
        )

    def close(self, reason: str) -> None:
        """Commit what is left to do, and close."""
        if self.dqdir is None:
            super().close(reason)
            return
        if self._pending is None:
            # Opening has failed, and has said why.
            return
        if len(self.mqs):
            message = "%d requests that can't be serialized were not fetched, and are lost"
            logger.warning(message, len(self.mqs), extra={"spider": self.spider})
        try:
            with self._all_or_nothing():
                self._commit(clean=True)
        finally:
            self._pending.journal.close()
            if self._failed:
                self.df.close_store()
            else:
                self.df.finish()

    def enqueue_request(self, request: Request) -> bool:
        self._commit_if_due()
        if self.df.settings.strict and self._pending is not None:
            # Before it counts as seen.
            self._pending.serialize(request)
        with self._all_or_nothing():
            return super().enqueue_request(request)

    def next_request(self) -> Request | None:
        self._commit_if_due()
        return super().next_request()

    def _commit_if_due(self) -> None:
        if self._pending is not None and self.df.is_due:
            with self._all_or_nothing():
                self._commit()

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """After an error, have the run commit nothing more, and end it."""
        try:
            yield
        except (OSError, EverseenError):
            # The engine only logs it, and takes the page for done whose link this was.
            if self._pending is not None and not self._failed:
                self._failed = True
                logger.critical(
                    "A write has failed. This run commits nothing more, and ends; the next one goes on from the last commit.",
                    extra={"spider": self.spider},
                )
                self._end()
            raise

    def _end(self) -> None:
        assert self.crawler is not None
        engine = self.crawler.engine
        if not isinstance(engine, ExecutionEngine):
            return
        if hasattr(engine, "close_spider_async"):
            from scrapy.utils.defer import _schedule_coro

            _schedule_coro(engine.close_spider_async(reason="everseen_failed"))
        else:
            engine.close_spider(self.spider, "everseen_failed")

    def _at_work(self) -> Container[Request] | None:
        """Return the requests that the engine is at work on: until their output is processed.

        The end of a callback's output, which a spider middleware could see, is too early: by then its last requests
        and items may wait in the engine, and would be lost with it.
        """
        assert self.crawler is not None
        slot = getattr(self.crawler.engine, "_slot", None)
        at_work = getattr(slot, "inprogress", None)
        # An engine that does not say it has nothing done: its requests may come twice, and none is lost.
        return at_work if isinstance(at_work, Container) else None

    def _commit(self, *, clean: bool = False) -> None:
        """Commit what was seen, and what is left to do.

        Only between two requests: then the store, the journal and the engine agree.
        """
        pending, before = self._pending, None
        assert pending is not None
        if self._failed:
            self.df.postpone()
            return
        at_work = self._at_work()
        if at_work is not None:
            pending.settle(at_work)
        if pending.journal.is_wasteful:
            before = pending.rewrite()
        journal = pending.journal
        unchanged = journal.length == self._committed and not self.df.has_uncommitted
        if unchanged and before is None and not clean:
            self.df.postpone()
            return
        journal.sync()
        self.df.commit(State(clean, journal.number, journal.length), is_over=pending.is_empty)
        self._committed = journal.length
        if before is not None:
            before.close()
            Journal.path(Path(self.dqdir or "."), before.number).unlink()
