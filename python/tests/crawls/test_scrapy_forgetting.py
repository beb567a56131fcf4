"""Crawls that fetch pages again after some time."""

from datetime import timedelta

import pytest

scrapy = pytest.importorskip("scrapy")

import crawl_site
import everseen
from everseen.errors import UnmetOptionError
from everseen.scrapy import OtherJobError, _dupefilter
from everseen.scrapy._state import Settings, State
from scrapy.utils.request import RequestFingerprinter
from scrapy_jobs import crawler_of, drain, filter_of, kill, request, scheduler_of, take

DAY = 86_400
# With a window of 30 days, a step of two days begins here.
BEGIN = 20_454 * DAY
WINDOW = {"EVERSEEN_FORGET_AFTER": "30d"}


@pytest.fixture
def clock(monkeypatch):
    """Sets how many days have passed."""

    def set_to(days):
        monkeypatch.setattr(_dupefilter, "time", lambda: BEGIN + days * DAY)

    set_to(0)
    return set_to


def seen(made, numbers):
    return [n for n in numbers if made.request_seen(request(n))]


def crawled(numbers, **settings):
    """A crawl of these pages, from its begin to its end. Returns those that it fetched."""
    scheduler = scheduler_of(**WINDOW, **settings)
    for n in numbers:
        scheduler.enqueue_request(request(n))
    fetched = []
    while taken := take(scheduler):
        fetched.append(int(taken.url.rsplit("/")[-1]))
        scheduler.crawler.engine._slot.inprogress.remove(taken)
    scheduler.close("finished")
    return sorted(fetched)


@pytest.mark.parametrize("reason", ["closespider_timeout", "shutdown", "finished"])
def test_a_crawl_without_a_folder_ends_with_its_run(clock, tmp_path, reason):
    settings = {**WINDOW, "EVERSEEN_PATH": str(tmp_path / "shared.ever"), "JOBDIR": None}
    for days, due in [(0, [1, 2]), (20, []), (33, [1, 2])]:
        clock(days)
        made = filter_of(**settings)
        assert [n for n in (1, 2) if not made.request_seen(request(n))] == due
        made.close(reason)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("30d", 30 * DAY), ("1.5h", 5400), ("2 W", 14 * DAY), ("90", 90), (90, 90), (2.5, 2.5), (timedelta(days=1), DAY)],
)
def test_the_setting_is_a_length_of_time(value, seconds):
    assert Settings.of(crawler_of(EVERSEEN_FORGET_AFTER=value).settings, None).forget_after == seconds


@pytest.mark.parametrize("value", ["month", "30 days", "-1d", "1.2.3d", [30]])
def test_no_other_setting_is(value):
    with pytest.raises(ValueError, match="EVERSEEN_FORGET_AFTER is .*such as '12h' or '30d'"):
        Settings.of(crawler_of(EVERSEEN_FORGET_AFTER=value).settings, None)


def test_a_crawl_fetches_what_is_due_and_nothing_else(clock):
    assert crawled(range(10)) == list(range(10))
    clock(20)
    assert crawled(range(15)) == [10, 11, 12, 13, 14]
    clock(31.9)
    assert crawled(range(15)) == []
    clock(32)
    assert crawled(range(15)) == list(range(10))
    clock(52)
    assert crawled(range(15)) == [10, 11, 12, 13, 14]


def test_time_stands_still_until_a_crawl_ends(clock):
    """Not each time that it is stopped or killed, and goes on."""
    first = scheduler_of(**WINDOW)
    for n in range(4):
        first.enqueue_request(request(n))
    first.crawler.engine._slot.inprogress.remove(take(first))
    first.close("shutdown")
    for days, end in [(40, kill), (80, lambda made: made.close("shutdown")), (120, kill)]:
        clock(days)
        again = scheduler_of(**WINDOW)
        assert again.df.store.stats().forgetting.now == BEGIN
        assert not any(again.enqueue_request(request(n)) for n in range(4))
        again._commit()
        end(again)
    clock(160)
    last = scheduler_of(**WINDOW)
    assert len(last) == 3
    while taken := take(last):
        last.crawler.engine._slot.inprogress.remove(taken)
    last.close("finished")
    # The next run begins a crawl, to which all of it is due.
    assert crawled(range(4)) == [0, 1, 2, 3]


def test_a_crawl_that_was_killed_with_nothing_left_is_over(clock):
    first = scheduler_of(**WINDOW)
    first.enqueue_request(request(1))
    first.crawler.engine._slot.inprogress.remove(take(first))
    first._commit()
    kill(first)
    clock(40)
    assert crawled([1]) == [1]


@pytest.mark.parametrize(("reason", "expected"), [("finished", [0, 1]), ("shutdown", [])])
def test_the_filter_alone_begins_a_crawl_after_one_that_finished(clock, reason, expected):
    first = filter_of(**WINDOW)
    assert seen(first, [0, 1]) == []
    first.close(reason)
    clock(40)
    second = filter_of(**WINDOW)
    assert [n for n in [0, 1] if not second.request_seen(request(n))] == expected
    second.close(reason)


