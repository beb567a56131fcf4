"""Scrapy's filter of requests, on disk."""

from __future__ import annotations

import dataclasses
import logging
import shutil
import tempfile
import warnings
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from scrapy.dupefilters import BaseDupeFilter
from scrapy.utils.request import RequestFingerprinter, referer_str

import everseen
from everseen.errors import NoEffectWarning, TransactionTooLargeError, UnmetOptionError
from everseen.scrapy._state import OtherJobError, Settings, State, UncleanEndError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from scrapy.statscollectors import StatsCollector
    from scrapy.utils.request import RequestFingerprinterProtocol

logger = logging.getLogger(__name__)
# Where Scrapy logs duplicates, and where people look for them.
_duplicates = logging.getLogger("scrapy.dupefilters")

# The rate of a new store.
_FPR = 1e-9

_ADVICE = """\
The last run of this crawl was killed. Its filter ({path}) knows the pages that the run had seen, but Scrapy's queue has \
forgotten those that it had not fetched yet: they would never be fetched. (If a run is still going on, give this one a \
name of its own with EVERSEEN_WRITER, and a JOBDIR.) Choose:
- EVERSEEN_AFTER_CRASH = "keep" goes on with what was seen at the last commit. Pages that were only queued are lost.
- Another JOBDIR begins the crawl anew.
- SCHEDULER = "everseen.scrapy.Scheduler", in a crawl that begins with it, resumes after a kill and loses no page."""


