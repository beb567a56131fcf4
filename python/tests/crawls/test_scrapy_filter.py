"""The filter for Scrapy, without a crawl."""

import logging
import os

import pytest

scrapy = pytest.importorskip("scrapy")

import everseen
from everseen.scrapy import DupeFilter, OtherJobError, UncleanEndError
from everseen.scrapy._state import State
from scrapy_jobs import crawler_of, filter_of, kill, killed, request


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
    # It has that queued by now, however many links lead there.
    assert second.request_seen(request(1)) and second.request_seen(request(1))
    assert not second.request_seen(request(2))
    assert second._stats.get_value("everseen/pending") == 3
    first.commit(State(clean=False))
    assert second.request_seen(request(1))
    first.close("finished")
    second.close("finished")


def test_what_a_killed_filter_had_not_committed_is_counted():
    killed("""
made = filter_of(EVERSEEN_COMMIT_INTERVAL=1000)
for n in (1, 2):
    made.request_seen(request(n))
made._committer()
for n in (2, 3, 4, 5, 5):
    made.request_seen(request(n))
""")
    kept = filter_of(EVERSEEN_AFTER_CRASH="keep")
    assert kept._stats.get_value("everseen/rolled_back") == 3
    assert [kept.request_seen(request(n)) for n in range(1, 6)] == [True, True, False, False, False]
    kept.close("finished")
    after = filter_of()
    assert after._stats.get_value("everseen/rolled_back") == 0
    after.close("finished")


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


def test_a_store_of_a_higher_rate_is_shared_unless_the_crawl_asks_for_a_lower_one():
    everseen.open("shared.ever", fpr=1e-6, transactional=True).close()
    made = filter_of(EVERSEEN_PATH="shared.ever")
    assert not made.request_seen(request(1))
    made.close("finished")
    with pytest.raises(everseen.errors.UnmetOptionError, match="has a rate of 1e-6; leave out `fpr`"):
        filter_of(EVERSEEN_PATH="shared.ever", EVERSEEN_FPR=1e-9)
