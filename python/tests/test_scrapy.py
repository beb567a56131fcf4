"""The filter and the scheduler for Scrapy, without a crawl; crawls that are killed are in test_scrapy_killed.py."""

import json
import logging
import os
import random
from types import SimpleNamespace

import pytest

scrapy = pytest.importorskip("scrapy")

import scrapy.core.scheduler
from scrapy.utils.test import get_crawler

import everseen
from everseen import errors
from everseen.scrapy import DupeFilter, JournalError, OtherJobError, Scheduler, UncleanEndError, _journal

SEED = int.from_bytes(os.urandom(4), "big")


class Spider(scrapy.Spider):
    name = "tests"

    def parse(self, response):
        pass

    def other(self, response):
        pass


def crawler_of(**settings):
    defaults = {"JOBDIR": "job", "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue"}
    crawler = get_crawler(Spider, {**defaults, **settings})
    crawler.spider = crawler._create_spider("tests") if hasattr(crawler, "_create_spider") else Spider()
    crawler.engine = SimpleNamespace(_slot=SimpleNamespace(inprogress=set()))
    return crawler


def filter_of(**settings):
    made = DupeFilter.from_crawler(crawler_of(**settings))
    made.open()
    return made


def request(n, **arguments):
    return scrapy.Request(f"http://127.0.0.1/{n}", **arguments)


def kill(what):
    """Leaves a filter or a scheduler as a killed process does: without a last commit."""
    if isinstance(what, Scheduler):
        what._pending.journal.close()
        what = what.df
    what.store.close()


# The filter


def test_the_filter_remembers_from_run_to_run():
    first = filter_of()
    assert [first.request_seen(request(n)) for n in (1, 2, 1)] == [False, False, True]
    first.close("finished")
    second = filter_of()
    assert [second.request_seen(request(n)) for n in (1, 2, 3)] == [True, True, False]
    second.close("finished")
    assert os.path.exists("job/requests.ever")


def test_the_crawlers_fingerprints_are_used():
    made = filter_of()
    assert not made.request_seen(scrapy.Request("http://127.0.0.1/?a=1&b=2"))
    assert made.request_seen(scrapy.Request("http://127.0.0.1/?b=2&a=1"))
    assert not made.request_seen(scrapy.Request("http://127.0.0.1/?a=1&b=2", method="POST"))
    made.close("finished")


def test_without_a_job_the_store_is_temporary():
    made = filter_of(JOBDIR=None)
    assert not made.request_seen(request(1))
    path = made.store.path
    assert os.path.exists(path)
    made.close("finished")
    assert not os.path.exists(os.path.dirname(path))


def test_after_a_kill_the_filter_stops_with_advice():
    first = filter_of(EVERSEEN_COMMIT_INTERVAL=1000)
    first.request_seen(request(1))
    first._committer()
    first.request_seen(request(2))
    kill(first)
    with pytest.raises(UncleanEndError, match="everseen.scrapy.Scheduler"):
        filter_of()
    # Asking does not make it clean.
    with pytest.raises(UncleanEndError):
        filter_of()
    kept = filter_of(EVERSEEN_AFTER_CRASH="keep")
    assert [kept.request_seen(request(n)) for n in (1, 2)] == [True, False]
    kept.close("finished")
    filter_of().close("finished")