def test_a_killed_filter_goes_on_at_its_time(clock):
    first = filter_of(**WINDOW, EVERSEEN_COMMIT_INTERVAL=0)
    assert seen(first, [0, 1]) == []
    kill(first)
    clock(40)
    kept = filter_of(**WINDOW, EVERSEEN_AFTER_CRASH="keep")
    assert seen(kept, [0]) == [0]
    # Forgetting is for the store to do: this begins another.
    kept.clear()
    assert seen(kept, [0]) == [] and kept.store.stats().forgetting.now == BEGIN + 40 * DAY
    kept.close("finished")


def test_a_clock_that_was_ahead_when_a_crawl_began_is_not_believed_again(clock):
    clock(10_000)
    first = scheduler_of(**WINDOW)
    first.enqueue_request(request(1))
    first.close("shutdown")
    everseen.repair("job/requests.ever", "never_seen", set_clock=BEGIN)
    clock(3)
    second = scheduler_of(**WINDOW)
    assert second.df.store.stats().forgetting.now == BEGIN + 3 * DAY
    assert drain(second) == ["1"]
    second.close("shutdown")


def test_crawls_that_share_a_store_share_its_time(clock):
    """The later one decides what is due for both."""
    shared = {"EVERSEEN_PATH": "shared.ever", **WINDOW}
    first = scheduler_of(**shared, JOBDIR="first", EVERSEEN_WRITER="first")
    assert all(first.enqueue_request(request(n)) for n in range(4))
    first._commit()
    clock(40)
    second = scheduler_of(**shared, JOBDIR="second", EVERSEEN_WRITER="second")
    assert second.enqueue_request(request(0)) and not second.enqueue_request(request(0))
    second._commit()
    assert [first.enqueue_request(request(n)) for n in (0, 1, 1)] == [False, True, False]
    second.close("shutdown")
    first.close("shutdown")
    # It goes on at its own time, which is over in that store, and no warning says so.
    first = scheduler_of(**shared, JOBDIR="first", EVERSEEN_WRITER="first")
    assert len(first) == 5 and first.df.store.stats().forgetting.now == BEGIN + 40 * DAY
    first.close("shutdown")


def test_a_store_that_forgets_needs_no_setting(clock):
    """One that the command has made, or another crawl."""
    everseen.open("made.ever", transactional=True, forget_after=30 * DAY, fpr=1e-9).close()
    first = filter_of(EVERSEEN_PATH="made.ever")
    assert seen(first, [0]) == []
    first.close("finished")
    clock(40)
    second = filter_of(EVERSEEN_PATH="made.ever")
    assert seen(second, [0]) == []
    second.close("finished")


def test_a_store_that_keeps_pages_is_another():
    filter_of().close("finished")
    with pytest.raises(UnmetOptionError, match="keeps keys for ever") as raised:
        filter_of(**WINDOW)
    assert raised.value.option == "forget_after"
    # It is not left open, and its crawl goes on without the setting.
    made = filter_of()
    assert made.store.stats().forgetting is None and b"begun" not in made.store.last_commit().tag
    made.close("finished")


def test_a_begin_that_is_none_is_refused():
    for begun in ["-1", '"a"', "NaN"]:
        tag = f'{{"everseen.scrapy": 1, "clean": true, "begun": {begun}}}'.encode()
        with pytest.raises(OtherJobError):
            State.of(tag)
    assert State.of(State(True, 1, 2, 3.5).tag()) == State(True, 1, 2, 3.5)


@pytest.fixture
def site():
    made = crawl_site.Site(40)
    yield made
    made.close()


def test_a_restarted_spider_fetches_the_pages_that_are_due(site):
    settings = {**crawl_site.OURS, **WINDOW}

    def crawl(days):
        before = site.fetched.copy()
        assert crawl_site.run(site.port, settings, BEGIN + days * DAY).wait() == 0
        return site.fetched - before

    assert crawl(0) == dict.fromkeys(range(40), 1)
    assert crawl(20) == {}
    # Pages that were found since, as by another crawl.
    fingerprint = RequestFingerprinter().fingerprint
    with everseen.open("job/requests.ever", at=BEGIN + 20 * DAY) as store:
        for page in range(40, 60):
            assert store.insert(fingerprint(scrapy.Request(f"http://127.0.0.1:{site.port}/{page}")))
    site.pages = 60
    assert crawl(33) == dict.fromkeys(range(40), 1)
    assert crawl(34) == {}
    # All that is due, and can be reached from what is due.
    assert crawl(66) == dict.fromkeys(range(60), 1)


@pytest.mark.parametrize("scheduler", [True, False])
def test_a_crawl_that_is_longer_than_its_window_ends(site, scheduler):
    """Each page links to others that link back; without an end of its own it would go round until it is closed."""
    settings = {
        **(crawl_site.OURS if scheduler else {"DUPEFILTER_CLASS": "everseen.scrapy.DupeFilter"}),
        "EVERSEEN_FORGET_AFTER": 1,
        "DOWNLOAD_DELAY": 0.06,
        "RANDOMIZE_DOWNLOAD_DELAY": False,
        "CLOSESPIDER_PAGECOUNT": 120,
    }
    assert crawl_site.run(site.port, settings).wait() == 0
    assert site.fetched == dict.fromkeys(range(40), 1)