class DupeFilter(BaseDupeFilter):
    """A filter of requests that remembers them in a store: `DUPEFILTER_CLASS = "everseen.scrapy.DupeFilter"`.

    With a `JOBDIR` the store lasts from run to run. Without one, and without `EVERSEEN_PATH`, it is a temporary file.

    It is safe for crawls that end by themselves or by a signal that Scrapy handles. After one that was killed it raises
    `UncleanEndError`, which says what can be done: Scrapy's own queue does not survive that. `Scheduler` does.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        fingerprinter: RequestFingerprinterProtocol | None = None,
        stats: StatsCollector | None = None,
    ) -> None:
        self.settings = settings
        self.fingerprinter: RequestFingerprinterProtocol = fingerprinter or RequestFingerprinter()
        self.store: everseen.Store | None = None
        self.rolled_back = 0
        """The keys that a killed run had not committed."""
        self._begun: float | None = None
        self._stats = stats
        self._temporary: Path | None = None
        self._logs_duplicates = True
        # The scheduler, which commits more than the filter, sets its own.
        self._committer: Callable[[], None] = self._commit_alone
        self._due = 0.0
        self._claimed = 0
        self._new = 0
        # What another crawl has claimed and this one has queued all the same.
        self._let_through: set[bytes] = set()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(
            Settings.of_crawler(crawler),
            fingerprinter=crawler.request_fingerprinter,
            stats=crawler.stats,
        )

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        return cls(Settings.of(settings, None))

    @classmethod
    def from_spider(cls, spider: Spider) -> Self:
        return cls.from_crawler(spider.crawler)

    def open(self) -> None:
        """Open the store.

        Raises:
            UncleanEndError: The last run was killed.
            OtherJobError: The store belongs to a crawl of another kind.
        """
        if self.store is not None:
            return
        state = self.open_store()
        try:
            self._check(state)
            self.commit(State(clean=False))
        except BaseException:
            self.close_store()
            raise

    def _check(self, state: State | None) -> None:
        if state is None:
            return
        if state.journal is not None:
            raise OtherJobError(
                f"{self.settings.path} belongs to a crawl with everseen.scrapy.Scheduler, whose queue is in its JOBDIR. "
                "Go on with that scheduler, or give this crawl another JOBDIR."
            )
        if not state.clean:
            if self.settings.after_crash == "stop":
                raise UncleanEndError(_ADVICE.format(path=self.settings.path))
            logger.warning("The last run was killed: pages that it had queued and not fetched are lost")

    def open_store(self) -> State | None:
        """Open the store, and return what the last commit says."""
        path = self.settings.path
        self._begun, self.rolled_back = None, 0
        if path is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="everseen-"))
            path = self._temporary / "requests.ever"
        try:
            store = self._open(path)
            last = store.last_commit()
            state = None if last is None else State.of(last.tag)
            if store.stats().forgetting is not None:
                store.close()
                self._begun = self._begin(state)
                self._open(path, self._begun)
        except UnmetOptionError as error:
            self.close_store()
            if error.option == "transactional":
                message = f"{path} is not transactional: a crawl that is killed could not go back"
                raise OtherJobError(message) from error
            raise
        except BaseException:
            self.close_store()
            raise
        self._count("everseen/rolled_back", self.rolled_back)
        self.postpone()
        return state

    def _open(self, path: Path, at: float | None = None) -> everseen.Store:
        settings = self.settings
        fpr = settings.fpr
        if fpr is None and not path.exists():
            fpr = _FPR
        with warnings.catch_warnings():
            # Of a crawl that goes on beside one that began later.
            warnings.filterwarnings("ignore", ".*an earlier `at`", NoEffectWarning)
            self.store = everseen.open(
                path,
                settings.capacity,
                fpr,
                transactional=True,
                buffer=settings.buffer,
                writer=settings.writer,
                forget_after=settings.forget_after,
                at=at,
            )
        self.rolled_back += self.store.recovery.dropped
        return self.store

    def _begin(self, state: State | None) -> float:
        """Return when the crawl began whose last commit this is: what time it is for a store that forgets.

        For a crawl, time stands still. So none of its pages is due before it ends, however long it takes: a link back to
        its first page would fetch all of them again. And all are due at once, so that the next crawl finds its way to each
        that is.
        """
        now = time()
        # Without a queue on disk, each run is a crawl of its own, however the last one ended.
        if not self.settings.resumes or state is None or state.begun is None:
            return now
        return min(now, state.begun)

    def close_store(self) -> None:
        store, self.store = self.store, None
        if store is not None:
            # What counts was committed before. The rest belongs to a run that has failed, or is to be forgotten.
            store.close(discard=True)
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    def close(self, reason: str) -> None:
        """Commit, and close the store."""
        if self.store is not None:
            self.commit(State(clean=True), is_over=reason == "finished")
            self.finish()

    def finish(self) -> None:
        """Close the store after the last commit."""
        assert self.store is not None
        if self._stats is not None:
            expected = self._new * self.store.stats().fpr_now
            self._stats.set_value("everseen/expected_false", expected)
        self.close_store()

    def clear(self) -> None:
        """Forget all requests: remove the store, and begin another."""
        self.close_store()
        if self.settings.path is not None:
            self.settings.path.unlink(missing_ok=True)
        self.open()

    @property
    def debug(self) -> bool:
        """Whether each duplicate is logged, and not the first alone: `DUPEFILTER_DEBUG`."""
        return self.settings.debug

    @property
    def is_due(self) -> bool:
        """Whether it is time for a commit."""
        return monotonic() >= self._due

    @property
    def has_uncommitted(self) -> bool:
        return self._claimed > 0

    def postpone(self) -> None:
        """Have nothing to commit until the next time."""
        self._due = monotonic() + self.settings.interval

    def commit(self, state: State, *, is_over: bool = False) -> None:
        """Commit what was seen. `is_over`: nothing is left to do, so a run that follows begins a crawl of its own."""
        assert self.store is not None
        begun = None if is_over else self._begun
        self.store.commit(dataclasses.replace(state, begun=begun).tag())
        self._claimed = 0
        self.postpone()
        self._count("everseen/commits")

    def _commit_alone(self) -> None:
        if self.has_uncommitted:
            self.commit(State(clean=False))
        else:
            self.postpone()

    def commit_through(self, committer: Callable[[], None]) -> None:
        """Have someone else commit, when it is time or a transaction can't grow."""
        self._committer = committer

    def request_seen(self, request: Request) -> bool:
        """Return whether an equal request was seen before; from now on it was."""
        if self.store is None:
            self.open()
        if self.is_due:
            self._committer()
        fingerprint = self.fingerprinter.fingerprint(request)
        verdict = self._claim(fingerprint)
        if verdict == everseen.Verdict.SEEN:
            self._let_through.discard(fingerprint)
            self._count("everseen/seen")
            return True
        if verdict == everseen.Verdict.PENDING:
            # Another crawl has it, and may be killed before it commits: this one fetches it, too, and once.
            self._count("everseen/pending")
            if fingerprint in self._let_through:
                return True
            self._let_through.add(fingerprint)
            return False
        self._let_through.discard(fingerprint)
        self._new += 1
        self._claimed += 1
        self._count("everseen/new")
        return False

    def _claim(self, fingerprint: bytes) -> everseen.Verdict:
        assert self.store is not None
        try:
            return self.store.claim(fingerprint)
        except TransactionTooLargeError:
            self._committer()
            return self.store.claim(fingerprint)

    def log(self, request: Request, spider: Spider) -> None:
        """Log and count a request that was seen before."""
        arguments: dict[str, Any] = {"request": request, "referer": referer_str(request)}
        if self.settings.debug:
            message = "Filtered duplicate request: %(request)s (referer: %(referer)s)"
            _duplicates.debug(message, arguments, extra={"spider": spider})
        elif self._logs_duplicates:
            message = (
                "Filtered duplicate request: %(request)s - no more duplicates will be shown"
                " (see DUPEFILTER_DEBUG to show all duplicates)"
            )
            _duplicates.debug(message, arguments, extra={"spider": spider})
            self._logs_duplicates = False
        crawler = getattr(spider, "crawler", None)
        if crawler is not None and crawler.stats is not None:
            crawler.stats.inc_value("dupefilter/filtered")

    def _count(self, name: str, count: int = 1) -> None:
        if self._stats is not None:
            self._stats.inc_value(name, count)