def test_a_transaction_that_can_not_grow_is_committed():
    made = filter_of(EVERSEEN_BUFFER=1 << 17, EVERSEEN_COMMIT_INTERVAL=1000)
    count = 2 * made.store.transaction_quota + 10
    assert not any(made.request_seen(request(n)) for n in range(count))
    assert made._stats.get_value("everseen/commits") >= 3
    assert made._stats.get_value("everseen/new") == count
    kill(made)
    kept = filter_of(EVERSEEN_AFTER_CRASH="keep")
    assert all(kept.request_seen(request(n)) for n in range(count // 2))
    kept.close("finished")


def test_an_interval_of_nothing_commits_each_time():
    made = filter_of(EVERSEEN_COMMIT_INTERVAL=0)
    for n in range(5):
        made.request_seen(request(n))
    # The last one is due with the next.
    assert made._stats.get_value("everseen/commits") == 5
    made.close("finished")


def test_crawls_that_share_a_store_let_each_others_pending_through():
    first = filter_of(EVERSEEN_PATH="shared.ever", EVERSEEN_WRITER="first", JOBDIR=None)
    second = filter_of(EVERSEEN_PATH="shared.ever", EVERSEEN_WRITER="second", JOBDIR=None)
    assert not first.request_seen(request(1))
    assert not second.request_seen(request(1))
    assert second._stats.get_value("everseen/pending") == 1
    first.commit(_state(clean=False))
    assert second.request_seen(request(1))
    first.close("finished")
    second.close("finished")


def _state(**fields):
    from everseen.scrapy._state import State

    return State(**fields)


def test_what_scrapy_redis_calls(caplog):
    settings = crawler_of().settings
    made = DupeFilter.from_settings(settings)
    # It opens no filter.
    assert not made.request_seen(request(1))
    assert made.request_seen(request(1))
    made.clear()
    assert not made.request_seen(request(1))
    made.close("")
    crawler = crawler_of()
    crawler.spider.crawler = crawler
    made = DupeFilter.from_spider(crawler.spider)
    assert made.settings.writer == "scrapy:tests"
    with caplog.at_level(logging.DEBUG):
        for _ in range(3):
            made.log(request(1), crawler.spider)
    assert crawler.stats.get_value("dupefilter/filtered") == 3
    assert [record.levelname for record in caplog.records if "Filtered" in record.message] == ["DEBUG"]


def test_stats_of_the_filter():
    made = filter_of()
    for n in (1, 2, 3, 1):
        made.request_seen(request(n))
    made.close("finished")
    stats = made._stats.get_stats()
    assert (stats["everseen/new"], stats["everseen/seen"]) == (3, 1)
    assert 0 <= stats["everseen/expected_false"] <= 3e-9


@pytest.mark.parametrize(
    ("setting", "value"), [("EVERSEEN_AFTER_CRASH", "maybe"), ("EVERSEEN_UNSERIALIZABLE", "ignore")]
)
def test_wrong_settings(setting, value):
    with pytest.raises(ValueError, match=setting):
        filter_of(**{setting: value})


def test_stores_of_other_programs_are_left_alone():
    everseen.open("plain.ever").close()
    with pytest.raises(OtherJobError, match="not transactional"):
        filter_of(EVERSEEN_PATH="plain.ever")
    with everseen.open("mine.ever", transactional=True, writer="scrapy:tests") as store:
        store.commit(b"line 5")
    with pytest.raises(OtherJobError, match="line 5"):
        filter_of(EVERSEEN_PATH="mine.ever")
    with everseen.open("mine.ever", writer="scrapy:tests") as store:
        assert store.last_commit().tag == b"line 5"


# The scheduler


def scheduler_of(crawler=None, **settings):
    crawler = crawler or crawler_of(**{"EVERSEEN_COMMIT_INTERVAL": 1000, **settings})
    made = Scheduler.from_crawler(crawler)
    made.open(crawler.spider)
    return made


def take(scheduler):
    """Takes the next request, as the engine does."""
    taken = scheduler.next_request()
    if taken is not None:
        scheduler.crawler.engine._slot.inprogress.add(taken)
    return taken


def drain(scheduler):
    return [taken.url.rsplit("/")[-1] for taken in iter(scheduler.next_request, None)]


def test_a_scheduler_resumes_what_was_closed():
    first = scheduler_of()
    assert all(first.enqueue_request(request(n)) for n in range(3))
    assert not first.enqueue_request(request(1))
    assert first.has_pending_requests()
    first.close("shutdown")
    second = scheduler_of()
    assert len(second) == 3
    assert not second.enqueue_request(request(2))
    assert drain(second) == ["2", "1", "0"]
    second.close("finished")
    third = scheduler_of()
    assert not third.has_pending_requests()
    third.close("finished")


def test_a_request_comes_back_as_it_was():
    first = scheduler_of()
    made = request(
        1, method="POST", body=b"b", headers={"A": "b"}, meta={"m": [1]}, priority=3, callback=first.spider.other
    )
    first.enqueue_request(made)
    first.enqueue_request(scrapy.FormRequest("http://127.0.0.1/form", formdata={"a": "b"}))
    first.close("shutdown")
    second = scheduler_of()
    again = second.next_request()
    assert again.to_dict(spider=second.spider) == made.to_dict(spider=first.spider)
    assert again.callback == second.spider.other
    assert type(second.next_request()) is scrapy.FormRequest
    second.close("finished")


def test_what_is_in_flight_is_queued_again():
    first = scheduler_of()
    for n in range(4):
        first.enqueue_request(request(n))
    done, flying = take(first), take(first)
    first.crawler.engine._slot.inprogress.remove(done)
    first._commit()
    # This end comes too late to count.
    first.crawler.engine._slot.inprogress.remove(flying)
    first.enqueue_request(request(9))
    kill(first)
    second = scheduler_of()
    assert sorted(drain(second)) == ["0", "1", "2"]
    assert second.stats.get_value("everseen/requeued") == 3
    # It was not seen after all.
    assert second.enqueue_request(request(9))
    second.close("finished")


def test_a_killed_run_is_told(caplog):
    first = scheduler_of()
    first.enqueue_request(request(1))
    first._commit()
    kill(first)
    with caplog.at_level(logging.INFO):
        second = scheduler_of()
    assert "The last run was killed" in caplog.text
    second.close("shutdown")
    caplog.clear()
    with caplog.at_level(logging.INFO):
        scheduler_of().close("finished")
    assert "killed" not in caplog.text
    assert "1 requests scheduled" in caplog.text


@pytest.mark.parametrize("small", [_journal._SMALL, 0])
def test_kills_against_a_model(monkeypatch, small):
    monkeypatch.setattr(_journal, "_SMALL", small)
    rng = random.Random(SEED)
    scheduler = scheduler_of()
    seen, to_do = set(), {}
    committed = (set(seen), dict(to_do))
    flying = {}
    for _ in range(1500):
        step = rng.random()
        if step < 0.5:
            n = rng.randrange(300)
            assert scheduler.enqueue_request(request(n)) == (n not in seen), f"seed {SEED}"
            if n not in seen:
                seen.add(n)
                to_do[n] = True
        elif step < 0.75:
            taken = take(scheduler)
            assert (taken is None) == (len(to_do) == len(flying)), f"seed {SEED}"
            if taken is not None:
                flying[int(taken.url.rsplit("/")[-1])] = taken
        elif step < 0.9 and flying:
            n = rng.choice(list(flying))
            scheduler.crawler.engine._slot.inprogress.remove(flying.pop(n))
            del to_do[n]
        elif step < 0.97:
            scheduler._commit()
            assert len(_journal.Journal.numbers(os_path("job"))) == 1
            committed = (set(seen), dict(to_do))
        else:
            kill(scheduler)
            scheduler = scheduler_of()
            seen, to_do, flying = set(committed[0]), dict(committed[1]), {}
            assert len(scheduler) == len(to_do), f"seed {SEED}"
    scheduler.close("shutdown")


def os_path(name):
    import pathlib

    return pathlib.Path(name)


def test_a_rewrite_that_no_commit_followed_is_undone(monkeypatch):
    monkeypatch.setattr(_journal, "_SMALL", 0)
    first = scheduler_of()
    for n in range(10):
        first.enqueue_request(request(n))
    first._commit()
    number = first._pending.journal.number
    before = first._pending.rewrite()
    before.close()
    kill(first)
    assert _journal.Journal.numbers(os_path("job")) == [number, number + 1]
    second = scheduler_of()
    assert _journal.Journal.numbers(os_path("job")) == [number]
    assert len(drain(second)) == 10
    second.close("finished")


@pytest.mark.parametrize("disk", ["PickleLifoDiskQueue", "PickleFifoDiskQueue", "MarshalFifoSQLiteQueue"])
@pytest.mark.parametrize("start", ["scrapy.squeues.PickleFifoDiskQueue", None])
def test_the_order_is_scrapys(disk, start):
    """Also after a run that was closed in between."""
    if not hasattr(scrapy.squeues, disk):
        pytest.skip("this Scrapy has no such queue")
    rng = random.Random(SEED)
    settings = {"SCHEDULER_DISK_QUEUE": f"scrapy.squeues.{disk}", "SCHEDULER_START_DISK_QUEUE": start}
    ours = scheduler_of(**settings)
    theirs = their_scheduler(**settings)
    for step in range(600):
        if rng.random() < 0.55:
            meta = {"is_start_request": True} if rng.random() < 0.3 else {}
            made = request(step, priority=rng.randrange(3), meta=meta)
            assert ours.enqueue_request(made) and theirs.enqueue_request(made)
        else:
            pair = ours.next_request(), theirs.next_request()
            assert pair[0] is pair[1] is None or pair[0].url == pair[1].url, f"seed {SEED}"
        if step == 300:
            ours.close("shutdown")
            theirs.close("shutdown")
            ours, theirs = scheduler_of(**settings), their_scheduler(**settings)
    assert drain(ours) == drain(theirs), f"seed {SEED}"
    ours.close("finished")
    theirs.close("finished")


def their_scheduler(**settings):
    crawler = crawler_of(JOBDIR="theirs", **settings)
    made = scrapy.core.scheduler.Scheduler.from_crawler(crawler)
    made.open(crawler.spider)
    return made


def test_requests_that_can_not_be_serialized():
    made = scheduler_of()
    assert made.enqueue_request(request(1, callback=lambda response: None))
    assert made.stats.get_value("scheduler/unserializable") == 1
    assert len(made) == 1
    made.close("shutdown")
    strict = scheduler_of(EVERSEEN_UNSERIALIZABLE="error")
    with pytest.raises(ValueError, match="not an instance method"):
        strict.enqueue_request(request(2, callback=lambda response: None))
    # It does not count as seen.
    assert strict.enqueue_request(request(2))
    strict.close("finished")


def test_schedulers_that_can_not_be():
    with pytest.raises(ValueError, match="JOBDIR"):
        scheduler_of(JOBDIR=None)
    with pytest.raises(ValueError, match="DUPEFILTER_CLASS"):
        scheduler_of(DUPEFILTER_CLASS="scrapy.dupefilters.BaseDupeFilter")
    made = scheduler_of(DUPEFILTER_CLASS="everseen.scrapy.DupeFilter")
    made.close("finished")


def test_jobs_of_other_schedulers_are_left_alone():
    theirs = their_scheduler()
    theirs.enqueue_request(request(1))
    theirs.close("shutdown")
    with pytest.raises(OtherJobError, match="Scrapy's scheduler"):
        scheduler_of(JOBDIR="theirs")
    filter_of(JOBDIR="alone").close("shutdown")
    with pytest.raises(OtherJobError, match="Scrapy's scheduler"):
        scheduler_of(JOBDIR="alone")
    scheduler_of(JOBDIR="ours").close("shutdown")
    with pytest.raises(OtherJobError, match="everseen.scrapy.Scheduler"):
        filter_of(JOBDIR="ours")


def test_halves_of_a_job_are_refused():
    made = scheduler_of()
    made.enqueue_request(request(1))
    made.close("shutdown")
    os.rename("job/requests.ever", "job/away")
    with pytest.raises(JournalError, match="is gone"):
        scheduler_of()
    os.remove("job/requests.ever")
    os.rename("job/away", "job/requests.ever")
    os.rename("job/requests.journal-1", "job/away")
    with pytest.raises(JournalError, match="missing"):
        scheduler_of()
    os.rename("job/away", "job/requests.journal-1")
    made = scheduler_of()
    assert drain(made) == ["1"]
    made.close("finished")


def test_the_tag_says_what_counts():
    made = scheduler_of()
    made.enqueue_request(request(1))
    made._commit()
    tag = json.loads(made.df.store.last_commit().tag)
    assert tag == {
        "everseen.scrapy": 1,
        "clean": False,
        "journal": 1,
        "length": os.path.getsize("job/requests.journal-1"),
    }
    made.close("finished")
    assert issubclass(errors.TransactionTooLargeError, everseen.EverseenError)
