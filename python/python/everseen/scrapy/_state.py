"""What a crawl's commits say, and what the settings do."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.utils.job import job_dir

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

_VERSION = 1
# As the command takes them.
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class UncleanEndError(RuntimeError):
    """The last run was killed, and its filter knows pages that its queue has forgotten."""


class OtherJobError(RuntimeError):
    """The job's folder belongs to a crawl of another kind."""


@dataclass(frozen=True)
class State:
    """The tag of a commit."""

    clean: bool
    """Whether the run has closed."""
    journal: int | None = None
    """The number of the scheduler's journal; `None` if the filter is Scrapy's scheduler's."""
    length: int = 0
    """The bytes of the journal that count."""
    begun: float | None = None
    """When the crawl began, in seconds since 1970, if it has not ended and its store forgets."""

    def tag(self) -> bytes:
        fields = {"everseen.scrapy": _VERSION, **asdict(self)}
        if self.begun is None:
            # Earlier versions refuse what they don't know.
            del fields["begun"]
        return json.dumps(fields).encode()

    @classmethod
    def of(cls, tag: bytes) -> State:
        try:
            fields = json.loads(tag)
            if fields.pop("everseen.scrapy") != _VERSION:
                raise ValueError(f"of version {fields}")
            state = cls(**fields)
            numbers = [state.length] if state.journal is None else [state.length, state.journal]
            if not all(isinstance(number, int) and number >= 0 for number in numbers):
                raise ValueError(f"with {numbers}")
            if state.begun is not None and not state.begun >= 0:
                raise ValueError(f"begun at {state.begun}")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise OtherJobError(
                f"the store's last commit was not made by everseen.scrapy: its tag is {tag[:60]!r}. "
                "Give the crawl a name of its own (EVERSEEN_WRITER), or another store (EVERSEEN_PATH)."
            ) from error
        return state


def _choice(settings: BaseSettings, name: str, choices: tuple[str, ...]) -> str:
    value = settings.get(name, choices[0])
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; there are {' and '.join(map(repr, choices))}")
    return str(value)


def _optional_int(settings: BaseSettings, name: str) -> int | None:
    value = settings.get(name)
    return None if value is None else int(value)


def _optional_float(settings: BaseSettings, name: str) -> float | None:
    value = settings.get(name)
    return None if value is None else float(value)


def _optional_time(settings: BaseSettings, name: str) -> float | None:
    """Return a length of time in seconds."""
    value = settings.get(name)
    if value is None:
        return None
    if isinstance(value, timedelta):
        return value.total_seconds()
    parts = re.fullmatch(r"\s*([0-9.]+)\s*([smhdw]?)\s*", str(value), re.IGNORECASE)
    try:
        return float(parts[1]) * _SECONDS[parts[2].lower()] if parts else float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {value!r}; it is a number of seconds, or one such as '12h' or '30d'") from None


@dataclass(frozen=True)
class Settings:
    """The settings of a crawl."""

    path: Path | None
    """The store; `None` for one that ends with the run."""
    resumes: bool
    """Whether a crawl that is stopped goes on with the next run: it has a `JOBDIR`."""
    fpr: float | None
    """The rate that the crawl asks for; `None` is 1e-9 for a new store."""
    capacity: int | None
    forget_after: float | None
    """Seconds after which pages are to be fetched again; `None` never."""
    buffer: int | None
    writer: str
    interval: float
    after_crash: str
    strict: bool
    """Whether a request that can't be written to disk is an error."""
    debug: bool

    @classmethod
    def of_crawler(cls, crawler: Crawler) -> Settings:
        """Return a crawler's settings, with the name of its spider."""
        return cls.of(crawler.settings, getattr(crawler.spider or crawler.spidercls, "name", None))

    @classmethod
    def of(cls, settings: BaseSettings, spider: str | None) -> Settings:
        folder, path = job_dir(settings), settings.get("EVERSEEN_PATH")
        if path is None and folder is not None:
            path = Path(folder, "requests.ever")
        return cls(
            path=None if path is None else Path(path),
            resumes=folder is not None,
            fpr=_optional_float(settings, "EVERSEEN_FPR"),
            capacity=_optional_int(settings, "EVERSEEN_CAPACITY"),
            forget_after=_optional_time(settings, "EVERSEEN_FORGET_AFTER"),
            buffer=_optional_int(settings, "EVERSEEN_BUFFER"),
            writer=settings.get("EVERSEEN_WRITER") or (f"scrapy:{spider}" if spider else "scrapy"),
            interval=settings.getfloat("EVERSEEN_COMMIT_INTERVAL", 1.0),
            after_crash=_choice(settings, "EVERSEEN_AFTER_CRASH", ("stop", "keep")),
            strict=_choice(settings, "EVERSEEN_UNSERIALIZABLE", ("count", "error")) == "error",
            debug=settings.getbool("DUPEFILTER_DEBUG"),
        )
